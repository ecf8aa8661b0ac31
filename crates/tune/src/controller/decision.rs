//! [`Decision`]: what a controller decided, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::trial::Gain;
use crate::Configuration;

/// Alternatives in a line of a decision.
const SHOWN_ALTERNATIVES: usize = 3;

/// How a decision ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The candidate gained and was kept.
    Kept,
    /// The candidate does not gain.
    Rejected,
    /// The candidate may gain, but not certainly; it may be tried again.
    Undecided,
    /// The load changed.
    LoadChanged,
    /// Applied without a trial after a change of the load; it is checked next.
    Applied,
    /// Applied without a trial, and taken back since it was worse.
    RolledBack,
    /// Too little is left for a trial.
    TooShort,
}

/// One decision of a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Seconds since the start of the run.
    pub at_s: f64,
    /// How it ended.
    pub outcome: Outcome,
    /// The configuration before.
    pub from: Configuration,
    /// The candidate.
    pub to: Configuration,
    /// Why it was tried, or what happened.
    pub reason: String,
    /// Share of the throughput; None without a prediction.
    pub predicted_gain: Option<f64>,
    /// Measured gain.
    pub gain: Option<Gain>,
    /// Other candidates with predicted gains, best first.
    pub alternatives: Vec<(Configuration, Option<f64>)>,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:.2} s: ", self.at_s)?;
        match self.outcome {
            Outcome::LoadChanged => return write!(f, "the load changed: {}", self.reason),
            Outcome::Kept => write!(f, "kept {}", self.to)?,
            Outcome::Applied => write!(f, "applied {} at once", self.to)?,
            Outcome::RolledBack => write!(f, "went back from {}", self.to)?,
            Outcome::Rejected => write!(f, "rejected {}", self.to)?,
            Outcome::Undecided => write!(f, "no certain gain by {}", self.to)?,
            Outcome::TooShort => write!(f, "did not try {}: the run ends too soon", self.to)?,
        }
        write!(f, " ({}", self.reason)?;
        if let Some(gain) = self.predicted_gain {
            write!(f, "; predicted {:+.1} %", 100.0 * gain)?;
        }
        if let Some(gain) = self.gain {
            write!(f, "; measured {gain}")?;
        }
        for (at, (other, gain)) in self
            .alternatives
            .iter()
            .take(SHOWN_ALTERNATIVES)
            .enumerate()
        {
            let start = if at == 0 { "; behind it" } else { "," };
            write!(f, "{start} {}", other.differences_from(&self.to))?;
            if let Some(gain) = gain {
                write!(f, " {:+.1} %", 100.0 * gain)?;
            }
        }
        match self.alternatives.len().saturating_sub(SHOWN_ALTERNATIVES) {
            0 => {}
            more => write!(f, ", and {more} more")?,
        }
        write!(f, ")")
    }
}
