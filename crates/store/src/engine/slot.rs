//! One signal inside the writer: its committed and pending state, its folder, and what is not durable yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::crc::Checksums;
use super::due::Due;
use super::io::IoContext;
use super::tables;
use crate::error::StoreError;
use crate::layout::{self, flat::Flat};
use crate::media::{Access, Media, Site};
use crate::meta::SignalMeta;
use crate::op::{Op, SignalId};
use crate::state::SignalState;

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
    state: Option<Arc<SignalState>>,
    /// The state at the last commit, while changes are pending.
    committed: Option<Arc<SignalState>>,
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
}

impl Slot {
    pub(crate) fn new(id: SignalId, folder: PathBuf, base: Base) -> Self {
        let (crc_rows, sums) = (full_chunks(&base), base.checksums());
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
        };
        Self {
            inner: Mutex::new(inner),
        }
    }

    /// A signal that exists nowhere yet; its folder is made when it is first needed.
    pub(crate) fn created(root: &Path, id: SignalId, name: &str, meta: &SignalMeta) -> Self {
        let base = Base {
            name: name.into(),
            meta: Arc::new(meta.clone()),
            end: 0,
            tail: None,
        };
        let mut slot = Self::new(id, layout::staged(root, id), base);
        let inner = slot.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.exists = false;
        inner.created = true;
        inner.state = Some(Arc::new(SignalState::new(id, name, meta.clone())));
        slot
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
            let raw = tables::read(media, &self.folder, self.id)?;
            let state = raw.state(self.id, &self.base, self.base.end)?;
            self.state = Some(Arc::new(state));
        }
        match &mut self.state {
            Some(state) => Ok(state),
            None => unreachable!("set above"),
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
        let Some(state) = &mut self.state else {
            return Ok(());
        };
        if self.committed.is_none() {
            self.committed = Some(state.clone());
        }
        Arc::make_mut(state).apply(&op);
        self.ops.push(op);
        Ok(())
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
                self.replaced.insert(*shard, tmp.clone());
                self.pending.last_samples = None;
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

    /// The commit of all pending changes is durable.
    pub(crate) fn committed(&mut self) {
        if let Some(state) = &self.state {
            self.base.end = state.end;
            self.base.meta = state.meta.clone();
            self.base.name = state.name.clone();
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
        self.ops.clear();
        let shards = std::mem::take(&mut self.pending.shards);
        if !self.pending.bulk {
            self.dirty.shards.extend(shards);
        }
        self.pending = Pending::default();
        let ready = std::mem::take(&mut self.sums.ready);
        self.crcs.extend(ready);
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

    /// The folder of the array `data`, pending replacement included.
    pub(crate) fn data_folder(&self, root: &Path) -> PathBuf {
        match &self.replaced_data {
            Some(tmp) => layout::tmp_folder(root).join(tmp),
            None => self.folder.join("data"),
        }
    }

    /// The file of a shard of `data`, pending replacement included.
    pub(crate) fn data_shard(&self, root: &Path, shard: u64) -> PathBuf {
        match self.replaced.get(&shard) {
            Some(tmp) => layout::tmp_folder(root).join(tmp),
            None => layout::shard_file(&self.data_folder(root), shard),
        }
    }

    /// Makes the signal's folder with what every signal has.
    pub(crate) fn ensure_folder(&mut self, media: &dyn Media) -> Result<(), StoreError> {
        if self.exists {
            return Ok(());
        }
        media.remove_all(&self.folder).at("remove", &self.folder)?;
        if let Some(parent) = self.folder.parent() {
            self.dirty.parents.insert(parent.to_path_buf());
        }
        media.make_folder(&self.folder).at("create", &self.folder)?;
        self.subfolder(media, Path::new("crc"))?;
        self.dirty.folders.insert(PathBuf::from("crc"));
        self.write_identity(media)?;
        self.exists = true;
        Ok(())
    }

    /// Writes the identity file, over an old one with the same text if there is one.
    pub(crate) fn write_identity(&mut self, media: &dyn Media) -> Result<(), StoreError> {
        let path = self.folder.join(layout::IDENTITY);
        let file = media.open(&path, Access::Create).at("open", &path)?;
        file.write_at(0, layout::identity(self.id).as_bytes())
            .at("write", &path)?;
        self.dirty.identity = true;
        Ok(())
    }

    /// Makes a folder inside the signal's, if need be.
    pub(crate) fn subfolder(&mut self, media: &dyn Media, inside: &Path) -> Result<(), StoreError> {
        let mut above: Vec<&Path> = inside.ancestors().collect();
        above.reverse();
        for folder in above.into_iter().skip(1) {
            self.root_name(folder);
            let path = self.folder.join(folder);
            if media.stat(&path).at("look at", &path)?.is_none() {
                // Noted first: if the disk is full half-way, the next attempt finds this one made already.
                self.dirty
                    .folders
                    .extend(folder.parent().map(Path::to_path_buf));
                media.make_folder(&path).at("create", &path)?;
            }
        }
        Ok(())
    }

    /// Notes that a name inside the signal's folder counts from now on. That it is there says nothing: the last writer
    /// may have been killed right after it made it, so its folder is synced once by every writer.
    pub(crate) fn root_name(&mut self, inside: &Path) {
        if !self.rooted.contains(inside) {
            self.dirty
                .folders
                .extend(inside.parent().map(Path::to_path_buf));
            self.dirty.rooting.insert(inside.to_path_buf());
        }
    }

    /// Takes back what `root_name` noted of the array `data`, or of what `inside` it is.
    pub(crate) fn uproot(&mut self, inside: &Path) {
        self.rooted.retain(|name| !name.starts_with(inside));
        self.dirty.rooting.retain(|name| !name.starts_with(inside));
    }

    /// The identity file and all folders with new names, to make durable.
    pub(crate) fn names_due(&self, due: &mut Due, identity: Site, folder: Site) {
        if self.dirty.identity {
            due.file(self.folder.join(layout::IDENTITY), identity);
        }
        for inside in &self.dirty.folders {
            due.folder(self.folder.join(inside), folder);
        }
        for path in &self.dirty.parents {
            due.folder(path.clone(), folder);
        }
    }

    /// They are durable.
    pub(crate) fn names_synced(&mut self) {
        self.dirty.identity = false;
        self.dirty.folders.clear();
        self.dirty.parents.clear();
        let rooting = std::mem::take(&mut self.dirty.rooting);
        self.rooted.extend(rooting);
    }

    /// These names inside the signal's folder are durable.
    pub(crate) fn root(&mut self, names: BTreeSet<PathBuf>) {
        self.rooted.extend(names);
    }

    /// Inner chunks of `data` that are full, as of the last commit.
    pub(crate) fn full_chunks(&self) -> u64 {
        full_chunks(&self.base)
    }

    pub(crate) fn flat(&self) -> Flat {
        Flat::data(&self.base.meta)
    }
}

fn full_chunks(base: &Base) -> u64 {
    base.end.max(0).cast_unsigned() / base.meta.chunk_samples.max(1)
}

/// Syncs a folder; one that was removed since needs no sync.
pub(crate) fn sync_if_there(media: &dyn Media, path: &Path, site: Site) -> Result<(), StoreError> {
    match media.sync_folder(path, site) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.at("sync", path),
    }
}
