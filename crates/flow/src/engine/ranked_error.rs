//! [`RankedError`]: an error and its rank in reading order.

use super::time_axis::ErrorRank;
use crate::RunError;

pub(crate) struct RankedError {
    pub(super) rank: ErrorRank,
    /// Not an interrupt or a lack of memory.
    pub(super) is_operator_error: bool,
    pub(super) error: RunError,
}
