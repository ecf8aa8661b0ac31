//! Elementwise loops over blocks, compiled for every instruction set.
//!
//! Operations are types, not closures, so each loop has an address. Operands are aligned bytes of whole samples.
//!
//! Loops are compiled for worthwhile instruction sets ([`Levels`]) and for arrays of 64 samples: numbers are repeated,
//! and the rest of a block is padded.

use std::marker::PhantomData;

use bytemuck::{AnyBitPattern, NoUninit, Pod};
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::Bool8;

/// A sample of any dtype, in the first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16))]
pub(crate) struct Value(pub(crate) [u8; 16]);

impl Value {
    pub(crate) fn of<T: Pod>(sample: T) -> Self {
        let mut value = Self::default();
        value.0[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&sample));
        value
    }

    #[inline(always)]
    pub(crate) fn get<T: Pod>(&self) -> T {
        *bytemuck::from_bytes(&self.0[..size_of::<T>()])
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    Block(&'a [u8]),
    Value(Value),
}

const STEP_SAMPLES: usize = 64;

struct Arrays<'a, T> {
    block: Option<&'a [T]>,
    /// A repeated number, or the padded rest of a block.
    array: [T; STEP_SAMPLES],
}

impl<'a, T: Pod> Arrays<'a, T> {
    #[inline(always)]
    fn of(source: Source<'a>) -> Self {
        match source {
            Source::Block(bytes) => Self {
                block: Some(samples(bytes)),
                array: [T::zeroed(); STEP_SAMPLES],
            },
            Source::Value(value) => Self {
                block: None,
                array: [value.get(); STEP_SAMPLES],
            },
        }
    }

    #[inline(always)]
    fn at(&mut self, from: usize) -> &[T; STEP_SAMPLES] {
        if let Some(block) = self.block {
            let rest = &block[from..];
            if let Some(whole) = rest.first_chunk() {
                return whole;
            }
            self.array[..rest.len()].copy_from_slice(rest);
        }
        &self.array
    }
}

#[inline(always)]
fn in_arrays<O: Pod>(out: &mut [O], mut each: impl FnMut(usize, &mut [O; STEP_SAMPLES])) {
    let (arrays, rest) = out.as_chunks_mut::<STEP_SAMPLES>();
    let mut last = [O::zeroed(); STEP_SAMPLES];
    let last_one = (!rest.is_empty()).then_some(&mut last);
    for (at, array) in arrays.iter_mut().chain(last_one).enumerate() {
        each(at * STEP_SAMPLES, array);
    }
    rest.copy_from_slice(&last[..rest.len()]);
}

pub(super) trait Levels {
    fn run<K: Kernel>(isa: Isa, kernel: K) -> K::Output;
}

/// All levels: for functions of tens of instructions.
pub(super) struct AllLevels;

/// Up to AVX2: for loops bound by memory.
pub(super) struct Narrow;

/// The baseline: for window values only; samples use chains.
pub(super) struct Plain;

impl Levels for AllLevels {
    #[inline(always)]
    fn run<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
        isa.run(kernel)
    }
}

impl Levels for Narrow {
    #[inline(always)]
    fn run<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
        isa.run_narrow(kernel)
    }
}

impl Levels for Plain {
    #[inline(always)]
    fn run<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
        isa.run_plain(kernel)
    }
}

#[inline(always)]
pub(crate) fn samples<T: AnyBitPattern + NoUninit>(bytes: &[u8]) -> &[T] {
    bytemuck::cast_slice(bytes)
}

#[inline(always)]
pub(crate) fn samples_mut<T: Pod>(bytes: &mut [u8]) -> &mut [T] {
    bytemuck::cast_slice_mut(bytes)
}

pub(crate) type UnaryFn = fn(Isa, &[u8], &mut [u8]);
pub(crate) type BinaryFn = fn(Isa, Source<'_>, Source<'_>, &mut [u8]);
pub(crate) type SelectFn = fn(Isa, Source<'_>, Source<'_>, Source<'_>, &mut [u8]);

/// An elementwise operation. Must be `#[inline(always)]`.
///
/// `is_rare` detects arguments that vectors cannot compute; `map_rare` computes them.
pub(super) trait Map1<A, O> {
    const HAS_RARE: bool = false;

    fn map(a: A) -> O;

    #[inline(always)]
    fn is_rare(_a: A) -> bool {
        false
    }

    #[inline(always)]
    fn map_rare(a: A) -> O {
        Self::map(a)
    }
}

/// A binary elementwise operation, as [`Map1`].
pub(super) trait Map2<A, O> {
    const HAS_RARE: bool = false;

    fn map(a: A, b: A) -> O;

    #[inline(always)]
    fn is_rare(_a: A, _b: A) -> bool {
        false
    }

    #[inline(always)]
    fn map_rare(a: A, b: A) -> O {
        Self::map(a, b)
    }
}

pub(super) fn run1<F: Map1<A, O>, A: Pod, O: Pod, L: Levels>(isa: Isa, a: &[u8], out: &mut [u8]) {
    let kernel = Run1::<F, A, O> {
        a: Arrays::of(Source::Block(a)),
        out: samples_mut(out),
        map: PhantomData,
    };
    L::run(isa, kernel);
}

struct Run1<'a, F, A, O> {
    a: Arrays<'a, A>,
    out: &'a mut [O],
    map: PhantomData<F>,
}

impl<F: Map1<A, O>, A: Pod, O: Pod> Kernel for Run1<'_, F, A, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Self { mut a, out, .. } = self;
        in_arrays(out, |from, out| {
            let a = a.at(from);
            for (out, &a) in out.iter_mut().zip(a) {
                *out = F::map(a);
            }
            if F::HAS_RARE {
                let mut rare = 0u32;
                for &a in a {
                    rare += u32::from(F::is_rare(a));
                }
                if rare > 0 {
                    for (out, &a) in out.iter_mut().zip(a) {
                        if F::is_rare(a) {
                            *out = F::map_rare(a);
                        }
                    }
                }
            }
        });
    }
}

pub(super) fn run2<F: Map2<A, O>, A: Pod, O: Pod, L: Levels>(
    isa: Isa,
    a: Source<'_>,
    b: Source<'_>,
    out: &mut [u8],
) {
    let kernel = Run2::<F, A, O> {
        a: Arrays::of(a),
        b: Arrays::of(b),
        out: samples_mut(out),
        map: PhantomData,
    };
    L::run(isa, kernel);
}

struct Run2<'a, F, A, O> {
    a: Arrays<'a, A>,
    b: Arrays<'a, A>,
    out: &'a mut [O],
    map: PhantomData<F>,
}

impl<F: Map2<A, O>, A: Pod, O: Pod> Kernel for Run2<'_, F, A, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Self {
            mut a, mut b, out, ..
        } = self;
        in_arrays(out, |from, out| {
            let (a, b) = (a.at(from), b.at(from));
            for (out, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
                *out = F::map(a, b);
            }
            if F::HAS_RARE {
                let mut rare = 0u32;
                for (&a, &b) in a.iter().zip(b) {
                    rare += u32::from(F::is_rare(a, b));
                }
                if rare > 0 {
                    for (out, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
                        if F::is_rare(a, b) {
                            *out = F::map_rare(a, b);
                        }
                    }
                }
            }
        });
    }
}

/// The condition is a bool; the others have the output's dtype.
pub(super) fn select<T: Pod>(
    isa: Isa,
    condition: Source<'_>,
    yes: Source<'_>,
    no: Source<'_>,
    out: &mut [u8],
) {
    isa.run_narrow(Select::<T> {
        condition: Arrays::of(condition),
        yes: Arrays::of(yes),
        no: Arrays::of(no),
        out: samples_mut(out),
    });
}

struct Select<'a, T> {
    condition: Arrays<'a, Bool8>,
    yes: Arrays<'a, T>,
    no: Arrays<'a, T>,
    out: &'a mut [T],
}

impl<T: Pod> Kernel for Select<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Self {
            mut condition,
            mut yes,
            mut no,
            out,
        } = self;
        in_arrays(out, |from, out| {
            let chosen = yes.at(from).iter().zip(no.at(from));
            for ((out, condition), (&yes, &no)) in
                out.iter_mut().zip(condition.at(from)).zip(chosen)
            {
                *out = if condition.get() { yes } else { no };
            }
        });
    }
}
