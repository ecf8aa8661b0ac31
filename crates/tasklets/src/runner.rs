//! Interface of the worker pool to its user.

use crate::error::{Cause, TaskletError};

/// Called from several threads at once.
pub(crate) trait TaskletRunner: Sync {
    fn run(&self, tasklet: usize, worker: usize) -> Result<(), Cause>;
    fn release_scratch(&self, tasklet: usize) -> Result<(), TaskletError>;
    fn commit(&self, finished: &[usize]) -> Result<(), TaskletError>;
    /// Starts writing outputs to disk, to shorten `commit`.
    fn write_back(&self, finished: &[usize]);
    /// Asks the system to read its inputs ahead; returns their bytes.
    fn prefetch(&self, tasklet: usize) -> u64;
    /// Bytes read and written, for progress.
    fn byte_count(&self, tasklet: usize) -> u64;
    fn interrupt(&self);
    fn is_interrupted(&self) -> bool;
    fn has_commits(&self) -> bool;
}
