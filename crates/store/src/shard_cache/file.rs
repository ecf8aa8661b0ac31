//! A shard that is read through the cache.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use isochrony_cache::{CacheError, Mapping, ObjectKey};

use super::content::CachedContent;
use super::fill::{FillError, Filling};
use super::pins::Pin;
use super::{ShardCache, add};
use crate::media::{Media, MediaFile, Site};

/// The file of the store that a cached shard is of.
#[derive(Debug)]
pub(crate) enum Origin {
    /// One that takes no descriptor.
    Held(Arc<dyn MediaFile>),
    /// One that is opened when something is missing: a process may have few files open.
    Reopened {
        media: Arc<dyn Media>,
        path: PathBuf,
        /// Device and number: another file may have the path by now.
        identity: (u64, u64),
    },
}

impl Origin {
    fn open(&self) -> io::Result<Arc<dyn MediaFile>> {
        match self {
            Self::Held(file) => Ok(Arc::clone(file)),
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
        matches!(self, Self::Held(file) if file.is_remote())
    }
}

/// A shard file whose chunks with checksums come from the cache, and everything else from the store.
#[derive(Debug)]
pub(crate) struct CachedFile {
    cache: Arc<ShardCache>,
    key: ObjectKey,
    content: Box<dyn CachedContent>,
    origin: Origin,
    /// Length of the file when it was opened.
    len: u64,
}

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

    /// The bytes of a range of the file as the cache has them mapped; `None` if they are not all the cache's.
    pub(crate) fn mapped(&self, offset: u64, len: usize) -> Option<(Arc<Mapping>, Range<u64>)> {
        let start = offset.checked_sub(self.content.start())?;
        let range = start..start.checked_add(len as u64)?;
        if range.end > self.content.bytes() || range.is_empty() {
            return None;
        }
        let pin = self.present(&range).ok()??;
        Some((pin.mapping().ok()?, range))
    }

    /// The object with a range of it present; `None` if it must be read from the store.
    fn present(&self, range: &Range<u64>) -> io::Result<Option<Arc<Pin>>> {
        let counters = &self.cache.counters;
        // A second attempt if another process's cache was full of what we keep pinned, or the object was lost.
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
        // Another process may know the object to be longer than this one knows checksums of.
        if !missing
            .iter()
            .all(|part| self.content.is_known(part.clone()))
        {
            return Err(FillError::Mismatch);
        }
        let filling = Filling {
            cache: &self.cache,
            key: &self.key,
            content: &*self.content,
            origin: &|at, bytes| self.read_origin(self.content.start() + at, bytes),
        };
        filling.fill(&pin, range.clone())?;
        let cut = |part: &Range<u64>| {
            (part.end.min(range.end)).saturating_sub(part.start.max(range.start))
        };
        let fetched: u64 = missing.iter().map(cut).sum();
        add(&counters.misses, 1);
        add(&counters.local, range.end - range.start - fetched);
        Ok(pin)
    }

    /// Bytes of the file, all of them.
    fn read_origin(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        // It is cached here: no block of it need stay in memory.
        match self.origin.open()?.read_once(offset, bytes)? == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Bytes of the file that are not the cache's.
    fn read_past(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.origin.open()?.read_at(offset, bytes)?;
        add(&self.cache.counters.storage, count as u64);
        Ok(count)
    }
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl MediaFile for CachedFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let start = self.content.start();
        let own = start..start + self.content.bytes();
        let end = offset.saturating_add(bytes.len() as u64);
        let (from, to) = (offset.max(own.start), end.min(own.end));
        if from >= to {
            return self.read_past(offset, bytes);
        }
        let (before, rest) = bytes.split_at_mut((from - offset) as usize);
        let (cached, behind) = rest.split_at_mut((to - from) as usize);
        if !before.is_empty() {
            let count = self.read_past(offset, before)?;
            if count < before.len() {
                return Ok(count);
            }
        }
        let range = from - start..to - start;
        let pin = self.present(&range)?;
        let read = pin.is_some_and(|pin| pin.object.read_at(range.start, cached).is_ok());
        let mut count = before.len() + cached.len();
        if !read {
            let past = self.read_past(from, cached)?;
            if past < cached.len() {
                return Ok(before.len() + past);
            }
        }
        if !behind.is_empty() {
            count += self.read_past(to, behind)?;
        }
        Ok(count)
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        unsupported()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        unsupported()
    }

    fn len(&self) -> io::Result<u64> {
        match &self.origin {
            Origin::Held(file) => file.len(),
            // A file grows, but never below what it was.
            Origin::Reopened { .. } => Ok(self.origin.open().map_or(self.len, |file| {
                file.len().map_or(self.len, |len| len.max(self.len))
            })),
        }
    }

    fn sync(&self, _site: Site) -> io::Result<()> {
        unsupported()
    }

    fn is_remote(&self) -> bool {
        self.origin.is_remote()
    }
}
