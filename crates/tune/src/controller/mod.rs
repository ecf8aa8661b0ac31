//! [`Controller`]: changes the configuration of a running plan if paired trials show a gain.
//!
//! ```text
//!            windows            candidates, best first           A B B A, A B B A, ...
//!  observe ------------> model --------------------> trial -------------------------> keep or reject
//!     ^                                                                                     |
//!     |   load changed                                              no candidate is left    |
//!     +------------------------------- watch <----------------------------------------------+
//! ```
//!
//! - *Observe*: counters give each stage's computing time per sample ([`StageCosts`]).
//! - *Model*: the flow model predicts each candidate's throughput (`candidates`), corrected by measured gains of the
//!   same kind. Where it sees no gain, a bounded local search continues. Once its predictions were off by more than
//!   the assumption that a change gains as much as the last one of its kind, local search goes on alone
//!   (`model_check`). The configuration of a run that is not tuned is a candidate, too.
//! - *Trial*: windows under the present configuration (A) and the candidate (B) alternate, which cancels drift. The
//!   first window after each change is discarded. A candidate is kept once the lower confidence bound of its gain is
//!   above zero (`trial`), and dropped once the upper bound is below `min_gain`.
//! - *Watch*: a change of the load discards what was learnt (`load`). More threads and replicas are then applied at once
//!   and checked afterwards (`load_change`), but those that were rejected in a trial only if a feed is not kept up with.
//!   After a fall soon after a kept change, the earlier configuration is tried first. Candidates about which noise left
//!   it open whether they gain, and rejected ones of which the model promises much, are tried again after some time, the
//!   most promising one first, at most `max_retries` times: another program may have taken a core meanwhile.
//!
//! Throughput counts behind the last stage. If the plan has kept up with a feed for some time, fewer threads and
//! replicas are tried, and kept if they save processor time per sample, within the limit of latency.
//!
//! No clock and no threads: takes [`Window`]s and returns a [`Configuration`] for the next.

mod candidates;
mod decision;
mod load;
mod load_change;
mod model_check;
mod options;
mod quick_check;
mod rejected_sizes;
mod settled_loads;
mod slots;
mod stage_costs;
mod trial;

pub use decision::{Decision, Outcome};
pub use model_check::ModelCheck;
pub use options::ControllerOptions;
pub use stage_costs::{Bottleneck, StageCosts};
pub use trial::Gain;

use std::collections::HashSet;

use crate::{Configuration, ConfigurationLimits, TuneError, Window};
use candidates::{Candidate, Corrections, candidates, model_optimum};
use load::LoadWatch;
use load_change::{FeedWatch, LoadChange};
use model_check::CheckedGains;
use quick_check::QuickCheck;
use rejected_sizes::RejectedSizes;
use settled_loads::SettledLoads;
use slots::SlotChoice;
use trial::{Trial, TrialState};

/// Windows between the last trial and the first repeated one; doubles with each.
const RETRY_WINDOWS: usize = 32;

/// Least promised gain that pays for its trial in about as long again.
const SOON_PAID: f64 = 0.1;

/// How often a candidate without gain is tried again although the model promises much.
const MAX_DOUBTS: u8 = 2;

/// Two groups of four windows, and one discarded after each change.
const SHORTEST_TRIAL: f64 = 13.0;

enum State {
    Observe,
    Try(Box<(Candidate, Trial)>),
    Watch {
        load: LoadWatch,
        windows: usize,
        /// Fewer threads are tried once the plan has kept up for long enough.
        awaits_quiet: bool,
    },
    /// A change without a trial.
    Check(Box<QuickCheck>),
}

/// Tunes one run. See the module's documentation.
pub struct Controller {
    options: ControllerOptions,
    limits: ConfigurationLimits,
    /// The configuration of a run that is not tuned.
    default: Option<Configuration>,
    /// It was kept or rejected under the present load.
    knows_default: bool,
    slots: SlotChoice,
    kept: Configuration,
    before: Option<Configuration>,
    state: State,
    /// The last windows under `kept`.
    observed: Vec<Window>,
    /// The next window is discarded.
    settles: bool,
    /// Candidates without gain under the present load.
    rejected: HashSet<Configuration>,
    /// Candidates that may gain, with bounds of their gains, in order of these.
    undecided: Vec<(Candidate, f64)>,
    retries: usize,
    corrections: Corrections,
    checked: CheckedGains,
    settled: SettledLoads,
    feed: FeedWatch,
    /// The configuration before a change at once of which it is not clear whether it gained.
    doubted: Option<Configuration>,
    rejected_sizes: RejectedSizes,
    trials: usize,
    elapsed_s: f64,
    decisions: Vec<Decision>,
}

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
            slots: SlotChoice::of(&start, &limits),
            limits,
            default: None,
            knows_default: false,
            kept: start,
            before: None,
            state: State::Observe,
            observed: Vec::new(),
            settles: true,
            rejected: HashSet::new(),
            undecided: Vec::new(),
            retries: 0,
            corrections: Corrections::default(),
            checked: CheckedGains::default(),
            settled: SettledLoads::default(),
            feed: FeedWatch::default(),
            doubted: None,
            rejected_sizes: RejectedSizes::default(),
            trials: 0,
            elapsed_s: 0.0,
            decisions: Vec::new(),
        })
    }

    /// Tries `default`, the configuration of a run that is not tuned, too, if it is within the limits.
    #[must_use]
    pub fn with_default(mut self, default: Configuration) -> Self {
        let links = self.kept.link_bytes.len();
        self.knows_default = default == self.kept;
        self.default = (self.limits.check(&default, links).is_ok()).then_some(default);
        self
    }

    /// The configuration for the next window.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        match &self.state {
            State::Try(trial) if trial.1.tries_candidate() => &trial.0.configuration,
            _ => &self.kept,
        }
    }

    /// The best configuration so far, kept last.
    #[must_use]
    pub fn kept(&self) -> &Configuration {
        &self.kept
    }

    /// Whether no candidate is left.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(
            self.state,
            State::Watch {
                awaits_quiet: false,
                ..
            }
        )
    }

    /// The newest decisions, in order.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The bottleneck; None before the first window.
    #[must_use]
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        let costs = StageCosts::of(&self.observed)?;
        Some(costs.bottleneck(&self.kept, self.options.cores))
    }

    /// Predicted samples per second; None before the first window.
    #[must_use]
    pub fn predicted_rate(&self) -> Option<f64> {
        StageCosts::of(&self.observed)?.predict(&self.kept, self.options.cores)
    }

    /// Whether the flow model chooses the candidates, and why.
    #[must_use]
    pub fn model_check(&self) -> ModelCheck {
        self.checked.check(self.options.min_gain)
    }

    /// The model's recommended configuration, with its predicted gain. None without samples, or without a gain worth a
    /// change.
    #[must_use]
    pub fn recommendation(&self) -> Option<(Configuration, f64)> {
        let costs = StageCosts::of(&self.observed).filter(|costs| !costs.keeps_up)?;
        let best = model_optimum(&costs, &self.kept, &self.limits, &self.options)?;
        let gain = best.promised_gain(self.options.min_gain)?;
        Some((best.configuration, gain))
    }

    /// Records a window and changes nothing.
    pub fn note(&mut self, window: &Window) {
        self.elapsed_s += window.elapsed_s;
        self.remember(window);
    }

    /// Takes a window under [`configuration`](Self::configuration) and returns the configuration for the next one.
    /// `remaining_s`: seconds left at the present rate; None if unknown, infinite if the run never ends.
    pub fn observe(&mut self, window: &Window, remaining_s: Option<f64>) -> &Configuration {
        self.elapsed_s += window.elapsed_s;
        if std::mem::take(&mut self.settles) || window.elapsed_s <= 0.0 {
            return self.configuration();
        }
        let before = self.configuration().clone();
        let state = std::mem::replace(&mut self.state, State::Observe);
        if self.is_behind(&state, window) {
            let noise = self.feed.deviation_behind();
            self.state = self.load_changed(window, LoadChange::Behind, noise);
            self.settles = before != *self.configuration();
            return self.configuration();
        }
        match state {
            State::Check(check) => self.state = self.check_at_once(check, window),
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
                let link_bytes = &trial.0.configuration.link_bytes;
                let state = trial.1.add(window, link_bytes, &self.options);
                if let TrialState::Gain(gain) | TrialState::NoGain(gain) = &state
                    && !trial.1.saves_time()
                {
                    self.corrections.learn(&trial.0, *gain);
                    self.checked.add(&self.kept, &trial.0, *gain);
                }
                if matches!(state, TrialState::Gain(_) | TrialState::NoGain(_)) {
                    self.knows_default |= self.default.as_ref() == Some(&trial.0.configuration);
                }
                self.state = match state {
                    TrialState::Running => State::Try(trial),
                    TrialState::Gain(gain) => self.keep(trial.0, gain),
                    TrialState::NoGain(gain) => {
                        self.decide(&trial.0, Some(gain), Outcome::Rejected);
                        self.rejected_sizes.add(&trial.0.configuration, &self.kept);
                        match trial.0.large_gain() {
                            Some(promised) if trial.0.repeats < MAX_DOUBTS => {
                                self.try_again_later(trial.0, promised);
                            }
                            _ => _ = self.rejected.insert(trial.0.configuration),
                        }
                        self.next_trial(remaining_s)
                    }
                    TrialState::Undecided(gain) => {
                        self.decide(&trial.0, Some(gain), Outcome::Undecided);
                        // Without an interval the prediction is all there is.
                        let bound = gain.high.or(trial.0.predicted_gain).unwrap_or(gain.mean);
                        self.try_again_later(trial.0, bound);
                        self.next_trial(remaining_s)
                    }
                };
            }
            State::Watch {
                mut load,
                windows,
                awaits_quiet,
            } => {
                self.remember(window);
                self.state = match load.add(window.rate()) {
                    Some(ratio) => {
                        let noise = load.deviation();
                        self.load_changed(window, LoadChange::Throughput(ratio), noise)
                    }
                    None if awaits_quiet && self.is_quiet() => self.next_trial(remaining_s),
                    None => match self.due_retry(windows, remaining_s) {
                        Some(candidate) => self.try_out(candidate),
                        None => State::Watch {
                            load,
                            windows: windows + 1,
                            awaits_quiet,
                        },
                    },
                };
            }
        }
        self.settles = before != *self.configuration();
        self.configuration()
    }

    /// A feed that was kept up with has not been for some windows of the kept configuration.
    fn is_behind(&mut self, state: &State, window: &Window) -> bool {
        match state {
            State::Try(trial) if trial.1.tries_candidate() => false,
            State::Try(_) | State::Observe | State::Watch { .. } | State::Check(_) => {
                self.falls_behind(window)
            }
        }
    }

    fn remember(&mut self, window: &Window) {
        if self.observed.len() == REMEMBERED_WINDOWS {
            self.observed.remove(0);
        }
        self.observed.push(window.clone());
    }

    fn keep(&mut self, candidate: Candidate, gain: Gain) -> State {
        self.decide(&candidate, Some(gain), Outcome::Kept);
        (self.slots).keep(&self.kept, &candidate.configuration, &self.limits);
        let earlier = std::mem::replace(&mut self.kept, candidate.configuration);
        self.rejected_sizes.add(&earlier, &self.kept);
        self.before = Some(earlier);
        // They may gain beside this one.
        self.forget_trials();
        self.observed.clear();
        State::Observe
    }

    fn forget_trials(&mut self) {
        self.rejected.clear();
        self.undecided.clear();
        self.retries = 0;
    }

    fn decide(&mut self, candidate: &Candidate, gain: Option<Gain>, outcome: Outcome) {
        self.push_decision(
            outcome,
            candidate.configuration.clone(),
            candidate.reason.clone(),
            candidate.predicted_gain,
            gain,
        );
        if let Some(last) = self.decisions.last_mut() {
            last.alternatives.clone_from(&candidate.alternatives);
        }
    }

    /// `bound`: of its gain.
    fn try_again_later(&mut self, candidate: Candidate, bound: f64) {
        let place = self.undecided.partition_point(|(_, other)| *other < bound);
        self.undecided.insert(place, (candidate, bound));
    }

    /// The undecided candidate that may gain most, once it may be tried again.
    fn due_retry(&mut self, windows: usize, remaining_s: Option<f64>) -> Option<Candidate> {
        let is_due = windows >= RETRY_WINDOWS << self.retries.min(16)
            && self.retries < self.options.max_retries
            && self.may_try()
            && self.may_reduce()
            && self.pays(None, remaining_s);
        let (mut candidate, _) = self.undecided.pop_if(|_| is_due)?;
        candidate.repeats += 1;
        self.retries += 1;
        Some(candidate)
    }

    fn watch(&mut self, costs: &StageCosts) -> State {
        self.settled.remember(&self.kept, costs);
        State::Watch {
            load: LoadWatch::new(&self.observed),
            windows: 0,
            awaits_quiet: costs.keeps_up && !self.is_quiet(),
        }
    }

    fn may_try(&self) -> bool {
        self.trials < self.options.max_trials
    }

    /// Whether enough of the run is left for a trial. A run of unknown length is expected to last as long again as it
    /// has so far; a promised gain that soon pays for its trial need not wait for that.
    fn pays(&self, candidate: Option<&Candidate>, remaining_s: Option<f64>) -> bool {
        let window_s = self.observed.last().map_or(0.0, |last| last.elapsed_s);
        let needed = self.options.min_payback * SHORTEST_TRIAL * window_s;
        let promises = |one: &Candidate| one.predicted_gain.is_some_and(|gain| gain >= SOON_PAID);
        match remaining_s {
            Some(remaining) => remaining >= needed,
            None => self.elapsed_s >= needed || candidate.is_some_and(promises),
        }
    }

    fn try_out(&mut self, candidate: Candidate) -> State {
        self.trials += 1;
        let keeps_up = StageCosts::of(&self.observed).is_some_and(|costs| costs.keeps_up);
        State::Try(Box::new((candidate, Trial::new(keeps_up, &self.observed))))
    }

    fn next_trial(&mut self, remaining_s: Option<f64>) -> State {
        let Some(costs) = StageCosts::of(&self.observed) else {
            return State::Observe;
        };
        self.note_feed(&costs);
        if costs.keeps_up {
            self.settled.remember(&self.kept, &costs);
        }
        if !self.may_try() || !self.may_reduce() {
            return self.watch(&costs);
        }
        let Some(candidate) = self.next_candidate(&costs) else {
            return self.watch(&costs);
        };
        if self.pays(Some(&candidate), remaining_s) {
            self.doubted = None;
            return self.try_out(candidate);
        }
        if remaining_s.is_none() {
            return State::Observe;
        }
        if !matches!(self.decisions.last(), Some(last) if last.outcome == Outcome::TooShort) {
            self.decide(&candidate, None, Outcome::TooShort);
        }
        self.watch(&costs)
    }

    fn next_candidate(&self, costs: &StageCosts) -> Option<Candidate> {
        if let Some(before) = &self.doubted {
            let reason = "it is not clear whether the change at once gained";
            return Some(Candidate::back_to(before.clone(), reason));
        }
        let links = self.kept.link_bytes.len();
        // The number of a cluster's slots may have changed.
        let is_possible = |one: &&Configuration| self.limits.check(one, links).is_ok();
        let default = (self.default.as_ref()).filter(|_| !self.knows_default);
        let default = default.filter(is_possible);
        let mut all = candidates(
            costs,
            &self.kept,
            default,
            &self.limits,
            &self.options,
            &self.corrections,
            self.model_check().is_trusted,
        );
        all.retain(|one| {
            let is_undecided =
                |(other, _): &(Candidate, f64)| other.configuration == one.configuration;
            let is_too_small =
                costs.keeps_up && self.settled.is_too_small(&one.configuration, costs);
            let is_known = self.rejected.contains(&one.configuration)
                || self.undecided.iter().any(is_undecided);
            !is_known && !is_too_small
        });
        if all.is_empty() {
            return None;
        }
        let mut candidate = all.remove(0);
        candidate.alternatives = all
            .iter()
            .map(|one| (one.configuration.clone(), one.predicted_gain))
            .collect();
        Some(candidate)
    }
}
