//! [`Exact`]: a value as a ratio of big integers.
//!
//! Conversions compose ratios along a path and round once, at the end. Samples never pass through here.

use std::fmt;

use num_bigint::BigInt;
use num_rational::BigRational;

use crate::{Fixed, TimeError};

/// A reduced ratio of integers.
///
/// ```
/// use isochrony_time::{Exact, Fixed};
/// let third = Exact::from_ratio("100", "48")?;
/// assert_eq!((third.floor_i64(), third.ceil_i64()), (Some(2), Some(3)));
/// assert_eq!(third.parts(), ("25".to_owned(), "12".to_owned()));
/// assert_eq!(Exact::from(Fixed::from_int(7)).to_fixed()?, Fixed::from_int(7));
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Exact(BigRational);

const FRACTION_BITS: u32 = 32;

impl Exact {
    /// Parses numerator and denominator.
    ///
    /// # Errors
    /// [`TimeError::BadNumber`] for no integer, or a zero denominator.
    pub fn from_ratio(num: &str, den: &str) -> Result<Self, TimeError> {
        let whole = |text: &str| {
            text.parse::<BigInt>().map_err(|_| TimeError::BadNumber {
                text: text.to_owned(),
            })
        };
        let (num, den) = (whole(num)?, whole(den)?);
        if den == BigInt::ZERO {
            let text = format!("{num}/0");
            return Err(TimeError::BadNumber { text });
        }
        Ok(Self(BigRational::new(num, den)))
    }

    /// Decimal texts of numerator and denominator.
    #[must_use]
    pub fn parts(&self) -> (String, String) {
        (self.0.numer().to_string(), self.0.denom().to_string())
    }

    /// The nearest [`Fixed`], halves up.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn to_fixed(&self) -> Result<Fixed, TimeError> {
        let half = BigRational::new(1.into(), 2.into());
        let nearest: BigRational = self.scaled() + half;
        bits(&nearest)
    }

    pub(crate) fn floor_fixed(&self) -> Result<Fixed, TimeError> {
        bits(&self.scaled())
    }

    fn scaled(&self) -> BigRational {
        &self.0 * BigInt::from(1u64 << FRACTION_BITS)
    }

    /// Rounds down, if it fits 64 bits.
    #[must_use]
    pub fn floor_i64(&self) -> Option<i64> {
        i64::try_from(self.0.floor().numer()).ok()
    }

    /// Rounds up, if it fits 64 bits.
    #[must_use]
    pub fn ceil_i64(&self) -> Option<i64> {
        i64::try_from(self.0.ceil().numer()).ok()
    }

    #[must_use]
    pub(crate) fn round_i64(&self) -> Option<i64> {
        let half = BigRational::new(1.into(), 2.into());
        i64::try_from((&self.0 + half).floor().numer()).ok()
    }

    /// Difference.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    pub(crate) fn magnitude(&self) -> Self {
        let zero = Self::from(0);
        if *self < zero {
            zero.minus(self)
        } else {
            self.clone()
        }
    }

    /// `from + (self - origin) * num / den`; `den` is not zero.
    pub(crate) fn on_line(&self, origin: Fixed, from: Fixed, num: i128, den: i128) -> Self {
        let slope = BigRational::new(num.into(), den.into());
        Self((&self.0 - Self::from(origin).0) * slope + Self::from(from).0)
    }
}

fn bits(scaled: &BigRational) -> Result<Fixed, TimeError> {
    let overflow = TimeError::Overflow {
        what: "value of a timebase",
    };
    let whole = i128::try_from(scaled.floor().numer()).map_err(|_| overflow)?;
    Ok(Fixed::from_bits(whole))
}

impl From<Fixed> for Exact {
    fn from(value: Fixed) -> Self {
        let den = BigInt::from(1u64 << FRACTION_BITS);
        Self(BigRational::new(value.to_bits().into(), den))
    }
}

impl From<i64> for Exact {
    fn from(value: i64) -> Self {
        Self(BigRational::from_integer(value.into()))
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
