//! Divergence of noisy exponential times.

use super::ModifiedLevy;
use crate::TuneError;

const CELLS: usize = 64;
const NOISE_VALUES: usize = 1024;

/// Kullback-Leibler divergence in nats of exponential times from the same times with noise, to reject M/M/1.
///
/// # Parameters
/// - `mean_s`: mean of the exponential times in seconds, above 0.
/// - `noise`: added to each.
///
/// # Returns
/// At least 0. Computed on 64 cells of equal probability: a lower bound of the divergence of the densities.
///
/// # Conventions
/// The larger, the worse M/M/1 predicts (fig. 5.7). A simulated queue at utilisation 0.7, with growing noise in
/// arrivals and services, gives (test `occupancy_error_grows_with_divergence`):
///
/// | divergence of services, nats | error of the M/M/1 mean occupancy |
/// |---|---|
/// | 0.02 | below 5 % |
/// | 0.11 | 5 % to 13 % |
/// | 0.21 | 13 % to 25 % |
/// | 0.42 | above 30 % |
///
/// So 0.1 nats limits the error to about 10 %.
///
/// # Errors
/// [`TuneError::Parameter`] for `mean_s`.
///
/// # Source
/// Beard (2015), section 5.2.
///
/// ```
/// use isochrony_tune::noise::{ModifiedLevy, exponential_divergence};
///
/// let noise = ModifiedLevy::from_sharing(1, 1e-6)?;
/// let short = exponential_divergence(1e-6, &noise)?;
/// let long = exponential_divergence(1e-3, &noise)?;
/// assert!(long < 1e-3 && long < short);
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
pub fn exponential_divergence(mean_s: f64, noise: &ModifiedLevy) -> Result<f64, TuneError> {
    let legal = mean_s.is_finite() && mean_s > 0.0;
    let place = "exponential_divergence";
    TuneError::unless(legal, "mean_s", mean_s, "finite and above 0 seconds", place)?;
    let values: Vec<f64> = (0..NOISE_VALUES)
        .map(|i| noise.inverse((i as f64 + 0.5) / NOISE_VALUES as f64))
        .collect();
    let cumulative = |x: f64| {
        let sum: f64 = values
            .iter()
            .map(|v| -(-(x - v).max(0.0) / mean_s).exp_m1())
            .sum();
        sum / NOISE_VALUES as f64
    };
    let share = 1.0 / CELLS as f64;
    let mut below = cumulative(0.0);
    let mut divergence = 0.0;
    for cell in 1..=CELLS {
        let above = if cell == CELLS {
            1.0
        } else {
            cumulative(-mean_s * (-(cell as f64) * share).ln_1p())
        };
        divergence += share * (share / (above - below)).ln();
        below = above;
    }
    Ok(divergence.max(0.0))
}
