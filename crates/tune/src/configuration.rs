//! [`Configuration`]: what can change while a plan runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{FunctionPlace, TuneError};

/// Larger task sizes are no sizes that a longer recording could have had.
const MAX_STATED_BYTES: u64 = i64::MAX as u64;

/// Threads, replicas, link capacities, task size and batches. Results do not depend on them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Computing threads, including the caller's; on a cluster slots that are given tasks; at least 1.
    pub workers: usize,
    /// Replicas of each stage in plan order; 1 where not replicable. For tasks, the most workers; on a cluster, the slots
    /// that there are. Empty: those that the run starts with.
    pub replicas: Vec<usize>,
    /// Bytes each link may hold before its writer waits, in plan order; at least 1. Empty: those that the run starts with.
    pub link_bytes: Vec<u64>,
    /// Approximate bytes of samples that a task reads, without overlap. 0: the size that the run starts with, or no tasks.
    #[serde(default)]
    pub task_bytes: u64,
    /// Tasks that a message to a slot of a cluster carries. 0: as many as take some time, or no cluster.
    #[serde(default)]
    pub batch_tasks: usize,
}

/// What is chosen before a run starts, and stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartSettings {
    /// Each thread keeps to a CPU of its own.
    pub pin: bool,
    /// Names of the I/O strategies of the stored signals, in plan order.
    pub io: Vec<String>,
    /// Number of the stage of each operator, of the plan as it runs; empty where it is not cut.
    #[serde(default)]
    pub cuts: Vec<usize>,
    /// Where each Python function is called, in plan order.
    #[serde(default)]
    pub places: Vec<FunctionPlace>,
}

/// Values allowed by plan, machine and user. Every stage may have 1 replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationLimits {
    /// Fewest threads.
    pub min_workers: usize,
    /// Most threads.
    pub workers: usize,
    /// Most replicas by stage.
    pub replicas: Vec<usize>,
    /// Smallest link capacity in bytes.
    pub min_link_bytes: u64,
    /// Largest link capacity in bytes.
    pub max_link_bytes: u64,
    /// Smallest task size in bytes; 0 where no tasks are executed.
    pub min_task_bytes: u64,
    /// Largest task size in bytes.
    pub max_task_bytes: u64,
    /// Most tasks of a message to a slot of a cluster; 0 where there is none.
    pub max_batch_tasks: usize,
}

impl ConfigurationLimits {
    /// Checks a configuration against the limits.
    ///
    /// # Errors
    /// [`TuneError::Parameter`] or, for another number of stages or links, [`TuneError::OtherPlan`].
    pub fn check(&self, configuration: &Configuration, links: usize) -> Result<(), TuneError> {
        for (what, has, needs) in [
            ("stages", configuration.replicas.len(), self.replicas.len()),
            ("links", configuration.link_bytes.len(), links),
        ] {
            if has != needs {
                return Err(TuneError::OtherPlan { what, has, needs });
            }
        }
        let within = |place: String, value: u64, least: u64, most: u64| match value {
            value if (least..=most).contains(&value) => Ok(()),
            value => Err(TuneError::parameter(
                place,
                value,
                format!("{least} to {most}"),
            )),
        };
        within(
            "workers".into(),
            configuration.workers as u64,
            self.min_workers as u64,
            self.workers as u64,
        )?;
        for (stage, (&replicas, &most)) in configuration
            .replicas
            .iter()
            .zip(&self.replicas)
            .enumerate()
        {
            within(
                format!("replicas[{stage}]"),
                replicas as u64,
                1,
                most as u64,
            )?;
        }
        for (link, &bytes) in configuration.link_bytes.iter().enumerate() {
            let place = format!("link_bytes[{link}]");
            within(place, bytes, self.min_link_bytes, self.max_link_bytes)?;
        }
        within(
            "task_bytes".into(),
            configuration.task_bytes,
            self.min_task_bytes,
            self.max_task_bytes,
        )?;
        within(
            "batch_tasks".into(),
            configuration.batch_tasks as u64,
            0,
            self.max_batch_tasks as u64,
        )
    }
}

impl Configuration {
    /// This configuration for a run with the configuration `own`: with its task size, replicas and links if this one
    /// states none, and with the largest task size that its recording and memory allow if this one's is larger. On a
    /// cluster of another size: with all slots if this one used all, else at most with those that there are.
    #[must_use]
    pub fn fitted_to(&self, own: &Self, limits: &ConfigurationLimits) -> Self {
        let task_bytes = match self.task_bytes {
            0 => own.task_bytes,
            larger
                if limits.max_task_bytes > 0
                    && (limits.max_task_bytes..=MAX_STATED_BYTES).contains(&larger) =>
            {
                limits.max_task_bytes
            }
            stated => stated,
        };
        let mut fitted = Self {
            task_bytes,
            ..self.clone()
        };
        fitted.replicas = stated_or(fitted.replicas, &own.replicas);
        fitted.link_bytes = stated_or(fitted.link_bytes, &own.link_bytes);
        if limits.max_batch_tasks > 0 && fitted.replicas.len() == own.replicas.len() {
            let used_all = fitted.replicas.iter().all(|&slots| self.workers >= slots);
            fitted.workers = match used_all {
                true => limits.workers,
                false => self.workers.min(limits.workers),
            };
            fitted.replicas.clone_from(&own.replicas);
            fitted.batch_tasks = self.batch_tasks.min(limits.max_batch_tasks);
        }
        fitted
    }

    /// The values that differ from those of another configuration of the same plan, as text.
    pub(crate) fn differences_from(&self, other: &Self) -> String {
        let mut all = Vec::new();
        if self.workers != other.workers {
            all.push(format!("workers={}", self.workers));
        }
        if self.replicas != other.replicas {
            all.push(format!("replicas={:?}", self.replicas));
        }
        if self.link_bytes != other.link_bytes {
            all.push(format!("link_bytes={:?}", self.link_bytes));
        }
        if self.task_bytes != other.task_bytes {
            all.push(format!("task_bytes={}", self.task_bytes));
        }
        if self.batch_tasks != other.batch_tasks {
            all.push(format!("batch_tasks={}", self.batch_tasks));
        }
        all.join(" and ")
    }
}

fn stated_or<T: Clone>(stated: Vec<T>, own: &[T]) -> Vec<T> {
    match stated.is_empty() {
        true => own.to_vec(),
        false => stated,
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workers={}", self.workers)?;
        if !self.replicas.is_empty() {
            write!(f, ", replicas={:?}", self.replicas)?;
        }
        if !self.link_bytes.is_empty() {
            write!(f, ", link_bytes={:?}", self.link_bytes)?;
        }
        if self.task_bytes > 0 {
            write!(f, ", task_bytes={}", self.task_bytes)?;
        }
        if self.batch_tasks > 0 {
            write!(f, ", batch_tasks={}", self.batch_tasks)?;
        }
        Ok(())
    }
}
