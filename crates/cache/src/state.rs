//! State of an open cache, which changes only with the index lock held and the journal read to its end.

use std::collections::{BTreeSet, HashMap};
use std::ops::{Deref, DerefMut, Range};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::changes::{ChangeLog, Sequence};
use crate::error::{CacheError, is_full};
use crate::folder::{Folder, remove};
use crate::index::Index;
use crate::journal::{Header, JournalFile, JournalUpdate, ObjectId, Op, Settings};
use crate::known_pieces::KnownPieces;
use crate::locks::{IndexLock, Owner};
use crate::piece_table::PieceTable;

/// Bounds unreported uses.
const MAX_UNREPORTED_USES: usize = 256;

#[derive(Debug)]
pub(crate) struct CacheInner {
    pub(crate) folder: Folder,
    pub(crate) settings: Settings,
    /// It may also empty a damaged cache.
    may_create: bool,
    /// Kernel locks are shared with a fork, which must not use them.
    process: u32,
    /// Pieces since the last report.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    lock: IndexLock,
    pub(crate) owner: Owner,
    pub(crate) journal: JournalFile,
    pub(crate) index: Index,
    pub(crate) changes: ChangeLog,
    pub(crate) tables: HashMap<ObjectId, Weak<PieceTable>>,
    pub(crate) piece_states: KnownPieces,
    pub(crate) used: BTreeSet<ObjectId>,
    /// Ended reservations that a full disk kept.
    pub(crate) unreleased: Vec<(ObjectId, Range<u32>)>,
    /// How often the journal was unusable.
    pub(crate) resets: u64,
}

#[derive(Debug)]
pub(crate) struct StateGuard<'a> {
    pub(crate) inner: &'a CacheInner,
    state: MutexGuard<'a, State>,
}

impl CacheInner {
    pub(crate) fn open(root: &Path, wanted: Option<Settings>) -> Result<Self, CacheError> {
        let folder = Folder::new(root);
        if !folder.has_cache()? && wanted.is_none() {
            return Err(CacheError::NoSuchCache {
                path: root.to_path_buf(),
            });
        }
        let mut lock = IndexLock::open(&folder)?;
        lock.acquire(&folder)?;
        let loaded = load(&folder)?;
        let was_damaged = loaded.is_none() && folder.journal().exists();
        if loaded.is_none() && wanted.is_none() {
            return Err(damaged(&folder));
        }
        folder.create_inside()?;
        let owner = Owner::create(&folder, random())?;
        let (journal, mut index) = match (loaded, wanted) {
            (None, Some(settings)) => start_empty(&folder, settings)?,
            (loaded, _) => loaded.ok_or_else(|| damaged(&folder))?,
        };
        let settings = wanted.unwrap_or(index.settings);
        // Eviction order is per process.
        index.set_eviction(settings.eviction);
        let changes = ChangeLog::new(journal.sequence);
        let inner = Self {
            folder,
            settings,
            may_create: wanted.is_some(),
            process: std::process::id(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            state: Mutex::new(State {
                lock,
                owner,
                journal,
                index,
                changes,
                tables: HashMap::new(),
                piece_states: KnownPieces::default(),
                used: BTreeSet::new(),
                unreleased: Vec::new(),
                resets: u64::from(was_damaged),
            }),
        };
        // The lock is held since reading the journal.
        let mut locked = StateGuard {
            inner: &inner,
            state: inner.state.lock().unwrap_or_else(PoisonError::into_inner),
        };
        locked.reap()?;
        // Inspection leaves a cache unchanged.
        if inner.may_create {
            let _ = remove(&inner.folder.journal().with_extension("new"));
            if locked.index.settings != settings {
                locked.commit_if_room(vec![Op::Configured(settings)])?;
            }
            locked.clean_up()?;
        }
        drop(locked);
        Ok(inner)
    }

    pub(crate) fn check_process(&self) -> Result<(), CacheError> {
        match std::process::id() {
            process if process == self.process => Ok(()),
            process => Err(CacheError::Forked {
                path: self.folder.root.clone(),
                opened_by: self.process,
                process,
            }),
        }
    }

    /// The state as last read.
    pub(crate) fn peek(&self) -> Result<MutexGuard<'_, State>, CacheError> {
        self.check_process()?;
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Applies others' changes. Recreates a removed folder.
    pub(crate) fn lock(&self) -> Result<StateGuard<'_>, CacheError> {
        if !self.may_create {
            return self
                .lock_existing()?
                .ok_or_else(|| CacheError::NoSuchCache {
                    path: self.folder.root.clone(),
                });
        }
        let mut state = self.peek()?;
        state.lock.acquire(&self.folder)?;
        self.catch_up(state)
    }

    /// `None` if the folder was removed.
    pub(crate) fn lock_existing(&self) -> Result<Option<StateGuard<'_>>, CacheError> {
        let state = self.peek()?;
        match state.lock.acquire_existing(&self.folder)? {
            true => self.catch_up(state).map(Some),
            false => Ok(None),
        }
    }

    fn catch_up<'a>(&'a self, state: MutexGuard<'a, State>) -> Result<StateGuard<'a>, CacheError> {
        let mut locked = StateGuard { inner: self, state };
        locked.refresh()?;
        let unreleased = std::mem::take(&mut locked.unreleased);
        for (object, run) in unreleased {
            locked.release(object, &[run]);
        }
        Ok(locked)
    }
}

impl Drop for CacheInner {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            return;
        }
        if let Ok(Some(mut locked)) = self.lock_existing() {
            // A failure loses counts only.
            let _ = locked.commit(Vec::new());
            locked.owner.close(&self.folder);
        }
    }
}

impl Deref for StateGuard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        self.state.lock.release();
    }
}

impl StateGuard<'_> {
    pub(crate) fn sequence(&self) -> Sequence {
        Sequence {
            epoch: self.journal.header.epoch,
            number: self.journal.sequence,
        }
    }

    fn refresh(&mut self) -> Result<(), CacheError> {
        if let JournalUpdate::Ops(records) = self.journal.catch_up()? {
            let applied = (records.iter()).try_for_each(|(at, ops)| self.apply(*at, ops));
            if applied.is_some() {
                return Ok(());
            }
        }
        self.reload()
    }

    /// `None` if they contradict the index.
    fn apply(&mut self, sequence: u64, ops: &[Op]) -> Option<()> {
        let state = &mut *self.state;
        for op in ops {
            state.changes.note(sequence, op, &state.index);
            state.index.apply(op).ok()?;
            if let Op::Removed { object, .. } = op {
                state.tables.remove(object);
                state.piece_states.remove(*object);
                state.used.remove(object);
            }
            if let Op::Dropped { object, piece } = op
                && let Some(states) = state.piece_states.get(*object)
            {
                states.clear(*piece);
            }
        }
        Some(())
    }

    fn reload(&mut self) -> Result<(), CacheError> {
        let inner = self.inner;
        let folder = &inner.folder;
        let loaded = load(folder)?;
        if loaded.is_none() && !inner.may_create {
            return Err(damaged(folder));
        }
        folder.create_inside()?;
        let (journal, index) = match loaded {
            Some(loaded) => loaded,
            None => {
                self.resets += 1;
                start_empty(folder, inner.settings)?
            }
        };
        let state = &mut *self.state;
        state.owner.keep(folder)?;
        state.changes = ChangeLog::new(journal.sequence);
        (state.journal, state.index) = (journal, index);
        state.index.set_eviction(inner.settings.eviction);
        let index = &state.index;
        (state.tables).retain(|id, _| index.objects.contains_key(id));
        state.used.retain(|id| index.objects.contains_key(id));
        // Pieces may have been dropped meanwhile.
        state.piece_states = KnownPieces::default();
        for table in state.tables.values().filter_map(Weak::upgrade) {
            (state.piece_states).insert(table.id, Arc::clone(table.states()));
        }
        Ok(())
    }

    /// Appends operations and unreported uses to the journal, then applies them.
    pub(crate) fn commit(&mut self, mut ops: Vec<Op>) -> Result<(), CacheError> {
        let told = [
            self.inner.hits.swap(0, Ordering::Relaxed),
            self.inner.misses.swap(0, Ordering::Relaxed),
        ];
        let used = std::mem::take(&mut self.used);
        ops.extend(used.iter().map(|object| Op::Touched { object: *object }));
        if told != [0, 0] {
            let [hits, misses] = told;
            ops.push(Op::Counted { hits, misses });
        }
        if ops.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.journal.append(&ops) {
            self.used = used;
            self.inner.hits.fetch_add(told[0], Ordering::Relaxed);
            self.inner.misses.fetch_add(told[1], Ordering::Relaxed);
            return Err(error);
        }
        let sequence = self.journal.sequence;
        if self.apply(sequence, &ops).is_none() {
            // A bug. Starting empty is safe, as for a reader.
            debug_assert!(false, "an operation contradicts the index: {ops:?}");
            return self.reload();
        }
        if self.journal.is_long() {
            let header = Header {
                sequence,
                ..self.journal.header
            };
            // Else the next commit retries.
            let base = self.index.snapshot();
            if let Ok(journal) = JournalFile::create(&self.inner.folder.journal(), header, &base) {
                self.journal = journal;
            }
        }
        Ok(())
    }

    /// For operations that do not affect readers' bytes. Skipped on a full disk; unreported uses stay.
    pub(crate) fn commit_if_room(&mut self, ops: Vec<Op>) -> Result<(), CacheError> {
        match self.commit(ops) {
            Err(CacheError::Io { source, .. }) if is_full(&source) => Ok(()),
            result => result,
        }
    }

    pub(crate) fn touch(&mut self, object: ObjectId) -> Result<(), CacheError> {
        self.used.insert(object);
        match self.used.len() > MAX_UNREPORTED_USES {
            true => self.commit_if_room(Vec::new()),
            false => Ok(()),
        }
    }
}

/// `None` without usable ones.
fn load(folder: &Folder) -> Result<Option<(JournalFile, Index)>, CacheError> {
    let Some((journal, base, records)) = JournalFile::open(&folder.journal())? else {
        return Ok(None);
    };
    let index = Index::load(&base).and_then(|mut index| {
        let mut ops = records.iter().flat_map(|(_, ops)| ops);
        ops.try_for_each(|op| index.apply(op))?;
        Ok(index)
    });
    Ok(index.ok().map(|index| (journal, index)))
}

/// A new epoch. Pinned files live on without names.
fn start_empty(folder: &Folder, settings: Settings) -> Result<(JournalFile, Index), CacheError> {
    folder.remove_orphans(|_| false)?;
    let epoch = random();
    // Object numbers of another epoch are invalid.
    let index = Index::new(settings, (epoch >> 1) & !0xffff_ffff);
    let header = Header { epoch, sequence: 0 };
    let journal = JournalFile::create(&folder.journal(), header, &index.snapshot())?;
    Ok((journal, index))
}

fn damaged(folder: &Folder) -> CacheError {
    CacheError::DamagedJournal {
        path: folder.root.clone(),
    }
}

fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
