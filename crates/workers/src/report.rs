//! What a worker process did.

use std::time::Duration;

/// What a worker process did for one worker thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessReport {
    /// Number of the worker thread; None: the caller's thread.
    pub worker: Option<usize>,
    /// Process id.
    pub pid: u32,
    /// Calls that it answered.
    pub blocks: u64,
    /// Time from call to answer, summed.
    pub busy: Duration,
    /// How it ended, if it ended before the execution did.
    pub ended: Option<String>,
}

impl ProcessReport {
    /// The report of a process that has answered no call.
    #[must_use]
    pub fn new(worker: Option<usize>, pid: u32) -> Self {
        Self {
            worker,
            pid,
            blocks: 0,
            busy: Duration::ZERO,
            ended: None,
        }
    }
}
