//! [`ClockConfig`] and the constants behind its automatic values.

use serde::{Deserialize, Serialize};

use crate::{Fixed, Rate, TimeError};

/// Standard deviation of a true rate about the stated one: crystals are good to
/// 100 parts per million.
pub(crate) const PRIOR_SIGMA: f64 = 100e-6;
/// Standard deviations that a stated uncertainty covers.
pub(crate) const COVER: f64 = 3.5;
/// No rate within a run strays further than this from the reference.
pub(crate) const HARD_SLOPE: f64 = 0.01;
/// Stamps no finer than this, ns, are held to their resolution while rounding
/// alone explains them: it is all they say.
pub(crate) const COARSE_NS: f64 = 5e7;
/// Latency that a coarse resolution may hide, as a share of it.
pub(crate) const ROOM: f64 = 0.05;
/// Latency of stamps that a busy system may show before their scatter is known, ns.
pub(crate) const LATENCY_NS: f64 = 5e6;
/// Scatter that is always assumed before it is known, ns.
pub(crate) const GUESS_NS: f64 = 1e5;
/// No rate is claimed to be known better than this.
pub(crate) const FLOOR_SLOPE: f64 = 5e-9;
/// How far a rate may wander between two stamps.
pub(crate) const WANDER: f64 = 1e-6;

/// How far a true rate may be from one that is off the nominal rate by `slope`;
/// `None` where that is more than crystals do.
pub(crate) fn prior_reach(slope: f64) -> Option<f64> {
    let reach = COVER * PRIOR_SIGMA;
    (slope.abs() <= reach).then_some(reach + slope.abs())
}

/// Options of a [`crate::Clock`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClockConfig {
    /// Nominal sample rate.
    pub nominal: Rate,
    /// Weight of the past in the running rate estimate, per stamp, in (0, 1].
    ///
    /// The estimate remembers about `1 / (1 - alpha)` stamps: with the default,
    /// 0.95, and files of 30 s, ten minutes, short enough to follow a crystal
    /// through a day's temperatures and long enough for microsecond stamps with
    /// 50 us of jitter to give the rate to some 0.02 ppm. 1 never forgets.
    pub alpha: f64,
    /// Largest disagreement, in either direction, that is no gap and no step.
    ///
    /// `None`, the default: the greater of half a sample period and 2.5
    /// resolutions plus fifteen standard deviations of the measured jitter, plus
    /// what the rate's uncertainty amounts to since the last stamp. Until the
    /// jitter has been measured (some 14 stamps): half a period and the
    /// resolution, plus what a crystal may be off. Stamps above 1.7 kHz that are
    /// finer than 100 us must then also be off by whole samples, up to 2.5
    /// periods, since computers write them late. A stated value is used as it is,
    /// unless stamps are too coarse for it.
    pub gap_slip_ns: Option<f64>,
    /// Longest gap that takes its full length on the index axis. Default 30 days.
    pub max_gap_ns: Fixed,
    /// A better guess of the rate than `nominal`, where one is known.
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

    /// The rate that slopes are relative to.
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
