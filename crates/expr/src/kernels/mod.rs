//! Selects the loop of an operation on a dtype.

mod cast;
mod chain;
mod float;
mod loops;
mod map;
mod number;
mod step;
mod walk;
mod within;

use isochrony_segment::{Bool8, Complex32, Complex64, DType, dispatch};

use crate::{Binary, Unary};

pub(crate) use cast::cast;
pub(crate) use chain::{Chain, Convert, MAX_BLOCKS, MAX_NUMBERS, MAX_SAVED};
pub(crate) use float::Polar;
pub(crate) use map::{BinaryFn, SelectFn, Source, UnaryFn, Value, samples, samples_mut};
pub(crate) use number::{Arith, Order};
pub(crate) use step::{Code, Place, Step};
pub(crate) use within::{TallyFn, WithinFn, count, within};

use float::Float;
use map::{AllLevels, Map1, Map2, Narrow, Plain, run1, run2};
use number::{Bits, FloorArith, Quotient};

macro_rules! maps1 {
    ($($name:ident<$bound:ident>, |$a:ident| $body:expr;)*) => {$(
        struct $name;

        impl<T: $bound> Map1<T, T> for $name {
            #[inline(always)]
            fn map($a: T) -> T {
                $body
            }
        }
    )*};
}

maps1! {
    Negate<Arith>, |a| a.negated();
    Invert<Bits>, |a| a.inverted();
    Sqrt<Float>, |a| a.root();
    Exp<Float>, |a| a.exponential();
    Expm1<Float>, |a| a.exponential_less_one();
    Log<Float>, |a| a.natural_log();
    Log1p<Float>, |a| a.log_of_one_more();
    Log2<Float>, |a| a.binary_log();
    Log10<Float>, |a| a.decimal_log();
    Tanh<Float>, |a| a.hyperbolic_tangent();
    Floor<Float>, |a| a.lower();
    Ceil<Float>, |a| a.upper();
    Trunc<Float>, |a| a.inner();
    Round<Float>, |a| a.nearest();
    Conj<Polar>, |a| a.conjugate();
}

macro_rules! of_angles {
    ($($name:ident, $near:ident, $far:ident;)*) => {$(
        struct $name;

        impl<T: Float> Map1<T, T> for $name {
            const HAS_RARE: bool = true;

            #[inline(always)]
            fn map(a: T) -> T {
                a.$near()
            }

            #[inline(always)]
            fn is_rare(a: T) -> bool {
                a.is_far()
            }

            #[inline(always)]
            fn map_rare(a: T) -> T {
                a.$far()
            }
        }
    )*};
}

of_angles! {
    Sin, sine, far_sine;
    Cos, cosine, far_cosine;
    Tan, tangent, far_tangent;
}

macro_rules! parts {
    ($($name:ident, |$a:ident| $body:expr;)*) => {$(
        struct $name;

        impl<T: Polar> Map1<T, T::Part> for $name {
            #[inline(always)]
            fn map($a: T) -> T::Part {
                $body
            }
        }
    )*};
}

parts! {
    Abs, |a| a.magnitude();
    Real, |a| a.re();
    Imag, |a| a.im();
    Angle, |a| a.angle();
}

macro_rules! tests1 {
    ($($name:ident, |$a:ident| $body:expr;)*) => {$(
        struct $name;

        impl<T: Order> Map1<T, Bool8> for $name {
            #[inline(always)]
            fn map($a: T) -> Bool8 {
                Bool8::from($body)
            }
        }
    )*};
}

tests1! {
    IsNan, |a| a.is_nan();
    IsFinite, |a| a.is_finite();
}

macro_rules! maps2 {
    ($($name:ident<$bound:ident>, |$a:ident, $b:ident| $body:expr;)*) => {$(
        struct $name;

        impl<T: $bound> Map2<T, T> for $name {
            #[inline(always)]
            fn map($a: T, $b: T) -> T {
                $body
            }
        }
    )*};
}

maps2! {
    Plus<Arith>, |a, b| a.plus(b);
    Minus<Arith>, |a, b| a.minus(b);
    Times<Arith>, |a, b| a.times(b);
    Over<Quotient>, |a, b| a.over(b);
    And<Bits>, |a, b| a.and(b);
    Or<Bits>, |a, b| a.or(b);
    Xor<Bits>, |a, b| a.xor(b);
    Smaller<Order>, |a, b| a.smaller(b);
    Larger<Order>, |a, b| a.larger(b);
    Arctan2<Float>, |a, b| a.angle_to(b);
    Hypot<Float>, |a, b| a.length(b);
}

macro_rules! quotients {
    ($($name:ident, $some:expr, $map:ident, |$a:ident, $b:ident| $is_rare:expr, $rare:ident;)*) => {$(
        struct $name;

        impl<T: FloorArith> Map2<T, T> for $name {
            const HAS_RARE: bool = $some;

            #[inline(always)]
            fn map(a: T, b: T) -> T {
                a.$map(b)
            }

            #[inline(always)]
            fn is_rare($a: T, $b: T) -> bool {
                $is_rare
            }

            #[inline(always)]
            fn map_rare(a: T, b: T) -> T {
                a.$rare(b)
            }
        }
    )*};
}

quotients! {
    FloorDiv, T::HAS_RARE, floor_div, |a, b| a.is_uneven(b), rare_floor_div;
    Modulo, T::HAS_RARE, modulo, |a, b| a.is_uneven(b), rare_modulo;
    Fmod, T::HAS_RARE, remainder, |a, b| a.is_uneven(b), rare_remainder;
    Power, T::HAS_RARE, power, |_a, b| b.is_steep(), rare_power;
}

macro_rules! tests2 {
    ($($name:ident, |$a:ident, $b:ident| $body:expr;)*) => {$(
        struct $name;

        impl<T: Order> Map2<T, Bool8> for $name {
            #[inline(always)]
            fn map($a: T, $b: T) -> Bool8 {
                Bool8::from($body)
            }
        }
    )*};
}

tests2! {
    Less, |a, b| a.less(b);
    LessEqual, |a, b| a.less_equal(b);
    Equal, |a, b| a.equals(b);
    NotEqual, |a, b| !a.equals(b);
}

macro_rules! among {
    ($dtype:expr, bool int float complex, $T:ident => $body:expr) => {
        dispatch!($dtype, $T => Some($body))
    };
    ($dtype:expr, $($kind:ident)*, $T:ident => $body:expr) => {
        match $dtype {
            $(among!(@pattern $kind) => among!(@arms $kind, $dtype, $T, $body),)*
            _ => None,
        }
    };
    (@pattern bool) => { DType::Bool };
    (@pattern int) => { DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32 };
    (@pattern float) => { DType::F32 | DType::F64 };
    (@pattern complex) => { DType::C64 | DType::C128 };
    (@arms bool, $dtype:expr, $T:ident, $body:expr) => { among!(@some $T, Bool8, $body) };
    (@arms int, $dtype:expr, $T:ident, $body:expr) => {
        match $dtype {
            DType::I8 => among!(@some $T, i8, $body),
            DType::I16 => among!(@some $T, i16, $body),
            DType::I32 => among!(@some $T, i32, $body),
            DType::I64 => among!(@some $T, i64, $body),
            DType::U8 => among!(@some $T, u8, $body),
            DType::U16 => among!(@some $T, u16, $body),
            _ => among!(@some $T, u32, $body),
        }
    };
    (@arms float, $dtype:expr, $T:ident, $body:expr) => {
        match $dtype {
            DType::F32 => among!(@some $T, f32, $body),
            _ => among!(@some $T, f64, $body),
        }
    };
    (@arms complex, $dtype:expr, $T:ident, $body:expr) => {
        match $dtype {
            DType::C64 => among!(@some $T, Complex32, $body),
            _ => among!(@some $T, Complex64, $body),
        }
    };
    (@some $T:ident, $type:ty, $body:expr) => {{
        type $T = $type;
        Some($body)
    }};
}

pub(crate) fn unary(op: Unary, dtype: DType) -> Option<UnaryFn> {
    macro_rules! function {
        ($map:ident) => {
            among!(dtype, float, T => run1::<$map, T, T, AllLevels> as UnaryFn)
        };
    }
    macro_rules! rounded {
        ($map:ident) => {
            match dtype {
                DType::F32 | DType::F64 => {
                    among!(dtype, float, T => run1::<$map, T, T, Narrow> as UnaryFn)
                }
                _ if dtype.is_complex() => None,
                _ => cast(dtype, dtype),
            }
        };
    }
    macro_rules! part {
        ($map:ident) => {
            dispatch!(dtype, T => Some(run1::<$map, T, <T as Polar>::Part, Narrow> as UnaryFn))
        };
    }
    match op {
        Unary::Neg => {
            among!(dtype, int float complex, T => run1::<Negate, T, T, Narrow> as UnaryFn)
        }
        Unary::Invert => among!(dtype, bool int, T => run1::<Invert, T, T, Narrow> as UnaryFn),
        Unary::Abs => part!(Abs),
        Unary::Real => part!(Real),
        Unary::Imag => part!(Imag),
        Unary::Conj => dispatch!(dtype, T => Some(run1::<Conj, T, T, Narrow> as UnaryFn)),
        Unary::Angle => {
            among!(dtype, float complex, T => run1::<Angle, T, <T as Polar>::Part, Plain> as UnaryFn)
        }
        Unary::IsNan => dispatch!(dtype, T => Some(run1::<IsNan, T, Bool8, Narrow> as UnaryFn)),
        Unary::IsFinite => {
            dispatch!(dtype, T => Some(run1::<IsFinite, T, Bool8, Narrow> as UnaryFn))
        }
        Unary::Sqrt => among!(dtype, float, T => run1::<Sqrt, T, T, Plain> as UnaryFn),
        Unary::Exp => function!(Exp),
        Unary::Expm1 => function!(Expm1),
        Unary::Log => function!(Log),
        Unary::Log1p => function!(Log1p),
        Unary::Log2 => function!(Log2),
        Unary::Log10 => function!(Log10),
        Unary::Sin => function!(Sin),
        Unary::Cos => function!(Cos),
        Unary::Tan => function!(Tan),
        Unary::Tanh => function!(Tanh),
        Unary::Trunc => rounded!(Trunc),
        Unary::Floor => rounded!(Floor),
        Unary::Ceil => rounded!(Ceil),
        Unary::Round | Unary::Rint => rounded!(Round),
    }
}

/// The loop, and whether to swap operands; None if unsupported.
pub(crate) fn binary(op: Binary, dtype: DType) -> Option<(BinaryFn, bool)> {
    // For floats, chains do these for samples.
    macro_rules! test {
        ($map:ident) => {
            match dtype {
                DType::F32 => Some(run2::<$map, f32, Bool8, Plain> as BinaryFn),
                DType::F64 => Some(run2::<$map, f64, Bool8, Plain> as BinaryFn),
                _ => {
                    among!(dtype, bool int complex, T => run2::<$map, T, Bool8, Narrow> as BinaryFn)
                }
            }
        };
    }
    macro_rules! map {
        ($map:ident, $($kind:ident)*) => {
            match dtype {
                DType::F32 | DType::F64 => {
                    among!(dtype, float, T => run2::<$map, T, T, Plain> as BinaryFn)
                }
                _ => among!(dtype, $($kind)*, T => run2::<$map, T, T, Narrow> as BinaryFn),
            }
        };
    }
    macro_rules! bits {
        ($map:ident) => {
            among!(dtype, bool int, T => run2::<$map, T, T, Narrow> as BinaryFn)
        };
    }
    macro_rules! function {
        ($map:ident) => {
            match dtype {
                DType::F32 | DType::F64 => {
                    among!(dtype, float, T => run2::<$map, T, T, AllLevels> as BinaryFn)
                }
                _ => among!(dtype, int, T => run2::<$map, T, T, Narrow> as BinaryFn),
            }
        };
    }
    let swapped = matches!(op, Binary::Gt | Binary::Ge);
    let run = match op {
        Binary::Add => map!(Plus, bool int complex),
        Binary::Sub => map!(Minus, int complex),
        Binary::Mul => map!(Times, bool int complex),
        Binary::Div => map!(Over, complex),
        Binary::FloorDiv => function!(FloorDiv),
        Binary::Mod => function!(Modulo),
        Binary::Fmod => function!(Fmod),
        Binary::Pow => function!(Power),
        Binary::And => bits!(And),
        Binary::Or => bits!(Or),
        Binary::Xor => bits!(Xor),
        Binary::Minimum => map!(Smaller, bool int complex),
        Binary::Maximum => map!(Larger, bool int complex),
        Binary::Arctan2 => among!(dtype, float, T => run2::<Arctan2, T, T, Plain> as BinaryFn),
        Binary::Hypot => among!(dtype, float, T => run2::<Hypot, T, T, Narrow> as BinaryFn),
        Binary::Lt | Binary::Gt => test!(Less),
        Binary::Le | Binary::Ge => test!(LessEqual),
        Binary::Eq => test!(Equal),
        Binary::Ne => test!(NotEqual),
    };
    run.map(|run| (run, swapped))
}

pub(crate) fn select(dtype: DType) -> SelectFn {
    dispatch!(dtype, T => map::select::<T> as SelectFn)
}
