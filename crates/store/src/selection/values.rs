//! Values of a selection in one array, with a fill where samples are missing.

use bytemuck::Pod;
use isochrony_segment::{Complex64, Sample, SegmentError, SigSeg, dispatch};

use super::{Selection, stretches};
use crate::error::StoreError;

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
                out.resize(offset(stretch.range.end), fill);
                let segment = self.signal().read(stretch.range.clone())?;
                copy(&segment, &mut out[offset(stretch.range.start)..])?;
            }
            out.resize(offset(part.range.end), fill);
        }
        Ok(out)
    }
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
