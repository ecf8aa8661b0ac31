//! [`TimeDistribution`]: random times from a seeded generator.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::TuneError;

/// Distribution of service or inter-arrival times, in seconds.
#[allow(missing_docs)] // Named as in the literature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TimeDistribution {
    Constant {
        /// Time; finite, at least 0.
        mean_s: f64,
    },
    /// Exponential (Poisson arrivals).
    Exponential {
        /// Mean; finite, at least 0.
        mean_s: f64,
    },
    Lognormal {
        /// Mean; finite, at least 0.
        mean_s: f64,
        /// Coefficient of variation; 0 to 10.
        cv: f64,
    },
    /// Measured times, equally likely.
    Measured {
        /// At least one time, each finite and at least 0.
        times_s: Vec<f64>,
    },
}

/// Beyond it, a mean needs more draws than a run has.
const MAX_CV: f64 = 10.0;

impl TimeDistribution {
    /// Mean in seconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant { mean_s }
            | Self::Exponential { mean_s }
            | Self::Lognormal { mean_s, .. } => *mean_s,
            Self::Measured { times_s } => times_s.iter().sum::<f64>() / times_s.len() as f64,
        }
    }

    pub(super) fn check(&self, place: &str) -> Result<(), TuneError> {
        let time = |name: String, time: f64| match time.is_finite() && time >= 0.0 {
            true => Ok(()),
            false => Err(TuneError::parameter(name, time, "finite and at least 0")),
        };
        match self {
            Self::Measured { times_s } if times_s.is_empty() => Err(TuneError::parameter(
                format!("{place}.times_s"),
                "an empty list",
                "at least one time",
            )),
            Self::Measured { times_s } => {
                let mut times = times_s.iter().enumerate();
                times.try_for_each(|(at, &one)| time(format!("{place}.times_s[{at}]"), one))
            }
            Self::Lognormal { cv, .. } if !(0.0..=MAX_CV).contains(cv) => Err(
                TuneError::parameter(format!("{place}.cv"), cv, format!("0 to {MAX_CV}")),
            ),
            _ => time(format!("{place}.mean_s"), self.mean()),
        }
    }

    /// Uses `libm`: every machine draws the same.
    pub(super) fn draw(&self, random: &mut Rng) -> f64 {
        let exponential = |random: &mut Rng| -libm::log(1.0 - random.f64());
        match self {
            Self::Constant { mean_s } => *mean_s,
            Self::Exponential { mean_s } => mean_s * exponential(random),
            Self::Lognormal { mean_s, cv } => {
                let variance = libm::log1p(cv * cv);
                let angle = std::f64::consts::TAU * random.f64();
                let normal = libm::sqrt(2.0 * exponential(random)) * libm::cos(angle);
                mean_s * libm::exp(libm::sqrt(variance) * normal - variance / 2.0)
            }
            Self::Measured { times_s } => times_s[random.usize(..times_s.len())],
        }
    }
}
