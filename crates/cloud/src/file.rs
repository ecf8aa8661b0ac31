//! Objects as files of the store.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use isochrony_store::media::{MediaFile, Site};

use crate::blocks::{BLOCK, Object};
use crate::driver;
use crate::error::CloudError;
use crate::media::Remote;
use crate::requests::Version;

/// Reads of so many bytes go past the blocks.
const LARGE: usize = 4 << 20;
/// Bytes of one request of a large read, and how many of those are made at a time.
const PART: u64 = 8 << 20;
const PARTS: usize = 4;
/// Most bytes that are read ahead of one who reads a file in small parts from front to back.
const AHEAD: u64 = 8 << 20;

/// An object in the version that it had when it was opened: one that is replaced gives an error.
#[derive(Debug)]
pub(crate) struct CloudFile {
    remote: Arc<Remote>,
    object: Object,
    /// End of the last read, and of what was read ahead.
    last: AtomicU64,
    ahead: AtomicU64,
    window: AtomicU64,
}

impl CloudFile {
    pub(crate) fn new(remote: Arc<Remote>, name: &str, version: Version) -> Self {
        Self {
            remote,
            object: Object::new(name, version),
            last: AtomicU64::new(u64::MAX),
            ahead: AtomicU64::new(0),
            window: AtomicU64::new(0),
        }
    }

    /// How many of `bytes` there are behind `offset`.
    fn within(&self, offset: u64, bytes: &[u8]) -> usize {
        let left = self.object.size().saturating_sub(offset);
        usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())
    }

    /// Bytes to read ahead behind `end`: more each time that a read goes on where the last one ended. Only a hint, so the
    /// values need not belong together where threads read at a time.
    fn read_ahead(&self, offset: u64, end: u64) -> u64 {
        let last = self.last.swap(end, Ordering::Relaxed);
        if last > offset || offset - last > BLOCK {
            self.window.store(0, Ordering::Relaxed);
            self.ahead.store(0, Ordering::Relaxed);
            return 0;
        }
        let window = (self.window.load(Ordering::Relaxed) * 2).clamp(2 * BLOCK, AHEAD);
        self.window.store(window, Ordering::Relaxed);
        if self.ahead.load(Ordering::Relaxed) > end + window / 2 {
            return 0;
        }
        self.ahead.store(end + window, Ordering::Relaxed);
        window
    }

    /// Reads a range by as few requests as there are parts in it, several at a time.
    fn stream(&self, offset: u64, bytes: &mut [u8]) -> Result<(), CloudError> {
        let end = offset + bytes.len() as u64;
        let part = |at: u64| at..(at + PART).min(end);
        let mut next = offset;
        let mut begun = std::collections::VecDeque::new();
        let mut at = 0;
        loop {
            while begun.len() < PARTS && next < end {
                begun.push_back(self.begin(part(next))?);
                next = part(next).end;
            }
            let Some(from) = begun.pop_front() else {
                return Ok(());
            };
            at = receive(&from, bytes, at)?;
        }
    }

    fn begin(&self, range: Range<u64>) -> Result<Receiver<Part>, CloudError> {
        let (send, from) = channel();
        let place = &self.remote.session()?.place;
        let (requests, key) = (place.requests.clone(), place.key(&self.object.name)?);
        let pin = self.object.pin.clone();
        driver::spawn(async move {
            let take = |part: Bytes| _ = send.send(Part::Bytes(part));
            let read = requests.range(&key, Some(&pin), range, take).await;
            let _ = send.send(Part::End(read));
        })?;
        Ok(from)
    }

    /// What a read says; of an object that was replaced, what is listed is forgotten.
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

#[derive(Debug)]
enum Part {
    Bytes(Bytes),
    End(Result<(), CloudError>),
}

/// Copies what arrives behind `at`; gives where it ends.
fn receive(from: &Receiver<Part>, bytes: &mut [u8], mut at: usize) -> Result<usize, CloudError> {
    loop {
        match driver::receive(from)? {
            Some(Part::Bytes(part)) => {
                bytes[at..at + part.len()].copy_from_slice(&part);
                at += part.len();
            }
            Some(Part::End(end)) => return end.map(|()| at),
            None => {
                return Err(CloudError::Server {
                    reason: "a request ended without an answer".into(),
                });
            }
        }
    }
}

impl MediaFile for CloudFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.within(offset, bytes);
        if count == 0 || count >= LARGE {
            return self.read_once(offset, bytes);
        }
        let session = self.remote.session()?;
        let ahead = self.read_ahead(offset, offset + count as u64);
        let (blocks, place) = (&session.blocks, &session.place);
        let read = blocks.read(place, &self.object, offset, &mut bytes[..count], ahead);
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

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(CloudError::ReadOnly.into())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(CloudError::ReadOnly.into())
    }

    fn sync(&self, _site: Site) -> io::Result<()> {
        Err(CloudError::ReadOnly.into())
    }
}

/// A redo log: replaced by longer ones with the same beginning while its store grows, so no version is kept to. Its records
/// have checksums and numbers.
#[derive(Debug)]
pub(crate) struct LogFile {
    remote: Arc<Remote>,
    name: String,
    version: Mutex<Version>,
}

impl LogFile {
    pub(crate) fn new(remote: Arc<Remote>, name: &str, version: Version) -> Self {
        Self {
            remote,
            name: name.to_owned(),
            version: Mutex::new(version),
        }
    }

    /// The length, looked up again if more than is known of is wanted.
    fn len_for(&self, end: u64) -> Result<u64, CloudError> {
        let known = (self.version.lock().unwrap_or_else(PoisonError::into_inner)).clone();
        if end <= known.size {
            return Ok(known.size);
        }
        let session = self.remote.session()?;
        // A log that is gone is that of an earlier generation, and complete.
        let Some(now) = session.head(&self.name)? else {
            return Ok(known.size);
        };
        let size = now.size;
        if !now.fits(&known) {
            session.forget_listing();
            *self.version.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
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
        let place = self.remote.session()?.place.clone();
        let key = place.key(&self.name)?;
        let read = driver::wait(async move {
            let mut read = Vec::with_capacity((end - offset) as usize);
            let take = |part: Bytes| read.extend_from_slice(&part);
            place.requests.range(&key, None, offset..end, take).await?;
            Ok(read)
        });
        match read {
            Ok(read) => {
                bytes[..read.len()].copy_from_slice(&read);
                Ok(read.len())
            }
            // It was complete when it went.
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

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(CloudError::ReadOnly.into())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(CloudError::ReadOnly.into())
    }

    fn sync(&self, _site: Site) -> io::Result<()> {
        Err(CloudError::ReadOnly.into())
    }
}
