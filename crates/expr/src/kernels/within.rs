//! Which samples lie within an interval, or outside of it. NaN does neither.

use bytemuck::Pod;
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::{Bool8, DType};

use super::map::{samples, samples_mut};
use super::number::Order;

/// Bounds are numbers of the samples' dtype; those beyond it saturate, low above high is nowhere.
pub(crate) type WithinFn = fn(Isa, &[u8], f64, f64, bool, &mut [u8]);

/// A dtype that f64 holds exactly.
trait Narrow: Order + Pod {
    fn of(bound: f64) -> Self;
}

macro_rules! narrow {
    ($($type:ident)*) => {$(
        impl Narrow for $type {
            fn of(bound: f64) -> Self {
                bound as Self
            }
        }
    )*};
}

narrow!(i8 i16 i32 u8 u16 f32 f64);

struct Within<'a, T> {
    samples: &'a [T],
    low: T,
    high: T,
    outside: bool,
    out: &'a mut [Bool8],
}

impl<T: Narrow> Kernel for Within<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Self {
            samples,
            low,
            high,
            outside,
            out,
        } = self;
        if outside {
            for (out, &sample) in out.iter_mut().zip(samples) {
                *out = Bool8::from(sample.less(low) | high.less(sample));
            }
        } else {
            for (out, &sample) in out.iter_mut().zip(samples) {
                *out = Bool8::from(low.less_equal(sample) & sample.less_equal(high));
            }
        }
    }
}

fn run<T: Narrow>(isa: Isa, block: &[u8], low: f64, high: f64, outside: bool, out: &mut [u8]) {
    isa.run(Within::<T> {
        samples: samples(block),
        low: T::of(low),
        high: T::of(high),
        outside,
        out: samples_mut(out),
    });
}

/// The loop for samples of a dtype that f64 holds exactly.
pub(crate) fn within(dtype: DType) -> Option<WithinFn> {
    Some(match dtype {
        DType::I8 => run::<i8>,
        DType::I16 => run::<i16>,
        DType::I32 => run::<i32>,
        DType::U8 => run::<u8>,
        DType::U16 => run::<u16>,
        DType::F32 => run::<f32>,
        DType::F64 => run::<f64>,
        _ => return None,
    })
}
