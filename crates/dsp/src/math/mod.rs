//! Elementary functions with the same bits on every instruction set.
//!
//! Branch-free, without fused multiply-add or tables. The C library's last bits depend on the CPU.
//!
//! Special values are those of C and NumPy. Error bounds in units of the last place, tested against exact arithmetic
//! (`tests/math.rs`):
//!
//! | function | f64 | f32 |
//! |---|---|---|
//! | `exp`, `ln`, `log2`, `log10`, `ln_1p`, `exp_m1`, `sin`, `cos`, `pow` | 1 | 0.51 |
//! | `tan`, `tanh` | 2 | 0.51 |
//! | `fmod`, and its remainder | exact | exact |
//!
//! f32 is computed in f64 and rounded once.
//!
//! Loops recompute arguments that need other code, as told by predicates like `is_far`.
//!
//! Methods: range reduction by Cody and Waite, *Software Manual for the Elementary Functions* (1980); exact sums and
//! products by Dekker, *A floating-point technique for extending the available precision* (1971); polynomials through
//! Chebyshev nodes.

mod circle;
mod exponential;
mod logarithm;
mod power;
mod remainder;

pub use circle::{cos, cos_f32, is_far, is_far_f32, sin, sin_f32, tan, tan_f32};
pub use exponential::{exp, exp_f32, exp_m1, exp_m1_f32, tanh, tanh_f32};
pub use logarithm::{ln, ln_1p, ln_1p_f32, ln_f32, log2, log2_f32, log10, log10_f32};
pub use power::{is_steep, pow, pow_f32};
pub use remainder::{fmod, fmod_f32, is_uneven, is_uneven_f32};

/// Adding it rounds an f64 below 2^51 to the nearest integer, in its low bits.
const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fefa_4000); // 41 bits: times 11 bits is exact
const LN_2_LOW: f64 = f64::from_bits(0xbd48_432a_1b0e_2634);

/// The exponent is in the low bits of `shifted`.
#[inline(always)]
fn two_to(shifted: f64) -> f64 {
    f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// Evaluates both.
#[inline(always)]
fn pick(which: bool, a: f64, b: f64) -> f64 {
    if which { a } else { b }
}

#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// As [`two_sum`], if `a` is zero or not the smaller.
#[inline(always)]
fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, (a - sum) + b)
}

/// Halves of 26 bits.
#[inline(always)]
fn halves(a: f64) -> (f64, f64) {
    let scaled = 134_217_729.0 * a; // 2^27 + 1
    let high = scaled - (scaled - a);
    (high, a - high)
}

/// Barring overflow and subnormals.
#[inline(always)]
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let ((ah, al), (bh, bl)) = (halves(a), halves(b));
    (product, ((ah * bh - product) + ah * bl + al * bh) + al * bl)
}

/// In pairs, which halves the dependency chain; lowest coefficient first.
macro_rules! polynomial {
    ($x:expr, $square:expr, [$even:expr $(,)?]) => { $even };
    ($x:expr, $square:expr, [$even:expr, $odd:expr $(,)?]) => { $even + $odd * $x };
    ($x:expr, $square:expr, [$even:expr, $odd:expr, $($rest:expr),+ $(,)?]) => {
        ($even + $odd * $x) + $square * polynomial!($x, $square, [$($rest),+])
    };
}
use polynomial;
