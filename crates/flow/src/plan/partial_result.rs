//! An operator's result of one task, to be combined with others.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

type Shared = Arc<dyn Any + Send + Sync>;

/// A task's result, of a type known to its operator only; see [`Operator::partial`](crate::Operator::partial). serde
/// writes it for other processes.
#[derive(Clone)]
pub struct PartialResult {
    content: Content,
    bytes: u64,
}

#[derive(Clone)]
enum Content {
    Value(Shared, Encoder),
    /// As sent by another process; decoded by the operator, which knows the type.
    Encoded(Arc<[u8]>, Arc<OnceLock<Option<Shared>>>),
}

type Encoder = fn(&(dyn Any + Send + Sync)) -> Option<Vec<u8>>;

impl PartialResult {
    /// Wraps a result of `bytes` of memory.
    pub fn new<T>(result: T, bytes: u64) -> Self
    where
        T: Any + Send + Sync + Serialize + DeserializeOwned,
    {
        Self {
            content: Content::Value(Arc::new(result), |value| {
                postcard::to_stdvec(value.downcast_ref::<T>()?).ok()
            }),
            bytes,
        }
    }

    /// The result, if of this type.
    #[must_use]
    pub fn get<T>(&self) -> Option<&T>
    where
        T: Any + Send + Sync + DeserializeOwned,
    {
        match &self.content {
            Content::Value(result, _) => result.downcast_ref(),
            Content::Encoded(encoded, decoded) => decoded
                .get_or_init(|| {
                    let (result, rest) = postcard::take_from_bytes::<T>(encoded).ok()?;
                    rest.is_empty().then(|| Arc::new(result) as Shared)
                })
                .as_ref()?
                .downcast_ref(),
        }
    }

    /// Its memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        match &self.content {
            Content::Value(result, encode) => encode(&**result),
            Content::Encoded(encoded, _) => Some(encoded.to_vec()),
        }
    }

    /// Reverses [`to_bytes`](Self::to_bytes) of another process.
    pub(crate) fn from_bytes(encoded: &[u8], bytes: u64) -> Self {
        Self {
            content: Content::Encoded(encoded.into(), Arc::default()),
            bytes,
        }
    }
}

impl fmt::Debug for PartialResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partial({} bytes)", self.bytes)
    }
}
