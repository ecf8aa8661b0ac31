//! [`Block`]: exact sums of a block of integers.

/// Exact sums of a block.
#[derive(Clone, Copy)]
pub struct Block<E> {
    pub(super) sum: i64,
    pub(super) squares: u128,
    pub(super) min: E,
    pub(super) max: E,
}
