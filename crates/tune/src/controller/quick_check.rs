//! [`QuickCheck`]: windows after a change that was made without a trial, against the one before it.

use super::load::{deviation, log_rate, mean};
use super::trial::Gain;
use crate::{Configuration, Window};

/// Windows under the new configuration.
const CHECKED_WINDOWS: usize = 3;
/// Of a certain difference: Student's t, 97.5 %, four degrees of freedom (three windows before, three after).
const STANDARD_ERRORS: f64 = 2.776;

/// How a change turned out.
pub(super) enum QuickResult {
    /// Not certainly better or worse. None if the feed was kept up with: its throughput was measured, not the plan's.
    Unclear(Option<Gain>),
    Better(Gain),
    Worse(Gain),
}

pub(super) struct QuickCheck {
    pub(super) before: Configuration,
    pub(super) reason: String,
    pub(super) predicted_gain: Option<f64>,
    log_rate: f64,
    /// Deviation of the logarithm of the rate before, window by window.
    noise: f64,
    /// Under the new configuration.
    log_rates: Vec<f64>,
    /// One of these windows kept up with the feed.
    keeps_up: bool,
}

impl QuickCheck {
    /// `last`: the window before the change.
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
            log_rate: log_rate(last.rate()),
            noise,
            log_rates: Vec::with_capacity(CHECKED_WINDOWS),
            keeps_up: false,
        }
    }

    /// None before enough windows.
    pub(super) fn add(&mut self, window: &Window) -> Option<QuickResult> {
        self.log_rates.push(log_rate(window.rate()));
        self.keeps_up |= window.starved;
        let windows = self.log_rates.len();
        if windows < CHECKED_WINDOWS {
            return None;
        }
        if self.keeps_up {
            return Some(QuickResult::Unclear(None));
        }
        let mean = mean(&self.log_rates) - self.log_rate;
        // Few windows may agree by chance, and those of a feed that was kept up with have its noise.
        let noise = deviation(&self.log_rates).max(self.noise);
        let bound = STANDARD_ERRORS * noise * (1.0 + 1.0 / windows as f64).sqrt();
        let gain = Gain {
            mean: mean.exp_m1(),
            low: None,
            high: None,
            groups: 1,
        };
        Some(match mean {
            mean if mean > bound => QuickResult::Better(gain),
            mean if mean < -bound => QuickResult::Worse(gain),
            _ => QuickResult::Unclear(Some(gain)),
        })
    }
}
