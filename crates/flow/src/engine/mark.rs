//! Marks: notices that travel along edges in order with items.

use crate::{Break, RangeOrigin};

#[derive(Debug, Clone)]
pub(crate) enum Mark {
    /// `why`: the break before it, if any.
    RangeStart {
        origin: RangeOrigin,
        why: Option<Break>,
    },
    /// Nothing before this index follows.
    Progress(i64),
    Rewind,
    End,
}
