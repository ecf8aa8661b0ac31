//! Blocks of 8-bit and 16-bit integers with x86 instructions.
//!
//! Kernels take signed words or unsigned bytes. The other types flip the sign bit, a bias that exact sums correct.
#![allow(unsafe_code)] // Vector instructions and pointers.

use std::arch::x86_64::*;

use super::block::Block;
use crate::isa::Level;
use crate::prefetch::PagePrefetch;

#[inline(always)]
pub(super) fn block_i16<L: Level, const SQUARES: bool>(level: L, samples: &[i16]) -> Block<i16> {
    let words = words::<L, SQUARES>(level, samples, 0);
    Block {
        sum: words.sum,
        squares: words.squares.into(),
        min: words.min,
        max: words.max,
    }
}

/// `x = y + 2^15` with `y` signed, so `x^2 = y^2 + 2^16 y + 2^30`.
#[inline(always)]
pub(super) fn block_u16<L: Level, const SQUARES: bool>(level: L, samples: &[u16]) -> Block<u16> {
    let words = words::<L, SQUARES>(level, bytemuck::cast_slice(samples), i16::MIN);
    let count = samples.len() as i64;
    let squares = match SQUARES {
        true => words.squares as i64 + (words.sum << 16) + (count << 30),
        false => 0,
    };
    Block {
        sum: words.sum + (count << 15),
        squares: squares as u128,
        min: (words.min ^ i16::MIN) as u16,
        max: (words.max ^ i16::MIN) as u16,
    }
}

#[inline(always)]
pub(super) fn powers_i16<L: Level>(level: L, samples: &[i16]) -> (i64, u128) {
    let (sum, squares) = powers(level, samples, 0);
    (sum, squares.into())
}

#[inline(always)]
pub(super) fn powers_u16<L: Level>(level: L, samples: &[u16]) -> (i64, u128) {
    let (sum, squares) = powers(level, bytemuck::cast_slice(samples), i16::MIN);
    let count = samples.len() as i64;
    let squares = squares as i64 + (sum << 16) + (count << 30);
    (sum + (count << 15), squares as u128)
}

#[inline(always)]
pub(super) fn block_u8<L: Level, const SQUARES: bool>(level: L, samples: &[u8]) -> Block<u8> {
    let bytes = bytes::<L, SQUARES>(level, samples, 0);
    Block {
        sum: bytes.sum,
        squares: bytes.squares.into(),
        min: bytes.min,
        max: bytes.max,
    }
}

/// `x = y - 2^7` with `y` unsigned, so `x^2 = y^2 - 2^8 y + 2^14`.
#[inline(always)]
pub(super) fn block_i8<L: Level, const SQUARES: bool>(level: L, samples: &[i8]) -> Block<i8> {
    let bytes = bytes::<L, SQUARES>(level, bytemuck::cast_slice(samples), 0x80);
    let count = samples.len() as i64;
    let squares = match SQUARES {
        true => bytes.squares as i64 - (bytes.sum << 8) + (count << 14),
        false => 0,
    };
    Block {
        sum: bytes.sum - (count << 7),
        squares: squares as u128,
        min: (bytes.min ^ 0x80) as i8,
        max: (bytes.max ^ 0x80) as i8,
    }
}

#[derive(Clone, Copy)]
struct Short<T> {
    sum: i64,
    squares: u64,
    min: T,
    max: T,
}

#[inline(always)]
fn words<L: Level, const SQUARES: bool>(_level: L, samples: &[i16], flip: i16) -> Short<i16> {
    if L::AVX2 {
        // SAFETY: the level proves AVX2.
        unsafe { words_avx2::<SQUARES>(samples, flip) }
    } else {
        // SAFETY: every x86-64 CPU has SSE2.
        unsafe { words_sse2::<SQUARES>(samples, flip) }
    }
}

#[inline(always)]
fn powers<L: Level>(_level: L, samples: &[i16], flip: i16) -> (i64, u64) {
    if L::AVX2 {
        // SAFETY: the level proves AVX2.
        unsafe { powers_avx2(samples, flip) }
    } else {
        // SAFETY: every x86-64 CPU has SSE2.
        unsafe { powers_sse2(samples, flip) }
    }
}

#[inline(always)]
fn bytes<L: Level, const SQUARES: bool>(_level: L, samples: &[u8], flip: u8) -> Short<u8> {
    if L::AVX2 {
        // SAFETY: the level proves AVX2.
        unsafe { bytes_avx2::<SQUARES>(samples, flip) }
    } else {
        // SAFETY: every x86-64 CPU has SSE2.
        unsafe { bytes_sse2::<SQUARES>(samples, flip) }
    }
}

macro_rules! kernels {
    ($words:ident, $powers:ident, $bytes:ident, $feature:literal, $vector:ident, $width:literal, $load:ident, $set16:ident, $set8:ident,
     $set64:ident, $zero:ident, $xor:ident, $and:ident, $min16:ident, $max16:ident, $min8:ident, $max8:ident, $madd:ident,
     $add32:ident, $add64:ident, $shift:ident, $shift32:ident, $sad:ident, $low:ident, $high:ident) => {
        /// 32-bit sums stay below 2^28.
        #[inline]
        #[target_feature(enable = $feature)]
        fn $words<const SQUARES: bool>(samples: &[i16], flip: i16) -> Short<i16> {
            let (vectors, rest) = samples.as_chunks::<{ $width / 2 }>();
            let (flips, ones, halves) = ($set16(flip), $set16(1), $set64(0xffff_ffff));
            let (mut min, mut max) = ($set16(i16::MAX), $set16(i16::MIN));
            let (mut sums, mut low, mut high) = ($zero(), $zero(), $zero());
            let prefetch = PagePrefetch::new();
            for vector in vectors {
                prefetch.ahead_of(vector);
                // SAFETY: the array has the vector's size; the load is unaligned.
                let vector = $xor(unsafe { $load(vector.as_ptr().cast()) }, flips);
                min = $min16(min, vector);
                max = $max16(max, vector);
                sums = $add32(sums, $madd(vector, ones));
                if SQUARES {
                    // Up to 2^31, hence unsigned.
                    let squares = $madd(vector, vector);
                    low = $add64(low, $and(squares, halves));
                    high = $add64(high, $shift::<32>(squares));
                }
            }
            let words = |vector: $vector| -> [i16; $width / 2] { bytemuck::cast(vector) };
            let mut all = Short {
                sum: bytemuck::cast::<_, [i32; $width / 4]>(sums)
                    .iter()
                    .map(|&sum| i64::from(sum))
                    .sum(),
                squares: bytemuck::cast::<_, [u64; $width / 8]>($add64(low, high))
                    .iter()
                    .sum(),
                min: words(min).iter().fold(i16::MAX, |a, &b| a.min(b)),
                max: words(max).iter().fold(i16::MIN, |a, &b| a.max(b)),
            };
            for &sample in rest {
                let sample = sample ^ flip;
                all.sum += i64::from(sample);
                if SQUARES {
                    all.squares += (i64::from(sample) * i64::from(sample)) as u64;
                }
                all.min = all.min.min(sample);
                all.max = all.max.max(sample);
            }
            all
        }

        /// Squares, up to 2^31, are summed twice in 32 bits: whole, with wrap-around, and their upper halves, of which
        /// 2^11 fit. The difference is the sum of the lower halves.
        #[inline]
        #[target_feature(enable = $feature)]
        fn $powers(samples: &[i16], flip: i16) -> (i64, u64) {
            let (vectors, rest) = samples.as_chunks::<{ $width / 2 }>();
            let (flips, ones) = ($set16(flip), $set16(1));
            let (mut sums, mut wrapping, mut high) = ($zero(), $zero(), $zero());
            let prefetch = PagePrefetch::new();
            for vector in vectors {
                prefetch.ahead_of(vector);
                // SAFETY: the array has the vector's size; the load is unaligned.
                let vector = $xor(unsafe { $load(vector.as_ptr().cast()) }, flips);
                sums = $add32(sums, $madd(vector, ones));
                let squares = $madd(vector, vector);
                wrapping = $add32(wrapping, squares);
                high = $add32(high, $shift32::<16>(squares));
            }
            let mut sum = bytemuck::cast::<_, [i32; $width / 4]>(sums)
                .iter()
                .map(|&sum| i64::from(sum))
                .sum();
            let mut squares = 0;
            let wrapping: [u32; $width / 4] = bytemuck::cast(wrapping);
            let high: [u32; $width / 4] = bytemuck::cast(high);
            for (wrapping, high) in wrapping.into_iter().zip(high) {
                let low = wrapping.wrapping_sub(high << 16);
                squares += (u64::from(high) << 16) + u64::from(low);
            }
            for &sample in rest {
                let sample = i64::from(sample ^ flip);
                sum += sample;
                squares += (sample * sample) as u64;
            }
            (sum, squares)
        }

        /// 32-bit sums stay below 2^28.
        #[inline]
        #[target_feature(enable = $feature)]
        fn $bytes<const SQUARES: bool>(samples: &[u8], flip: u8) -> Short<u8> {
            let (vectors, rest) = samples.as_chunks::<$width>();
            let (flips, zero) = ($set8(flip as i8), $zero());
            let (mut min, mut max) = ($set8(-1), zero);
            let (mut sums, mut squares) = (zero, zero);
            let prefetch = PagePrefetch::new();
            for vector in vectors {
                prefetch.ahead_of(vector);
                // SAFETY: the array has the vector's size; the load is unaligned.
                let vector = $xor(unsafe { $load(vector.as_ptr().cast()) }, flips);
                min = $min8(min, vector);
                max = $max8(max, vector);
                sums = $add64(sums, $sad(vector, zero));
                if SQUARES {
                    let (low, high) = ($low(vector, zero), $high(vector, zero));
                    squares = $add32(squares, $add32($madd(low, low), $madd(high, high)));
                }
            }
            let bytes = |vector: $vector| -> [u8; $width] { bytemuck::cast(vector) };
            let mut all = Short {
                sum: bytemuck::cast::<_, [i64; $width / 8]>(sums).iter().sum(),
                squares: bytemuck::cast::<_, [u32; $width / 4]>(squares)
                    .iter()
                    .map(|&sum| u64::from(sum))
                    .sum(),
                min: bytes(min).iter().fold(u8::MAX, |a, &b| a.min(b)),
                max: bytes(max).iter().fold(0, |a, &b| a.max(b)),
            };
            for &sample in rest {
                let sample = sample ^ flip;
                all.sum += i64::from(sample);
                if SQUARES {
                    all.squares += u64::from(sample) * u64::from(sample);
                }
                all.min = all.min.min(sample);
                all.max = all.max.max(sample);
            }
            all
        }
    };
}

kernels!(
    words_sse2,
    powers_sse2,
    bytes_sse2,
    "sse2",
    __m128i,
    16,
    _mm_loadu_si128,
    _mm_set1_epi16,
    _mm_set1_epi8,
    _mm_set1_epi64x,
    _mm_setzero_si128,
    _mm_xor_si128,
    _mm_and_si128,
    _mm_min_epi16,
    _mm_max_epi16,
    _mm_min_epu8,
    _mm_max_epu8,
    _mm_madd_epi16,
    _mm_add_epi32,
    _mm_add_epi64,
    _mm_srli_epi64,
    _mm_srli_epi32,
    _mm_sad_epu8,
    _mm_unpacklo_epi8,
    _mm_unpackhi_epi8
);

kernels!(
    words_avx2,
    powers_avx2,
    bytes_avx2,
    "avx2",
    __m256i,
    32,
    _mm256_loadu_si256,
    _mm256_set1_epi16,
    _mm256_set1_epi8,
    _mm256_set1_epi64x,
    _mm256_setzero_si256,
    _mm256_xor_si256,
    _mm256_and_si256,
    _mm256_min_epi16,
    _mm256_max_epi16,
    _mm256_min_epu8,
    _mm256_max_epu8,
    _mm256_madd_epi16,
    _mm256_add_epi32,
    _mm256_add_epi64,
    _mm256_srli_epi64,
    _mm256_srli_epi32,
    _mm256_sad_epu8,
    _mm256_unpacklo_epi8,
    _mm256_unpackhi_epi8
);
