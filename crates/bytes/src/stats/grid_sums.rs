//! Sums that begin at multiples of a grain and can be appended, with the same bits as in one pass.

use bytemuck::{Pod, Zeroable};
use isochrony_dsp::reduction_tree::MAX_NODES;
use isochrony_dsp::stats::{Accumulator, IndexedSums, LEAF, Statistic, Summary};

use crate::Value;

pub(super) trait StatisticSample:
    Statistic<Extreme = Self> + Pod + Zeroable + Send + Sync
{
    type Sums: GridSums<Self>;

    fn value(self) -> Value;
}

pub(super) trait GridSums<T: Statistic>: Default + Send + 'static {
    /// Ranges begin and end at multiples of so many samples.
    const GRAIN: u64;
    const HEAP: usize;

    /// Resets it; the next sample has this number.
    fn begin(&mut self, sample: u64);
    fn push(&mut self, samples: &[T]);
    /// Appends the sums of the range that follows.
    fn append(&mut self, later: &Self);
    fn summary(&self) -> Summary<T::Extreme>;
}

/// Integers of up to 32 bits: exact, so any grain will do.
#[derive(Default)]
pub(super) struct Exact<T: Statistic>(Accumulator<T>);

macro_rules! exact {
    ($($type:ty)*) => {$(
        impl StatisticSample for $type {
            type Sums = Exact<Self>;

            fn value(self) -> Value {
                Value::Int(i128::from(self))
            }
        }

        impl GridSums<$type> for Exact<$type> {
            const GRAIN: u64 = 1;
            const HEAP: usize = 0;

            fn begin(&mut self, _sample: u64) {
                self.0.reset();
            }

            fn push(&mut self, samples: &[$type]) {
                self.0.push(samples);
            }

            fn append(&mut self, later: &Self) {
                self.0.append(&later.0);
            }

            fn summary(&self) -> Summary<$type> {
                self.0.finish()
            }
        }
    )*};
}

exact!(i8 i16 i32 u8 u16 u32);

/// Floats and 64-bit integers: leaves, combined as a binary tree over the stream.
pub(super) struct Leaves<T: Statistic> {
    next: i64,
    sums: IndexedSums<T>,
}

impl<T: Statistic> Default for Leaves<T> {
    fn default() -> Self {
        Self {
            next: 0,
            sums: IndexedSums::from_leaf_start(),
        }
    }
}

impl<T: Statistic> GridSums<T> for Leaves<T> {
    const GRAIN: u64 = LEAF;
    const HEAP: usize = MAX_NODES * (size_of::<Summary<T::Extreme>>() + 16);

    fn begin(&mut self, sample: u64) {
        self.next = sample as i64;
        self.sums.reset();
    }

    fn push(&mut self, samples: &[T]) {
        self.sums.push(self.next, samples);
        self.next += samples.len() as i64;
    }

    fn append(&mut self, later: &Self) {
        self.sums.append(&later.sums);
        self.next = later.next;
    }

    fn summary(&self) -> Summary<T::Extreme> {
        self.sums.summary()
    }
}

impl StatisticSample for i64 {
    type Sums = Leaves<Self>;

    fn value(self) -> Value {
        Value::Int(i128::from(self))
    }
}

impl StatisticSample for f32 {
    type Sums = Leaves<Self>;

    fn value(self) -> Value {
        Value::Float(f64::from(self))
    }
}

impl StatisticSample for f64 {
    type Sums = Leaves<Self>;

    fn value(self) -> Value {
        Value::Float(self)
    }
}
