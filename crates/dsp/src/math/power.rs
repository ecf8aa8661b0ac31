//! Powers: `x^y = e^(y ln x)` with the logarithm as two f64.

use super::exponential::exp_of_sum;
use super::logarithm::{ln, parts};
use super::{LN_2_HIGH, LN_2_LOW, SHIFT, fast_two_sum, pick, polynomial, two_product, two_sum};

/// From here exponents have no fraction, or are even.
const MIN_STEEP_EXPONENT: f64 = 1_125_899_906_842_624.0; // 2^50

/// Whether the exponent is NaN, infinite or too large for [`pow`].
#[inline(always)]
#[must_use]
pub fn is_steep(exponent: f64) -> bool {
    (exponent.abs() >= MIN_STEEP_EXPONENT) | exponent.is_nan()
}

/// As a sum of two f64, for positive finite numbers.
#[inline(always)]
fn ln_in_two(x: f64) -> (f64, f64) {
    const THIRDS: f64 = 2.0 / 3.0;
    const THIRDS_LOW: f64 = f64::from_bits(0x3c85_5555_5555_5555);
    let (k, f) = parts(x);
    let (below, below_low) = fast_two_sum(2.0, f);
    let s = f / below;
    let (back, back_low) = two_product(s, below);
    let s_low = (((f - back) - back_low) - s * below_low) / below;
    let (z, z_low) = two_product(s, s);
    let z_low = z_low + 2.0 * s * s_low;
    // ln(1 + f) = 2 s + s z (2/3 + z (2/5 + ...)).
    let series = polynomial!(
        z,
        z * z,
        [
            0.4,
            0.2857142857142937,
            0.22222222221652765,
            0.18181818336100042,
            0.15384594886986175,
            0.13334808799953698,
            0.11706126434027067,
            0.11724327379875762,
        ]
    );
    let (sum, lost) = fast_two_sum(THIRDS, z * series);
    let sum_low = lost + THIRDS_LOW + z_low * 0.4;
    let (cube, cube_low) = two_product(s, z);
    let cube_low = cube_low + s * z_low + s_low * z;
    let (third, third_low) = two_product(cube, sum);
    let third_low = third_low + cube * sum_low + cube_low * sum;
    let (high, lost) = fast_two_sum(2.0 * s, third);
    let low = lost + (2.0 * s_low + third_low);
    let (total, lost) = two_sum(k * LN_2_HIGH, high);
    fast_two_sum(total, lost + (low + k * LN_2_LOW))
}

/// Special cases of C and NumPy (base zero, infinite, negative or NaN), given the power of the magnitude.
#[inline(always)]
fn signed(base: f64, exponent: f64, value: f64) -> f64 {
    let size = base.abs();
    let nothing = pick(exponent > 0.0, 0.0, f64::INFINITY);
    let endless = pick(exponent > 0.0, f64::INFINITY, 0.0);
    let value = pick(size == 0.0, nothing, value);
    let value = pick(size == f64::INFINITY, endless, value);
    let shifted = exponent + SHIFT;
    let is_whole = shifted - SHIFT == exponent;
    let sign = (shifted.to_bits() << 63) & base.to_bits();
    let with_sign = f64::from_bits(value.to_bits() ^ sign);
    let value = pick(is_whole, with_sign, value);
    let value = pick(
        (base < 0.0) & (size < f64::INFINITY) & !is_whole,
        f64::NAN,
        value,
    );
    let value = pick(base.is_nan(), base, value);
    pick(exponent == 0.0, 1.0, value)
}

/// Power, unless [`is_steep`].
#[inline(always)]
#[must_use]
pub fn pow(base: f64, exponent: f64) -> f64 {
    let (high, low) = ln_in_two(base.abs());
    let (product, lost) = two_product(exponent, high);
    let value = exp_of_sum(product, lost + exponent * low);
    signed(base, exponent, value)
}

/// Power, unless [`is_steep`].
#[inline(always)]
#[must_use]
pub fn pow_f32(base: f32, exponent: f32) -> f32 {
    let (base, exponent) = (f64::from(base), f64::from(exponent));
    let value = exp_of_sum(exponent * ln(base.abs()), 0.0);
    signed(base, exponent, value) as f32
}
