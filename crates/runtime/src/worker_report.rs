//! Work of a worker.

use std::time::Duration;

/// Work of one worker. Engines may embed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerReport {
    /// Tasks, buffers or tasklets finished.
    pub items: u64,
    /// Time spent on them.
    pub busy: Duration,
    /// Time spent waiting for work or other workers.
    pub waited: Duration,
}
