//! Designs recursive filters.

use std::f64::consts::PI;

use super::prototype::{butterworth, chebyshev1, chebyshev2, elliptic};
use super::sections::{Section, Sections};
use super::{frequency, parameter_error};
use crate::DspError;

/// Pass band; corners in Hz.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Band {
    /// Passes below the corner.
    Lowpass(f64),
    /// Passes above the corner.
    Highpass(f64),
    /// Passes between the corners.
    Bandpass(f64, f64),
    /// Stops between the corners.
    Bandstop(f64, f64),
}

/// Filter family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Family {
    /// Maximally flat; gain `1 / sqrt(2)` at a corner.
    Butterworth,
    /// Ripple in the passband; the gain leaves `-ripple_db` at a corner.
    Chebyshev1 {
        /// Passband ripple in dB, above 0.
        ripple_db: f64,
    },
    /// Ripple in the stopband; the gain reaches `-attenuation_db` at a corner.
    Chebyshev2 {
        /// Least attenuation in dB, above 0.
        attenuation_db: f64,
    },
    /// Ripple in both, narrowest transition; the gain leaves `-ripple_db` at a corner.
    Elliptic {
        /// Passband ripple in dB, above 0.
        ripple_db: f64,
        /// Least attenuation in dB, above `ripple_db`.
        attenuation_db: f64,
    },
}

/// Specification of a recursive filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Iir {
    /// Family.
    pub family: Family,
    /// Pass band.
    pub band: Band,
    /// Order of the lowpass prototype, 1 to [`Iir::MAX_ORDER`]; two-sided bands have twice the poles.
    pub order: usize,
}

impl Iir {
    /// Highest order.
    pub const MAX_ORDER: usize = 32;

    /// Designs the filter for a rate in Hz, as SciPy's `iirfilter(output="sos")`: bilinear transform with prewarped
    /// corners, nearest pole-zero pairing.
    ///
    /// # Errors
    /// [`DspError::Parameter`] for corners not ascending between zero and half the rate, or an order, ripple or
    /// attenuation out of range. [`DspError::Unstable`] if double precision cannot represent the filter.
    ///
    /// ```
    /// use isochrony_dsp::filter::{Band, Family, Iir};
    ///
    /// let lowpass = Iir { family: Family::Butterworth, band: Band::Lowpass(10.0), order: 4 };
    /// let sections = lowpass.design("iir", 100.0)?;
    /// assert!((sections.response(10.0, 100.0).norm() - 0.5f64.sqrt()).abs() < 1e-12);
    /// assert!(lowpass.design("iir", 20.0).is_err()); // the corner is half the rate
    /// # Ok::<(), isochrony_dsp::DspError>(())
    /// ```
    pub fn design(&self, operator: &'static str, rate: f64) -> Result<Sections, DspError> {
        if !(1..=Self::MAX_ORDER).contains(&self.order) {
            let allowed = format!("from 1 to {} poles", Self::MAX_ORDER);
            return Err(parameter_error(
                operator,
                "order",
                self.order.to_string(),
                allowed,
            ));
        }
        let warped = |hz: f64| Ok((PI * frequency(operator, "cutoff_hz", hz, rate)? / rate).tan());
        let ascending = |low: f64, high: f64| {
            let corners = (warped(low)?, warped(high)?);
            if low < high {
                return Ok(corners);
            }
            let got = format!("[{low}, {high}]");
            Err(parameter_error(
                operator,
                "cutoff_hz",
                got,
                "two ascending frequencies",
            ))
        };
        let decibels = |parameter: &'static str, db: f64, above: f64| {
            if db > above && db <= 600.0 {
                return Ok(db);
            }
            let allowed = format!("above {above} and at most 600 dB");
            Err(parameter_error(
                operator,
                parameter,
                format!("{db} dB"),
                allowed,
            ))
        };
        let prototype = match self.family {
            Family::Butterworth => butterworth(self.order),
            Family::Chebyshev1 { ripple_db } => {
                chebyshev1(self.order, decibels("ripple_db", ripple_db, 0.0)?)
            }
            Family::Chebyshev2 { attenuation_db } => {
                chebyshev2(self.order, decibels("attenuation_db", attenuation_db, 0.0)?)
            }
            Family::Elliptic {
                ripple_db,
                attenuation_db,
            } => {
                let ripple = decibels("ripple_db", ripple_db, 0.0)?;
                let attenuation = decibels("attenuation_db", attenuation_db, ripple)?;
                elliptic(self.order, ripple, attenuation).ok_or_else(|| {
                    let got = format!("{attenuation_db} dB at ripple_db={ripple_db} dB");
                    parameter_error(
                        operator,
                        "attenuation_db",
                        got,
                        "nearer to ripple_db: double precision has no such filter",
                    )
                })?
            }
        };
        let analog = match self.band {
            Band::Lowpass(corner) => prototype.lowpass(warped(corner)?),
            Band::Highpass(corner) => prototype.highpass(warped(corner)?),
            Band::Bandpass(low, high) => {
                let (low, high) = ascending(low, high)?;
                prototype.bandpass(low, high)
            }
            Band::Bandstop(low, high) => {
                let (low, high) = ascending(low, high)?;
                prototype.bandstop(low, high)
            }
        };
        Sections::new(operator, analog.bilinear().sections())
    }
}

/// Cosine of the frequency's angle, and the gain for the bandwidth.
fn one_frequency(
    operator: &'static str,
    hz: f64,
    q: f64,
    rate: f64,
) -> Result<(f64, f64), DspError> {
    let angle = 2.0 * PI * frequency(operator, "hz", hz, rate)? / rate;
    // Half the width must stay below a quarter turn, a pole of the tangent.
    if !(q.is_finite() && q > angle / PI) {
        let allowed = format!(
            "above {}, so that the band of {hz} Hz / q is narrower than half the rate",
            2.0 * hz / rate
        );
        return Err(parameter_error(operator, "q", q.to_string(), allowed));
    }
    Ok((angle.cos(), 1.0 / (1.0 + (angle / q / 2.0).tan())))
}

/// Notch (SciPy's `iirnotch`): removes one frequency; attenuates by 3 dB or more within `hz / q`.
///
/// # Errors
/// [`DspError::Parameter`] for a frequency not between zero and half the rate, or a band wider than that.
pub fn notch(operator: &'static str, hz: f64, q: f64, rate: f64) -> Result<Sections, DspError> {
    let (cosine, gain) = one_frequency(operator, hz, q, rate)?;
    Sections::new(
        operator,
        vec![Section {
            b: [gain, gain * (-2.0 * cosine), gain],
            a: [-2.0 * gain * cosine, 2.0 * gain - 1.0],
        }],
    )
}

/// Peak (SciPy's `iirpeak`): passes one frequency; attenuates by at most 3 dB within `hz / q`.
///
/// # Errors
/// As [`notch`].
pub fn peak(operator: &'static str, hz: f64, q: f64, rate: f64) -> Result<Sections, DspError> {
    let (cosine, gain) = one_frequency(operator, hz, q, rate)?;
    Sections::new(
        operator,
        vec![Section {
            b: [1.0 - gain, 0.0, gain - 1.0],
            a: [-2.0 * gain * cosine, 2.0 * gain - 1.0],
        }],
    )
}
