//! Views: min/max pyramids of signals, so that the cost of a plot depends on its pixels and not on its span.
//!
//! A *bucket* is an index range that starts at a multiple of its length: at level 0, 1 KiB of samples; above, eight
//! buckets of the level below. Its *row* has minimum, maximum, count, mean and M2 (sum of squared deviations from the
//! mean) of its finite samples, or of magnitudes of complex ones. A row without samples is all zero, like a hole in a
//! file, so a long gap costs neither work nor space.
//!
//! At every level the rows of all buckets that end at or before `built` are stored, if at least [`MIN_ROWS`]
//! ([`rows_stored`]): short signals store no views, long ones no top levels. Other rows are computed from the level
//! below or from samples. Rows are a cache.
//!
//! [`Builder`] makes rows as samples are appended; [`render`] turns rows into columns of a plot; [`decimate`] reads one
//! level as a signal. Their I/O is by the traits [`Rows`] and [`Samples`].

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
/// The deepest zoom reads at most this much per pixel (2,000 pixels: 2 MB, a fraction of a millisecond), and the rows
/// of all levels add 2.5 % (8 bit) to 4.5 % (64 bit) to the samples.
pub const BASE_BYTES: u64 = 1024;

/// Buckets per bucket of the next level. Eight needs half as many arrays as four; a pixel merges at most eight rows.
pub const FACTOR: u64 = 8;

/// Number of levels. The top bucket has 4.4e12 16-bit samples.
pub const LEVELS: usize = 12;

/// Least rows of a stored level. Its files' overhead of 48 kB is less than a fifth of the samples that so many rows of
/// level 0 cover.
pub const MIN_ROWS: u64 = 256;

/// Numbers per row of `extrema`.
pub const EXTREMA: usize = 2;

/// Numbers per row of `moments`.
pub const MOMENTS: usize = 3;

/// Samples in a bucket of `level`.
#[must_use]
pub const fn bucket(dtype: DType, level: usize) -> i64 {
    (BASE_BYTES / dtype.size() as u64 * FACTOR.pow(level as u32)) as i64
}

/// Dtype of `extrema`: the samples', or that of the magnitude of complex ones.
#[must_use]
pub const fn extreme_dtype(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        real => real,
    }
}

/// Stored rows of `level` when all up to `built` are.
#[must_use]
pub const fn rows_stored(dtype: DType, level: usize, built: i64) -> u64 {
    let rows = (built / bucket(dtype, level)) as u64;
    if rows < MIN_ROWS { 0 } else { rows }
}

/// Access to a signal's rows. Both slices hold the same number of whole rows: `EXTREMA` values of [`extreme_dtype`] and
/// `MOMENTS` f64 each, native byte order.
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

    /// Ranges of `rows`, in order, outside which all rows are zero, at a cost of what is stored, not of the length of
    /// `rows`.
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
    /// Writing fails; these rows are then undefined.
    fn write(
        &mut self,
        level: usize,
        first: u64,
        extrema: &[u8],
        moments: &[u8],
    ) -> Result<(), StoreError>;
}

/// Takes an index and the bytes of samples from there on.
pub type OnPiece<'a> = dyn FnMut(i64, &[u8]) -> Result<(), StoreError> + 'a;

/// Access to a signal's samples.
pub trait Samples {
    /// Calls `piece` with index and bytes of every valid range in `range`, in order, possibly split between samples.
    ///
    /// # Errors
    /// Reading or `piece` fails.
    fn visit(&self, range: Range<i64>, piece: &mut OnPiece<'_>) -> Result<(), StoreError>;

    /// Number of gap indices in `range`.
    fn missing(&self, range: Range<i64>) -> i64;
}
