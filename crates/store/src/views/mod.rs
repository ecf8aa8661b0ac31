//! Views: the signal at coarser and coarser scales, so that a plot costs what it shows, not what it spans.
//!
//! A *bucket* is a stretch of the index axis that starts at a multiple of its own length. For every bucket of level 0
//! (1 KiB of samples) and of each higher level (eight buckets of the level below) one *row* is kept: least and greatest
//! value, count, mean and M2 (the sum of squared deviations from the mean), over its finite samples. For complex
//! samples all of these are of the magnitude. Samples in gaps do not count; a row that counts nothing is all zero,
//! which is also what a hole in a file reads as, so that a gap of months costs no work and no space.
//!
//! What is stored follows from one number, `built`: at every level the rows of all buckets that end at or before it,
//! provided there are at least [`MIN_ROWS`] of them ([`rows_stored`]). Short signals therefore store no views at all
//! and thousands of them stay small; so do the top levels of long ones. What is not stored is computed from the level
//! below, at the bottom from samples. Rows are a cache: nothing is ever read from them that samples could not tell, and
//! they may be thrown away.
//!
//! [`Builder`] makes rows as samples are appended; [`render`] turns rows into the columns of a plot; [`decimate`]
//! reads one level as a signal. All three work on two small traits, [`Rows`] and [`Samples`], and do no I/O themselves.

mod builder;
mod cells;
mod decimated;
mod entry;
mod extremes;
pub(crate) mod files;
pub(crate) mod keeper;
mod leftovers;
mod level;
mod levels;
mod reading;
pub(crate) mod record;
mod render;
mod row;
mod shard_identity;
mod signal;
pub(crate) mod stored;
#[cfg(test)]
mod tests;

use std::ops::Range;

use isochrony_segment::DType;

use crate::StoreError;

pub use builder::Builder;
pub use decimated::{Measure, Stretch, decimate};
pub use extremes::{BucketExtremes, Coverage};
pub use level::LevelStretch;
pub use render::{Source, View, render};
pub use signal::{CivilEdges, Decimated, PhysicalColumns, SignalView};

/// Samples of one row of level 0 take this many bytes.
///
/// Chosen by cost and space: the deepest zoom reads at most this much per pixel from samples (2,000 pixels: 2 MB, a
/// fraction of a millisecond), and rows add 2.5 % (8 bit) to 4.5 % (64 bit) to the samples' size over all levels.
pub const BASE_BYTES: u64 = 1024;

/// Buckets of one level in a bucket of the next. Eight needs half as many arrays as four; a pixel then merges at most
/// eight rows, a few nanoseconds each.
pub const FACTOR: u64 = 8;

/// Levels. The highest has buckets of 4.4e12 16-bit samples.
pub const LEVELS: usize = 12;

/// A level is stored once it has this many rows. Its files take 48 kB besides the rows: less than a fifth of the samples
/// that so many rows of the first level cover.
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

/// Element type of `extrema`: the samples' own, for complex ones that of the magnitude.
#[must_use]
pub const fn extreme_dtype(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        real => real,
    }
}

/// Rows that `level` has in store when everything up to `built` is.
#[must_use]
pub const fn rows_stored(dtype: DType, level: usize, built: i64) -> u64 {
    let rows = (built / bucket(dtype, level)) as u64;
    if rows < MIN_ROWS { 0 } else { rows }
}

/// Where the rows of one signal are. Both slices hold the same number of whole rows: `EXTREMA` values of
/// [`extreme_dtype`] and `MOMENTS` f64 each, as bytes of this machine.
pub trait Rows {
    /// Reads rows from `first` on; what was never written reads as zero.
    ///
    /// # Errors
    /// Reading failed.
    fn read(
        &self,
        level: usize,
        first: u64,
        extrema: &mut [u8],
        moments: &mut [u8],
    ) -> Result<(), StoreError>;

    /// Stretches of `rows`, in order, outside which all of them read as zero. Costs what is in store there, however
    /// many rows are asked for.
    ///
    /// # Errors
    /// Looking at what is in store failed.
    fn present(&self, level: usize, rows: Range<u64>) -> Result<Vec<Range<u64>>, StoreError>;
}

/// Rows that can be written.
pub trait RowsMut: Rows {
    /// Writes rows from `first` on.
    ///
    /// # Errors
    /// Writing failed; the rows named hold anything then.
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

/// Where the samples of one signal are.
pub trait Samples {
    /// Calls `piece` with the index and the bytes of every stretch of `range` that lies in no gap, in order; a stretch
    /// may come in several pieces of whole samples.
    ///
    /// # Errors
    /// Reading failed, or `piece` did.
    fn visit(&self, range: Range<i64>, piece: &mut OnPiece<'_>) -> Result<(), StoreError>;

    /// Number of indices of `range` that lie in gaps.
    fn missing(&self, range: Range<i64>) -> i64;
}
