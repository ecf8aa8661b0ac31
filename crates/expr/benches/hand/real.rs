//! Reductions of floats from lanes of sums.

use super::{LANES, tree};

type Lanes = [f64; LANES];

#[inline(always)]
pub(crate) fn sum(_shift: f64, sums: Lanes, _squares: Lanes) -> f64 {
    tree(sums)
}

/// From deviations from `shift`, for [`super::WINDOW`] samples.
#[inline(always)]
pub(crate) fn mean(shift: f64, sums: Lanes, _squares: Lanes) -> f64 {
    shift + tree(sums) / super::WINDOW as f64
}

#[inline(always)]
pub(crate) fn std(_shift: f64, sums: Lanes, squares: Lanes) -> f64 {
    let n = super::WINDOW as f64;
    let (sum, squares) = (tree(sums), tree(squares));
    let variance = (squares - sum * (sum / n)) / n;
    if variance < 0.0 { 0.0 } else { variance.sqrt() }
}
