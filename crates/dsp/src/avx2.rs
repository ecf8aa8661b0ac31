//! Proof that the CPU has AVX2.

use crate::isa::Level;

/// Created only from a level with AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    #[inline(always)]
    pub(crate) fn of<L: Level>(_level: L) -> Option<Self> {
        L::AVX2.then_some(Self(()))
    }
}
