//! Samples of a selection as one array, with values for gaps.

use std::ops::Range;

use isochrony_dsp::convert::{ValueType, values};
use isochrony_segment::{Calibration, Complex64, Sample, SegmentError, SigSeg, dispatch};

use super::{Selection, Stretch, stretches};
use crate::error::StoreError;
use crate::interrupt;
use crate::state::Gap;

/// Values in the signal's unit, complex for complex signals.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// One number per index.
    Real(Vec<f64>),
    /// One complex number per index.
    Complex(Vec<Complex64>),
}

/// Values at indices without samples.
///
/// Only gaps are filled: a recorded NaN is a sample. No value crosses a clock step or comes from outside the selection.
#[derive(Debug, Clone, Copy)]
pub enum Fill<T> {
    /// A constant.
    Value(T),
    /// A gap is an error.
    Refuse,
    /// The sample before the gap; at the start of the run or selection the given value, or an error.
    Forward(Option<T>),
    /// Linear interpolation between the neighbours.
    Interpolate {
        /// Value for a gap at either end of the run or selection.
        edge: T,
        /// Interpolates at a fraction of the way, such as [`ValueType::between`].
        between: fn(T, T, f64) -> T,
    },
}

impl Selection {
    /// One value in the signal's unit per index, `fill` in gaps, nothing between runs. For values at given times see
    /// [`Store::gather`](crate::Store::gather).
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] if memory is insufficient, [`StoreError::Io`].
    pub fn values(&self, fill: f64) -> Result<Values, StoreError> {
        Ok(if self.signal().dtype().is_complex() {
            let fill = Fill::Value(Complex64::new(fill, fill));
            Values::Complex(self.collected(|out| self.values_into(fill, out))?)
        } else {
            Values::Real(self.collected(|out| self.values_into(Fill::Value(fill), out))?)
        })
    }

    /// One raw sample per index, `fill` in gaps.
    ///
    /// # Errors
    /// [`StoreError::Segment`] if `T` is not the signal's type, and as [`values`](Self::values).
    pub fn counts<T: Sample>(&self, fill: T) -> Result<Vec<T>, StoreError> {
        self.collected(|out| self.counts_into(Fill::Value(fill), out))
    }

    /// One value in the signal's unit per index, into `out` of length [`len`](Self::len).
    ///
    /// ```
    /// # use isochrony_store::{CreateOptions, Fill, Mode, Store};
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::open(folder.path().join("a.iso"), Mode::Create)?;
    /// # let options = CreateOptions::new(isochrony_segment::DType::I16, isochrony_time::Rate::from_hz(100)?);
    /// let writer = store.create("p", &options)?;
    /// writer.append(&[1i16, 3])?;
    /// writer.append_gap(2)?;
    /// writer.append(&[9i16])?;
    /// let mut out = [0f32; 5];
    /// writer.signal()?.select(0..5)?.values_into(Fill::Forward(None), &mut out)?;
    /// assert_eq!(out, [1.0, 3.0, 3.0, 3.0, 9.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::GapInSelection`] if `fill` leaves a gap unfilled; [`StoreError::Segment`] for another length, or
    /// if exactly one of signal and values is complex; [`StoreError::Io`].
    pub fn values_into<V: ValueType>(
        &self,
        fill: Fill<V>,
        out: &mut [V],
    ) -> Result<(), StoreError> {
        self.check_kind::<V>()?;
        self.read_into(fill, out, write_values)
    }

    /// As [`values_into`](Self::values_into), for uncalibrated counts.
    ///
    /// # Errors
    /// As [`values_into`](Self::values_into).
    pub fn converted_counts_into<V: ValueType>(
        &self,
        fill: Fill<V>,
        out: &mut [V],
    ) -> Result<(), StoreError> {
        self.check_kind::<V>()?;
        let none = Calibration::default();
        self.read_into(fill, out, |segment, out| convert(segment, &none, out))
    }

    fn check_kind<V: ValueType>(&self) -> Result<(), SegmentError> {
        let dtype = self.signal().dtype();
        if dtype.is_complex() == V::DTYPE.is_complex() {
            return Ok(());
        }
        Err(SegmentError::DTypeMismatch {
            expected: V::DTYPE,
            got: dtype,
        })
    }

    /// One raw sample per index, into `out` of length [`len`](Self::len).
    ///
    /// # Errors
    /// As [`values_into`](Self::values_into); also if `T` is not the signal's type.
    pub fn counts_into<T: Sample>(&self, fill: Fill<T>, out: &mut [T]) -> Result<(), StoreError> {
        self.read_into(fill, out, |segment, out| segment.copy_to(out))
    }

    fn collected<T: Sample>(
        &self,
        read: impl FnOnce(&mut [T]) -> Result<(), StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let length = usize::try_from(self.len()).unwrap_or(usize::MAX);
        let mut out =
            bytemuck::allocation::try_zeroed_vec(length).map_err(|()| StoreError::TooLarge {
                what: "one array for this selection",
                bytes: u128::from(self.len().unsigned_abs()) * size_of::<T>() as u128,
                limit: isize::MAX as u128,
            })?;
        read(&mut out)?;
        Ok(out)
    }

    fn read_into<T: Copy>(
        &self,
        fill: Fill<T>,
        out: &mut [T],
        write: impl Fn(&SigSeg, &mut [T]) -> Result<(), SegmentError>,
    ) -> Result<(), StoreError> {
        if usize::try_from(self.len()) != Ok(out.len()) {
            return Err(SegmentError::OutOfRange {
                stream: self.signal().name().into(),
                start: 0,
                end: i64::try_from(out.len()).unwrap_or(i64::MAX),
                have_start: 0,
                have_end: self.len(),
            }
            .into());
        }
        if let Fill::Refuse = fill
            && let Some(gap) = self.gaps().next()
        {
            return Err(self.names_gap(gap));
        }
        let mut rest = out;
        for part in self.parts() {
            let length = (part.range.end - part.range.start) as usize;
            let (out, after) = std::mem::take(&mut rest).split_at_mut(length);
            let offset = |index: i64| (index - part.range.start) as usize;
            let mut filled = 0;
            for stretch in stretches(self.signal(), part) {
                let mut at = stretch.range.start;
                while at < stretch.range.end {
                    interrupt::check("read samples")?;
                    let stop = stretch
                        .range
                        .end
                        .min(at.saturating_add(CHECK_INTERVAL_SAMPLES));
                    let piece = self.signal().read(at..stop)?;
                    write(&piece, &mut out[offset(at)..offset(stop)])?;
                    at = stop;
                }
                self.fill_gap(part, fill, out, filled..offset(stretch.range.start))?;
                filled = offset(stretch.range.end);
            }
            self.fill_gap(part, fill, out, filled..length)?;
            rest = after;
        }
        Ok(())
    }

    /// The gap's neighbours have samples or are outside.
    fn fill_gap<T: Copy>(
        &self,
        part: &Stretch,
        fill: Fill<T>,
        out: &mut [T],
        gap: Range<usize>,
    ) -> Result<(), StoreError> {
        if gap.is_empty() {
            return Ok(());
        }
        let before = gap.start.checked_sub(1).map(|at| out[at]);
        let behind = out.get(gap.end).copied();
        let value = match (fill, before, behind) {
            (Fill::Value(value), ..) => Some(value),
            (Fill::Forward(edge), ..) => before.or(edge),
            (Fill::Refuse, ..) => None,
            (Fill::Interpolate { between, .. }, Some(before), Some(behind)) => {
                let steps = (gap.len() + 1) as f64;
                let mut step = 0.0;
                for piece in out[gap].chunks_mut(CHECK_INTERVAL_SAMPLES as usize) {
                    interrupt::check("read samples")?;
                    for value in piece {
                        step += 1.0;
                        *value = between(before, behind, step / steps);
                    }
                }
                return Ok(());
            }
            (Fill::Interpolate { edge, .. }, ..) => Some(edge),
        };
        let Some(value) = value else {
            return Err(self.names_gap(Gap {
                start: part.range.start + gap.start as i64,
                length: gap.len() as i64,
            }));
        };
        for piece in out[gap].chunks_mut(CHECK_INTERVAL_SAMPLES as usize) {
            interrupt::check("read samples")?;
            piece.fill(value);
        }
        Ok(())
    }
}

/// Samples between checks for interrupts.
const CHECK_INTERVAL_SAMPLES: i64 = 1 << 18;

pub(crate) fn write_values<V: ValueType>(
    segment: &SigSeg,
    out: &mut [V],
) -> Result<(), SegmentError> {
    convert(segment, &segment.stream().calibration, out)
}

fn convert<V: ValueType>(
    segment: &SigSeg,
    calibration: &Calibration,
    out: &mut [V],
) -> Result<(), SegmentError> {
    let mut rest = out;
    dispatch!(segment.dtype(), S => segment.visit::<S>(|samples| {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(samples.len());
        let _ = values(samples, calibration, part);
        rest = after;
    }))
}
