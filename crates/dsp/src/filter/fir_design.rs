//! FIR design by the window method.
//!
//! The impulse response of an ideal filter times a symmetric window, scaled to a gain of 1 in the middle of the pass
//! band (or at 0 Hz or half the rate). The delay is half the length. Source: A. V. Oppenheim and R. W. Schafer,
//! "Discrete-Time Signal Processing", 3rd edition, 7.5; Kaiser's formulas are 7.75 and 7.76.

use std::f64::consts::PI;

use super::design::Band;
use super::{frequency, parameter_error};
use crate::DspError;

/// A second at 1 MHz.
pub(super) const MAX_TAPS: usize = 1 << 20;

/// Symmetric window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FirWindow {
    /// `0.54 - 0.46 cos`: 53 dB of attenuation.
    Hamming,
    /// `0.5 - 0.5 cos`: 44 dB, more farther away.
    Hann,
    /// `0.42 - 0.5 cos + 0.08 cos`: 74 dB.
    Blackman,
    /// None: the steepest, 21 dB.
    Boxcar,
    /// As steep as the attenuation allows.
    Kaiser {
        /// Shape; see [`kaiser_beta`].
        beta: f64,
    },
}

impl FirWindow {
    fn at(self, k: usize, taps: usize) -> f64 {
        if taps == 1 {
            return 1.0;
        }
        let phase = 2.0 * PI * k as f64 / (taps - 1) as f64;
        match self {
            Self::Hamming => 0.54 - 0.46 * phase.cos(),
            Self::Hann => 0.5 - 0.5 * phase.cos(),
            Self::Blackman => 0.42 - 0.5 * phase.cos() + 0.08 * (2.0 * phase).cos(),
            Self::Boxcar => 1.0,
            Self::Kaiser { beta } => {
                let x = 2.0 * k as f64 / (taps - 1) as f64 - 1.0;
                bessel_i0(beta * ((1.0 - x) * (1.0 + x)).sqrt()) / bessel_i0(beta)
            }
        }
    }
}

/// By its series: all terms are positive.
pub(crate) fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * f64::EPSILON / 4.0 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

/// Shape for an attenuation in dB.
#[must_use]
pub fn kaiser_beta(attenuation_db: f64) -> f64 {
    if attenuation_db > 50.0 {
        0.1102 * (attenuation_db - 8.7)
    } else if attenuation_db > 21.0 {
        0.5842 * (attenuation_db - 21.0).powf(0.4) + 0.07886 * (attenuation_db - 21.0)
    } else {
        0.0
    }
}

/// Taps for a transition of `width_hz`; odd: every band is possible.
///
/// # Errors
/// [`DspError::Parameter`] if the width is not between 0 and half the rate, or needs too many taps.
pub fn kaiser_taps(
    operator: &'static str,
    attenuation_db: f64,
    width_hz: f64,
    rate: f64,
) -> Result<usize, DspError> {
    frequency(operator, "width_hz", width_hz, rate)?;
    let taps = ((attenuation_db - 7.95) / 2.285 / (2.0 * PI * width_hz / rate) + 1.0).ceil();
    if taps > MAX_TAPS as f64 {
        let allowed =
            format!("wide enough for at most {MAX_TAPS} taps; so narrow a transition needs {taps}");
        return Err(parameter_error(
            operator,
            "width_hz",
            format!("{width_hz} Hz"),
            allowed,
        ));
    }
    Ok(taps.max(1.0) as usize | 1)
}

/// Designs taps, as SciPy's `firwin`.
///
/// # Errors
/// [`DspError::Parameter`] for no taps or too many, corners out of range or not ascending, or an even number of taps to
/// pass half the rate.
///
/// ```
/// use isochrony_dsp::filter::{Band, FirWindow, fir_window};
///
/// let taps = fir_window("fir", 101, Band::Lowpass(10.0), FirWindow::Hamming, 100.0)?;
/// assert!((taps.iter().sum::<f64>() - 1.0).abs() < 1e-12); // constants pass as they are
/// assert_eq!(taps[20], taps[80]);
/// assert!(fir_window("fir", 100, Band::Highpass(10.0), FirWindow::Hamming, 100.0).is_err());
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
pub fn fir_window(
    operator: &'static str,
    taps: usize,
    band: Band,
    window: FirWindow,
    rate: f64,
) -> Result<Vec<f64>, DspError> {
    count(operator, taps)?;
    let corner = |hz: f64| Ok(frequency(operator, "cutoff_hz", hz, rate)? / rate * 2.0);
    let bands: &[(f64, f64)] = match band {
        Band::Lowpass(hz) => &[(0.0, corner(hz)?)],
        Band::Highpass(hz) => &[(corner(hz)?, 1.0)],
        Band::Bandpass(low, high) => &[(corner(low)?, corner(high)?)],
        Band::Bandstop(low, high) => &[(0.0, corner(low)?), (corner(high)?, 1.0)],
    };
    if let Band::Bandpass(low, high) | Band::Bandstop(low, high) = band
        && low >= high
    {
        let got = format!("[{low}, {high}]");
        return Err(parameter_error(
            operator,
            "cutoff_hz",
            got,
            "two ascending frequencies",
        ));
    }
    if taps.is_multiple_of(2) && bands.iter().any(|band| band.1 == 1.0) {
        let allowed = "odd for a filter that passes half the rate";
        return Err(parameter_error(operator, "taps", taps.to_string(), allowed));
    }
    let middle = (taps - 1) as f64 / 2.0;
    let sinc = |x: f64| {
        if x == 0.0 {
            1.0
        } else {
            (PI * x).sin() / (PI * x)
        }
    };
    let ideal = |m: f64| -> f64 {
        bands
            .iter()
            .map(|&(low, high)| high * sinc(high * m) - low * sinc(low * m))
            .sum()
    };
    let tap = |k: usize| window.at(k, taps) * ideal(k as f64 - middle);
    let mut result: Vec<f64> = (0..taps).map(tap).collect();
    for k in 0..taps / 2 {
        result[taps - 1 - k] = result[k];
    }
    let at = match bands[0] {
        (0.0, _) => 0.0,
        (_, 1.0) => 1.0,
        (low, high) => 0.5 * (low + high),
    };
    let gains = result.iter().enumerate();
    let gain: f64 = gains
        .map(|(k, tap)| tap * (PI * (k as f64 - middle) * at).cos())
        .sum();
    result.iter_mut().for_each(|tap| *tap /= gain);
    Ok(result)
}

pub(super) fn count(operator: &'static str, taps: usize) -> Result<(), DspError> {
    if (1..=MAX_TAPS).contains(&taps) {
        return Ok(());
    }
    let allowed = format!("from 1 to {MAX_TAPS}");
    Err(parameter_error(operator, "taps", taps.to_string(), allowed))
}
