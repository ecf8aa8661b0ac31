//! Writes samples into shards.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::candidate::{FlatHead, wrong, wrong_mark};
use super::io::{IoContext, failed};
use super::shard_lru::{ShardLru, open_file_limit};
use super::slot::{SMALL_BYTES, SlotInner};
use crate::error::StoreError;
use crate::layout::flat::IndexKind;
use crate::layout::shard::HeaderBlock;
use crate::layout::{data_shard_file, data_shards};
use crate::media::{Access, Media, MediaFile};
use crate::op::{Op, SignalId};

#[derive(Debug)]
pub(crate) struct OpenShard {
    pub(crate) file: Arc<dyn MediaFile>,
    len: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Handles {
    open: ShardLru<OpenShard>,
    /// Scratch samples may be in memory, not in files.
    elsewhere: AtomicBool,
    /// Scratch samples may be overwritten while they are read.
    may_overwrite: AtomicBool,
}

impl Default for Handles {
    fn default() -> Self {
        Self {
            open: ShardLru::new(open_file_limit()),
            elsewhere: AtomicBool::new(false),
            may_overwrite: AtomicBool::new(false),
        }
    }
}

impl Handles {
    pub(crate) fn remove_signal(&self, id: SignalId) {
        self.open.remove_signal(id);
    }

    pub(crate) fn allow_missing_samples(&self) {
        self.elsewhere.store(true, Ordering::Relaxed);
    }

    pub(crate) fn allow_overwrites(&self) {
        self.may_overwrite.store(true, Ordering::Relaxed);
    }

    pub(crate) fn may_overwrite(&self) -> bool {
        self.may_overwrite.load(Ordering::Relaxed)
    }
}

impl SlotInner {
    /// Opens or creates a shard of `data` for writing; fails if it lacks committed samples. `repair` replaces an index
    /// torn by a power cut.
    pub(crate) fn open_shard(
        &mut self,
        media: &dyn Media,
        handles: &Handles,
        root: &Path,
        shard: u64,
        repair: bool,
    ) -> Result<Arc<OpenShard>, StoreError> {
        let header = self.shard_header(shard);
        let key = (self.id, shard, header.version);
        if let Some(open) = handles.open.get(key) {
            return Ok(open);
        }
        self.ensure_folder(media)?;
        let (data, format) = (Path::new("data"), self.base.meta.format);
        let shards = data_shards(data, format);
        self.require_name(data);
        self.require_name(&shards);
        self.require_name(&data_shard_file(data, format, shard));
        let path = self.data_shard(root, shard);
        let flat = self.flat();
        let mark = self.data_version().mark(shard).map(|mark| mark.last);
        let whole = !handles.elsewhere.load(Ordering::Relaxed);
        let file = match media.open(&path, Access::Write) {
            Ok(file) => {
                let head = FlatHead::read(&*file, &flat).at("read", &path)?;
                match head.header {
                    HeaderBlock::Header(found) if found != header => {
                        return Err(wrong(&path, &found, &header));
                    }
                    _ => {}
                }
                let kind = head.index;
                // During replay, marks not yet durable may be missing.
                if let Some(mark) = mark
                    && self.in_files.is_none()
                    && kind == IndexKind::Flat
                    && !head.marks.include(mark)
                {
                    return Err(wrong_mark(&path, &head.marks, mark));
                }
                let have = file.len().at("look at", &path)?;
                if kind != IndexKind::Foreign && whole {
                    self.check_shard(media, &path, shard, have)?;
                }
                match kind {
                    // Even a valid index: after a failed sync it may be only in the page cache. Marks stay: later
                    // commits may have left them.
                    IndexKind::Flat | IndexKind::Damaged if repair => {
                        file.write_at(0, &flat.head(&header)).at("write", &path)?;
                    }
                    IndexKind::Flat => {}
                    IndexKind::Foreign => return Err(StoreError::ForeignShard { path }),
                    IndexKind::Damaged => {
                        return Err(StoreError::DamagedFile {
                            path,
                            offset: 0,
                            reason: "the shard's index is not valid",
                        });
                    }
                }
                file
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if whole {
                    self.check_shard(media, &path, shard, 0)?;
                }
                self.subfolder(media, &shards)?;
                self.dirty.folders.insert(shards);
                let file = media.open(&path, Access::CreateNew).at("create", &path)?;
                // The file held only gaps, so the mark applies to the new one.
                if let Err(error) = file.write_at(0, &flat.marked_head(&header, mark)) {
                    // Without an index it would look damaged.
                    let _ = media.remove_file(&path);
                    return Err(failed(error, "write", &path));
                }
                file
            }
            Err(error) => return Err(failed(error, "open", &path)),
        };
        let len = AtomicU64::new(file.len().at("look at", &path)?);
        let open = Arc::new(OpenShard { file, len });
        handles.open.put(key, &open);
        Ok(open)
    }

    pub(crate) fn write(
        &mut self,
        media: &dyn Media,
        handles: &Handles,
        root: &Path,
        index: i64,
        bytes: &[u8],
        repair: bool,
    ) -> Result<(), StoreError> {
        let flat = self.flat();
        let start = byte_of(index, self.base.meta.format.size());
        let mut rest = bytes;
        for span in flat.spans(start, bytes.len() as u64) {
            let (part, later) = rest.split_at((span.len as usize).min(rest.len()));
            rest = later;
            let open = self.open_shard(media, handles, root, span.shard, repair)?;
            let need = flat.file_len(span.offset + span.len - flat.payload_start);
            let path = || self.data_shard(root, span.shard);
            if open.len.load(Ordering::Relaxed) < need {
                open.file.set_len(need).at("extend", &path())?;
                open.len.store(need, Ordering::Relaxed);
            }
            open.file
                .write_at(span.offset, part)
                .at("write samples to", &path())?;
            self.pending.shards.insert(span.shard);
        }
        Ok(())
    }

    /// Extends shard files to the signal's length: array readers request every chunk in the index, even in gaps. Shards
    /// entirely in gaps have no file.
    pub(crate) fn cover(
        &mut self,
        media: &dyn Media,
        handles: &Handles,
        root: &Path,
        shards: BTreeSet<u64>,
        end: i64,
    ) -> Result<(), StoreError> {
        let flat = self.flat();
        let used = byte_of(end, self.base.meta.format.size());
        for shard in shards {
            let within = used.saturating_sub(shard.saturating_mul(flat.shard_bytes()));
            let path = self.data_shard(root, shard);
            let key = (self.id, shard, self.shard_header(shard).version);
            let is_open = handles.open.get(key).is_some();
            if within == 0 || !is_open && media.stat(&path).at("look at", &path)?.is_none() {
                continue;
            }
            let open = match self.open_shard(media, handles, root, shard, false) {
                // Reads of it fail anyway.
                Err(StoreError::WrongShard { .. }) => continue,
                other => other?,
            };
            let need = flat.file_len(within.min(flat.shard_bytes()));
            if open.len.load(Ordering::Relaxed) < need {
                open.file.set_len(need).at("extend", &path)?;
                open.len.store(need, Ordering::Relaxed);
                self.dirty.shards.insert(shard);
            }
        }
        Ok(())
    }

    pub(crate) fn cover_pending(
        &mut self,
        media: &dyn Media,
        handles: &Handles,
        root: &Path,
    ) -> Result<(), StoreError> {
        let state = self.state(media)?;
        let (end, sealed) = (state.end, !state.meta.codec.is_empty());
        let mut shards = self.pending.shards.clone();
        shards.extend(self.replaced.keys());
        if end != self.base.end {
            shards.insert(self.shard_of(self.base.end));
        }
        if sealed || shards.is_empty() {
            return Ok(());
        }
        self.cover(media, handles, root, shards, end)
    }

    pub(crate) fn shard_of(&self, index: i64) -> u64 {
        byte_of(index, self.base.meta.format.size()) / self.flat().shard_bytes()
    }

    pub(crate) fn note_written(&mut self, index: i64, bytes: &[u8]) {
        let sample_bytes = self.base.meta.format.size();
        self.sums
            .feed(self.flat(), byte_of(index, sample_bytes), bytes);
        let pending = &mut self.pending;
        pending.small_bytes += bytes.len();
        if pending.bulk || pending.small_bytes > SMALL_BYTES {
            self.sync_in_place();
            return;
        }
        // Keep the order: recovery drops samples that a later gap removed.
        let last = pending.last_samples.and_then(|at| self.ops.get_mut(at));
        if let Some(Op::Samples {
            index: first,
            bytes: have,
            ..
        }) = last
            && *first + (have.len() / sample_bytes) as i64 == index
        {
            have.extend_from_slice(bytes);
            return;
        }
        pending.last_samples = Some(self.ops.len());
        self.ops.push(Op::Samples {
            id: self.id,
            index,
            bytes: bytes.to_vec(),
        });
    }

    /// The next commit then does not record pending samples.
    pub(crate) fn sync_in_place(&mut self) {
        if !self.pending.bulk {
            self.ops.retain(|op| !matches!(op, Op::Samples { .. }));
        }
        self.pending.bulk = true;
        self.pending.last_samples = None;
    }

    /// Checksums of full or changed chunks, for the next commit.
    pub(crate) fn settle_checksums(
        &mut self,
        media: &dyn Media,
        root: &Path,
    ) -> Result<(), StoreError> {
        if self.sums.recheck.is_empty() && self.sums.ready.is_empty() {
            return Ok(());
        }
        let state = self.state(media)?.clone();
        let flat = self.flat();
        let sample_bytes = state.meta.format.size();
        let chunk_samples = state.meta.chunk_samples.max(1) as i64;
        // Gap samples count as zero, whatever was written.
        let in_gaps = |&&chunk: &&u64| {
            let first = (chunk as i64).saturating_mul(chunk_samples);
            let within = first..first.saturating_add(chunk_samples);
            state.gaps.missing_within(within) > 0
        };
        let recheck = self.sums.ready.keys().filter(in_gaps).copied();
        self.sums.recheck.extend(recheck.collect::<Vec<_>>());
        if !state.meta.codec.is_empty() {
            // Compressed files are not read here; unsealing gives readable ones.
            return Ok(());
        }
        let full = (state.end / chunk_samples).max(0).cast_unsigned();
        let partial = self.sums.recheck.split_off(&full);
        let mut buffer = Vec::new();
        for chunk in std::mem::replace(&mut self.sums.recheck, partial) {
            buffer.clear();
            buffer.resize(flat.chunk_bytes as usize, 0);
            for span in flat.spans(chunk * flat.chunk_bytes, flat.chunk_bytes) {
                let path = self.data_shard(root, span.shard);
                match media.open(&path, Access::Read) {
                    Ok(file) => _ = file.read_at(span.offset, &mut buffer).at("read", &path)?,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(failed(error, "open", &path)),
                }
            }
            let first = chunk as i64 * chunk_samples;
            match super::crc::masked(&mut buffer, first, sample_bytes, &state.gaps) {
                Some(crc) => _ = self.sums.ready.insert(chunk, crc),
                None => _ = self.sums.ready.remove(&chunk),
            }
        }
        Ok(())
    }

    /// Fails for committed samples, sealed signals, and parts of samples.
    pub(crate) fn check_writable(
        &mut self,
        media: &dyn Media,
        index: i64,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let state = self.state(media)?.clone();
        let signal = || state.name.to_string();
        if !state.meta.codec.is_empty() {
            return Err(StoreError::Sealed {
                signal: signal(),
                codec: state.meta.codec.clone(),
            });
        }
        let format = state.meta.format;
        if !bytes.len().is_multiple_of(format.size()) {
            return Err(StoreError::PartialSample {
                signal: signal(),
                bytes: bytes.len(),
                format,
            });
        }
        let count = (bytes.len() / format.size()) as i64;
        let longest = i64::MAX / (2 * format.size() as i64);
        let end = index.checked_add(count).filter(|end| *end <= longest);
        let Some(end) = end.filter(|_| index >= 0) else {
            return Err(StoreError::InvalidLength {
                signal: signal(),
                action: "write",
                length: count,
                max: longest,
            });
        };
        let Some(committed) = self.committed_mut() else {
            return Ok(());
        };
        let within = index..end.min(committed.end);
        if within.start < within.end
            && committed.gaps.missing_within(within.clone()) < within.end - within.start
        {
            let gap = committed.gaps.first_within(within.clone());
            let at = match gap {
                Some(gap) if gap.start <= index => gap.end(),
                _ => index,
            };
            return Err(StoreError::Occupied {
                signal: signal(),
                start: index,
                end,
                at,
            });
        }
        Ok(())
    }
}

fn byte_of(index: i64, sample_bytes: usize) -> u64 {
    index.max(0).cast_unsigned() * sample_bytes as u64
}
