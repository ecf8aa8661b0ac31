//! Trials in windows A B B A, where A is the present configuration.

use std::fmt;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics as _;

use super::ControllerOptions;
use crate::Window;

/// A measured gain with its confidence interval; 0.1 is 10 %. Of throughput or, if the plan keeps up with a feed, of
/// processor time per sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Geometric mean of the groups.
    pub mean: f64,
    /// Lower bound; None after a single group.
    pub low: Option<f64>,
    /// Upper bound; None after a single group.
    pub high: Option<f64>,
    /// Groups of windows.
    pub groups: usize,
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+.1} %", 100.0 * self.mean)?;
        match (self.low, self.high) {
            (Some(low), Some(high)) => {
                write!(f, " ({:+.1} to {:+.1})", 100.0 * low, 100.0 * high)
            }
            _ => Ok(()),
        }
    }
}

pub(super) enum TrialState {
    Running,
    Gain(Gain),
    NoGain(Gain),
    /// Noise leaves open whether the candidate gains.
    Undecided(Gain),
}

const ORDER: [bool; 4] = [false, true, true, false];

/// Candidates that lose more in their first windows are dropped at once.
const MAX_LOSS: f64 = 0.25;
/// Deviations of a window that a certain loss exceeds: three of the mean of two windows against one.
const CERTAIN_DEVIATIONS: f64 = 3.0 * 1.225;
/// Beyond this loss, saved processor time does not count.
const MAX_RATE_LOSS: f64 = 0.01;

pub(super) struct Trial {
    /// Deviation of the logarithm of the rate, window by window.
    noise: f64,
    /// Processor time per sample counts instead of throughput.
    saves_time: bool,
    /// Logarithms of the compared quantity, in the present group.
    group: Vec<f64>,
    rates: Vec<f64>,
    /// Logarithms of the gains, by group.
    gains: Vec<f64>,
    rate_gains: Vec<f64>,
    /// Under the candidate: seconds that results waited in links, summed over windows; windows that kept up.
    wait_s: f64,
    quiet: usize,
}

impl Trial {
    /// `before`: windows under the present configuration.
    pub(super) fn new(saves_time: bool, before: &[Window]) -> Self {
        Self {
            noise: deviation(before),
            saves_time,
            group: Vec::with_capacity(ORDER.len()),
            rates: Vec::with_capacity(ORDER.len()),
            gains: Vec::new(),
            rate_gains: Vec::new(),
            wait_s: 0.0,
            quiet: 0,
        }
    }

    pub(super) fn saves_time(&self) -> bool {
        self.saves_time
    }

    pub(super) fn tries_candidate(&self) -> bool {
        ORDER[self.group.len()]
    }

    /// `link_bytes`: of the candidate.
    pub(super) fn add(
        &mut self,
        window: &Window,
        link_bytes: &[u64],
        options: &ControllerOptions,
    ) -> TrialState {
        if self.tries_candidate() {
            self.wait_s += window.link_wait_s(link_bytes);
            self.quiet += usize::from(window.starved);
        }
        // An empty window counts as very slow.
        let delivered = window.delivered.max(f64::MIN_POSITIVE.sqrt());
        let rate = (delivered / window.elapsed_s).ln();
        let value = match self.saves_time {
            true => (delivered / window.cpu_s.max(1e-9)).ln(),
            false => rate,
        };
        self.group.push(value);
        self.rates.push(rate);
        if self.gains.is_empty() && self.group.len() == 3 {
            let gain = (self.group[1] + self.group[2]) / 2.0 - self.group[0];
            if gain < -MAX_LOSS {
                let is_certain = gain + CERTAIN_DEVIATIONS * self.noise < 0.0;
                let gain = Gain {
                    mean: gain.exp_m1(),
                    low: None,
                    high: None,
                    groups: 1,
                };
                return match is_certain {
                    true => TrialState::NoGain(gain),
                    false => TrialState::Undecided(gain),
                };
            }
        }
        if self.group.len() < ORDER.len() {
            return TrialState::Running;
        }
        self.gains.push(group_gain(&self.group));
        self.rate_gains.push(group_gain(&self.rates));
        self.group.clear();
        self.rates.clear();
        self.judge(options)
    }

    fn judge(&self, options: &ControllerOptions) -> TrialState {
        let gain = gain(&self.gains, options.confidence);
        let (Some(low), Some(high)) = (gain.low, gain.high) else {
            return TrialState::Running;
        };
        let costs_more = self.loses_rate(options) || self.falls_behind() || self.is_late(options);
        if low > 0.0 && gain.mean >= options.min_gain && !costs_more {
            return TrialState::Gain(gain);
        }
        if high < options.min_gain || costs_more {
            return TrialState::NoGain(gain);
        }
        match self.gains.len() >= options.max_groups {
            true => TrialState::Undecided(gain),
            false => TrialState::Running,
        }
    }

    /// The candidate hardly keeps up with the feed: the next small rise would be too much.
    fn falls_behind(&self) -> bool {
        self.saves_time && self.quiet < self.gains.len()
    }

    /// Of a feed that is kept up with, results wait longer than they may.
    fn is_late(&self, options: &ControllerOptions) -> bool {
        let windows = (2 * self.gains.len()).max(1) as f64;
        let wait_s = self.wait_s / windows;
        self.saves_time && options.latency_s.is_some_and(|most| wait_s > most)
    }

    /// Certainly: windows with few items differ by chance.
    fn loses_rate(&self, options: &ControllerOptions) -> bool {
        let high = gain(&self.rate_gains, options.confidence).high;
        self.saves_time && high.is_some_and(|high| high < -MAX_RATE_LOSS)
    }
}

/// Of the logarithm of the rate. NaN for fewer than two windows, with which nothing is certain.
fn deviation(windows: &[Window]) -> f64 {
    let rates = windows
        .iter()
        .map(|window| window.rate().max(f64::MIN_POSITIVE).ln());
    rates.std_dev()
}

fn group_gain(values: &[f64]) -> f64 {
    (values[1] + values[2] - values[0] - values[3]) / 2.0
}

/// Mean and bounds, by Student's t.
fn gain(gains: &[f64], confidence: f64) -> Gain {
    let groups = gains.len();
    let mean = gains.iter().sum::<f64>() / groups as f64;
    let bounds = (groups > 1).then(|| {
        let squares: f64 = gains.iter().map(|one| (one - mean).powi(2)).sum();
        let freedom = (groups - 1) as f64;
        let error = (squares / freedom / groups as f64).sqrt();
        // `freedom` is at least 1, as required.
        let quantile = StudentsT::new(0.0, 1.0, freedom)
            .map_or(f64::INFINITY, |student| student.inverse_cdf(confidence));
        // Two groups may agree by chance.
        let error = error.max(MIN_ERROR / (groups as f64).sqrt());
        quantile * error
    });
    Gain {
        mean: mean.exp_m1(),
        low: bounds.map(|bound| (mean - bound).exp_m1()),
        high: bounds.map(|bound| (mean + bound).exp_m1()),
        groups,
    }
}

/// Least standard error of one group.
const MIN_ERROR: f64 = 0.003;

#[cfg(test)]
mod tests {
    use super::*;

    fn window(samples: f64) -> Window {
        Window {
            elapsed_s: 1.0,
            delivered: samples,
            cpu_s: 1.0,
            ..Window::default()
        }
    }

    fn run(a: impl Fn(usize) -> f64, b: impl Fn(usize) -> f64) -> (TrialState, usize) {
        let options = ControllerOptions::default();
        let mut trial = Trial::new(false, &[window(99.0), window(101.0)]);
        for at in 0.. {
            let rate = match trial.tries_candidate() {
                true => b(at),
                false => a(at),
            };
            let state = trial.add(&window(rate), &[], &options);
            if !matches!(state, TrialState::Running) {
                return (state, at + 1);
            }
        }
        unreachable!("a trial ends after max_groups groups");
    }

    #[test]
    fn a_clear_gain_is_kept_after_two_groups() {
        let (state, windows) = run(|_| 100.0, |_| 140.0);
        let TrialState::Gain(gain) = state else {
            panic!("rejected");
        };
        assert!((gain.mean - 0.4).abs() < 1e-12);
        assert_eq!(windows, 8);
    }

    #[test]
    fn a_loss_within_the_noise_is_undecided() {
        let options = ControllerOptions::default();
        let mut trial = Trial::new(false, &[window(100.0), window(30.0), window(180.0)]);
        for rate in [100.0, 60.0] {
            assert!(matches!(
                trial.add(&window(rate), &[], &options),
                TrialState::Running
            ));
        }
        assert!(matches!(
            trial.add(&window(60.0), &[], &options),
            TrialState::Undecided(_)
        ));
    }

    #[test]
    fn drift_of_the_machine_is_no_gain() {
        let slower = |at: usize| 100.0 * 0.98f64.powi(at as i32);
        let (state, _) = run(slower, slower);
        let TrialState::NoGain(gain) = state else {
            panic!("kept");
        };
        assert!(gain.mean.abs() < 1e-12);
    }

    #[test]
    fn a_gain_within_the_noise_is_undecided() {
        let noisy = |at: usize| 100.0 * (1.0 + 0.4 * (at as f64 * 2.4).sin());
        let (state, windows) = run(noisy, |at| 1.05 * noisy(at));
        assert!(matches!(state, TrialState::Undecided(_)));
        assert_eq!(windows, 20);
    }

    #[test]
    fn a_much_slower_candidate_is_given_up_after_three_windows() {
        let (state, windows) = run(|_| 100.0, |_| 50.0);
        assert!(matches!(state, TrialState::NoGain(_)));
        assert_eq!(windows, 3);
    }

    #[test]
    fn bounds_are_those_of_students_t() {
        // Quantile 0.975, two degrees of freedom, from tables: 4.3027.
        let gain = gain(&[0.1, 0.2, 0.3], 0.975);
        let error = (0.01f64 / 3.0).sqrt();
        let low = (0.2 - 4.3027 * error).exp_m1();
        assert!((gain.low.unwrap() - low).abs() < 1e-4, "{gain:?} {low}");
        assert_eq!(gain.groups, 3);
    }

    #[test]
    fn a_saving_of_time_does_not_count_where_throughput_falls() {
        let options = ControllerOptions::default();
        let mut trial = Trial::new(true, &[]);
        for _ in 0..8 {
            let (delivered, cpu_s) = match trial.tries_candidate() {
                true => (90.0, 0.5),
                false => (100.0, 1.0),
            };
            let window = Window {
                elapsed_s: 1.0,
                delivered,
                cpu_s,
                starved: true,
                ..Window::default()
            };
            match trial.add(&window, &[], &options) {
                TrialState::Running => {}
                TrialState::Gain(gain) | TrialState::Undecided(gain) => panic!("kept with {gain}"),
                TrialState::NoGain(_) => return,
            }
        }
        panic!("not decided");
    }
}
