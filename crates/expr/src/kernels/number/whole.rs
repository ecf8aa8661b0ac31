//! Integers and bools.

use isochrony_segment::Bool8;

use super::{Arith, Bits, Floored, Order};

macro_rules! integers {
    ($($type:ident)*) => {$(
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

        impl Floored for $type {
            #[inline(always)]
            fn floor_div(self, divisor: Self) -> Self {
                if divisor == 0 {
                    return 0;
                }
                let quotient = self.wrapping_div(divisor);
                let rest = self.wrapping_rem(divisor);
                #[allow(unused_comparisons)] // unsigned dtypes have no signs that could differ
                let below = rest != 0 && (rest < 0) != (divisor < 0);
                quotient - Self::from(below)
            }

            #[inline(always)]
            fn modulo(self, divisor: Self) -> Self {
                if divisor == 0 {
                    return 0;
                }
                let rest = self.wrapping_rem(divisor);
                #[allow(unused_comparisons)] // unsigned dtypes have no signs that could differ
                let below = rest != 0 && (rest < 0) != (divisor < 0);
                if below { rest + divisor } else { rest }
            }

            /// Wraps. Exponents below zero never come here: expressions with them are refused.
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

integers!(i8 i16 i32 i64 u8 u16);

impl Arith for Bool8 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.or(other)
    }

    /// Never asked for: typing refuses it, as NumPy does.
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
