//! [`PolledTuning`]: tunes a run read at arbitrary times.
//!
//! A window ends at the first reading after [`MIN_WINDOW_S`] with [`MIN_RESULTS`] results, or after [`MAX_WINDOW_S`].

use super::{TuningReport, TuningSession};
use crate::{Configuration, StageWindow, Window};

/// Shortest window, in seconds.
pub const MIN_WINDOW_S: f64 = 0.04;
/// Longest window, in seconds.
pub const MAX_WINDOW_S: f64 = 0.5;
/// Results wanted per window.
pub const MIN_RESULTS: u64 = 8;

/// Counters of a run since its start.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunCounters {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// What has reached the end: bytes, tasklets.
    pub delivered: f64,
    /// The same for the whole run; None if unknown.
    pub total: Option<f64>,
    /// Results so far: buffers, tasklets.
    pub results: u64,
    /// Counters by stage.
    pub stages: Vec<StageWindow>,
}

/// Tunes one run from its counters.
pub struct PolledTuning {
    session: TuningSession,
    begun: RunCounters,
}

impl PolledTuning {
    /// A run at its start.
    #[must_use]
    pub fn new(session: TuningSession) -> Self {
        Self {
            session,
            begun: RunCounters::default(),
        }
    }

    /// The configuration for the present window.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        self.session.configuration()
    }

    /// Takes a reading. Returns a new configuration if a window ends and changes it.
    pub fn poll(&mut self, counters: RunCounters) -> Option<&Configuration> {
        let elapsed_s = counters.elapsed_s - self.begun.elapsed_s;
        let results = counters.results.saturating_sub(self.begun.results);
        let is_over =
            elapsed_s >= MAX_WINDOW_S || elapsed_s >= MIN_WINDOW_S && results >= MIN_RESULTS;
        if !is_over {
            return None;
        }
        let window = window(&self.begun, &counters);
        let remaining_s = counters
            .total
            .filter(|_| window.delivered > 0.0)
            .map(|total| (total - counters.delivered).max(0.0) / window.rate());
        self.begun = counters;
        let before = self.session.configuration().clone();
        let next = self.session.observe(&window, remaining_s);
        (*next != before).then_some(next)
    }

    /// Takes a reading at which throughput says nothing of the configuration: a window begins there.
    pub fn skip(&mut self, counters: RunCounters) {
        self.begun = counters;
    }

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> &TuningReport {
        self.session.report()
    }
}

fn window(from: &RunCounters, to: &RunCounters) -> Window {
    let before = from.stages.iter().copied();
    let before = before.chain(std::iter::repeat(StageWindow::default()));
    let stages = to.stages.iter().zip(before).map(|(now, then)| StageWindow {
        items: now.items - then.items,
        busy_s: now.busy_s - then.busy_s,
        input_wait_s: now.input_wait_s - then.input_wait_s,
        output_wait_s: now.output_wait_s - then.output_wait_s,
        core_wait_s: now.core_wait_s - then.core_wait_s,
    });
    Window {
        elapsed_s: to.elapsed_s - from.elapsed_s,
        delivered: to.delivered - from.delivered,
        stages: stages.collect(),
        ..Window::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigurationLimits, ControllerOptions, Outcome, TuningMode};

    fn tuned(
        mode: TuningMode,
        workers: usize,
        total: f64,
        poll_s: f64,
        rate: impl Fn(usize) -> f64,
    ) -> PolledTuning {
        let limits = ConfigurationLimits {
            min_workers: 1,
            workers: 4,
            replicas: vec![4],
            min_link_bytes: 1,
            max_link_bytes: u64::MAX,
            min_task_bytes: 0,
            max_task_bytes: 0,
            max_batch_tasks: 0,
        };
        let own = Configuration {
            workers,
            replicas: vec![4],
            link_bytes: Vec::new(),
            task_bytes: 0,
            batch_tasks: 0,
        };
        let options = ControllerOptions {
            cores: 4,
            ..ControllerOptions::default()
        };
        let session = TuningSession::new(mode, own, limits, options).expect("within the limits");
        let mut tuning = PolledTuning::new(session);
        let (mut counters, mut workers) = (RunCounters::default(), workers);
        counters.total = Some(total);
        counters.stages = vec![StageWindow::default()];
        while counters.delivered < total {
            counters.elapsed_s += poll_s;
            counters.delivered += rate(workers) * poll_s;
            counters.results = counters.delivered as u64 / 10;
            counters.stages[0].busy_s += workers as f64 * poll_s;
            if let Some(next) = tuning.poll(counters.clone()) {
                workers = next.workers;
            }
        }
        tuning
    }

    #[test]
    fn a_run_that_scales_gets_all_workers() {
        let tuning = tuned(TuningMode::Change, 1, 1e5, 0.025, |workers| {
            1000.0 * workers as f64
        });
        let report = tuning.report();
        assert_eq!(report.configuration.as_ref().unwrap().workers, 4);
        assert_eq!(report.decisions[0].outcome, Outcome::Kept);
        assert!((report.rate / 4000.0 - 1.0).abs() < 1e-9, "{}", report.rate);
    }

    #[test]
    fn workers_that_hinder_each_other_are_taken_away() {
        let tuning = tuned(TuningMode::Change, 4, 1e5, 0.025, |workers| {
            1000.0 / workers as f64
        });
        assert_eq!(tuning.report().configuration.as_ref().unwrap().workers, 1);
    }

    #[test]
    fn a_short_run_is_left_alone() {
        let tuning = tuned(TuningMode::Change, 1, 500.0, 0.025, |workers| {
            1000.0 * workers as f64
        });
        let outcomes: Vec<Outcome> = (tuning.report().decisions.iter())
            .map(|one| one.outcome)
            .collect();
        assert_eq!(outcomes, [Outcome::TooShort]);
        assert_eq!(tuning.report().configuration.as_ref().unwrap().workers, 1);
    }

    #[test]
    fn windows_are_as_long_as_their_results_need() {
        // 100 results a second: 8 take 80 ms, 4 readings. One in 5 s: half a second.
        for (rate, windows) in [(1000.0, 12), (2.0, 2)] {
            let tuning = tuned(TuningMode::Measure, 1, rate, 0.02, |_| rate);
            assert_eq!(tuning.report().windows, windows, "{rate}");
        }
    }

    #[test]
    fn what_was_skipped_is_in_no_window() {
        let mut tuning = tuned(TuningMode::Measure, 1, 10.0, 0.025, |_| 1000.0);
        let windows = tuning.report().windows;
        let counters = |elapsed_s, delivered| RunCounters {
            elapsed_s,
            delivered,
            stages: vec![StageWindow::default()],
            ..RunCounters::default()
        };
        for at in 1..100 {
            tuning.skip(counters(f64::from(at), f64::from(at)));
        }
        assert_eq!(tuning.report().windows, windows);
        tuning.poll(counters(100.0, 2099.0));
        assert_eq!(tuning.report().windows, windows + 1);
        assert!((tuning.report().rate - 2000.0).abs() < 1e-6);
    }

    #[test]
    fn a_recommendation_changes_nothing() {
        let tuning = tuned(TuningMode::Recommend, 1, 5000.0, 0.025, |workers| {
            assert_eq!(workers, 1);
            1000.0
        });
        let report = tuning.report();
        assert_eq!(report.configuration.as_ref().unwrap().workers, 4);
        assert!((report.predicted_gain.unwrap() - 3.0).abs() < 0.01);
        assert!(report.decisions.is_empty());
    }

    #[test]
    fn the_model_is_reported_where_configurations_are_chosen() {
        let own = Configuration {
            workers: 1,
            replicas: vec![4],
            link_bytes: Vec::new(),
            task_bytes: 0,
            batch_tasks: 0,
        };
        for (mode, chooses) in [
            (TuningMode::Change, true),
            (TuningMode::ChangeFrom(own.clone()), true),
            (TuningMode::Recommend, true),
            (TuningMode::Measure, false),
            (TuningMode::Apply(own), false),
        ] {
            let tuning = tuned(mode.clone(), 1, 500.0, 0.025, |_| 1000.0);
            assert!(tuning.report().windows > 0);
            assert_eq!(tuning.report().model.is_some(), chooses, "{mode:?}");
        }
    }
}
