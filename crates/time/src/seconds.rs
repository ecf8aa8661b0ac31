//! [`SampleCount`]: exact samples in a duration.
//!
//! 0.07 s at 100 Hz are 7 samples, but the product of floats is 7.000000000000001. So a float stands for its shortest
//! decimal, as in [`Rate`].

use ethnum::U256;

use crate::{Rate, TimeError};

/// Decimal places of a duration shorter than any sample.
const MAX_PLACES: u32 = 38;

/// A non-negative rational.
///
/// ```
/// use isochrony_time::Rate;
/// let count = Rate::from_hz(100)?.samples_in_seconds(0.07)?;
/// assert_eq!((count.floor(), count.ceil(), count.round()), (Some(7), Some(7), Some(7)));
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleCount {
    num: U256,
    den: U256,
}

impl Rate {
    /// Samples in a duration, by the float's shortest decimal.
    ///
    /// # Errors
    /// [`TimeError::NotFinite`], also if negative; [`TimeError::Overflow`] beyond 1e38 s.
    pub fn samples_in_seconds(self, seconds: f64) -> Result<SampleCount, TimeError> {
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(TimeError::NotFinite {
                what: "duration in seconds",
                value: seconds,
            });
        }
        let (digits, exponent) = decimal(seconds);
        // At most 57, 64 and 127 bits.
        let num = U256::from(digits) * U256::from(self.num());
        let den = U256::from(self.den());
        let places = exponent.unsigned_abs();
        let overflow = TimeError::Overflow {
            what: "samples in a duration",
        };
        if exponent >= 0 {
            if places > MAX_PLACES {
                return Err(overflow);
            }
            let num = num * U256::from(10u8).pow(places);
            return Ok(SampleCount { num, den });
        }
        if places > MAX_PLACES {
            // Above zero, below half a sample at any rate.
            let num = U256::from(u8::from(digits > 0));
            let den = U256::from(1u8) << 190;
            return Ok(SampleCount { num, den });
        }
        let den = den * U256::from(10u8).pow(places);
        Ok(SampleCount { num, den })
    }
}

impl From<u64> for SampleCount {
    fn from(count: u64) -> Self {
        Self {
            num: count.into(),
            den: U256::from(1u8),
        }
    }
}

impl SampleCount {
    /// The duration in steps of `hop` samples.
    #[must_use]
    pub fn per(self, hop: u64) -> Self {
        let den = self.den * U256::from(hop.max(1));
        Self { den, ..self }
    }

    /// Rounded down; `None` beyond 64 bits.
    #[must_use]
    pub fn floor(self) -> Option<u64> {
        u64::try_from(self.num / self.den).ok()
    }

    /// Rounded up; `None` beyond 64 bits.
    #[must_use]
    pub fn ceil(self) -> Option<u64> {
        let whole = u64::try_from(self.num / self.den).ok()?;
        whole.checked_add(u64::from(self.num % self.den != 0))
    }

    /// Nearest, halves up; `None` beyond 64 bits.
    #[must_use]
    pub fn round(self) -> Option<u64> {
        let (whole, rest) = (self.num / self.den, self.num % self.den);
        let whole = u64::try_from(whole).ok()?;
        whole.checked_add(u64::from(rest >= self.den - rest))
    }
}

fn decimal(value: f64) -> (u64, i32) {
    // Such as 1.234e-5; at most 17 digits.
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    let digits = digits.fold(0, |all, digit| 10 * all + u64::from(digit - b'0'));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    (digits, exponent - fraction.len() as i32)
}
