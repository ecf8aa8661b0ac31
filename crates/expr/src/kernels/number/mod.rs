//! NumPy's scalar arithmetic for each dtype.
//!
//! Methods are `#[inline(always)]`, to be compiled for an instruction set, and branch-free if vectorised.

mod complex;
mod real;
mod whole;

use isochrony_segment::Sample;

/// Sums and products; for bools: or, and.
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

    /// NumPy's `maximum`, as `smaller`.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self.less(other) | (other.is_nan() & !self.is_nan()) {
            other
        } else {
            self
        }
    }
}

/// Bitwise operations; logical ones for bools.
pub(crate) trait Bits: Sample {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn inverted(self) -> Self;
}

/// Floored quotient and remainder, C's remainder, powers. *Rare* floats are those that vectors cannot compute.
pub(crate) trait FloorArith: Sample {
    const HAS_RARE: bool;
    fn floor_div(self, divisor: Self) -> Self;
    fn modulo(self, divisor: Self) -> Self;
    fn remainder(self, divisor: Self) -> Self;
    fn is_uneven(self, divisor: Self) -> bool;
    fn rare_floor_div(self, divisor: Self) -> Self;
    fn rare_modulo(self, divisor: Self) -> Self;
    fn rare_remainder(self, divisor: Self) -> Self;
    fn power(self, exponent: Self) -> Self;
    /// Whether powers with this exponent are rare.
    fn is_steep(self) -> bool;
    fn rare_power(self, exponent: Self) -> Self;
}

pub(crate) trait Quotient: Sample {
    fn over(self, divisor: Self) -> Self;
}
