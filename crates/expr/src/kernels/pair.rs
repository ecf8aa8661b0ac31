//! Two operations with numbers in one loop: `(s - mean) / std`, `s * 2.5 + 1`, and the like. What lies
//! between is rounded as it would be if it were stored.

use std::marker::PhantomData;

use bytemuck::Pod;
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::DType;

use super::map::{Map2, Value, samples, samples_mut};
use super::{Minus, Over, Plus, Times};

/// A block, then the number of the first and that of the second operation.
pub(crate) type PairFn = fn(Isa, &[u8], Value, Value, &mut [u8]);

/// An operation on a sample and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithNumber {
    Add,
    Sub,
    SubFrom,
    Mul,
    Div,
    DivInto,
}

/// The sample on the left, or on the right.
struct Left<F>(PhantomData<F>);
struct Right<F>(PhantomData<F>);

impl<F: Map2<T, T>, T> Map2<T, T> for Left<F> {
    #[inline(always)]
    fn map(sample: T, number: T) -> T {
        F::map(sample, number)
    }
}

impl<F: Map2<T, T>, T> Map2<T, T> for Right<F> {
    #[inline(always)]
    fn map(sample: T, number: T) -> T {
        F::map(number, sample)
    }
}

struct Pair<'a, F, G, T> {
    samples: &'a [T],
    numbers: [T; 2],
    out: &'a mut [T],
    maps: PhantomData<(F, G)>,
}

impl<F: Map2<T, T>, G: Map2<T, T>, T: Copy> Kernel for Pair<'_, F, G, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let [first, second] = self.numbers;
        for (out, &sample) in self.out.iter_mut().zip(self.samples) {
            *out = G::map(F::map(sample, first), second);
        }
    }
}

fn run<F: Map2<T, T>, G: Map2<T, T>, T: Pod>(
    isa: Isa,
    block: &[u8],
    first: Value,
    second: Value,
    out: &mut [u8],
) {
    isa.run(Pair::<F, G, T> {
        samples: samples(block),
        numbers: [first.get(), second.get()],
        out: samples_mut(out),
        maps: PhantomData,
    });
}

/// The loop for two operations on samples of a real float dtype.
pub(crate) fn pair(first: WithNumber, second: WithNumber, dtype: DType) -> Option<PairFn> {
    macro_rules! each {
        ($which:expr, $macro:ident, $($given:ty),*) => {
            match $which {
                WithNumber::Add => $macro!($($given,)* Left<Plus>),
                WithNumber::Sub => $macro!($($given,)* Left<Minus>),
                WithNumber::SubFrom => $macro!($($given,)* Right<Minus>),
                WithNumber::Mul => $macro!($($given,)* Left<Times>),
                WithNumber::Div => $macro!($($given,)* Left<Over>),
                WithNumber::DivInto => $macro!($($given,)* Right<Over>),
            }
        };
    }
    macro_rules! of_dtype {
        ($first:ty, $second:ty) => {
            match dtype {
                DType::F32 => Some(run::<$first, $second, f32> as PairFn),
                DType::F64 => Some(run::<$first, $second, f64> as PairFn),
                _ => None,
            }
        };
    }
    macro_rules! then {
        ($first:ty) => {
            each!(second, of_dtype, $first)
        };
    }
    each!(first, then,)
}
