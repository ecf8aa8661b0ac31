//! [`Fixed`]: fixed point with 32 fraction bits.
//!
//! The integer part of 95 bits holds nanoseconds of the years -9999 to 9999 and indices. Nothing saturates or wraps.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::TimeError;

const FRAC: u32 = 32;
const ONE: i128 = 1 << FRAC;

/// A number in units of 2^-32. Serialised as exact decimal text.
///
/// ```
/// use isochrony_time::Fixed;
/// let x: Fixed = "2.25".parse()?;
/// assert_eq!(x.floor(), 2);
/// assert_eq!(x.checked_add(Fixed::from_int(1)).unwrap().to_string(), "3.25");
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fixed(i128);

impl Fixed {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// One.
    pub const ONE: Self = Self(ONE);
    /// The smallest step, 2^-32.
    pub const EPSILON: Self = Self(1);
    /// The smallest value.
    pub const MIN: Self = Self(i128::MIN);
    /// The greatest value.
    pub const MAX: Self = Self(i128::MAX);

    /// Converts from a number of 2^-32 units.
    pub const fn from_bits(bits: i128) -> Self {
        Self(bits)
    }

    /// The number of 2^-32 units.
    pub const fn to_bits(self) -> i128 {
        self.0
    }

    /// Converts an integer.
    pub const fn from_int(whole: i64) -> Self {
        Self((whole as i128) << FRAC)
    }

    /// Converts an integer; `None` outside 96 bits.
    pub fn from_i128(whole: i128) -> Option<Self> {
        whole.checked_mul(ONE).map(Self)
    }

    /// `whole + frac * 2^-32`: -0.25 is `from_parts(-1, 0xC000_0000)`.
    pub const fn from_parts(whole: i64, frac: u32) -> Self {
        Self(((whole as i128) << FRAC) | frac as i128)
    }

    /// Rounds down; see [`Fixed::floor_i64`].
    pub const fn floor(self) -> i128 {
        self.0 >> FRAC
    }

    /// Rounds up.
    pub const fn ceil(self) -> i128 {
        (self.0 >> FRAC) + (self.frac() != 0) as i128
    }

    /// Nearest integer, halves up.
    pub const fn round(self) -> i128 {
        (self.0 >> FRAC) + (self.frac() >> (FRAC - 1)) as i128
    }

    /// [`Fixed::floor`] if it fits 64 bits.
    pub fn floor_i64(self) -> Option<i64> {
        i64::try_from(self.floor()).ok()
    }

    /// [`Fixed::round`] if it fits 64 bits.
    pub fn round_i64(self) -> Option<i64> {
        i64::try_from(self.round()).ok()
    }

    /// [`Fixed::ceil`] if it fits 64 bits.
    pub fn ceil_i64(self) -> Option<i64> {
        i64::try_from(self.ceil()).ok()
    }

    /// Fraction above [`Fixed::floor`], in 2^-32.
    pub const fn frac(self) -> u32 {
        self.0 as u32
    }

    /// Whether the fraction is zero.
    pub const fn is_integer(self) -> bool {
        self.frac() == 0
    }

    /// Sum, `None` on overflow.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Difference, `None` on overflow.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Negation, `None` on overflow.
    pub fn checked_neg(self) -> Option<Self> {
        self.0.checked_neg().map(Self)
    }

    /// Magnitude, `None` on overflow.
    pub fn checked_abs(self) -> Option<Self> {
        self.0.checked_abs().map(Self)
    }

    /// `self * num / den` in 256 bits, to the nearest 2^-32; `None` on overflow or if `den` is zero.
    pub fn checked_mul_ratio(self, num: i64, den: u64) -> Option<Self> {
        crate::wide::mul_div_round(self.0, i128::from(num), i128::from(den)).map(Self)
    }

    /// Exact value of a float.
    ///
    /// # Errors
    /// [`TimeError::NotFinite`]; [`TimeError::NotRepresentable`] if out of range or not a multiple of 2^-32
    /// ([`Fixed::from_f64_nearest`] rounds).
    pub fn from_f64(x: f64) -> Result<Self, TimeError> {
        let near = Self::from_f64_nearest(x)?;
        // Scaling by a power of two is exact: a loss shows as a fraction.
        if (x * ONE as f64).fract() != 0.0 {
            return Err(TimeError::NotRepresentable { value: x });
        }
        Ok(near)
    }

    /// Nearest value to a float.
    ///
    /// # Errors
    /// [`TimeError::NotFinite`], [`TimeError::NotRepresentable`] if out of range.
    pub fn from_f64_nearest(x: f64) -> Result<Self, TimeError> {
        if !x.is_finite() {
            return Err(TimeError::NotFinite {
                what: "value",
                value: x,
            });
        }
        let scaled = (x * ONE as f64).round();
        if scaled.abs() >= 2f64.powi(126) {
            return Err(TimeError::NotRepresentable { value: x });
        }
        Ok(Self(scaled as i128))
    }

    /// Nearest float.
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / ONE as f64
    }

    /// Parses decimal text such as `-12.5` or `7`, rounded to the nearest 2^-32 (halves away from zero).
    ///
    /// # Errors
    /// [`TimeError::BadNumber`] for other text or a value out of range.
    pub fn from_decimal_str(text: &str) -> Result<Self, TimeError> {
        let bad = || TimeError::BadNumber {
            text: text.to_owned(),
        };
        let (negative, digits) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, frac) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && frac.is_empty()
            || !whole
                .bytes()
                .chain(frac.bytes())
                .all(|b| b.is_ascii_digit())
        {
            return Err(bad());
        }
        let whole: i128 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| bad())?
        };
        let magnitude = whole
            .checked_mul(ONE)
            .and_then(|w| w.checked_add(fraction_bits(frac)))
            .ok_or_else(bad)?;
        Ok(Self(if negative { -magnitude } else { magnitude }))
    }
}

/// Nearest multiple of 2^-32, halves up.
fn fraction_bits(digits: &str) -> i128 {
    // Long arithmetic: doubles the decimal fraction 33 times and collects carries.
    let mut d: Vec<u8> = digits.bytes().map(|b| b - b'0').collect();
    let mut bits = 0i128;
    for _ in 0..=FRAC {
        let mut carry = 0;
        for digit in d.iter_mut().rev() {
            let v = *digit * 2 + carry;
            (*digit, carry) = (v % 10, v / 10);
        }
        bits = (bits << 1) | i128::from(carry);
    }
    (bits + 1) >> 1
}

impl From<i64> for Fixed {
    fn from(whole: i64) -> Self {
        Self::from_int(whole)
    }
}

impl From<i32> for Fixed {
    fn from(whole: i32) -> Self {
        Self::from_int(i64::from(whole))
    }
}

impl From<u32> for Fixed {
    fn from(whole: u32) -> Self {
        Self::from_int(i64::from(whole))
    }
}

impl From<u64> for Fixed {
    fn from(whole: u64) -> Self {
        Self(i128::from(whole) << FRAC)
    }
}

impl FromStr for Fixed {
    type Err = TimeError;
    fn from_str(text: &str) -> Result<Self, TimeError> {
        Self::from_decimal_str(text)
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let mut text = (magnitude >> FRAC).to_string();
        let mut frac = magnitude & (ONE as u128 - 1);
        if frac != 0 {
            text.push('.');
            while frac != 0 {
                frac *= 10;
                text.push(char::from(b'0' + (frac >> FRAC) as u8));
                frac &= ONE as u128 - 1;
            }
        }
        f.pad_integral(self.0 >= 0, "", &text)
    }
}

impl fmt::Debug for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Fixed {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fixed {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Self::from_decimal_str(&text).map_err(serde::de::Error::custom)
    }
}
