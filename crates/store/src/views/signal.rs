//! Views and decimated levels of a stored signal.

use std::ops::Range;

use isochrony_segment::{Calibration, DType, SigSeg, Stream, dispatch};
use isochrony_time::{Fixed, Rate, Time, TimebaseId};

use super::{LEVELS, Measure, View, bucket, decimate, render};
use crate::StoreError;
use crate::signal::Signal;
use crate::span::Span;

/// The plot of a span of a signal: a [`View`] with civil times.
///
/// Columns are in the selection's order: by index or civil time. Each lies within one run and is exact for its samples
/// `start..end`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SignalView {
    /// Statistics per column, in counts.
    pub columns: View,
    /// Run per column; 0 without runs.
    pub run: Vec<u32>,
    /// Civil times of the columns, if the signal has any.
    pub civil: Option<CivilEdges>,
    /// Calibration of the counts.
    pub calibration: &'static Calibration,
}

/// Bounds of columns, UTC nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CivilEdges {
    /// Time of the first sample.
    pub start: Vec<Fixed>,
    /// Time of the next column's first sample if contiguous in the same run, else the end of the last sample.
    pub end: Vec<Fixed>,
}

/// Columns in the signal's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct PhysicalColumns {
    /// Minimum; NaN in a column without finite samples.
    pub min: Vec<f64>,
    /// Maximum, likewise.
    pub max: Vec<f64>,
    /// Mean, likewise.
    pub mean: Vec<f64>,
    /// Population standard deviation, likewise.
    pub std: Vec<f64>,
}

impl SignalView {
    /// Columns in the signal's unit; a negative scale exchanges minimum and maximum. `None` for complex samples with an
    /// offset, whose magnitudes do not follow from those of counts.
    #[must_use]
    pub fn physical(&self, signal: DType) -> Option<PhysicalColumns> {
        let (scale, mut offset) = (self.calibration.scale(), self.calibration.offset());
        let mut factor = scale;
        if signal.is_complex() {
            if offset != 0.0 {
                return None;
            }
            (factor, offset) = (scale.abs(), 0.0);
        }
        let columns = &self.columns;
        let extremes = |buffer: &isochrony_segment::Buffer| -> Option<Vec<f64>> {
            dispatch!(columns.dtype, T => {
                use isochrony_segment::Sample;
                let values = buffer.samples::<T>()?.iter().map(|x| real(x.to_physical()) * factor + offset);
                Some(values.zip(&columns.count).map(|(x, n)| if *n == 0 { f64::NAN } else { x }).collect())
            })
        };
        let (mut min, mut max) = (extremes(&columns.min)?, extremes(&columns.max)?);
        if factor < 0.0 {
            std::mem::swap(&mut min, &mut max);
        }
        Some(PhysicalColumns {
            min,
            max,
            mean: columns.mean.iter().map(|x| x * factor + offset).collect(),
            std: columns.std.iter().map(|x| x * factor.abs()).collect(),
        })
    }
}

/// Extrema are real even if physical samples are not.
pub(super) fn real<P: isochrony_segment::Sample>(value: P) -> f64 {
    bytemuck::bytes_of(&value)
        .first_chunk::<8>()
        .map_or(f64::NAN, |bytes| f64::from_ne_bytes(*bytes))
}

impl Signal {
    /// Index up to which stored views are valid; later ones come from samples.
    ///
    /// # Errors
    /// [`StoreError::Closed`], [`StoreError::Io`].
    pub fn views_reach(&self) -> Result<i64, StoreError> {
        let shared = self.shared();
        shared
            .views
            .with_source(&shared.backend, self.id(), |source, _| Ok(source.built))
    }

    /// Statistics of a span in about `pixels` columns (1 to 1,000,000).
    ///
    /// Runs get columns in proportion to their length, at least one, none shorter than a sample, so their number may
    /// differ from `pixels`. Inner edges move down to borders of stored buckets, so every value is exact for its
    /// interval. Only finite samples count; complex ones by magnitude. Gaps are never filled: see
    /// [`gap_fraction`](View::gap_fraction).
    ///
    /// Cost: proportional to `pixels` plus runs in the span.
    ///
    /// # Errors
    /// As [`select`](Self::select), [`StoreError::InvalidOption`] for `pixels`, [`StoreError::Io`].
    pub fn view<'a>(
        &self,
        span: impl Into<Span<'a>>,
        pixels: usize,
    ) -> Result<SignalView, StoreError> {
        if !(1..=1_000_000).contains(&pixels) {
            return Err(StoreError::InvalidOption {
                signal: self.name().into(),
                option: "pixels",
                got: pixels.to_string(),
                legal: "give 1 to 1000000",
            });
        }
        let selection = self.select(span)?;
        let parts: Vec<Range<i64>> = selection
            .parts()
            .iter()
            .map(|part| part.range.clone())
            .collect();
        let shared = self.shared();
        let columns = shared
            .views
            .with_source(&shared.backend, self.id(), |source, state| {
                let within = |part: &Range<i64>| part.start.min(state.end)..part.end.min(state.end);
                render(
                    source,
                    &parts.iter().map(within).collect::<Vec<_>>(),
                    pixels,
                )
            })?;
        let run: Vec<u32> = columns
            .start
            .iter()
            .map(|index| self.run_at(*index).unwrap_or_default())
            .collect();
        Ok(SignalView {
            civil: self.civil_edges(&columns, &run)?,
            columns,
            run,
            calibration: self.calibration(),
        })
    }

    fn civil_edges(&self, columns: &View, run: &[u32]) -> Result<Option<CivilEdges>, StoreError> {
        if self.empirical()?.is_none() {
            return Ok(None);
        }
        let mut start = vec![Fixed::ZERO; columns.len()];
        self.civil_many(&columns.start, &mut start)?;
        let follows =
            |k: usize| columns.start.get(k + 1) == Some(&columns.end[k]) && run[k] == run[k + 1];
        let end = (0..columns.len())
            .map(|k| {
                if follows(k) {
                    Ok(start[k + 1])
                } else {
                    self.end_of_sample(columns.end[k] - 1)
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Some(CivilEdges { start, end }))
    }

    /// Number of levels for [`decimated`](Self::decimated), with at least one full bucket.
    #[must_use]
    pub fn levels(&self) -> usize {
        (0..LEVELS)
            .take_while(|level| bucket(self.dtype(), *level) <= self.end_index())
            .count()
    }

    /// One level as a signal: one value per bucket of [`bucket`] samples.
    ///
    /// # Errors
    /// [`StoreError::InvalidOption`] unless `level` is below [`levels`](Self::levels).
    pub fn decimated(&self, level: usize) -> Result<Decimated, StoreError> {
        if level >= self.levels() {
            return Err(StoreError::InvalidOption {
                signal: self.name().into(),
                option: "level",
                got: level.to_string(),
                legal: "give a level below `levels()`: one whose bucket is no longer than the signal",
            });
        }
        Ok(Decimated {
            signal: self.clone(),
            level,
        })
    }
}

/// A signal with one value per full bucket of another. Index `i` stands for samples `i * bucket..(i + 1) * bucket` and
/// the time of the first.
#[derive(Debug, Clone)]
pub struct Decimated {
    pub(super) signal: Signal,
    level: usize,
}

impl Decimated {
    /// Samples per bucket.
    #[must_use]
    pub fn bucket(&self) -> i64 {
        bucket(self.signal.dtype(), self.level)
    }

    /// Nominal buckets per second.
    ///
    /// # Errors
    /// [`StoreError::Time`] if too low to represent.
    pub fn rate(&self) -> Result<Rate, StoreError> {
        let rate = self.signal.rate();
        let den = rate.den().saturating_mul(self.bucket().cast_unsigned());
        Ok(Rate::new(rate.num(), den)?)
    }

    /// Number of buckets, gaps included.
    #[must_use]
    pub fn end_index(&self) -> i64 {
        self.signal.end_index() / self.bucket()
    }

    /// Civil time of a bucket's first sample.
    ///
    /// # Errors
    /// As [`Signal::time_of`].
    pub fn time_of(&self, index: i64) -> Result<Time, StoreError> {
        let index = index
            .checked_mul(self.bucket())
            .ok_or_else(|| crate::error::overflow("a bucket's index"))?;
        self.signal.time_of(index)
    }

    /// Timebase of bucket indices, unique to signal and level.
    #[must_use]
    pub fn timebase(&self) -> TimebaseId {
        timebase(self.signal.timebase(), self.level)
    }

    /// One measure per bucket in `range`, as gap-free segments; buckets without finite samples are gaps.
    ///
    /// Counts, with the signal's calibration if it applies to the measure (not `Count`, not `Rms` and complex samples
    /// with an offset).
    ///
    /// # Errors
    /// [`StoreError::OutOfBounds`], [`StoreError::Io`].
    pub fn read(&self, measure: Measure, range: Range<i64>) -> Result<Vec<SigSeg>, StoreError> {
        let signal = &self.signal;
        if range.start < 0 || range.start > range.end || range.end > self.end_index() {
            return Err(self.outside(&range));
        }
        let name = format!("{}/views/{}/{measure:?}", signal.name(), self.bucket()).to_lowercase();
        let stream = Stream::new(name, self.timebase(), self.rate()?)
            .with_calibration(self.calibration(measure)?)
            .intern();
        let shared = signal.shared();
        let stretches = shared
            .views
            .with_source(&shared.backend, signal.id(), |source, _| {
                decimate(source, self.level, measure, range.clone())
            })?;
        let dtype = measure.dtype(signal.dtype());
        let segment = |stretch: super::Stretch| {
            Ok(SigSeg::new(stretch.values, stretch.start, dtype, stream)?)
        };
        stretches.into_iter().map(segment).collect()
    }

    fn calibration(&self, measure: Measure) -> Result<Calibration, StoreError> {
        let own = self.signal.calibration();
        let magnitude = self.signal.dtype().is_complex();
        let (scale, offset) = match measure {
            Measure::Count => return Ok(Calibration::default()),
            Measure::Std => (own.scale().abs(), 0.0),
            Measure::Rms if own.offset() != 0.0 => return Ok(Calibration::default()),
            Measure::Rms => (own.scale().abs(), 0.0),
            _ if magnitude && own.offset() != 0.0 => return Ok(Calibration::default()),
            _ if magnitude => (own.scale().abs(), 0.0),
            _ => (own.scale(), own.offset()),
        };
        Ok(Calibration::new(scale, offset, own.unit())?)
    }
}

/// Signals leave the highest bit clear; levels set it.
fn timebase(signal: TimebaseId, level: usize) -> TimebaseId {
    TimebaseId(0x8000_0000 | signal.0 << 4 | level as u32)
}
