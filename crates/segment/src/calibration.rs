//! Calibration of counts to physical units.

use std::hash::{Hash, Hasher};

use crate::{Sample, SegmentError};

/// A linear map from stored counts to a physical unit: `value = count * scale + offset`.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    scale: f64,
    offset: f64,
    unit: String,
}

impl Calibration {
    /// A calibration with `scale` in units per count and `offset` in units; an empty unit is unknown.
    ///
    /// # Errors
    /// [`SegmentError::InvalidCalibration`] unless scale is finite and non-zero and offset is finite.
    pub fn new(scale: f64, offset: f64, unit: impl Into<String>) -> Result<Self, SegmentError> {
        if !scale.is_finite() || scale == 0.0 || !offset.is_finite() {
            return Err(SegmentError::InvalidCalibration { scale, offset });
        }
        let unit = unit.into();
        Ok(Self {
            scale,
            offset,
            unit,
        })
    }

    /// Counts are values in `unit`.
    #[must_use]
    pub fn identity(unit: impl Into<String>) -> Self {
        Self {
            scale: 1.0,
            offset: 0.0,
            unit: unit.into(),
        }
    }

    /// Units per count.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Value of zero counts, in the unit.
    #[must_use]
    pub fn offset(&self) -> f64 {
        self.offset
    }

    /// Unit of calibrated values; empty if unknown.
    #[must_use]
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// Whether counts are values.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.scale == 1.0 && self.offset == 0.0
    }

    /// Calibrates as many samples as both slices hold.
    #[inline(always)] // so that callers can compile it for a wider instruction set
    pub fn apply<T: Sample>(&self, counts: &[T], out: &mut [T::Physical]) {
        for (value, &count) in out.iter_mut().zip(counts) {
            *value = count.calibrate(self.scale, self.offset);
        }
    }
}

// Scale and offset are finite, so equality is reflexive.
impl Eq for Calibration {}

impl Hash for Calibration {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Gives -0.0 and 0.0, which are equal, the same hash.
        (self.scale + 0.0).to_bits().hash(state);
        (self.offset + 0.0).to_bits().hash(state);
        self.unit.hash(state);
    }
}

impl Default for Calibration {
    /// Identity with an unknown unit.
    fn default() -> Self {
        Self::identity("")
    }
}
