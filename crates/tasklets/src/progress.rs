//! Progress of an execution, and timing of its workers.

use std::time::Duration;

use isochrony_runtime::Progress;

/// Progress of an execution.
#[derive(Debug)]
pub struct TaskletProgress {
    /// Finished tasklets, including those kept from a previous execution.
    pub tasklets: Progress,
    /// Bytes read and written in this execution.
    pub bytes: Progress,
}

/// Timing of a tasklet since the start of the execution, and its worker.
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
