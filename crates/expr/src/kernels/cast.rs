//! Conversions between dtypes, as NumPy's `astype`.

use isochrony_segment::{Bool8, Complex, Complex32, Complex64, DType, dispatch};

use super::map::{Map1, UnaryFn, run1};
use super::number::Order;

/// Conversion to the output's dtype.
pub(super) struct Cast;

macro_rules! numbers {
    ($($from:ident => $($to:ident)*;)*) => {$($(
        impl Map1<$from, $to> for Cast {
            /// Saturates where a float exceeds an integer; integers wrap.
            #[inline(always)]
            #[allow(clippy::unnecessary_cast)]
            fn map(a: $from) -> $to {
                a as $to
            }
        }
    )*)*};
}

numbers! {
    i8 => i8 i16 i32 i64 u8 u16 f32 f64;
    i16 => i8 i16 i32 i64 u8 u16 f32 f64;
    i32 => i8 i16 i32 i64 u8 u16 f32 f64;
    i64 => i8 i16 i32 i64 u8 u16 f32 f64;
    u8 => i8 i16 i32 i64 u8 u16 f32 f64;
    u16 => i8 i16 i32 i64 u8 u16 f32 f64;
    f32 => i8 i16 i32 i64 u8 u16 f32 f64;
    f64 => i8 i16 i32 i64 u8 u16 f32 f64;
}

macro_rules! of_bool {
    ($($to:ident)*) => {$(
        impl Map1<Bool8, $to> for Cast {
            #[inline(always)]
            fn map(a: Bool8) -> $to {
                u8::from(a.get()) as $to
            }
        }
    )*};
}

of_bool!(i8 i16 i32 i64 u8 u16 f32 f64);

impl<T: Order> Map1<T, Bool8> for Cast {
    #[inline(always)]
    fn map(a: T) -> Bool8 {
        Bool8::from(!a.is_zero())
    }
}

macro_rules! to_complex {
    ($($from:ident)*) => {$(
        impl Map1<$from, Complex32> for Cast {
            #[inline(always)]
            fn map(a: $from) -> Complex32 {
                Complex::new(<Self as Map1<$from, f32>>::map(a), 0.0)
            }
        }

        impl Map1<$from, Complex64> for Cast {
            #[inline(always)]
            fn map(a: $from) -> Complex64 {
                Complex::new(<Self as Map1<$from, f64>>::map(a), 0.0)
            }
        }
    )*};
}

to_complex!(Bool8 i8 i16 i32 i64 u8 u16 f32 f64);

macro_rules! complex {
    ($($from:ident => $to:ident, $part:ident;)*) => {$(
        impl Map1<$from, $to> for Cast {
            #[inline(always)]
            #[allow(clippy::unnecessary_cast)]
            fn map(a: $from) -> $to {
                Complex::new(a.re as $part, a.im as $part)
            }
        }
    )*};
}

complex! {
    Complex32 => Complex32, f32;
    Complex32 => Complex64, f64;
    Complex64 => Complex32, f32;
    Complex64 => Complex64, f64;
}

/// The conversion; none from complex to real numbers, which would lose the imaginary part.
pub(crate) fn cast(from: DType, to: DType) -> Option<UnaryFn> {
    macro_rules! real {
        ($from:ident) => {
            dispatch!(to, To => run1::<Cast, $from, To> as UnaryFn)
        };
    }
    macro_rules! complex {
        ($from:ident) => {
            match to {
                DType::Bool => run1::<Cast, $from, Bool8>,
                DType::C64 => run1::<Cast, $from, Complex32>,
                DType::C128 => run1::<Cast, $from, Complex64>,
                _ => return None,
            }
        };
    }
    Some(match from {
        DType::Bool => real!(Bool8),
        DType::I8 => real!(i8),
        DType::I16 => real!(i16),
        DType::I32 => real!(i32),
        DType::I64 => real!(i64),
        DType::U8 => real!(u8),
        DType::U16 => real!(u16),
        DType::F32 => real!(f32),
        DType::F64 => real!(f64),
        DType::C64 => complex!(Complex32),
        DType::C128 => complex!(Complex64),
    })
}
