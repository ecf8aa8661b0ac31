//! Extremes of stored buckets, by which scans skip samples.
//!
//! They come from stored rows only, never from samples: a lookup costs a few bytes per KiB of samples even if rows are
//! missing.

use std::ops::Range;

use isochrony_dsp::stats::Statistic;
use isochrony_segment::{Buffer, dispatch};

use super::record::Identity;
use super::{EXTREMA, MOMENTS, Source, bucket, rows_stored};
use crate::StoreError;
use crate::signal::Signal;

/// What a bucket's row tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Extremes of all samples, at least one.
    Whole,
    /// All in gaps.
    Gap,
    /// Nothing: non-finite samples, or no valid row.
    Unknown,
}

/// Extremes of consecutive buckets in counts, or magnitudes of complex ones.
#[derive(Debug, Clone)]
pub struct BucketExtremes {
    /// Samples per bucket.
    pub bucket: i64,
    /// First sample of the first bucket.
    pub start: i64,
    /// Minima; undefined unless [`Coverage::Whole`].
    pub min: Buffer,
    /// Maxima; undefined unless [`Coverage::Whole`].
    pub max: Buffer,
    /// Coverage per bucket.
    pub coverage: Vec<Coverage>,
}

impl Signal {
    /// Stored extremes of a level's buckets that overlap an index range, of the samples that this handle shows.
    ///
    /// # Errors
    /// [`StoreError::Closed`], [`StoreError::Io`].
    pub fn bucket_extremes(
        &self,
        level: usize,
        range: Range<i64>,
    ) -> Result<BucketExtremes, StoreError> {
        let shared = self.shared();
        shared
            .views
            .with_source(&shared.backend, self.id(), |source, state| {
                let own = self.state();
                // Rows may be of other samples, as of a later commit.
                let same = Identity::new(own, source.built) == Identity::new(state, source.built);
                let built = if same { source.built.min(own.end) } else { 0 };
                dispatch!(source.dtype, T => {
                    self.rows_of::<<T as Statistic>::Extreme>(source, built, level, &range)
                })
            })
    }

    fn rows_of<E: bytemuck::Pod + Default + PartialEq>(
        &self,
        source: &Source<'_>,
        built: i64,
        level: usize,
        range: &Range<i64>,
    ) -> Result<BucketExtremes, StoreError> {
        let bucket = bucket(source.dtype, level);
        let stored = rows_stored(source.dtype, level, built).cast_signed();
        let first = (range.start / bucket).max(0).min(stored);
        let end = (range.end + bucket - 1) / bucket;
        let count = end.clamp(first, stored) - first;
        let mut extrema = vec![[E::default(); EXTREMA]; count as usize];
        let mut moments = vec![[0.0f64; MOMENTS]; count as usize];
        if count > 0 {
            source.rows.read(
                level,
                first.cast_unsigned(),
                bytemuck::cast_slice_mut(&mut extrema),
                bytemuck::cast_slice_mut(&mut moments),
            )?;
        }
        let coverage = extrema.iter().zip(&moments).zip(first..);
        let coverage = coverage.map(|((extrema, &[finite, mean, m2]), row)| {
            let range = row * bucket..(row + 1) * bucket;
            let present = || bucket - self.gaps().missing_within(range.clone());
            // A hole in the extremes reads as zeros, which contradicts other moments.
            let is_hole = *extrema == [E::default(); EXTREMA] && (mean != 0.0 || m2 != 0.0);
            match finite as i64 {
                0 if present() == 0 => Coverage::Gap,
                0 => Coverage::Unknown,
                finite if !is_hole && (finite == bucket || finite == present()) => Coverage::Whole,
                _ => Coverage::Unknown,
            }
        });
        let coverage = coverage.collect();
        let column = |nth: usize| {
            let values: Vec<E> = extrema.iter().map(|row| row[nth]).collect();
            Buffer::concat([bytemuck::cast_slice(&values)])
        };
        Ok(BucketExtremes {
            bucket,
            start: first * bucket,
            min: column(0)?,
            max: column(1)?,
            coverage,
        })
    }
}
