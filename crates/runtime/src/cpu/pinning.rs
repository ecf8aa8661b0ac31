//! Pins the threads of an execution to CPUs.

use std::sync::{Mutex, PoisonError};

use super::{CpuLocation, CpuPlacement, PinnedThread};

/// The CPUs of an execution's threads, by number.
///
/// ```
/// use isochrony_runtime::{Pinning, start_worker};
///
/// if let Some(pinning) = Pinning::of_current_thread() {
///     std::thread::scope(|scope| start_worker(scope, 0, Some(&pinning), || ()).unwrap().join().unwrap());
///     assert_eq!(pinning.into_cpus().len(), 1);
/// }
/// ```
#[derive(Debug)]
pub struct Pinning {
    placement: CpuPlacement,
    /// By thread; None where the system refused.
    cpus: Mutex<Vec<Option<usize>>>,
}

impl Pinning {
    /// For threads that the current one starts. None where the system does not tell the allowed CPUs.
    #[must_use]
    pub fn of_current_thread() -> Option<Self> {
        Some(Self {
            placement: CpuPlacement::of_current_thread()?,
            cpus: Mutex::default(),
        })
    }

    /// Pins the current thread until the guard is dropped.
    pub fn pin(&self, thread: usize) -> PinnedThread {
        let pinned = PinnedThread::pin(&self.placement, thread);
        let mut cpus = self.cpus.lock().unwrap_or_else(PoisonError::into_inner);
        let count = cpus.len().max(thread + 1);
        cpus.resize(count, None);
        cpus[thread] = pinned.cpu();
        pinned
    }

    /// Where the CPU of a thread is.
    #[must_use]
    pub fn location(&self, thread: usize) -> CpuLocation {
        self.placement.location(thread)
    }

    /// The CPU of each thread; None where the system refused.
    #[must_use]
    pub fn into_cpus(self) -> Vec<Option<usize>> {
        let cpus = self.cpus.into_inner();
        cpus.unwrap_or_else(PoisonError::into_inner)
    }
}
