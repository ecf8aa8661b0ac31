//! How a stage of an execution spent its time.

use std::time::Duration;

/// Its parts add up to no more than the time of the execution.
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
