//! Report of a worker process.

use std::time::Duration;

/// Work of a worker process for one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessReport {
    /// Worker thread; None: the caller's.
    pub worker: Option<usize>,
    /// Process id.
    pub pid: u32,
    /// Calls answered.
    pub blocks: u64,
    /// Total time from call to answer.
    pub busy: Duration,
    /// How it ended, if before the execution.
    pub ended: Option<String>,
}

impl ProcessReport {
    /// A process that has answered no call.
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
