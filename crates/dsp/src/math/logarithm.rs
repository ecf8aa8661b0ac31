//! Logarithms: `x = 2^k (1 + f)` with `1 + f` from `sqrt(1/2)` to `sqrt(2)`.
//!
//! `ln(1 + f) = f - f^2/2 + s (f^2/2 + R)` with `s = f / (2 + f)` and `R` a series in `s^2`: only small terms are
//! rounded.

use super::{LN_2_HIGH, LN_2_LOW, fast_two_sum, pick, polynomial, two_sum};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2};

/// `k` and `f` of a positive finite number.
#[inline(always)]
pub(super) fn parts(x: f64) -> (f64, f64) {
    const TWO_TO_54: f64 = 18_014_398_509_481_984.0;
    const BIAS: u64 = 1023 << 52;
    const DIGITS: f64 = 4_503_599_627_370_496.0; // 2^52
    let tiny = x < f64::MIN_POSITIVE;
    let x = pick(tiny, x * TWO_TO_54, x);
    let bits = x.to_bits();
    let from_root = bits
        .wrapping_sub(FRAC_1_SQRT_2.to_bits())
        .wrapping_add(BIAS);
    let biased = f64::from_bits((from_root >> 52) | DIGITS.to_bits());
    let k = biased - (DIGITS + pick(tiny, 1023.0 + 54.0, 1023.0));
    let m = f64::from_bits(bits.wrapping_sub((from_root & (0xfff << 52)).wrapping_sub(BIAS)));
    (k, m - 1.0)
}

/// `f^2/2`, and `s (f^2/2 + R)`.
#[inline(always)]
fn tail(f: f64) -> (f64, f64) {
    let s = f / (2.0 + f);
    let z = s * s;
    let series = polynomial!(
        z,
        z * z,
        [
            0.666_666_666_666_666_6,
            0.400_000_000_000_008_85,
            0.285_714_285_707_997_84,
            0.222_222_223_925_812_62,
            0.181_817_955_474_979_48,
            0.153_862_447_388_817_08,
            0.132_686_383_355_554_63,
            0.130_880_352_031_261_1,
        ]
    );
    let half = 0.5 * f * f;
    (half, s * (half + z * series))
}

#[inline(always)]
fn checked(x: f64, value: f64) -> f64 {
    let edge = pick(x > 0.0, f64::INFINITY, f64::NAN);
    let edge = pick(x == 0.0, f64::NEG_INFINITY, edge);
    pick((x > 0.0) & (x < f64::INFINITY), value, edge)
}

/// `k ln 2 + ln(1 + f) + extra`.
#[inline(always)]
fn joined(k: f64, f: f64, extra: f64) -> f64 {
    let (half, rest) = tail(f);
    let (sum, lost) = fast_two_sum(k * LN_2_HIGH, f);
    sum + (lost - (half - (rest + (k * LN_2_LOW + extra))))
}

/// Natural logarithm.
#[inline(always)]
#[must_use]
pub fn ln(x: f64) -> f64 {
    let (k, f) = parts(x);
    checked(x, joined(k, f, 0.0))
}

/// Natural logarithm of `1 + x`, accurate near zero.
#[inline(always)]
#[must_use]
pub fn ln_1p(x: f64) -> f64 {
    let (sum, lost) = two_sum(1.0, x);
    let (k, f) = parts(sum);
    let value = checked(sum, joined(k, f, lost / sum));
    pick(x.abs() < 1e-17, x, value)
}

/// The base's inverse logarithm is given as 32 bits and the rest.
#[inline(always)]
fn based(f: f64, high: f64, low: f64) -> (f64, f64) {
    const UPPER: u64 = 0xffff_ffff_0000_0000;
    let (half, rest) = tail(f);
    let few = f64::from_bits((f - half).to_bits() & UPPER);
    let others = ((f - few) - half) + rest;
    (few * high, (others + few) * low + others * high)
}

/// Logarithm to base two; exact for its powers.
#[inline(always)]
#[must_use]
pub fn log2(x: f64) -> f64 {
    const HIGH: f64 = f64::from_bits(0x3ff7_1547_6520_0000);
    const LOW: f64 = f64::from_bits(0x3de7_05fc_2eef_a200);
    let (k, f) = parts(x);
    let (large, small) = based(f, HIGH, LOW);
    let (sum, lost) = fast_two_sum(k, large);
    checked(x, sum + (lost + small))
}

/// Logarithm to base ten; exact for its powers.
#[inline(always)]
#[must_use]
pub fn log10(x: f64) -> f64 {
    const HIGH: f64 = f64::from_bits(0x3fdb_cb7b_1520_0000);
    const LOW: f64 = f64::from_bits(0x3dbb_9438_ca9a_add5);
    const OF_2_HIGH: f64 = f64::from_bits(0x3fd3_4413_509f_8000);
    const OF_2_LOW: f64 = f64::from_bits(0xbd38_0433_b83b_532a);
    let (k, f) = parts(x);
    let (large, small) = based(f, HIGH, LOW);
    let (sum, lost) = fast_two_sum(k * OF_2_HIGH, large);
    checked(x, sum + (lost + (small + k * OF_2_LOW)))
}

/// `k`, and `ln(1 + f)` with relative error 2^-35.
#[inline(always)]
fn short(x: f64) -> (f64, f64) {
    let (k, f) = parts(x);
    let s = f / (2.0 + f);
    let z = s * s;
    let series = polynomial!(
        z,
        z * z,
        [
            0.666_666_665_540_419,
            0.400_001_222_119_037_5,
            0.285_507_786_226_406_4,
            0.233_316_147_586_674_32,
        ]
    );
    (k, 2.0 * s + s * (z * series))
}

/// Natural logarithm.
#[inline(always)]
#[must_use]
pub fn ln_f32(x: f32) -> f32 {
    let x = f64::from(x);
    let (k, rest) = short(x);
    checked(x, k * LN_2 + rest) as f32
}

/// Natural logarithm of `1 + x`, accurate near zero.
#[inline(always)]
#[must_use]
pub fn ln_1p_f32(x: f32) -> f32 {
    let wide = f64::from(x);
    let sum = 1.0 + wide;
    let (k, rest) = short(sum);
    let value = checked(sum, k * LN_2 + rest);
    // The sum has lost digits; two terms of the series suffice.
    pick(wide.abs() < 1e-5, wide - 0.5 * wide * wide, value) as f32
}

/// Logarithm to base two; exact for its powers.
#[inline(always)]
#[must_use]
pub fn log2_f32(x: f32) -> f32 {
    let x = f64::from(x);
    let (k, rest) = short(x);
    checked(x, k + rest * std::f64::consts::LOG2_E) as f32
}

/// Logarithm to base ten.
#[inline(always)]
#[must_use]
pub fn log10_f32(x: f32) -> f32 {
    let x = f64::from(x);
    let (k, rest) = short(x);
    let value = k * std::f64::consts::LOG10_2 + rest * std::f64::consts::LOG10_E;
    checked(x, value) as f32
}
