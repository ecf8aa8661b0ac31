//! Linear filters: design, and application with state.
//!
//! - [`Iir`] designs recursive filters, [`notch`] and [`peak`] those of one frequency, as [`Sections`]; [`SosFilter`]
//!   applies them, [`ZeroPhase`] forward and backward.
//! - [`fir_window`], [`remez`] and [`hilbert()`] design FIR taps, [`Fir`] applies them.
//!
//! Frequencies are in Hz, above zero and below half the rate. A result depends on its sample and those before, never on
//! cuts or the instruction set.

mod design;
mod direct_sums;
mod elliptic;
mod fir;
mod fir_design;
mod hilbert;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod lanes_x86;
mod overlap_save;
mod pairing;
mod prototype;
mod remez;
mod sections;
mod sos;
mod transform;
mod zero_phase;

pub use design::{Band, Family, Iir, notch, peak};
pub use fir::{Fir, FirMethod};
pub(crate) use fir_design::bessel_i0;
pub use fir_design::{FirWindow, fir_window, kaiser_beta, kaiser_taps};
pub use hilbert::hilbert;
pub use remez::{FirBand, remez};
pub use sections::{Section, Sections};
pub use sos::{Initial, SosFilter};
pub use zero_phase::{REL_ERR, ZeroPhase};

use crate::DspError;

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
