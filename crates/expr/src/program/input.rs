//! What a program is given.

use isochrony_segment::{Calibration, DType};

use crate::Shape;

/// One of the inputs that a program is compiled for: samples of windows, or one value of each window.
///
/// Inputs meet window by window: sample `i` of a window of one with sample `i` of the same window of another, and with
/// the window's value where an input has one.
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

    /// One value a window, as a gain or a threshold.
    #[must_use]
    pub fn values(dtype: DType) -> Self {
        Self {
            shape: Shape::Window,
            ..Self::samples(dtype)
        }
    }

    /// Counts that the program calibrates as it reads them: the expression sees f64 in the calibration's unit (c128
    /// for complex counts). Counts that are values already are seen as they are.
    #[must_use]
    pub fn calibrated(self, calibration: &'a Calibration) -> Self {
        Self {
            calibration: Some(calibration),
            ..self
        }
    }
}
