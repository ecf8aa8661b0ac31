//! Classifies whether a model of a link can be trusted.
//!
//! [`TrustClassifier`] judges from [`LinkFeatures`] whether a [`Model`] is right: for half, once and twice the
//! capacity, its throughput within 5 % and its mean number of items within 25 % or half an item of the long run.
//!
//! A support vector machine and a small neural network must agree. `tools/train_trust.py` trains both on simulated
//! links. Thresholds favour few false positives, since a tuner can measure instead. See `docs/trust.md`.
//!
//! Source: Beard, Online Modeling and Tuning of Parallel Stream Processing Systems (2015), chapter 7, which uses
//! hardware properties instead of measurements.

mod features;
mod model;
mod network;
mod svm;
mod weights;

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::TuneError;
pub use features::LinkFeatures;
use features::{FEATURES, MEASURED, Vector};
pub use model::{Model, Prediction};
use network::Network;
use svm::SupportVectorMachine;
use weights::Scaling;

type PerModel = [f64; Model::ALL.len()];

static BUILTIN: LazyLock<Result<TrustClassifier, TuneError>> =
    LazyLock::new(|| TrustClassifier::from_json(include_str!("weights.json")));

/// Judges which model of a link is right.
///
/// ```
/// use isochrony_tune::trust::{LinkFeatures, Model, TrustClassifier};
///
/// // A link that is nearly always empty: its reader is busy for a tenth of the time.
/// let features = LinkFeatures {
///     items: 8_000,
///     capacity: 16,
///     interarrival_s: 0.010,
///     interarrival_cv: 1.0,
///     service_s: 0.001,
///     service_cv: 1.0,
///     writer_wait_share: 0.0,
///     reader_wait_share: 0.9,
///     reader_output_wait_share: 0.0,
///     occupancy: [8_000, 0, 0, 0, 0, 0, 0, 0, 0],
/// };
/// let classifier = TrustClassifier::builtin()?;
/// let verdict = classifier.verdict(&features);
/// assert!(verdict.trusted.is_some(), "{}", verdict.why);
/// // It carries the 100 items a second that it gets.
/// let prediction = Model::Mm1k.predict(&features, 16)?;
/// assert!((prediction.throughput - 100.0).abs() < 0.1);
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TrustClassifier {
    scaling: Scaling,
    svm: SupportVectorMachine,
    svm_thresholds: PerModel,
    network: Network,
    network_thresholds: PerModel,
}

/// Scores of one model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ModelScores {
    /// Model.
    pub model: Model,
    /// Signed distance from the margin.
    pub svm: f64,
    /// The network's log odds that the model is right.
    pub network: f64,
    /// The smaller score minus its threshold; trusted from 0.
    pub margin: f64,
}

/// The trusted model of a link, if any.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The best queueing model, else the flow model, else none.
    pub trusted: Option<Model>,
    /// Margin of the trusted model, else the largest; negative infinity if features could not be judged.
    pub score: f64,
    /// Reason.
    pub why: Reason,
}

/// Why a model is trusted, or none.
#[allow(missing_docs)] // The variants document their fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Reason {
    /// Both classifiers accept.
    Accepted { model: Model },
    /// No model reaches both thresholds.
    Rejected {
        /// Closest model.
        closest: Model,
    },
    /// An impossible measurement.
    Invalid {
        feature: String,
        got: f64,
        /// Allowed values.
        allowed: String,
    },
    /// A feature outside the training range.
    Untrained {
        feature: String,
        got: f64,
        /// Smallest value in training.
        least: f64,
        /// Largest value in training.
        most: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { model } => write!(f, "both classifiers accept {model}"),
            Self::Rejected { closest } => write!(
                f,
                "no model reaches the thresholds of both classifiers; {closest} comes closest"
            ),
            Self::Invalid {
                feature,
                got,
                allowed,
            } => write!(
                f,
                "{feature}={got} cannot be judged; it must be {allowed}: measure the link for longer"
            ),
            Self::Untrained {
                feature,
                got,
                least,
                most,
            } => write!(
                f,
                "{feature}={got} is outside the trained range of {least} to {most}"
            ),
        }
    }
}

impl TrustClassifier {
    /// The classifier with built-in weights.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn builtin() -> Result<&'static Self, TuneError> {
        BUILTIN.as_ref().map_err(Clone::clone)
    }

    /// A classifier with weights written by `tools/train_trust.py`.
    ///
    /// # Errors
    /// [`TuneError::WeightsSyntax`], [`TuneError::WeightsFormat`], [`TuneError::WeightsNames`],
    /// [`TuneError::WeightsShape`], [`TuneError::Parameter`] for an impossible scaling.
    pub fn from_json(text: &str) -> Result<Self, TuneError> {
        weights::parse(text)
    }

    /// Scores of each model, in the order of [`Model::ALL`].
    ///
    /// # Errors
    /// Why the features cannot be judged.
    pub fn scores(
        &self,
        features: &LinkFeatures,
    ) -> Result<[ModelScores; Model::ALL.len()], Reason> {
        let mut vector: Vector = [0.0; FEATURES.len()];
        // Predictions cost the square of the capacity.
        vector[..MEASURED].copy_from_slice(&features.measured()?);
        self.scaling.check(&vector[..MEASURED])?;
        vector[MEASURED..].copy_from_slice(&features.compared()?);
        self.scaling.check(&vector)?;
        let inputs = self.scaling.standardised(&vector);
        let (svm, network) = (self.svm.scores(&inputs), self.network.scores(&inputs));
        Ok(std::array::from_fn(|i| ModelScores {
            model: Model::ALL[i],
            svm: svm[i],
            network: network[i],
            margin: (svm[i] - self.svm_thresholds[i]).min(network[i] - self.network_thresholds[i]),
        }))
    }

    /// The trusted model; none if the features cannot be judged.
    pub fn verdict(&self, features: &LinkFeatures) -> Verdict {
        let scores = match self.scores(features) {
            Ok(scores) => scores,
            Err(why) => {
                return Verdict {
                    trusted: None,
                    score: f64::NEG_INFINITY,
                    why,
                };
            }
        };
        let larger = |a: ModelScores, b: ModelScores| match b.margin > a.margin {
            true => b,
            false => a,
        };
        let [flow, mm1k, md1k, two_moment] = scores;
        let queueing = larger(larger(mm1k, md1k), two_moment);
        // The flow model comes last: it does not predict items.
        for best in [queueing, flow] {
            if best.margin >= 0.0 {
                return Verdict {
                    trusted: Some(best.model),
                    score: best.margin,
                    why: Reason::Accepted { model: best.model },
                };
            }
        }
        let closest = larger(queueing, flow);
        Verdict {
            trusted: None,
            score: closest.margin,
            why: Reason::Rejected {
                closest: closest.model,
            },
        }
    }
}
