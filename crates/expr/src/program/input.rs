//! Inputs of programs.

use isochrony_segment::{Calibration, DType};

use crate::Shape;

/// An input of a program: samples of windows, or one value per window.
///
/// Inputs are combined by window: sample `i` with sample `i` of the other's window, or with its single value.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub(crate) dtype: DType,
    pub(crate) calibration: Option<&'a Calibration>,
    pub(crate) shape: Shape,
}

impl<'a> Input<'a> {
    /// Samples.
    #[must_use]
    pub fn samples(dtype: DType) -> Self {
        Self {
            dtype,
            calibration: None,
            shape: Shape::Sample,
        }
    }

    /// One value per window, such as a gain or threshold.
    #[must_use]
    pub fn values(dtype: DType) -> Self {
        Self {
            shape: Shape::Window,
            ..Self::samples(dtype)
        }
    }

    /// Counts that the program calibrates while reading: the expression sees f64 in the unit (c128 for complex counts).
    #[must_use]
    pub fn calibrated(self, calibration: &'a Calibration) -> Self {
        Self {
            calibration: Some(calibration),
            ..self
        }
    }
}
