//! Conversions between dtypes, as NumPy's `astype`.

use bytemuck::Pod;
use isochrony_dsp::Isa;
use isochrony_segment::{Bool8, Complex, Complex32, Complex64, DType, dispatch};

use super::map::{Map1, Narrow, UnaryFn, run1, samples, samples_mut};
use super::number::Order;

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
    i8 => i8 i16 i32 i64 u8 u16 u32 f32 f64;
    i16 => i8 i16 i32 i64 u8 u16 u32 f32 f64;
    i32 => i8 i16 i32 i64 u8 u16 u32 f32 f64;
    i64 => i8 i16 i32 i64 u8 u16 u32 f32 f64;
    u8 => i8 i16 i32 i64 u8 u16 u32 f32 f64;
    u32 => i8 i16 i32 i64 u8 u16 u32 f32 f64;
    u16 => i8 i16 i32 i64 u8 u16 u32 f32 f64;
    f32 => i8 i16 i32 i64 u8 u16 u32 f32 f64;
    f64 => i8 i16 i32 i64 u8 u16 u32 f32 f64;
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

of_bool!(i8 i16 i32 i64 u8 u16 u32 f32 f64);

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

to_complex!(Bool8 i8 i16 i32 i64 u8 u16 u32 f32 f64);

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

const STEP_SAMPLES: usize = 256;

/// Through a dtype that has all values of `A`.
fn by_way<A: Pod, M: Pod, B: Pod>(isa: Isa, a: &[u8], out: &mut [u8])
where
    Cast: Map1<A, M> + Map1<M, B>,
{
    let mut between = [M::zeroed(); STEP_SAMPLES];
    let (a, out) = (samples::<A>(a), samples_mut::<B>(out));
    for (a, out) in a.chunks(STEP_SAMPLES).zip(out.chunks_mut(STEP_SAMPLES)) {
        let between = &mut between[..a.len()];
        let (a, between) = (bytemuck::cast_slice(a), bytemuck::cast_slice_mut(between));
        run1::<Cast, A, M, Narrow>(isa, a, between);
        run1::<Cast, M, B, Narrow>(isa, between, bytemuck::cast_slice_mut(out));
    }
}

/// None from complex to real. Integers convert through i64 and f32 through f64, which are lossless: fewer loops.
pub(crate) fn cast(from: DType, to: DType) -> Option<UnaryFn> {
    macro_rules! integer {
        ($from:ident) => {
            dispatch!(to, To => by_way::<$from, i64, To> as UnaryFn)
        };
    }
    macro_rules! straight {
        ($from:ident, $to:ident) => {
            run1::<Cast, $from, $to, Narrow> as UnaryFn
        };
    }
    Some(match (from, to) {
        (DType::Bool, DType::Bool) => straight!(Bool8, Bool8),
        _ if from == to => copy,
        (DType::I16, DType::F32) => straight!(i16, f32),
        (DType::I16, DType::F64) => straight!(i16, f64),
        (DType::I32, DType::F64) => straight!(i32, f64),
        (DType::Bool, DType::I64) => straight!(Bool8, i64),
        (DType::I8, DType::I64) => straight!(i8, i64),
        (DType::I16, DType::I64) => straight!(i16, i64),
        (DType::I32, DType::I64) => straight!(i32, i64),
        (DType::U8, DType::I64) => straight!(u8, i64),
        (DType::U16, DType::I64) => straight!(u16, i64),
        (DType::U32, DType::I64) => straight!(u32, i64),
        (DType::Bool, _) => integer!(Bool8),
        (DType::I8, _) => integer!(i8),
        (DType::I16, _) => integer!(i16),
        (DType::I32, _) => integer!(i32),
        (DType::U8, _) => integer!(u8),
        (DType::U16, _) => integer!(u16),
        (DType::U32, _) => integer!(u32),
        (DType::I64, _) => dispatch!(to, To => run1::<Cast, i64, To, Narrow> as UnaryFn),
        (DType::F32, DType::F64) => straight!(f32, f64),
        (DType::F32, _) => dispatch!(to, To => by_way::<f32, f64, To> as UnaryFn),
        (DType::F64, _) => dispatch!(to, To => run1::<Cast, f64, To, Narrow> as UnaryFn),
        (DType::C64, DType::C128) => straight!(Complex32, Complex64),
        (DType::C64, DType::Bool) => straight!(Complex32, Bool8),
        (DType::C128, DType::C64) => straight!(Complex64, Complex32),
        (DType::C128, DType::Bool) => straight!(Complex64, Bool8),
        (DType::C64 | DType::C128, _) => return None,
    })
}

fn copy(_isa: Isa, a: &[u8], out: &mut [u8]) {
    out.copy_from_slice(a);
}
