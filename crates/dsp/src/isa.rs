//! Kernels, compiled for each instruction set and selected at run time.
//!
//! [`Isa::run`] inlines a [`Kernel`] into a function compiled for the instruction set. An [`Isa`] exists only if the
//! CPU has it.
#![allow(unsafe_code)] // Calls functions compiled beyond the target's baseline.

#[cfg(target_arch = "x86_64")]
use crate::tile::{Avx2F32, Avx2F64};
use crate::tile::{Plain32, Plain64, Tile};

/// An instruction set of this CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(Set);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// A loop compiled for every instruction set.
pub trait Kernel {
    /// Result of the loop.
    type Output;

    /// The loop. It and all that it calls must be `#[inline(always)]`.
    fn run<L: Level>(self, level: L) -> Self::Output;
}

mod sealed {
    /// Seals `Level`: safe code relies on it.
    pub trait Sealed {}
}

/// Proof of an instruction set; created only by [`Isa::run`].
pub trait Level: sealed::Sealed + Copy {
    /// Whether AVX2 is available.
    const AVX2: bool;
    /// Level of tiles.
    type Tiles: Copy;
    /// 64 f32 in vector registers.
    type F32: Tile<Level = Self::Tiles, Scalar = f32, Memory = [f32; 64]>;
    /// 32 f64 in vector registers.
    type F64: Tile<Level = Self::Tiles, Scalar = f64, Memory = [f64; 32]>;

    /// Proof of the tiles' level.
    fn tiles(self) -> Self::Tiles;
}

/// SSE2 on x86-64, NEON on AArch64.
#[derive(Clone, Copy)]
pub(crate) struct Baseline(());

impl sealed::Sealed for Baseline {}

impl Level for Baseline {
    const AVX2: bool = false;
    type Tiles = Self;
    type F32 = Plain32;
    type F64 = Plain64;

    #[inline(always)]
    fn tiles(self) -> Self {
        self
    }
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl sealed::Sealed for Avx2 {}

#[cfg(target_arch = "x86_64")]
impl Level for Avx2 {
    const AVX2: bool = true;
    type Tiles = Self;
    type F32 = Avx2F32;
    type F64 = Avx2F64;

    #[inline(always)]
    fn tiles(self) -> Self {
        self
    }
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl sealed::Sealed for Avx512 {}

#[cfg(target_arch = "x86_64")]
impl Level for Avx512 {
    const AVX2: bool = true;
    type Tiles = Avx2;
    type F32 = Avx2F32;
    type F64 = Avx2F64;

    #[inline(always)]
    fn tiles(self) -> Avx2 {
        Avx2(())
    }
}

impl Isa {
    /// The baseline of this architecture.
    pub const BASELINE: Self = Self(Set::Baseline);

    /// The best of this CPU; detection is cached.
    #[must_use]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if has_avx512() {
                return Self(Set::Avx512);
            }
            if has_avx2() {
                return Self(Set::Avx2);
            }
        }
        Self::BASELINE
    }

    /// All of this CPU, baseline first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        [
            Some(Self::BASELINE),
            #[cfg(target_arch = "x86_64")]
            has_avx2().then_some(Self(Set::Avx2)),
            #[cfg(target_arch = "x86_64")]
            has_avx512().then_some(Self(Set::Avx512)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Short name for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Baseline => "baseline",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
        }
    }

    /// Runs a kernel.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Set::Baseline => kernel.run(Baseline(())),
            // SAFETY: `Set::Avx2` exists only after `has_avx2`.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: `Set::Avx512` exists only after `has_avx512`.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { run_avx512(kernel) },
        }
    }

    /// [`run`](Self::run) with AVX2 instead of AVX-512, for loops that do not gain by it.
    #[inline]
    pub fn run_narrow<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Set::Baseline => kernel.run(Baseline(())),
            // SAFETY: both exist only after `has_avx2`.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 | Set::Avx512 => unsafe { run_avx2(kernel) },
        }
    }

    /// Whether it includes AVX2.
    #[must_use]
    pub fn has_avx2(self) -> bool {
        self.0 != Set::Baseline
    }

    /// As [`run_narrow`](Self::run_narrow), but runs nothing without AVX2.
    #[inline]
    pub fn run_avx2<K: Kernel<Output = ()>>(self, kernel: K) {
        match self.0 {
            Set::Baseline => {
                let _ = kernel;
            }
            // SAFETY: both exist only after `has_avx2`.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 | Set::Avx512 => unsafe { run_avx2(kernel) },
        }
    }

    /// Runs a kernel for the baseline, for loops that do not gain by more.
    #[inline]
    pub fn run_plain<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(Baseline(()))
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}
