//! [`RunningTasks`]: measures running tasks, and changes their size and how many threads execute them.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use isochrony_runtime::StageTime;
use isochrony_tune::{
    Configuration, ConfigurationLimits, MIN_ADVICE_GAIN, TaskSizeAdvice, TaskTimes,
};

use super::parallel_subgraph::ParallelSubgraph;
use super::split::SplitPlan;
use super::task_output::TaskScheduler;
use super::task_sizes::{TaskSize, TaskSizes};
use crate::PlanError;
use crate::engine::advice::{Advice, AdvisedChange, AdvisedValue};
use crate::engine::report::{Report, StageMeasurement, StageReport};
use crate::engine::tuning::RunningPlan;

/// All tasks count as one stage with a replica per worker. The caller's thread is not measured.
pub(super) struct RunningTasks {
    scheduler: Arc<TaskScheduler>,
    begun: Instant,
    most: usize,
    active: AtomicUsize,
    sizes: Vec<Arc<TaskSizes>>,
    /// Bytes of samples that the largest task reads at the start, now, and within which limits.
    first_bytes: u64,
    task_bytes: AtomicU64,
    byte_limits: RangeInclusive<u64>,
}

impl RunningTasks {
    /// `on_slots`: of a cluster, which ask for single cells.
    pub(super) fn new(split: &SplitPlan, workers: usize, on_slots: bool) -> Self {
        let changeable = split.sizes.iter();
        let changeable = changeable.filter(|one| !(on_slots && one.size().is_cell));
        let sizes = changeable.clone().map(|one| one.size());
        let first_bytes = sizes.clone().map(|size| size.samples * size.read_bytes);
        let first_bytes = first_bytes.max().unwrap_or(0).max(1);
        // All sizes change by the same factor, each within its own limits.
        let factor = |limit: u64, size: TaskSize| limit as f64 / size.samples.max(1) as f64;
        let (mut least, mut most) = (1.0_f64, 1.0_f64);
        for size in sizes {
            least = least.min(factor(size.least, size));
            most = most.max(factor(size.most, size));
        }
        let bytes = |factor: f64| ((first_bytes as f64 * factor) as u64).max(1);
        Self {
            scheduler: Arc::clone(&split.scheduler),
            begun: Instant::now(),
            most: workers,
            active: AtomicUsize::new(workers),
            sizes: changeable.cloned().collect(),
            first_bytes,
            task_bytes: AtomicU64::new(first_bytes),
            byte_limits: bytes(least)..=bytes(most),
        }
    }

    pub(super) fn consumed_samples(&self) -> u64 {
        self.scheduler.consumed_samples()
    }

    /// What a run that has ended says about its task size.
    pub(super) fn advise_size(&self, subgraphs: &[ParallelSubgraph], report: &Report) -> Advice {
        let unknown = |why: &str| Advice::none(format!("task size: nothing can be said: {why}"));
        let [subgraph] = subgraphs else {
            return unknown("tasks of several parts of the plan have sizes of their own");
        };
        let size = subgraph.size;
        // Each cell is computed by itself, however many a task has.
        let around = match size.is_cell {
            true => 0,
            false => subgraph.plan.overlap.samples(),
        };
        let busy: Duration = report.workers.iter().map(|one| one.work.busy).sum();
        let times = TaskTimes {
            workers: report.workers.len(),
            tasks: report.workers.iter().map(|one| one.work.items).sum(),
            task_bytes: self.first_bytes,
            around_bytes: around.saturating_mul(size.read_bytes),
            least_bytes: *self.byte_limits.start(),
            most_bytes: *self.byte_limits.end(),
            elapsed_s: report.elapsed.as_secs_f64(),
            busy_s: busy.as_secs_f64(),
            consumer_wait_s: self.scheduler.consumer_wait().as_secs_f64(),
        };
        match times.advice() {
            Err(why) => unknown(&why),
            Ok(TaskSizeAdvice { task_bytes, .. }) if task_bytes == self.first_bytes => {
                Advice::none(format!(
                    "task size: as it is; no other is predicted to gain {:.0} % by less work around tasks, less handing \
                     out or less waiting at the end; what caches gain shows only in trials (tune=True)",
                    100.0 * MIN_ADVICE_GAIN
                ))
            }
            Ok(TaskSizeAdvice { task_bytes, gain }) => Advice {
                text: format!(
                    "task_bytes={task_bytes} instead of {}: predicted {:+.1} % by what tasks took, without what caches \
                     gain or lose",
                    self.first_bytes,
                    100.0 * gain
                ),
                change: Some(AdvisedChange {
                    value: AdvisedValue::TaskBytes(task_bytes),
                    gain,
                }),
            },
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
            task_bytes: self.task_bytes.load(Ordering::Relaxed),
            batch_tasks: 0,
        }
    }

    fn limits(&self) -> ConfigurationLimits {
        ConfigurationLimits {
            min_workers: 1,
            workers: self.most,
            replicas: vec![self.most],
            min_link_bytes: 1,
            max_link_bytes: u64::MAX,
            min_task_bytes: *self.byte_limits.start(),
            max_task_bytes: *self.byte_limits.end(),
            max_batch_tasks: 0,
        }
    }

    fn set_workers(&self, workers: usize) {
        self.active.store(workers, Ordering::Relaxed);
        self.scheduler.set_workers(workers);
    }

    fn set_task_bytes(&self, bytes: u64) {
        self.task_bytes.store(bytes, Ordering::Relaxed);
        let factor = bytes as f64 / self.first_bytes as f64;
        self.sizes.iter().for_each(|one| one.set_factor(factor));
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
