//! Complex numbers.

use isochrony_segment::{Complex, Complex32, Complex64};

use super::{Arith, Order, Quotient};

macro_rules! complex {
    ($($type:ident)*) => {$(
        impl Arith for $type {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                Complex::new(self.re + other.re, self.im + other.im)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                Complex::new(self.re - other.re, self.im - other.im)
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                Complex::new(
                    self.re * other.re - self.im * other.im,
                    self.re * other.im + self.im * other.re,
                )
            }

            #[inline(always)]
            fn negated(self) -> Self {
                Complex::new(-self.re, -self.im)
            }
        }

        impl Quotient for $type {
            /// Smith's algorithm, as in NumPy.
            #[inline(always)]
            fn over(self, divisor: Self) -> Self {
                let (re, im) = (divisor.re.abs(), divisor.im.abs());
                if re >= im {
                    if re == 0.0 && im == 0.0 {
                        return Complex::new(self.re / re, self.im / re);
                    }
                    let ratio = divisor.im / divisor.re;
                    let scale = 1.0 / (divisor.re + divisor.im * ratio);
                    Complex::new(
                        (self.re + self.im * ratio) * scale,
                        (self.im - self.re * ratio) * scale,
                    )
                } else {
                    let ratio = divisor.re / divisor.im;
                    let scale = 1.0 / (divisor.im + divisor.re * ratio);
                    Complex::new(
                        (self.re * ratio + self.im) * scale,
                        (self.im * ratio - self.re) * scale,
                    )
                }
            }
        }

        impl Order for $type {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                (self.re < other.re && !self.im.is_nan() && !other.im.is_nan())
                    || (self.re == other.re && self.im < other.im)
            }

            #[inline(always)]
            fn less_equal(self, other: Self) -> bool {
                (self.re < other.re && !self.im.is_nan() && !other.im.is_nan())
                    || (self.re == other.re && self.im <= other.im)
            }

            #[inline(always)]
            fn equals(self, other: Self) -> bool {
                self.re == other.re && self.im == other.im
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.re.is_nan() | self.im.is_nan()
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.re.is_finite() & self.im.is_finite()
            }

            #[inline(always)]
            fn is_zero(self) -> bool {
                self.re == 0.0 && self.im == 0.0
            }
        }
    )*};
}

complex!(Complex32 Complex64);
