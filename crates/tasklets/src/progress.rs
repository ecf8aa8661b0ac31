//! How far an execution has come, and when its workers did what.

use std::time::Duration;

use isochrony_runtime::Progress;

/// How far an execution has come.
#[derive(Debug)]
pub struct TaskletProgress {
    /// Finished tasklets, including those kept from a previous execution.
    pub tasklets: Progress,
    /// Bytes that tasklets of this execution read and write.
    pub bytes: Progress,
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
