//! A comparison and the choice that it makes, in one loop: `where(s > mean, s, 0)` stores no bools.

use std::marker::PhantomData;

use bytemuck::Pod;
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::{Bool8, DType};

use super::map::{Map2, Source, samples, samples_mut};
use super::{Less, LessEqual};
use crate::Binary;

/// What is compared, one of it a block, then what is chosen where it holds and where it does not.
pub(crate) type ChooseFn = fn(Isa, Source<'_>, Source<'_>, Source<'_>, Source<'_>, &mut [u8]);

struct Choose<'a, F, T, O> {
    compared: [Source<'a>; 2],
    yes: Source<'a>,
    no: Source<'a>,
    out: &'a mut [O],
    map: PhantomData<(F, T)>,
}

impl<F: Map2<T, Bool8>, T: Pod, O: Pod> Kernel for Choose<'_, F, T, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let out = self.out;
        macro_rules! choose {
            ($pairs:expr) => {
                match (self.yes, self.no) {
                    (Source::Value(yes), Source::Value(no)) => {
                        let (yes, no) = (yes.get(), no.get());
                        for (out, (a, b)) in out.iter_mut().zip($pairs) {
                            *out = if F::map(a, b).get() { yes } else { no };
                        }
                    }
                    (Source::Block(yes), Source::Value(no)) => {
                        let no = no.get();
                        for ((out, (a, b)), &yes) in out.iter_mut().zip($pairs).zip(samples(yes)) {
                            *out = if F::map(a, b).get() { yes } else { no };
                        }
                    }
                    (Source::Value(yes), Source::Block(no)) => {
                        let yes = yes.get();
                        for ((out, (a, b)), &no) in out.iter_mut().zip($pairs).zip(samples(no)) {
                            *out = if F::map(a, b).get() { yes } else { no };
                        }
                    }
                    (Source::Block(yes), Source::Block(no)) => {
                        let chosen = samples(yes).iter().zip(samples(no));
                        for ((out, (a, b)), (&yes, &no)) in out.iter_mut().zip($pairs).zip(chosen) {
                            *out = if F::map(a, b).get() { yes } else { no };
                        }
                    }
                }
            };
        }
        match self.compared {
            [Source::Block(a), Source::Value(b)] => {
                let b: T = b.get();
                choose!(samples::<T>(a).iter().map(|&a| (a, b)));
            }
            [Source::Value(a), Source::Block(b)] => {
                let a: T = a.get();
                choose!(samples::<T>(b).iter().map(|&b| (a, b)));
            }
            [Source::Block(a), Source::Block(b)] => {
                let (a, b) = (samples::<T>(a), samples::<T>(b));
                choose!(a.iter().copied().zip(b.iter().copied()));
            }
            [Source::Value(_), Source::Value(_)] => {}
        }
    }
}

fn run<F: Map2<T, Bool8>, T: Pod, O: Pod>(
    isa: Isa,
    a: Source<'_>,
    b: Source<'_>,
    yes: Source<'_>,
    no: Source<'_>,
    out: &mut [u8],
) {
    isa.run(Choose::<F, T, O> {
        compared: [a, b],
        yes,
        no,
        out: samples_mut(out),
        map: PhantomData,
    });
}

/// The loop that compares samples of one dtype and chooses among those of another; whether the
/// compared have to change places, too.
pub(crate) fn choose(op: Binary, compared: DType, chosen: DType) -> Option<(ChooseFn, bool)> {
    macro_rules! of {
        ($map:ident) => {
            match (compared, chosen) {
                (DType::F32, DType::F32) => run::<$map, f32, f32> as ChooseFn,
                (DType::F64, DType::F64) => run::<$map, f64, f64>,
                (DType::I16, DType::I16) => run::<$map, i16, i16>,
                (DType::I16, DType::F64) => run::<$map, i16, f64>,
                _ => return None,
            }
        };
    }
    let swapped = matches!(op, Binary::Gt | Binary::Ge);
    let run = match op {
        Binary::Lt | Binary::Gt => of!(Less),
        Binary::Le | Binary::Ge => of!(LessEqual),
        _ => return None,
    };
    Some((run, swapped))
}
