//! Instruction sets: kernels are compiled once for each, and chosen at run time.
//!
//! A kernel is a [`Kernel`] whose `run` is `#[inline(always)]`; [`Isa::run`] inlines it into a
//! function that may use the instruction set, so that the whole loop is compiled for it. An
//! [`Isa`] other than the baseline exists only where the CPU was asked and has it.
#![allow(unsafe_code)] // Calling a function that uses instructions beyond the target's baseline.

#[cfg(target_arch = "x86_64")]
use crate::tile::{Avx2F32, Avx2F64};
use crate::tile::{Plain32, Plain64, Tile};

/// An instruction set that this CPU has.
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

/// A loop to be compiled for every instruction set.
pub trait Kernel {
    /// What the loop gives.
    type Output;

    /// The loop. Must be `#[inline(always)]`, as must all that it calls.
    fn run<L: Level>(self, level: L) -> Self::Output;
}

mod sealed {
    /// Keeps levels to this module: safe code relies on what they say of the CPU.
    pub trait Sealed {}
}

/// Proof that code runs where an instruction set may be used; made only by [`Isa::run`].
pub trait Level: sealed::Sealed + Copy {
    /// Whether AVX2 may be used.
    const AVX2: bool;
    /// The level whose instructions tiles use.
    type Tiles: Copy;
    /// 64 singles that stay in vector registers.
    type F32: Tile<Level = Self::Tiles, Number = f32, Memory = [f32; 64]>;
    /// 32 doubles that stay in vector registers.
    type F64: Tile<Level = Self::Tiles, Number = f64, Memory = [f64; 32]>;

    /// What tiles are made with.
    fn tiles(self) -> Self::Tiles;
}

/// What the target has anyway: SSE2 on x86-64, NEON on AArch64.
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

/// AVX2 alone.
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

/// AVX2 and AVX-512.
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

    /// What has AVX-512 has AVX2.
    #[inline(always)]
    fn tiles(self) -> Avx2 {
        Avx2(())
    }
}

impl Isa {
    /// What every CPU of this architecture has.
    pub const BASELINE: Self = Self(Set::Baseline);

    /// The best one that this CPU has; cheap, the CPU is asked once a process.
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

    /// All that this CPU has, the baseline first: for tests and benchmarks.
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

    /// Runs a kernel compiled for this instruction set.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Set::Baseline => kernel.run(Baseline(())),
            // SAFETY: `Set::Avx2` is made only after `has_avx2`.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: `Set::Avx512` is made only after `has_avx512`.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { run_avx512(kernel) },
        }
    }

    /// As [`run`](Self::run), for loops that are not worth compiling for AVX-512: they run as AVX2 there.
    #[inline]
    pub fn run_narrow<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Set::Baseline => kernel.run(Baseline(())),
            // SAFETY: both are made only after `has_avx2`.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 | Set::Avx512 => unsafe { run_avx2(kernel) },
        }
    }

    /// Whether it has AVX2, alone or with AVX-512.
    #[must_use]
    pub fn has_avx2(self) -> bool {
        self.0 != Set::Baseline
    }

    /// As [`run_narrow`](Self::run_narrow), for loops that are only worth it with AVX2; without it, nothing is run.
    #[inline]
    pub fn run_avx2<K: Kernel<Output = ()>>(self, kernel: K) {
        match self.0 {
            Set::Baseline => {
                let _ = kernel;
            }
            // SAFETY: both are made only after `has_avx2`.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 | Set::Avx512 => unsafe { run_avx2(kernel) },
        }
    }

    /// As [`run`](Self::run), for loops that are not worth compiling more than once.
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
