//! Views: min/max pyramids of signals, so that the cost of a plot depends on its pixels and not on its span.
//!
//! A *bucket* is an index range that starts at a multiple of its length: at level 0, 1 KiB of samples; at each higher
//! level, eight buckets of the level below. One *row* per bucket stores minimum, maximum, count, mean and M2 (the sum
//! of squared deviations from the mean) of its finite samples, or of the magnitudes of complex samples. Samples in gaps
//! do not count. A row without samples is all zero, as a hole in a file reads, so a long gap costs neither work nor
//! space.
//!
//! The number `built` determines what is stored: at every level the rows of all buckets that end at or before it, if
//! there are at least [`MIN_ROWS`] ([`rows_stored`]). So short signals store no views, and long ones no top levels.
//! Other rows are computed from the level below or from samples. Rows are a cache: they can always be recomputed from
//! the samples.
//!
//! [`Builder`] makes rows as samples are appended; [`render`] turns rows into the columns of a plot; [`decimate`] reads
//! one level as a signal. They use the traits [`Rows`] and [`Samples`] and do no I/O themselves.

mod builder;
mod cells;
mod decimated;
mod extremes;
pub(crate) mod files;
mod leftovers;
mod level;
mod levels;
pub(crate) mod maintainer;
mod reading;
pub(crate) mod record;
mod render;
mod row;
mod shard_identity;
mod signal;
pub(crate) mod stored;
#[cfg(test)]
mod tests;
mod view_state;

use std::ops::Range;

use isochrony_segment::DType;

use crate::StoreError;

pub use builder::Builder;
pub use decimated::{Measure, Stretch, decimate};
pub use extremes::{BucketExtremes, Coverage};
pub use level::LevelStretch;
pub use render::{Source, View, render};
pub use signal::{CivilEdges, Decimated, PhysicalColumns, SignalView};

/// Bytes of samples per row of level 0.
///
/// Chosen by cost and space: the deepest zoom reads at most this much per pixel from samples (2,000 pixels: 2 MB, a
/// fraction of a millisecond), and the rows of all levels add 2.5 % (8 bit) to 4.5 % (64 bit) to the samples.
pub const BASE_BYTES: u64 = 1024;

/// Buckets per bucket of the next level. Eight needs half as many arrays as four; a pixel merges at most eight rows, a
/// few nanoseconds each.
pub const FACTOR: u64 = 8;

/// Number of levels. The highest has buckets of 4.4e12 16-bit samples.
pub const LEVELS: usize = 12;

/// Least rows of a stored level. Its files take 48 kB besides the rows: less than a fifth of the samples that so many
/// rows of level 0 cover.
pub const MIN_ROWS: u64 = 256;

/// Numbers in a row of the array `extrema`.
pub const EXTREMA: usize = 2;

/// Numbers in a row of the array `moments`.
pub const MOMENTS: usize = 3;

/// Samples in a bucket of `level`.
#[must_use]
pub const fn bucket(dtype: DType, level: usize) -> i64 {
    (BASE_BYTES / dtype.size() as u64 * FACTOR.pow(level as u32)) as i64
}

/// Element type of `extrema`: that of the samples, or of the magnitude of complex ones.
#[must_use]
pub const fn extreme_dtype(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        real => real,
    }
}

/// Rows of `level` in the store when everything up to `built` is.
#[must_use]
pub const fn rows_stored(dtype: DType, level: usize, built: i64) -> u64 {
    let rows = (built / bucket(dtype, level)) as u64;
    if rows < MIN_ROWS { 0 } else { rows }
}

/// Access to the rows of one signal. Both slices hold the same number of whole rows: `EXTREMA` values of
/// [`extreme_dtype`] and `MOMENTS` f64 each, in native byte order.
pub trait Rows {
    /// Reads rows from `first` on; unwritten ones read as zero.
    ///
    /// # Errors
    /// Reading fails.
    fn read(
        &self,
        level: usize,
        first: u64,
        extrema: &mut [u8],
        moments: &mut [u8],
    ) -> Result<(), StoreError>;

    /// Ranges of `rows`, in order, outside which all rows are zero. The cost depends on what is stored, not on the
    /// length of `rows`.
    ///
    /// # Errors
    /// Inspecting the store fails.
    fn present(&self, level: usize, rows: Range<u64>) -> Result<Vec<Range<u64>>, StoreError>;
}

/// Write access to rows.
pub trait RowsMut: Rows {
    /// Writes rows from `first` on.
    ///
    /// # Errors
    /// Writing fails; the content of these rows is then undefined.
    fn write(
        &mut self,
        level: usize,
        first: u64,
        extrema: &[u8],
        moments: &[u8],
    ) -> Result<(), StoreError>;
}

/// Takes an index and the bytes of the samples from there on.
pub type OnPiece<'a> = dyn FnMut(i64, &[u8]) -> Result<(), StoreError> + 'a;

/// Access to the samples of one signal.
pub trait Samples {
    /// Calls `piece` with the index and bytes of every valid range within `range`, in order; a range may be split
    /// between samples.
    ///
    /// # Errors
    /// Reading or `piece` fails.
    fn visit(&self, range: Range<i64>, piece: &mut OnPiece<'_>) -> Result<(), StoreError>;

    /// Number of indices in `range` that are in gaps.
    fn missing(&self, range: Range<i64>) -> i64;
}
