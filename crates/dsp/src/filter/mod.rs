//! Linear filters: designed here, applied by small structs that keep their state from call to call.
//!
//! - [`Iir`] designs recursive filters (Butterworth, Chebyshev, elliptic), [`notch`] and [`peak`] those of one frequency;
//!   a design is [`Sections`], a cascade of second-order sections, and [`SosFilter`] applies it.
//!
//! Conventions: frequencies are in Hz of the rate that is given with them. What a filter gives for a sample depends on
//! the samples before it alone, never on how they were handed over, nor on the instruction set. A frequency at or above
//! half the rate, or at zero, is an error.

mod design;
mod elliptic;
mod pairing;
mod prototype;
mod sections;
mod sos;
#[cfg(target_arch = "x86_64")]
mod sos_x86;
mod transform;

pub use design::{Band, Family, Iir, notch, peak};
pub use sections::{Section, Sections};
pub use sos::{Initial, SosFilter};

use crate::DspError;

/// Checks that a frequency lies above zero and below half the rate.
pub(crate) fn frequency(
    operator: &'static str,
    parameter: &'static str,
    hz: f64,
    rate: f64,
) -> Result<f64, DspError> {
    if hz > 0.0 && hz < rate / 2.0 && rate.is_finite() {
        return Ok(hz);
    }
    let allowed = format!("above 0 and below half the rate, {} Hz", rate / 2.0);
    Err(parameter_error(
        operator,
        parameter,
        format!("{hz} Hz"),
        allowed,
    ))
}

/// An error that names the parameter, what was given and what is allowed.
pub(crate) fn parameter_error(
    operator: &'static str,
    parameter: &'static str,
    got: impl Into<String>,
    allowed: impl Into<String>,
) -> DspError {
    DspError::Parameter {
        operator,
        parameter,
        got: got.into(),
        allowed: allowed.into(),
    }
}
