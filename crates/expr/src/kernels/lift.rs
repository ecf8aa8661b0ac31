//! A conversion and the operation that takes it, in one loop: samples of integers or single precision
//! never lie about as doubles.

use std::marker::PhantomData;

use bytemuck::Pod;
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::DType;

use super::cast::Cast;
use super::map::{Map1, Map2, Source, samples, samples_mut};
use super::pair::{Left, Right, WithOther};
use super::{Larger, Minus, Over, Plus, Smaller, Times};

/// A block to be converted, then the other operand, which has the result's dtype.
pub(crate) type LiftFn = fn(Isa, &[u8], Source<'_>, &mut [u8]);

struct Lift<'a, F, A, O> {
    samples: &'a [A],
    other: Source<'a>,
    out: &'a mut [O],
    map: PhantomData<F>,
}

impl<F: Map2<O, O>, A: Pod, O: Pod> Kernel for Lift<'_, F, A, O>
where
    Cast: Map1<A, O>,
{
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let blocks = self.out.iter_mut().zip(self.samples);
        match self.other {
            Source::Value(other) => {
                let other = other.get();
                for (out, &sample) in blocks {
                    *out = F::map(Cast::map(sample), other);
                }
            }
            Source::Block(other) => {
                for ((out, &sample), &other) in blocks.zip(samples(other)) {
                    *out = F::map(Cast::map(sample), other);
                }
            }
        }
    }
}

fn run<F: Map2<O, O>, A: Pod, O: Pod>(isa: Isa, block: &[u8], other: Source<'_>, out: &mut [u8])
where
    Cast: Map1<A, O>,
{
    isa.run(Lift::<F, A, O> {
        samples: samples(block),
        other,
        out: samples_mut(out),
        map: PhantomData,
    });
}

/// The loop that converts samples and does an operation on them.
pub(crate) fn lift(op: WithOther, from: DType, to: DType) -> Option<LiftFn> {
    macro_rules! of {
        ($map:ty) => {
            match (from, to) {
                (DType::I16, DType::F64) => run::<$map, i16, f64> as LiftFn,
                (DType::I32, DType::F64) => run::<$map, i32, f64>,
                (DType::F32, DType::F64) => run::<$map, f32, f64>,
                (DType::I16, DType::F32) => run::<$map, i16, f32>,
                _ => return None,
            }
        };
    }
    Some(match op {
        WithOther::Add => of!(Left<Plus>),
        WithOther::Sub => of!(Left<Minus>),
        WithOther::SubFrom => of!(Right<Minus>),
        WithOther::Mul => of!(Left<Times>),
        WithOther::Div => of!(Left<Over>),
        WithOther::DivInto => of!(Right<Over>),
        WithOther::Minimum => of!(Left<Smaller>),
        WithOther::Maximum => of!(Left<Larger>),
        WithOther::Abs | WithOther::Sqrt => return None,
    })
}
