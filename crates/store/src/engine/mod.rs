//! The storage engine: one writer with a redo log, any number of live readers.
//!
//! Protocol: `docs/design/commit_protocol.md`; failure analysis: `docs/design/failure_analysis.md`. Samples are written
//! in place, past a signal's end or into its gaps, where nobody reads them; a *commit* appends one record to the log
//! and syncs it; a *checkpoint* moves what only the log holds into files and starts a new log; *recovery* replays the
//! log; a *reader* follows it.
//!
//! Memory per signal in use: its tables with pending changes, 64 KiB of uncommitted samples, and checksums since the
//! last checkpoint (the log is folded at 64 MiB). Open shard files, for writing and for reading each: an eighth of the
//! process limit, at most 256; half as many of sealed arrays. 1024 mappings.

pub(crate) mod cached;
pub(crate) mod candidate;
mod catalogue;
mod checkpoint;
mod checkpoint_tables;
mod close;
mod commit;
pub(crate) mod compact;
pub(crate) mod crc;
mod engine_state;
mod expected_tables;
pub(crate) mod identity;
pub(crate) mod io;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod lost_commits;
pub(crate) mod manifest;
pub(crate) mod mapping;
mod marks;
mod missing_table;
mod open;
mod opening;
pub(crate) mod parts;
mod pending;
pub(crate) mod proofs;
mod publish;
mod read;
mod reader;
pub(crate) mod rebuild;
mod recovery;
mod replace;
mod samples;
pub(crate) mod shard_lru;
mod signal_folders;
mod slot;
pub(crate) mod source;
mod sync_batch;
pub(crate) mod table_stamps;
pub(crate) mod tables;
mod tail;
mod tail_sums;
#[cfg(test)]
mod tests;
pub(crate) mod vanished;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use uuid::Uuid;

use crate::error::StoreError;
use crate::media::Media;
use crate::op::{Op, SignalId};
use crate::state::SignalState;
use crate::version::DataVersion;

use engine_state::EngineState;
pub use open::OpenMode;
pub(crate) use opening::of_existing;
pub use reader::Reader;
pub use tables::table_files;

/// The only writer of a store. Thread-safe; writes to different signals run in parallel.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<EngineState>,
}

impl Engine {
    /// Opens a store on local disks for writing, after recovery if its last writer crashed.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`], [`StoreError::StoreExists`], [`StoreError::Locked`],
    /// [`StoreError::NetworkFileSystem`], [`StoreError::NewerFormat`], [`StoreError::DamagedFile`], [`StoreError::Io`].
    pub fn open(root: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        Self::open_on(root, mode, crate::media::disk())
    }

    /// Opens a store for writing on any medium.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(root: &Path, mode: OpenMode, media: Arc<dyn Media>) -> Result<Self, StoreError> {
        let root = crate::media::absolute(root)?;
        let shared = open::open(&root, mode, &media)?;
        Ok(Self { shared })
    }

    /// Folder of the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.shared.root
    }

    /// Uuid of the store.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.shared.uuid
    }

    /// All signals by name, including pending changes.
    #[must_use]
    pub fn catalogue(&self) -> Vec<(SignalId, String)> {
        let names = self.shared.names.read();
        let names = names.unwrap_or_else(PoisonError::into_inner);
        let all = names.by_name.iter();
        all.map(|(name, id)| (*id, name.clone())).collect()
    }

    /// The signal of this name, including pending changes.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<SignalId> {
        let names = self.shared.names.read();
        let names = names.unwrap_or_else(PoisonError::into_inner);
        names.by_name.get(name).copied()
    }

    /// An unused id for a new signal.
    #[must_use]
    pub fn new_id(&self) -> SignalId {
        SignalId(self.shared.next_id.fetch_add(1, Ordering::AcqRel))
    }

    /// Committed and pending state of a signal, loaded on first use.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], or damage of its tables.
    pub fn state(&self, id: SignalId) -> Result<Arc<SignalState>, StoreError> {
        let slot = self.shared.existing(id)?;
        let mut slot = slot.lock();
        slot.refuse_removed()?;
        slot.state(&*self.shared.media).cloned()
    }

    pub(crate) fn is_free(&self, id: SignalId) -> bool {
        let slots = self.shared.slots.try_read();
        let slot = slots.as_ref().ok().map(|slots| slots.get(&id).cloned());
        slot.is_some_and(|slot| slot.is_none_or(|slot| slot.is_free()))
    }

    pub(crate) fn keep_ids(&self, next: u64) {
        self.shared.next_id.fetch_max(next, Ordering::AcqRel);
    }

    /// Writes samples from `index` on, past the end of the signal or into a gap. They count once a committed
    /// `Op::Valid` (and `Op::End`) covers them. Beyond 64 KiB per signal nothing is copied.
    ///
    /// # Errors
    /// [`StoreError::Occupied`] over committed samples, [`StoreError::Sealed`], [`StoreError::PartialSample`],
    /// [`StoreError::DiskFull`], I/O errors; the store is unchanged.
    pub fn write_samples(&self, id: SignalId, index: i64, bytes: &[u8]) -> Result<(), StoreError> {
        let shared = &*self.shared;
        shared.check("write samples")?;
        let slot = shared.existing(id)?;
        let mut slot = slot.lock();
        slot.refuse_removed()?;
        slot.check_writable(&*shared.media, index, bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let copies = match shared.handles.may_overwrite() {
            true => None,
            false => shared.copy_before_overwrite(&mut slot, index, bytes.len())?,
        };
        let (media, root) = (&*shared.media, &shared.root);
        if let Err(error) = slot.write(media, &shared.handles, root, index, bytes, false) {
            if let Some(copies) = copies {
                shared.take_back_copies(&mut slot, copies);
            }
            return Err(error);
        }
        slot.note_written(index, bytes);
        drop(slot);
        shared.mark_active(id);
        Ok(())
    }

    /// Adds an operation to the next commit; `state` shows it at once.
    ///
    /// # Errors
    /// Name errors for catalogue changes; [`StoreError::SignalRemoved`].
    pub fn queue(&self, op: Op) -> Result<(), StoreError> {
        let shared = &*self.shared;
        shared.check("change a signal")?;
        let id = op.signal();
        match op {
            Op::Create { .. } => {
                self.queue_structural(op)?;
                let data = Box::new(DataVersion::of_store(shared.uuid));
                let slot = shared.existing(id)?;
                shared.queue_op(&mut slot.lock(), Op::Data { id, data })?;
            }
            Op::Remove { .. } | Op::Rename { .. } => self.queue_structural(op)?,
            op => {
                let slot = shared.existing(id)?;
                let mut slot = slot.lock();
                slot.refuse_removed()?;
                shared.queue_op(&mut slot, op)?;
            }
        }
        shared.mark_active(id);
        Ok(())
    }

    /// Makes all pending changes durable, all or none. Gives the last commit's sequence number. Other programs see it
    /// within a second; with `publish`, at once.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`]: nothing was committed, everything stays pending. After other errors reopen the store.
    pub fn commit(&self, publish: bool) -> Result<u64, StoreError> {
        self.shared.commit(publish)
    }

    /// Sequence number of the last commit.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.shared.core().sequence
    }

    /// Discards all pending changes.
    ///
    /// # Errors
    /// [`StoreError::Closed`], [`StoreError::Forked`].
    pub fn rollback(&self) -> Result<(), StoreError> {
        self.shared.check("roll back")?;
        self.shared.rollback();
        Ok(())
    }

    /// Updates the tables and starts a new log, as commits do when it is long.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] and others: the store is unchanged and keeps its old log.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.shared.check("checkpoint")?;
        let mut core = self.shared.core();
        self.shared.checkpoint_with(&mut core)
    }

    pub(crate) fn publish(&self) {
        let mut core = self.shared.core();
        self.shared.publish(&mut core);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.shared.core().generation
    }

    pub(crate) fn was_recovered(&self) -> bool {
        self.shared.recovered.load(Ordering::Acquire)
    }

    /// Makes the next opening recover the store: a file could not be updated.
    pub(crate) fn leave_unfinished(&self) {
        self.shared.unfinished.store(true, Ordering::Release);
    }

    /// Makes the checkpoint after the next commit rewrite all tables of a signal.
    pub(crate) fn rewrite_tables(&self, id: SignalId) -> Result<(), StoreError> {
        self.shared.check("repair")?;
        let slot = self.shared.existing(id)?;
        let mut slot = slot.lock();
        let state = slot.state(&*self.shared.media)?;
        Arc::make_mut(state).mark_unsaved();
        let meta = Box::new((*state.meta).clone());
        if let Some(state) = slot.committed_mut() {
            Arc::make_mut(state).mark_unsaved();
        }
        drop(slot);
        // Recovery accepts newer tables only of signals named in the log.
        self.queue(Op::Meta { id, meta })
    }

    pub(crate) fn rewrite_identity(&self, id: SignalId) -> Result<(), StoreError> {
        self.shared.check("repair")?;
        let slot = self.shared.existing(id)?;
        let mut slot = slot.lock();
        let meta = Box::new((*slot.state(&*self.shared.media)?.meta).clone());
        if !slot.rewrite_identity(&*self.shared.media)? {
            return Ok(());
        }
        drop(slot);
        // A checkpoint syncs only files of signals named in the log.
        self.queue(Op::Meta { id, meta })
    }

    /// Discards pending changes, checkpoints and releases the lock; so does dropping, ignoring errors. Idempotent.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint). The store is closed anyway; the next opening recovers it.
    pub fn close(&self) -> Result<(), StoreError> {
        self.shared.close()
    }

    /// Path of a shard of the signal's `data`.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn data_shard_path(&self, id: SignalId, shard: u64) -> Result<PathBuf, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(slot.data_shard(&self.shared.root, shard))
    }

    /// Folder of the signal.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn signal_path(&self, id: SignalId) -> Result<PathBuf, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(slot.folder.clone())
    }

    /// Whether a signal's tables have no files.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn is_compact(&self, id: SignalId) -> Result<bool, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(slot.base.compact.is_some())
    }

    pub(crate) fn has_checksums(&self, id: SignalId) -> Result<bool, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(slot.base.has_checksums(slot.crc_rows))
    }

    /// Unused name, and its path, for what `Op::ReplaceShard` or `Op::ReplaceData` will name.
    #[must_use]
    pub fn new_tmp(&self) -> (String, PathBuf) {
        self.shared.new_tmp()
    }

    pub(crate) fn check_process(&self, action: &'static str) -> Result<(), StoreError> {
        self.shared.check_process(action)
    }

    pub(crate) fn discard_replacements<'a>(&self, names: impl Iterator<Item = &'a str>) {
        self.shared.discard_replacements(names);
    }

    /// Medium of the store.
    #[must_use]
    pub fn media(&self) -> &Arc<dyn Media> {
        &self.shared.media
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.shared.close();
    }
}
