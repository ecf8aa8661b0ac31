//! Reads a level of the views like a signal.
//!
//! Indices count buckets. A bucket has the time and run of its first sample, and is a *gap* without samples; one with
//! samples but no finite one is NaN. A bucket across a clock step includes samples of both runs. Requests are resolved
//! in samples and divided by the bucket length, so the rules of signals apply.

use std::ops::Range;

use isochrony_segment::dispatch;
use isochrony_time::{Fixed, Prefer, Round, Time, TimeError};

use super::{Decimated, Measure};
use crate::error::{StoreError, overflow};
use crate::interrupt;
use crate::selection::Selection;
use crate::signal::Signal;
use crate::span::{Overlap, ResolvedSpan, Span};
use crate::state::Gap;

const CHECK_INTERVAL_BUCKETS: i64 = 1 << 16;

/// Consecutive buckets in the signal's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelStretch {
    /// Index of the first bucket.
    pub start: i64,
    /// Per bucket; NaN without finite samples.
    pub values: Vec<f64>,
}

fn bucket_from(index: i64, bucket: i64) -> i64 {
    index.div_euclid(bucket) + i64::from(index.rem_euclid(bucket) != 0)
}

impl Decimated {
    /// The level's signal.
    #[must_use]
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Bucket at a time, by the times of first samples: `index_of(time_of(i)) == i`.
    ///
    /// # Errors
    /// As [`Signal::index_of`]; [`TimeError::NotOnSample`] for [`Round::Exact`] on a sample that starts no bucket.
    pub fn index_of(
        &self,
        time: &Time,
        round: Round,
        prefer: Option<Prefer>,
    ) -> Result<i64, StoreError> {
        let bucket = self.bucket();
        let at = self.signal.index_of(time, round, prefer)?;
        Ok(match round {
            Round::Floor => at.index.div_euclid(bucket),
            Round::Ceil => bucket_from(at.index, bucket),
            Round::Exact if at.index.rem_euclid(bucket) != 0 => {
                let index = at.index.div_euclid(bucket);
                let off = time.value.checked_sub(self.time_of(index)?.value);
                return Err(StoreError::Time(TimeError::NotOnSample {
                    time: time.value,
                    index,
                    off_ns: off.ok_or_else(|| overflow("distance to a bucket"))?,
                }));
            }
            Round::Exact => at.index / bucket,
            Round::Nearest => {
                // Half rounds up, as for samples.
                let half = i128::from(bucket) << 31;
                let bits = at.position.to_bits() + half;
                let index = bits.div_euclid(i128::from(bucket) << 32);
                i64::try_from(index).map_err(|_| overflow("a bucket's index"))?
            }
        })
    }

    /// Buckets of `range` without samples.
    #[must_use]
    pub fn gaps(&self, range: Range<i64>) -> Vec<Gap> {
        let bucket = self.bucket();
        let range = range.start.max(0)..range.end.min(self.end_index());
        let samples = range.start * bucket..range.end.max(range.start) * bucket;
        let mut gaps: Vec<Gap> = Vec::new();
        // A signal's gaps may touch at a run's end, and share a bucket.
        let mut open: Option<Range<i64>> = None;
        let mut close = |gap: Range<i64>| {
            let start = bucket_from(gap.start, bucket);
            let length = gap.end / bucket - start;
            if length > 0 {
                gaps.push(Gap { start, length });
            }
        };
        for gap in self.signal.gaps().within(samples) {
            match &mut open {
                Some(open) if open.end == gap.start => open.end = gap.end(),
                _ => {
                    if let Some(whole) = open.replace(gap.range()) {
                        close(whole);
                    }
                }
            }
        }
        if let Some(whole) = open {
            close(whole);
        }
        gaps
    }

    /// Number of buckets with samples.
    #[must_use]
    pub fn sample_count(&self) -> i64 {
        let gaps = self.gaps(0..self.end_index());
        self.end_index() - gaps.iter().map(|gap| gap.length).sum::<i64>()
    }

    /// Bucket ranges of one run each, gaps included, whose first samples the signal's same selection has.
    /// [`Span::Index`] counts buckets.
    ///
    /// # Errors
    /// As [`Signal::select`].
    pub fn select<'a>(
        &self,
        span: impl Into<Span<'a>>,
        overlap: Overlap,
    ) -> Result<Vec<Range<i64>>, StoreError> {
        let (bucket, end) = (self.bucket(), self.end_index());
        let span = match span.into() {
            Span::Index(range) => {
                if range.start < 0 || range.start > range.end || range.end > end {
                    return Err(self.outside(&range));
                }
                ResolvedSpan::Index(range.start * bucket..range.end * bucket)
            }
            other => other.resolve(&self.signal)?,
        };
        let selection = Selection::new(self.signal.clone(), span, overlap)?;
        let parts = selection.parts().iter();
        Ok(parts
            .map(|part| {
                let to = bucket_from(part.range.end, bucket).min(end);
                bucket_from(part.range.start, bucket).min(to)..to
            })
            .filter(|part| !part.is_empty())
            .collect())
    }

    pub(super) fn outside(&self, range: &Range<i64>) -> StoreError {
        StoreError::OutOfBounds {
            signal: format!("{}/views/{}", self.signal.name(), self.bucket()),
            start: range.start,
            end: range.end,
            have_start: 0,
            have_end: self.end_index(),
        }
    }

    /// One measure per bucket in `range`, which has no gap, in the signal's unit. A negative scale exchanges minimum
    /// and maximum; counts stay.
    ///
    /// # Errors
    /// [`StoreError::OutOfBounds`], [`StoreError::Io`]; [`StoreError::InvalidOption`] for a calibration with offset of
    /// complex samples or the root mean square, which stored measures do not determine.
    pub fn values(
        &self,
        measure: Measure,
        range: Range<i64>,
    ) -> Result<Vec<LevelStretch>, StoreError> {
        if range.start < 0 || range.start > range.end || range.end > self.end_index() {
            return Err(self.outside(&range));
        }
        let own = self.signal.calibration();
        let complex = self.signal.dtype().is_complex();
        let kept = !complex && measure != Measure::Rms;
        if !kept && own.offset() != 0.0 && measure != Measure::Count {
            return Err(StoreError::InvalidOption {
                signal: self.signal.name().into(),
                option: "measure",
                got: format!("{measure:?}").to_lowercase(),
                legal: "a calibration with an offset leaves \"count\" and, for real samples, all but the root mean square; read the samples instead",
            });
        }
        // Magnitudes ignore the scale's sign.
        let measure = match measure {
            Measure::Min if own.scale() < 0.0 && !complex => Measure::Max,
            Measure::Max if own.scale() < 0.0 && !complex => Measure::Min,
            other => other,
        };
        let mut out: Vec<LevelStretch> = Vec::new();
        let mut at = range.start;
        let mut gaps = self.gaps(range.clone()).into_iter();
        while at < range.end {
            let gap = gaps.next();
            let end = gap.map_or(range.end, |gap| gap.start);
            if at < end {
                let values = self.filled(measure, at..end)?;
                out.push(LevelStretch { start: at, values });
            }
            at = gap.map_or(range.end, Gap::end);
        }
        Ok(out)
    }

    /// Buckets between gaps; NaN without finite samples, or 0 for the count.
    fn filled(&self, measure: Measure, range: Range<i64>) -> Result<Vec<f64>, StoreError> {
        let empty = if measure == Measure::Count {
            0.0
        } else {
            f64::NAN
        };
        let length = (range.end - range.start).cast_unsigned() as usize;
        let mut values = Vec::new();
        values
            .try_reserve_exact(length)
            .map_err(|_| StoreError::TooLarge {
                what: "values of this level",
                bytes: length as u128 * 8,
                limit: isize::MAX as u128,
            })?;
        let mut at = range.start;
        while at < range.end {
            interrupt::check("read a level")?;
            let stop = range.end.min(at + CHECK_INTERVAL_BUCKETS);
            for segment in self.read(measure, at..stop)? {
                values.resize((segment.start() - range.start) as usize, empty);
                dispatch!(measure.dtype(self.signal.dtype()), T => {
                    let physical = &segment.stream().calibration;
                    let (scale, offset) = (physical.scale(), physical.offset());
                    segment.visit::<T>(|samples| {
                        use isochrony_segment::Sample;
                        let real = samples.iter().map(|x| super::signal::real(x.to_physical()));
                        values.extend(real.map(|x| x * scale + offset));
                    })?;
                });
            }
            values.resize((stop - range.start) as usize, empty);
            at = stop;
        }
        Ok(values)
    }

    /// Civil times in whole ns.
    ///
    /// # Errors
    /// As [`Signal::civil_grid_ns`].
    pub fn civil_grid_ns(&self, start: i64, out: &mut [i64]) -> Result<(), StoreError> {
        let first = start
            .checked_mul(self.bucket())
            .ok_or_else(|| overflow("a bucket's index"))?;
        self.signal.civil_grid_ns(first, self.bucket(), out)
    }

    /// Civil time of a bucket's end.
    ///
    /// # Errors
    /// As [`Signal::time_of`].
    pub fn end_of(&self, index: i64) -> Result<Fixed, StoreError> {
        let last = index
            .checked_add(1)
            .and_then(|next| next.checked_mul(self.bucket()))
            .ok_or_else(|| overflow("a bucket's index"))?;
        self.signal.end_of_sample(last - 1)
    }
}
