//! What a worker did.

use std::time::Duration;

/// What one worker of an execution did. Engines embed it in a report of their own if they have more to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerReport {
    /// Tasks, buffers or tasklets that it finished.
    pub items: u64,
    /// Time in which it worked on them.
    pub busy: Duration,
    /// Time in which it waited for work or for other workers.
    pub waited: Duration,
}
