//! Roots, logarithms, angles: the same bits on every CPU and C library.
//!
//! The platform's own functions choose code by CPU, so none of them is called. Single precision is
//! computed in double precision and rounded.

use isochrony_segment::{Bool8, Complex32, Complex64, Sample};

/// Functions of a float.
pub(crate) trait Float: Sample {
    fn root(self) -> Self;
    fn exponential(self) -> Self;
    fn natural_log(self) -> Self;
    fn decimal_log(self) -> Self;
    fn sine(self) -> Self;
    fn cosine(self) -> Self;
    fn tangent(self) -> Self;
    fn lower(self) -> Self;
    fn upper(self) -> Self;
    fn nearest(self) -> Self;
    fn angle_to(self, x: Self) -> Self;
    fn length(self, other: Self) -> Self;
}

impl Float for f64 {
    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn exponential(self) -> Self {
        libm::exp(self)
    }

    #[inline(always)]
    fn natural_log(self) -> Self {
        libm::log(self)
    }

    #[inline(always)]
    fn decimal_log(self) -> Self {
        libm::log10(self)
    }

    #[inline(always)]
    fn sine(self) -> Self {
        libm::sin(self)
    }

    #[inline(always)]
    fn cosine(self) -> Self {
        libm::cos(self)
    }

    #[inline(always)]
    fn tangent(self) -> Self {
        libm::tan(self)
    }

    #[inline(always)]
    fn lower(self) -> Self {
        self.floor()
    }

    #[inline(always)]
    fn upper(self) -> Self {
        self.ceil()
    }

    #[inline(always)]
    fn nearest(self) -> Self {
        self.round_ties_even()
    }

    #[inline(always)]
    fn angle_to(self, x: Self) -> Self {
        libm::atan2(self, x)
    }

    /// Scaled by a power of two where squares would overflow or lose digits; not the C library's
    /// `hypot`, whose last bit differs from one to the next.
    #[inline(always)]
    fn length(self, other: Self) -> Self {
        const BIG: f64 = f64::from_bits((1023 + 600) << 52); // 2^600
        const SMALL: f64 = f64::from_bits((1023 - 600) << 52); // 2^-600
        let (a, b) = (self.abs(), other.abs());
        let larger = if a > b { a } else { b };
        let (down, up) = if larger > f64::from_bits((1023 + 500) << 52) {
            (SMALL, BIG)
        } else if larger < f64::from_bits((1023 - 450) << 52) {
            (BIG, SMALL)
        } else {
            (1.0, 1.0)
        };
        let (x, y) = (a * down, b * down);
        let length = (x * x + y * y).sqrt() * up;
        // Infinite even beside NaN, as C has it.
        if (a == Self::INFINITY) | (b == Self::INFINITY) {
            Self::INFINITY
        } else {
            length
        }
    }
}

macro_rules! through_f64 {
    ($($method:ident)*) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            f64::from(self).$method() as Self
        }
    )*};
}

impl Float for f32 {
    through_f64!(exponential natural_log decimal_log sine cosine tangent);

    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn lower(self) -> Self {
        self.floor()
    }

    #[inline(always)]
    fn upper(self) -> Self {
        self.ceil()
    }

    #[inline(always)]
    fn nearest(self) -> Self {
        self.round_ties_even()
    }

    #[inline(always)]
    fn angle_to(self, x: Self) -> Self {
        f64::from(self).angle_to(f64::from(x)) as Self
    }

    /// Squares of f32 are exact in f64 and far from its limits.
    #[inline(always)]
    fn length(self, other: Self) -> Self {
        let (a, b) = (f64::from(self), f64::from(other));
        let length = (a * a + b * b).sqrt() as Self;
        if (self.abs() == Self::INFINITY) | (other.abs() == Self::INFINITY) {
            Self::INFINITY
        } else {
            length
        }
    }
}

#[inline(always)]
pub(crate) fn pow_f32(base: f32, exponent: f32) -> f32 {
    libm::pow(f64::from(base), f64::from(exponent)) as f32
}

/// Magnitudes and angles: of real numbers, too.
pub(crate) trait Polar: Sample {
    /// The dtype of one part.
    type Part: Sample;
    fn magnitude(self) -> Self::Part;
    fn angle(self) -> Self::Part;
    fn re(self) -> Self::Part;
    fn im(self) -> Self::Part;
    fn conjugate(self) -> Self;
}

macro_rules! real {
    ($($type:ident, |$x:ident| $magnitude:expr, $angle:expr;)*) => {$(
        impl Polar for $type {
            type Part = Self;

            #[inline(always)]
            fn magnitude(self) -> Self {
                let $x = self;
                $magnitude
            }

            #[inline(always)]
            fn angle(self) -> Self {
                let $x = self;
                $angle
            }

            #[inline(always)]
            fn re(self) -> Self {
                self
            }

            #[inline(always)]
            fn im(self) -> Self {
                Self::default()
            }

            #[inline(always)]
            fn conjugate(self) -> Self {
                self
            }
        }
    )*};
}

// Angles of integers are those of floats: typing converts first.
real! {
    Bool8, |x| Bool8::from(x.get()), x;
    i8, |x| x.wrapping_abs(), x;
    i16, |x| x.wrapping_abs(), x;
    i32, |x| x.wrapping_abs(), x;
    i64, |x| x.wrapping_abs(), x;
    u8, |x| x, x;
    u16, |x| x, x;
    f32, |x| x.abs(), (0.0f32).angle_to(x);
    f64, |x| x.abs(), (0.0f64).angle_to(x);
}

macro_rules! complex {
    ($($type:ident, $part:ident;)*) => {$(
        impl Polar for $type {
            type Part = $part;

            #[inline(always)]
            fn magnitude(self) -> $part {
                self.re.length(self.im)
            }

            #[inline(always)]
            fn angle(self) -> $part {
                self.im.angle_to(self.re)
            }

            #[inline(always)]
            fn re(self) -> $part {
                self.re
            }

            #[inline(always)]
            fn im(self) -> $part {
                self.im
            }

            #[inline(always)]
            fn conjugate(self) -> Self {
                Self::new(self.re, -self.im)
            }
        }
    )*};
}

complex! {
    Complex32, f32;
    Complex64, f64;
}
