//! [`ActiveThreads`]: how many of the started threads execute stages.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Threads are numbered; the caller's is 0 and always active. Those with too large a number sleep.
pub(super) struct ActiveThreads {
    most: usize,
    /// Changed under the lock, so that no thread misses it; read without.
    active: AtomicUsize,
    stopped: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl ActiveThreads {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            active: AtomicUsize::new(most),
            stopped: AtomicBool::new(false),
            lock: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    pub(super) fn is_active(&self, thread: usize) -> bool {
        thread < self.active()
    }

    /// From 1 to [`most`](Self::most).
    pub(super) fn set_active(&self, threads: usize) {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.active
            .store(threads.clamp(1, self.most), Ordering::Relaxed);
        drop(lock);
        self.changed.notify_all();
    }

    pub(super) fn wait_until_active(&self, thread: usize) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_active(thread) && !self.stopped.load(Ordering::Relaxed) {
            lock = self
                .changed
                .wait(lock)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn stop(&self) {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.stopped.store(true, Ordering::Relaxed);
        drop(lock);
        self.changed.notify_all();
    }
}
