//! Floats.

use super::{Arith, Floored, Order, Quotient};

macro_rules! floats {
    ($($type:ident, $pow:path;)*) => {$(
        impl Arith for $type {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn negated(self) -> Self {
                -self
            }
        }

        impl Quotient for $type {
            #[inline(always)]
            fn over(self, divisor: Self) -> Self {
                self / divisor
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
                self != self
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.abs() < $type::INFINITY
            }

            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0.0
            }
        }

        impl Floored for $type {
            /// As `npy_floor_divide`: the quotient of what is left without the remainder, because
            /// `floor(a / b)` is off by one where `a / b` rounds up to an integer.
            #[inline(always)]
            fn floor_div(self, divisor: Self) -> Self {
                if divisor == 0.0 {
                    return self / divisor;
                }
                let rest = self % divisor;
                let mut quotient = (self - rest) / divisor;
                if rest != 0.0 && (divisor < 0.0) != (rest < 0.0) {
                    quotient -= 1.0;
                }
                if quotient != 0.0 {
                    let floor = quotient.floor();
                    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
                } else {
                    Self::copysign(0.0, self / divisor)
                }
            }

            /// As `npy_remainder`.
            #[inline(always)]
            fn modulo(self, divisor: Self) -> Self {
                let rest = self % divisor;
                if divisor == 0.0 {
                    return rest;
                }
                if rest != 0.0 {
                    if (divisor < 0.0) != (rest < 0.0) { rest + divisor } else { rest }
                } else {
                    Self::copysign(0.0, divisor)
                }
            }

            #[inline(always)]
            fn power(self, exponent: Self) -> Self {
                $pow(self, exponent)
            }
        }
    )*};
}

floats! {
    f32, crate::kernels::float::pow_f32;
    f64, libm::pow;
}
