//! The storage engine: one writer with a redo log, any number of live readers.
//!
//! The protocol and its failure analysis are sections 2 to 5 of `docs/design.md`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::Buffer;

use crate::error::StoreError;
use crate::media::Media;
use crate::op::{Op, SignalId};
use crate::state::SignalState;

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

/// The one writer of a store.
pub struct Engine {}

impl Engine {
    /// Opens a store for writing on this machine's disks; recovers it if its last writer crashed.
    pub fn open(root: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        Self::open_on(root, mode, crate::media::disk())
    }
    /// Opens a store for writing on any medium.
    pub fn open_on(_root: &Path, _mode: OpenMode, _media: Arc<dyn Media>) -> Result<Self, StoreError> {
        todo!()
    }
    /// The store's folder.
    pub fn root(&self) -> &Path {
        todo!()
    }
    /// Identity of the store.
    pub fn uuid(&self) -> uuid::Uuid {
        todo!()
    }
    /// All signals with their names in name order, pending changes included.
    pub fn catalogue(&self) -> Vec<(SignalId, String)> {
        todo!()
    }
    /// The signal with this name, pending changes included.
    pub fn find(&self, _name: &str) -> Option<SignalId> {
        todo!()
    }
    /// A number for a new signal, never given before.
    pub fn new_id(&self) -> SignalId {
        todo!()
    }
    /// Committed and pending state of a signal; loaded from its tables on first use.
    pub fn state(&self, _id: SignalId) -> Result<Arc<SignalState>, StoreError> {
        todo!()
    }
    /// Writes samples from `index` on: past the end of the signal or into a gap. They count once `Op::Valid` (and
    /// `Op::End`) that cover them were queued and committed.
    pub fn write_samples(&self, _id: SignalId, _index: i64, _bytes: &[u8]) -> Result<(), StoreError> {
        todo!()
    }
    /// Adds a change to the next commit; `state` shows it at once.
    pub fn queue(&self, _op: Op) -> Result<(), StoreError> {
        todo!()
    }
    /// Makes all pending changes of all signals durable, all or none. Gives the sequence number of the commit (the
    /// last one's if nothing was pending).
    pub fn commit(&self, _publish: bool) -> Result<u64, StoreError> {
        todo!()
    }
    /// Sequence number of the last commit.
    pub fn sequence(&self) -> u64 {
        todo!()
    }
    /// Whether anything waits for a commit.
    pub fn has_pending(&self) -> bool {
        todo!()
    }
    /// Forgets all pending changes.
    pub fn rollback(&self) -> Result<(), StoreError> {
        todo!()
    }
    /// Brings tables up to date and starts a new log.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        todo!()
    }
    /// Forgets pending changes, checkpoints, and lets the next writer in. Dropping does the same, without errors.
    pub fn close(&self) -> Result<(), StoreError> {
        todo!()
    }
    /// File of shard `shard` of a signal's `data`.
    pub fn data_shard_path(&self, _id: SignalId, _shard: u64) -> Result<PathBuf, StoreError> {
        todo!()
    }
    /// The signal's folder.
    pub fn signal_path(&self, _id: SignalId) -> Result<PathBuf, StoreError> {
        todo!()
    }
    /// A fresh name for a file or folder under construction (for `Op::ReplaceShard`, `Op::ReplaceData`), and its path.
    pub fn new_tmp(&self) -> (String, PathBuf) {
        todo!()
    }
    /// Bytes of samples `[start, start + count)`, which must lie in one shard and below the signal's end.
    pub fn read(&self, _id: SignalId, _start: i64, _count: usize) -> Result<Buffer, StoreError> {
        todo!()
    }
    /// Samples per shard file of a signal's `data`: no buffer of `read` spans a multiple of it.
    pub fn shard_samples(&self, _id: SignalId) -> Result<i64, StoreError> {
        todo!()
    }
    /// Checksum of a full chunk of `data`, if known.
    pub fn chunk_crc(&self, _id: SignalId, _chunk: u64) -> Result<Option<u32>, StoreError> {
        todo!()
    }
}

/// A live view of a store that another process may be writing.
pub struct Reader {}

impl Reader {
    /// Opens a store for reading.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Self::open_on(root, crate::media::disk())
    }
    /// Opens a store for reading on any medium.
    pub fn open_on(_root: &Path, _media: Arc<dyn Media>) -> Result<Self, StoreError> {
        todo!()
    }
    /// Takes in what was committed since; whether there was anything.
    pub fn refresh(&self) -> Result<bool, StoreError> {
        todo!()
    }
    /// Whether the store shows only its last checkpoint, because its writer crashed before the machine restarted and
    /// this process may not repair it.
    pub fn is_stale(&self) -> bool {
        todo!()
    }
    /// The store's folder.
    pub fn root(&self) -> &Path {
        todo!()
    }
    /// Identity of the store.
    pub fn uuid(&self) -> uuid::Uuid {
        todo!()
    }
    /// All signals with their names in name order.
    pub fn catalogue(&self) -> Vec<(SignalId, String)> {
        todo!()
    }
    /// The signal with this name.
    pub fn find(&self, _name: &str) -> Option<SignalId> {
        todo!()
    }
    /// State of a signal as of the last refresh; loaded from its tables on first use.
    pub fn state(&self, _id: SignalId) -> Result<Arc<SignalState>, StoreError> {
        todo!()
    }
    /// Sequence number of the last commit seen.
    pub fn sequence(&self) -> u64 {
        todo!()
    }
    /// As [`Engine::read`].
    pub fn read(&self, _id: SignalId, _start: i64, _count: usize) -> Result<Buffer, StoreError> {
        todo!()
    }
    /// As [`Engine::shard_samples`].
    pub fn shard_samples(&self, _id: SignalId) -> Result<i64, StoreError> {
        todo!()
    }
    /// As [`Engine::chunk_crc`].
    pub fn chunk_crc(&self, _id: SignalId, _chunk: u64) -> Result<Option<u32>, StoreError> {
        todo!()
    }
    /// As [`Engine::data_shard_path`].
    pub fn data_shard_path(&self, _id: SignalId, _shard: u64) -> Result<PathBuf, StoreError> {
        todo!()
    }
    /// As [`Engine::signal_path`].
    pub fn signal_path(&self, _id: SignalId) -> Result<PathBuf, StoreError> {
        todo!()
    }
}
