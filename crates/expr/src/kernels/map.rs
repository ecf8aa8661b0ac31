//! Loops over blocks: one operation applied to each sample, compiled for every instruction set.
//!
//! Operations are types, not closures, so that a loop over each is one function whose address a
//! program can keep. Operands are bytes; blocks are aligned and whole, which programs see to.

use std::marker::PhantomData;

use bytemuck::{AnyBitPattern, NoUninit, Pod};
use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::Bool8;

use super::within::count;

/// One sample of any dtype, in the first bytes.
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

/// An operand: a block of samples, or one for all.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    Block(&'a [u8]),
    Value(Value),
}

#[derive(Clone, Copy)]
enum Typed<'a, T> {
    Block(&'a [T]),
    Value(T),
}

impl<'a> Source<'a> {
    #[inline(always)]
    fn typed<T: Pod>(self) -> Typed<'a, T> {
        match self {
            Self::Block(bytes) => Typed::Block(samples(bytes)),
            Self::Value(value) => Typed::Value(value.get()),
        }
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

/// An operation on one sample. All must be `#[inline(always)]`.
///
/// Where vectors have no way for some arguments, `map` leaves them open, `is_rare` tells which they
/// are, and `map_rare` computes those.
pub(super) trait Map1<A, O> {
    /// Whether an argument can be rare.
    const SOME_RARE: bool = false;

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

/// An operation on two samples, as [`Map1`].
pub(super) trait Map2<A, O> {
    const SOME_RARE: bool = false;

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

pub(super) fn run1<F: Map1<A, O>, A: Pod, O: Pod>(isa: Isa, a: &[u8], out: &mut [u8]) {
    isa.run(Run1::<F, A, O> {
        a: samples(a),
        out: samples_mut(out),
        map: PhantomData,
    });
}

struct Run1<'a, F, A, O> {
    a: &'a [A],
    out: &'a mut [O],
    map: PhantomData<F>,
}

impl<F: Map1<A, O>, A: Pod, O: Pod> Kernel for Run1<'_, F, A, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        for (out, &a) in self.out.iter_mut().zip(self.a) {
            *out = F::map(a);
        }
        if F::SOME_RARE && count(self.a, F::is_rare) > 0 {
            for (out, &a) in self.out.iter_mut().zip(self.a) {
                if F::is_rare(a) {
                    *out = F::map_rare(a);
                }
            }
        }
    }
}

pub(super) fn run2<F: Map2<A, O>, A: Pod, O: Pod>(
    isa: Isa,
    a: Source<'_>,
    b: Source<'_>,
    out: &mut [u8],
) {
    isa.run(Run2::<F, A, O> {
        a: a.typed(),
        b: b.typed(),
        out: samples_mut(out),
        map: PhantomData,
    });
}

struct Run2<'a, F, A, O> {
    a: Typed<'a, A>,
    b: Typed<'a, A>,
    out: &'a mut [O],
    map: PhantomData<F>,
}

impl<F: Map2<A, O>, A: Pod, O: Pod> Kernel for Run2<'_, F, A, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let out = self.out;
        // Of each pair of operands; three loops, so that a number stays in its register.
        macro_rules! each {
            ($pairs:expr) => {
                for (out, (a, b)) in out.iter_mut().zip($pairs) {
                    *out = F::map(a, b);
                }
                if F::SOME_RARE {
                    let mut rare = 0u64;
                    for (a, b) in $pairs {
                        rare += u64::from(F::is_rare(a, b));
                    }
                    if rare > 0 {
                        for (out, (a, b)) in out.iter_mut().zip($pairs) {
                            if F::is_rare(a, b) {
                                *out = F::map_rare(a, b);
                            }
                        }
                    }
                }
            };
        }
        match (self.a, self.b) {
            (Typed::Block(a), Typed::Block(b)) => {
                each!(a.iter().copied().zip(b.iter().copied()));
            }
            (Typed::Block(a), Typed::Value(b)) => {
                each!(a.iter().map(|&a| (a, b)));
            }
            (Typed::Value(a), Typed::Block(b)) => {
                each!(b.iter().map(|&b| (a, b)));
            }
            (Typed::Value(a), Typed::Value(b)) => out.fill(if F::is_rare(a, b) {
                F::map_rare(a, b)
            } else {
                F::map(a, b)
            }),
        }
    }
}

/// `where`: the condition is a bool, the other two have the output's dtype.
pub(super) fn select<T: Pod>(
    isa: Isa,
    condition: Source<'_>,
    yes: Source<'_>,
    no: Source<'_>,
    out: &mut [u8],
) {
    isa.run(Select::<T> {
        condition: condition.typed(),
        yes: yes.typed(),
        no: no.typed(),
        out: samples_mut(out),
    });
}

struct Select<'a, T> {
    condition: Typed<'a, Bool8>,
    yes: Typed<'a, T>,
    no: Typed<'a, T>,
    out: &'a mut [T],
}

impl<T: Pod> Kernel for Select<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let out = self.out;
        let condition = match self.condition {
            Typed::Block(condition) => condition,
            Typed::Value(condition) => {
                match if condition.get() { self.yes } else { self.no } {
                    Typed::Block(chosen) => out.copy_from_slice(chosen),
                    Typed::Value(chosen) => out.fill(chosen),
                }
                return;
            }
        };
        // Indices below a common length, so that no bounds are checked in the loops.
        macro_rules! choose {
            (|$at:ident| $yes:expr, $no:expr) => {
                for ($at, (out, condition)) in out.iter_mut().zip(condition).enumerate() {
                    let (yes, no) = ($yes, $no);
                    *out = if condition.get() { yes } else { no };
                }
            };
        }
        let len = out.len();
        match (self.yes, self.no) {
            (Typed::Block(yes), Typed::Block(no)) => {
                let (yes, no) = (&yes[..len], &no[..len]);
                choose!(|at| yes[at], no[at]);
            }
            (Typed::Block(yes), Typed::Value(no)) => {
                let yes = &yes[..len];
                choose!(|at| yes[at], no);
            }
            (Typed::Value(yes), Typed::Block(no)) => {
                let no = &no[..len];
                choose!(|at| yes, no[at]);
            }
            (Typed::Value(yes), Typed::Value(no)) => {
                for (out, condition) in out.iter_mut().zip(condition) {
                    *out = if condition.get() { yes } else { no };
                }
            }
        }
    }
}
