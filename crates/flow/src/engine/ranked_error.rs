//! [`RankedError`]: an error with its place in what is read, by which the first of several is found.

use super::time_axis::ErrorRank;
use crate::RunError;

pub(crate) struct RankedError {
    pub(super) rank: ErrorRank,
    /// Whether an operator failed, as opposed to an interrupt or a lack of memory.
    pub(super) is_operator_error: bool,
    pub(super) error: RunError,
}
