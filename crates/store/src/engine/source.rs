//! Reads samples from shared mappings of shards, or copies where mapping is impossible.

use std::collections::VecDeque;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use isochrony_segment::{Buffer, BufferMut};

use super::cached::{CachedRequest, cached_view};
use super::candidate::{ArrayFolder, FlatHead, wrong_mark};
use super::io::IoContext;
use super::mapping::{Mapping, Place};
use super::proofs::Proofs;
use super::shard_lru::{ShardKey, ShardLru, open_file_limit};
use super::vanished::is_of_server;
use crate::error::StoreError;
use crate::layout::data_shard_file;
use crate::layout::flat::{Flat, IndexKind};
use crate::layout::mark::WriteMark;
use crate::layout::shard::ShardHeader;
use crate::media::{Media, MediaFile};
use crate::op::SignalId;
use crate::sample_format::SampleFormat;
use crate::shard_cache::{CachedFile, ShardCache};
use crate::state::SignalState;

/// Most mappings kept; buffers in use keep theirs.
const MAX_MAPPINGS: usize = 1024;

struct OpenFile(Arc<dyn MediaFile>);

enum Shard {
    Mapped(Arc<Mapping>),
    /// Copies, as on a network file system.
    Copied(Place),
    /// Copies, on a medium without system files.
    File(Arc<dyn MediaFile>, PathBuf),
    /// Through this host's cache.
    Cached(Arc<CachedFile>, PathBuf),
    /// Written by another program.
    Foreign,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

pub(crate) struct Sources {
    pub(crate) decoders: crate::decode::Decoders,
    open: ShardLru<Shard>,
    files: ShardLru<OpenFile>,
    /// Opened by scans, the latest last.
    scanned: Mutex<VecDeque<(SignalId, Arc<File>)>>,
    /// If used; the flag avoids the lock on each read.
    cache: RwLock<Option<Arc<ShardCache>>>,
    has_cache: AtomicBool,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            decoders: crate::decode::Decoders::default(),
            open: ShardLru::new(MAX_MAPPINGS),
            files: ShardLru::new(open_file_limit()),
            scanned: Mutex::default(),
            cache: RwLock::default(),
            has_cache: AtomicBool::new(false),
        }
    }
}

pub(crate) struct ShardRequest {
    pub(crate) header: ShardHeader,
    pub(crate) mark: Option<WriteMark>,
    pub(crate) flat: Flat,
    pub(crate) format: SampleFormat,
    /// In the order to try.
    pub(crate) folders: Vec<ArrayFolder>,
    pub(crate) replacement: Option<std::path::PathBuf>,
    pub(crate) cached: Option<CachedRequest>,
}

impl ShardRequest {
    /// Whether it has all committed samples.
    ///
    /// # Errors
    /// [`StoreError::WrongShard`] if not, and the missing part is requested.
    fn is_whole(
        &self,
        shard: &Shard,
        file: Option<&dyn MediaFile>,
        proofs: Option<&Proofs<'_>>,
        bytes: Range<u64>,
    ) -> Result<bool, StoreError> {
        let (Some(proofs), Some(file)) = (proofs, file) else {
            return Ok(true);
        };
        let path = match shard {
            Shard::Mapped(mapping) => &mapping.place.path,
            Shard::Copied(place) => &place.path,
            Shard::File(_, path) | Shard::Cached(_, path) => path,
            Shard::Foreign => return Ok(true),
        };
        let missing = proofs.missing(file, &self.flat, self.header.shard);
        let missing = missing.at("read", path)?;
        let size = proofs.state.meta.format.size() as u64;
        let at = |index: i64| {
            let within = (index.cast_unsigned() * size) % self.flat.shard_bytes();
            self.flat.payload_start + within
        };
        let length = proofs.state.meta.chunk_samples.max(1).cast_signed();
        let is_read = |range: &&Range<i64>| {
            let first = range.start / length * length;
            let last = (range.end - 1) / length * length + (length - 1);
            bytes.start <= at(last) && at(first) < bytes.end
        };
        if let Some(&Range { start, end }) = missing.iter().find(is_read) {
            return Err(StoreError::WrongShard {
                path: path.clone(),
                got: format!(
                    "an older version in which some of the samples {start}..{end} are zeros"
                ),
                expected: format!("the one in which samples {start}..{end} have their checksum"),
            });
        }
        Ok(missing.is_empty())
    }
}

impl Sources {
    /// `None` if foreign, to be decoded. A shard open as `key` is not looked up.
    pub(crate) fn read(
        &self,
        media: &dyn Media,
        key: ShardKey,
        wanted: impl Fn() -> ShardRequest,
        proofs: Option<&Proofs<'_>>,
        (offset, len): (u64, usize),
    ) -> Result<Option<Buffer>, StoreError> {
        let read = |wanted| self.read_open(media, key, wanted, proofs, (offset, len));
        match read(&wanted) {
            // A later publish replaced the remote file. Open the current one, which must identify as the shard.
            Err(StoreError::Remote {
                kind: ErrorKind::StaleNetworkFileHandle,
                ..
            }) => {
                self.open.remove(key);
                read(&wanted)
            }
            // Likewise: the cache opens the file for missing pieces.
            Err(StoreError::Io { .. }) if self.is_cached(key) => {
                self.open.remove(key);
                read(&wanted)
            }
            other => other,
        }
    }

    pub(crate) fn set_cache(&self, cache: Option<Arc<ShardCache>>) {
        let mut own = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        let is_same = match (&*own, &cache) {
            (Some(own), Some(cache)) => Arc::ptr_eq(own, cache),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return;
        }
        self.has_cache.store(cache.is_some(), Ordering::Release);
        *own = cache;
        self.decoders.close_files();
        self.open.clear();
        self.files.clear();
    }

    pub(crate) fn cache(&self) -> Option<Arc<ShardCache>> {
        (self.cache.read().unwrap_or_else(PoisonError::into_inner)).clone()
    }

    /// Key of an open shard. Through a cache it changes with the content and with more checksums.
    pub(crate) fn key(&self, state: &SignalState, shard: u64) -> ShardKey {
        let version = match self.has_cache.load(Ordering::Acquire) {
            false => state.data.file(shard),
            true => super::cached::shown_version(state, shard),
        };
        (state.id, shard, version)
    }

    fn is_cached(&self, key: ShardKey) -> bool {
        matches!(self.open.get(key).as_deref(), Some(Shard::Cached(..)))
    }

    fn read_open(
        &self,
        media: &dyn Media,
        key: ShardKey,
        wanted: &impl Fn() -> ShardRequest,
        proofs: Option<&Proofs<'_>>,
        (offset, len): (u64, usize),
    ) -> Result<Option<Buffer>, StoreError> {
        let need = offset + len as u64;
        let mut known = self.open.get(key);
        match known.as_deref() {
            Some(Shard::Mapped(mapping)) => {
                let file = || self.file_at(media, key, &mapping.place);
                if let Some(buffer) = mapping.view(offset, len, file) {
                    return Ok(Some(buffer));
                }
                // Too short, or closed, moved and grown since.
                known = None;
            }
            Some(Shard::Copied(place)) if self.file_at(media, key, place).is_none() => known = None,
            _ => {}
        }
        let shard = match known {
            Some(shard) => shard,
            None => {
                let mut wanted = wanted();
                let (shard, file) = open(media, &mut wanted, need)?;
                let shard = Arc::new(shard);
                if wanted.is_whole(&shard, file.as_deref(), proofs, offset..need)? {
                    self.open.put(key, &shard);
                }
                if let (Some(file), false) =
                    (file, matches!(*shard, Shard::File(..) | Shard::Cached(..)))
                {
                    self.files.put(key, &Arc::new(OpenFile(file)));
                }
                shard
            }
        };
        let (file, path) = match &*shard {
            Shard::Foreign => return Ok(None),
            Shard::Mapped(mapping) => {
                let file = || self.file_at(media, key, &mapping.place);
                return mapping.view(offset, len, file).map(Some).ok_or_else(|| {
                    let have = mapping.len.load(Ordering::Relaxed);
                    let path = mapping.place.path.clone();
                    StoreError::MissingSamples { path, have, need }
                });
            }
            Shard::Copied(place) => (self.file_at(media, key, place), place.path.as_path()),
            Shard::File(file, path) => (Some(file.clone()), path.as_path()),
            Shard::Cached(file, path) => {
                if let Some(buffer) = cached_view(file, offset, len) {
                    return Ok(Some(buffer));
                }
                let file: Arc<dyn MediaFile> = file.clone();
                (Some(file), path.as_path())
            }
        };
        match file {
            None => Err(StoreError::MissingSamples {
                path: path.to_path_buf(),
                have: 0,
                need,
            }),
            Some(file) => {
                let mut buffer = BufferMut::zeroed(len)?;
                let have = file.read_at(offset, buffer.bytes_mut()).at("read", path)?;
                if have < len {
                    return Err(StoreError::MissingSamples {
                        path: path.to_path_buf(),
                        have: offset + have as u64,
                        need,
                    });
                }
                Ok(Some(buffer.freeze()))
            }
        }
    }

    /// `None` if not mapped or too short.
    pub(crate) fn mapped(&self, key: ShardKey, offset: u64, len: usize) -> Option<Buffer> {
        match &*self.open.get(key)? {
            Shard::Mapped(mapping) => mapping.view(offset, len, || {
                let open = self.files.get(key)?;
                Some(open.0.clone())
            }),
            _ => None,
        }
    }

    /// `None`: look the shard up again.
    ///
    /// # Errors
    /// A server's error or an interrupt, which retrying with a lock held would not help.
    pub(crate) fn requested(
        &self,
        key: ShardKey,
        offset: u64,
        len: usize,
    ) -> Result<Option<Buffer>, StoreError> {
        let Some(shard) = self.open.get(key) else {
            return Ok(None);
        };
        let (file, path): (&dyn MediaFile, _) = match &*shard {
            Shard::File(file, path) if file.is_remote() => (&**file, path),
            Shard::Cached(file, path) => {
                if let Some(buffer) = cached_view(file, offset, len) {
                    return Ok(Some(buffer));
                }
                (&**file, path)
            }
            _ => return Ok(None),
        };
        let mut buffer = BufferMut::zeroed(len)?;
        match file.read_at(offset, buffer.bytes_mut()).at("read", path) {
            Ok(have) => Ok((have == len).then(|| buffer.freeze())),
            Err(error) if is_of_server(&error) => Err(error),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn file(&self, media: &dyn Media, key: ShardKey) -> Option<Arc<dyn MediaFile>> {
        match &*self.open.get(key)? {
            Shard::Mapped(mapping) => self.file_at(media, key, &mapping.place),
            Shard::Copied(place) => self.file_at(media, key, place),
            Shard::File(file, _) => Some(file.clone()),
            Shard::Cached(file, _) => Some(file.clone()),
            Shard::Foreign => None,
        }
    }

    fn file_at(
        &self,
        media: &dyn Media,
        key: ShardKey,
        place: &Place,
    ) -> Option<Arc<dyn MediaFile>> {
        if let Some(open) = self.files.get(key) {
            return Some(open.0.clone());
        }
        let file = place.open(media)?;
        self.files.put(key, &Arc::new(OpenFile(file.clone())));
        Some(file)
    }

    pub(crate) fn keep_open(&self, id: SignalId, file: &Arc<File>) {
        let mut scanned = self.scanned();
        if scanned.len() >= open_file_limit() {
            scanned.pop_front();
        }
        scanned.push_back((id, file.clone()));
    }

    pub(crate) fn close(&self, file: &Arc<File>) {
        self.scanned().retain(|(_, kept)| !Arc::ptr_eq(kept, file));
    }

    fn scanned(&self) -> MutexGuard<'_, VecDeque<(SignalId, Arc<File>)>> {
        self.scanned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remove_signal(&self, id: SignalId) {
        self.scanned().retain(|(of, _)| *of != id);
        self.files.remove_signal(id);
        self.decoders.remove_signal(id);
        self.open.remove_signal(id);
    }
}

fn open(
    media: &dyn Media,
    wanted: &mut ShardRequest,
    need: u64,
) -> Result<(Shard, Option<Arc<dyn MediaFile>>), StoreError> {
    let cached = wanted.cached.take();
    let ShardRequest { header, flat, .. } = &*wanted;
    let replacement = wanted.replacement.iter();
    let places = replacement
        .map(|path| (ArrayFolder::own(path.clone()), path.clone()))
        .chain((wanted.folders.iter()).map(|folder| {
            let path = data_shard_file(&folder.path, wanted.format, header.shard);
            (folder.clone(), path)
        }));
    let mut first = None;
    let mut stranger = None;
    for (folder, path) in places {
        let found = folder.open(media, &path, header, |file| {
            Ok(FlatHead::read(file, flat)?.header)
        });
        let file = match found {
            Ok(Some(file)) => file,
            Ok(None) => {
                first.get_or_insert(path);
                continue;
            }
            // The right one may be in another place.
            Err(error @ (StoreError::WrongShard { .. } | StoreError::DamagedFile { .. })) => {
                stranger.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let head = FlatHead::read(&*file, flat).at("read", &path)?;
        match head.index {
            IndexKind::Flat => {}
            IndexKind::Foreign => return Ok((Shard::Foreign, None)),
            IndexKind::Damaged => {
                return Err(StoreError::DamagedFile {
                    path,
                    offset: 0,
                    reason: "the shard's index is not valid",
                });
            }
        }
        if let Some(mark) = wanted.mark
            && !head.marks.include(mark)
        {
            let error = wrong_mark(&path, &head.marks, mark);
            stranger.get_or_insert(error);
            continue;
        }
        let len = file.len().at("look at", &path)?;
        if len < need {
            return Err(StoreError::MissingSamples {
                path,
                have: len,
                need,
            });
        }
        if let Some(cached) = cached {
            let cached = cached.open(&file, &path, len).at("look at", &path)?;
            return Ok((Shard::Cached(Arc::new(cached), path), Some(file)));
        }
        let network = media.network_of(&*file).at("look at", &path)?.is_some();
        let whole = usize::try_from(flat.full_len()).ok().filter(|_| !network);
        let Some(os) = file.as_os_file() else {
            let looked_at = file.is_remote().then(|| file.clone());
            return Ok((Shard::File(file, path), looked_at));
        };
        let place = Place::new(&path, os).at("look at", &path)?;
        let Some(whole) = whole else {
            return Ok((Shard::Copied(place), Some(file)));
        };
        let mapping = Mapping::new(os, place, whole, len).at("map", &path)?;
        let mapping = Arc::new(mapping);
        return Ok((Shard::Mapped(mapping), Some(file)));
    }
    Err(stranger.unwrap_or(StoreError::MissingSamples {
        path: first.unwrap_or_default(),
        have: 0,
        need,
    }))
}
