//! [`Block`]: what is computed of a block of integers, in plain code or with vector instructions.

/// Exact sums of a block.
#[derive(Clone, Copy)]
pub struct Block<E> {
    pub(super) sum: i64,
    pub(super) squares: u128,
    pub(super) min: E,
    pub(super) max: E,
}
