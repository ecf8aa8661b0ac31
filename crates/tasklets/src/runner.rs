//! What the worker pool asks of its user: how to run one tasklet, release its scratch and make its results durable.
//!
//! The pool knows tasklets only by number, so that its tests need no stores.

use crate::error::{Cause, TaskletError};

/// Runs tasklets, which are given by number. Called by several threads at once.
pub(crate) trait TaskletRunner: Sync {
    /// Runs a tasklet.
    fn run(&self, tasklet: usize, worker: usize) -> Result<(), Cause>;
    /// Releases the scratch that a tasklet wrote.
    fn release_scratch(&self, tasklet: usize) -> Result<(), TaskletError>;
    /// Commits the outputs of finished tasklets and then records them in the journal.
    fn commit(&self, finished: &[usize]) -> Result<(), TaskletError>;
    /// Starts to write the outputs of finished tasklets to disk, so that `commit` has less to wait for.
    fn write_back(&self, finished: &[usize]);
    /// Asks the system to read a tasklet's inputs ahead; returns their bytes.
    fn prefetch(&self, tasklet: usize) -> u64;
    /// Bytes that a tasklet reads and writes: its share of the progress.
    fn byte_count(&self, tasklet: usize) -> u64;
    /// Asks running tasklets to end soon.
    fn interrupt(&self);
    /// Whether the caller or a tasklet interrupted the execution.
    fn is_interrupted(&self) -> bool;
    /// Whether there is anything to commit.
    fn has_commits(&self) -> bool;
}
