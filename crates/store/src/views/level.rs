//! A level of the views as a signal to read: selections by time, gaps, values in the unit.
//!
//! The axis of a level counts buckets. A bucket stands for the time of its first sample, belongs to that sample's run,
//! and is a *gap* where no sample lies in it at all. Gaps therefore follow from the signal's table of gaps, whatever the
//! samples' values; a bucket that has samples but no finite one is no gap, and its value is NaN. A bucket across a clock
//! step counts the samples of both runs.
//!
//! Everything is asked of the signal in samples and then divided by the bucket, so the rules of signals hold as they are.

use std::ops::Range;

use isochrony_segment::dispatch;
use isochrony_time::{Fixed, Prefer, Round, Time, TimeError};

use super::{Decimated, Measure};
use crate::StoreError;
use crate::interrupt;
use crate::selection::Selection;
use crate::signal::{Signal, overflow};
use crate::span::{Overlap, Resolved, Span};
use crate::state::Gap;

/// Buckets that are read at a time.
const PIECE: i64 = 1 << 16;

/// Values of consecutive buckets of a level, in the signal's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelStretch {
    /// Number of the first bucket.
    pub start: i64,
    /// One value a bucket; NaN where its samples have no finite one.
    pub values: Vec<f64>,
}

/// The bucket whose start is the first one not before sample `index`.
fn bucket_from(index: i64, bucket: i64) -> i64 {
    index.div_euclid(bucket) + i64::from(index.rem_euclid(bucket) != 0)
}

impl Decimated {
    /// The signal that it is a level of.
    #[must_use]
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Bucket of a time, by the times of first samples: `index_of(time_of(i)) == i`.
    ///
    /// # Errors
    /// Those of [`Signal::index_of`]; [`TimeError::NotOnSample`] for [`Round::Exact`] on a sample that begins no bucket.
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
                // Halves up, as samples are rounded.
                let half = i128::from(bucket) << 31;
                let bits = at.position.to_bits() + half;
                let index = bits.div_euclid(i128::from(bucket) << 32);
                i64::try_from(index).map_err(|_| overflow("a bucket's index"))?
            }
        })
    }

    /// Buckets of `range` in which no sample lies, in order.
    #[must_use]
    pub fn gaps(&self, range: Range<i64>) -> Vec<Gap> {
        let bucket = self.bucket();
        let range = range.start.max(0)..range.end.min(self.end_index());
        let samples = range.start * bucket..range.end.max(range.start) * bucket;
        let mut gaps: Vec<Gap> = Vec::new();
        // Gaps of the signal may touch where a run ends, and a bucket lie in two of them.
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

    /// Buckets that have samples.
    #[must_use]
    pub fn sample_count(&self) -> i64 {
        let gaps = self.gaps(0..self.end_index());
        self.end_index() - gaps.iter().map(|gap| gap.length).sum::<i64>()
    }

    /// Ranges of buckets of one run each, gaps included: those whose first samples the same selection of the signal has.
    /// [`Span::Index`] counts buckets here.
    ///
    /// # Errors
    /// Those of [`Signal::select`].
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
                Resolved::Index(range.start * bucket..range.end * bucket)
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

    /// One number of each bucket in `range` in the signal's unit, without its gaps. A negative scale exchanges least and
    /// greatest; counts are counts.
    ///
    /// # Errors
    /// [`StoreError::OutOfBounds`], [`StoreError::Io`]; [`StoreError::InvalidOption`] for complex samples whose
    /// calibration has an offset, and for the root mean square where it has one: they do not follow from what is kept.
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
        // Magnitudes do not know the sign of the scale.
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

    /// Values of buckets between gaps, NaN where no sample is finite; NaN or 0 for the count.
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
            interrupt::look("read a level")?;
            let stop = range.end.min(at + PIECE);
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

    /// Civil times of buckets, whole ns.
    ///
    /// # Errors
    /// Those of [`Signal::civil_grid_ns`].
    pub fn civil_grid_ns(&self, start: i64, out: &mut [i64]) -> Result<(), StoreError> {
        let first = start
            .checked_mul(self.bucket())
            .ok_or_else(|| overflow("a bucket's index"))?;
        self.signal.civil_grid_ns(first, self.bucket(), out)
    }

    /// Civil time at which a bucket's last sample ends.
    ///
    /// # Errors
    /// Those of [`Signal::time_of`].
    pub fn end_of(&self, index: i64) -> Result<Fixed, StoreError> {
        let last = index
            .checked_add(1)
            .and_then(|next| next.checked_mul(self.bucket()))
            .ok_or_else(|| overflow("a bucket's index"))?;
        self.signal.end_of_sample(last - 1)
    }
}
