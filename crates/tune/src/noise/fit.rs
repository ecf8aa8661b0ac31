//! Maximum-likelihood fits.

use std::f64::consts::PI;

use libm::erfc;

use super::levy::{MAX_SCALE_PER_WIDTH, ModifiedLevy};
use crate::TuneError;

const MIN_SAMPLES: usize = 20;

pub(super) fn check(samples: &[f64], place: &'static str) -> Result<(), TuneError> {
    if samples.len() < MIN_SAMPLES {
        return Err(TuneError::TooFewSamples {
            got: samples.len(),
            needed: MIN_SAMPLES,
            place,
        });
    }
    if let Some(index) = samples.iter().position(|x| !x.is_finite()) {
        let got = samples[index];
        return Err(TuneError::NotFinite { index, got, place });
    }
    if samples.iter().all(|&x| x == samples[0]) {
        return Err(TuneError::NoSpread {
            count: samples.len(),
            value: samples[0],
            place,
        });
    }
    Ok(())
}

impl ModifiedLevy {
    /// Maximum-likelihood fit of the three parameters.
    ///
    /// # Parameters
    /// - `samples`: at least 20 finite deviations in seconds, not all equal.
    ///
    /// # Conventions
    /// `upper` is the largest sample, which maximises the likelihood and is biased low by about the distance to the
    /// next sample. For a given `location` the likelihood is concave in `scale`; `location` is searched on a
    /// logarithmic grid below the smallest sample, then by golden section to 1e-10 of its distance.
    ///
    /// # Errors
    /// [`TuneError::TooFewSamples`], [`TuneError::NotFinite`], [`TuneError::NoSpread`].
    ///
    /// ```
    /// use isochrony_tune::noise::ModifiedLevy;
    ///
    /// let truth = ModifiedLevy::new(-1.0, 0.5, 20.0)?;
    /// let fitted = ModifiedLevy::fit(&truth.samples(5_000, 1))?;
    /// assert!((fitted.scale() / truth.scale() - 1.0).abs() < 0.1);
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn fit(samples: &[f64]) -> Result<Self, TuneError> {
        check(samples, "ModifiedLevy::fit")?;
        let smallest = samples.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let span = largest - smallest;
        let profile = |distance: f64| levy_profile(samples, smallest - distance, largest);

        const STEPS: i32 = 60;
        let distance =
            |step: i32| span * 10f64.powf(-6.0 + 8.0 * f64::from(step) / f64::from(STEPS));
        let best = (0..=STEPS)
            .max_by(|&a, &b| profile(distance(a)).1.total_cmp(&profile(distance(b)).1))
            .expect("the grid is not empty");
        let found =
            golden_section_maximum(distance(best - 1).ln(), distance(best + 1).ln(), |log| {
                profile(log.exp()).1
            })
            .exp();
        Self::new(smallest - found, profile(found).0, largest)
    }
}

/// The best scale, and its log-likelihood up to a constant.
fn levy_profile(samples: &[f64], location: f64, upper: f64) -> (f64, f64) {
    let n = samples.len() as f64;
    let width = upper - location;
    let (inverses, logs) = samples.iter().fold((0.0, 0.0), |(inverses, logs), x| {
        let y = x - location;
        (inverses + 1.0 / y, logs + y.ln())
    });
    let root = |scale: f64| (scale / (2.0 * width)).sqrt();
    let score = |scale: f64| {
        let u = root(scale);
        let truncation = 2.0 * u / PI.sqrt() * (-u * u).exp() / erfc(u);
        n / scale * (1.0 + truncation) - inverses
    };
    // The score falls with the scale and is positive at its untruncated root, n / inverses.
    let (mut low, mut high) = ((n / inverses).ln(), (MAX_SCALE_PER_WIDTH * width).ln());
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if score(middle.exp()) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let scale = low.exp();
    let likelihood =
        n / 2.0 * scale.ln() - scale / 2.0 * inverses - 1.5 * logs - n * erfc(root(scale)).ln();
    (scale, likelihood)
}

fn golden_section_maximum(mut low: f64, mut high: f64, value: impl Fn(f64) -> f64) -> f64 {
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    let (mut left, mut right) = (high - ratio * (high - low), low + ratio * (high - low));
    let (mut at_left, mut at_right) = (value(left), value(right));
    while high - low > 1e-10 {
        if at_left > at_right {
            high = right;
            (right, at_right) = (left, at_left);
            left = high - ratio * (high - low);
            at_left = value(left);
        } else {
            low = left;
            (left, at_left) = (right, at_right);
            right = low + ratio * (high - low);
            at_right = value(right);
        }
    }
    f64::midpoint(low, high)
}

pub(super) fn normal(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

/// Solves `scale = mean - Σ x exp(-x / scale) / Σ exp(-x / scale)` by bisection.
pub(super) fn gumbel(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let smallest = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let weights = |scale: f64| {
        samples.iter().fold((0.0, 0.0), |(sum, weighted), x| {
            let weight = (-(x - smallest) / scale).exp();
            (sum + weight, weighted + x * weight)
        })
    };
    let excess = |scale: f64| {
        let (sum, weighted) = weights(scale);
        scale - mean + weighted / sum
    };
    // At scale 0 the weighted mean is the smallest sample: the root lies below that sample's distance from the mean.
    let (mut low, mut high) = (0.0, mean - smallest);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if excess(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mode = smallest - high * (weights(high).0 / n).ln();
    (mode, high)
}

/// Expectation maximisation from the quartiles.
pub(super) fn cauchy(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let quartile = |share: usize| sorted[(samples.len() - 1) * share / 4];
    let span = sorted[samples.len() - 1] - sorted[0];
    // If more than half of the samples are equal, the scale must not start at 0.
    let half = (quartile(3) - quartile(1)) / 2.0;
    let (mut median, mut scale) = (quartile(2), half.max(1e-9 * span));
    for _ in 0..500 {
        let (mut weights, mut weighted, mut squares) = (0.0, 0.0, 0.0);
        for x in samples {
            let weight = 2.0 / (1.0 + ((x - median) / scale).powi(2));
            weights += weight;
            weighted += weight * x;
            squares += weight * (x - median).powi(2);
        }
        let next = (weighted / weights, (squares / n).sqrt().max(1e-12 * span));
        let moved = (next.0 - median).abs() + (next.1 - scale).abs();
        (median, scale) = next;
        if moved <= 1e-12 * scale {
            break;
        }
    }
    (median, scale)
}
