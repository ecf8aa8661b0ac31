//! Tiles in AVX2 vectors.
//!
//! Invariant: constructors prove that the CPU has AVX2. Loads and stores take arrays of the tile's size, at any
//! alignment.
#![allow(unsafe_code)] // Vector instructions and pointers.

use std::arch::x86_64::*;

use super::Tile;
use crate::isa::Avx2;

/// Unrolled: a loop would keep vectors in memory.
macro_rules! eight {
    (|$at:ident| $each:expr) => {
        eight!(@ $at, $each, 0 1 2 3 4 5 6 7)
    };
    (@ $at:ident, $each:expr, $($number:literal)*) => {
        [$({
            const $at: usize = $number;
            $each
        }),*]
    };
}

macro_rules! with {
    ($($method:ident |$a:ident, $x:ident| $map:expr;)*) => {$(
        #[inline(always)]
        fn $method(&mut self, x: Self) {
            // SAFETY: see above.
            self.0 = unsafe {
                eight!(|AT| {
                    let ($a, $x) = (self.0[AT], x.0[AT]);
                    $map
                })
            };
        }
    )*};
}

macro_rules! alone {
    ($($method:ident |$a:ident| $map:expr;)*) => {$(
        #[inline(always)]
        fn $method(&mut self) {
            // SAFETY: see above.
            self.0 = unsafe {
                eight!(|AT| {
                    let $a = self.0[AT];
                    $map
                })
            };
        }
    )*};
}

macro_rules! tile {
    ($(#[$doc:meta])* $name:ident, [$number:ident; $samples:literal], $vector:ident, $width:literal, $load:ident,
     $store:ident, $set:ident, $add:ident, $sub:ident, $mul:ident, $div:ident, $sqrt:ident, $min:ident, $max:ident,
     $and:ident, $or:ident, $xor:ident, $andnot:ident, $compare:ident, $blend:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name([$vector; 8]);

        impl Tile for $name {
            type Level = Avx2;
            type Scalar = $number;
            type Memory = [$number; $samples];
            type Operand<'a> = Self;

            #[inline(always)]
            fn load(_level: Avx2, from: &Self::Memory) -> Self {
                let (parts, _) = from.as_chunks::<$width>();
                // SAFETY: the level proves the instructions; each part is a vector's.
                Self(unsafe { eight!(|AT| $load(parts[AT].as_ptr())) })
            }

            #[inline(always)]
            fn operand(level: Avx2, from: &Self::Memory) -> Self {
                Self::load(level, from)
            }

            #[inline(always)]
            fn number(_level: Avx2, from: &Self::Memory) -> Self {
                // SAFETY: the level proves the instructions.
                Self([unsafe { $set(from[0]) }; 8])
            }

            #[inline(always)]
            fn store(&self, to: &mut Self::Memory) {
                let (parts, _) = to.as_chunks_mut::<$width>();
                // SAFETY: see above.
                unsafe { eight!(|AT| $store(parts[AT].as_mut_ptr(), self.0[AT])) };
            }

            with! {
                add |a, x| $add(a, x);
                sub |a, x| $sub(a, x);
                sub_from |a, x| $sub(x, a);
                mul |a, x| $mul(a, x);
                div |a, x| $div(a, x);
                div_into |a, x| $div(x, a);
                // The instruction returns its second operand if one is NaN or both are equal.
                smaller |a, x| $blend($min(x, a), x, $compare::<_CMP_UNORD_Q>(x, x));
                smaller_number |a, x| $min(x, a);
                smaller_from |a, x| $blend($min(a, x), a, $compare::<_CMP_UNORD_Q>(a, a));
                larger |a, x| $blend($max(x, a), x, $compare::<_CMP_UNORD_Q>(x, x));
                larger_number |a, x| $max(x, a);
                larger_from |a, x| $blend($max(a, x), a, $compare::<_CMP_UNORD_Q>(a, a));
                less |a, x| $compare::<_CMP_LT_OQ>(a, x);
                less_equal |a, x| $compare::<_CMP_LE_OQ>(a, x);
                greater |a, x| $compare::<_CMP_GT_OQ>(a, x);
                greater_equal |a, x| $compare::<_CMP_GE_OQ>(a, x);
                equal |a, x| $compare::<_CMP_EQ_OQ>(a, x);
                not_equal |a, x| $compare::<_CMP_NEQ_UQ>(a, x);
                and |a, x| $and(a, x);
                or |a, x| $or(a, x);
                xor |a, x| $xor(a, x);
            }

            alone! {
                sqrt |a| $sqrt(a);
                abs |a| $andnot($set(-0.0), a);
                negate |a| $xor($set(-0.0), a);
                invert |a| $xor($set($number::from_bits(!0)), a);
            }

            #[inline(always)]
            fn select(&mut self, yes: Self, no: Self) {
                // SAFETY: see above.
                self.0 = unsafe { eight!(|AT| $blend(no.0[AT], yes.0[AT], self.0[AT])) };
            }
        }
    };
}

tile!(
    /// 64 f32.
    Avx2F32, [f32; 64], __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_add_ps, _mm256_sub_ps,
    _mm256_mul_ps, _mm256_div_ps, _mm256_sqrt_ps, _mm256_min_ps, _mm256_max_ps, _mm256_and_ps, _mm256_or_ps,
    _mm256_xor_ps, _mm256_andnot_ps, _mm256_cmp_ps, _mm256_blendv_ps
);

tile!(
    /// 32 f64.
    Avx2F64, [f64; 32], __m256d, 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_add_pd, _mm256_sub_pd,
    _mm256_mul_pd, _mm256_div_pd, _mm256_sqrt_pd, _mm256_min_pd, _mm256_max_pd, _mm256_and_pd, _mm256_or_pd,
    _mm256_xor_pd, _mm256_andnot_pd, _mm256_cmp_pd, _mm256_blendv_pd
);
