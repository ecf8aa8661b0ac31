//! Tapers: window functions that reduce spectral leakage.
//!
//! [`Taper::periodic`] is for spectra; [`Taper::symmetric`], with equal ends, for filters. Names and values are
//! SciPy's: a periodic taper of n is the symmetric one of n + 1 without its last factor; one sample has the factor 1.
//!
//! The first half is mirrored: exactly symmetric. The bits are the same everywhere ([`math`](crate::math)).

use std::f64::consts::PI;
use std::fmt;
use std::str::FromStr;

use crate::DspError;
use crate::math::{cos, exp};

/// The shape of a taper.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Taper {
    /// Ones.
    Boxcar,
    /// A triangle with zero ends.
    Bartlett,
    /// Raised cosine: 0.5 - 0.5 cos.
    Hann,
    /// Raised cosine on a pedestal: 0.54 - 0.46 cos.
    Hamming,
    /// Three cosine terms: 0.42, 0.5, 0.08.
    Blackman,
    /// Four cosine terms, side lobes below -92 dB (Harris 1978).
    BlackmanHarris,
    /// Four cosine terms, side lobes below -98 dB (Nuttall 1981).
    Nuttall,
    /// Five cosine terms, flat main lobe: amplitudes between frequencies within 0.01 dB.
    FlatTop,
    /// Bessel functions: a larger `beta` gives lower side lobes and a wider main lobe.
    Kaiser {
        /// From 0, which is [`Boxcar`](Self::Boxcar), to 700.
        beta: f64,
    },
    /// Flat between halves of a raised cosine.
    Tukey {
        /// Tapered fraction, 0 to 1.
        alpha: f64,
    },
    /// Gaussian.
    Gaussian {
        /// Standard deviation in samples, above 0.
        std: f64,
    },
}

const PLAIN: [(&str, Taper); 8] = [
    ("boxcar", Taper::Boxcar),
    ("bartlett", Taper::Bartlett),
    ("hann", Taper::Hann),
    ("hamming", Taper::Hamming),
    ("blackman", Taper::Blackman),
    ("blackmanharris", Taper::BlackmanHarris),
    ("nuttall", Taper::Nuttall),
    ("flattop", Taper::FlatTop),
];

/// All tapers, for messages.
pub const TAPERS: &str = "boxcar, bartlett, hann, hamming, blackman, blackmanharris, nuttall, flattop, kaiser(beta) with beta from 0 \
     to 700, tukey(alpha) with alpha from 0 to 1, gaussian(std) with std above 0 samples";

impl Taper {
    /// Factors for the spectrum of `width` samples.
    ///
    /// ```
    /// use isochrony_dsp::window::Taper;
    /// assert_eq!(Taper::Bartlett.periodic(4), [0.0, 0.5, 1.0, 0.5]);
    /// assert_eq!(Taper::Bartlett.symmetric(5), [0.0, 0.5, 1.0, 0.5, 0.0]);
    /// ```
    #[must_use]
    pub fn periodic(self, width: usize) -> Vec<f64> {
        match width {
            0 | 1 => vec![1.0; width],
            _ => self.factors(width, width),
        }
    }

    /// Factors with equal ends.
    #[must_use]
    pub fn symmetric(self, width: usize) -> Vec<f64> {
        match width {
            0 | 1 => vec![1.0; width],
            _ => self.factors(width, width - 1),
        }
    }

    fn factors(self, width: usize, span: usize) -> Vec<f64> {
        if matches!(self, Self::Boxcar) {
            return vec![1.0; width];
        }
        let half: Vec<f64> = (0..=span / 2).map(|at| self.factor(at, span)).collect();
        (0..width).map(|at| half[at.min(span - at)]).collect()
    }

    fn factor(self, at: usize, span: usize) -> f64 {
        let (x, full) = (at as f64, span as f64);
        match self {
            Self::Boxcar => 1.0,
            Self::Bartlett => 2.0 * x / full,
            Self::Hann => cosines(&[0.5, 0.5], at, span),
            Self::Hamming => cosines(&[0.54, 0.46], at, span),
            Self::Blackman => cosines(&[0.42, 0.5, 0.08], at, span),
            Self::BlackmanHarris => cosines(&[0.358_75, 0.488_29, 0.141_28, 0.011_68], at, span),
            Self::Nuttall => cosines(
                &[0.363_581_9, 0.489_177_5, 0.136_599_5, 0.010_641_1],
                at,
                span,
            ),
            Self::FlatTop => cosines(
                &[
                    0.215_578_95,
                    0.416_631_58,
                    0.277_263_158,
                    0.083_578_947,
                    0.006_947_368,
                ],
                at,
                span,
            ),
            Self::Kaiser { beta } => {
                let from_middle = 2.0 * x / full - 1.0;
                let inside = (1.0 - from_middle * from_middle).max(0.0);
                bessel_i0(beta * inside.sqrt()) / bessel_i0(beta)
            }
            Self::Tukey { alpha: 0.0 } => 1.0,
            Self::Tukey { alpha } => {
                if x <= (alpha * full / 2.0).floor() {
                    0.5 - 0.5 * cos(2.0 * PI * x / (alpha * full))
                } else {
                    1.0
                }
            }
            Self::Gaussian { std } => {
                let from_middle = (x - full / 2.0) / std;
                exp(-0.5 * from_middle * from_middle)
            }
        }
    }

    fn checked(self) -> Option<Self> {
        let legal = match self {
            Self::Kaiser { beta } => (0.0..=700.0).contains(&beta),
            Self::Tukey { alpha } => (0.0..=1.0).contains(&alpha),
            Self::Gaussian { std } => std > 0.0 && std.is_finite(),
            _ => true,
        };
        legal.then_some(self)
    }

    fn parse(text: &str) -> Option<Self> {
        if let Some((_, taper)) = PLAIN.iter().find(|(name, _)| *name == text) {
            return Some(*taper);
        }
        let (name, rest) = text.split_once('(')?;
        let number: f64 = rest.strip_suffix(')')?.trim().parse().ok()?;
        match name {
            "kaiser" => Self::Kaiser { beta: number }.checked(),
            "tukey" => Self::Tukey { alpha: number }.checked(),
            "gaussian" => Self::Gaussian { std: number }.checked(),
            _ => None,
        }
    }
}

/// Phases are reduced as integers.
fn cosines(terms: &[f64], at: usize, span: usize) -> f64 {
    let mut sum = 0.0;
    for (k, &term) in terms.iter().enumerate() {
        let turn = (k * at) % span;
        let cosine = term * cos(2.0 * PI * turn as f64 / span as f64);
        sum += if k % 2 == 0 { cosine } else { -cosine };
    }
    sum
}

/// By its power series: all terms are positive.
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * f64::EPSILON / 4.0 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

impl fmt::Display for Taper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kaiser { beta } => write!(f, "kaiser({beta})"),
            Self::Tukey { alpha } => write!(f, "tukey({alpha})"),
            Self::Gaussian { std } => write!(f, "gaussian({std})"),
            plain => {
                let known = PLAIN.iter().find(|(_, taper)| taper == plain);
                f.pad(known.map_or("", |(name, _)| name))
            }
        }
    }
}

impl FromStr for Taper {
    type Err = DspError;

    fn from_str(text: &str) -> Result<Self, DspError> {
        Self::parse(text).ok_or_else(|| DspError::Parameter {
            operator: "taper",
            parameter: "taper",
            got: format!("{text:?}"),
            allowed: TAPERS.into(),
        })
    }
}

/// Whether windows with these factors, one every `hop` samples, add up to a constant (COLA), so that overlap-add
/// restores a signal.
///
/// Sums may differ by `tolerance` of their median; SciPy uses 1e-10.
///
/// # Errors
/// [`DspError::Parameter`] unless `hop` is from 1 to the number of factors.
///
/// ```
/// use isochrony_dsp::window::{Taper, adds_up};
/// assert!(adds_up(&Taper::Hann.periodic(64), 16, 1e-10)?);
/// assert!(!adds_up(&Taper::Hann.periodic(64), 48, 1e-10)?);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
pub fn adds_up(factors: &[f64], hop: usize, tolerance: f64) -> Result<bool, DspError> {
    if hop == 0 || hop > factors.len() {
        return Err(DspError::Parameter {
            operator: "adds_up",
            parameter: "hop",
            got: hop.to_string(),
            allowed: format!("samples from 1 to the window's {}", factors.len()),
        });
    }
    let mut sums: Vec<f64> = (0..hop)
        .map(|from| factors[from..].iter().step_by(hop).sum())
        .collect();
    sums.sort_by(f64::total_cmp);
    let median = sums[hop / 2];
    Ok(sums[hop - 1] - median <= tolerance * median.abs()
        && median - sums[0] <= tolerance * median.abs())
}
