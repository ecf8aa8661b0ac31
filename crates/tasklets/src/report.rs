//! Report of an execution: tasklets, workers, the error that ended it.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use isochrony_runtime::WorkerReport;
use isochrony_tune::TuningReport;
use serde_json::Value;

use crate::error::{Cause, TaskletError};
use crate::options::ExecutorOptions;
use crate::progress::TaskletTiming;
use crate::schedule::Schedule;
use crate::scheduler::TaskletState;
use crate::tasklet::ReturnValue;
use crate::worker_pool::PoolOutcome;

/// Result of a tasklet.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskletReport {
    /// Its name.
    pub name: String,
    /// "done", "kept" from a previous execution, "failed", "not_run" after a failed dependency, or "stopped" as the
    /// execution ended early.
    pub state: &'static str,
    /// Why it failed or was not run.
    pub error: Option<String>,
    /// Step in the serial order; None: kept.
    pub step: Option<usize>,
    /// Why it has that step; empty: kept.
    pub step_reason: String,
    /// Timing and worker.
    pub timing: Option<TaskletTiming>,
    /// Return value, if a journal can keep it.
    pub json: Option<String>,
}

impl TaskletReport {
    /// As [`json`](Self::json), except for numbers that [`Value`] cannot represent.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(self.json.as_ref()?).ok()
    }
}

/// Result of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskletsReport {
    /// Reports in the order added.
    pub tasklets: Vec<TaskletReport>,
    /// By worker.
    pub workers: Vec<WorkerReport>,
    /// Peak bytes of scratch.
    pub peak_scratch: u64,
    /// Bytes read ahead.
    pub prefetched: u64,
    /// CPU of each worker; None where refused. Empty: not pinned.
    pub pinned_cpus: Vec<Option<usize>>,
    /// Wall-clock time.
    pub elapsed: Duration,
    /// What was reused, and what will run again.
    pub notes: Vec<String>,
    /// Tuning results, if tuned.
    pub tuning: Option<TuningReport>,
}

/// The error that ended an execution.
#[derive(Debug)]
pub struct ExecutionFailure {
    /// The error.
    pub error: TaskletError,
    /// Report until then; None if no tasklet ran.
    pub report: Option<TaskletsReport>,
}

impl fmt::Display for ExecutionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for ExecutionFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<TaskletError> for ExecutionFailure {
    fn from(error: TaskletError) -> Self {
        Self {
            error,
            report: None,
        }
    }
}

impl From<TaskletError> for Box<ExecutionFailure> {
    fn from(error: TaskletError) -> Self {
        Self::new(error.into())
    }
}

impl TaskletsReport {
    pub(crate) fn new(
        schedule: &Schedule,
        options: &ExecutorOptions,
        outcome: PoolOutcome,
        return_values: HashMap<usize, ReturnValue>,
    ) -> Result<Self, Box<ExecutionFailure>> {
        let names = &schedule.graph.names;
        let mut timings: Vec<Option<TaskletTiming>> = vec![None; names.len()];
        for timing in &outcome.timings {
            timings[timing.tasklet] = Some(*timing);
        }
        let causes = outcome.failures.iter();
        let causes: HashMap<usize, &Cause> = causes.map(|(at, cause)| (*at, cause)).collect();
        let (mut failed, mut not_run) = (0, 0);
        let mut not_journaled = Vec::new();
        let mut tasklets = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            let mut error = None;
            let state = match outcome.scheduler.state(at) {
                TaskletState::Done => "done",
                TaskletState::Kept => "kept",
                TaskletState::Failed => {
                    failed += 1;
                    error = causes.get(&at).map(|cause| cause.to_string());
                    "failed"
                }
                TaskletState::NotRun(failed) => {
                    not_run += 1;
                    error = Some(format!("it needs {:?}, which failed", names[failed]));
                    "not_run"
                }
                TaskletState::Waiting | TaskletState::Running => "stopped",
            };
            let json = match return_values.get(&at) {
                Some(value) => value.json(),
                None => schedule.reused_values.get(&at).cloned(),
            };
            if state == "done" && return_values.get(&at) == Some(&ReturnValue::NotSerializable) {
                not_journaled.push(name.as_str());
            }
            let step = Some(schedule.serial.step[at]).filter(|step| *step != usize::MAX);
            let step_reason = step.map(|_| schedule.reason_text(at, options.order));
            tasklets.push(TaskletReport {
                name: name.clone(),
                state,
                error,
                step,
                step_reason: step_reason.unwrap_or_default(),
                timing: timings[at],
                json,
            });
        }
        let resumable = schedule.journal.is_some();
        let mut notes = schedule.notes.clone();
        if let (true, Some(first)) = (resumable, not_journaled.first()) {
            let (more, they) = match not_journaled.len() {
                1 => (String::new(), "it is"),
                n => (format!(" and {} more", n - 1), "they are"),
            };
            notes.push(format!(
                "tasklet {first:?}{more} returned what no journal keeps: with resume {they} run again"
            ));
        }
        let report = Self {
            tuning: outcome.tuning,
            tasklets,
            workers: outcome.workers,
            peak_scratch: outcome.scheduler.peak_scratch(),
            prefetched: outcome.prefetched,
            pinned_cpus: outcome.pinned_cpus,
            elapsed: outcome.elapsed,
            notes,
        };
        let (done, total) = outcome.scheduler.progress();
        // In serial order, so the error does not depend on timing.
        let failures = outcome.failures.into_iter();
        let first_failure = failures.min_by_key(|(at, _)| schedule.serial.step[*at]);
        let error = match (outcome.fatal, first_failure) {
            (Some(error), _) => error,
            (None, _) if outcome.interrupted => TaskletError::Interrupted {
                done: done - failed - not_run,
                total,
                resumable,
            },
            (None, Some((at, why))) => TaskletError::Failed {
                name: names[at].clone(),
                failed,
                not_run,
                resumable,
                why,
            },
            (None, None) => return Ok(report),
        };
        Err(Box::new(ExecutionFailure {
            error,
            report: Some(report),
        }))
    }
}
