//! [`WorkerGate`]: changes how many workers of a pool are in use.
//!
//! A worker passes the gate before it takes work, when it holds nothing that others wait for. One whose number is not
//! below the limit sleeps there until the limit is raised or the gate is opened. `tests/loom_worker_gate.rs` compiles
//! this file with loom's locks.

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError};

/// Lets the workers with the lowest numbers pass.
#[derive(Debug)]
pub struct WorkerGate {
    /// Changed with `changing` held, so no wake-up is missed.
    limit: AtomicUsize,
    changing: Mutex<()>,
    changed: Condvar,
}

impl WorkerGate {
    /// Lets `limit` workers pass, at least 1.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit: AtomicUsize::new(limit.max(1)),
            changing: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Waits until the worker with this number may take work.
    pub fn pass(&self, worker: usize) {
        if worker < self.limit.load(Ordering::Acquire) {
            return;
        }
        let mut changing = self.lock();
        while worker >= self.limit.load(Ordering::Acquire) {
            changing = self
                .changed
                .wait(changing)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets this many workers pass, at least 1, unless the gate is open.
    pub fn set_limit(&self, workers: usize) {
        let changing = self.lock();
        if self.limit.load(Ordering::Acquire) != usize::MAX {
            self.limit.store(workers.max(1), Ordering::Release);
        }
        drop(changing);
        self.changed.notify_all();
    }

    /// Lets all workers pass from now on, for instance since no work is left.
    pub fn open(&self) {
        let changing = self.lock();
        self.limit.store(usize::MAX, Ordering::Release);
        drop(changing);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
