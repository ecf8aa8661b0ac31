//! What all handles of an open store share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use crate::append::writer_state::WriterState;
use crate::backend::Backend;
use crate::error::StoreError;
use crate::mutex::lock;
use crate::op::SignalId;
use crate::views::maintainer::ViewMaintainer;

pub(crate) struct StoreState {
    pub(crate) backend: Backend,
    pub(crate) views: ViewMaintainer,
    /// Held shared during a change of one signal, exclusively during a commit: no commit has half an append.
    pub(crate) gate: RwLock<()>,
    writers: Mutex<HashMap<SignalId, Arc<Mutex<WriterState>>>>,
    removed: Mutex<Vec<SignalId>>,
    /// Allows in-place overwriting: scratch only.
    pub(crate) in_place: bool,
}

impl StoreState {
    pub(crate) fn new(backend: Backend, in_place: bool) -> Self {
        Self {
            views: ViewMaintainer::new(backend.media()),
            backend,
            gate: RwLock::new(()),
            writers: Mutex::default(),
            removed: Mutex::default(),
            in_place,
        }
    }

    pub(crate) fn writer_state(&self, id: SignalId) -> Arc<Mutex<WriterState>> {
        Arc::clone(lock(&self.writers).entry(id).or_default())
    }

    pub(crate) fn mark_removed(&self, id: SignalId) {
        lock(&self.removed).push(id);
    }

    pub(crate) fn forget_removed(&self) {
        for id in std::mem::take(&mut *lock(&self.removed)) {
            // The removal may have been undone.
            if self.backend.state(id).is_err() {
                lock(&self.writers).remove(&id);
                self.views.remove_signal(id);
            }
        }
    }

    /// Includes pending changes of views and writers.
    pub(crate) fn rollback(&self) -> Result<(), StoreError> {
        let engine = self.backend.engine("roll back")?;
        let any = engine.has_pending();
        let pending = self.views.pending(engine);
        engine.rollback()?;
        if any {
            self.forget_writers();
            lock(&self.removed).clear();
            self.views.after_rollback(&self.backend, &pending);
        }
        Ok(())
    }

    /// Discards pending changes and, as far as possible, makes views durable.
    pub(crate) fn settle_views(&self) {
        // Fails in a fork, whose parent owns the files, and after a failed sync.
        if self.rollback().is_err() {
            return;
        }
        if let Err(StoreError::DiskFull { .. }) = self.views.sync(&self.backend)
            && let Ok(engine) = self.backend.engine("close")
        {
            engine.leave_unfinished();
        }
    }

    /// Views lack a record if the writer was killed or the disk was full.
    pub(crate) fn restore_views(&self) {
        let Ok(engine) = self.backend.engine("build views") else {
            return;
        };
        if engine.was_recovered()
            && let Err(StoreError::DiskFull { .. }) = self.views.restore_records(&self.backend)
        {
            engine.leave_unfinished();
        }
    }

    pub(crate) fn forget_writers(&self) {
        lock(&self.writers).clear();
    }
}

impl Drop for StoreState {
    fn drop(&mut self) {
        self.settle_views();
    }
}
