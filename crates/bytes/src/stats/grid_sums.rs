//! Sums that begin at multiples of a grain and can be appended, with the same bits as in one pass.

use bytemuck::{Pod, Zeroable};
use isochrony_dsp::stats::{Accumulator, Statistic, Summary};

use crate::Value;
use crate::tree::{MOST_NODES, Tree};

/// Samples per leaf of floating-point sums: combining leaves costs little.
const LEAF: u64 = 4096;

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
    next: u64,
    open: Accumulator<T>,
    tree: Tree<Summary<T::Extreme>>,
}

impl<T: Statistic> Default for Leaves<T> {
    fn default() -> Self {
        Self {
            next: 0,
            open: Accumulator::new(),
            tree: Tree::new(),
        }
    }
}

impl<T: Statistic> GridSums<T> for Leaves<T> {
    const GRAIN: u64 = LEAF;
    const HEAP: usize = MOST_NODES * (size_of::<Summary<T::Extreme>>() + 16);

    fn begin(&mut self, sample: u64) {
        self.next = sample;
        self.open.reset();
        self.tree.clear();
    }

    fn push(&mut self, mut samples: &[T]) {
        while !samples.is_empty() {
            let room = LEAF - self.next % LEAF;
            let (now, later) = samples.split_at(samples.len().min(room as usize));
            self.open.push(now);
            self.next += now.len() as u64;
            if self.next.is_multiple_of(LEAF) {
                let leaf = self.next / LEAF - 1;
                self.tree.push(leaf, 0, self.open.finish(), Summary::merge);
                self.open.reset();
            }
            samples = later;
        }
    }

    fn append(&mut self, later: &Self) {
        self.tree.append(&later.tree, Summary::merge);
        self.next = later.next;
    }

    fn summary(&self) -> Summary<T::Extreme> {
        let mut tree = self.tree.clone();
        if !self.next.is_multiple_of(LEAF) {
            tree.push(self.next / LEAF, 0, self.open.finish(), Summary::merge);
        }
        tree.fold(Summary::merge, Summary::merge, |all| *all)
            .unwrap_or(Summary::EMPTY)
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
