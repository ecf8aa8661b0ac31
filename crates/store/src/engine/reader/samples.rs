//! Samples, checksums and files for a reader.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_segment::Buffer;

use super::Reader;
use super::view::{View, WRITER_TIMEOUT, removed};
use crate::decode::cached::SealedShardCache;
use crate::engine::cached::CachedRequest;
use crate::engine::candidate::ArrayFolder;
use crate::engine::proofs::Proofs;
use crate::engine::read::{Bounds, Files, explain, shown, stored_crc, stored_crcs};
use crate::engine::source::Sources;
use crate::engine::table_stamps::TableStamps;
use crate::engine::vanished;
use crate::error::StoreError;
use crate::layout::{self, flat::Flat};
use crate::media::MediaFile;
use crate::op::SignalId;
use crate::state::SignalState;

impl Reader {
    /// As [`Engine::read`], at the last refresh.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub fn read(&self, id: SignalId, start: i64, count: usize) -> Result<Buffer, StoreError> {
        self.read_as(&*self.state(id)?, start, count)
    }

    /// As [`Engine::read_as`]. Follows the writer if files have moved.
    ///
    /// # Errors
    /// As [`Engine::read_as`], and [`StoreError::SignalOverwritten`], [`StoreError::SignalRemoved`].
    pub fn read_as(
        &self,
        state: &SignalState,
        start: i64,
        count: usize,
    ) -> Result<Buffer, StoreError> {
        let bounds = Bounds::new(&state.name, state.end, start, count)?;
        let place = bounds.place(Flat::data(&state.meta), state.meta.format.size());
        // Fast path without paths or allocation.
        let key = self.sources.key(state, place.shard);
        if let Some(buffer) = self.sources.mapped(key, place.offset, place.len) {
            return Ok(buffer);
        }
        if let Some(buffer) = self.sources.requested(key, place.offset, place.len)? {
            return Ok(buffer);
        }
        // Without the lock, so that threads decode in parallel.
        if let Some(buffer) = self.sources.decoders.read_again(state, start, count)? {
            return Ok(buffer);
        }
        let mut view = self.lock();
        if self.media.is_remote() || self.sources.cache().is_some() {
            // Open, then read without the lock: servers and other hosts may be slow.
            let head = Bounds { count: 0, ..bounds };
            match self.read_from(&mut view, state, &head, place.shard) {
                Ok(_) => {
                    drop(view);
                    let opened = self.sources.requested(key, place.offset, place.len)?;
                    if let Some(buffer) = opened {
                        return Ok(buffer);
                    }
                    let decoders = &self.sources.decoders;
                    if let Some(buffer) = decoders.read_again(state, start, count)? {
                        return Ok(buffer);
                    }
                    view = self.lock();
                }
                Err(error) if vanished::is_of_server(&error) => return Err(error),
                Err(_) => {}
            }
        }
        let began = Instant::now();
        let mut attempts = 0;
        // No active writer: nothing will change.
        let mut is_idle = false;
        loop {
            let error = match self.read_from(&mut view, state, &bounds, place.shard) {
                Ok(buffer) => return Ok(buffer),
                Err(error) => error,
            };
            attempts += 1;
            // Later commits may have replaced files, or be about to.
            let again = match &error {
                StoreError::MissingSamples { have: 0, .. } | StoreError::WrongShard { .. } => true,
                StoreError::MissingSamples { .. }
                | StoreError::Undecodable { .. }
                | StoreError::DamagedFile { .. } => attempts < 3,
                error => vanished::is_missing(error),
            };
            if self.stale || !again || began.elapsed() > WRITER_TIMEOUT / 10 {
                return Err(error);
            }
            match self.refresh_view(&mut view)? {
                true => attempts = 0,
                false if is_idle => return Err(error),
                false => {
                    is_idle = !self.is_written().unwrap_or(true);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    fn read_from(
        &self,
        view: &mut View,
        handle: &SignalState,
        bounds: &Bounds,
        shard: u64,
    ) -> Result<Buffer, StoreError> {
        let id = handle.id;
        let tmp = layout::tmp_folder(&self.root);
        let staged = ArrayFolder::of_signal(layout::staged(&self.root, id));
        let now = match view.signals.contains_key(&id) {
            true => match self.state_in(view, id) {
                Err(StoreError::SignalRemoved { .. }) => None,
                state => Some(state?),
            },
            false => None,
        };
        let Some(now) = now else {
            // A killed writer may have left its files.
            let place = layout::signal_folder(&self.root, &handle.name);
            let folders = vec![ArrayFolder::of_signal(place), staged];
            let files = Files {
                folders,
                replacement: None,
                proofs: None,
                cached: None,
                sealed: None,
            };
            let read = (self.sources).read_shown(&self.media, handle, handle, bounds, files);
            return read.map_err(|_| gone(view, handle));
        };
        let shown = shown(handle, &now, shard);
        let places = self.folders(view, id)?;
        let known = view.known(id)?;
        // A replacement, or a new signal's folder, may still be in `tmp/`.
        let replaced = known.replaced_data.iter();
        let folders = replaced
            .map(|name| ArrayFolder::own(tmp.join(name)))
            .chain(places.iter().cloned().map(ArrayFolder::of_signal))
            .collect();
        let replacement = known.replaced.get(&shard).map(|name| tmp.join(name));
        let stretches = known.base.tail_stretch().into_iter();
        let stretches = stretches.chain(known.newest.clone()).collect();
        let chunk_crc = |chunk: u64| {
            let folder = || places.iter().find(|folder| self.is_of(folder, id));
            let stored = || stored_crc(&*self.media, folder()?, chunk).ok()?;
            known.crcs.get(&chunk).copied().or_else(stored)
        };
        let proofs = Proofs {
            state: &now,
            stretches,
            chunk_crc: &chunk_crc,
        };
        let cache = self.sources.cache();
        // Known checksums are of the newest state.
        let cache_of = |shown: &SignalState| {
            let cache = cache.as_ref().filter(|_| std::ptr::eq(shown, &*now));
            cache.cloned()
        };
        let crcs = |chunks: Range<u64>| {
            let folder = places.iter().find(|folder| self.is_of(folder, id));
            let mut crcs = match folder {
                Some(folder) => stored_crcs(&*self.media, folder, chunks.clone()),
                None => vec![None; (chunks.end - chunks.start) as usize],
            };
            for (chunk, crc) in known.crcs.range(chunks.clone()) {
                crcs[(chunk - chunks.start) as usize] = Some(*crc);
            }
            crcs
        };
        let cached = |shown: &SignalState| {
            let cache = cache_of(shown)?;
            CachedRequest::new(cache, &self.media, self.uuid, shown, shard, crcs)
        };
        let sealed = |shown: &SignalState| {
            let cache = cache_of(shown)?;
            SealedShardCache::new(cache, self.uuid, shown, crcs, &proofs.stretches)
        };
        let files = Files {
            folders,
            replacement,
            proofs: Some(&proofs),
            cached: Some(&cached),
            sealed: Some(&sealed),
        };
        let read = (self.sources).read_shown(&self.media, handle, shown, bounds, files);
        read.map_err(|error| explain(error, handle, &now, bounds, shard))
    }

    pub(crate) fn shard_file(&self, state: &SignalState, shard: u64) -> Option<Arc<dyn MediaFile>> {
        let key = self.sources.key(state, shard);
        self.sources.file(&*self.media, key)
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// As [`Engine::shard_samples`].
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn shard_samples(&self, id: SignalId) -> Result<i64, StoreError> {
        Ok(self.lock().known(id)?.base.meta.shard_samples())
    }

    /// As [`Engine::chunk_crc`].
    ///
    /// # Errors
    /// As [`Engine::chunk_crc`].
    pub fn chunk_crc(&self, id: SignalId, chunk: u64) -> Result<Option<u32>, StoreError> {
        let mut view = self.lock();
        let began = Instant::now();
        loop {
            if let Some(crc) = view.known(id)?.crcs.get(&chunk) {
                return Ok(Some(*crc));
            }
            let folder = self.place(&view, id)?;
            let crc = stored_crc(&*self.media, &folder, chunk);
            // The folder was moved or replaced before the file was opened.
            if self.is_of(&folder, id) || self.stale || began.elapsed() > WRITER_TIMEOUT / 10 {
                return crc;
            }
            if !self.refresh_view(&mut view)? {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// As [`Engine::tail_crc`].
    ///
    /// # Errors
    /// As [`Engine::tail_crc`].
    pub fn tail_crc(&self, id: SignalId) -> Result<Option<(i64, u32)>, StoreError> {
        let tail = self.lock().known(id)?.base.tail;
        Ok(tail.map(|tail| (tail.end, tail.crc)))
    }

    pub(crate) fn table_stamps(&self, id: SignalId) -> Result<Option<TableStamps>, StoreError> {
        Ok(self.lock().known(id)?.base.tables)
    }

    /// As [`Engine::data_shard_path`].
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn data_shard_path(&self, id: SignalId, shard: u64) -> Result<PathBuf, StoreError> {
        let format = self.lock().known(id)?.base.meta.format;
        let data = self.signal_path(id)?.join("data");
        Ok(layout::data_shard_file(&data, format, shard))
    }

    /// Folder of the signal.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn signal_path(&self, id: SignalId) -> Result<PathBuf, StoreError> {
        self.place(&self.lock(), id)
    }

    fn place(&self, view: &View, id: SignalId) -> Result<PathBuf, StoreError> {
        match self.folder_now(view, id)? {
            Some(folder) => Ok(folder),
            None => self.folder(view, id),
        }
    }
}

fn gone(view: &View, handle: &SignalState) -> StoreError {
    let name = handle.name.to_string();
    if view.names.by_name.contains_key(&name) {
        return StoreError::SignalOverwritten { name };
    }
    match name.is_empty() {
        true => removed(handle.id),
        false => StoreError::SignalRemoved { name },
    }
}
