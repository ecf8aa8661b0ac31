//! How many pairs of samples compare as asked: nothing is stored where only their number matters.

use std::marker::PhantomData;

use bytemuck::Pod;
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::{Bool8, DType};

use super::map::{Map2, Source, samples};
use super::within::count;
use super::{Equal, Less, LessEqual, NotEqual};
use crate::Binary;

/// Two operands, one of them at least a block.
pub(crate) type CompareFn = fn(Isa, Source<'_>, Source<'_>) -> u64;

struct Compare<'a, F, T> {
    a: Source<'a>,
    b: Source<'a>,
    map: PhantomData<(F, T)>,
}

/// Samples of a block that are compared before their number is added up.
const MOST: usize = 128;

impl<F: Map2<T, Bool8>, T: Pod> Kernel for Compare<'_, F, T> {
    type Output = u64;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> u64 {
        match (self.a, self.b) {
            (Source::Block(a), Source::Value(b)) => {
                let b = b.get();
                count(samples::<T>(a), |a| F::map(a, b).get())
            }
            (Source::Value(a), Source::Block(b)) => {
                let a = a.get();
                count(samples::<T>(b), |b| F::map(a, b).get())
            }
            (Source::Block(a), Source::Block(b)) => {
                let mut total = 0;
                for (a, b) in samples::<T>(a)
                    .chunks(MOST)
                    .zip(samples::<T>(b).chunks(MOST))
                {
                    let mut passing = 0u32;
                    for (&a, &b) in a.iter().zip(b) {
                        passing += u32::from(F::map(a, b).get());
                    }
                    total += u64::from(passing);
                }
                total
            }
            (Source::Value(_), Source::Value(_)) => 0,
        }
    }
}

fn run<F: Map2<T, Bool8>, T: Pod>(isa: Isa, a: Source<'_>, b: Source<'_>) -> u64 {
    isa.run(Compare::<F, T> {
        a,
        b,
        map: PhantomData,
    })
}

/// The loop that counts a comparison of samples of a dtype; operands change places for those
/// that look from the other side.
pub(crate) fn compare(op: Binary, dtype: DType) -> Option<(CompareFn, bool)> {
    macro_rules! of {
        ($map:ident) => {
            match dtype {
                DType::I16 => run::<$map, i16> as CompareFn,
                DType::F32 => run::<$map, f32>,
                DType::F64 => run::<$map, f64>,
                _ => return None,
            }
        };
    }
    let swapped = matches!(op, Binary::Gt | Binary::Ge);
    let run = match op {
        Binary::Lt | Binary::Gt => of!(Less),
        Binary::Le | Binary::Ge => of!(LessEqual),
        Binary::Eq => of!(Equal),
        Binary::Ne => of!(NotEqual),
        _ => return None,
    };
    Some((run, swapped))
}
