//! [`Controller`]: changes the configuration of a running plan, and keeps a change only if paired trials show a gain.
//!
//! ```text
//!            windows            candidates, best first           A B B A, A B B A, ...
//!  observe ------------> model --------------------> trial -------------------------> keep or reject
//!     ^                                                                                     |
//!     |   load changed                                              no candidate is left    |
//!     +------------------------------- watch <----------------------------------------------+
//! ```
//!
//! - *Observe*: the time that each stage computes for one sample comes from its counters ([`StageCosts`]).
//! - *Model*: the flow model predicts the throughput of each candidate (`candidates`). The measured gain of each trial
//!   corrects later predictions of the same kind. Where the model sees no gain, a bounded local search goes on.
//! - *Trial*: windows under the present configuration (A) and the candidate (B) alternate, so that drift of the machine
//!   cancels out. The first window after each change is discarded, since queues settle. A candidate is kept once the
//!   lower confidence bound of its gain is above zero (`trial`), and given up once the upper bound is.
//! - *Watch*: a change of the load, up or down, discards what was learnt (`load`). After a fall soon after a kept change
//!   the earlier configuration is tried first.
//!
//! What counts is throughput behind the last stage. On a feed that the plan keeps up with, throughput is that of the
//! feed: fewer threads and replicas are then tried, and kept if processor time per sample falls while the plan keeps up.
//!
//! The controller has no clock and no threads: a run, or a simulation of one, gives it [`Window`]s, and it says which
//! [`Configuration`] the next one has.

mod candidates;
mod decision;
mod load;
mod stage_costs;
mod trial;

pub use decision::{Decision, Outcome};
pub use stage_costs::{Bottleneck, StageCosts};
pub use trial::Gain;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::{Configuration, ConfigurationLimits, TuneError, Window};
use candidates::{Candidate, Corrections, candidates, model_optimum};
use load::LoadWatch;
use trial::{Trial, TrialState};

/// How a [`Controller`] decides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControllerOptions {
    /// Cores that the run may use: the model expects no gain from more threads.
    pub cores: usize,
    /// One-sided confidence of a gain, above 0.5 and below 1.
    pub confidence: f64,
    /// Smallest gain that is worth a change, as a part of the throughput.
    pub min_gain: f64,
    /// Windows that are observed before the first trial, at least 1.
    pub observed_windows: usize,
    /// Groups of windows `A B B A` after which a candidate without a certain gain is given up, at least 2.
    pub max_groups: usize,
    /// A trial begins only if what is left of the run takes at least so many times as long as the shortest trial.
    pub min_payback: f64,
    /// Trials until the load changes.
    pub max_trials: usize,
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
        }
    }
}

/// Windows of the shortest trial that can end in a decision: two groups of four, and one discarded after each change.
const SHORTEST_TRIAL: f64 = 13.0;

enum State {
    Observe,
    Try(Box<(Candidate, Trial)>),
    Watch(LoadWatch),
}

/// Tunes one run. See the module's documentation.
pub struct Controller {
    options: ControllerOptions,
    limits: ConfigurationLimits,
    /// What was kept last.
    kept: Configuration,
    /// What was kept before that.
    before: Option<Configuration>,
    state: State,
    /// Windows under `kept` since the load changed last; the last few.
    observed: Vec<Window>,
    /// The next window is discarded: the configuration has just changed.
    settles: bool,
    /// Candidates that gained nothing under the present load.
    rejected: HashSet<Configuration>,
    corrections: Corrections,
    trials: usize,
    elapsed_s: f64,
    decisions: Vec<Decision>,
}

/// Windows that estimates are made of.
const REMEMBERED_WINDOWS: usize = 8;

impl Controller {
    /// Begins with `start`.
    ///
    /// # Errors
    /// [`TuneError::OtherPlan`], or [`TuneError::Parameter`] of the configuration or the options.
    pub fn new(
        start: Configuration,
        limits: ConfigurationLimits,
        options: ControllerOptions,
    ) -> Result<Self, TuneError> {
        limits.check(&start, start.link_bytes.len())?;
        options.check()?;
        Ok(Self {
            options,
            limits,
            kept: start,
            before: None,
            state: State::Observe,
            observed: Vec::new(),
            settles: true,
            rejected: HashSet::new(),
            corrections: Corrections::default(),
            trials: 0,
            elapsed_s: 0.0,
            decisions: Vec::new(),
        })
    }

    /// The configuration for the next window.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        match &self.state {
            State::Try(trial) if trial.1.tries_candidate() => &trial.0.configuration,
            _ => &self.kept,
        }
    }

    /// The best configuration so far: what was kept last.
    #[must_use]
    pub fn kept(&self) -> &Configuration {
        &self.kept
    }

    /// No candidate is left to try, until the load changes.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.state, State::Watch(_))
    }

    /// What was decided so far, in order.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// What limits the plan under the kept configuration; None before the first window.
    #[must_use]
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        let costs = StageCosts::of(&self.observed)?;
        Some(costs.bottleneck(&self.kept, self.options.cores))
    }

    /// Samples per second that the model predicts for the kept configuration; None before the first window.
    #[must_use]
    pub fn predicted_rate(&self) -> Option<f64> {
        StageCosts::of(&self.observed)?.predict(&self.kept, self.options.cores)
    }

    /// What the model recommends without a trial: a configuration with its predicted gain. None if no sample was seen, or
    /// if the model expects no gain that is worth a change.
    #[must_use]
    pub fn recommendation(&self) -> Option<(Configuration, f64)> {
        let costs = StageCosts::of(&self.observed).filter(|costs| !costs.keeps_up)?;
        let best = model_optimum(&costs, &self.kept, &self.limits, self.options.cores)?;
        let gain = best
            .predicted_gain
            .filter(|&gain| gain >= self.options.min_gain)?;
        Some((best.configuration, gain))
    }

    /// Notes a window without changing anything.
    pub fn note(&mut self, window: &Window) {
        self.elapsed_s += window.elapsed_s;
        self.remember(window);
    }

    /// Takes what happened under [`configuration`](Self::configuration) since the last call. `remaining_s`: seconds
    /// that the rest of the run will take at the present rate; None if it is not known.
    ///
    /// Returns the configuration for the next window.
    pub fn observe(&mut self, window: &Window, remaining_s: Option<f64>) -> &Configuration {
        self.elapsed_s += window.elapsed_s;
        if std::mem::take(&mut self.settles) || window.elapsed_s <= 0.0 {
            return self.configuration();
        }
        let before = self.configuration().clone();
        match std::mem::replace(&mut self.state, State::Observe) {
            State::Observe => {
                self.remember(window);
                if self.observed.len() >= self.options.observed_windows {
                    self.state = self.next_trial(remaining_s);
                }
            }
            State::Try(mut trial) => {
                if !trial.1.tries_candidate() {
                    self.remember(window);
                }
                self.state = match trial.1.add(window, &self.options) {
                    TrialState::Running => State::Try(trial),
                    TrialState::Gain(gain) => self.keep(trial.0, gain),
                    TrialState::NoGain(gain) => {
                        self.reject(&trial.0, gain);
                        self.next_trial(remaining_s)
                    }
                };
            }
            State::Watch(mut watch) => {
                self.remember(window);
                self.state = match watch.add(window.rate()) {
                    None => State::Watch(watch),
                    Some(ratio) => self.load_changed(window, ratio),
                };
            }
        }
        self.settles = before != *self.configuration();
        self.configuration()
    }

    fn remember(&mut self, window: &Window) {
        if self.observed.len() == REMEMBERED_WINDOWS {
            self.observed.remove(0);
        }
        self.observed.push(window.clone());
    }

    fn keep(&mut self, candidate: Candidate, gain: Gain) -> State {
        self.corrections.learn(&candidate, gain);
        self.decisions.push(Decision {
            at_s: self.elapsed_s,
            outcome: Outcome::Kept,
            from: self.kept.clone(),
            to: candidate.configuration.clone(),
            reason: candidate.reason,
            predicted_gain: candidate.predicted_gain,
            gain: Some(gain),
            alternatives: candidate.alternatives,
        });
        let earlier = std::mem::replace(&mut self.kept, candidate.configuration);
        self.before = Some(earlier);
        // They lost against another configuration, and may gain beside this one.
        self.rejected.clear();
        self.observed.clear();
        State::Observe
    }

    fn reject(&mut self, candidate: &Candidate, gain: Gain) {
        self.corrections.learn(candidate, gain);
        self.rejected.insert(candidate.configuration.clone());
        self.decisions.push(Decision {
            at_s: self.elapsed_s,
            outcome: Outcome::Rejected,
            from: self.kept.clone(),
            to: candidate.configuration.clone(),
            reason: candidate.reason.clone(),
            predicted_gain: candidate.predicted_gain,
            gain: Some(gain),
            alternatives: candidate.alternatives.clone(),
        });
    }

    fn next_trial(&mut self, remaining_s: Option<f64>) -> State {
        let watch = || State::Watch(LoadWatch::new(&self.observed));
        let Some(costs) = StageCosts::of(&self.observed) else {
            return State::Observe;
        };
        if self.trials >= self.options.max_trials {
            return watch();
        }
        let mut all = candidates(
            &costs,
            &self.kept,
            &self.limits,
            &self.options,
            &self.corrections,
        );
        all.retain(|one| !self.rejected.contains(&one.configuration));
        if all.is_empty() {
            return watch();
        }
        let mut candidate = all.remove(0);
        candidate.alternatives = all
            .iter()
            .map(|one| (one.configuration.clone(), one.predicted_gain))
            .collect();
        let window_s = self.observed.last().map_or(0.0, |last| last.elapsed_s);
        let needed = self.options.min_payback * SHORTEST_TRIAL * window_s;
        if remaining_s.is_some_and(|remaining| remaining < needed) {
            if !matches!(self.decisions.last(), Some(last) if last.outcome == Outcome::TooShort) {
                self.decisions.push(Decision {
                    at_s: self.elapsed_s,
                    outcome: Outcome::TooShort,
                    from: self.kept.clone(),
                    to: candidate.configuration,
                    reason: candidate.reason,
                    predicted_gain: candidate.predicted_gain,
                    gain: None,
                    alternatives: candidate.alternatives,
                });
            }
            return watch();
        }
        self.trials += 1;
        let saves_time = costs.keeps_up;
        State::Try(Box::new((candidate, Trial::new(saves_time))))
    }

    fn load_changed(&mut self, window: &Window, ratio: f64) -> State {
        let regressed = ratio < 1.0;
        let back = self.before.take().filter(|_| regressed);
        self.decisions.push(Decision {
            at_s: self.elapsed_s,
            outcome: Outcome::LoadChanged,
            from: self.kept.clone(),
            to: self.kept.clone(),
            reason: format!("the throughput is {ratio:.2} times that of before"),
            predicted_gain: None,
            gain: None,
            alternatives: Vec::new(),
        });
        self.rejected.clear();
        self.corrections = Corrections::default();
        self.trials = 0;
        self.observed = vec![window.clone()];
        match back {
            None => State::Observe,
            Some(configuration) => {
                let keeps_up = StageCosts::of(&self.observed).is_some_and(|costs| costs.keeps_up);
                let candidate = Candidate::back_to(configuration);
                State::Try(Box::new((candidate, Trial::new(keeps_up))))
            }
        }
    }
}

impl ControllerOptions {
    fn check(&self) -> Result<(), TuneError> {
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
        )
    }
}
