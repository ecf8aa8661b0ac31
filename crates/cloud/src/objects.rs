//! Objects by URL, outside stores.
//!
//! One client per bucket and process.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use isochrony_store::media::remote::checked_url;
use object_store::path::Path as Key;
use tokio::sync::oneshot;

use crate::blocks::Object;
use crate::client::Location;
use crate::driver;
use crate::error::CloudError;
use crate::per_process::PerProcess;
use crate::requests::{Requests, Version};
use crate::upload::{Content, upload};

/// Bytes per request of a reader, and concurrent requests.
const PART: u64 = 4 << 20;
const PARTS: usize = 3;

static CLIENTS: PerProcess<Mutex<HashMap<String, Requests>>> = PerProcess::new();

/// Version of an object, which is only replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Its length.
    pub bytes: u64,
    /// Its entity tag, if the service has one.
    pub e_tag: Option<String>,
    /// Modification time in seconds since 1970; 0 if unknown.
    pub modified: i64,
}

impl From<Version> for ObjectVersion {
    fn from(version: Version) -> Self {
        let (e_tag, modified) = (version.e_tag().map(str::to_owned), version.modified());
        Self {
            bytes: version.size,
            e_tag,
            modified,
        }
    }
}

struct Address {
    requests: Requests,
    key: Key,
}

impl Address {
    fn of(url: &str) -> Result<Self, CloudError> {
        let url = checked_url(url).map_err(|error| CloudError::BadUrl {
            reason: error.message,
        })?;
        let location = Location::parse(&url)?;
        if location.prefix.as_ref().is_empty() {
            return Err(CloudError::BadUrl {
                reason: "it names a bucket, but no object".into(),
            });
        }
        let clients = CLIENTS.get(|| Ok::<_, CloudError>(Mutex::default()))?;
        let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = match clients.get(location.base()) {
            Some(requests) => requests.clone(),
            None => {
                let requests = Requests {
                    client: location.client()?,
                    service: location.service,
                };
                clients.insert(location.base().to_owned(), requests.clone());
                requests
            }
        };
        Ok(Self {
            requests,
            key: location.prefix,
        })
    }

    fn stat(self) -> Result<ObjectVersion, CloudError> {
        let found = driver::wait(async move { self.requests.head(&self.key).await })?;
        found.map(ObjectVersion::from).ok_or(CloudError::Missing)
    }
}

/// The current version of an object.
///
/// # Errors
/// [`CloudError::Missing`], [`CloudError::BadUrl`], and those of the service.
pub fn stat_object(url: &str) -> Result<ObjectVersion, CloudError> {
    Address::of(url)?.stat()
}

/// Uploads a file as an object: readers see the previous one or this one.
///
/// # Errors
/// [`CloudError::BadUrl`], [`CloudError::Source`] if the file is unreadable, and those of the service.
pub fn put_object(url: &str, file: &Path) -> Result<ObjectVersion, CloudError> {
    let Address { requests, key } = Address::of(url)?;
    let bytes = std::fs::metadata(file).map_err(|error| CloudError::Source {
        path: file.into(),
        reason: error.to_string(),
    })?;
    let object = (key, Content::File(file.into(), bytes.len()));
    let put = driver::wait(upload(requests, vec![object], Arc::default()))?;
    let version = put.into_iter().next().ok_or(CloudError::Missing)?;
    Ok(version.into())
}

struct PendingRequest<T> {
    result: oneshot::Receiver<Result<T, CloudError>>,
    _task: Box<dyn Send>,
}

impl<T: Send + 'static> PendingRequest<T> {
    fn new(
        work: impl Future<Output = Result<T, CloudError>> + Send + 'static,
    ) -> Result<Self, CloudError> {
        let (send, result) = oneshot::channel();
        let task = driver::spawn(async move {
            let _ = send.send(work.await);
        })?;
        Ok(Self {
            result,
            _task: Box::new(task),
        })
    }

    fn end(self) -> Result<T, CloudError> {
        let result = self.result;
        driver::wait(async move {
            let unanswered = CloudError::Server {
                reason: "a request ended without a response".into(),
            };
            result.await.unwrap_or(Err(unanswered))
        })
    }
}

/// Reads a range of one version of an object, in order. Memory: three parts of 4 MiB.
pub struct ObjectReader {
    requests: Requests,
    object: Object,
    rest: Range<u64>,
    begun: VecDeque<PendingRequest<Vec<u8>>>,
    part: Vec<u8>,
    /// Bytes of `part` already returned.
    given: usize,
}

impl ObjectReader {
    /// Starts reading.
    ///
    /// # Errors
    /// [`CloudError::BadUrl`], and those of this host's settings.
    pub fn new(url: &str, version: ObjectVersion, range: Range<u64>) -> Result<Self, CloudError> {
        let Address { requests, key } = Address::of(url)?;
        let version = Version::new(version.bytes, version.e_tag, version.modified);
        let mut reader = Self {
            requests,
            rest: range.start..range.end.min(version.size),
            object: Object::new(key.as_ref(), version),
            begun: VecDeque::new(),
            part: Vec::new(),
            given: 0,
        };
        reader.begin()?;
        Ok(reader)
    }

    fn begin(&mut self) -> Result<(), CloudError> {
        while self.begun.len() < PARTS && self.rest.start < self.rest.end {
            let part = self.rest.start..self.rest.end.min(self.rest.start + PART);
            self.rest.start = part.end;
            let (requests, pin) = (self.requests.clone(), self.object.pin.clone());
            let name = self.object.name.to_string();
            self.begun.push_back(PendingRequest::new(async move {
                let key = Key::parse(&name).map_err(|error| CloudError::BadUrl {
                    reason: error.to_string(),
                })?;
                let mut read = Vec::with_capacity((part.end - part.start) as usize);
                let take = |bytes: Bytes| read.extend_from_slice(&bytes);
                requests.range(&key, Some(&pin), part, take).await?;
                Ok(read)
            })?);
        }
        Ok(())
    }

    /// Fills a buffer as far as data is available; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// [`CloudError::ChangedRemotely`] if the object was replaced, and those of the service.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, CloudError> {
        if self.given == self.part.len() {
            let Some(first) = self.begun.pop_front() else {
                return Ok(0);
            };
            self.part = first.end()?;
            self.given = 0;
            self.begin()?;
        }
        let count = buffer.len().min(self.part.len() - self.given);
        buffer[..count].copy_from_slice(&self.part[self.given..][..count]);
        self.given += count;
        Ok(count)
    }
}

impl std::fmt::Debug for ObjectReader {
    // The client holds credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectReader")
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}
