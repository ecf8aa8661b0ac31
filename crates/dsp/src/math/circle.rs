//! Sine, cosine and tangent: `x = n pi/2 + r` with `|r| <= pi/4`.

use super::{SHIFT, pick, polynomial, two_sum};
use std::f64::consts::FRAC_2_PI;

/// `n` has 20 bits: its products with 33 bits of pi are exact.
const MAX_ANGLE: f64 = 1_000_000.0;

/// Whether `x` is finite but too large for the f64 functions.
#[inline(always)]
#[must_use]
pub fn is_far(x: f64) -> bool {
    (x.abs() > MAX_ANGLE) & (x.abs() < f64::INFINITY)
}

/// Whether `x` is finite but too large for the f32 functions.
#[inline(always)]
#[must_use]
pub fn is_far_f32(x: f32) -> bool {
    (x.abs() > MAX_ANGLE as f32) & (x.abs() < f32::INFINITY)
}

/// Quadrant in the low bits, sine and cosine of `r`.
#[inline(always)]
fn reduced(x: f64) -> (u64, f64, f64) {
    // pi/2 in 33, 33, 33 and 53 bits.
    const FIRST: f64 = f64::from_bits(0x3ff9_21fb_5440_0000);
    const SECOND: f64 = f64::from_bits(0x3dd0_b461_1a60_0000);
    const THIRD: f64 = f64::from_bits(0x3ba3_198a_2e00_0000);
    const FOURTH: f64 = f64::from_bits(0x397b_839a_2520_49c1);
    let shifted = x * FRAC_2_PI + SHIFT;
    let n = shifted - SHIFT;
    let (high, lost) = two_sum(x - n * FIRST, -(n * SECOND));
    let (high, lost_too) = two_sum(high, -(n * THIRD));
    let rest = (lost + lost_too) - n * FOURTH;
    let r = high + rest;
    let low = (high - r) + rest;
    let z = r * r;
    let square = z * z;
    let half = 0.5 * z;
    let series = polynomial!(
        z,
        square,
        [
            -0.166_666_666_666_666_66,
            0.008_333_333_333_330_936,
            -0.000_198_412_698_367_405_27,
            2.755_731_609_319_606_6e-6,
            -2.505_112_989_596_281e-8,
            1.591_798_894_431_871_6e-10,
        ]
    );
    let sine = r + (z * r * series + low * (1.0 - half));
    let series = polynomial!(
        z,
        square,
        [
            0.041_666_666_666_666_664,
            -0.001_388_888_888_888_738_9,
            2.480_158_729_875_44e-5,
            -2.755_731_726_587_661_5e-7,
            2.087_614_504_910_828e-9,
            -1.138_254_462_340_429_1e-11,
        ]
    );
    let most = 1.0 - half;
    let cosine = most + (((1.0 - most) - half) + (square * series - r * low));
    (shifted.to_bits(), sine, cosine)
}

/// Relative error 2^-34.
#[inline(always)]
fn reduced_short(x: f64) -> (u64, f64, f64) {
    const HIGH: f64 = f64::from_bits(0x3ff9_21fb_5400_0000); // 29 bits
    const LOW: f64 = f64::from_bits(0x3e11_0b46_11a6_2633);
    let shifted = x * FRAC_2_PI + SHIFT;
    let n = shifted - SHIFT;
    let r = (x - n * HIGH) - n * LOW;
    let z = r * r;
    let square = z * z;
    let series = polynomial!(
        z,
        square,
        [
            -0.166_666_666_638_440_46,
            0.008_333_331_870_340_256,
            -0.000_198_400_843_758_326_71,
            2.724_962_000_364_5e-6,
        ]
    );
    let sine = r + z * r * series;
    let series = polynomial!(
        z,
        square,
        [
            0.041_666_666_664_311_82,
            -0.001_388_888_766_836_975,
            2.480_059_840_785_767_6e-5,
            -2.730_070_397_429_55e-7,
        ]
    );
    let cosine = (1.0 - 0.5 * z) + square * series;
    (shifted.to_bits(), sine, cosine)
}

/// The lowest bit selects; the second lowest is the sign.
#[inline(always)]
fn of_quadrant(quadrant: u64, even: f64, odd: f64) -> f64 {
    let mask = 0u64.wrapping_sub(quadrant & 1);
    let value = (even.to_bits() & !mask) | (odd.to_bits() & mask);
    f64::from_bits(value ^ ((quadrant & 2) << 62))
}

/// Sine, in radians; not for [`is_far`].
#[inline(always)]
#[must_use]
pub fn sin(x: f64) -> f64 {
    let (quadrant, sine, cosine) = reduced(x);
    pick(x.abs() < 1e-9, x, of_quadrant(quadrant, sine, cosine))
}

/// Cosine, in radians; not for [`is_far`].
#[inline(always)]
#[must_use]
pub fn cos(x: f64) -> f64 {
    let (quadrant, sine, cosine) = reduced(x);
    of_quadrant(quadrant.wrapping_add(1), sine, cosine)
}

#[inline(always)]
fn quotient(quadrant: u64, sine: f64, cosine: f64) -> f64 {
    let mask = 0u64.wrapping_sub(quadrant & 1);
    let choose =
        |even: f64, odd: f64| f64::from_bits((even.to_bits() & !mask) | (odd.to_bits() & mask));
    choose(sine, -cosine) / choose(cosine, sine)
}

/// Tangent, in radians; not for [`is_far`].
#[inline(always)]
#[must_use]
pub fn tan(x: f64) -> f64 {
    let (quadrant, sine, cosine) = reduced(x);
    pick(x.abs() < 1e-9, x, quotient(quadrant, sine, cosine))
}

/// Sine, in radians; not for [`is_far_f32`].
#[inline(always)]
#[must_use]
pub fn sin_f32(x: f32) -> f32 {
    let x = f64::from(x);
    let (quadrant, sine, cosine) = reduced_short(x);
    pick(x.abs() < 1e-5, x, of_quadrant(quadrant, sine, cosine)) as f32
}

/// Cosine, in radians; not for [`is_far_f32`].
#[inline(always)]
#[must_use]
pub fn cos_f32(x: f32) -> f32 {
    let (quadrant, sine, cosine) = reduced_short(f64::from(x));
    of_quadrant(quadrant.wrapping_add(1), sine, cosine) as f32
}

/// Tangent, in radians; not for [`is_far_f32`].
#[inline(always)]
#[must_use]
pub fn tan_f32(x: f32) -> f32 {
    let x = f64::from(x);
    let (quadrant, sine, cosine) = reduced_short(x);
    pick(x.abs() < 1e-5, x, quotient(quadrant, sine, cosine)) as f32
}
