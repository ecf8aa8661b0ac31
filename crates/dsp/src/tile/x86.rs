//! Tiles in the vectors of AVX2 and AVX-512.
//!
//! Invariant: a tile of a level exists only where the CPU has it, because loading one takes a value of that level. All
//! safety below rests on it: the instructions are there, and loads and stores take arrays of the tile's size, at any
//! alignment.
#![allow(unsafe_code)] // Vector instructions, and loads and stores through pointers.

use std::arch::x86_64::*;

use super::Tile;
use crate::isa::{Avx2, Avx512};

/// What the two widths do not call alike, and for masks of their own.
macro_rules! wide {
    ($feature:literal, $vector:ident, $compare:ident, |$a:ident, $b:ident, $op:ident| $comparison:expr,
     $blend:ident, |$mask:ident, $yes:ident, $no:ident| $blended:expr) => {
        /// All bits of what compares as asked.
        #[inline]
        #[target_feature(enable = $feature)]
        fn $compare<const $op: i32>($a: $vector, $b: $vector) -> $vector {
            $comparison
        }

        /// `yes` where the mask is set.
        #[inline]
        #[target_feature(enable = $feature)]
        fn $blend($mask: $vector, $yes: $vector, $no: $vector) -> $vector {
            $blended
        }
    };
}

wide!(
    "avx2",
    __m256,
    compare_8,
    |a, b, OP| _mm256_cmp_ps::<OP>(a, b),
    blend_8,
    |mask, yes, no| _mm256_blendv_ps(no, yes, mask)
);
wide!(
    "avx2",
    __m256d,
    compare_4,
    |a, b, OP| _mm256_cmp_pd::<OP>(a, b),
    blend_4,
    |mask, yes, no| _mm256_blendv_pd(no, yes, mask)
);
wide!(
    "avx512f,avx512dq",
    __m512,
    compare_16,
    |a, b, OP| _mm512_castsi512_ps(_mm512_movm_epi32(_mm512_cmp_ps_mask::<OP>(a, b))),
    blend_16,
    |mask, yes, no| _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(mask)), no, yes)
);
wide!(
    "avx512f,avx512dq",
    __m512d,
    compare_8d,
    |a, b, OP| _mm512_castsi512_pd(_mm512_movm_epi64(_mm512_cmp_pd_mask::<OP>(a, b))),
    blend_8d,
    |mask, yes, no| _mm512_mask_blend_pd(_mm512_movepi64_mask(_mm512_castpd_si512(mask)), no, yes)
);

/// As many as there are vectors in a tile, written out: what a loop fills would lie in memory.
macro_rules! eight {
    (|$at:ident| $each:expr) => {
        [
            {
                const $at: usize = 0;
                $each
            },
            {
                const $at: usize = 1;
                $each
            },
            {
                const $at: usize = 2;
                $each
            },
            {
                const $at: usize = 3;
                $each
            },
            {
                const $at: usize = 4;
                $each
            },
            {
                const $at: usize = 5;
                $each
            },
            {
                const $at: usize = 6;
                $each
            },
            {
                const $at: usize = 7;
                $each
            },
        ]
    };
}

macro_rules! four {
    (|$at:ident| $each:expr) => {
        [
            {
                const $at: usize = 0;
                $each
            },
            {
                const $at: usize = 1;
                $each
            },
            {
                const $at: usize = 2;
                $each
            },
            {
                const $at: usize = 3;
                $each
            },
        ]
    };
}

/// Methods that take memory: what each vector of the tile, `a`, and its part of memory, `x`, become.
macro_rules! with {
    ($all:ident, $load:ident, $width:literal; $($method:ident |$a:ident, $x:ident| $map:expr;)*) => {$(
        #[inline(always)]
        fn $method(&mut self, x: &Self::Memory) {
            let (parts, _) = x.as_chunks::<$width>();
            // SAFETY: see above.
            self.0 = unsafe {
                $all!(|AT| {
                    let ($a, $x) = (self.0[AT], $load(parts[AT].as_ptr()));
                    $map
                })
            };
        }
    )*};
}

/// Methods of the tile alone.
macro_rules! alone {
    ($all:ident; $($method:ident |$a:ident| $map:expr;)*) => {$(
        #[inline(always)]
        fn $method(&mut self) {
            // SAFETY: see above.
            self.0 = unsafe {
                $all!(|AT| {
                    let $a = self.0[AT];
                    $map
                })
            };
        }
    )*};
}

macro_rules! tile {
    ($(#[$doc:meta])* $name:ident, $level:ident, [$number:ident; $samples:literal], [$vector:ident; $count:literal $all:ident],
     $width:literal, $load:ident, $store:ident, $set:ident, $add:ident, $sub:ident, $mul:ident, $div:ident,
     $sqrt:ident, $min:ident, $max:ident, $and:ident, $or:ident, $xor:ident, $andnot:ident, $compare:ident,
     $blend:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name([$vector; $count]);

        impl Tile for $name {
            type Level = $level;
            type Number = $number;
            type Memory = [$number; $samples];

            #[inline(always)]
            fn load(_level: $level, from: &Self::Memory) -> Self {
                let (parts, _) = from.as_chunks::<$width>();
                // SAFETY: the level says that the CPU has the instructions; each part is a vector's.
                Self(unsafe { $all!(|AT| $load(parts[AT].as_ptr())) })
            }

            #[inline(always)]
            fn store(&self, to: &mut Self::Memory) {
                let (parts, _) = to.as_chunks_mut::<$width>();
                // SAFETY: see above.
                unsafe { $all!(|AT| $store(parts[AT].as_mut_ptr(), self.0[AT])) };
            }

            with! {
                $all, $load, $width;
                add |a, x| $add(a, x);
                sub |a, x| $sub(a, x);
                sub_from |a, x| $sub(x, a);
                mul |a, x| $mul(a, x);
                div |a, x| $div(a, x);
                div_into |a, x| $div(x, a);
                // The instruction gives its second operand where one is NaN or both are equal.
                smaller |a, x| $blend($compare::<_CMP_UNORD_Q>(x, x), x, $min(x, a));
                smaller_number |a, x| $min(x, a);
                smaller_from |a, x| $blend($compare::<_CMP_UNORD_Q>(a, a), a, $min(a, x));
                larger |a, x| $blend($compare::<_CMP_UNORD_Q>(x, x), x, $max(x, a));
                larger_number |a, x| $max(x, a);
                larger_from |a, x| $blend($compare::<_CMP_UNORD_Q>(a, a), a, $max(a, x));
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
                $all;
                sqrt |a| $sqrt(a);
                abs |a| $andnot($set(-0.0), a);
                negate |a| $xor($set(-0.0), a);
                invert |a| $xor($set($number::from_bits(!0)), a);
            }

            #[inline(always)]
            fn select(&mut self, yes: &Self::Memory, no: &Self::Memory) {
                let ((yes, _), (no, _)) = (yes.as_chunks::<$width>(), no.as_chunks::<$width>());
                // SAFETY: see above.
                self.0 = unsafe {
                    $all!(|AT| $blend(self.0[AT], $load(yes[AT].as_ptr()), $load(no[AT].as_ptr())))
                };
            }
        }
    };
}

tile!(
    /// 64 singles in vectors of AVX2.
    Avx2F32, Avx2, [f32; 64], [__m256; 8 eight], 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_add_ps,
    _mm256_sub_ps, _mm256_mul_ps, _mm256_div_ps, _mm256_sqrt_ps, _mm256_min_ps, _mm256_max_ps, _mm256_and_ps,
    _mm256_or_ps, _mm256_xor_ps, _mm256_andnot_ps, compare_8, blend_8
);

tile!(
    /// 32 doubles in vectors of AVX2.
    Avx2F64, Avx2, [f64; 32], [__m256d; 8 eight], 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_add_pd,
    _mm256_sub_pd, _mm256_mul_pd, _mm256_div_pd, _mm256_sqrt_pd, _mm256_min_pd, _mm256_max_pd, _mm256_and_pd,
    _mm256_or_pd, _mm256_xor_pd, _mm256_andnot_pd, compare_4, blend_4
);

tile!(
    /// 64 singles in vectors of AVX-512.
    Avx512F32, Avx512, [f32; 64], [__m512; 4 four], 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_add_ps,
    _mm512_sub_ps, _mm512_mul_ps, _mm512_div_ps, _mm512_sqrt_ps, _mm512_min_ps, _mm512_max_ps, _mm512_and_ps,
    _mm512_or_ps, _mm512_xor_ps, _mm512_andnot_ps, compare_16, blend_16
);

tile!(
    /// 32 doubles in vectors of AVX-512.
    Avx512F64, Avx512, [f64; 32], [__m512d; 4 four], 8, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_add_pd,
    _mm512_sub_pd, _mm512_mul_pd, _mm512_div_pd, _mm512_sqrt_pd, _mm512_min_pd, _mm512_max_pd, _mm512_and_pd,
    _mm512_or_pd, _mm512_xor_pd, _mm512_andnot_pd, compare_8d, blend_8d
);
