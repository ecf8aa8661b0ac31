//! Proof that AVX2 may be used, for modules that name its vectors.

use crate::isa::Level;

/// Made of a level that has AVX2 only; vectors are made of this only, so that the CPU has their instructions.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// From a level that has it.
    #[inline(always)]
    pub(crate) fn of<L: Level>(_level: L) -> Option<Self> {
        L::AVX2.then_some(Self(()))
    }
}
