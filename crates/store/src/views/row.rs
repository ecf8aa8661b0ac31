//! Stored view rows: conversion and merging.

use isochrony_dsp::stats::{Extreme, Statistic, Summary};

pub(crate) trait ViewSample: Statistic<Extreme: bytemuck::Pod> {}
impl<T: Statistic<Extreme: bytemuck::Pod>> ViewSample for T {}

/// All zero without finite samples, like a hole.
pub(crate) fn to_row<E: Extreme>(summary: &Summary<E>) -> ([E; 2], [f64; 3]) {
    if summary.count == 0 {
        return ([E::default(); 2], [0.0; 3]);
    }
    (
        [summary.min, summary.max],
        [summary.count as f64, summary.mean, summary.m2],
    )
}

pub(crate) fn from_row<E: Extreme>([min, max]: [E; 2], [count, mean, m2]: [f64; 3]) -> Summary<E> {
    if count > 0.0 {
        Summary {
            min,
            max,
            count: count as u64,
            mean,
            m2,
        }
    } else {
        Summary::EMPTY
    }
}

/// Two passes avoid a division per row.
pub(crate) fn merge_rows<E: Extreme>(extrema: &[[E; 2]], moments: &[[f64; 3]]) -> Summary<E> {
    let Some(first) = moments.iter().position(|row| row[0] > 0.0) else {
        return Summary::EMPTY;
    };
    let (extrema, moments) = (&extrema[first..], &moments[first..]);
    let [mut min, mut max] = extrema[0];
    // Relative to one mean, so that a large common offset costs no precision.
    let origin = moments[0][1];
    let (mut count, mut shift) = (0.0, 0.0);
    for ([low, high], [n, mean, _]) in extrema.iter().zip(moments) {
        if *n > 0.0 {
            min = if *low < min { *low } else { min };
            max = if *high > max { *high } else { max };
            count += n;
            shift += n * (mean - origin);
        }
    }
    let mean = origin + shift / count;
    let m2 = moments
        .iter()
        .map(|[n, own, m2]| m2 + n * (own - mean) * (own - mean))
        .sum();
    if !mean.is_finite() {
        // Their difference overflowed near the limits of f64. Merging one by one is more precise.
        return extrema
            .iter()
            .zip(moments)
            .fold(Summary::EMPTY, |sum, (e, m)| sum.merge(&from_row(*e, *m)));
    }
    Summary {
        min,
        max,
        count: count as u64,
        mean,
        m2,
    }
}
