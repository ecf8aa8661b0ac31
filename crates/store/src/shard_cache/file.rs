//! A shard file read through the cache.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use isochrony_cache::{CacheError, Mapping, ObjectKey};

use super::content::CachedContent;
use super::fill::{FillError, PieceFetch};
use super::pins::Pin;
use super::{ShardCache, add};
use crate::media::{Media, MediaFile};

#[derive(Debug)]
pub(crate) enum Origin {
    /// Takes no file descriptor.
    Open(Arc<dyn MediaFile>),
    /// When a piece is missing: file descriptors are limited.
    Reopened {
        media: Arc<dyn Media>,
        path: PathBuf,
        /// Device and inode: another file may have the path now.
        identity: (u64, u64),
    },
}

impl Origin {
    fn open(&self) -> io::Result<Arc<dyn MediaFile>> {
        match self {
            Self::Open(file) => Ok(Arc::clone(file)),
            Self::Reopened {
                media,
                path,
                identity,
            } => {
                let file = media.open(path, crate::media::Access::Read)?;
                match file.as_os_file().map(crate::engine::mapping::identity) {
                    Some(Ok(found)) if found == *identity => Ok(file),
                    Some(Err(error)) => Err(error),
                    _ => Err(io::ErrorKind::StaleNetworkFileHandle.into()),
                }
            }
        }
    }

    fn is_remote(&self) -> bool {
        matches!(self, Self::Open(file) if file.is_remote())
    }
}

#[derive(Debug)]
pub(crate) struct CachedFile {
    cache: Arc<ShardCache>,
    key: ObjectKey,
    content: Box<dyn CachedContent>,
    origin: Origin,
    len: u64,
}

type ReadFile = fn(&dyn MediaFile, u64, &mut [u8]) -> io::Result<usize>;

impl CachedFile {
    pub(crate) fn new(
        cache: Arc<ShardCache>,
        key: ObjectKey,
        content: Box<dyn CachedContent>,
        origin: Origin,
        len: u64,
    ) -> Self {
        Self {
            cache,
            key,
            content,
            origin,
            len,
        }
    }

    /// `None` unless all bytes are in the cache.
    pub(crate) fn mapped(&self, offset: u64, len: usize) -> Option<(Arc<Mapping>, Range<u64>)> {
        let start = offset.checked_sub(self.content.start())?;
        let range = start..start.checked_add(len as u64)?;
        if range.end > self.content.bytes() || range.is_empty() {
            return None;
        }
        let pin = self.present(&range).ok()??;
        Some((pin.mapping().ok()?, range))
    }

    /// `None` if the store must be read.
    fn present(&self, range: &Range<u64>) -> io::Result<Option<Arc<Pin>>> {
        let counters = &self.cache.counters;
        // Try again if pinned objects filled another process's cache, or the object was lost.
        for attempt in 0..2 {
            match self.fill(range) {
                Ok(pin) => return Ok(Some(pin)),
                Err(FillError::Origin(error)) => return Err(error),
                Err(FillError::Cache(
                    CacheError::CacheFull { .. } | CacheError::DiskFull { .. },
                )) if attempt == 0 => {
                    self.cache.pins.clear();
                }
                Err(FillError::Cache(CacheError::ObjectLost { .. })) if attempt == 0 => {
                    self.cache.pins.remove(&self.key);
                }
                Err(_) => break,
            }
        }
        add(&counters.misses, 1);
        Ok(None)
    }

    fn fill(&self, range: &Range<u64>) -> Result<Arc<Pin>, FillError> {
        let counters = &self.cache.counters;
        let pin = self.cache.pins.get(&self.key, self.content.bytes())?;
        let missing = pin.object.missing(range.clone())?;
        if missing.is_empty() {
            add(&counters.hits, 1);
            add(&counters.local, range.end - range.start);
            return Ok(pin);
        }
        // Another process may know more checksums and so a longer object.
        if !missing
            .iter()
            .all(|part| self.content.is_known(part.clone()))
        {
            return Err(FillError::Mismatch);
        }
        let fetch = PieceFetch {
            cache: &self.cache,
            key: &self.key,
            content: &*self.content,
            origin: &|at, bytes| self.read_origin(self.content.start() + at, bytes),
        };
        fetch.fill(&pin, range.clone())?;
        let cut = |part: &Range<u64>| {
            (part.end.min(range.end)).saturating_sub(part.start.max(range.start))
        };
        let fetched: u64 = missing.iter().map(cut).sum();
        add(&counters.misses, 1);
        add(&counters.local, range.end - range.start - fetched);
        Ok(pin)
    }

    fn read_origin(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        // Cached here: its blocks need not stay in memory.
        match self.origin.open()?.read_once(offset, bytes)? == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn read_past(&self, read: ReadFile, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let count = read(&*self.origin.open()?, offset, bytes)?;
        add(&self.cache.counters.storage, count as u64);
        Ok(count)
    }

    /// Reads by `read` what the cache lacks.
    fn read(&self, read: ReadFile, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let start = self.content.start();
        let own = start..start + self.content.bytes();
        let end = offset.saturating_add(bytes.len() as u64);
        let (from, to) = (offset.max(own.start), end.min(own.end));
        if from >= to {
            return self.read_past(read, offset, bytes);
        }
        let (before, rest) = bytes.split_at_mut((from - offset) as usize);
        let (cached, behind) = rest.split_at_mut((to - from) as usize);
        if !before.is_empty() {
            let count = self.read_past(read, offset, before)?;
            if count < before.len() {
                return Ok(count);
            }
        }
        let range = from - start..to - start;
        let pin = self.present(&range)?;
        let is_read = pin.is_some_and(|pin| pin.object.read_at(range.start, cached).is_ok());
        let mut count = before.len() + cached.len();
        if !is_read {
            let past = self.read_past(read, from, cached)?;
            if past < cached.len() {
                return Ok(before.len() + past);
            }
        }
        if !behind.is_empty() {
            count += self.read_past(read, to, behind)?;
        }
        Ok(count)
    }
}

impl MediaFile for CachedFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read(
            |file, offset, bytes| file.read_at(offset, bytes),
            offset,
            bytes,
        )
    }

    fn read_once(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read(
            |file, offset, bytes| file.read_once(offset, bytes),
            offset,
            bytes,
        )
    }

    fn len(&self) -> io::Result<u64> {
        match &self.origin {
            Origin::Open(file) => file.len(),
            Origin::Reopened { .. } => Ok(self.origin.open().map_or(self.len, |file| {
                file.len().map_or(self.len, |len| len.max(self.len))
            })),
        }
    }

    fn is_remote(&self) -> bool {
        self.origin.is_remote()
    }
}
