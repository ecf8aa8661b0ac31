//! Taps that turn every frequency by a quarter of a turn: the imaginary part of the analytic signal.
//!
//! The impulse response of the ideal transformer, `2 / (pi n)` of odd n, under a Kaiser window. Source: A. V. Oppenheim and
//! R. W. Schafer, "Discrete-Time Signal Processing", 3rd edition, 12.4.

use std::f64::consts::PI;

use super::fir_design::{bessel_i0, kaiser_beta, kaiser_taps};
use super::parameter_error;
use crate::DspError;

/// Designs an odd number of antisymmetric taps, delayed by half their number, whose gain is 1 within
/// `10^(-attenuation_db / 20)` from `low_hz` to half the rate less `low_hz`; at 0 and at half the rate it is 0.
///
/// # Errors
/// [`DspError::Parameter`] unless `low_hz` lies above 0 and below a quarter of the rate, or for more taps than there may be.
///
/// ```
/// use isochrony_dsp::filter::hilbert;
/// let taps = hilbert("envelope", 60.0, 5.0, 100.0)?;
/// let middle = taps.len() / 2;
/// assert_eq!((taps.len() % 2, taps[middle], taps[middle + 2]), (1, 0.0, 0.0));
/// assert_eq!(taps[middle - 1], -taps[middle + 1]);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
pub fn hilbert(
    operator: &'static str,
    attenuation_db: f64,
    low_hz: f64,
    rate: f64,
) -> Result<Vec<f64>, DspError> {
    if !(low_hz > 0.0 && low_hz < rate / 4.0) {
        let allowed = format!("above 0 and below a quarter of the rate, {} Hz", rate / 4.0);
        return Err(parameter_error(
            operator,
            "low_hz",
            format!("{low_hz} Hz"),
            allowed,
        ));
    }
    // From -1 at -low_hz to 1 at low_hz: a step of two, and so a ripple of twice what a filter of one has.
    let attenuation = attenuation_db + 6.0;
    // The step's width is none of the caller's parameters: what is wrong with it is wrong with the corner.
    let taps = kaiser_taps(operator, attenuation, 2.0 * low_hz, rate).map_err(|why| match why {
        DspError::Parameter { allowed, .. } => {
            parameter_error(operator, "low_hz", format!("{low_hz} Hz"), allowed)
        }
        other => other,
    })?;
    let (middle, beta) = ((taps / 2) as i64, kaiser_beta(attenuation));
    let tap = |n: i64| {
        if n % 2 == 0 {
            return 0.0;
        }
        let part = n as f64 / middle as f64;
        let window = bessel_i0(beta * ((1.0 - part) * (1.0 + part)).sqrt()) / bessel_i0(beta);
        2.0 / (PI * n as f64) * window
    };
    Ok((-middle..=middle).map(tap).collect())
}
