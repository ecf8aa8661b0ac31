//! An operator's result of one task, combined with those of others.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A task's result, of a type known to its operator only; see [`Operator::partial`](crate::Operator::partial).
#[derive(Clone)]
pub struct PartialResult {
    result: Arc<dyn Any + Send + Sync>,
    bytes: u64,
}

impl PartialResult {
    /// Wraps a result of `bytes` of memory.
    pub fn new(result: impl Any + Send + Sync, bytes: u64) -> Self {
        let result = Arc::new(result);
        Self { result, bytes }
    }

    /// The result, if of this type.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.result.downcast_ref()
    }

    /// Its memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl fmt::Debug for PartialResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partial({} bytes)", self.bytes)
    }
}
