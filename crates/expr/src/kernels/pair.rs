//! Two operations in one loop: `(s - mean) / std`, `s * 2.5 + t`, and the like. What lies between is
//! rounded as it would be if it were stored.

use std::marker::PhantomData;

use bytemuck::Pod;
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::DType;

use super::map::{Map1, Map2, Value, samples, samples_mut};
use super::{Abs, Larger, Minus, Over, Plus, Smaller, Sqrt, Times};

/// A block, then the other operands of both operations.
pub(crate) type PairFn = fn(Isa, &[u8], Others<'_>, &mut [u8]);

/// What the two operations take besides the sample: numbers, or a block for one of them.
#[derive(Clone, Copy)]
pub(crate) enum Others<'a> {
    Numbers(Value, Value),
    First(&'a [u8], Value),
    Second(Value, &'a [u8]),
}

/// An operation on a sample and something else, or nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithOther {
    Add,
    Sub,
    SubFrom,
    Mul,
    Div,
    DivInto,
    /// With the sample on the left.
    Minimum,
    Maximum,
    Abs,
    Sqrt,
}

/// The sample on the left, or on the right.
pub(super) struct Left<F>(PhantomData<F>);
pub(super) struct Right<F>(PhantomData<F>);

impl<F: Map2<T, T>, T> Map2<T, T> for Left<F> {
    #[inline(always)]
    fn map(sample: T, other: T) -> T {
        F::map(sample, other)
    }
}

impl<F: Map2<T, T>, T> Map2<T, T> for Right<F> {
    #[inline(always)]
    fn map(sample: T, other: T) -> T {
        F::map(other, sample)
    }
}

/// Nothing else.
struct Alone<F>(PhantomData<F>);

impl<F: Map1<T, T>, T> Map2<T, T> for Alone<F> {
    #[inline(always)]
    fn map(sample: T, _other: T) -> T {
        F::map(sample)
    }
}

struct Pair<'a, F, G, T> {
    samples: &'a [T],
    others: Others<'a>,
    out: &'a mut [T],
    maps: PhantomData<(F, G)>,
}

impl<F: Map2<T, T>, G: Map2<T, T>, T: Pod> Kernel for Pair<'_, F, G, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let blocks = self.out.iter_mut().zip(self.samples);
        match self.others {
            Others::Numbers(first, second) => {
                let (first, second) = (first.get(), second.get());
                for (out, &sample) in blocks {
                    *out = G::map(F::map(sample, first), second);
                }
            }
            Others::First(first, second) => {
                let second = second.get();
                for ((out, &sample), &first) in blocks.zip(samples(first)) {
                    *out = G::map(F::map(sample, first), second);
                }
            }
            Others::Second(first, second) => {
                let first = first.get();
                for ((out, &sample), &second) in blocks.zip(samples(second)) {
                    *out = G::map(F::map(sample, first), second);
                }
            }
        }
    }
}

fn run<F: Map2<T, T>, G: Map2<T, T>, T: Pod>(
    isa: Isa,
    block: &[u8],
    others: Others<'_>,
    out: &mut [u8],
) {
    isa.run(Pair::<F, G, T> {
        samples: samples(block),
        others,
        out: samples_mut(out),
        maps: PhantomData,
    });
}

/// The loop for two operations on samples of a real float dtype.
pub(crate) fn pair(first: WithOther, second: WithOther, dtype: DType) -> Option<PairFn> {
    macro_rules! each {
        ($which:expr, $macro:ident, $($given:ty),*) => {
            match $which {
                WithOther::Add => $macro!($($given,)* Left<Plus>),
                WithOther::Sub => $macro!($($given,)* Left<Minus>),
                WithOther::SubFrom => $macro!($($given,)* Right<Minus>),
                WithOther::Mul => $macro!($($given,)* Left<Times>),
                WithOther::Div => $macro!($($given,)* Left<Over>),
                WithOther::DivInto => $macro!($($given,)* Right<Over>),
                WithOther::Minimum => $macro!($($given,)* Left<Smaller>),
                WithOther::Maximum => $macro!($($given,)* Left<Larger>),
                WithOther::Abs => $macro!($($given,)* Alone<Abs>),
                WithOther::Sqrt => $macro!($($given,)* Alone<Sqrt>),
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
