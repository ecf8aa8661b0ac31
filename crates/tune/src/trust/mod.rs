//! Whether a model may be believed for a link between two stages.
//!
//! A model that is wrong for a link costs more than no model: buffers get sizes for arrivals that do not exist.
//! [`TrustClassifier`] judges from what a running plan measures on a link ([`LinkFeatures`]) whether a [`Model`] predicts
//! its throughput and the mean number of items in it. A model counts as right if, for half the capacity, the capacity and
//! the double one, its throughput is within 5 % and its mean number of items within 25 % or half an item of the long run.
//!
//! Two classifiers have to agree: a support vector machine and a small neural network. `tools/train_trust.py` trains both
//! on simulated links; their weights are part of the crate. The thresholds are set for few false positives, since a tuner
//! that trusts no model can still measure. `docs/trust.md` has the data and the figures.
//!
//! Source: Beard, Online Modeling and Tuning of Parallel Stream Processing Systems (2015), chapter 7. The dissertation
//! classifies by properties of the hardware; here the features are what the plan did.

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

/// A number for each of [`Model::ALL`].
type PerModel = [f64; Model::ALL.len()];

static BUILTIN: LazyLock<Result<TrustClassifier, TuneError>> =
    LazyLock::new(|| TrustClassifier::from_json(include_str!("weights.json")));

/// Judges from measurements of a link which model of it may be believed.
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

/// What the two classifiers say of one model; at least their thresholds if it may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ModelScores {
    /// The model.
    pub model: Model,
    /// Signed distance from the margin of the support vector machine.
    pub svm: f64,
    /// Logarithm of the odds that the model is right, by the network.
    pub network: f64,
    /// The smaller of both, each less its threshold: the model is trusted from 0 on.
    pub margin: f64,
}

/// Which model of a link may be believed, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The queueing model with the largest score, else the flow model, else none.
    pub trusted: Option<Model>,
    /// Margin of the trusted model, else the largest one of any; negative infinity if the features could not be judged.
    pub score: f64,
    /// Why.
    pub why: Reason,
}

/// Why a model is trusted, or none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Reason {
    /// Both classifiers accept the model.
    Accepted {
        /// The model.
        model: Model,
    },
    /// No model reaches the thresholds of both classifiers.
    Rejected {
        /// The model that comes closest.
        closest: Model,
    },
    /// A measurement that cannot be.
    Invalid {
        /// The measurement.
        feature: String,
        /// Its value.
        got: f64,
        /// What it may be.
        allowed: String,
    },
    /// A feature outside the range of the links that the classifiers were trained on.
    Untrained {
        /// The feature.
        feature: String,
        /// Its value.
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
    /// The classifier with the weights of this crate, parsed on first use.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn builtin() -> Result<&'static Self, TuneError> {
        BUILTIN.as_ref().map_err(Clone::clone)
    }

    /// A classifier with weights that `tools/train_trust.py` wrote.
    ///
    /// # Errors
    /// [`TuneError::WeightsSyntax`] if the text is not such a file, [`TuneError::WeightsFormat`] for another version of
    /// it, [`TuneError::WeightsNames`] for other features or models, [`TuneError::WeightsShape`] for a wrong count and
    /// [`TuneError::Parameter`] for a scaling that no training gives.
    pub fn from_json(text: &str) -> Result<Self, TuneError> {
        weights::parse(text)
    }

    /// What both classifiers say of each model, in the order of [`Model::ALL`].
    ///
    /// # Errors
    /// The [`Reason`] why the features cannot be judged.
    pub fn scores(
        &self,
        features: &LinkFeatures,
    ) -> Result<[ModelScores; Model::ALL.len()], Reason> {
        let mut vector: Vector = [0.0; FEATURES.len()];
        // The range comes before the predictions, whose cost grows with the square of the capacity.
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

    /// Which model may be believed. Never panics: features that cannot be judged give no trusted model.
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
        // The flow model says less: it knows no items.
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
