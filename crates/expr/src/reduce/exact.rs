//! Exact sums of integers.

use isochrony_dsp::stats::{Accumulator, Integer, Powers, Statistic};
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::{Bool8, Sample};

use super::Reducer;
use crate::Reduction;
use crate::kernels::{Value, samples};

/// Samples per block, summed before the wide total is updated.
const BLOCK: usize = 1 << 10;

pub(crate) trait Whole: Sample {
    /// Sum of at most [`BLOCK`] samples. Must be `#[inline(always)]`.
    fn block(samples: &[Self]) -> i128;
}

macro_rules! narrow {
    ($($type:ident)*) => {$(
        impl Whole for $type {
            /// 2^10 samples of 16 bits fit 32.
            #[inline(always)]
            fn block(samples: &[Self]) -> i128 {
                samples.iter().map(|&sample| i32::from(sample)).sum::<i32>().into()
            }
        }
    )*};
}

narrow!(i8 i16 u8 u16);

macro_rules! of_32_bits {
    ($($type:ident)*) => {$(
        impl Whole for $type {
            #[inline(always)]
            fn block(samples: &[Self]) -> i128 {
                samples.iter().map(|&sample| i64::from(sample)).sum::<i64>().into()
            }
        }
    )*};
}

of_32_bits!(i32 u32);

impl Whole for i64 {
    #[inline(always)]
    fn block(samples: &[Self]) -> i128 {
        let (mut high, mut low) = (0i64, 0i64);
        for &sample in samples {
            // Vectors lack the signed shift.
            let flipped = (sample ^ i64::MIN) as u64;
            high += (flipped >> 32) as i64;
            low += (flipped & 0xffff_ffff) as i64;
        }
        let bias = (samples.len() as i128) << 63;
        (i128::from(high) << 32) + i128::from(low) - bias
    }
}

impl Whole for Bool8 {
    #[inline(always)]
    fn block(samples: &[Self]) -> i128 {
        let mut count = 0u32;
        for samples in samples.chunks(255) {
            let ones: u8 = samples.iter().map(|sample| u8::from(sample.get())).sum();
            count += u32::from(ones);
        }
        count.into()
    }
}

pub(crate) struct Total<T> {
    sum: i128,
    seen: u64,
    samples: std::marker::PhantomData<T>,
}

impl<T> Default for Total<T> {
    fn default() -> Self {
        Self {
            sum: 0,
            seen: 0,
            samples: std::marker::PhantomData,
        }
    }
}

struct Add<'a, T>(&'a [T]);

impl<T: Whole> Kernel for Add<'_, T> {
    type Output = i128;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> i128 {
        self.0.chunks(BLOCK).map(T::block).sum()
    }
}

impl<T: Whole> Reducer for Total<T> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        let samples = samples::<T>(block);
        self.seen += samples.len() as u64;
        self.sum += isa.run_narrow(Add(samples));
    }

    fn finish(&self, wanted: Reduction) -> Value {
        match wanted {
            // Wraps, as in NumPy.
            Reduction::Sum => Value::of(self.sum as i64),
            _ => Value::of(self.sum as f64 / self.seen as f64),
        }
    }
}

pub(crate) struct Spread<T> {
    powers: Powers,
    samples: std::marker::PhantomData<T>,
}

impl<T> Default for Spread<T> {
    fn default() -> Self {
        Self {
            powers: Powers::default(),
            samples: std::marker::PhantomData,
        }
    }
}

impl<T: Integer> Reducer for Spread<T> {
    fn reset(&mut self) {
        self.powers = Powers::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        self.powers.push(isa, samples::<T>(block));
    }

    fn finish(&self, wanted: Reduction) -> Value {
        let (mean, variance) = (|| self.powers.mean(), || self.powers.variance());
        Value::of(match wanted {
            Reduction::Mean => mean(),
            Reduction::Std => variance().sqrt(),
            Reduction::Rms => (variance() + mean() * mean()).sqrt(),
            _ => variance(),
        })
    }
}

pub(crate) struct Moments<T: Statistic> {
    accumulator: Option<Accumulator<T>>,
}

impl<T: Statistic> Default for Moments<T> {
    fn default() -> Self {
        Self { accumulator: None }
    }
}

impl<T: Statistic> Reducer for Moments<T>
where
    T::Moments: Send + Sync,
    T::Extreme: bytemuck::Pod,
{
    fn reset(&mut self) {
        if let Some(accumulator) = &mut self.accumulator {
            accumulator.reset();
        }
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        self.accumulator
            .get_or_insert_with(|| Accumulator::on(isa))
            .push(samples(block));
    }

    fn finish(&self, wanted: Reduction) -> Value {
        let Some(accumulator) = &self.accumulator else {
            return Value::of(f64::NAN);
        };
        let summary = accumulator.finish();
        match wanted {
            Reduction::Min => Value::of(summary.min),
            Reduction::Max => Value::of(summary.max),
            Reduction::Mean => Value::of(summary.mean),
            Reduction::Std => Value::of(summary.std()),
            Reduction::Rms => Value::of(summary.rms()),
            _ => Value::of(summary.variance()),
        }
    }
}
