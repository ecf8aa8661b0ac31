//! Samples, checksums and files of signals, as a reader finds them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_segment::Buffer;

use super::view::View;
use super::{PATIENCE, Reader};
use crate::engine::{Bounds, shard_samples, stored_crc};
use crate::error::StoreError;
use crate::layout::{self, flat::Flat};
use crate::media::MediaFile;
use crate::op::SignalId;

impl Reader {
    /// As [`Engine::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, id: SignalId, start: i64, count: usize) -> Result<Buffer, StoreError> {
        let mut view = self.lock();
        let began = Instant::now();
        let mut moved = false;
        loop {
            match self.read_from(&mut view, id, start, count) {
                // A file on its way from one place to another.
                Err(StoreError::MissingSamples { have: 0, .. })
                    if !self.stale && began.elapsed() < PATIENCE / 10 =>
                {
                    self.sources.forget(id);
                    self.refresh_view(&mut view)?;
                    std::thread::sleep(Duration::from_millis(1));
                }
                // What was committed since may have replaced the file, as sealing does: the samples are the same.
                Err(error) if !moved && !self.stale => match self.refresh_view(&mut view) {
                    Ok(true) => moved = true,
                    _ => return Err(error),
                },
                other => return other,
            }
        }
    }

    fn read_from(
        &self,
        view: &mut View,
        id: SignalId,
        start: i64,
        count: usize,
    ) -> Result<Buffer, StoreError> {
        if let Some(buffer) = self.read_mapped(view, id, start, count)? {
            return Ok(buffer);
        }
        let folder = self.folder(view, id)?;
        let staged = layout::staged(&self.root, id);
        let known = view.known(id)?;
        let meta = known.base.meta.clone();
        let bounds = Bounds::new(&known.base.name, known.end, start, count)?;
        let tmp = layout::tmp_folder(&self.root);
        // A replacement is at its place or, until then, in `tmp/`; so is a new signal's folder.
        let arrays: Vec<PathBuf> = (known.replaced_data.iter().map(|name| tmp.join(name)))
            .chain([folder.join("data"), staged.join("data")])
            .collect();
        let decode = || {
            let there = |array: &&PathBuf| matches!(self.media.stat(array), Ok(Some(_)));
            let array = arrays.iter().find(there).unwrap_or(&arrays[0]);
            let decoders = &self.sources.decoders;
            decoders.read(&self.media, id, array, &meta, start, count)
        };
        if !meta.codec.is_empty() {
            return decode();
        }
        let flat = Flat::data(&meta);
        let place = bounds.place(flat, meta.dtype.size());
        let paths = || {
            let replaced = known.replaced.get(&place.shard);
            replaced
                .map(|name| tmp.join(name))
                .into_iter()
                .chain(
                    arrays
                        .iter()
                        .map(|array| layout::shard_file(array, place.shard)),
                )
                .collect()
        };
        let key = (id, place.shard);
        let found = (self.sources).read(&*self.media, key, flat, paths, place.offset, place.len)?;
        found.map_or_else(decode, Ok)
    }

    /// The usual case, which names no file and allocates nothing: the shard is flat, and mapped already.
    fn read_mapped(
        &self,
        view: &mut View,
        id: SignalId,
        start: i64,
        count: usize,
    ) -> Result<Option<Buffer>, StoreError> {
        let known = view.known(id)?;
        let meta = &known.base.meta;
        if !meta.codec.is_empty() {
            return Ok(None);
        }
        let bounds = Bounds::new(&known.base.name, known.end, start, count)?;
        let place = bounds.place(Flat::data(meta), meta.dtype.size());
        Ok(self
            .sources
            .mapped((id, place.shard), place.offset, place.len))
    }

    /// As [`Engine::shard_file`].
    pub(crate) fn shard_file(&self, id: SignalId, shard: u64) -> Option<Arc<dyn MediaFile>> {
        self.sources.file((id, shard))
    }

    /// As [`Engine::shard_samples`].
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn shard_samples(&self, id: SignalId) -> Result<i64, StoreError> {
        Ok(shard_samples(&self.lock().known(id)?.base.meta))
    }

    /// As [`Engine::chunk_crc`].
    ///
    /// # Errors
    /// As there.
    pub fn chunk_crc(&self, id: SignalId, chunk: u64) -> Result<Option<u32>, StoreError> {
        let mut view = self.lock();
        let folder = self.folder(&view, id)?;
        match view.known(id)?.crcs.get(&chunk) {
            Some(crc) => Ok(Some(*crc)),
            None => stored_crc(&*self.media, &folder, chunk),
        }
    }

    /// As [`Engine::tail_crc`].
    ///
    /// # Errors
    /// As there.
    pub fn tail_crc(&self, id: SignalId) -> Result<Option<(i64, u32)>, StoreError> {
        let tail = self.lock().known(id)?.base.tail;
        Ok(tail.map(|tail| (tail.end, tail.crc)))
    }

    /// As [`Engine::data_shard_path`].
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn data_shard_path(&self, id: SignalId, shard: u64) -> Result<PathBuf, StoreError> {
        Ok(layout::shard_file(
            &self.signal_path(id)?.join("data"),
            shard,
        ))
    }

    /// The signal's folder.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn signal_path(&self, id: SignalId) -> Result<PathBuf, StoreError> {
        self.folder(&self.lock(), id)
    }
}
