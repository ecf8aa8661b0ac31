//! [`QuickCheck`]: windows after a change that was made without a trial, against the one before it.

use super::trial::Gain;
use crate::{Configuration, Window};

/// Windows under the new configuration.
const CHECKED_WINDOWS: usize = 3;
/// Standard errors of a certain difference.
const CERTAIN: f64 = 2.0;

/// How a change turned out.
pub(super) enum QuickResult {
    /// Not certainly better or worse.
    Unclear(Gain),
    Better(Gain),
    Worse(Gain),
}

pub(super) struct QuickCheck {
    /// The configuration before.
    pub(super) before: Configuration,
    pub(super) reason: String,
    pub(super) predicted_gain: Option<f64>,
    log_rate: f64,
    /// Deviation of the logarithm of the rate, window by window.
    noise: f64,
    log_rates: Vec<f64>,
}

impl QuickCheck {
    /// `last`: the window before the change; `noise`: as the field.
    pub(super) fn new(
        before: Configuration,
        reason: String,
        predicted_gain: Option<f64>,
        last: &Window,
        noise: f64,
    ) -> Self {
        Self {
            before,
            reason,
            predicted_gain,
            log_rate: log_rate(last),
            noise,
            log_rates: Vec::with_capacity(CHECKED_WINDOWS),
        }
    }

    /// None before enough windows.
    pub(super) fn add(&mut self, window: &Window) -> Option<QuickResult> {
        self.log_rates.push(log_rate(window));
        let windows = self.log_rates.len();
        if windows < CHECKED_WINDOWS {
            return None;
        }
        let mean = self.log_rates.iter().sum::<f64>() / windows as f64 - self.log_rate;
        let bound = CERTAIN * self.noise * (1.0 + 1.0 / windows as f64).sqrt();
        let gain = Gain {
            mean: mean.exp_m1(),
            low: Some((mean - bound).exp_m1()),
            high: Some((mean + bound).exp_m1()),
            groups: 1,
        };
        Some(match mean {
            mean if mean > bound => QuickResult::Better(gain),
            mean if mean < -bound => QuickResult::Worse(gain),
            _ => QuickResult::Unclear(gain),
        })
    }
}

fn log_rate(window: &Window) -> f64 {
    window.rate().max(f64::MIN_POSITIVE.sqrt()).ln()
}
