//! Sums, means and deviations of numbers that are rounded once, at the end, so that their order does not matter.
//!
//! A sum is a whole multiple of the smallest f64, in digits of 32 bits that are 64 bits wide: a term changes three of them
//! and nothing is carried for 2^30 terms (Neal 2015, "Fast exact summation using small and large superaccumulators").
//! Only the digits that terms reach are kept: three or four where magnitudes are alike.

use num_bigint::{BigInt, BigUint, Sign};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Bits of a digit without its room for carries.
const DIGIT: u32 = 32;
/// Digits that one term reaches: 64 bits at any place.
const REACHED: usize = 3;
/// Additions after which carries are due: below 2^63 / 2^32, and a digit may have its carries left.
const MAX_ADDITIONS: u32 = 1 << 30;
/// Digits of a sum of 2^64 squares of the largest f64, in units of the smallest one's.
const MAX_DIGITS: u32 = (2 * (1024 + 1074) + 64) / DIGIT + 3;
/// Exponent of the least significant bit of an f64.
const SMALLEST: i32 = -1074;

/// A whole number of some unit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Digits {
    digits: SmallVec<[i64; 4]>,
    /// Place of the first digit.
    lowest: u32,
    /// Since carries were propagated.
    additions: u32,
}

impl Digits {
    /// Adds `±magnitude * 2^position`.
    #[inline]
    fn add(&mut self, negative: bool, magnitude: u64, position: u32) {
        let (place, shift) = (position / DIGIT, position % DIGIT);
        let from = place.wrapping_sub(self.lowest) as usize;
        let room = self.digits.len().saturating_sub(from) >= REACHED;
        if !room || self.additions >= MAX_ADDITIONS {
            return self.add_with_room(negative, magnitude, position);
        }
        let wide = u128::from(magnitude) << shift;
        let sign = if negative { -1 } else { 1 };
        for (k, digit) in self.digits[from..from + REACHED].iter_mut().enumerate() {
            *digit += sign * i64::from((wide >> (DIGIT * k as u32)) as u32);
        }
        self.additions += 1;
    }

    #[cold]
    fn add_with_room(&mut self, negative: bool, magnitude: u64, position: u32) {
        if magnitude == 0 {
            return;
        }
        if self.additions >= MAX_ADDITIONS {
            self.carry();
        }
        let place = position / DIGIT;
        self.cover(place, REACHED);
        self.add(negative, magnitude, position);
    }

    /// Extends the range of digits to `digits` ones from `place` on.
    fn cover(&mut self, place: u32, digits: usize) {
        if self.digits.is_empty() {
            self.lowest = place;
        }
        if place < self.lowest {
            let missing = (self.lowest - place) as usize;
            self.digits.insert_many(0, std::iter::repeat_n(0, missing));
            self.lowest = place;
        }
        let least = (place - self.lowest) as usize + digits;
        if self.digits.len() < least {
            self.digits.resize(least, 0);
        }
    }

    /// Leaves digits of 32 bits, the last one signed.
    fn carry(&mut self) {
        let mut carry = 0;
        for digit in &mut self.digits {
            *digit += carry;
            carry = *digit >> DIGIT;
            *digit &= i64::from(u32::MAX);
        }
        // The last digit has the sign.
        if let Some(last) = self.digits.last_mut() {
            let whole = (carry << DIGIT) + *last;
            if i32::try_from(whole).is_ok() {
                *last = whole;
            } else {
                self.digits.push(carry);
            }
        }
        self.additions = 0;
    }

    fn append(&mut self, other: &Self) {
        if other.digits.is_empty() {
            return;
        }
        let mut other = other.clone();
        other.carry();
        self.carry();
        self.cover(other.lowest, other.digits.len());
        let from = (other.lowest - self.lowest) as usize;
        for (digit, other) in self.digits[from..].iter_mut().zip(&other.digits) {
            *digit += other;
        }
        self.additions = 1;
    }

    fn value(&self) -> BigInt {
        let mut carried = self.clone();
        carried.carry();
        let Some((&last, rest)) = carried.digits.split_last() else {
            return BigInt::ZERO;
        };
        let rest = BigUint::new(rest.iter().map(|&digit| digit as u32).collect());
        let bits = u64::from(DIGIT) * (carried.digits.len() as u64 - 1);
        ((BigInt::from(last) << bits) + BigInt::from(rest)) << (self.lowest * DIGIT)
    }

    /// Whether [`Digits::add`] can have made it: then no carry overflows.
    fn is_valid(&self) -> bool {
        let largest = (u64::from(self.additions) + 1) << DIGIT;
        self.lowest <= MAX_DIGITS
            && self.digits.len() <= MAX_DIGITS as usize
            && self.additions <= MAX_ADDITIONS
            && self
                .digits
                .iter()
                .all(|digit| digit.unsigned_abs() <= largest)
    }

    fn heap_bytes(&self) -> usize {
        match self.digits.spilled() {
            true => self.digits.capacity() * size_of::<i64>(),
            false => 0,
        }
    }
}

/// Sum of numbers and, on request, of their squares.
///
/// ```
/// use isochrony_dsp::stats::ExactSum;
///
/// let mut sum = ExactSum::default();
/// [1e100, 1.0, -1e100].iter().for_each(|&x| sum.push(x));
/// assert_eq!((sum.sum(), sum.mean(3)), (1.0, 1.0 / 3.0));
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ExactSum {
    /// In units of 2^-1074.
    sum: Digits,
    /// In units of 2^-2148.
    squares: Option<Box<Digits>>,
    /// Sum of what is not finite, or 0.
    not_finite: f64,
}

impl ExactSum {
    /// An empty sum that also sums squares, for [`ExactSum::std`].
    #[must_use]
    pub fn with_squares() -> Self {
        Self {
            squares: Some(Box::default()),
            ..Self::default()
        }
    }

    /// Bytes outside of the struct itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let of_squares = |squares: &Digits| size_of::<Digits>() + squares.heap_bytes();
        self.sum.heap_bytes() + self.squares.as_deref().map_or(0, of_squares)
    }

    /// Adds a number.
    #[inline]
    pub fn push(&mut self, x: f64) {
        const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
        let bits = x.to_bits();
        let exponent = (bits >> FRACTION) as u32 & 0x7ff;
        if exponent == 0x7ff {
            self.not_finite += x;
            return;
        }
        // The smallest exponent has no leading one.
        let leading = u64::from(exponent != 0) << FRACTION;
        let magnitude = bits & ((1 << FRACTION) - 1) | leading;
        self.push_scaled(x.is_sign_negative(), magnitude, exponent.max(1) - 1);
    }

    /// Adds a whole number.
    pub fn push_integer(&mut self, x: i64) {
        self.push_scaled(x < 0, x.unsigned_abs(), SMALLEST.unsigned_abs());
    }

    #[inline]
    fn push_scaled(&mut self, negative: bool, magnitude: u64, position: u32) {
        self.sum.add(negative, magnitude, position);
        if let Some(squares) = &mut self.squares {
            let square = u128::from(magnitude) * u128::from(magnitude);
            squares.add(false, square as u64, 2 * position);
            let high = (square >> 64) as u64;
            if high != 0 {
                squares.add(false, high, 2 * position + 64);
            }
        }
    }

    /// Adds the terms of another sum.
    pub fn append(&mut self, other: &Self) {
        self.sum.append(&other.sum);
        if let (Some(squares), Some(other)) = (&mut self.squares, &other.squares) {
            squares.append(other);
        }
        self.not_finite += other.not_finite;
    }

    /// The sum, rounded once to nearest: infinite beyond f64, NaN with a NaN or both infinities.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.mean(1)
    }

    /// The sum divided by `count`, rounded once (twice below 2^-1022); NaN for 0.
    #[must_use]
    pub fn mean(&self, count: u64) -> f64 {
        if self.not_finite.is_nan() || count == 0 {
            return f64::NAN;
        }
        if self.not_finite != 0.0 {
            return self.not_finite;
        }
        let sum = self.sum.value();
        let (mantissa, exponent) = quotient(sum.magnitude(), &count.into());
        let mean = scaled(mantissa, exponent + SMALLEST);
        if sum.sign() == Sign::Minus {
            -mean
        } else {
            mean
        }
    }

    /// The population's standard deviation of `count` terms, within two units in the last place; NaN without squares, for
    /// a `count` of 0, or where a term is not finite.
    #[must_use]
    pub fn std(&self, count: u64) -> f64 {
        let Some(squares) = self.squares.as_ref().filter(|_| count > 0) else {
            return f64::NAN;
        };
        if self.not_finite != 0.0 || self.not_finite.is_nan() {
            return f64::NAN;
        }
        let sum = self.sum.value();
        let deviations = squares.value() * count - &sum * &sum;
        // Never negative for terms, by Cauchy and Schwarz.
        if deviations.sign() == Sign::Minus {
            return f64::NAN;
        }
        let count = BigUint::from(count);
        let (mantissa, exponent) = quotient(deviations.magnitude(), &(&count * &count));
        let odd = exponent.rem_euclid(2);
        let root = scaled(mantissa, odd).sqrt();
        scaled(root, (exponent - odd) / 2 + SMALLEST)
    }

    /// Whether [`ExactSum::push`] can have made it, and with squares or without: another process may have sent it.
    #[must_use]
    pub fn is_valid(&self, with_squares: bool) -> bool {
        let squares = self.squares.as_deref();
        self.sum.is_valid()
            && squares.is_some() == with_squares
            && squares.is_none_or(Digits::is_valid)
    }
}

/// `dividend / divisor` as a mantissa of 53 bits, rounded to nearest, and an exponent.
fn quotient(dividend: &BigUint, divisor: &BigUint) -> (f64, i32) {
    let bits = dividend.bits() as i32 - divisor.bits() as i32;
    // 64 or 65 bits, so that the bits after the 53rd decide how it is rounded.
    let shift = 64 - bits;
    let dividend = match shift >= 0 {
        true => dividend << shift,
        false => dividend.clone(),
    };
    let divisor = match shift >= 0 {
        true => divisor.clone(),
        false => divisor << -shift,
    };
    let whole = &dividend / &divisor;
    let rest = dividend - &whole * divisor;
    let low = whole.iter_u64_digits().next().unwrap_or(0);
    let high = whole.iter_u64_digits().nth(1).unwrap_or(0);
    // One bit for all that is cut off.
    let mut top = low >> 1 | high << 63;
    top |= u64::from(low & 1 == 1 || rest != BigUint::ZERO);
    (top as f64, 1 - shift)
}

/// `mantissa * 2^exponent`.
fn scaled(mantissa: f64, exponent: i32) -> f64 {
    // In steps, since a power beyond f64 may lead to a number within.
    let mut left = exponent;
    let mut value = mantissa;
    while left != 0 && value != 0.0 && value.is_finite() {
        let step = left.clamp(-500, 500);
        value *= 2f64.powi(step);
        left -= step;
    }
    value
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use proptest::prelude::*;

    use super::*;

    fn exact(values: &[f64]) -> BigRational {
        let terms = values.iter().map(|&x| BigRational::from_float(x).unwrap());
        terms.fold(BigRational::from_integer(BigInt::ZERO), |all, x| all + x)
    }

    /// The f64s around a number are no nearer.
    fn is_nearest(got: f64, want: &BigRational) -> bool {
        let away = |x: f64| {
            let away = BigRational::from_float(x).unwrap() - want;
            if away.numer().sign() == Sign::Minus {
                -away
            } else {
                away
            }
        };
        away(got) <= away(got.next_up()) && away(got) <= away(got.next_down())
    }

    fn of(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::with_squares();
        values.iter().for_each(|&x| sum.push(x));
        sum
    }

    /// Of all magnitudes, and often of opposite signs.
    fn number() -> impl Strategy<Value = f64> {
        (any::<bool>(), 0u64..1 << 53, -600i32..600).prop_map(|(negative, mantissa, exponent)| {
            let x = scaled(mantissa as f64, exponent);
            if negative { -x } else { x }
        })
    }

    proptest! {
        #[test]
        fn sums_and_means_are_the_nearest_numbers(
            mut values in prop::collection::vec(prop_oneof![number(), -1e3..1e3], 1..60),
            cut in 0usize..60,
        ) {
            let (count, want) = (values.len() as u64, exact(&values));
            let whole = of(&values);
            prop_assert!(is_nearest(whole.sum(), &want));
            let mean = &want / BigRational::from_integer(count.into());
            prop_assert!(is_nearest(whole.mean(count), &mean));
            // In other parts and in another order.
            let (first, second) = values.split_at(cut % values.len());
            let mut parts = of(second);
            parts.append(&of(first));
            values.reverse();
            for other in [parts, of(&values)] {
                prop_assert_eq!(other.sum().to_bits(), whole.sum().to_bits());
                prop_assert_eq!(other.std(count).to_bits(), whole.std(count).to_bits());
            }
        }

        #[test]
        fn deviations_are_those_of_exact_numbers(
            values in prop::collection::vec(-1e3..1e3, 1..60),
            offset in prop_oneof![Just(0.0), Just(1e9), Just(-1e15)],
        ) {
            let values: Vec<f64> = values.iter().map(|x| x + offset).collect();
            let count = BigRational::from_integer(values.len().into());
            let mean = exact(&values) / &count;
            let squares = values.iter().map(|&x| {
                let away = BigRational::from_float(x).unwrap() - &mean;
                &away * &away
            });
            let variance = squares.fold(BigRational::from_integer(BigInt::ZERO), |all, x| all + x) / count;
            let got = BigRational::from_float(of(&values).std(values.len() as u64)).unwrap();
            let off = &got * &got - &variance;
            let off = if off.numer().sign() == Sign::Minus { -off } else { off };
            let bound = variance * BigRational::new(1.into(), (1u64 << 50).into());
            prop_assert!(off <= bound);
        }
    }

    #[test]
    fn whole_numbers_are_not_rounded_before_they_are_added() {
        let mut sum = ExactSum::with_squares();
        [i64::MAX, 1, i64::MIN, 2]
            .iter()
            .for_each(|&x| sum.push_integer(x));
        assert_eq!((sum.sum(), sum.mean(4)), (2.0, 0.5));
        assert_eq!(sum.std(4), 2f64.powi(62) * 2f64.sqrt());
    }

    #[test]
    fn a_term_that_is_not_finite_decides_the_result() {
        assert_eq!(of(&[1.0, f64::INFINITY, 2.0]).mean(3), f64::INFINITY);
        assert!(of(&[f64::NEG_INFINITY, 1.0, f64::INFINITY]).sum().is_nan());
        assert!(of(&[f64::NAN, 1.0]).sum().is_nan() && of(&[f64::INFINITY]).std(1).is_nan());
        assert_eq!(of(&[f64::MAX, f64::MAX]).sum(), f64::INFINITY);
        assert_eq!(of(&[f64::MAX, f64::MAX]).mean(2), f64::MAX);
        assert_eq!(of(&[-0.0, -0.0]).sum().to_bits(), 0);
        assert_eq!(of(&[5e-324, 5e-324]).sum(), 1e-323);
        assert!(of(&[]).mean(0).is_nan() && of(&[]).std(0).is_nan());
        assert_eq!(of(&[]).sum(), 0.0);
    }

    #[test]
    fn sums_of_all_magnitudes_are_valid_and_damaged_ones_are_not() {
        let mut sum = ExactSum::with_squares();
        sum.push(5e-324);
        for _ in 0..1 << 10 {
            sum.push(f64::MAX);
        }
        let mut all = ExactSum::with_squares();
        // As many terms as 2^27, which is what fills the highest digit.
        for _ in 0..17 {
            all.append(&sum.clone());
            sum.append(&all);
        }
        assert!(sum.is_valid(true) && !sum.is_valid(false));
        assert_eq!((sum.sum(), of(&[f64::MAX]).std(1)), (f64::INFINITY, 0.0));
        let damaged = |digits: &[i64]| Digits {
            digits: SmallVec::from_slice(digits),
            lowest: 0,
            additions: 1,
        };
        assert!(damaged(&[-1, 1 << 33]).is_valid());
        for digits in [vec![-1, i64::MAX], vec![i64::MIN], vec![0; 1000]] {
            assert!(!damaged(&digits).is_valid(), "{digits:?}");
        }
    }

    #[test]
    fn carries_go_through_all_digits() {
        let mut digits = Digits::default();
        for _ in 0..5 {
            digits.add(false, u64::MAX, 31);
            digits.additions = MAX_ADDITIONS;
        }
        assert_eq!(digits.value(), (BigInt::from(u64::MAX) * 5) << 31);
        for _ in 0..7 {
            digits.add(true, u64::MAX, 31);
            digits.additions = MAX_ADDITIONS;
        }
        assert_eq!(digits.value(), (BigInt::from(u64::MAX) * -2) << 31);
        digits.add(false, 1, 3);
        assert_eq!(digits.value(), ((BigInt::from(u64::MAX) * -2) << 31) + 8);
    }
}
