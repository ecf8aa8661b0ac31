//! Integers and bools.

use isochrony_segment::Bool8;

use super::{Arith, Bits, FloorArith, Order};

macro_rules! integers {
    ($($type:ident, $divide:expr;)*) => {$(
        impl Arith for $type {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn negated(self) -> Self {
                self.wrapping_neg()
            }
        }

        impl Order for $type {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }

            #[inline(always)]
            fn less_equal(self, other: Self) -> bool {
                self <= other
            }

            #[inline(always)]
            fn equals(self, other: Self) -> bool {
                self == other
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                true
            }

            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0
            }
        }

        impl Bits for $type {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            fn inverted(self) -> Self {
                !self
            }
        }

        impl FloorArith for $type {
            const HAS_RARE: bool = false;

            #[inline(always)]
            fn floor_div(self, divisor: Self) -> Self {
                let (quotient, rest) = $divide(self, divisor);
                #[allow(unused_comparisons)] // unsigned dtypes have no sign
                let below = (rest != 0) & ((rest < 0) != (divisor < 0));
                let floor = quotient.wrapping_sub(Self::from(below));
                if divisor == 0 { 0 } else { floor }
            }

            #[inline(always)]
            fn modulo(self, divisor: Self) -> Self {
                let (_, rest) = $divide(self, divisor);
                #[allow(unused_comparisons)] // unsigned dtypes have no sign
                let below = (rest != 0) & ((rest < 0) != (divisor < 0));
                let modulo = if below { rest.wrapping_add(divisor) } else { rest };
                if divisor == 0 { 0 } else { modulo }
            }

            #[inline(always)]
            fn remainder(self, divisor: Self) -> Self {
                let (_, rest) = $divide(self, divisor);
                if divisor == 0 { 0 } else { rest }
            }

            #[inline(always)]
            fn is_uneven(self, _divisor: Self) -> bool {
                false
            }

            #[inline(always)]
            fn rare_floor_div(self, divisor: Self) -> Self {
                self.floor_div(divisor)
            }

            #[inline(always)]
            fn rare_modulo(self, divisor: Self) -> Self {
                self.modulo(divisor)
            }

            #[inline(always)]
            fn rare_remainder(self, divisor: Self) -> Self {
                self.remainder(divisor)
            }

            #[inline(always)]
            fn is_steep(self) -> bool {
                false
            }

            #[inline(always)]
            fn rare_power(self, exponent: Self) -> Self {
                self.power(exponent)
            }

            /// Wraps. Typing rejects negative exponents.
            #[inline(always)]
            fn power(self, exponent: Self) -> Self {
                let (mut base, mut left, mut product) = (self, exponent, 1);
                #[allow(unused_comparisons)]
                while left > 0 {
                    if left & 1 == 1 {
                        product = Self::wrapping_mul(product, base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                product
            }
        }
    )*};
}

/// Quotients through floats, which vectors can divide: rounding of f32 is below the distance of 16-bit quotients from
/// the next integer, that of f64 for 32 bits. The result for zero is unused.
macro_rules! through {
    ($type:ident, $float:ident) => {
        |a: $type, b: $type| {
            let quotient = ($float::from(a) / $float::from(b)) as i32;
            let rest = i32::from(a).wrapping_sub(quotient.wrapping_mul(i32::from(b)));
            (quotient as $type, rest as $type)
        }
    };
}

integers! {
    i8, through!(i8, f32);
    i16, through!(i16, f32);
    // The only quotient that overflows wraps.
    i32, |a: i32, b: i32| {
        let quotient = (f64::from(a) / f64::from(b)) as i32;
        let quotient = if b == -1 { a.wrapping_neg() } else { quotient };
        (quotient, a.wrapping_sub(quotient.wrapping_mul(b)))
    };
    i64, |a: i64, b: i64| {
        let b = if b == 0 { 1 } else { b };
        (a.wrapping_div(b), a.wrapping_rem(b))
    };
    u8, through!(u8, f32);
    u16, through!(u16, f32);
    u32, |a: u32, b: u32| {
        let quotient = (f64::from(a) / f64::from(b)) as u32;
        (quotient, a.wrapping_sub(quotient.wrapping_mul(b)))
    };
}

impl Arith for Bool8 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.or(other)
    }

    /// Never called: typing rejects it, as NumPy does.
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.xor(other)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.and(other)
    }

    #[inline(always)]
    fn negated(self) -> Self {
        self.inverted()
    }
}

impl Order for Bool8 {
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        !self.get() & other.get()
    }

    #[inline(always)]
    fn less_equal(self, other: Self) -> bool {
        !self.get() | other.get()
    }

    #[inline(always)]
    fn equals(self, other: Self) -> bool {
        self.get() == other.get()
    }

    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }

    #[inline(always)]
    fn is_finite(self) -> bool {
        true
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        !self.get()
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        self.and(other)
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.or(other)
    }
}

impl Bits for Bool8 {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self::from(self.get() & other.get())
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self::from(self.get() | other.get())
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self::from(self.get() ^ other.get())
    }

    #[inline(always)]
    fn inverted(self) -> Self {
        Self::from(!self.get())
    }
}
