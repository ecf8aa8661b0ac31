//! [`ParamRange`]: the legal numbers of a parameter, with closed, open or no bounds.

use std::fmt;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::RangeBounds;

/// Legal numbers of a parameter. Prints as help and error messages state it: `from 1 to 32`, `above 0`,
/// `from 0 to below 0.5`; nothing without bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParamRange {
    /// Lower bound.
    pub low: Bound<f64>,
    /// Upper bound.
    pub high: Bound<f64>,
}

impl ParamRange {
    /// All finite numbers.
    pub const ALL: Self = Self {
        low: Unbounded,
        high: Unbounded,
    };

    /// From a number to another, both included. `f64::MIN`, `f64::MAX` and infinities are no bounds.
    #[must_use]
    pub const fn closed(low: f64, high: f64) -> Self {
        Self {
            low: if low <= f64::MIN {
                Unbounded
            } else {
                Included(low)
            },
            high: if high >= f64::MAX {
                Unbounded
            } else {
                Included(high)
            },
        }
    }

    /// Whether a number is legal.
    #[must_use]
    pub fn contains(&self, number: f64) -> bool {
        (self.low, self.high).contains(&number)
    }

    /// Lower and upper bound, for JSON.
    pub(super) fn numbers(&self) -> [Option<f64>; 2] {
        [self.low, self.high].map(|bound| match bound {
            Included(number) | Excluded(number) => Some(number),
            Unbounded => None,
        })
    }
}

impl fmt::Display for ParamRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.low {
            Included(low) => write!(f, "from {}", Number(low))?,
            Excluded(low) => write!(f, "above {}", Number(low))?,
            Unbounded => {}
        }
        let joint = match (self.low, self.high) {
            (_, Unbounded) | (Unbounded, _) => "",
            (Included(_), _) => " to ",
            (Excluded(_), _) => " and ",
        };
        f.write_str(joint)?;
        match (self.low, self.high) {
            (Included(_), Included(high)) => write!(f, "{}", Number(high)),
            (_, Included(high)) => write!(f, "at most {}", Number(high)),
            (_, Excluded(high)) => write!(f, "below {}", Number(high)),
            (_, Unbounded) => Ok(()),
        }
    }
}

/// A bound with all its digits: `1e-6`, `62`, `2^40`, `2^52 - 1`.
struct Number(f64);

impl Number {
    const LEAST_POWER: f64 = 1_048_576.0;

    /// Exponent of a power of two.
    fn power(number: f64) -> Option<u64> {
        let bits = number.to_bits();
        let is_power = bits.trailing_zeros() >= f64::MANTISSA_DIGITS - 1;
        (number >= Self::LEAST_POWER && is_power).then(|| (bits >> 52) - 1023)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = *self;
        if let Some(power) = Self::power(number) {
            return write!(f, "2^{power}");
        }
        if let Some(power) = Self::power(number + 1.0).filter(|_| number + 1.0 != number) {
            return write!(f, "2^{power} - 1");
        }
        let (plain, short) = (number.to_string(), format!("{number:e}"));
        let is_usual = (1e-3..1e6).contains(&number.abs()) || number == 0.0;
        f.write_str(if is_usual || plain.len() <= short.len() {
            &plain
        } else {
            &short
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_every_combination_of_bounds() {
        let (low, high) = (0.25, 3.0);
        for (from, to, text) in [
            (Unbounded, Unbounded, ""),
            (Unbounded, Included(high), "at most 3"),
            (Unbounded, Excluded(high), "below 3"),
            (Included(low), Unbounded, "from 0.25"),
            (Excluded(low), Unbounded, "above 0.25"),
            (Included(low), Included(high), "from 0.25 to 3"),
            (Included(low), Excluded(high), "from 0.25 to below 3"),
            (Excluded(low), Included(high), "above 0.25 and at most 3"),
            (Excluded(low), Excluded(high), "above 0.25 and below 3"),
        ] {
            let range = ParamRange {
                low: from,
                high: to,
            };
            assert_eq!(range.to_string(), text);
            assert_eq!(range.contains(low), !matches!(from, Excluded(_)), "{text}");
            assert_eq!(range.contains(high), !matches!(to, Excluded(_)), "{text}");
            assert_eq!(range.contains(low.next_down()), from == Unbounded, "{text}");
            assert_eq!(range.contains(high.next_up()), to == Unbounded, "{text}");
        }
    }

    #[test]
    fn prints_bounds_with_all_their_digits() {
        for (bound, text) in [
            (0.0, "0"),
            (0.05, "0.05"),
            (1e-3, "0.001"),
            (1e-6, "1e-6"),
            (62.0, "62"),
            (600.0, "600"),
            (1e6, "1e6"),
            (2e9, "2e9"),
            (-9.2e18, "-9.2e18"),
            (12_345_678.0, "12345678"),
            (1_048_574.0, "1048574"),
            (1_048_575.0, "2^20 - 1"),
            (1_048_576.0, "2^20"),
            (2_147_483_647.0, "2^31 - 1"),
            (1_099_511_627_776.0, "2^40"),
            (4_503_599_627_370_495.0, "2^52 - 1"),
        ] {
            assert_eq!(Number(bound).to_string(), text);
        }
    }

    #[test]
    fn the_largest_numbers_are_no_bounds() {
        for (low, high) in [(f64::MIN, f64::MAX), (f64::NEG_INFINITY, f64::INFINITY)] {
            assert_eq!(ParamRange::closed(low, high), ParamRange::ALL);
        }
    }
}
