//! Maintains the views of a store's signals: notified of writes and commits, it updates rows.
//!
//! Its failures are harmless: unknown rows are computed from samples.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::Builder;
use super::files::{FOLDER, Files, ViewOwner};
use super::record::{Record, add};
use super::view_state::ViewState;
use crate::StoreError;
use crate::backend::Backend;
use crate::engine::Engine;
use crate::media::Media;
use crate::mutex::lock;
use crate::op::{Op, SignalId};
use crate::sample_format::SampleFormat;
use crate::state::SignalState;

pub(crate) struct ViewMaintainer {
    pub(super) media: Arc<dyn Media>,
    pub(super) boot: String,
    entries: Mutex<HashMap<SignalId, Arc<Mutex<ViewState>>>>,
    /// Signals changed since the last commit, or with an outdated record.
    active: Mutex<Vec<SignalId>>,
}

impl ViewMaintainer {
    pub(crate) fn new(media: Arc<dyn Media>) -> Self {
        Self {
            boot: media.boot_id(),
            media,
            entries: Mutex::default(),
            active: Mutex::default(),
        }
    }

    pub(super) fn files(
        &self,
        backend: &Backend,
        id: SignalId,
        format: SampleFormat,
    ) -> Result<Files, StoreError> {
        self.files_in(backend, id, &backend.signal_path(id)?, format)
    }

    pub(super) fn files_in(
        &self,
        backend: &Backend,
        id: SignalId,
        folder: &Path,
        format: SampleFormat,
    ) -> Result<Files, StoreError> {
        let owner = ViewOwner {
            store: backend.uuid()?,
            signal: id,
        };
        Ok(Files::new(Arc::clone(&self.media), owner, folder, format))
    }

    fn load(&self, backend: &Backend, state: &SignalState) -> Result<ViewState, StoreError> {
        let files = self.files(backend, state.id, state.meta.format)?;
        let record = Record::load(&files, state)?;
        Ok(ViewState {
            files,
            record,
            builder: None,
            touched: Vec::new(),
            taken: Vec::new(),
            fed: 0,
            published: Instant::now(),
            failed: false,
            active: false,
        })
    }

    pub(super) fn entry(
        &self,
        backend: &Backend,
        id: SignalId,
    ) -> Result<Arc<Mutex<ViewState>>, StoreError> {
        if let Some(entry) = lock(&self.entries).get(&id) {
            return Ok(Arc::clone(entry));
        }
        let entry = Arc::new(Mutex::new(self.load(backend, &*backend.state(id)?)?));
        Ok(Arc::clone(lock(&self.entries).entry(id).or_insert(entry)))
    }

    pub(crate) fn remove_signal(&self, id: SignalId) {
        lock(&self.entries).remove(&id);
    }

    fn activate(&self, backend: &Backend, id: SignalId, entry: &mut ViewState) {
        if !entry.active {
            entry.active = true;
            if let Ok(path) = backend.signal_path(id) {
                entry.files.moved(&path);
            }
            lock(&self.active).push(id);
        }
    }

    fn all(&self) -> Vec<(SignalId, Arc<Mutex<ViewState>>)> {
        lock(&self.entries)
            .iter()
            .map(|(id, entry)| (*id, Arc::clone(entry)))
            .collect()
    }

    /// Adds samples before the operations that count them. Failed views must not prevent storing samples: errors are
    /// handled later.
    pub(crate) fn feed(&self, backend: &Backend, id: SignalId, index: i64, bytes: &[u8]) -> i64 {
        let Ok(entry) = self.entry(backend, id) else {
            // Without a folder no record can claim these samples.
            let size = backend
                .state(id)
                .map_or(1, |state| state.meta.format.size());
            return index + (bytes.len() / size) as i64;
        };
        let entry = &mut *lock(&entry);
        self.activate(backend, id, entry);
        let end = index + (bytes.len() / entry.files.format().size()) as i64;
        if entry.failed || entry.feed(backend, id, index, bytes, &self.boot).is_err() {
            add(&mut entry.touched, (index, end));
            entry.failed = true;
            entry.builder = None;
        }
        end
    }

    pub(crate) fn observe(&self, backend: &Backend, op: &Op) -> Result<(), StoreError> {
        let (id, range) = match op {
            Op::Gap { id, start, end } => (*id, *start..*end),
            Op::ReplaceShard { id, shard, .. } => {
                let length = backend.shard_samples(*id)?;
                let start = i64::try_from(*shard)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(length);
                (*id, start..start.saturating_add(length))
            }
            _ => return Ok(()),
        };
        let entry = self.entry(backend, id)?;
        let entry = &mut *lock(&entry);
        let known = entry
            .builder
            .as_ref()
            .map_or(0, Builder::next)
            .max(entry.record.built);
        self.activate(backend, id, entry);
        // A gap past the end removes nothing.
        if range.start < backend.state(id)?.end {
            add(&mut entry.taken, (range.start, range.end));
        }
        if range.start < known {
            if let Some(builder) = &mut entry.builder {
                builder.invalidate(range.clone());
            }
            add(&mut entry.touched, (range.start, range.end));
        }
        Ok(())
    }

    /// # Errors
    /// Rows to invalidate could not be recorded: do not commit.
    pub(crate) fn before_commit(&self) -> Result<(), StoreError> {
        let active = lock(&self.active).clone();
        for id in active {
            let Some(entry) = lock(&self.entries).get(&id).cloned() else {
                continue;
            };
            let entry = &mut *lock(&entry);
            if !entry.touched.is_empty() || !entry.taken.is_empty() {
                entry.before_commit()?;
            }
        }
        Ok(())
    }

    pub(crate) fn after_commit(&self, backend: &Backend, publish: bool) {
        let mut active = std::mem::take(&mut *lock(&self.active));
        active.retain(|id| {
            let Some(entry) = lock(&self.entries).get(id).cloned() else {
                return false;
            };
            let entry = &mut *lock(&entry);
            let (Ok(state), Ok(path)) = (backend.state(*id), backend.signal_path(*id)) else {
                // Removed.
                lock(&self.entries).remove(id);
                return false;
            };
            entry.files.moved(&path);
            entry.failed = false;
            if entry
                .after_commit(backend, &state, &self.boot, publish)
                .is_err()
            {
                entry.builder = None;
                entry.failed = true;
            }
            entry.active = entry.failed || entry.is_behind();
            entry.active
        });
        lock(&self.active).extend(active);
    }

    pub(crate) fn pending(&self, engine: &Engine) -> BTreeSet<SignalId> {
        let entries = lock(&self.entries);
        let ids = entries.keys().copied();
        ids.filter(|id| engine.has_pending_in(*id)).collect()
    }

    /// Some of these signals may be gone.
    pub(crate) fn after_rollback(&self, backend: &Backend, pending: &BTreeSet<SignalId>) {
        // Restart from the record: it names only committed samples, and rows past the end do not count.
        for id in pending {
            if matches!(backend.state(*id), Err(StoreError::SignalRemoved { .. })) {
                lock(&self.entries).remove(id);
                continue;
            }
            let Some(entry) = lock(&self.entries).get(id).cloned() else {
                continue;
            };
            let entry = &mut *lock(&entry);
            let touched = std::mem::take(&mut entry.touched);
            entry.taken.clear();
            // It may lack rows of committed samples, which are rebuilt.
            entry.failed |= entry.is_behind();
            if entry.builder.take().is_some() {
                for range in touched {
                    entry.record.add_stale(range);
                }
            }
        }
    }

    /// Makes rows durable, so that the next opening builds none.
    pub(crate) fn sync(&self, backend: &Backend) -> Result<(), StoreError> {
        for (id, entry) in self.all() {
            let entry = &mut *lock(&entry);
            let (Ok(state), Ok(path)) = (backend.state(id), backend.signal_path(id)) else {
                continue;
            };
            entry.files.moved(&path);
            if entry.builder.is_some() || entry.failed || !entry.record.pending.is_empty() {
                entry.builder(backend, &state, &self.boot)?;
                entry.refresh(backend, &state)?;
                entry.sync(&state, &self.boot)?;
            }
        }
        Ok(())
    }

    /// Rebuilds rows of signals without a record for lack of space. Errors other than a full disk are left to `verify`.
    pub(crate) fn restore_records(&self, backend: &Backend) -> Result<(), StoreError> {
        for (id, _) in backend.catalogue()? {
            let Ok(folder) = backend.signal_path(id) else {
                continue;
            };
            let restored = match Record::missing(&*self.media, &folder.join(FOLDER)) {
                Ok(Some(_)) => self.rebuild(backend, id),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error @ StoreError::DiskFull { .. }) = restored {
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn rebuild(&self, backend: &Backend, id: SignalId) -> Result<(), StoreError> {
        let entry = self.entry(backend, id)?;
        let entry = &mut *lock(&entry);
        let state = backend.state(id)?;
        entry.builder = None;
        entry.files.remove()?;
        entry.record = Record::default();
        entry.builder(backend, &state, &self.boot)?;
        entry.sync(&state, &self.boot)
    }
}
