//! Exponentials: `e^x = 2^n e^r` with `|r| <= ln(2) / 2`.

use super::{LN_2_HIGH, LN_2_LOW, SHIFT, fast_two_sum, pick, polynomial, two_to};
use std::f64::consts::{LN_2, LOG2_E};

/// Beyond, the result is infinite or zero.
const OVERFLOW: f64 = 710.0;
const UNDERFLOW: f64 = -746.0;

/// Clamps; keeps NaN.
#[inline(always)]
fn limited(x: f64, least: f64, most: f64) -> f64 {
    let x = pick(x > most, most, x);
    pick(x < least, least, x)
}

/// `n` plus [`SHIFT`], `r`, and `e^(r + lost) - 1 - r`.
#[inline(always)]
fn reduced(x: f64, low: f64) -> (f64, f64, f64) {
    let shifted = x * LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let high = x - n * LN_2_HIGH;
    let rest = n * LN_2_LOW - low;
    let r = high - rest;
    let lost = (high - r) - rest;
    let square = r * r;
    let series = polynomial!(
        r,
        square,
        [
            0.5,
            0.166_666_666_666_666_7,
            0.041_666_666_666_666_67,
            0.008_333_333_333_326_112,
            0.001_388_888_888_888_373,
            0.000_198_412_698_749_012_6,
            2.480_158_732_560_532_4e-5,
            2.755_725_529_796_964_3e-6,
            2.755_727_357_010_214e-7,
            2.510_525_953_844_849e-8,
            2.091_471_734_171_637_8e-9,
        ]
    );
    (shifted, r, lost + square * series)
}

/// In two steps: both powers are representable.
#[inline(always)]
fn scaled(value: f64, shifted: f64) -> f64 {
    let half = (shifted - SHIFT) * 0.5 + SHIFT;
    let other = shifted - (half - SHIFT);
    value * two_to(half) * two_to(other)
}

/// `e^(x + low)`, `low` far smaller than `x`.
#[inline(always)]
pub(super) fn exp_of_sum(x: f64, low: f64) -> f64 {
    let within = limited(x, UNDERFLOW, OVERFLOW);
    let low = pick(within == x, low, 0.0);
    let (shifted, r, rest) = reduced(within, low);
    let (sum, lost) = fast_two_sum(1.0, r);
    scaled(sum + (lost + rest), shifted)
}

/// Exponential.
#[inline(always)]
#[must_use]
pub fn exp(x: f64) -> f64 {
    exp_of_sum(x, 0.0)
}

/// Exponential less one, accurate near zero.
#[inline(always)]
#[must_use]
pub fn exp_m1(x: f64) -> f64 {
    let within = limited(x, -60.0, OVERFLOW);
    let (shifted, r, rest) = reduced(within, 0.0);
    let power = two_to(shifted - 1.0);
    let (sum, lost) = fast_two_sum(power - 0.5, power * r);
    let value = (sum + (lost + power * rest)) * 2.0;
    pick(x.abs() < 1e-17, x, value)
}

/// Hyperbolic tangent.
#[inline(always)]
#[must_use]
pub fn tanh(x: f64) -> f64 {
    let size = limited(x.abs(), 0.0, 22.0);
    let grown = exp_m1(size + size);
    // Near zero `g / (g + 2)`, else the equivalent `1 - 2 / (g + 2)`, which rounds less.
    let large = size > 0.55;
    let value = pick(large, 1.0, 0.0) + pick(large, -2.0, grown) / (grown + 2.0);
    value.copysign(x)
}

/// `n` plus [`SHIFT`], and `e^r - 1` with relative error 2^-34.
#[inline(always)]
fn reduced_short(x: f64) -> (f64, f64) {
    let shifted = x * LOG2_E + SHIFT;
    let r = x - (shifted - SHIFT) * LN_2;
    let square = r * r;
    let series = polynomial!(
        r,
        square,
        [
            0.500_000_001_349_817_8,
            0.166_666_666_816_591_8,
            0.041_666_464_602_026_54,
            0.008_333_310_889_582_076,
            0.001_393_368_586_261_717_4,
            0.000_198_910_306_543_703_27,
        ]
    );
    (shifted, r + square * series)
}

/// Exponential.
#[inline(always)]
#[must_use]
pub fn exp_f32(x: f32) -> f32 {
    let x = limited(f64::from(x), -110.0, 90.0);
    let (shifted, grown) = reduced_short(x);
    ((grown + 1.0) * two_to(shifted)) as f32
}

#[inline(always)]
fn exp_m1_short(x: f64) -> f64 {
    let (shifted, grown) = reduced_short(x);
    let power = two_to(shifted);
    power * grown + (power - 1.0)
}

/// Exponential less one, accurate near zero.
#[inline(always)]
#[must_use]
pub fn exp_m1_f32(x: f32) -> f32 {
    let wide = f64::from(x);
    let value = exp_m1_short(limited(wide, -60.0, 90.0));
    pick(wide.abs() < 1e-9, wide, value) as f32
}

/// Hyperbolic tangent.
#[inline(always)]
#[must_use]
pub fn tanh_f32(x: f32) -> f32 {
    let wide = f64::from(x);
    let size = limited(wide.abs(), 0.0, 22.0);
    let grown = exp_m1_short(size + size);
    let value = (grown / (grown + 2.0)).copysign(wide);
    pick(wide.abs() < 1e-5, wide, value) as f32
}
