//! Hilbert transformers.
//!
//! The ideal impulse response, `2 / (pi n)` for odd n, times a Kaiser window. Source: A. V. Oppenheim and R. W.
//! Schafer, "Discrete-Time Signal Processing", 3rd edition, 12.4.

use std::f64::consts::PI;

use super::fir_design::{bessel_i0, kaiser_beta, kaiser_taps};
use super::parameter_error;
use crate::DspError;

/// Designs an odd number of antisymmetric taps, delayed by half their number. The gain is within `10^(-attenuation_db /
/// 20)` of 1 from `low_hz` to half the rate less `low_hz`, and 0 at the ends.
///
/// # Errors
/// [`DspError::Parameter`] unless `low_hz` is between 0 and a quarter of the rate, or for too many taps.
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
    // Callers know `low_hz`, not the transition width.
    let needed = |attenuation| {
        kaiser_taps(operator, attenuation, 2.0 * low_hz, rate).map_err(|why| match why {
            DspError::Parameter { allowed, .. } => {
                parameter_error(operator, "low_hz", format!("{low_hz} Hz"), allowed)
            }
            other => other,
        })
    };
    let target = ERROR_MARGIN * 10f64.powf(-attenuation_db / 20.0);
    // A step from -1 to 1 has twice the ripple.
    let mut attenuation = attenuation_db + 6.0;
    let mut middle = needed(attenuation)? / 2;
    // Estimates hold for many taps only: measure.
    for _ in 0..MAX_DESIGNS {
        let taps = windowed(middle, kaiser_beta(attenuation));
        let error = largest_error(&taps, low_hz / rate);
        if error <= target {
            return Ok(taps);
        }
        attenuation += (20.0 * (error / target).log10()).max(0.05);
        middle = (middle + 1).max(needed(attenuation)? / 2);
    }
    Err(parameter_error(
        operator,
        "attenuation_db",
        format!("{attenuation_db} dB"),
        "lower: rounding of the taps limits the accuracy".to_owned(),
    ))
}

/// For errors between the measured frequencies.
const ERROR_MARGIN: f64 = 0.97;
const MAX_DESIGNS: usize = 64;

/// `2 / (pi n)` for odd n, times a Kaiser window.
fn windowed(middle: usize, beta: f64) -> Vec<f64> {
    let middle = middle.max(1) as i64;
    let tap = |n: i64| {
        if n % 2 == 0 {
            return 0.0;
        }
        let part = n as f64 / middle as f64;
        let window = bessel_i0(beta * ((1.0 - part) * (1.0 + part)).sqrt()) / bessel_i0(beta);
        2.0 / (PI * n as f64) * window
    };
    (-middle..=middle).map(tap).collect()
}

/// Largest deviation of the gain from 1. Ripples grow towards the steps, and the gain is symmetric: those next to `low`
/// decide.
fn largest_error(taps: &[f64], low: f64) -> f64 {
    const RIPPLES: usize = 24;
    const POINTS: usize = 16;
    let middle = taps.len() / 2;
    let span = (0.25 - low).min(RIPPLES as f64 / taps.len() as f64);
    let odd: Vec<f64> = taps[middle..].iter().skip(1).step_by(2).copied().collect();
    let steps = RIPPLES * POINTS;
    let at = |step| low + span * step as f64 / steps as f64;
    (0..=steps)
        .map(|step| (gain(&odd, at(step)) - 1.0).abs())
        .fold(0.0, f64::max)
}

/// Rotates instead of computing sines, several times as fast; restarted before rounding errors add up.
fn gain(odd: &[f64], cycles: f64) -> f64 {
    const RESTART_INTERVAL: usize = 32;
    let turn = 2.0 * PI * cycles;
    let (sin_step, cos_step) = (2.0 * turn).sin_cos();
    let mut gain = 0.0;
    for (block, taps) in odd.chunks(RESTART_INTERVAL).enumerate() {
        let first = (2 * block * RESTART_INTERVAL + 1) as f64;
        let (mut sin, mut cos) = (turn * first).sin_cos();
        for tap in taps {
            gain += tap * sin;
            (sin, cos) = (
                sin * cos_step + cos * sin_step,
                cos * cos_step - sin * sin_step,
            );
        }
    }
    2.0 * gain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_is_the_sum_of_all_sines() {
        for (middle, cycles) in [(1, 0.1), (31, 0.249), (5001, 1e-5), (20_001, 0.0123)] {
            let taps = windowed(middle, 5.0);
            let odd: Vec<f64> = taps[middle + 1..].iter().step_by(2).copied().collect();
            let slow: f64 = (1..=middle)
                .step_by(2)
                .map(|n| 2.0 * taps[middle + n] * (2.0 * PI * cycles * n as f64).sin())
                .sum();
            assert!(
                (gain(&odd, cycles) - slow).abs() < 1e-12,
                "{middle} {cycles}"
            );
        }
    }
}
