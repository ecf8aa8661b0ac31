//! Reductions of 16-bit integers from lanes of exact sums.

use super::{LANES, WINDOW};

fn total(sums: &[i32; LANES]) -> i64 {
    sums.iter().map(|&sum| i64::from(sum)).sum()
}

#[inline(always)]
pub(crate) fn sum(sums: &[i32; LANES], _squares: &[i64; LANES]) -> i64 {
    total(sums)
}

#[inline(always)]
pub(crate) fn mean(sums: &[i32; LANES], _squares: &[i64; LANES]) -> f64 {
    total(sums) as f64 / WINDOW as f64
}

#[inline(always)]
pub(crate) fn std(sums: &[i32; LANES], squares: &[i64; LANES]) -> f64 {
    let (n, sum) = (WINDOW as i64, total(sums));
    let squares: i64 = squares.iter().sum();
    let m2 = (squares * n - sum * sum) as f64 / n as f64;
    (m2 / n as f64).sqrt()
}
