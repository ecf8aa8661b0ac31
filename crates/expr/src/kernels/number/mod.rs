//! What NumPy's arithmetic means for one number of each dtype.
//!
//! Every method is `#[inline(always)]`, so that loops compile it for their instruction set, and
//! branch-free where vectors have to do it.

mod complex;
mod real;
mod whole;

use isochrony_segment::Sample;

/// Sums and products; bools: or, and.
pub(crate) trait Arith: Sample {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn negated(self) -> Self;
}

/// Comparisons; complex numbers by real, then imaginary part.
pub(crate) trait Order: Sample {
    fn less(self, other: Self) -> bool;
    fn less_equal(self, other: Self) -> bool;
    fn equals(self, other: Self) -> bool;
    fn is_nan(self) -> bool;
    fn is_finite(self) -> bool;
    fn is_zero(self) -> bool;

    /// NumPy's `minimum`: NaN if one is. Of equals, and of two NaN, the first.
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        if other.less(self) | (other.is_nan() & !self.is_nan()) {
            other
        } else {
            self
        }
    }

    /// NumPy's `maximum`: NaN if one is. Of equals, and of two NaN, the first.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self.less(other) | (other.is_nan() & !self.is_nan()) {
            other
        } else {
            self
        }
    }
}

/// Bitwise operations; logical ones of bools.
pub(crate) trait Bits: Sample {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn inverted(self) -> Self;
}

/// Quotient and remainder rounded down, C's remainder, and powers. Some floats are rare: vectors
/// have no way for them.
pub(crate) trait Floored: Sample {
    /// Whether there are such.
    const SOME_RARE: bool;
    fn floor_div(self, divisor: Self) -> Self;
    fn modulo(self, divisor: Self) -> Self;
    fn remainder(self, divisor: Self) -> Self;
    fn is_uneven(self, divisor: Self) -> bool;
    fn rare_floor_div(self, divisor: Self) -> Self;
    fn rare_modulo(self, divisor: Self) -> Self;
    fn rare_remainder(self, divisor: Self) -> Self;
    fn power(self, exponent: Self) -> Self;
    /// Whether the power of an exponent is rare.
    fn is_steep(self) -> bool;
    fn rare_power(self, exponent: Self) -> Self;
}

/// True quotients.
pub(crate) trait Quotient: Sample {
    fn over(self, divisor: Self) -> Self;
}
