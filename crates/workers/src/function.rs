//! Functions that can be sent to worker processes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Payload of a tasklet's function kept before the first call: an execution may have thousands.
pub(crate) const MAX_EAGER_PAYLOAD: usize = 16 << 10;

/// How a process finds a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// The payload is a name to import.
    Name = 0,
    /// The payload is the pickled function.
    Value = 1,
}

/// A serialized function.
#[derive(Debug, Clone)]
pub struct SerializedFunction {
    /// Content of the payload.
    pub encoding: Encoding,
    /// The bytes to send; None if longer than requested.
    pub payload: Option<Vec<u8>>,
    /// How the function is sent, for reports.
    pub description: String,
}

/// A function of the host language.
pub trait HostFunction: Send + Sync {
    /// Identifies the function while it exists.
    fn id(&self) -> usize;

    /// Serializes the function's present state, without payloads above `max_payload` bytes.
    ///
    /// # Errors
    /// Why it cannot be sent to a worker process.
    fn serialize(&self, max_payload: Option<usize>) -> Result<SerializedFunction, String>;
}

/// A function that worker processes can call.
pub struct PortableFunction {
    /// Number in messages.
    number: u64,
    encoding: Encoding,
    source: Arc<dyn HostFunction>,
    /// Set immediately if small, else by the first call.
    payload: Mutex<Option<Arc<Vec<u8>>>>,
    users: AtomicUsize,
    description: String,
}

impl PortableFunction {
    /// Serializes a function's present state. Keeps the payload up to `max_payload` bytes.
    ///
    /// # Errors
    /// Why the function cannot be sent to a worker process.
    pub fn new(source: Arc<dyn HostFunction>, max_payload: Option<usize>) -> Result<Self, String> {
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
        let serialized = source.serialize(max_payload)?;
        Ok(Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            encoding: serialized.encoding,
            source,
            payload: Mutex::new(serialized.payload.map(Arc::new)),
            users: AtomicUsize::new(0),
            description: serialized.description,
        })
    }

    /// How the function is sent, for reports.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Vec<u8>>>> {
        self.payload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Constant until the last user releases the function.
    pub(crate) fn payload(&self) -> Result<Arc<Vec<u8>>, String> {
        // No deadlock: a thread that waits here does not hold the interpreter, for which the lock's owner may wait.
        let mut payload = self.lock();
        if let Some(payload) = &*payload {
            return Ok(Arc::clone(payload));
        }
        let serialized = self.source.serialize(None)?;
        let bytes = serialized.payload.ok_or(serialized.description)?;
        Ok(Arc::clone(payload.insert(Arc::new(bytes))))
    }

    pub(crate) fn acquire(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a use of a function from [`ProcessPool::tasklet_function`](crate::ProcessPool::tasklet_function). The last
    /// one frees the payload; processes forget the function.
    pub fn release(&self) {
        if self.users.fetch_sub(1, Ordering::Relaxed) == 1 {
            *self.lock() = None;
        }
    }

    pub(crate) fn is_released(&self) -> bool {
        self.users.load(Ordering::Relaxed) == 0
    }
}
