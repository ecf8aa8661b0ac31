//! Samples inside or outside an interval; NaN is neither.

use bytemuck::Pod;
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::{Bool8, DType};

use super::map::{samples, samples_mut};
use super::number::Order;

/// Bounds saturate to the samples' dtype; low above high is empty.
pub(crate) type WithinFn = fn(Isa, &[u8], f64, f64, bool, &mut [u8]);

/// As wide as a sample, so that vectors need no widening.
#[inline(always)]
pub(crate) fn count<T: Copy>(samples: &[T], passes: impl Fn(T) -> bool) -> u64 {
    macro_rules! count {
        ($narrow:ident, $most:expr) => {{
            let mut total = 0;
            for samples in samples.chunks($most) {
                let mut count: $narrow = 0;
                for &sample in samples {
                    count += $narrow::from(passes(sample));
                }
                total += u64::from(count);
            }
            total
        }};
    }
    match size_of::<T>() {
        1 => count!(u8, 255),
        2 => count!(u16, 1 << 15),
        4 => count!(u32, 1 << 20),
        _ => count!(u64, 1 << 20),
    }
}

/// Number of samples; bounds as in [`WithinFn`].
pub(crate) type TallyFn = fn(Isa, &[u8], f64, f64, bool) -> u64;

/// A dtype that f64 represents exactly.
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

narrow!(i8 i16 i32 u8 u16 u32 f32 f64);

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
    isa.run_narrow(Within::<T> {
        samples: samples(block),
        low: T::of(low),
        high: T::of(high),
        outside,
        out: samples_mut(out),
    });
}

struct Tally<'a, T> {
    samples: &'a [T],
    low: T,
    high: T,
    outside: bool,
}

impl<T: Narrow> Kernel for Tally<'_, T> {
    type Output = u64;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> u64 {
        let Self {
            samples,
            low,
            high,
            outside,
        } = self;
        if outside {
            count(samples, |sample| sample.less(low) | high.less(sample))
        } else {
            count(samples, |sample| {
                low.less_equal(sample) & sample.less_equal(high)
            })
        }
    }
}

fn tally<T: Narrow>(isa: Isa, block: &[u8], low: f64, high: f64, outside: bool) -> u64 {
    isa.run_narrow(Tally::<T> {
        samples: samples(block),
        low: T::of(low),
        high: T::of(high),
        outside,
    })
}

pub(crate) fn within(dtype: DType) -> Option<(WithinFn, TallyFn)> {
    Some(match dtype {
        DType::I8 => (run::<i8>, tally::<i8>),
        DType::I16 => (run::<i16>, tally::<i16>),
        DType::I32 => (run::<i32>, tally::<i32>),
        DType::U8 => (run::<u8>, tally::<u8>),
        DType::U16 => (run::<u16>, tally::<u16>),
        DType::U32 => (run::<u32>, tally::<u32>),
        DType::F32 => (run::<f32>, tally::<f32>),
        DType::F64 => (run::<f64>, tally::<f64>),
        _ => return None,
    })
}
