//! Progress of an execution.

use std::time::Duration;

use isochrony_runtime::Progress;

/// Progress of an execution.
#[derive(Debug)]
pub struct TaskletProgress {
    /// Finished tasklets, including kept ones.
    pub tasklets: Progress,
    /// Bytes read and written in this execution.
    pub bytes: Progress,
}

/// Worker of a tasklet, and times since the execution's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskletTiming {
    /// Its number.
    pub tasklet: usize,
    /// Number of the worker.
    pub worker: usize,
    /// Start.
    pub start: Duration,
    /// End.
    pub end: Duration,
}
