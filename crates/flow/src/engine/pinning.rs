//! Pins the threads of an execution to CPUs, where [`RunOptions::pin`](crate::RunOptions) asks for it.

use std::sync::{Mutex, PoisonError};

use isochrony_runtime::{CpuLocation, CpuPlacement, PinnedThread};

/// The CPUs of an execution's threads. Thread 0 is the caller's.
#[derive(Debug)]
pub(crate) struct Pinning {
    placement: CpuPlacement,
    /// By thread; None where the system refused.
    cpus: Mutex<Vec<Option<usize>>>,
}

impl Pinning {
    /// For threads that the current one starts. None where the system does not tell which CPUs it may use.
    pub(crate) fn of_current_thread() -> Option<Self> {
        Some(Self {
            placement: CpuPlacement::of_current_thread()?,
            cpus: Mutex::default(),
        })
    }

    /// Pins the current thread until the guard is dropped.
    pub(crate) fn pin(&self, thread: usize) -> PinnedThread {
        let pinned = PinnedThread::pin(&self.placement, thread);
        let mut cpus = self.cpus.lock().unwrap_or_else(PoisonError::into_inner);
        let count = cpus.len().max(thread + 1);
        cpus.resize(count, None);
        cpus[thread] = pinned.cpu();
        pinned
    }

    pub(crate) fn location(&self, thread: usize) -> CpuLocation {
        self.placement.location(thread)
    }

    pub(crate) fn into_cpus(self) -> Vec<Option<usize>> {
        let cpus = self.cpus.into_inner();
        cpus.unwrap_or_else(PoisonError::into_inner)
    }
}
