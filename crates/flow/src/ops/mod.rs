//! Operators. Each is one struct, one declaration, one `process`.

mod between;
mod collect;
mod compiled;
mod count;
mod delayed;
mod each;
mod feedback;
mod filter;
mod group_by;
mod join;
mod limit;
mod map;
mod meeting;
mod merge;
mod pass;
mod passthrough;
mod ranges;
mod rewindow;
pub(crate) mod rowwise;
mod select;
mod spectrum;
mod stats;
pub(crate) mod streamed;
mod sync;
mod to_rows;
mod zip;

pub use between::Between;
pub use collect::Collect;
pub(crate) use compiled::Compiled;
pub use count::Count;
pub use delayed::Delayed;
pub use each::Each;
pub use feedback::Feedback;
pub use filter::Filter;
pub use group_by::GroupBy;
pub use join::Join;
pub use limit::Limit;
pub use map::Map;
pub use merge::Merge;
pub use pass::{dtype_in_unit, in_unit, pass_where};
pub use passthrough::Passthrough;
pub use ranges::ToRanges;
pub use rewindow::Rewindow;
pub use select::Select;
pub use spectrum::{Fft, Power};
pub use stats::{Stat, Stats};
pub use sync::Sync;
pub use to_rows::ToRows;
pub use zip::Zip;

use crate::{Declaration, Declared, PlanError, PortType};

/// Every operator of this crate.
pub(crate) const ALL: &[Declaration] = &[
    Between::DECLARATION,
    Collect::DECLARATION,
    Count::DECLARATION,
    Delayed::DECLARATION,
    Feedback::DECLARATION,
    Fft::DECLARATION,
    Filter::DECLARATION,
    GroupBy::DECLARATION,
    Join::DECLARATION,
    Limit::DECLARATION,
    Map::DECLARATION,
    Merge::DECLARATION,
    Passthrough::DECLARATION,
    Power::DECLARATION,
    ToRanges::DECLARATION,
    Rewindow::DECLARATION,
    Select::DECLARATION,
    Stats::DECLARATION,
    Sync::DECLARATION,
    ToRows::DECLARATION,
    Zip::DECLARATION,
];

/// An error that names what an operator takes instead.
pub(crate) fn wrong_input(
    operator: &'static str,
    expected: &'static str,
    got: &PortType,
    mend: &'static str,
) -> PlanError {
    PlanError::InputType {
        operator,
        expected,
        got: got.to_string(),
        mend,
    }
}
