//! Times of a stage of an execution.

use std::time::Duration;

/// Its parts sum to at most the time of the execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageTime {
    /// Computing.
    pub busy: Duration,
    /// Waiting for a thread.
    pub core: Duration,
    /// Waiting for input.
    pub input: Duration,
    /// Waiting for room.
    pub output: Duration,
}
