//! What the worker pool asks of its user: run tasklets, release scratch, make results durable.
//!
//! The pool knows tasklets only by number, so its tests need no stores.

use crate::error::{Cause, TaskletError};

/// Runs numbered tasklets. Called by several threads at once.
pub(crate) trait TaskletRunner: Sync {
    fn run(&self, tasklet: usize, worker: usize) -> Result<(), Cause>;
    fn release_scratch(&self, tasklet: usize) -> Result<(), TaskletError>;
    /// Commits outputs, then records the tasklets in the journal.
    fn commit(&self, finished: &[usize]) -> Result<(), TaskletError>;
    /// So that `commit` has less to wait for.
    fn write_back(&self, finished: &[usize]);
    /// Asks the system to read its inputs ahead; returns their bytes.
    fn prefetch(&self, tasklet: usize) -> u64;
    /// Bytes read and written: its share of the progress.
    fn byte_count(&self, tasklet: usize) -> u64;
    fn interrupt(&self);
    /// Whether the caller or a tasklet interrupted the execution.
    fn is_interrupted(&self) -> bool;
    fn has_commits(&self) -> bool;
}
