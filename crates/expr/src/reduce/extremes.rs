//! Smallest and largest samples, and how many are not zero. Exact in any order; lanes only keep
//! the choice between 0.0 and -0.0 the same on every CPU.

use std::marker::PhantomData;

use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::Bool8;

use super::Reducer;
use crate::Reduction;
use crate::kernels::{Order, Value, samples};

/// An integer with limits.
pub(crate) trait Limited: Order + Ord {
    const LEAST: Self;
    const MOST: Self;
}

macro_rules! limited {
    ($($type:ident)*) => {$(
        impl Limited for $type {
            const LEAST: Self = $type::MIN;
            const MOST: Self = $type::MAX;
        }
    )*};
}

limited!(i8 i16 i32 i64 u8 u16);

/// Extremes of integers so far.
pub(crate) struct Whole<T, const MIN: bool, const MAX: bool> {
    min: T,
    max: T,
}

impl<T: Limited, const MIN: bool, const MAX: bool> Default for Whole<T, MIN, MAX> {
    fn default() -> Self {
        Self {
            min: T::MOST,
            max: T::LEAST,
        }
    }
}

struct Extend<'a, R, T> {
    reducer: &'a mut R,
    samples: &'a [T],
}

impl<T: Limited, const MIN: bool, const MAX: bool> Kernel for Extend<'_, Whole<T, MIN, MAX>, T> {
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

impl<T: Limited, const MIN: bool, const MAX: bool> Reducer for Whole<T, MIN, MAX> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        isa.run(Extend {
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

const LANES: usize = 16;

/// A float with infinities.
pub(crate) trait Unbounded: Order {
    const INFINITY: Self;
    const NEG_INFINITY: Self;
}

impl Unbounded for f32 {
    const INFINITY: Self = f32::INFINITY;
    const NEG_INFINITY: Self = f32::NEG_INFINITY;
}

impl Unbounded for f64 {
    const INFINITY: Self = f64::INFINITY;
    const NEG_INFINITY: Self = f64::NEG_INFINITY;
}

#[derive(Clone, Copy)]
struct Lane<T> {
    min: [T; LANES],
    max: [T; LANES],
    /// The last NaN of each lane, else zero.
    nan: [T; LANES],
}

/// Extremes of floats so far. Samples need not be in the lane of their index: which of equal
/// samples is kept shows only in the sign of zero, and blocks are whole but for the last.
pub(crate) struct Real<T, const MIN: bool, const MAX: bool> {
    lanes: Lane<T>,
    seen: usize,
}

impl<T: Unbounded, const MIN: bool, const MAX: bool> Default for Real<T, MIN, MAX> {
    fn default() -> Self {
        Self {
            lanes: Lane {
                min: [T::INFINITY; LANES],
                max: [T::NEG_INFINITY; LANES],
                nan: [T::default(); LANES],
            },
            seen: 0,
        }
    }
}

impl<T: Unbounded> Lane<T> {
    #[inline(always)]
    fn extend<const MIN: bool, const MAX: bool>(&mut self, lane: usize, sample: T) {
        if MIN {
            let min = self.min[lane];
            self.min[lane] = if sample.less(min) { sample } else { min };
        }
        if MAX {
            let max = self.max[lane];
            self.max[lane] = if max.less(sample) { sample } else { max };
        }
        let nan = self.nan[lane];
        self.nan[lane] = if sample.is_nan() { sample } else { nan };
    }
}

impl<T: Unbounded, const MIN: bool, const MAX: bool> Kernel for Extend<'_, Real<T, MIN, MAX>, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let mut lanes = self.reducer.lanes;
        let misplaced = (LANES - self.reducer.seen % LANES) % LANES;
        let (head, body) = self.samples.split_at(misplaced.min(self.samples.len()));
        let first = LANES - misplaced;
        for (at, &sample) in head.iter().enumerate() {
            lanes.extend::<MIN, MAX>(first + at, sample);
        }
        let (groups, tail) = body.as_chunks::<LANES>();
        for group in groups {
            for (lane, &sample) in group.iter().enumerate() {
                lanes.extend::<MIN, MAX>(lane, sample);
            }
        }
        for (lane, &sample) in tail.iter().enumerate() {
            lanes.extend::<MIN, MAX>(lane, sample);
        }
        self.reducer.lanes = lanes;
        self.reducer.seen += self.samples.len();
    }
}

impl<T: Unbounded, const MIN: bool, const MAX: bool> Reducer for Real<T, MIN, MAX> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        isa.run(Extend {
            reducer: self,
            samples: samples::<T>(block),
        });
    }

    fn finish(&self, wanted: Reduction) -> Value {
        if let Some(&nan) = self.lanes.nan.iter().find(|lane| lane.is_nan()) {
            return Value::of(nan);
        }
        let fold = |lanes: [T; LANES], choose: fn(T, T) -> T| {
            lanes[1..].iter().fold(lanes[0], |a, &b| choose(a, b))
        };
        Value::of(match wanted {
            Reduction::Min => fold(self.lanes.min, |a, b| if b.less(a) { b } else { a }),
            _ => fold(self.lanes.max, |a, b| if a.less(b) { b } else { a }),
        })
    }
}

/// How many samples so far, and how many of them are not zero.
pub(crate) struct Truth<T> {
    count: u64,
    seen: u64,
    samples: PhantomData<T>,
}

impl<T> Default for Truth<T> {
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

    /// Counts in numbers as wide as a sample, so that vectors need no widening.
    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> u64 {
        macro_rules! count {
            ($narrow:ident, $most:expr) => {{
                let blocks = self.0.chunks($most).map(|samples| {
                    let ones = samples
                        .iter()
                        .map(|sample| $narrow::from(!sample.is_zero()));
                    u64::from(ones.sum::<$narrow>())
                });
                blocks.sum()
            }};
        }
        match size_of::<T>() {
            1 => count!(u8, 255),
            2 => count!(u16, 1 << 15),
            4 => count!(u32, 1 << 20),
            _ => count!(u64, 1 << 20),
        }
    }
}

impl<T: Order> Reducer for Truth<T> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        let samples = samples::<T>(block);
        self.seen += samples.len() as u64;
        self.count += isa.run(CountNonzero(samples));
    }

    fn finish(&self, wanted: Reduction) -> Value {
        match wanted {
            Reduction::Count => Value::of(self.count as i64),
            Reduction::Any | Reduction::Max => Value::of(Bool8::from(self.count > 0)),
            _ => Value::of(Bool8::from(self.count == self.seen)),
        }
    }
}
