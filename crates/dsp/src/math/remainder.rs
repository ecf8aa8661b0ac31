//! Exact remainders, with the sign of the dividend.

use super::{pick, two_product};

const MAX_QUOTIENT: f64 = 1_125_899_906_842_624.0; // 2^50
const MAX_QUOTIENT_F32: f64 = 268_435_456.0; // 2^28: 24 bits times this is exact

/// Adding it rounds a smaller positive f64 to an integer.
const ROUND_TO_INTEGER: f64 = 4_503_599_627_370_496.0; // 2^52

const SMALL: f64 = 1e-270;
const LARGE: f64 = 1e270;

/// Whether [`fmod`] cannot handle them: large quotient, or products out of range.
#[inline(always)]
#[must_use]
pub fn is_uneven(a: f64, b: f64) -> bool {
    let size = b.abs();
    !((size > SMALL) & (size < LARGE) & (a.abs() < MAX_QUOTIENT * size))
}

/// Whether [`fmod_f32`] cannot handle them: large quotient, zero, infinite or NaN.
#[inline(always)]
#[must_use]
pub fn is_uneven_f32(a: f32, b: f32) -> bool {
    let size = f64::from(b.abs());
    !((size < f64::INFINITY) & (f64::from(a.abs()) < MAX_QUOTIENT_F32 * size))
}

/// Remainder, unless [`is_uneven`].
#[inline(always)]
#[must_use]
pub fn fmod(a: f64, b: f64) -> f64 {
    let (x, y) = (a.abs(), b.abs());
    let times = (x / y + ROUND_TO_INTEGER) - ROUND_TO_INTEGER;
    let (product, lost) = two_product(times, y);
    // Both differences are exact.
    let rest = (x - product) - lost;
    pick(rest < 0.0, rest + y, rest).copysign(a)
}

/// Remainder, unless [`is_uneven_f32`].
#[inline(always)]
#[must_use]
pub fn fmod_f32(a: f32, b: f32) -> f32 {
    let (x, y) = (f64::from(a.abs()), f64::from(b.abs()));
    let times = (x / y + ROUND_TO_INTEGER) - ROUND_TO_INTEGER;
    let rest = x - times * y;
    pick(rest < 0.0, rest + y, rest).copysign(f64::from(a)) as f32
}
