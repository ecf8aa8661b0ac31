//! What an operator gathered of a part of its input, on its way to one that gathers all of it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A partial result of an operator: its own business what it is, see [`Operator::partial`](crate::Operator::partial).
#[derive(Clone)]
pub struct PartialResult {
    gathered: Arc<dyn Any + Send + Sync>,
    bytes: u64,
}

impl PartialResult {
    /// What was gathered, and the bytes of memory that it takes.
    pub fn new(gathered: impl Any + Send + Sync, bytes: u64) -> Self {
        let gathered = Arc::new(gathered);
        Self { gathered, bytes }
    }

    /// What was gathered, if it is of this type.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.gathered.downcast_ref()
    }

    /// Bytes of memory that it takes.
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
