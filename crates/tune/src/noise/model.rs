//! Noise distributions as one type, ranked on samples.

use std::f64::consts::{PI, SQRT_2};

use libm::erfc;
use serde::Serialize;

use super::{Histogram, ModifiedLevy, fit};
use crate::TuneError;

/// A family of noise distributions.
#[allow(missing_docs)] // Named as in the literature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseKind {
    /// Levy, truncated above.
    ModifiedLevy,
    Normal,
    /// Gumbel, of maxima.
    Gumbel,
    Cauchy,
}

impl NoiseKind {
    /// All families.
    pub const ALL: [Self; 4] = [Self::ModifiedLevy, Self::Normal, Self::Gumbel, Self::Cauchy];
}

/// A noise distribution with its parameters, in seconds.
///
/// ```
/// use isochrony_tune::noise::NoiseModel;
///
/// let model = NoiseModel::Normal { mean: 0.0, deviation: 1e-6 };
/// assert_eq!(model.cumulative(0.0), 0.5);
/// ```
#[allow(missing_docs)] // As of `NoiseKind`; each with the parameters of that name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseModel {
    ModifiedLevy(ModifiedLevy),
    Normal {
        mean: f64,
        /// Standard deviation, above 0.
        deviation: f64,
    },
    Gumbel {
        mode: f64,
        /// Scale, above 0.
        scale: f64,
    },
    Cauchy {
        median: f64,
        /// Half the distance between the quartiles, above 0.
        scale: f64,
    },
}

impl NoiseModel {
    /// Maximum-likelihood fit of a family.
    ///
    /// # Parameters
    /// - `samples`: at least 20 finite deviations in seconds, not all equal.
    ///
    /// # Errors
    /// [`TuneError::TooFewSamples`], [`TuneError::NotFinite`], [`TuneError::NoSpread`].
    ///
    /// ```
    /// use isochrony_tune::noise::{NoiseKind, NoiseModel};
    ///
    /// let samples: Vec<f64> = (0..100).map(f64::from).collect();
    /// let NoiseModel::Normal { mean, .. } = NoiseModel::fit(NoiseKind::Normal, &samples)? else {
    ///     unreachable!()
    /// };
    /// assert_eq!(mean, 49.5);
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn fit(kind: NoiseKind, samples: &[f64]) -> Result<Self, TuneError> {
        fit::check(samples, "NoiseModel::fit")?;
        Ok(match kind {
            NoiseKind::ModifiedLevy => Self::ModifiedLevy(ModifiedLevy::fit(samples)?),
            NoiseKind::Normal => {
                let (mean, deviation) = fit::normal(samples);
                Self::Normal { mean, deviation }
            }
            NoiseKind::Gumbel => {
                let (mode, scale) = fit::gumbel(samples);
                Self::Gumbel { mode, scale }
            }
            NoiseKind::Cauchy => {
                let (median, scale) = fit::cauchy(samples);
                Self::Cauchy { median, scale }
            }
        })
    }

    /// The family.
    pub fn kind(&self) -> NoiseKind {
        match self {
            Self::ModifiedLevy(_) => NoiseKind::ModifiedLevy,
            Self::Normal { .. } => NoiseKind::Normal,
            Self::Gumbel { .. } => NoiseKind::Gumbel,
            Self::Cauchy { .. } => NoiseKind::Cauchy,
        }
    }

    /// Probability of at most `x` seconds, 0 to 1.
    pub fn cumulative(&self, x: f64) -> f64 {
        match *self {
            Self::ModifiedLevy(levy) => levy.cumulative(x),
            Self::Normal { mean, deviation } => erfc((mean - x) / (deviation * SQRT_2)) / 2.0,
            Self::Gumbel { mode, scale } => (-(-(x - mode) / scale).exp()).exp(),
            // Keeps the digits of the lower tail.
            Self::Cauchy { median, scale } if x < median => (scale / (median - x)).atan() / PI,
            Self::Cauchy { median, scale } => 0.5 + ((x - median) / scale).atan() / PI,
        }
    }
}

/// A fitted model and its divergence from the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RankedModel {
    /// The fitted model.
    pub model: NoiseModel,
    /// Kullback-Leibler divergence of the samples from it, in nats; infinite if it excludes a sample.
    pub divergence: f64,
}

/// Fits every [`NoiseKind`] and ranks them, smallest divergence first.
///
/// # Parameters
/// - `samples`: at least 20 finite deviations in seconds, not all equal.
/// - `bins`: histogram cells of equal count, 2 to the number of samples.
///
/// # Errors
/// As [`NoiseModel::fit`] and [`Histogram::with_equal_counts`].
///
/// ```
/// use isochrony_tune::noise::{ModifiedLevy, NoiseKind, rank_noise_models};
///
/// let samples = ModifiedLevy::new(-1.0, 0.5, 20.0)?.samples(2_000, 7);
/// let ranked = rank_noise_models(&samples, 40)?;
/// assert_eq!(ranked[0].model.kind(), NoiseKind::ModifiedLevy);
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
pub fn rank_noise_models(samples: &[f64], bins: usize) -> Result<Vec<RankedModel>, TuneError> {
    let histogram = Histogram::with_equal_counts(samples, bins)?;
    let mut ranked = Vec::with_capacity(NoiseKind::ALL.len());
    for kind in NoiseKind::ALL {
        let model = NoiseModel::fit(kind, samples)?;
        let divergence = histogram.divergence(|x| model.cumulative(x));
        ranked.push(RankedModel { model, divergence });
    }
    ranked.sort_by(|a, b| a.divergence.total_cmp(&b.divergence));
    Ok(ranked)
}
