//! [`ModelCheck`]: whether the flow model predicts gains better than a plain assumption.
//!
//! The assumption needs no model: a change gains as much as the last one of its kind and direction, the first one
//! nothing. A model that errs more than that would only misorder the candidates.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::candidates::Candidate;
use super::trial::Gain;
use crate::Configuration;

/// Newest trials that are compared.
const COMPARED_TRIALS: usize = 8;
/// Larger gains and losses count as this factor: a window without results would make errors infinite.
const MAX_FACTOR: f64 = 100.0;

/// Errors of predicted gains in the trials so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ModelCheck {
    /// The flow model chooses the candidates; else local search alone does.
    pub is_trusted: bool,
    /// Trials compared; 0: nothing has checked the model yet.
    pub trials: usize,
    /// Mean error of the gains that the flow model predicted, corrected by earlier trials, as a share.
    pub model_error: Option<f64>,
    /// The same of the assumption that a change gains as much as the last one of its kind.
    pub plain_error: Option<f64>,
}

impl ModelCheck {
    /// Name of what chooses the candidates.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.is_trusted {
            true => "flow model",
            false => "local search",
        }
    }
}

impl fmt::Display for ModelCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(model), Some(plain)) = (self.model_error, self.plain_error) else {
            return write!(f, "no trial has checked the flow model yet");
        };
        let trials = match self.trials {
            1 => "1 trial".into(),
            trials => format!("{trials} trials"),
        };
        write!(
            f,
            "in {trials} the flow model's gains were off by {:.1} %, those of the last change of a kind by {:.1} %",
            100.0 * model,
            100.0 * plain
        )
    }
}

/// Predicted and measured gains, as logarithms.
struct CheckedGain {
    model: f64,
    plain: f64,
    measured: f64,
}

/// What the last trials of throughput say about predictions.
#[derive(Default)]
pub(super) struct CheckedGains {
    newest: VecDeque<CheckedGain>,
    /// By kind and direction.
    last: Vec<(Change, f64)>,
}

/// Two changes with the same value are similar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Threads { more: bool },
    Replicas { more: bool },
}

impl Change {
    /// None for links, of which the model predicts nothing.
    fn of(from: &Configuration, to: &Configuration) -> Option<Self> {
        let replicas = |one: &Configuration| one.replicas.iter().sum::<usize>();
        if from.workers != to.workers {
            return Some(Self::Threads {
                more: to.workers > from.workers,
            });
        }
        (from.replicas != to.replicas).then(|| Self::Replicas {
            more: replicas(to) > replicas(from),
        })
    }
}

impl CheckedGains {
    /// A decided trial of throughput.
    pub(super) fn add(&mut self, from: &Configuration, candidate: &Candidate, gain: Gain) {
        let Some(change) = Change::of(from, &candidate.configuration) else {
            return;
        };
        let Some(model) = candidate.corrected_gain.map(log_gain) else {
            return;
        };
        let measured = log_gain(gain.mean);
        let known = self.last.iter_mut().find(|(other, _)| *other == change);
        let plain = match known {
            Some((_, last)) => std::mem::replace(last, measured),
            None => {
                self.last.push((change, measured));
                0.0
            }
        };
        if self.newest.len() == COMPARED_TRIALS {
            self.newest.pop_front();
        }
        self.newest.push_back(CheckedGain {
            model,
            plain,
            measured,
        });
    }

    /// `tolerance`: a difference of errors that is too small to matter.
    pub(super) fn check(&self, tolerance: f64) -> ModelCheck {
        let trials = self.newest.len();
        let mean = |error: fn(&CheckedGain) -> f64| {
            let sum: f64 = self.newest.iter().map(error).sum();
            (trials > 0).then(|| (sum / trials as f64).exp_m1())
        };
        let model_error = mean(|one| (one.model - one.measured).abs());
        let plain_error = mean(|one| (one.plain - one.measured).abs());
        let errors = model_error.zip(plain_error);
        ModelCheck {
            is_trusted: errors.is_none_or(|(model, plain)| model <= plain + tolerance),
            trials,
            model_error,
            plain_error,
        }
    }
}

fn log_gain(gain: f64) -> f64 {
    let most = MAX_FACTOR.ln();
    gain.ln_1p().clamp(-most, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(workers: usize, replicas: usize) -> Configuration {
        Configuration {
            workers,
            replicas: vec![1, replicas],
            link_bytes: vec![1],
            task_bytes: 0,
            batch_tasks: 0,
        }
    }

    fn gain(mean: f64) -> Gain {
        Gain {
            mean,
            low: None,
            high: None,
            groups: 1,
        }
    }

    fn add(gains: &mut CheckedGains, to: Configuration, model: f64, measured: f64) {
        let candidate = Candidate::with_gain(to, model);
        gains.add(&configuration(2, 2), &candidate, gain(measured));
    }

    #[test]
    fn an_unchecked_model_is_trusted() {
        let check = CheckedGains::default().check(0.01);
        assert!(check.is_trusted);
        assert_eq!((check.trials, check.model_error), (0, None));
        assert_eq!(check.to_string(), "no trial has checked the flow model yet");
    }

    #[test]
    fn a_model_that_errs_more_than_no_change_is_not_trusted() {
        let mut gains = CheckedGains::default();
        add(&mut gains, configuration(4, 2), 1.0, 0.05);
        let check = gains.check(0.01);
        assert!(!check.is_trusted);
        // ln(2 / 1.05) and ln(1.05), by hand.
        assert!((check.model_error.unwrap() - (2.0 / 1.05 - 1.0)).abs() < 1e-12);
        assert!((check.plain_error.unwrap() - 0.05).abs() < 1e-12);
        assert_eq!(
            check.to_string(),
            "in 1 trial the flow model's gains were off by 90.5 %, those of the last change of a kind by 5.0 %"
        );
    }

    #[test]
    fn a_model_is_compared_with_the_last_change_of_the_same_kind_and_direction() {
        let mut gains = CheckedGains::default();
        // A right prediction, where the plain assumption is off by 50 %.
        add(&mut gains, configuration(4, 2), 0.5, 0.5);
        assert!(gains.check(0.0).is_trusted);
        // The same again: the last change says it as well.
        add(&mut gains, configuration(4, 2), 0.5, 0.5);
        let check = gains.check(0.0);
        let mean = ((1.5f64).ln() / 2.0).exp_m1();
        assert!((check.plain_error.unwrap() - mean).abs() < 1e-12);
        // Another direction and another kind have no last change: 0.
        for to in [configuration(1, 2), configuration(2, 1)] {
            add(&mut gains, to, 0.0, 0.0);
        }
        let mean = ((1.5f64).ln() / 4.0).exp_m1();
        assert!((gains.check(0.0).plain_error.unwrap() - mean).abs() < 1e-12);
    }

    #[test]
    fn only_the_last_eight_trials_count() {
        let mut gains = CheckedGains::default();
        add(&mut gains, configuration(4, 2), 1e6, 0.1);
        for right in [0.3, 0.1, 0.4, 0.1, 0.5, 0.2, 0.6] {
            add(&mut gains, configuration(4, 2), right, right);
            assert!(!gains.check(0.0).is_trusted);
        }
        add(&mut gains, configuration(4, 2), 0.1, 0.1);
        let check = gains.check(0.0);
        assert!(check.is_trusted);
        assert_eq!((check.trials, check.model_error), (8, Some(0.0)));
    }

    #[test]
    fn windows_without_results_leave_errors_finite() {
        let mut gains = CheckedGains::default();
        for measured in [-1.0, -1.0, 1e150] {
            add(&mut gains, configuration(4, 2), 0.5, measured);
            let check = gains.check(0.0);
            let errors = [check.model_error.unwrap(), check.plain_error.unwrap()];
            assert!(errors.iter().all(|one| one.is_finite()), "{check}");
        }
        // The last change of the kind was a hundredfold gain: a right prediction is better.
        for _ in 0..8 {
            add(&mut gains, configuration(4, 2), -1.0, -1.0);
        }
        assert!(gains.check(0.0).is_trusted);
    }

    #[test]
    fn links_are_not_compared() {
        let mut gains = CheckedGains::default();
        let larger = Configuration {
            link_bytes: vec![2],
            ..configuration(2, 2)
        };
        add(&mut gains, larger, 1.0, 0.0);
        assert_eq!(gains.check(0.0).trials, 0);
    }
}
