//! Reads one level as a signal.

use std::ops::Range;

use isochrony_dsp::stats::{Extreme, Summary};
use isochrony_segment::{Buffer, DType, dispatch};

use super::render::{Renderer, Source};
use super::row::{ViewSample, from_row};
use super::{bucket, extreme_dtype};
use crate::StoreError;

/// A bucket's measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Minimum as [`extreme_dtype`], of finite samples.
    Min,
    /// Maximum as [`extreme_dtype`], of finite samples.
    Max,
    /// Mean of finite samples, f64.
    Mean,
    /// Population standard deviation, f64, of finite samples.
    Std,
    /// Root mean square of finite samples, f64.
    Rms,
    /// Number of finite samples, i64.
    Count,
}

impl Measure {
    /// Dtype of the values.
    #[must_use]
    pub const fn dtype(self, signal: DType) -> DType {
        match self {
            Self::Min | Self::Max => extreme_dtype(signal),
            Self::Mean | Self::Std | Self::Rms => DType::F64,
            Self::Count => DType::I64,
        }
    }
}

/// Consecutive non-empty buckets.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// First bucket; its first sample is `start * bucket`.
    pub start: i64,
    /// Values of type [`Measure::dtype`].
    pub values: Buffer,
}

/// Reads buckets `range` of `level`, which must end within the signal.
///
/// Those without finite samples are gaps. Those not stored are computed.
///
/// # Errors
/// Reading fails.
pub fn decimate(
    source: &Source<'_>,
    level: usize,
    measure: Measure,
    range: Range<i64>,
) -> Result<Vec<Stretch>, StoreError> {
    dispatch!(source.dtype, T => {
        let summaries = summaries::<T>(source, level, range.clone())?;
        match measure {
            Measure::Min => stretches(range.start, &summaries, |s| s.min),
            Measure::Max => stretches(range.start, &summaries, |s| s.max),
            Measure::Mean => stretches(range.start, &summaries, |s| s.mean),
            Measure::Std => stretches(range.start, &summaries, Summary::std),
            Measure::Rms => stretches(range.start, &summaries, Summary::rms),
            Measure::Count => stretches(range.start, &summaries, |s| s.count as i64),
        }
    })
}

fn summaries<T: ViewSample>(
    source: &Source<'_>,
    level: usize,
    range: Range<i64>,
) -> Result<Vec<Summary<T::Extreme>>, StoreError> {
    let bucket = bucket(T::DTYPE, level);
    let renderer = Renderer::<T>::new(*source);
    let stored = renderer.whole(level, range.start * bucket..range.end * bucket);
    let (extrema, moments) = renderer.read(level, &stored)?;
    let rows = extrema
        .into_iter()
        .zip(moments)
        .map(|(extrema, moments)| Ok(from_row(extrema, moments)));
    let rest = range.start.max(stored.end as i64)..range.end;
    rows.chain(rest.map(|row| renderer.finer(level, row * bucket..(row + 1) * bucket)))
        .collect()
}

fn stretches<E: Extreme, V: bytemuck::Pod>(
    first: i64,
    summaries: &[Summary<E>],
    value: impl Fn(&Summary<E>) -> V,
) -> Result<Vec<Stretch>, StoreError> {
    let mut start = first;
    let mut out = Vec::new();
    for group in summaries.chunk_by(|a, b| (a.count == 0) == (b.count == 0)) {
        if group[0].count > 0 {
            let values: Vec<V> = group.iter().map(&value).collect();
            out.push(Stretch {
                start,
                values: Buffer::concat([bytemuck::cast_slice(&values)])?,
            });
        }
        start += group.len() as i64;
    }
    Ok(out)
}
