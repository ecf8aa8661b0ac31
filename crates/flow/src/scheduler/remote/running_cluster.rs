//! [`RunningCluster`]: measures tasks on a cluster, and changes their size, how many a message carries, and how many
//! slots are given any.

use std::sync::Arc;

use isochrony_tune::{Configuration, ConfigurationLimits};

use super::active_slots::ActiveSlots;
use crate::PlanError;
use crate::engine::report::StageMeasurement;
use crate::engine::tuning::{RunningPlan, SlotCounts};
use crate::scheduler::running_tasks::RunningTasks;

/// All tasks count as one stage with a replica for each slot.
pub(crate) struct RunningCluster {
    tasks: RunningTasks,
    slots: Arc<ActiveSlots>,
    /// Tasks go where their data are: a slot that is not used would keep what its host has.
    uses_all: bool,
    max_batch: usize,
}

impl RunningCluster {
    pub(super) fn new(
        tasks: RunningTasks,
        slots: &Arc<ActiveSlots>,
        uses_all: bool,
        max_batch: usize,
    ) -> Self {
        Self {
            tasks,
            slots: Arc::clone(slots),
            uses_all,
            max_batch,
        }
    }

    fn min_used(&self, present: usize) -> usize {
        match self.uses_all {
            true => present,
            false => 1,
        }
    }
}

impl RunningPlan for RunningCluster {
    fn is_staged(&self) -> bool {
        false
    }

    fn names(&self) -> Vec<String> {
        self.tasks.names()
    }

    fn configuration(&self) -> Configuration {
        let (present, used) = self.slots.counts();
        Configuration {
            workers: used,
            replicas: vec![present],
            batch_tasks: self.slots.batch_tasks(),
            ..self.tasks.configuration()
        }
    }

    fn limits(&self) -> ConfigurationLimits {
        let (present, _) = self.slots.counts();
        ConfigurationLimits {
            min_workers: self.min_used(present),
            workers: present,
            replicas: vec![present],
            max_batch_tasks: self.max_batch,
            ..self.tasks.limits()
        }
    }

    fn set_workers(&self, workers: usize) {
        self.slots.set_limit(workers);
    }

    fn set_task_bytes(&self, bytes: u64) {
        self.tasks.set_task_bytes(bytes);
    }

    fn set_batch_tasks(&self, tasks: usize) {
        self.slots.set_batch_tasks(tasks);
    }

    /// The cluster has as many slots as it has.
    fn set_replicas(&self, _: usize, _: usize) -> Result<(), PlanError> {
        Ok(())
    }

    fn set_link_capacity(&self, link: usize, bytes: u64) -> Result<(), PlanError> {
        self.tasks.set_link_capacity(link, bytes)
    }

    fn measurement(&self) -> StageMeasurement {
        let mut measurement = self.tasks.measurement();
        let (_, tasks) = self.slots.messages();
        measurement
            .stages
            .iter_mut()
            .for_each(|one| one.items = tasks);
        measurement
    }

    fn slots(&self) -> Option<SlotCounts> {
        let (present, _) = self.slots.counts();
        Some(SlotCounts {
            present,
            min_used: self.min_used(present),
            consumed_samples: self.tasks.consumed_samples(),
            are_joining: self.slots.are_joining(),
            messages: self.slots.messages().0,
            window_messages: self.slots.window_messages(),
        })
    }

    fn set_enough_slots(&self, slots: Option<usize>) {
        self.slots.set_enough(slots);
    }
}
