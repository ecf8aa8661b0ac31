//! [`RunningTasks`]: measures running tasks, and changes how many workers execute them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use isochrony_runtime::StageTime;
use isochrony_tune::{Configuration, ConfigurationLimits};

use super::task_output::TaskScheduler;
use crate::PlanError;
use crate::engine::report::{StageMeasurement, StageReport};
use crate::engine::tuning::RunningPlan;

/// All tasks count as one stage with a replica per worker. The caller's thread is not measured.
pub(super) struct RunningTasks {
    scheduler: Arc<TaskScheduler>,
    begun: Instant,
    most: usize,
    active: AtomicUsize,
}

impl RunningTasks {
    pub(super) fn new(scheduler: &Arc<TaskScheduler>, workers: usize) -> Self {
        Self {
            scheduler: Arc::clone(scheduler),
            begun: Instant::now(),
            most: workers,
            active: AtomicUsize::new(workers),
        }
    }
}

impl RunningPlan for RunningTasks {
    fn is_staged(&self) -> bool {
        false
    }

    fn names(&self) -> Vec<String> {
        vec!["tasks".into()]
    }

    fn configuration(&self) -> Configuration {
        Configuration {
            workers: self.active.load(Ordering::Relaxed),
            replicas: vec![self.most],
            link_bytes: Vec::new(),
        }
    }

    fn limits(&self) -> ConfigurationLimits {
        ConfigurationLimits {
            min_workers: 1,
            workers: self.most,
            replicas: vec![self.most],
            min_link_bytes: 1,
            max_link_bytes: u64::MAX,
        }
    }

    fn set_workers(&self, workers: usize) {
        self.active.store(workers, Ordering::Relaxed);
        self.scheduler.set_workers(workers);
    }

    fn set_replicas(&self, _: usize, _: usize) -> Result<(), PlanError> {
        Err(PlanError::NoStages { running: true })
    }

    fn set_link_capacity(&self, _: usize, _: u64) -> Result<(), PlanError> {
        Err(PlanError::NoStages { running: true })
    }

    fn measurement(&self) -> StageMeasurement {
        let time = StageTime {
            busy: self.scheduler.busy(),
            ..StageTime::default()
        };
        StageMeasurement {
            elapsed: self.begun.elapsed(),
            is_of_stages: false,
            stages: vec![StageReport {
                number: 0,
                replica: None,
                operators: Vec::new(),
                items: 0,
                bytes: 0,
                time,
                cpu: Duration::ZERO,
            }],
            links: Vec::new(),
        }
    }
}
