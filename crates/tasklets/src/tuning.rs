//! [`PoolTuning`]: tunes how many workers take tasklets.
//!
//! [`PolledTuning`] decides, by a flow model of one server with a replica per worker. Throughput is in input and output
//! bytes of finished tasklets, else in tasklets. Replicas cannot be chosen, so external configurations have none.

use std::time::Duration;

use isochrony_runtime::WorkerReport;
use isochrony_tune::{
    Configuration, ConfigurationLimits, ControllerOptions, PolledTuning, RunCounters, StageWindow,
    TuningMode, TuningReport, TuningSession,
};

use crate::error::TaskletError;
use crate::progress::TaskletProgress;

pub(crate) struct PoolTuning {
    tuning: PolledTuning,
}

impl PoolTuning {
    /// Begins with all workers, unless the mode has a configuration.
    pub(crate) fn new(mode: &TuningMode, workers: usize) -> Result<Self, TaskletError> {
        let limits = ConfigurationLimits {
            min_workers: 1,
            workers,
            replicas: vec![workers],
            min_link_bytes: 1,
            max_link_bytes: u64::MAX,
            min_task_bytes: 0,
            max_task_bytes: 0,
            max_batch_tasks: 0,
        };
        let used = |used: usize| Configuration {
            workers: used,
            replicas: vec![workers],
            link_bytes: Vec::new(),
            task_bytes: 0,
            batch_tasks: 0,
        };
        let mode = match mode {
            TuningMode::ChangeFrom(start) => TuningMode::ChangeFrom(used(start.workers)),
            TuningMode::Apply(start) => TuningMode::Apply(used(start.workers)),
            other => other.clone(),
        };
        let options = ControllerOptions::default();
        let session = TuningSession::new(mode, used(workers), limits, options);
        let session = session.map_err(|error| refused(error.to_string()))?;
        Ok(Self {
            tuning: PolledTuning::new(session),
        })
    }

    pub(crate) fn workers(&self) -> usize {
        self.tuning.configuration().workers
    }

    /// Returns the number of workers if it changes. `is_paused`: throughput says nothing of the configuration.
    pub(crate) fn poll(
        &mut self,
        elapsed: Duration,
        workers: &[WorkerReport],
        progress: &TaskletProgress,
        is_paused: bool,
    ) -> Option<usize> {
        let results: u64 = workers.iter().map(|worker| worker.items).sum();
        let busy: Duration = workers.iter().map(|worker| worker.busy).sum();
        let counted = match progress.bytes.total().unwrap_or(0) {
            0 => &progress.tasklets,
            _ => &progress.bytes,
        };
        let counters = RunCounters {
            elapsed_s: elapsed.as_secs_f64(),
            delivered: counted.done() as f64,
            total: counted.total().map(|total| total as f64),
            results,
            stages: vec![StageWindow {
                items: results as f64,
                busy_s: busy.as_secs_f64(),
                ..StageWindow::default()
            }],
        };
        if is_paused {
            self.tuning.skip(counters);
            return None;
        }
        self.tuning.poll(counters).map(|next| next.workers)
    }

    pub(crate) fn report(&self) -> TuningReport {
        let mut report = self.tuning.report().clone();
        let hide = |configuration: &mut Configuration| configuration.replicas.clear();
        report.configuration.iter_mut().for_each(hide);
        for decision in &mut report.decisions {
            hide(&mut decision.from);
            hide(&mut decision.to);
            let alternatives = decision.alternatives.iter_mut();
            alternatives.for_each(|(configuration, _)| hide(configuration));
        }
        report
    }
}

pub(crate) fn check_mode(mode: &TuningMode, workers: usize) -> Result<(), TaskletError> {
    let Some(start) = mode.start() else {
        return Ok(());
    };
    let links = start.link_bytes.len();
    if links > 0 {
        return Err(refused(format!("a configuration with {links} links")));
    }
    if !(1..=workers).contains(&start.workers) {
        let used = start.workers;
        return Err(refused(format!(
            "a configuration with {used} workers, where the executor has {workers}"
        )));
    }
    Ok(())
}

fn refused(got: String) -> TaskletError {
    TaskletError::Option {
        option: "tune",
        got,
        legal: "one of tasklets, with workers from 1 to those of the executor",
    }
}
