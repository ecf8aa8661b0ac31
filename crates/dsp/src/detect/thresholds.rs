//! Thresholds for a probability of false alarms.
//!
//! Tails of F distributions, by the continued fraction of the incomplete beta function (DLMF 8.17.22), relative error
//! below 1e-11, inverted by bisection once per detector.

use crate::DspError;
use crate::math::{exp, ln, ln_1p};

/// Lanczos sum, g = 7, nine terms (Godfrey 2001), for x >= 0.5.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    const HALF_LN_TAU: f64 = 0.918_938_533_204_672_7;
    let x = x - 1.0;
    let terms = TERMS.iter().zip(1..);
    let sum: f64 = terms.map(|(term, k)| term / (x + f64::from(k))).sum();
    let top = x + 7.5;
    HALF_LN_TAU + (x + 0.5) * ln(top) - top + ln(0.999_999_999_999_809_9 + sum)
}

/// Lentz's method, for x < (a + 1) / (a + b + 2).
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let away = |value: f64| {
        if value.abs() < 1e-300 { 1e-300 } else { value }
    };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut result = d;
    for m in 1..100_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            step = c * d;
            result *= step;
        }
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    result
}

/// Regularised incomplete beta function I_x(a, b); `rest` is 1 - x.
fn beta(a: f64, b: f64, x: f64, rest: f64) -> f64 {
    if x <= 0.0 || rest <= 0.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let front = exp(ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * ln(x) + b * ln(rest));
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, rest) / b
    }
}

/// Probability that a ratio of mean squares of `above` and `below` Gaussian numbers exceeds `ratio`.
#[must_use]
pub fn f_tail(above: f64, below: f64, ratio: f64) -> f64 {
    let both = below + above * ratio;
    beta(below / 2.0, above / 2.0, below / both, above * ratio / both)
}

/// `tail` decreases from near 1 at 0.
fn invert_decreasing(probability: f64, tail: impl Fn(f64) -> f64) -> f64 {
    // Equal cost for all magnitudes.
    let (mut low, mut high) = (-80.0, 700.0);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return exp(high);
        }
        if tail(exp(middle)) > probability {
            low = middle;
        } else {
            high = middle;
        }
    }
}

fn checked(operator: &'static str, pfa: f64) -> Result<f64, DspError> {
    if (1e-15..=0.1).contains(&pfa) {
        return Ok(pfa);
    }
    Err(DspError::Parameter {
        operator,
        parameter: "pfa",
        got: pfa.to_string(),
        allowed: "a probability from 1e-15 to 0.1".into(),
    })
}

/// Factor for the mean of `cells` cells; noise exceeds it with probability `pfa`.
///
/// A cell is the mean of `degrees` squares of Gaussian numbers: 2 for complex noise or a spectral bin (the factor is N
/// (pfa^(-1/N) - 1)), 1 for a real number.
///
/// Source: Finn and Johnson, *Adaptive detection mode with threshold control* (1968), extended by the F distribution.
///
/// # Errors
/// [`DspError::Parameter`] for a probability outside 1e-15 to 0.1.
pub fn of_mean(pfa: f64, cells: usize, degrees: u32) -> Result<f64, DspError> {
    let pfa = checked("ca_cfar", pfa)?;
    let cells = cells as f64;
    if degrees == 2 {
        let growth = -ln(pfa) / cells;
        return Ok(cells * crate::math::exp_m1(growth));
    }
    let degrees = f64::from(degrees);
    Ok(invert_decreasing(pfa, |ratio| {
        f_tail(degrees, degrees * cells, ratio)
    }))
}

/// Factor for the `rank`-th smallest (from 1) of `cells` exponential cells.
///
/// Source: Rohling, *Radar CFAR thresholding in clutter and multiple target situations* (1983), equation 37.
///
/// # Errors
/// [`DspError::Parameter`] for a probability outside 1e-15 to 0.1.
pub fn of_rank(pfa: f64, cells: usize, rank: usize) -> Result<f64, DspError> {
    let pfa = checked("ca_cfar", pfa)?;
    // Product of (N - i) / (N - i + T) over i below the rank.
    let tail = |factor: f64| {
        let each = (0..rank).map(|i| ln_1p(factor / (cells - i) as f64));
        exp(-each.sum::<f64>())
    };
    Ok(invert_decreasing(pfa, tail))
}

/// Standard deviations that a Gaussian number exceeds with probability `pfa`, with mean and deviation estimated from
/// `count` others (Student's t).
///
/// # Errors
/// [`DspError::Parameter`] for a probability outside 1e-15 to 0.1.
pub fn of_deviation(pfa: f64, count: f64) -> Result<f64, DspError> {
    let pfa = checked("cfar", pfa)?;
    let square = invert_decreasing(2.0 * pfa, |square| f_tail(1.0, count - 1.0, square));
    Ok((square * (1.0 + 1.0 / count)).sqrt())
}

fn density(x: f64) -> f64 {
    0.398_942_280_401_432_7 * exp(-0.5 * x * x)
}

/// Mean and variance of standard Gaussian numbers below `limit` (positive).
#[must_use]
pub fn cut_above(limit: f64) -> (f64, f64) {
    // With many degrees, Student's t is Gaussian to 1e-4.
    let above = 0.5 * f_tail(1.0, 1e7, limit * limit);
    let mean = -density(limit) / (1.0 - above);
    (mean, 1.0 + limit * mean - mean * mean)
}
