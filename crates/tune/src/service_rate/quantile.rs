//! Mean of 95 % quantiles of filtered counts (dissertation, section 6.3.3).

use super::stats::RunningStats;
use super::{Estimate, PeriodSample};

const WINDOW: usize = 32;
const RADIUS: usize = 2;
const FILTERED: usize = WINDOW - 2 * RADIUS;
/// In standard deviations above the mean (eq. 6.3).
const QUANTILE_95: f64 = 1.644_85;
/// Second-filter responses in a row within the tolerance.
const CONVERGENCE_WINDOW: usize = 16;
const TOLERANCE: f64 = 2e-6;
/// Samples without a new window: a server with items is too fast for the periods.
const LONGEST_SILENCE: u64 = 1_024;
const MIN_BLOCKS: u64 = 8;

#[derive(Debug, Clone)]
pub(super) struct FilteredQuantile {
    gaussian: [f64; 2 * RADIUS + 1],
    laplacian: [f64; 3],
    rates: [f64; WINDOW],
    unblocked: u64,
    samples: u64,
    silence: u64,
    had_items: bool,
    quantiles: RunningStats,
    errors: [f64; 3],
    settled: usize,
    has_converged: bool,
    logarithms: RunningStats,
}

impl FilteredQuantile {
    pub(super) fn new() -> Self {
        Self {
            gaussian: gaussian_kernel(),
            laplacian: laplacian_kernel(),
            rates: [0.0; WINDOW],
            unblocked: 0,
            samples: 0,
            silence: 0,
            had_items: false,
            quantiles: RunningStats::default(),
            errors: [0.0; 3],
            settled: 0,
            has_converged: false,
            logarithms: RunningStats::default(),
        }
    }

    pub(super) fn logarithms(&self) -> &RunningStats {
        &self.logarithms
    }

    /// Returns the logarithm of a quantile for each disjoint window. A server that becomes faster waits in every
    /// period, so no window fills: infinity.
    pub(super) fn push(&mut self, sample: &PeriodSample, blocked: bool) -> Option<f64> {
        self.samples += 1;
        self.silence += 1;
        self.had_items |= sample.items > 0;
        if self.silence == LONGEST_SILENCE {
            self.silence = 0;
            if std::mem::take(&mut self.had_items) {
                return Some(f64::INFINITY);
            }
        }
        if blocked {
            return None;
        }
        let at = (self.unblocked % WINDOW as u64) as usize;
        self.rates[at] = sample.items as f64 / sample.elapsed_s;
        self.unblocked += 1;
        if self.unblocked < WINDOW as u64 {
            return None;
        }
        let quantile = self.quantile((at + 1) % WINDOW);
        self.quantiles.push(quantile);
        self.check_convergence();
        if !self.unblocked.is_multiple_of(WINDOW as u64) {
            return None;
        }
        self.silence = 0;
        self.had_items = false;
        // None has no logarithm: counts as half an item.
        let least = 0.5 / sample.elapsed_s / WINDOW as f64;
        let logarithm = quantile.max(least).ln();
        self.logarithms.push(logarithm);
        Some(logarithm)
    }

    /// `oldest` is the ring's first value.
    fn quantile(&self, oldest: usize) -> f64 {
        let mut filtered = RunningStats::default();
        for start in 0..FILTERED {
            let value = |offset: usize| self.rates[(oldest + start + offset) % WINDOW];
            let dot = self.gaussian.iter().enumerate();
            filtered.push(dot.map(|(offset, weight)| weight * value(offset)).sum());
        }
        filtered.mean() + QUANTILE_95 * filtered.deviation()
    }

    fn check_convergence(&mut self) {
        let count = self.quantiles.count();
        self.errors.rotate_left(1);
        self.errors[2] = self.quantiles.deviation() / (count as f64).sqrt();
        if count < 4 || self.has_converged {
            return;
        }
        let response: f64 = self
            .laplacian
            .iter()
            .zip(&self.errors)
            .map(|(weight, error)| weight * error)
            .sum();
        if response.abs() <= TOLERANCE * self.quantiles.mean() {
            self.settled += 1;
        } else {
            self.settled = 0;
        }
        self.has_converged =
            self.settled >= CONVERGENCE_WINDOW && self.logarithms.count() >= MIN_BLOCKS;
    }

    pub(super) fn estimate(&self) -> Estimate {
        if !self.has_converged {
            return Estimate::Pending;
        }
        // Windows overlap: one in WINDOW quantiles is independent.
        let independent = self.quantiles.count() as f64 / WINDOW as f64;
        Estimate::Converged {
            items_per_second: self.quantiles.mean(),
            standard_error: self.quantiles.deviation() / independent.sqrt(),
            samples: self.samples,
        }
    }
}

/// Eq. 6.2, scaled to sum 1; as printed it lowers every rate by 0.9 %.
fn gaussian_kernel() -> [f64; 2 * RADIUS + 1] {
    let weight = |i: usize| (-(i as f64 - RADIUS as f64).powi(2) / 2.0).exp();
    let kernel = std::array::from_fn(weight);
    let sum: f64 = kernel.iter().sum();
    kernel.map(|value| value / sum)
}

/// Eq. 6.4 for a standard deviation of 1/2, shifted to sum 0; as printed it responds to the error itself, not to its
/// rate of change.
fn laplacian_kernel() -> [f64; 3] {
    let deviation = 0.5f64;
    let value = |i: usize| {
        let square = (i as f64 - 1.0).powi(2);
        let bell =
            (-square / (2.0 * deviation.powi(2))).exp() / (2.0 * std::f64::consts::PI).sqrt();
        square * bell / deviation.powi(5) - bell / deviation.powi(3)
    };
    let kernel: [f64; 3] = std::array::from_fn(value);
    let mean = kernel.iter().sum::<f64>() / 3.0;
    kernel.map(|value| value - mean)
}

#[cfg(test)]
mod tests {
    use super::{FilteredQuantile, gaussian_kernel, laplacian_kernel};
    use crate::service_rate::PeriodSample;

    #[test]
    fn kernels_are_those_of_the_equations_after_correction() {
        // exp(-x^2 / 2) / sqrt(2 pi) at 0, 1, 2: 0.398942, 0.241971, 0.053991; kernel sum 0.990866.
        let gaussian = gaussian_kernel();
        for (got, printed) in gaussian.iter().zip([0.053_991, 0.241_971, 0.398_942]) {
            assert!((got - printed / 0.990_866).abs() < 1e-5);
        }
        assert!((gaussian.iter().sum::<f64>() - 1.0).abs() < 1e-15);
        // Eq. 6.4 at 0 and 1: -3.191538 and 1.295783; mean -0.199991.
        let laplacian = laplacian_kernel();
        for (got, printed) in laplacian.iter().zip([1.295_783, -3.191_538, 1.295_783]) {
            assert!((got - printed - 0.199_991).abs() < 1e-5, "{laplacian:?}");
        }
    }

    #[test]
    fn quantile_equals_the_equations_in_plain_form() {
        let mut estimator = FilteredQuantile::new();
        let counts: Vec<u64> = (0..40).map(|i| 10 + i * i % 7).collect();
        for &items in &counts {
            let sample = PeriodSample::unblocked(2.0, items);
            estimator.push(&sample, false);
        }
        let window: Vec<f64> = counts[8..].iter().map(|&c| c as f64 / 2.0).collect();
        let kernel = [0.053_991, 0.241_971, 0.398_942, 0.241_971, 0.053_991];
        let filtered: Vec<f64> = window
            .windows(5)
            .map(|w| w.iter().zip(kernel).map(|(a, b)| a * b).sum::<f64>() / 0.990_866)
            .collect();
        assert_eq!(filtered.len(), 28);
        let mean = filtered.iter().sum::<f64>() / 28.0;
        let variance = filtered.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 27.0;
        let expected = mean + 1.644_85 * variance.sqrt();
        assert!((estimator.quantile(40 % 32) / expected - 1.0).abs() < 1e-5);
    }
}
