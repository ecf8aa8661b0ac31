//! What came of a run: who did what when, and what did not happen.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Cause, TaskletError};
use crate::executor::Options;
use crate::planned::Planned;
use crate::roster::State;
use crate::run::{Ran, Visit, Worker};
use crate::tasklet::Returned;

/// What became of a tasklet.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskletReport {
    /// Its name.
    pub name: String,
    /// "done", "kept" from an earlier run, "failed", "not_run" because of another, or "stopped" with the run.
    pub state: &'static str,
    /// Why it failed, or was not run.
    pub why: Option<String>,
    /// Its place in the order; None if it was kept.
    pub place: Option<usize>,
    /// Why it has that place.
    pub placed: String,
    /// Who ran it when.
    pub visit: Option<Visit>,
    /// What it returned as JSON, if a journal can keep that.
    pub json: Option<String>,
}

impl TaskletReport {
    /// What it returned, if a journal can keep that; numbers as far as they are such of [`Value`].
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(self.json.as_ref()?).ok()
    }
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Of each tasklet, in the order in which they were added.
    pub tasklets: Vec<TaskletReport>,
    /// Of each worker.
    pub workers: Vec<Worker>,
    /// Most bytes of scratch that were in use at a time.
    pub peak_scratch: u64,
    /// Bytes that were read ahead.
    pub prefetched: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// What is to be said about what was kept.
    pub notes: Vec<String>,
}

/// A run that did not come to its end, and what it did until then.
#[derive(Debug)]
pub struct Failure {
    /// What happened.
    pub error: TaskletError,
    /// What was done; None if nothing was run.
    pub report: Option<Report>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<TaskletError> for Failure {
    fn from(error: TaskletError) -> Self {
        Self {
            error,
            report: None,
        }
    }
}

impl From<TaskletError> for Box<Failure> {
    fn from(error: TaskletError) -> Self {
        Self::new(error.into())
    }
}

impl Report {
    pub(crate) fn made(
        planned: &Planned,
        options: &Options,
        ran: Ran,
        returned: HashMap<usize, Returned>,
    ) -> Result<Self, Box<Failure>> {
        let names = &planned.graph.names;
        let mut visits: Vec<Option<Visit>> = vec![None; names.len()];
        for visit in &ran.visits {
            visits[visit.tasklet] = Some(*visit);
        }
        let failures: HashMap<usize, &Cause> =
            ran.failures.iter().map(|(at, why)| (*at, why)).collect();
        let (mut failed, mut not_run) = (0, 0);
        let mut unkept = Vec::new();
        let mut tasklets = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            let mut why = None;
            let state = match ran.roster.state(at) {
                State::Done => "done",
                State::Kept => "kept",
                State::Failed => {
                    failed += 1;
                    why = failures.get(&at).map(|why| why.to_string());
                    "failed"
                }
                State::NotRun(because) => {
                    not_run += 1;
                    why = Some(format!("it needs {:?}, which failed", names[because]));
                    "not_run"
                }
                State::Waiting | State::Running => "stopped",
            };
            let json = match returned.get(&at) {
                Some(returned) => returned.json(),
                None => planned.values.get(&at).cloned(),
            };
            if state == "done" && returned.get(&at) == Some(&Returned::Unkept) {
                unkept.push(name.as_str());
            }
            let place = Some(planned.serial.place[at]).filter(|place| *place != usize::MAX);
            tasklets.push(TaskletReport {
                name: name.clone(),
                state,
                why,
                placed: if place.is_some() {
                    planned.why(at, options.order)
                } else {
                    String::new()
                },
                place,
                visit: visits[at],
                json,
            });
        }
        let resumable = planned.journal.is_some();
        let mut notes = planned.notes.clone();
        if let (true, Some(first)) = (resumable, unkept.first()) {
            let (more, they) = match unkept.len() {
                1 => (String::new(), "it is"),
                n => (format!(" and {} more", n - 1), "they are"),
            };
            notes.push(format!(
                "tasklet {first:?}{more} returned what no journal keeps: with resume {they} run again"
            ));
        }
        let report = Self {
            tasklets,
            workers: ran.workers,
            peak_scratch: ran.roster.peak(),
            prefetched: ran.prefetched,
            elapsed: ran.elapsed,
            notes,
        };
        let (done, total) = ran.roster.progress();
        // The first by the order, whichever failed first by the clock.
        let first = ran
            .failures
            .into_iter()
            .min_by_key(|(at, _)| planned.serial.place[*at]);
        let error = match (ran.fatal, first) {
            (Some(error), _) => error,
            (None, _) if ran.interrupted => TaskletError::Interrupted {
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
        Err(Box::new(Failure {
            error,
            report: Some(report),
        }))
    }
}
