//! Minima, maxima and counts of non-zero samples. Exact in any order, since the sign of zero is cleared.

use std::marker::PhantomData;

use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::Bool8;

use super::Reducer;
use crate::Reduction;
use crate::kernels::{Arith, Order, Value, count, samples};

pub(crate) trait IntegerBounds: Order + Ord {
    const LOWEST: Self;
    const HIGHEST: Self;
}

macro_rules! integer_bounds {
    ($($type:ident)*) => {$(
        impl IntegerBounds for $type {
            const LOWEST: Self = $type::MIN;
            const HIGHEST: Self = $type::MAX;
        }
    )*};
}

integer_bounds!(i8 i16 i32 i64 u8 u16 u32);

pub(crate) struct IntegerExtremes<T, const MIN: bool, const MAX: bool> {
    min: T,
    max: T,
}

impl<T: IntegerBounds, const MIN: bool, const MAX: bool> Default for IntegerExtremes<T, MIN, MAX> {
    fn default() -> Self {
        Self {
            min: T::HIGHEST,
            max: T::LOWEST,
        }
    }
}

struct ExtendExtremes<'a, R, T> {
    reducer: &'a mut R,
    samples: &'a [T],
}

impl<T: IntegerBounds, const MIN: bool, const MAX: bool> Kernel
    for ExtendExtremes<'_, IntegerExtremes<T, MIN, MAX>, T>
{
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let (mut min, mut max) = (self.reducer.min, self.reducer.max);
        for &sample in self.samples {
            if MIN {
                min = min.min(sample);
            }
            if MAX {
                max = max.max(sample);
            }
        }
        (self.reducer.min, self.reducer.max) = (min, max);
    }
}

impl<T: IntegerBounds, const MIN: bool, const MAX: bool> Reducer for IntegerExtremes<T, MIN, MAX> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        isa.run_narrow(ExtendExtremes {
            reducer: self,
            samples: samples::<T>(block),
        });
    }

    fn finish(&self, wanted: Reduction) -> Value {
        Value::of(if wanted == Reduction::Min {
            self.min
        } else {
            self.max
        })
    }
}

pub(crate) trait FloatBounds: Arith + Order {
    const INFINITY: Self;
    const NEG_INFINITY: Self;
    const NAN: Self;
}

impl FloatBounds for f32 {
    const INFINITY: Self = f32::INFINITY;
    const NEG_INFINITY: Self = f32::NEG_INFINITY;
    const NAN: Self = f32::NAN;
}

impl FloatBounds for f64 {
    const INFINITY: Self = f64::INFINITY;
    const NEG_INFINITY: Self = f64::NEG_INFINITY;
    const NAN: Self = f64::NAN;
}

/// Running extremes, in as many lanes as registers allow beside the sums.
pub(crate) struct FloatExtremes<T, const LANES: usize, const MIN: bool, const MAX: bool> {
    min: [T; LANES],
    max: [T; LANES],
    nan: bool,
}

impl<T: FloatBounds, const LANES: usize, const MIN: bool, const MAX: bool> Default
    for FloatExtremes<T, LANES, MIN, MAX>
{
    fn default() -> Self {
        Self {
            min: [T::INFINITY; LANES],
            max: [T::NEG_INFINITY; LANES],
            nan: false,
        }
    }
}

impl<T: FloatBounds, const LANES: usize, const MIN: bool, const MAX: bool> Kernel
    for ExtendExtremes<'_, FloatExtremes<T, LANES, MIN, MAX>, T>
{
    type Output = ();

    /// Comparisons ignore NaN, but a sum of the block shows it more cheaply than a test. Since infinities may give a
    /// NaN sum, too, samples are then tested.
    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let ExtendExtremes { reducer, samples } = self;
        let (mut min, mut max) = (reducer.min, reducer.max);
        let mut sums = [T::default(); LANES];
        let (groups, tail) = samples.as_chunks::<LANES>();
        macro_rules! extend {
            ($lane:expr, $sample:expr) => {
                let (lane, sample) = ($lane, $sample);
                if MIN {
                    min[lane] = if sample.less(min[lane]) {
                        sample
                    } else {
                        min[lane]
                    };
                }
                if MAX {
                    max[lane] = if max[lane].less(sample) {
                        sample
                    } else {
                        max[lane]
                    };
                }
                sums[lane] = sums[lane].plus(sample);
            };
        }
        for group in groups {
            for (lane, &sample) in group.iter().enumerate() {
                extend!(lane, sample);
            }
        }
        for (lane, &sample) in tail.iter().enumerate() {
            extend!(lane, sample);
        }
        (reducer.min, reducer.max) = (min, max);
        if sums.iter().any(|sum| sum.is_nan()) {
            reducer.nan |= samples.iter().any(|sample| sample.is_nan());
        }
    }
}

impl<T: FloatBounds, const LANES: usize, const MIN: bool, const MAX: bool> Reducer
    for FloatExtremes<T, LANES, MIN, MAX>
{
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        isa.run(ExtendExtremes {
            reducer: self,
            samples: samples::<T>(block),
        });
    }

    fn finish(&self, wanted: Reduction) -> Value {
        if self.nan {
            return Value::of(T::NAN);
        }
        let fold = |lanes: [T; LANES], choose: fn(T, T) -> T| {
            lanes[1..].iter().fold(lanes[0], |a, &b| choose(a, b))
        };
        let found = match wanted {
            Reduction::Min => fold(self.min, |a, b| if b.less(a) { b } else { a }),
            _ => fold(self.max, |a, b| if a.less(b) { b } else { a }),
        };
        // Turns -0.0 into 0.0, since order decides the sign of zero.
        Value::of(found.plus(T::default()))
    }
}

pub(crate) struct NonzeroCount<T> {
    count: u64,
    seen: u64,
    samples: PhantomData<T>,
}

impl<T> Default for NonzeroCount<T> {
    fn default() -> Self {
        Self {
            count: 0,
            seen: 0,
            samples: PhantomData,
        }
    }
}

struct CountNonzero<'a, T>(&'a [T]);

impl<T: Order> Kernel for CountNonzero<'_, T> {
    type Output = u64;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> u64 {
        count(self.0, |sample| !sample.is_zero())
    }
}

impl<T: Order> Reducer for NonzeroCount<T> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        let samples = samples::<T>(block);
        self.seen += samples.len() as u64;
        self.count += isa.run_narrow(CountNonzero(samples));
    }

    fn tally(&mut self, passing: u64, seen: u64) {
        self.count += passing;
        self.seen += seen;
    }

    fn finish(&self, wanted: Reduction) -> Value {
        match wanted {
            Reduction::Count => Value::of(self.count as i64),
            Reduction::Any | Reduction::Max => Value::of(Bool8::from(self.count > 0)),
            _ => Value::of(Bool8::from(self.count == self.seen)),
        }
    }
}
