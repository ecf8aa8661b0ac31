//! Float functions with the same bits on every CPU and C library.
//!
//! The platform's functions depend on the CPU. Angles far from zero use the portable `libm`.

use isochrony_dsp::math;
use isochrony_segment::{Bool8, Complex32, Complex64, Sample};

/// Angles for which [`is_far`](Self::is_far) holds have their own functions.
pub(crate) trait Float: Sample {
    fn root(self) -> Self;
    fn exponential(self) -> Self;
    fn exponential_less_one(self) -> Self;
    fn natural_log(self) -> Self;
    fn log_of_one_more(self) -> Self;
    fn binary_log(self) -> Self;
    fn decimal_log(self) -> Self;
    fn hyperbolic_tangent(self) -> Self;
    fn sine(self) -> Self;
    fn cosine(self) -> Self;
    fn tangent(self) -> Self;
    fn is_far(self) -> bool;
    fn far_sine(self) -> Self;
    fn far_cosine(self) -> Self;
    fn far_tangent(self) -> Self;
    fn lower(self) -> Self;
    fn upper(self) -> Self;
    fn inner(self) -> Self;
    fn nearest(self) -> Self;
    fn angle_to(self, x: Self) -> Self;
    fn length(self, other: Self) -> Self;
}

macro_rules! functions {
    ($($method:ident $function:path;)*) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            $function(self)
        }
    )*};
}

macro_rules! own {
    ($($method:ident $function:ident;)*) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            self.$function()
        }
    )*};
}

impl Float for f64 {
    own! {
        root sqrt;
        lower floor;
        upper ceil;
        inner trunc;
        nearest round_ties_even;
    }

    functions! {
        exponential math::exp;
        exponential_less_one math::exp_m1;
        natural_log math::ln;
        log_of_one_more math::ln_1p;
        binary_log math::log2;
        decimal_log math::log10;
        hyperbolic_tangent math::tanh;
        sine math::sin;
        cosine math::cos;
        tangent math::tan;
        far_sine libm::sin;
        far_cosine libm::cos;
        far_tangent libm::tan;
    }

    #[inline(always)]
    fn is_far(self) -> bool {
        math::is_far(self)
    }

    #[inline(always)]
    fn angle_to(self, x: Self) -> Self {
        libm::atan2(self, x)
    }

    /// Scales by a power of two against overflow and loss of digits; `hypot` depends on the C library.
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
        // Infinite even with a NaN, as in C.
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
    own! {
        root sqrt;
        lower floor;
        upper ceil;
        inner trunc;
        nearest round_ties_even;
    }

    functions! {
        exponential math::exp_f32;
        exponential_less_one math::exp_m1_f32;
        natural_log math::ln_f32;
        log_of_one_more math::ln_1p_f32;
        binary_log math::log2_f32;
        decimal_log math::log10_f32;
        hyperbolic_tangent math::tanh_f32;
        sine math::sin_f32;
        cosine math::cos_f32;
        tangent math::tan_f32;
    }

    through_f64!(far_sine far_cosine far_tangent);

    #[inline(always)]
    fn is_far(self) -> bool {
        math::is_far_f32(self)
    }

    #[inline(always)]
    fn angle_to(self, x: Self) -> Self {
        f64::from(self).angle_to(f64::from(x)) as Self
    }

    /// Squares of f32 are exact in f64.
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

/// Magnitudes and angles, also of real numbers.
pub(crate) trait Polar: Sample {
    /// Dtype of a component.
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

// Typing converts integers to floats before taking angles.
real! {
    Bool8, |x| Bool8::from(x.get()), x;
    i8, |x| x.wrapping_abs(), x;
    i16, |x| x.wrapping_abs(), x;
    i32, |x| x.wrapping_abs(), x;
    i64, |x| x.wrapping_abs(), x;
    u8, |x| x, x;
    u16, |x| x, x;
    u32, |x| x, x;
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
