//! The storage engine: one writer with a redo log, any number of live readers.
//!
//! The protocol and its failure analysis are sections 2 to 5 of `docs/design.md`. In short: samples are written where
//! they belong, past a signal's end or into its gaps, where nobody reads them; a *commit* then writes one record that
//! says what is true now, and syncs the log once; a *checkpoint* brings home what only the log holds and starts a new
//! log; *recovery* replays the log. A *reader* follows the log.
//!
//! Memory is bounded: per signal in use its tables (and what the next commit holds of them), at most 64 KiB of samples
//! awaiting a commit, checksums since the last checkpoint (bounded by the log, which is folded at 64 MiB); 256 open
//! shard files; 1024 mappings, which are address space only.

mod checkpoint;
mod commit;
pub(crate) mod crc;
mod due;
pub(crate) mod io;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod manifest;
pub(crate) mod open;
mod place;
mod publish;
mod reader;
pub(crate) mod rebuild;
mod recent;
mod recovery;
mod samples;
mod shared;
mod slot;
mod source;
mod tables;
mod tail;
#[cfg(test)]
mod tests;
pub(crate) mod vanished;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use isochrony_segment::Buffer;
use uuid::Uuid;

use crate::error::StoreError;
use crate::layout;
use crate::layout::flat::Flat;
use crate::media::Media;
use crate::op::{Op, SignalId};
use crate::state::SignalState;

use io::IoContext;
pub use reader::Reader;
use shared::{Shared, Structural};
use slot::{Slot, SlotInner};
pub use tables::table_files;

/// What an [`Engine`] may find where it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// A store must exist.
    Existing,
    /// A store is created if there is none.
    CreateIfMissing,
    /// There must be no store (nor anything else) yet.
    CreateNew,
}

/// The one writer of a store. All methods may be called from several threads; writes to different signals run side by
/// side.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

impl Engine {
    /// Opens a store for writing on this machine's disks; recovers it if its last writer crashed.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`], [`StoreError::StoreExists`], [`StoreError::Locked`],
    /// [`StoreError::NetworkFileSystem`], [`StoreError::NewerFormat`], [`StoreError::DamagedFile`], or what the system
    /// says.
    pub fn open(root: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        Self::open_on(root, mode, crate::media::disk())
    }

    /// Opens a store for writing on any medium.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(root: &Path, mode: OpenMode, media: Arc<dyn Media>) -> Result<Self, StoreError> {
        let root = std::path::absolute(root).at("look at", root)?;
        let shared = open::open(&root, mode, media)?;
        Ok(Self { shared })
    }

    /// The store's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.shared.root
    }

    /// Identity of the store.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.shared.uuid
    }

    /// All signals with their names in name order, pending changes included.
    #[must_use]
    pub fn catalogue(&self) -> Vec<(SignalId, String)> {
        let names = self.shared.names.read();
        let names = names.unwrap_or_else(PoisonError::into_inner);
        let all = names.by_name.iter();
        all.map(|(name, id)| (*id, name.clone())).collect()
    }

    /// The signal with this name, pending changes included.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<SignalId> {
        let names = self.shared.names.read();
        let names = names.unwrap_or_else(PoisonError::into_inner);
        names.by_name.get(name).copied()
    }

    /// A number for a new signal, never given before.
    #[must_use]
    pub fn new_id(&self) -> SignalId {
        SignalId(self.shared.next_id.fetch_add(1, Ordering::AcqRel))
    }

    /// Committed and pending state of a signal; loaded from its tables on first use.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], or what is wrong with its tables.
    pub fn state(&self, id: SignalId) -> Result<Arc<SignalState>, StoreError> {
        let slot = self.shared.existing(id)?;
        let mut slot = slot.lock();
        refuse_removed(&slot)?;
        slot.state(&*self.shared.media).cloned()
    }

    /// Writes samples from `index` on: past the end of the signal or into a gap. They count once `Op::Valid` (and
    /// `Op::End`) that cover them were queued and committed. One write per shard, no copy beyond 64 KiB per signal.
    ///
    /// # Errors
    /// [`StoreError::Occupied`] over committed samples, [`StoreError::Sealed`], [`StoreError::PartialSample`],
    /// [`StoreError::DiskFull`] and what else the system says; the store then stays as it was.
    pub fn write_samples(&self, id: SignalId, index: i64, bytes: &[u8]) -> Result<(), StoreError> {
        let shared = &*self.shared;
        shared.check("write samples")?;
        let slot = shared.existing(id)?;
        let mut slot = slot.lock();
        refuse_removed(&slot)?;
        slot.check_writable(&*shared.media, index, bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        slot.write(
            &*shared.media,
            &shared.handles,
            &shared.root,
            index,
            bytes,
            false,
        )?;
        slot.note_written(index, bytes);
        drop(slot);
        shared.mark_active(id);
        Ok(())
    }

    /// Adds a change to the next commit; `state` shows it at once.
    ///
    /// # Errors
    /// Errors of names for changes of the catalogue; [`StoreError::SignalRemoved`].
    pub fn queue(&self, op: Op) -> Result<(), StoreError> {
        let shared = &*self.shared;
        shared.check("change a signal")?;
        let id = op.signal();
        match op {
            Op::Create { .. } | Op::Remove { .. } | Op::Rename { .. } => {
                self.queue_structural(op)?
            }
            op => {
                let slot = shared.existing(id)?;
                let mut slot = slot.lock();
                refuse_removed(&slot)?;
                if matches!(op, Op::ReplaceShard { .. } | Op::ReplaceData { .. }) {
                    shared.handles.forget(id);
                    shared.sources.forget(id);
                }
                slot.queue(&*shared.media, op)?;
            }
        }
        shared.mark_active(id);
        Ok(())
    }

    fn queue_structural(&self, op: Op) -> Result<(), StoreError> {
        let shared = &*self.shared;
        let media = &*shared.media;
        let id = op.signal();
        let mut core = shared.core();
        let mut names = shared.names.write().unwrap_or_else(PoisonError::into_inner);
        let old_name = names.by_id.get(&id).cloned();
        match &op {
            Op::Create { name, meta, .. } => {
                names.check_free(name)?;
                self.refuse_in_the_way(name)?;
                let slot = Slot::created(&shared.root, id, name, meta);
                // Made at once: on a full disk this call fails, and nothing waits for a commit that cannot be.
                if let Err(error) = slot.lock().ensure_folder(media) {
                    let _ = media.remove_all(&layout::staged(&shared.root, id));
                    return Err(error);
                }
                let mut slots = shared.slots.write().unwrap_or_else(PoisonError::into_inner);
                slots.insert(id, Arc::new(slot));
                names.insert(id, name);
            }
            Op::Rename { to, .. } => {
                let slot = shared.existing(id)?;
                let mut slot = slot.lock();
                refuse_removed(&slot)?;
                let old = names.remove(id);
                if let Err(error) = names.check_free(to) {
                    old.iter().for_each(|old| names.insert(id, old));
                    return Err(error);
                }
                if let Err(error) = slot.show(media, &op) {
                    old.iter().for_each(|old| names.insert(id, old));
                    return Err(error);
                }
                names.insert(id, to);
            }
            _ => {
                let slot = shared.existing(id)?;
                let mut slot = slot.lock();
                refuse_removed(&slot)?;
                slot.removed = true;
                names.remove(id);
            }
        }
        core.structural.push(Structural { op, old_name });
        Ok(())
    }

    /// Takes back the latest creation or removal of a signal that waits for a commit, if there is one.
    pub(crate) fn take_back(&self, id: SignalId) {
        let shared = &*self.shared;
        let mut core = shared.core();
        let mut names = shared.names.write().unwrap_or_else(PoisonError::into_inner);
        let of_signal = |change: &Structural| change.op.signal() == id;
        let Some(at) = core.structural.iter().rposition(of_signal) else {
            return;
        };
        let change = core.structural.remove(at);
        let slot = shared.slot(id);
        match change.op {
            Op::Create { .. } => {
                names.remove(id);
                if let Some(slot) = slot {
                    let mut slot = slot.lock();
                    slot.rollback();
                    slot.removed = true;
                    let _ = shared.media.remove_all(&slot.folder);
                }
                let mut slots = shared.slots.write().unwrap_or_else(PoisonError::into_inner);
                slots.remove(&id);
                shared.handles.forget(id);
                shared.sources.forget(id);
            }
            Op::Remove { .. } => {
                if let Some(slot) = slot {
                    slot.lock().removed = false;
                }
                change.old_name.iter().for_each(|old| names.insert(id, old));
            }
            _ => core.structural.insert(at, change),
        }
    }

    /// Refuses a name whose folder holds something that is none of the store's.
    fn refuse_in_the_way(&self, name: &str) -> Result<(), StoreError> {
        let shared = &*self.shared;
        let path = layout::signal_folder(&shared.root, name);
        if shared.media.stat(&path).at("look at", &path)?.is_none() {
            return Ok(());
        }
        // A group that lost its signals, or a signal whose removal or renaming is pending, makes way.
        let ours = shared
            .all_slots()
            .iter()
            .any(|(_, slot)| slot.lock().folder == path);
        let names = shared.media.list(&path).unwrap_or_default();
        if ours || (!names.is_empty() && names.iter().all(|name| name == "zarr.json")) {
            return Ok(());
        }
        Err(StoreError::InTheWay {
            signal: name.into(),
            path,
        })
    }

    /// Makes all pending changes of all signals durable, all or none. Gives the sequence number of the commit (the
    /// last one's if nothing was pending). With `publish`, other programs see it at once, else within a second.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`]: nothing was committed, everything stays pending. [`StoreError::Poisoned`] and others:
    /// close the store and open it again.
    pub fn commit(&self, publish: bool) -> Result<u64, StoreError> {
        self.shared.commit(publish)
    }

    /// Sequence number of the last commit.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.shared.core().sequence
    }

    /// Whether anything waits for a commit.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        let shared = &*self.shared;
        !shared.core().structural.is_empty()
            || shared
                .active()
                .iter()
                .filter_map(|id| shared.slot(*id))
                .any(|slot| slot.lock().is_pending())
    }

    /// Forgets all pending changes.
    ///
    /// # Errors
    /// [`StoreError::Closed`], [`StoreError::Forked`].
    pub fn rollback(&self) -> Result<(), StoreError> {
        self.shared.check("roll back")?;
        self.shared.rollback();
        Ok(())
    }

    /// Brings tables up to date and starts a new log. Commits do it by themselves when the log gets long.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] and others: the store stays as it was, with its old log.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.shared.check("checkpoint")?;
        let mut core = self.shared.core();
        self.shared.checkpoint_with(&mut core)
    }

    /// Forgets pending changes, checkpoints, and lets the next writer in. Dropping does the same, without errors.
    /// Closing twice is fine.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint). The store is closed all the same and the next opening recovers it.
    pub fn close(&self) -> Result<(), StoreError> {
        self.shared.close()
    }

    /// File of shard `shard` of a signal's `data`.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn data_shard_path(&self, id: SignalId, shard: u64) -> Result<PathBuf, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(slot.data_shard(&self.shared.root, shard))
    }

    /// The signal's folder.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn signal_path(&self, id: SignalId) -> Result<PathBuf, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(slot.folder.clone())
    }

    /// A fresh name for a file or folder under construction (for `Op::ReplaceShard`, `Op::ReplaceData`), and its path.
    #[must_use]
    pub fn new_tmp(&self) -> (String, PathBuf) {
        self.shared.new_tmp()
    }

    /// The medium that the store lies on.
    #[must_use]
    pub fn media(&self) -> &Arc<dyn Media> {
        &self.shared.media
    }

    /// Bytes of samples `[start, start + count)`, which must lie in one shard and below the signal's end (pending
    /// samples included). Zero-copy where the medium can be mapped.
    ///
    /// # Errors
    /// [`StoreError::MissingSamples`], [`StoreError::DamagedFile`], or what the system says.
    pub fn read(&self, id: SignalId, start: i64, count: usize) -> Result<Buffer, StoreError> {
        let shared = &*self.shared;
        let slot = shared.existing(id)?;
        let mut slot = slot.lock();
        refuse_removed(&slot)?;
        let state = slot.state(&*shared.media)?;
        let bounds = Bounds::new(&state.name, state.end, start, count)?;
        let meta = state.meta.clone();
        let decode = |slot: &SlotInner| {
            let folder = slot.data_folder(&shared.root);
            let decoders = &shared.sources.decoders;
            decoders.read(&shared.media, id, &folder, &meta, start, count)
        };
        if !meta.codec.is_empty() {
            return decode(&slot);
        }
        let flat = Flat::data(&meta);
        let place = bounds.place(flat, meta.dtype.size());
        let path = || vec![slot.data_shard(&shared.root, place.shard)];
        let key = (id, place.shard);
        let found =
            shared
                .sources
                .read(&*shared.media, key, flat, path, place.offset, place.len)?;
        found.map_or_else(|| decode(&slot), Ok)
    }

    /// Samples per shard file of a signal's `data`: no buffer of `read` spans a multiple of it.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn shard_samples(&self, id: SignalId) -> Result<i64, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(shard_samples(&slot.base.meta))
    }

    /// Checksum of a full chunk of `data` as of the last commit, if known.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], or what the system says.
    pub fn chunk_crc(&self, id: SignalId, chunk: u64) -> Result<Option<u32>, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        match slot.crcs.get(&chunk) {
            Some(crc) => Ok(Some(*crc)),
            None => stored_crc(&*self.shared.media, &slot.folder, chunk),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Nobody is left to tell; the next opening recovers what closing could not finish.
        let _ = self.shared.close();
    }
}

impl Shared {
    /// A name in `tmp/` that nothing ever had.
    fn new_tmp(&self) -> (String, PathBuf) {
        let path = io::unique(&layout::tmp_folder(&self.root), "new");
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        (name.unwrap_or_default(), path)
    }

    fn rollback(&self) {
        let mut core = self.core();
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        for change in std::mem::take(&mut core.structural).into_iter().rev() {
            let id = change.op.signal();
            match change.old_name {
                Some(old) => names.insert(id, &old),
                None => _ = names.remove(id),
            }
            if let Some(slot) = self.slot(id) {
                slot.lock().removed = false;
            }
        }
        drop(names);
        let active = {
            let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *active)
        };
        for id in active {
            let Some(slot) = self.slot(id) else { continue };
            let mut slot = slot.lock();
            slot.rollback();
            self.handles.forget(id);
            self.sources.forget(id);
            if slot.created {
                let _ = self.media.remove_all(&slot.folder);
                slot.removed = true;
                let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
                slots.remove(&id);
            }
        }
    }

    fn close(&self) -> Result<(), StoreError> {
        // A fork shares the lock but must not touch the store.
        if self.owner != std::process::id() || self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let poisoned = self.check("close");
        if poisoned.is_ok() {
            self.rollback();
        }
        let mut core = self.core();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let done = match poisoned {
            Ok(()) if core.log.has_records || !core.dirty.is_empty() => {
                self.checkpoint_with(&mut core)
            }
            Ok(()) => {
                self.publish(&mut core);
                Ok(())
            }
            // What went wrong was said when it did; now the store is as safe as it can be.
            Err(_) => {
                core.lock.release();
                return Ok(());
            }
        };
        if done.is_ok() {
            // Text in the lock file means a crash.
            let _ = core.lock.write("");
        }
        core.lock.release();
        done
    }
}

fn refuse_removed(slot: &SlotInner) -> Result<(), StoreError> {
    if slot.removed {
        return Err(StoreError::SignalRemoved {
            name: slot.base.name.to_string(),
        });
    }
    Ok(())
}

/// A range of samples that a signal has.
struct Bounds {
    start: i64,
    count: usize,
}

/// Where it lies.
struct Place {
    shard: u64,
    offset: u64,
    len: usize,
}

impl Bounds {
    fn new(signal: &str, have_end: i64, start: i64, count: usize) -> Result<Self, StoreError> {
        let end = i64::try_from(count)
            .ok()
            .and_then(|count| start.checked_add(count));
        match end {
            Some(end) if start >= 0 && end <= have_end => Ok(Self { start, count }),
            _ => Err(StoreError::OutOfBounds {
                signal: signal.into(),
                start,
                end: end.unwrap_or(i64::MAX),
                have_start: 0,
                have_end,
            }),
        }
    }

    fn place(&self, flat: Flat, sample_bytes: usize) -> Place {
        let at = self.start.cast_unsigned() * sample_bytes as u64;
        Place {
            shard: at / flat.shard_bytes(),
            offset: flat.payload_start + at % flat.shard_bytes(),
            len: self.count * sample_bytes,
        }
    }
}

fn shard_samples(meta: &crate::meta::SignalMeta) -> i64 {
    let samples = meta
        .chunk_samples
        .max(1)
        .saturating_mul(meta.shard_chunks.max(1));
    i64::try_from(samples).unwrap_or(i64::MAX)
}

/// A checksum from the array `crc`.
fn stored_crc(media: &dyn Media, folder: &Path, chunk: u64) -> Result<Option<u32>, StoreError> {
    let flat = Flat::side();
    let at = chunk.saturating_mul(4);
    let path = layout::shard_file(&folder.join("crc"), at / flat.shard_bytes());
    let file = match media.open(&path, crate::media::Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).at("open", &path),
    };
    let mut bytes = [0; 4];
    let offset = flat.payload_start + at % flat.shard_bytes();
    let count = file.read_at(offset, &mut bytes).at("read", &path)?;
    Ok((count == 4).then(|| u32::from_le_bytes(bytes)))
}
