//! Objects as files of the store.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use isochrony_store::media::MediaFile;

use crate::blocks::Object;
use crate::driver::{self, Task};
use crate::error::CloudError;
use crate::read_ahead::ReadAhead;
use crate::remote_store::RemoteStore;
use crate::requests::Version;

/// Longer reads bypass the blocks.
const LARGE_READ_BYTES: usize = 4 << 20;
/// Bytes per request of a large read, and concurrent requests.
const PART_BYTES: u64 = 8 << 20;
const PARTS_IN_FLIGHT: usize = 4;

/// An object in its version when opened: replacing it gives an error.
#[derive(Debug)]
pub(crate) struct CloudFile {
    remote: Arc<RemoteStore>,
    object: Object,
    read_ahead: ReadAhead,
}

impl CloudFile {
    pub(crate) fn new(remote: Arc<RemoteStore>, name: &str, version: Version) -> Self {
        Self {
            remote,
            object: Object::new(name, version),
            read_ahead: ReadAhead::default(),
        }
    }

    fn within(&self, offset: u64, bytes: &[u8]) -> usize {
        let left = self.object.size().saturating_sub(offset);
        usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())
    }

    /// Requests several parts at a time.
    fn stream(&self, offset: u64, bytes: &mut [u8]) -> Result<(), CloudError> {
        let end = offset + bytes.len() as u64;
        let part = |at: u64| at..(at + PART_BYTES).min(end);
        let mut next = offset;
        let mut begun = VecDeque::new();
        let mut at = 0;
        loop {
            while begun.len() < PARTS_IN_FLIGHT && next < end {
                begun.push_back(self.begin(part(next))?);
                next = part(next).end;
            }
            let Some(part) = begun.pop_front() else {
                return Ok(());
            };
            at = part.receive(bytes, at)?;
        }
    }

    fn begin(&self, range: Range<u64>) -> Result<PartRequest, CloudError> {
        let (send, from) = channel();
        let location = &self.remote.session()?.location;
        let (requests, key) = (location.requests.clone(), location.key(&self.object.name)?);
        let pin = self.object.pin.clone();
        let task = driver::spawn(async move {
            let take = |part: Bytes| _ = send.send(PartEvent::Bytes(part));
            let read = requests.range(&key, Some(&pin), range, take).await;
            let _ = send.send(PartEvent::End(read));
        })?;
        Ok(PartRequest { from, _task: task })
    }

    /// Drops the listing if the object was replaced.
    fn done(&self, read: Result<(), CloudError>, count: usize) -> io::Result<usize> {
        if read == Err(CloudError::ChangedRemotely)
            && let Ok(session) = self.remote.session()
        {
            session.forget_listing();
        }
        read?;
        Ok(count)
    }
}

/// A part of a large read; cancelled on drop.
#[derive(Debug)]
struct PartRequest {
    from: Receiver<PartEvent>,
    _task: Task,
}

#[derive(Debug)]
enum PartEvent {
    Bytes(Bytes),
    End(Result<(), CloudError>),
}

impl PartRequest {
    fn receive(&self, bytes: &mut [u8], mut at: usize) -> Result<usize, CloudError> {
        loop {
            match driver::receive(&self.from)? {
                PartEvent::Bytes(part) => {
                    bytes[at..at + part.len()].copy_from_slice(&part);
                    at += part.len();
                }
                PartEvent::End(end) => return end.map(|()| at),
            }
        }
    }
}

impl MediaFile for CloudFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.within(offset, bytes);
        if count == 0 || count >= LARGE_READ_BYTES {
            return self.read_once(offset, bytes);
        }
        let session = self.remote.session()?;
        let (blocks, location) = (&session.blocks, &session.location);
        let end = offset + count as u64;
        let ahead = (self.read_ahead).advance(offset, end, &blocks.readers, Instant::now());
        let read = blocks.read(location, &self.object, offset, &mut bytes[..count], ahead);
        self.done(read, count)
    }

    fn read_once(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.within(offset, bytes);
        self.done(self.stream(offset, &mut bytes[..count]), count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.object.size())
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// A redo log. Longer logs with the same beginning replace it, so no version is pinned; its records have checksums.
#[derive(Debug)]
pub(crate) struct LogFile {
    remote: Arc<RemoteStore>,
    name: String,
    version: Mutex<Version>,
}

impl LogFile {
    pub(crate) fn new(remote: Arc<RemoteStore>, name: &str, version: Version) -> Self {
        Self {
            remote,
            name: name.to_owned(),
            version: Mutex::new(version),
        }
    }

    /// The length, refreshed if more is needed.
    fn len_for(&self, end: u64) -> Result<u64, CloudError> {
        let known = (self.version.lock().unwrap_or_else(PoisonError::into_inner)).clone();
        if end <= known.size {
            return Ok(known.size);
        }
        let session = self.remote.session()?;
        // A missing log is of an earlier generation, and complete.
        let Some(now) = session.head(&self.name)? else {
            return Ok(known.size);
        };
        let size = now.size;
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(size)
    }
}

impl MediaFile for LogFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let len = self.len_for(offset + bytes.len() as u64)?;
        let end = len.min(offset + bytes.len() as u64);
        if offset >= end {
            return Ok(0);
        }
        let location = &self.remote.session()?.location;
        let (requests, key) = (location.requests.clone(), location.key(&self.name)?);
        let read = driver::wait(async move {
            let mut read = Vec::with_capacity((end - offset) as usize);
            let take = |part: Bytes| read.extend_from_slice(&part);
            requests.range(&key, None, offset..end, take).await?;
            Ok(read)
        });
        match read {
            Ok(read) => {
                bytes[..read.len()].copy_from_slice(&read);
                Ok(read.len())
            }
            // It was complete when deleted.
            Err(CloudError::Missing) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.len_for(u64::MAX)?)
    }

    fn is_remote(&self) -> bool {
        true
    }
}
