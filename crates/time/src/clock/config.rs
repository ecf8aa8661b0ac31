//! Options and constants of [`crate::Clock`].

use serde::{Deserialize, Serialize};

use crate::{Fixed, Rate, TimeError};

/// Standard deviation of true about nominal rates, for crystals.
pub(crate) const PRIOR_SIGMA: f64 = 100e-6;
/// Standard deviations that a stated uncertainty covers.
pub(crate) const COVERAGE_SIGMAS: f64 = 3.5;
/// Largest deviation of a rate from the reference within a run.
pub(crate) const MAX_SLOPE: f64 = 0.01;
/// Coarser stamps are limited by resolution only, as long as rounding explains them, ns.
pub(crate) const COARSE_NS: f64 = 5e7;
/// Latency that a coarse resolution may hide, as a fraction of it.
pub(crate) const HIDDEN_LATENCY: f64 = 0.05;
/// Latency assumed until the scatter is known, ns.
pub(crate) const LATENCY_NS: f64 = 5e6;
/// Scatter assumed until it is known, ns.
pub(crate) const GUESS_NS: f64 = 1e5;
pub(crate) const MIN_SLOPE_UNCERTAINTY: f64 = 5e-9;
/// Wander of a rate between two stamps.
pub(crate) const WANDER: f64 = 1e-6;

/// Deviation of the true rate from one off by `slope`; `None` beyond crystals.
pub(crate) fn prior_reach(slope: f64) -> Option<f64> {
    let reach = COVERAGE_SIGMAS * PRIOR_SIGMA;
    (slope.abs() <= reach).then_some(reach + slope.abs())
}

/// Options of a [`crate::Clock`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClockConfig {
    /// Nominal sample rate.
    pub nominal: Rate,
    /// Weight of the past per stamp, in (0, 1].
    ///
    /// The estimate remembers about `1 / (1 - alpha)` stamps; 1 never forgets. The default, 0.95, is ten minutes for
    /// files of 30 s: it follows a crystal through daily temperatures.
    pub alpha: f64,
    /// Largest disagreement, either way, that is neither gap nor step.
    ///
    /// `None`, the default: the greater of half a sample period and 2.5 resolutions plus 15 standard deviations of
    /// jitter, plus the rate's uncertainty since the last stamp. Until the jitter is known (about 14 stamps): half a
    /// period and the resolution, plus a crystal's tolerance; stamps finer than 100 us above 1.7 kHz must also be off
    /// by whole samples, up to 2.5 periods, since computers write them late. A stated value holds unless stamps are too
    /// coarse.
    pub gap_slip_ns: Option<f64>,
    /// Longest gap that takes its full length on the index axis. Default 30 days.
    pub max_gap_ns: Fixed,
    /// A better estimate, if known.
    pub initial_rate: Option<Rate>,
}

impl ClockConfig {
    /// Defaults for a nominal rate.
    pub fn new(nominal: Rate) -> Self {
        Self {
            nominal,
            alpha: 0.95,
            gap_slip_ns: None,
            max_gap_ns: Fixed::from_int(30 * 86_400 * 1_000_000_000),
            initial_rate: None,
        }
    }

    pub(crate) fn reference(&self) -> Rate {
        self.initial_rate.unwrap_or(self.nominal)
    }

    pub(crate) fn check(&self) -> Result<(), TimeError> {
        let bad = |name, value, legal| Err(TimeError::BadConfig { name, value, legal });
        if !(self.alpha > 0.0 && self.alpha <= 1.0) {
            return bad("alpha", self.alpha, "(0, 1]");
        }
        if let Some(slip) = self.gap_slip_ns
            && !(slip >= 0.0 && slip.is_finite())
        {
            return bad("gap_slip_ns", slip, "0 or more, finite");
        }
        if self.max_gap_ns <= Fixed::ZERO {
            return bad("max_gap_ns", self.max_gap_ns.to_f64(), "above 0");
        }
        Ok(())
    }
}
