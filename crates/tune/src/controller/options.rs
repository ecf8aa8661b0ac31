//! [`ControllerOptions`]: confidence, limits of trials, and what counts as a gain.

use serde::{Deserialize, Serialize};

use crate::TuneError;

/// How a [`Controller`](super::Controller) decides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControllerOptions {
    /// Cores; more threads promise no gain.
    pub cores: usize,
    /// One-sided confidence of a gain, above 0.5 and below 1.
    pub confidence: f64,
    /// Smallest gain worth a change, as a share.
    pub min_gain: f64,
    /// Windows before the first trial, at least 1.
    pub observed_windows: usize,
    /// Groups `A B B A` after which an uncertain candidate is dropped, at least 2.
    pub max_groups: usize,
    /// A trial needs at least this many times the shortest trial's duration left in the run.
    pub min_payback: f64,
    /// Most trials between load changes.
    pub max_trials: usize,
    /// Of these, most repeated ones of undecided candidates.
    pub max_retries: usize,
    /// Windows in a row that a plan must keep up with its feed before fewer threads are tried.
    pub quiet_windows: usize,
    /// Limit of the seconds that results wait in links of a feed; None: any.
    pub latency_s: Option<f64>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            confidence: 0.975,
            min_gain: 0.01,
            observed_windows: 3,
            max_groups: 5,
            min_payback: 6.0,
            max_trials: 40,
            max_retries: 4,
            quiet_windows: 16,
            latency_s: None,
        }
    }
}

impl ControllerOptions {
    pub(super) fn check(&self) -> Result<(), TuneError> {
        let place = "ControllerOptions";
        let is_part = |value: f64| value > 0.5 && value < 1.0;
        TuneError::unless(self.cores > 0, "cores", self.cores, "at least 1", place)?;
        TuneError::unless(
            is_part(self.confidence),
            "confidence",
            self.confidence,
            "above 0.5 and below 1",
            place,
        )?;
        TuneError::unless(
            (0.0..1.0).contains(&self.min_gain),
            "min_gain",
            self.min_gain,
            "0 or more and below 1",
            place,
        )?;
        TuneError::unless(
            self.observed_windows > 0,
            "observed_windows",
            self.observed_windows,
            "at least 1",
            place,
        )?;
        TuneError::unless(
            self.max_groups > 1,
            "max_groups",
            self.max_groups,
            "at least 2",
            place,
        )?;
        TuneError::unless(
            self.min_payback.is_finite() && self.min_payback >= 0.0,
            "min_payback",
            self.min_payback,
            "0 or more",
            place,
        )?;
        TuneError::unless(
            self.latency_s.is_none_or(|latency| latency > 0.0),
            "latency_s",
            self.latency_s.unwrap_or_default(),
            "above 0",
            place,
        )
    }
}
