//! How far an execution has come, and when its workers did what.

use std::time::Duration;

/// How far an execution has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskletProgress {
    /// Finished tasklets, including those kept from a previous execution.
    pub tasklets: usize,
    /// All tasklets.
    pub total_tasklets: usize,
    /// Bytes that finished tasklets of this execution read and wrote.
    pub bytes: u64,
    /// Bytes that all tasklets of this execution read and write.
    pub total_bytes: u64,
}

/// When a tasklet ran, relative to the start of the execution, and on which worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskletTiming {
    /// Number of the tasklet.
    pub tasklet: usize,
    /// Number of the worker.
    pub worker: usize,
    /// When it started.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
}

/// What a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskletWorkerReport {
    /// Number of tasklets that it ran.
    pub tasklets: usize,
    /// Time in which it ran them.
    pub busy: Duration,
    /// Time in which it waited because no tasklet could start.
    pub waited: Duration,
}
