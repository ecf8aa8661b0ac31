//! What a [`Controller`] does when the load changes: up at once, down late.
//!
//! More threads and replicas are not worth a trial while a feed runs over: a configuration that was kept at such a load,
//! or the model's proposal, is applied, then checked over a few windows, and rolled back if it is worse. Fewer are tried
//! only after many windows in which the plan kept up; after each change at once, twice as many.

use super::candidates::{Candidate, Corrections, model_optimum};
use super::load::{deviation, log_rate};
use super::model_check::CheckedGains;
use super::quick_check::{QuickCheck, QuickResult};
use super::trial::{Gain, Trial};
use super::{Controller, Decision, Outcome, StageCosts, State};
use crate::{Configuration, Window};

/// Windows in a row after which a feed is no longer kept up with.
const BEHIND_WINDOWS: usize = 3;
/// Least predicted gain of a change without a trial.
const MIN_GAIN_AT_ONCE: f64 = 0.1;
/// Most times that the windows before fewer threads are tried double.
const MAX_PATIENCE: u32 = 4;
/// Decisions remembered: a run of weeks makes any number of them.
const MAX_DECISIONS: usize = 128;

pub(super) enum LoadChange {
    /// By this factor.
    Throughput(f64),
    /// The feed is no longer kept up with.
    Behind,
}

/// How a plan keeps up with its feed.
#[derive(Default)]
pub(super) struct FeedWatch {
    /// It kept up when it was last looked at.
    keeps_up: bool,
    /// Windows in a row that kept up.
    quiet: usize,
    /// Logarithms of the rates of the last windows in a row that did not, at most [`BEHIND_WINDOWS`].
    behind: Vec<f64>,
    /// Changes at once so far.
    raised: u32,
}

impl FeedWatch {
    /// A window under the kept configuration.
    fn add(&mut self, window: &Window) {
        if window.starved {
            self.quiet += 1;
            self.behind.clear();
            return;
        }
        self.quiet = 0;
        if self.behind.len() == BEHIND_WINDOWS {
            self.behind.remove(0);
        }
        self.behind.push(log_rate(window.rate()));
    }

    /// Deviation of the logarithm of throughput while the plan was behind, window by window.
    pub(super) fn deviation_behind(&self) -> f64 {
        deviation(&self.behind)
    }
}

impl Controller {
    /// Counts a window under the kept configuration; whether the feed is no longer kept up with.
    pub(super) fn falls_behind(&mut self, window: &Window) -> bool {
        self.feed.add(window);
        self.feed.keeps_up && self.feed.behind.len() == BEHIND_WINDOWS
    }

    pub(super) fn note_feed(&mut self, costs: &StageCosts) {
        self.feed.keeps_up = costs.keeps_up;
    }

    /// Whether the plan has kept up long enough for fewer threads and replicas.
    pub(super) fn is_quiet(&self) -> bool {
        let needed = self.options.quiet_windows << self.feed.raised.min(MAX_PATIENCE);
        self.feed.quiet >= needed
    }

    /// Fewer threads and replicas are tried late; other changes at any time.
    pub(super) fn may_reduce(&self) -> bool {
        !self.feed.keeps_up || self.is_quiet()
    }

    /// `noise`: deviation of the logarithm of throughput, window by window.
    pub(super) fn load_changed(
        &mut self,
        window: &Window,
        change: LoadChange,
        noise: f64,
    ) -> State {
        let falls_behind = self.feed.keeps_up && !window.starved;
        let regressed = matches!(change, LoadChange::Throughput(ratio) if ratio < 1.0);
        // Of a feed that is kept up with, throughput says nothing of the configuration.
        let back = self.before.take().filter(|_| regressed && !window.starved);
        let reason = match change {
            LoadChange::Throughput(ratio) => {
                format!("the throughput is {ratio:.2} times that of before")
            }
            LoadChange::Behind => "the plan no longer keeps up with its sources".into(),
        };
        self.push_decision(Outcome::LoadChanged, self.kept.clone(), reason, None, None);
        self.forget_load();
        self.slots.doubt();
        self.feed.quiet = 0;
        self.feed.behind.clear();
        self.observed = vec![window.clone()];
        let Some(costs) = StageCosts::of(&self.observed) else {
            // Nothing was delivered: else the same change is found every three windows until something is.
            self.feed.keeps_up = window.starved;
            return State::Observe;
        };
        if falls_behind {
            self.settled.exclude(&self.kept, &costs);
        }
        self.note_feed(&costs);
        if let Some((to, reason, gain)) = self.more_at_once(&costs, falls_behind) {
            return self.apply_at_once(to, reason, gain, window, noise);
        }
        match back {
            None => State::Observe,
            Some(configuration) => {
                let reason = "throughput fell after the last change";
                let candidate = Candidate::back_to(configuration, reason);
                let trial = Trial::new(costs.keeps_up, &self.observed);
                State::Try(Box::new((candidate, trial)))
            }
        }
    }

    /// What was learnt at the load so far.
    pub(super) fn forget_load(&mut self) {
        self.forget_trials();
        self.knows_default = self.default.as_ref() == Some(&self.kept);
        self.corrections = Corrections::default();
        self.checked = CheckedGains::default();
        self.doubted = None;
        self.trials = 0;
    }

    /// A configuration with more threads or replicas, the reason, and the predicted gain.
    fn more_at_once(
        &self,
        costs: &StageCosts,
        falls_behind: bool,
    ) -> Option<(Configuration, String, Option<f64>)> {
        if costs.keeps_up {
            return None;
        }
        let kept = &self.kept;
        let is_more = |one: &Configuration| {
            let replicas = one.replicas.iter().zip(&kept.replicas);
            one != kept
                && one.workers >= kept.workers
                && replicas.clone().all(|(then, now)| then >= now)
                && (one.workers > kept.workers || one.replicas != kept.replicas)
                && (falls_behind || !self.rejected_sizes.contains(one))
        };
        if let Some(known) = self.settled.fitting(costs, falls_behind, is_more) {
            return Some((known.clone(), "it was kept at such a load".into(), None));
        }
        let best = model_optimum(costs, kept, &self.limits, &self.options)?;
        let gain = best.promised_gain(MIN_GAIN_AT_ONCE);
        let is_wanted = gain.is_some() && is_more(&best.configuration);
        is_wanted.then_some((best.configuration, best.reason, gain))
    }

    fn apply_at_once(
        &mut self,
        to: Configuration,
        reason: String,
        gain: Option<f64>,
        window: &Window,
        noise: f64,
    ) -> State {
        self.feed.raised += 1;
        self.push_decision(Outcome::Applied, to.clone(), reason.clone(), gain, None);
        self.slots.keep(&self.kept, &to, &self.limits);
        let before = std::mem::replace(&mut self.kept, to);
        State::Check(Box::new(QuickCheck::new(
            before, reason, gain, window, noise,
        )))
    }

    /// A window after a change at once.
    pub(super) fn check_at_once(&mut self, mut check: Box<QuickCheck>, window: &Window) -> State {
        self.remember(window);
        let Some(result) = check.add(window) else {
            return State::Check(check);
        };
        self.observed.clear();
        let (gain, outcome) = match result {
            QuickResult::Worse(gain) => (Some(gain), Outcome::RolledBack),
            QuickResult::Better(gain) => (Some(gain), Outcome::Kept),
            // A trial finds out; on a feed fewer threads are tried late.
            QuickResult::Unclear(gain) => {
                if !window.starved {
                    self.doubted = Some(check.before.clone());
                }
                (gain, Outcome::Kept)
            }
        };
        let QuickCheck {
            before,
            reason,
            predicted_gain,
            ..
        } = *check;
        let to = self.kept.clone();
        if outcome == Outcome::RolledBack {
            self.rejected_sizes.add(&to, &before);
            self.slots.keep(&to, &before, &self.limits);
            self.kept = before.clone();
        } else {
            self.before = Some(before.clone());
        }
        self.push_decision(outcome, to, reason, predicted_gain, gain);
        if let Some(last) = self.decisions.last_mut() {
            last.from = before;
        }
        State::Observe
    }

    pub(super) fn push_decision(
        &mut self,
        outcome: Outcome,
        to: Configuration,
        reason: String,
        predicted_gain: Option<f64>,
        gain: Option<Gain>,
    ) {
        if self.decisions.len() == MAX_DECISIONS {
            self.decisions.remove(0);
        }
        self.decisions.push(Decision {
            at_s: self.elapsed_s,
            outcome,
            from: self.kept.clone(),
            to,
            reason,
            predicted_gain,
            gain,
            alternatives: Vec::new(),
        });
    }
}
