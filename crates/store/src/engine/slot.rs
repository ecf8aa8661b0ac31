//! One signal inside the writer: its committed and pending state, and what is not durable yet.

pub(super) mod held;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::crc::Checksums;
use super::io::IoContext;
use super::stamps::ExpectedTables;
use super::tables;
use super::tail::Tail;
use crate::consistency;
use crate::error::StoreError;
use crate::layout::{self, flat::Flat, shard::ShardHeader};
use crate::media::{Media, Site};
use crate::meta::SignalMeta;
use crate::op::{Op, SignalId};
use crate::state::SignalState;
use crate::version::DataVersion;

pub(crate) use super::parts::{Base, Dirty, Pending};

/// Samples of a signal up to this many bytes travel inside the commit's record; more are synced where they lie.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// A signal's part of the engine.
#[derive(Debug)]
pub(crate) struct Slot {
    inner: Mutex<SlotInner>,
}

#[derive(Debug)]
pub(crate) struct SlotInner {
    pub(crate) id: SignalId,
    /// Where its files lie.
    pub(crate) folder: PathBuf,
    /// Whether the folder exists.
    pub(crate) exists: bool,
    /// Not committed yet.
    pub(crate) created: bool,
    /// A removal is pending or done.
    pub(crate) removed: bool,
    pub(crate) base: Base,
    /// The latest state, pending changes included.
    pub(super) state: Option<Arc<SignalState>>,
    /// The state at the last commit, while changes are pending.
    pub(super) committed: Option<Arc<SignalState>>,
    pub(crate) ops: Vec<Op>,
    pub(crate) pending: Pending,
    pub(crate) sums: Checksums,
    /// Committed checksums that the array `crc` lacks.
    pub(crate) crcs: BTreeMap<u64, u32>,
    /// Rows of the array `crc` as of the last checkpoint.
    pub(crate) crc_rows: u64,
    pub(crate) dirty: Dirty,
    /// Names inside the signal's folder that this writer knows to be durable.
    rooted: BTreeSet<PathBuf>,
    /// Pending replacements of shards, by the name of the new file in `tmp/`.
    pub(crate) replaced: BTreeMap<u64, String>,
    /// Pending replacement of the array.
    pub(crate) replaced_data: Option<String>,
    /// Checksum of each `zarr.json` as last written, so that none is written twice.
    pub(crate) projected: BTreeMap<String, u32>,
    /// Whether the table of gaps on disk lacks some of the committed ones.
    pub(crate) gaps_unpublished: bool,
    /// What need not be in files, while the log is replayed; else the state says that.
    pub(crate) held: Option<held::Held>,
}

/// Changes of a signal that wait for the commit, as of some moment.
#[derive(Debug)]
pub(crate) struct PendingChanges {
    state: Option<Arc<SignalState>>,
    committed: Option<Arc<SignalState>>,
    ops: usize,
    last_samples: Option<usize>,
    replaced: BTreeMap<u64, String>,
}

impl Slot {
    pub(crate) fn new(id: SignalId, folder: PathBuf, base: Base) -> Self {
        let (crc_rows, sums) = (base.full_chunks(), base.checksums());
        let inner = SlotInner {
            id,
            folder,
            exists: true,
            created: false,
            removed: false,
            base,
            state: None,
            committed: None,
            ops: Vec::new(),
            pending: Pending::default(),
            sums,
            crcs: BTreeMap::new(),
            crc_rows,
            dirty: Dirty::default(),
            rooted: BTreeSet::new(),
            replaced: BTreeMap::new(),
            replaced_data: None,
            projected: BTreeMap::new(),
            gaps_unpublished: false,
            held: None,
        };
        Self {
            inner: Mutex::new(inner),
        }
    }

    /// A signal that exists nowhere yet; its folder is made when it is first needed.
    pub(crate) fn created(root: &Path, id: SignalId, name: &str, meta: &SignalMeta) -> Self {
        let base = Base::new(name, meta);
        let mut slot = Self::new(id, layout::staged(root, id), base);
        let inner = slot.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.exists = false;
        inner.created = true;
        inner.state = Some(Arc::new(SignalState::new(id, name, meta.clone())));
        slot
    }

    /// Whether the lock can be taken in a forked process, where one that another thread held at the fork stays locked.
    pub(crate) fn is_free(&self) -> bool {
        /// Threads of this process hold it for less: it may only read, since a forked process commits nothing.
        const PATIENCE: Duration = Duration::from_millis(100);
        let began = Instant::now();
        while matches!(self.inner.try_lock(), Err(TryLockError::WouldBlock)) {
            if began.elapsed() > PATIENCE {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// A panic while the lock was held leaves nothing half done that is not pending; the store's own checks follow.
    pub(crate) fn lock(&self) -> MutexGuard<'_, SlotInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotInner {
    /// The state with pending changes, loaded on first use.
    pub(crate) fn state(&mut self, media: &dyn Media) -> Result<&mut Arc<SignalState>, StoreError> {
        if self.state.is_none() {
            let expected = ExpectedTables::exactly(&self.base);
            let raw = tables::read(media, &self.folder, self.id, &expected)?;
            let state = raw.state(self.id, &self.base, self.base.end)?;
            raw.check(&state.name, true)?;
            consistency::check(&state)?;
            self.base.tables = Some(raw.stamps);
            self.state = Some(Arc::new(state));
        }
        match &mut self.state {
            Some(state) => Ok(state),
            None => unreachable!("set above"),
        }
    }

    /// Which bytes the samples are, pending changes included.
    pub(crate) fn data_version(&self) -> &DataVersion {
        match &self.state {
            // While a log is replayed, the state is not that of the moment.
            Some(state) if self.held.is_none() => &state.data,
            _ => &self.base.data,
        }
    }

    /// What the file of a shard of `data` says of itself, pending changes included.
    pub(crate) fn shard_header(&self, shard: u64) -> ShardHeader {
        ShardHeader {
            signal: self.id.0,
            shard,
            version: self.data_version().file(shard),
        }
    }

    /// The state at the last commit, loaded if need be.
    pub(crate) fn committed_state(
        &mut self,
        media: &dyn Media,
    ) -> Result<Option<Arc<SignalState>>, StoreError> {
        self.state(media)?;
        Ok(self.committed_mut().cloned())
    }

    /// Forgets the state's tables, which nothing changed, for their memory.
    pub(crate) fn unload(&mut self) {
        if self.committed.is_none() && self.ops.is_empty() {
            self.state = None;
        }
    }

    /// Puts a state in place that recovery made.
    pub(crate) fn set_state(&mut self, state: SignalState) {
        self.base.end = state.end;
        self.base.meta = state.meta.clone();
        self.base.name = state.name.clone();
        self.base.data = state.data.clone();
        self.state = Some(Arc::new(state));
        self.committed = None;
    }

    /// The state at the last commit; `None` if it was never loaded, so that nothing can have changed.
    pub(crate) fn committed_mut(&mut self) -> Option<&mut Arc<SignalState>> {
        self.committed.as_mut().or(self.state.as_mut())
    }

    /// The name with pending changes.
    pub(crate) fn latest_name(&self) -> Option<String> {
        self.state.as_ref().map(|state| state.name.to_string())
    }

    /// Whether anything waits for a commit.
    pub(crate) fn is_pending(&self) -> bool {
        self.removed
            || self.created
            || self.committed.is_some()
            || !self.ops.is_empty()
            || !self.pending.shards.is_empty()
    }

    /// Whether it was created and removed again since the last commit: no file of it matters.
    pub(crate) fn is_stillborn(&self) -> bool {
        self.created && self.removed
    }

    /// Adds a change to the next commit.
    pub(crate) fn queue(&mut self, media: &dyn Media, op: Op) -> Result<(), StoreError> {
        self.state(media)?;
        self.note(&op);
        self.add(op);
        Ok(())
    }

    /// Adds the exchange of a shard for a copy of it, whose checksums are the same.
    pub(crate) fn queue_copy(
        &mut self,
        media: &dyn Media,
        shard: u64,
        tmp: &str,
    ) -> Result<(), StoreError> {
        self.state(media)?;
        self.note_replaced(shard, tmp);
        let (id, tmp) = (self.id, tmp.to_owned());
        self.add(Op::ReplaceShard { id, shard, tmp });
        Ok(())
    }

    pub(super) fn add(&mut self, op: Op) {
        let Some(state) = &mut self.state else {
            return;
        };
        if self.committed.is_none() {
            self.committed = Some(state.clone());
        }
        Arc::make_mut(state).apply(&op);
        self.ops.push(op);
    }

    fn note_replaced(&mut self, shard: u64, tmp: &str) {
        self.replaced.insert(shard, tmp.to_owned());
        self.pending.last_samples = None;
    }

    /// What waits for the commit, without samples: to go back to should the next change fail in the middle.
    pub(crate) fn pending_changes(&self) -> PendingChanges {
        PendingChanges {
            state: self.state.clone(),
            committed: self.committed.clone(),
            ops: self.ops.len(),
            last_samples: self.pending.last_samples,
            replaced: self.replaced.clone(),
        }
    }

    /// Forgets what was queued since.
    pub(crate) fn restore(&mut self, before: PendingChanges) {
        self.state = before.state;
        self.committed = before.committed;
        self.ops.truncate(before.ops);
        self.pending.last_samples = before.last_samples;
        self.replaced = before.replaced;
    }

    /// Shows a change that the commit knows of already (those of the catalogue come before all others).
    pub(crate) fn show(&mut self, media: &dyn Media, op: &Op) -> Result<(), StoreError> {
        self.state(media)?;
        let Some(state) = &mut self.state else {
            return Ok(());
        };
        if self.committed.is_none() {
            self.committed = Some(state.clone());
        }
        Arc::make_mut(state).apply(op);
        Ok(())
    }

    /// What a change means for the checksums of chunks.
    fn note(&mut self, op: &Op) {
        let Some(state) = &self.state else { return };
        let chunk_samples = state.meta.chunk_samples.max(1) as i64;
        match op {
            Op::Gap { start, end, .. } => {
                self.pending.last_samples = None;
                self.sums.gap(chunk_samples, *start..*end);
            }
            Op::Valid { start, end, .. } => {
                for gap in state.gaps.within(*start..*end) {
                    self.sums.filled(chunk_samples, gap.range());
                }
            }
            Op::ReplaceShard { shard, tmp, .. } => {
                let per_shard = state.meta.shard_chunks.max(1) as i64;
                let first = (*shard as i64).saturating_mul(per_shard);
                let last = (state.end / chunk_samples).min(first.saturating_add(per_shard - 1));
                (first..=last).for_each(|chunk| self.sums.touch(chunk));
                self.note_replaced(*shard, tmp);
            }
            Op::Crc { chunk, crc, .. } => _ = self.sums.ready.insert(*chunk, *crc),
            Op::ReplaceData { tmp, .. } => {
                self.replaced.clear();
                self.replaced_data = Some(tmp.clone());
                self.pending.last_samples = None;
            }
            _ => {}
        }
    }

    /// The checksum that goes with a commit of pending samples that do not stand in its record.
    pub(crate) fn pending_tail(&self) -> Option<Tail> {
        if !self.pending.bulk {
            return None;
        }
        let state = self.state.as_ref()?;
        let size = state.meta.format.size() as u64;
        let (chunk, seen, crc) = self.sums.streamed()?;
        let reached = chunk * state.meta.chunk_samples + seen / size;
        (reached == state.end.cast_unsigned()).then_some(Tail {
            end: state.end,
            crc,
        })
    }

    /// The operation that says it.
    pub(crate) fn pending_tail_op(&self) -> Option<Op> {
        let (tail, state) = (self.pending_tail()?, self.state.as_ref()?);
        Some(tail.op(self.id, &state.meta))
    }

    /// Checksums of chunks that the next commit makes full. Others may be finished, too: by an append that goes on, or
    /// that failed.
    pub(crate) fn pending_sums(&self) -> impl Iterator<Item = (u64, u32)> {
        let full = self.state.as_ref().map_or(0, |state| {
            state.end.max(0).cast_unsigned() / state.meta.chunk_samples.max(1)
        });
        (self.sums.ready.range(..full)).map(|(&chunk, &crc)| (chunk, crc))
    }

    /// The commit of all pending changes is durable.
    pub(crate) fn committed(&mut self) {
        let tail = self.pending_tail();
        let sums: Vec<(u64, u32)> = self.pending_sums().collect();
        if let Some(state) = &self.state {
            self.base.end = state.end;
            self.base.meta = state.meta.clone();
            self.base.name = state.name.clone();
            self.base.data = state.data.clone();
        }
        self.gaps_unpublished |= self
            .ops
            .iter()
            .any(|op| matches!(op, Op::Gap { .. } | Op::Valid { .. }))
            && self.gaps_differ();
        self.committed = None;
        for op in &self.ops {
            self.base.outlive(op);
        }
        self.base.tail = tail.or(self.base.tail);
        self.ops.clear();
        let shards = std::mem::take(&mut self.pending.shards);
        if !self.pending.bulk {
            self.dirty.shards.extend(shards);
        }
        self.pending = Pending::default();
        for &(chunk, _) in &sums {
            self.sums.ready.remove(&chunk);
        }
        self.crcs.extend(sums);
        self.created = false;
    }

    /// Whether pending changes touched the gaps. A false alarm costs a table written in vain.
    fn gaps_differ(&self) -> bool {
        let (Some(old), Some(new)) = (&self.committed, &self.state) else {
            return true;
        };
        self.ops.iter().any(|op| match op {
            Op::Gap { .. } => true,
            Op::Valid { start, end, .. } => {
                !old.gaps.overlapping(*start..*end).is_empty() || new.end < *end
            }
            _ => false,
        })
    }

    /// Forgets all pending changes.
    pub(crate) fn rollback(&mut self) {
        if let Some(committed) = self.committed.take() {
            self.state = Some(committed);
        }
        self.ops.clear();
        // What was written lies past the end or in gaps, where bytes mean nothing.
        self.pending = Pending::default();
        self.sums.rollback();
        self.replaced.clear();
        self.replaced_data = None;
    }

    /// Inner chunks of `data` that are full, as of the last commit.
    pub(crate) fn full_chunks(&self) -> u64 {
        self.base.full_chunks()
    }

    /// Bytes of the samples up to the committed end, including those of gaps.
    pub(crate) fn sample_bytes(&self) -> u64 {
        let samples = self.base.end.max(0).cast_unsigned();
        samples.saturating_mul(self.base.meta.format.size() as u64)
    }

    pub(crate) fn flat(&self) -> Flat {
        Flat::data(&self.base.meta)
    }
}

/// Syncs a folder; one that was removed since needs no sync.
pub(crate) fn sync_if_there(media: &dyn Media, path: &Path, site: Site) -> Result<(), StoreError> {
    match media.sync_folder(path, site) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.at("sync", path),
    }
}
