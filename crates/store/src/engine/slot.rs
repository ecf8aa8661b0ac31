//! The writer's state of one signal: committed, pending and not yet durable.

pub(super) mod file_samples;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::crc::Checksums;
use super::expected_tables::ExpectedTables;
use super::io::IoContext;
use super::tables;
use super::tail::TailChecksum;
use crate::consistency;
use crate::error::StoreError;
use crate::layout::{self, flat::Flat, shard::ShardHeader};
use crate::media::{Media, Site};
use crate::meta::SignalMeta;
use crate::op::{Op, SignalId};
use crate::state::SignalState;
use crate::version::DataVersion;

pub(crate) use super::parts::{Base, DirtyFiles, PendingSamples};

/// Up to this many bytes per signal travel inside the commit record; more are synced in place.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Slot {
    inner: Mutex<SlotInner>,
}

#[derive(Debug)]
pub(crate) struct SlotInner {
    pub(crate) id: SignalId,
    pub(crate) folder: PathBuf,
    pub(crate) exists: bool,
    pub(crate) created: bool,
    pub(crate) removed: bool,
    pub(crate) base: Base,
    /// With pending changes.
    pub(super) state: Option<Arc<SignalState>>,
    /// State of the last commit, while changes are pending.
    pub(super) committed: Option<Arc<SignalState>>,
    pub(crate) ops: Vec<Op>,
    pub(crate) pending: PendingSamples,
    pub(crate) sums: Checksums,
    /// Committed, but missing from the array `crc`.
    pub(crate) crcs: BTreeMap<u64, u32>,
    pub(crate) crc_rows: u64,
    pub(crate) dirty: DirtyFiles,
    /// Names known to be durable; relative to the signal's folder.
    durable_names: BTreeSet<PathBuf>,
    /// Names of the new files in `tmp/`.
    pub(crate) replaced: BTreeMap<u64, String>,
    pub(crate) replaced_data: Option<String>,
    /// Checksum of each `zarr.json` as written, to skip identical writes.
    pub(crate) projected: BTreeMap<String, u32>,
    /// The gap table on disk lacks committed gaps.
    pub(crate) gaps_unpublished: bool,
    /// During replay: what files must have. Else the state says it.
    pub(crate) in_files: Option<file_samples::FileSamples>,
}

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
            pending: PendingSamples::default(),
            sums,
            crcs: BTreeMap::new(),
            crc_rows,
            dirty: DirtyFiles::default(),
            durable_names: BTreeSet::new(),
            replaced: BTreeMap::new(),
            replaced_data: None,
            projected: BTreeMap::new(),
            gaps_unpublished: false,
            in_files: None,
        };
        Self {
            inner: Mutex::new(inner),
        }
    }

    pub(crate) fn created(root: &Path, id: SignalId, name: &str, meta: &SignalMeta) -> Self {
        let base = Base::new(name, meta);
        let mut slot = Self::new(id, layout::staged(root, id), base);
        let inner = slot.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.exists = false;
        inner.created = true;
        inner.state = Some(Arc::new(SignalState::new(id, name, meta.clone())));
        slot
    }

    /// False in a forked process if another thread held the lock at the fork.
    pub(crate) fn is_free(&self) -> bool {
        /// Longer than threads hold it: a forked process only reads.
        const FORK_LOCK_TIMEOUT: Duration = Duration::from_millis(100);
        let began = Instant::now();
        while matches!(self.inner.try_lock(), Err(TryLockError::WouldBlock)) {
            if began.elapsed() > FORK_LOCK_TIMEOUT {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Ignores poisoning: a panic only leaves pending changes incomplete, which the store checks.
    pub(crate) fn lock(&self) -> MutexGuard<'_, SlotInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotInner {
    pub(crate) fn has_file(&self, table: &str) -> bool {
        let stamps = self.base.tables.as_ref();
        stamps.is_some_and(|stamps| stamps.get(table).is_some())
    }

    pub(crate) fn refuse_removed(&self) -> Result<(), StoreError> {
        if self.removed {
            return Err(StoreError::SignalRemoved {
                name: self.base.name.to_string(),
            });
        }
        Ok(())
    }

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

    pub(crate) fn data_version(&self) -> &DataVersion {
        match &self.state {
            Some(state) if self.in_files.is_none() => &state.data,
            _ => &self.base.data,
        }
    }

    pub(crate) fn shard_header(&self, shard: u64) -> ShardHeader {
        ShardHeader {
            signal: self.id.0,
            shard,
            version: self.data_version().file(shard),
        }
    }

    pub(crate) fn committed_state(
        &mut self,
        media: &dyn Media,
    ) -> Result<Option<Arc<SignalState>>, StoreError> {
        self.state(media)?;
        Ok(self.committed_mut().cloned())
    }

    pub(crate) fn unload(&mut self) {
        if self.committed.is_none() && self.ops.is_empty() {
            self.state = None;
        }
    }

    pub(crate) fn set_state(&mut self, state: SignalState) {
        self.base.end = state.end;
        self.base.meta = state.meta.clone();
        self.base.name = state.name.clone();
        self.base.data = state.data.clone();
        self.state = Some(Arc::new(state));
        self.committed = None;
    }

    /// `None` if never loaded, so nothing can have changed.
    pub(crate) fn committed_mut(&mut self) -> Option<&mut Arc<SignalState>> {
        self.committed.as_mut().or(self.state.as_mut())
    }

    pub(crate) fn latest_name(&self) -> Option<String> {
        self.state.as_ref().map(|state| state.name.to_string())
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.removed
            || self.created
            || self.committed.is_some()
            || !self.ops.is_empty()
            || !self.pending.shards.is_empty()
    }

    /// Such a signal's files do not matter.
    pub(crate) fn was_never_committed(&self) -> bool {
        self.created && self.removed
    }

    pub(crate) fn queue(&mut self, media: &dyn Media, op: Op) -> Result<(), StoreError> {
        self.state(media)?;
        self.note(&op);
        self.add(op);
        Ok(())
    }

    /// Queues a shard's replacement by a copy with equal checksums.
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

    pub(crate) fn pending_changes(&self) -> PendingChanges {
        PendingChanges {
            state: self.state.clone(),
            committed: self.committed.clone(),
            ops: self.ops.len(),
            last_samples: self.pending.last_samples,
            replaced: self.replaced.clone(),
        }
    }

    pub(crate) fn restore(&mut self, before: PendingChanges) {
        self.state = before.state;
        self.committed = before.committed;
        self.ops.truncate(before.ops);
        self.pending.last_samples = before.last_samples;
        self.replaced = before.replaced;
    }

    /// Applies an operation already in the commit (catalogue changes precede others).
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

    pub(crate) fn pending_tail(&self) -> Option<TailChecksum> {
        if !self.pending.bulk {
            return None;
        }
        let state = self.state.as_ref()?;
        let size = state.meta.format.size() as u64;
        let (chunk, seen, crc) = self.sums.streamed()?;
        let reached = chunk * state.meta.chunk_samples + seen / size;
        (reached == state.end.cast_unsigned()).then_some(TailChecksum {
            end: state.end,
            crc,
        })
    }

    pub(crate) fn pending_tail_op(&self) -> Option<Op> {
        let (tail, state) = (self.pending_tail()?, self.state.as_ref()?);
        Some(tail.op(self.id, &state.meta))
    }

    /// Includes chunks that failed appends completed.
    pub(crate) fn pending_sums(&self) -> impl Iterator<Item = (u64, u32)> {
        let full = self.state.as_ref().map_or(0, |state| {
            state.end.max(0).cast_unsigned() / state.meta.chunk_samples.max(1)
        });
        (self.sums.ready.range(..full)).map(|(&chunk, &crc)| (chunk, crc))
    }

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
            self.base.drop_stale_tail(op);
        }
        self.base.tail = tail.or(self.base.tail);
        self.ops.clear();
        let shards = std::mem::take(&mut self.pending.shards);
        if !self.pending.bulk {
            self.dirty.shards.extend(shards);
        }
        self.pending = PendingSamples::default();
        for &(chunk, _) in &sums {
            self.sums.ready.remove(&chunk);
        }
        self.crcs.extend(sums);
        self.created = false;
    }

    /// A false positive only writes a table needlessly.
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

    pub(crate) fn rollback(&mut self) {
        if let Some(committed) = self.committed.take() {
            self.state = Some(committed);
        }
        self.ops.clear();
        // Bytes past the end or in gaps mean nothing.
        self.pending = PendingSamples::default();
        self.sums.rollback();
        self.replaced.clear();
        self.replaced_data = None;
    }

    pub(crate) fn full_chunks(&self) -> u64 {
        self.base.full_chunks()
    }

    /// Bytes up to the committed end, with gaps.
    pub(crate) fn sample_bytes(&self) -> u64 {
        let samples = self.base.end.max(0).cast_unsigned();
        samples.saturating_mul(self.base.meta.format.size() as u64)
    }

    pub(crate) fn flat(&self) -> Flat {
        Flat::data(&self.base.meta)
    }
}

pub(crate) fn sync_if_there(media: &dyn Media, path: &Path, site: Site) -> Result<(), StoreError> {
    match media.sync_folder(path, site) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.at("sync", path),
    }
}
