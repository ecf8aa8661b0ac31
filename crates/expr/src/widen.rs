//! Widening of integer arithmetic, so that no result wraps.
//!
//! `+`, `-`, `*`, `//`, `**`, minus and `abs` of integers give the operands' common dtype if it holds every possible
//! result, else the narrowest signed dtype that does: int32 for the sum of two int16 and for their quotient (-32768 //
//! -1); uint8 for `abs` of uint8. int64 is the widest: int64 results, products of two uint32, and powers may wrap.
//!
//! Ranges of dtypes count, not values, except for a constant exponent or divisor: int16 // 2 stays int16. A Python
//! integer has the dtype of its operand, or the narrowest that holds it.

use isochrony_segment::DType;

use crate::promote::promote_types;
use crate::{Binary, Unary};

#[derive(Debug, Clone, Copy)]
struct IntegerRange {
    least: i128,
    most: i128,
}

/// Integer dtypes, narrowest first.
const NARROWEST: [DType; 7] = [
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
];

impl IntegerRange {
    fn of(dtype: DType) -> Option<Self> {
        let (least, most) = match dtype {
            DType::Bool => (0, 1),
            DType::I8 => (i8::MIN.into(), i8::MAX.into()),
            DType::I16 => (i16::MIN.into(), i16::MAX.into()),
            DType::I32 => (i32::MIN.into(), i32::MAX.into()),
            DType::I64 => (i64::MIN.into(), i64::MAX.into()),
            DType::U8 => (0, u8::MAX.into()),
            DType::U16 => (0, u16::MAX.into()),
            DType::U32 => (0, u32::MAX.into()),
            DType::F32 | DType::F64 | DType::C64 | DType::C128 => return None,
        };
        Some(Self { least, most })
    }

    fn around(values: &[i128]) -> Self {
        let fold = |pick: fn(i128, i128) -> i128| values.iter().copied().reduce(pick).unwrap_or(0);
        Self {
            least: fold(i128::min),
            most: fold(i128::max),
        }
    }

    fn within(self, dtype: DType) -> bool {
        Self::of(dtype).is_some_and(|all| all.least <= self.least && self.most <= all.most)
    }

    /// `common` if it holds all, else the narrowest signed dtype that does.
    fn dtype(self, common: DType) -> DType {
        if self.within(common) {
            return common;
        }
        let signed = NARROWEST.iter().filter(|dtype| !dtype.is_unsigned());
        let narrowest = signed.copied().find(|&dtype| self.within(dtype));
        promote_types(narrowest.unwrap_or(DType::I64), common)
    }

    fn corners(self, other: Self, of: impl Fn(i128, i128) -> i128) -> Self {
        let Self { least, most } = other;
        Self::around(&[
            of(self.least, least),
            of(self.least, most),
            of(self.most, least),
            of(self.most, most),
        ])
    }

    /// Largest for divisors nearest to zero; zero for division by zero.
    fn quotient(self, divisor: Self) -> Self {
        let nearest = [divisor.least.max(1), divisor.most.min(-1)].into_iter();
        let nearest = nearest.filter(|value| (divisor.least..=divisor.most).contains(value));
        let bounds = [self.least, self.most];
        let quotients =
            nearest.flat_map(|by| bounds.map(|value| (value * by.signum()).div_euclid(by.abs())));
        Self::around(&quotients.chain([0]).collect::<Vec<_>>())
    }

    /// Without a constant exponent a power can be anything.
    fn power(self, exponent: Option<i64>) -> Self {
        let power = exponent.and_then(|exponent| u32::try_from(exponent).ok());
        match power {
            None => Self::around(&[i128::MIN, i128::MAX]),
            // The least even power of negative numbers is not at a bound.
            Some(power) => Self::around(&[
                self.least.saturating_pow(power),
                self.most.saturating_pow(power),
                0,
            ]),
        }
    }
}

/// None if nothing can wrap.
pub(crate) fn unary(op: Unary, dtype: DType) -> Option<DType> {
    if !dtype.is_integer() {
        return None;
    }
    let IntegerRange { least, most } = IntegerRange::of(dtype)?;
    let results = match op {
        Unary::Neg => IntegerRange::around(&[-least, -most]),
        Unary::Abs => IntegerRange::around(&[least.abs(), most]),
        _ => return None,
    };
    Some(results.dtype(dtype))
}

/// None if nothing can wrap. `constant`: the second operand.
pub(crate) fn binary(op: Binary, a: DType, b: DType, constant: Option<i64>) -> Option<DType> {
    let common = promote_types(a, b);
    if !common.is_integer() {
        return None;
    }
    let (one, other) = (IntegerRange::of(a)?, IntegerRange::of(b)?);
    let results = match op {
        Binary::Add => one.corners(other, |a, b| a + b),
        Binary::Sub => one.corners(other, |a, b| a - b),
        Binary::Mul => one.corners(other, |a, b| a * b),
        Binary::FloorDiv => {
            one.quotient(constant.map_or(other, |value| IntegerRange::around(&[value.into()])))
        }
        Binary::Pow => one.power(constant),
        _ => return None,
    };
    Some(results.dtype(common))
}

/// A Python integer takes the dtype beside it if it fits.
pub(crate) fn constant(value: i64, beside: DType) -> DType {
    let value = IntegerRange::around(&[value.into()]);
    let all = std::iter::once(beside).chain(NARROWEST);
    { all }
        .find(|&dtype| value.within(dtype))
        .unwrap_or(DType::I64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::{Bool, F32, I8, I16, I32, I64, U8, U16, U32};

    #[test]
    fn results_have_the_common_dtype_or_the_narrowest_signed_one_that_holds_them() {
        use Binary::{Add, FloorDiv, Minimum, Mul, Pow, Sub};
        for (op, a, b, expected) in [
            (Add, I8, I8, Some(I16)),
            (Add, U8, U8, Some(I16)),
            (Add, I16, I16, Some(I32)),
            (Add, U32, I32, Some(I64)),
            (Add, I64, I8, Some(I64)),
            (Add, Bool, I16, Some(I32)),
            (Sub, U8, U8, Some(I16)),
            (Sub, U16, U8, Some(I32)),
            (Mul, I8, I8, Some(I16)),
            // 255 * 255 exceeds 32767.
            (Mul, U8, U8, Some(I32)),
            // 255 * -128 is within int16.
            (Mul, U8, I8, Some(I16)),
            (Mul, U16, U16, Some(I64)),
            (Mul, U32, U32, Some(I64)),
            (Mul, Bool, I16, Some(I16)),
            (FloorDiv, I16, I16, Some(I32)),
            (FloorDiv, U16, U8, Some(U16)),
            (FloorDiv, U8, I8, Some(I16)),
            (Pow, I8, U8, Some(I64)),
            (Minimum, I8, I8, None),
            (Add, Bool, Bool, None),
            (Add, I16, F32, None),
        ] {
            assert_eq!(binary(op, a, b, None), expected, "{op:?} {a} {b}");
        }
        for (dtype, exponent, expected) in [
            (I8, 2, I16),
            (I16, 2, I32),
            (U8, 2, I32),
            (I8, 1, I8),
            (I8, 0, I8),
            (I8, 9, I64),
            (I16, 200, I64),
        ] {
            assert_eq!(binary(Pow, dtype, dtype, Some(exponent)), Some(expected));
        }
        for (dtype, divisor, expected) in [
            (I8, 2, I8),
            (I8, -2, I8),
            // -128 // -1 is 128.
            (I8, -1, I16),
            (I32, -1, I64),
            (I8, 0, I8),
            (I8, 1, I8),
            (I64, -1, I64),
            (U8, 3, U8),
            (U32, 7, U32),
        ] {
            let found = binary(FloorDiv, dtype, dtype, Some(divisor));
            assert_eq!(found, Some(expected), "{dtype} // {divisor}");
        }
        // Quotients are -255 to 0.
        assert_eq!(binary(FloorDiv, U8, I8, Some(-1)), Some(I16));
        for (op, dtype, expected) in [
            (Unary::Neg, U8, Some(I16)),
            (Unary::Neg, I32, Some(I64)),
            (Unary::Abs, I16, Some(I32)),
            (Unary::Abs, U16, Some(U16)),
            (Unary::Invert, U16, None),
        ] {
            assert_eq!(unary(op, dtype), expected, "{op:?} {dtype}");
        }
    }

    #[test]
    fn a_constant_takes_its_operands_dtype_or_the_narrowest_that_holds_it() {
        assert_eq!(constant(100, I8), I8);
        assert_eq!(constant(200, I8), U8);
        assert_eq!(constant(-1, U16), I8);
        assert_eq!(constant(70_000, I16), I32);
        assert_eq!(constant(3_000_000_000, I16), U32);
        assert_eq!(constant(i64::MIN, U8), I64);
    }

    fn quotient(a: i128, b: i128) -> i128 {
        let quotient = (a as f64 / b as f64).floor();
        if b == 0 { 0 } else { quotient as i128 }
    }

    #[test]
    fn quotients_by_a_constant_reach_both_ends_of_their_range() {
        for (dtype, divisors) in [(I8, -130..=130), (U8, -260..=260)] {
            let all = IntegerRange::of(dtype).unwrap();
            for divisor in divisors {
                let results = (all.least..=all.most).map(|value| quotient(value, divisor));
                let results = IntegerRange::around(&results.chain([0]).collect::<Vec<_>>());
                let found = all.quotient(IntegerRange::around(&[divisor]));
                let ends = (found.least, found.most);
                assert_eq!(ends, (results.least, results.most), "{dtype} // {divisor}");
            }
        }
    }

    #[test]
    fn no_result_of_eight_bits_is_outside_its_dtype() {
        let values = |dtype: DType| {
            let IntegerRange { least, most } = IntegerRange::of(dtype).unwrap();
            least..=most
        };
        for (a, b) in [
            (I8, I8),
            (I8, U8),
            (U8, I8),
            (U8, U8),
            (Bool, I8),
            (U8, Bool),
        ] {
            for (op, of) in [
                (Binary::Add, (|a, b| a + b) as fn(i128, i128) -> i128),
                (Binary::Sub, |a, b| a - b),
                (Binary::Mul, |a, b| a * b),
                (Binary::FloorDiv, quotient),
            ] {
                let Some(dtype) = binary(op, a, b, None) else {
                    continue;
                };
                let results = values(a).flat_map(|a| values(b).map(move |b| of(a, b)));
                let results: Vec<i128> = results.collect();
                assert!(
                    IntegerRange::around(&results).within(dtype),
                    "{op:?} {a} {b}: {dtype}"
                );
            }
        }
    }
}
