//! Floats.

use isochrony_dsp::math;

use super::{Arith, FloorArith, Order, Quotient};

macro_rules! floats {
    ($($type:ident, $fmod:path, $uneven:path, $pow:path;)*) => {$(
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

        impl FloorArith for $type {
            const HAS_RARE: bool = true;

            #[inline(always)]
            fn floor_div(self, divisor: Self) -> Self {
                let rest = $fmod(self, divisor);
                let quotient = (self - rest) / divisor;
                let below = (rest != 0.0) & ((divisor < 0.0) != (rest < 0.0));
                let quotient = if below { quotient - 1.0 } else { quotient };
                let floor = quotient.floor();
                let whole = if quotient - floor > 0.5 { floor + 1.0 } else { floor };
                let nothing = Self::copysign(0.0, self / divisor);
                if quotient == 0.0 { nothing } else { whole }
            }

            #[inline(always)]
            fn modulo(self, divisor: Self) -> Self {
                let rest = $fmod(self, divisor);
                let below = (divisor < 0.0) != (rest < 0.0);
                let rest_above = if below { rest + divisor } else { rest };
                let nothing = Self::copysign(0.0, divisor);
                if rest == 0.0 { nothing } else { rest_above }
            }

            #[inline(always)]
            fn remainder(self, divisor: Self) -> Self {
                $fmod(self, divisor)
            }

            #[inline(always)]
            fn is_uneven(self, divisor: Self) -> bool {
                $uneven(self, divisor)
            }

            /// As `npy_floor_divide`: subtracts the remainder first, since `a / b` may round up to an integer.
            #[inline(always)]
            fn rare_floor_div(self, divisor: Self) -> Self {
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
            fn rare_modulo(self, divisor: Self) -> Self {
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
            fn rare_remainder(self, divisor: Self) -> Self {
                self % divisor
            }

            #[inline(always)]
            fn power(self, exponent: Self) -> Self {
                $pow(self, exponent)
            }

            #[inline(always)]
            fn is_steep(self) -> bool {
                math::is_steep(self.into())
            }

            #[inline(always)]
            fn rare_power(self, exponent: Self) -> Self {
                libm::pow(self.into(), exponent.into()) as Self
            }
        }
    )*};
}

floats! {
    f32, math::fmod_f32, math::is_uneven_f32, math::pow_f32;
    f64, math::fmod, math::is_uneven, math::pow;
}
