//! Least and greatest samples of stored buckets: what a scan may leave unread.
//!
//! Unlike a view, they are looked up in stored rows only and never computed from samples, so looking them up costs a
//! few bytes for each KiB of samples, wherever rows are missing.

use std::ops::Range;

use isochrony_dsp::stats::Statistic;
use isochrony_segment::{Buffer, dispatch};

use super::record::Identity;
use super::{EXTREMA, MOMENTS, Source, bucket, rows_stored};
use crate::StoreError;
use crate::signal::Signal;

/// How much of a bucket its row tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// The extremes are those of all its samples, of which there is at least one.
    Whole,
    /// It lies in gaps.
    Gap,
    /// It has samples that are not finite, or a row that does not say what they are.
    Unknown,
}

/// Extremes of consecutive buckets, in counts; of complex samples those of the magnitude.
#[derive(Debug, Clone)]
pub struct BucketExtremes {
    /// Samples in a bucket.
    pub bucket: i64,
    /// Index of the first bucket's first sample.
    pub start: i64,
    /// Least sample of each; anything without [`Coverage::Whole`].
    pub min: Buffer,
    /// Greatest sample of each; anything without [`Coverage::Whole`].
    pub max: Buffer,
    /// What they say, bucket by bucket.
    pub coverage: Vec<Coverage>,
}

impl Signal {
    /// The stored extremes of a level's buckets that overlap a range of indices, as far as rows are stored and are of the
    /// samples that this handle shows; of no bucket where they are not.
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
                // Rows of other samples, such as those of a later commit, say nothing here.
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
            // A hole in the file of extremes reads as zeros, which other moments contradict.
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
