//! [`PartExecutor`]: threads that compute parts of an operator call.

use std::sync::Arc;

/// Work of one operator call, in parts that do not depend on each other.
pub(crate) trait DividedWork: Send + Sync {
    fn compute(&self, part: usize);
}

/// Other threads of the run. The call returns when all parts are done, so results, errors and their order are those of
/// one thread.
pub(crate) trait PartExecutor: Send + Sync {
    /// Largest number of threads that compute at the same time.
    fn threads(&self) -> usize;

    /// Least expected time of work that is worth dividing.
    fn least_ns(&self) -> f64;

    /// Computes all parts.
    fn compute(&self, work: Arc<dyn DividedWork>, parts: usize);
}
