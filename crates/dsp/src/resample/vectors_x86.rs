//! AVX2 vectors.
#![allow(unsafe_code)] // Vector instructions.

use std::arch::x86_64::*;

use super::vectors::Vector;
use crate::avx2::Avx2;

/// Eight f32; [`Avx2`] proves the instructions.
#[derive(Clone, Copy)]
pub(super) struct Singles(__m256);

/// Four f64; [`Avx2`] proves the instructions.
#[derive(Clone, Copy)]
pub(super) struct Doubles(__m256d);

impl Vector for Singles {
    type Level = Avx2;
    type Scalar = f32;
    type Lane = [f32; 8];

    #[inline(always)]
    fn load(_: Avx2, lane: &[f32; 8]) -> Self {
        // SAFETY: a lane is eight f32; the level proves AVX2.
        Self(unsafe { _mm256_loadu_ps(lane.as_ptr()) })
    }

    #[inline(always)]
    fn all(_: Avx2, number: f32) -> Self {
        // SAFETY: the level proves AVX2.
        Self(unsafe { _mm256_set1_ps(number) })
    }

    #[inline(always)]
    fn store(self) -> [f32; 8] {
        let mut lane = [0.0; 8];
        // SAFETY: a lane is eight f32; `self` proves AVX2.
        unsafe { _mm256_storeu_ps(lane.as_mut_ptr(), self.0) };
        lane
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX2.
        Self(unsafe { _mm256_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX2.
        Self(unsafe { _mm256_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let upper = _mm256_extractf128_ps::<1>(self.0);
            let four = _mm_add_ps(_mm256_castps256_ps128(self.0), upper);
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
}

impl Vector for Doubles {
    type Level = Avx2;
    type Scalar = f64;
    type Lane = [f64; 4];

    #[inline(always)]
    fn load(_: Avx2, lane: &[f64; 4]) -> Self {
        // SAFETY: a lane is four f64; the level proves AVX2.
        Self(unsafe { _mm256_loadu_pd(lane.as_ptr()) })
    }

    #[inline(always)]
    fn all(_: Avx2, number: f64) -> Self {
        // SAFETY: the level proves AVX2.
        Self(unsafe { _mm256_set1_pd(number) })
    }

    #[inline(always)]
    fn store(self) -> [f64; 4] {
        let mut lane = [0.0; 4];
        // SAFETY: a lane is four f64; `self` proves AVX2.
        unsafe { _mm256_storeu_pd(lane.as_mut_ptr(), self.0) };
        lane
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX2.
        Self(unsafe { _mm256_mul_pd(self.0, other.0) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX2.
        Self(unsafe { _mm256_add_pd(self.0, other.0) })
    }

    #[inline(always)]
    fn sum(self) -> f64 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let upper = _mm256_extractf128_pd::<1>(self.0);
            let two = _mm_add_pd(_mm256_castpd256_pd128(self.0), upper);
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        }
    }
}
