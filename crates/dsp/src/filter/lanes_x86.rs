//! Four sections in an AVX2 vector.
#![allow(unsafe_code)] // Vector instructions.

use std::arch::x86_64::*;

use super::lanes::{Lane, Vector};
use crate::avx2::Avx2;

/// Four f64; [`Avx2`] proves the instructions.
#[derive(Clone, Copy)]
pub(super) struct Quad(__m256d);

impl Vector for Quad {
    type Level = Avx2;

    #[inline(always)]
    fn load(_: Avx2, lane: &Lane) -> Self {
        // SAFETY: a lane is four f64; the level proves AVX2.
        Self(unsafe { _mm256_loadu_pd(lane.as_ptr()) })
    }

    #[inline(always)]
    fn store(self) -> Lane {
        let mut lane = Lane::default();
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
    fn sub(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX2.
        Self(unsafe { _mm256_sub_pd(self.0, other.0) })
    }

    #[inline(always)]
    fn shift_in(self, first: f64) -> Self {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let moved = _mm256_permute4x64_pd::<0b10_01_00_00>(self.0);
            Self(_mm256_blend_pd::<1>(moved, _mm256_set1_pd(first)))
        }
    }

    #[inline(always)]
    fn lane<const K: usize>(self) -> f64 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let half = if K < 2 {
                _mm256_castpd256_pd128(self.0)
            } else {
                _mm256_extractf128_pd::<1>(self.0)
            };
            let half = if K.is_multiple_of(2) {
                half
            } else {
                _mm_unpackhi_pd(half, half)
            };
            _mm_cvtsd_f64(half)
        }
    }
}
