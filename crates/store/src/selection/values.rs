//! Values of a selection in one array, with a fill where samples are missing.

use bytemuck::Pod;
use isochrony_segment::{Complex64, Sample, SegmentError, SigSeg, dispatch};

use super::{Selection, stretches};
use crate::error::StoreError;
use crate::interrupt;

/// Calibrated values: real, or complex for a complex signal.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// One number per index.
    Real(Vec<f64>),
    /// One complex number per index.
    Complex(Vec<Complex64>),
}

impl Selection {
    /// One value in the signal's unit per index of the parts, `fill` in gaps. Time between runs takes no space: for
    /// values at stated times see [`Store::gather`](crate::Store::gather).
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] if the memory cannot be had, [`StoreError::Io`].
    pub fn values(&self, fill: f64) -> Result<Values, StoreError> {
        Ok(if self.signal().dtype().is_complex() {
            Values::Complex(self.filled(Complex64::new(fill, fill), to_physical)?)
        } else {
            Values::Real(self.filled(fill, to_physical)?)
        })
    }

    /// One raw sample per index of the parts, `fill` in gaps.
    ///
    /// # Errors
    /// [`StoreError::Segment`] if `T` is not the signal's type, and as [`values`](Self::values).
    pub fn counts<T: Sample>(&self, fill: T) -> Result<Vec<T>, StoreError> {
        self.filled(fill, |segment, out| segment.copy_to(out))
    }

    fn filled<T: Copy>(
        &self,
        fill: T,
        copy: impl Fn(&SigSeg, &mut [T]) -> Result<(), SegmentError>,
    ) -> Result<Vec<T>, StoreError> {
        let too_large = || StoreError::TooLarge {
            what: "one array for this selection",
            bytes: u128::from(self.len().unsigned_abs()) * size_of::<T>() as u128,
            limit: isize::MAX as u128,
        };
        let length = usize::try_from(self.len()).map_err(|_| too_large())?;
        let mut out: Vec<T> = Vec::new();
        out.try_reserve_exact(length).map_err(|_| too_large())?;
        for part in self.parts() {
            let base = out.len();
            let offset = |index: i64| base + (index - part.range.start) as usize;
            for stretch in stretches(self.signal(), part) {
                pad(&mut out, offset(stretch.range.start), fill)?;
                let mut at = stretch.range.start;
                // In pieces that stay in the cache between making room and filling it.
                while at < stretch.range.end {
                    interrupt::look("read samples")?;
                    let stop = stretch.range.end.min(at.saturating_add(PIECE));
                    out.resize(offset(stop), fill);
                    copy(&self.signal().read(at..stop)?, &mut out[offset(at)..])?;
                    at = stop;
                }
            }
            pad(&mut out, offset(part.range.end), fill)?;
        }
        Ok(out)
    }
}

/// Samples at a time.
const PIECE: i64 = 1 << 18;

/// Fills up to `length`.
fn pad<T: Copy>(out: &mut Vec<T>, length: usize, fill: T) -> Result<(), StoreError> {
    while out.len() < length {
        interrupt::look("read samples")?;
        out.resize(length.min(out.len() + PIECE as usize), fill);
    }
    Ok(())
}

/// Calibrated values of a segment; `T` is f64, or complex for complex samples.
pub(crate) fn to_physical<T: Pod>(segment: &SigSeg, out: &mut [T]) -> Result<(), SegmentError> {
    let calibration = &segment.stream().calibration;
    dispatch!(segment.dtype(), S => {
        let out: &mut [<S as Sample>::Physical] = bytemuck::cast_slice_mut(out);
        let mut rest = out;
        segment.visit::<S>(|samples| {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(samples.len());
            calibration.apply(samples, part);
            rest = after;
        })
    })
}
