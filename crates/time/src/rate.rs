//! [`Rate`]: an exact rational sample rate.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::wide::{best_u64_ratio, gcd, mul_div_round};
use crate::{Fixed, TimeError};

const NS: u128 = 1_000_000_000;

/// An exact sample rate `num / den` in samples per second, reduced and positive.
///
/// ```
/// use isochrony_time::Rate;
/// let rate: Rate = "100.0000042".parse()?;
/// assert_eq!((rate.num(), rate.den()), (500_000_021, 5_000_000));
/// assert_eq!("44100000/1001".parse::<Rate>()?, Rate::new(6_300_000, 143)?);
/// assert_eq!("2 kHz".parse::<Rate>()?, Rate::from_hz(2000)?);
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Rate {
    num: u64,
    den: u64,
}

#[derive(Serialize, Deserialize)]
struct Parts {
    num: u64,
    den: u64,
}

impl TryFrom<Parts> for Rate {
    type Error = TimeError;
    fn try_from(p: Parts) -> Result<Self, TimeError> {
        Self::new(p.num, p.den)
    }
}

impl From<Rate> for Parts {
    fn from(r: Rate) -> Self {
        Self {
            num: r.num,
            den: r.den,
        }
    }
}

impl Rate {
    /// `num / den` samples per second.
    ///
    /// # Errors
    /// [`TimeError::BadRate`] if either is zero.
    pub fn new(num: u64, den: u64) -> Result<Self, TimeError> {
        if num == 0 || den == 0 {
            let text = format!("{num}/{den}");
            return Err(TimeError::BadRate {
                text,
                reason: "a rate must be above zero",
            });
        }
        let g = gcd(num.into(), den.into()) as u64;
        Ok(Self {
            num: num / g,
            den: den / g,
        })
    }

    /// An integer rate in samples per second.
    ///
    /// # Errors
    /// [`TimeError::BadRate`] for zero.
    pub fn from_hz(hz: u64) -> Result<Self, TimeError> {
        Self::new(hz, 1)
    }

    /// Shortest decimal of a float: 0.1 is 1/10.
    ///
    /// # Errors
    /// [`TimeError::BadRate`] unless finite, positive and within 64-bit parts.
    pub fn from_f64(hz: f64) -> Result<Self, TimeError> {
        if !hz.is_finite() {
            return Err(TimeError::NotFinite {
                what: "rate",
                value: hz,
            });
        }
        // Prints the shortest decimal that reads back as the same float.
        Self::from_decimal_str(&format!("{hz}"))
    }

    /// Parses `2000`, `100.0000042`, `44100000/1001`, `2k`, `2 kHz`, `1.5MHz`.
    ///
    /// # Errors
    /// [`TimeError::BadRate`].
    pub fn from_decimal_str(text: &str) -> Result<Self, TimeError> {
        let bad = |reason| TimeError::BadRate {
            text: text.to_owned(),
            reason,
        };
        let body = text.trim();
        let body = body.strip_suffix("Hz").unwrap_or(body).trim_end();
        let (body, scale) = match body.as_bytes().last() {
            Some(b'k') => (&body[..body.len() - 1], 1_000),
            Some(b'M') => (&body[..body.len() - 1], 1_000_000),
            Some(b'G') => (&body[..body.len() - 1], 1_000_000_000),
            _ => (body, 1u128),
        };
        let (num, den) = match body.split_once('/') {
            Some((n, d)) => {
                let (nn, nd) = decimal(n.trim()).ok_or_else(|| bad("not a number"))?;
                let (dn, dd) = decimal(d.trim()).ok_or_else(|| bad("not a number"))?;
                let num = nn.checked_mul(dd).ok_or_else(|| bad("too many digits"))?;
                (
                    num,
                    nd.checked_mul(dn).ok_or_else(|| bad("too many digits"))?,
                )
            }
            None => decimal(body.trim_end()).ok_or_else(|| bad("not a number"))?,
        };
        let num = num
            .checked_mul(scale)
            .ok_or_else(|| bad("too many digits"))?;
        if num == 0 || den == 0 {
            return Err(bad("a rate must be above zero"));
        }
        let g = gcd(num, den);
        match (u64::try_from(num / g), u64::try_from(den / g)) {
            (Ok(num), Ok(den)) => Ok(Self { num, den }),
            _ => Err(bad("too many digits")),
        }
    }

    /// Numerator, samples.
    pub fn num(self) -> u64 {
        self.num
    }

    /// Denominator, seconds.
    pub fn den(self) -> u64 {
        self.den
    }

    /// Nearest float, in samples per second.
    pub fn to_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Nanoseconds per sample as a 63-bit ratio: exact if it fits, else within 2^-61 relative.
    pub fn period_ns(self) -> (u64, u64) {
        // Both fit for rates from 2^-30 to 2^63 Hz; beyond, clamped.
        best_u64_ratio(u128::from(self.den) * NS, u128::from(self.num))
            .unwrap_or((i64::MAX as u64, 1))
    }

    /// Duration of `samples` in ns, to the nearest 2^-32.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn duration_ns(self, samples: i64) -> Result<Fixed, TimeError> {
        let ns = (u128::from(self.den) * NS) as i128;
        mul_div_round(i128::from(samples) << 32, ns, i128::from(self.num))
            .map(Fixed::from_bits)
            .ok_or(TimeError::Overflow {
                what: "duration of samples",
            })
    }

    /// Samples in `ns`, to the nearest 2^-32.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn samples_in(self, ns: Fixed) -> Result<Fixed, TimeError> {
        let per = (u128::from(self.den) * NS) as i128;
        mul_div_round(ns.to_bits(), i128::from(self.num), per)
            .map(Fixed::from_bits)
            .ok_or(TimeError::Overflow {
                what: "samples in a duration",
            })
    }
}

/// A ratio over a power of ten.
fn decimal(text: &str) -> Option<(u128, u128)> {
    let (whole, frac) = text.split_once('.').unwrap_or((text, ""));
    let frac = frac.trim_end_matches('0');
    if whole.is_empty() && !text.contains('.') || text == "." {
        return None;
    }
    let (mut num, mut den) = (0u128, 1u128);
    for (b, is_frac) in whole
        .bytes()
        .map(|b| (b, false))
        .chain(frac.bytes().map(|b| (b, true)))
    {
        if !b.is_ascii_digit() {
            return None;
        }
        num = num.checked_mul(10)?.checked_add(u128::from(b - b'0'))?;
        if is_frac {
            den = den.checked_mul(10)?;
        }
    }
    Some((num, den))
}

impl FromStr for Rate {
    type Err = TimeError;
    fn from_str(text: &str) -> Result<Self, TimeError> {
        Self::from_decimal_str(text)
    }
}

/// Decimal if exact, else reduced `num/den`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut scale, mut digits) = (1u128, 0usize);
        while digits < 19 && scale % u128::from(self.den) != 0 {
            scale *= 10;
            digits += 1;
        }
        if scale % u128::from(self.den) != 0 {
            return write!(f, "{}/{}", self.num, self.den);
        }
        let value = u128::from(self.num) * (scale / u128::from(self.den));
        if digits == 0 {
            return write!(f, "{value}");
        }
        write!(f, "{}.{:0digits$}", value / scale, value % scale)
    }
}
