//! Keeps the current thread on one CPU for a while.

use std::cell::Cell;
use std::marker::PhantomData;

use isochrony_system::affinity::CpuSet;

use super::CpuPlacement;

thread_local! {
    /// What threads that this one starts may use; set while it is pinned.
    static ALLOWED: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// Keeps the current thread on the CPU that a [`CpuPlacement`] gives it; restores its affinity when dropped.
///
/// Threads that it starts inherit the CPU, unless started with [`unpinned`].
///
/// ```
/// use isochrony_runtime::{CpuPlacement, PinnedThread};
///
/// if let Some(placement) = CpuPlacement::of_current_thread() {
///     let pinned = PinnedThread::pin(&placement, 0);
///     // `None` where the system refuses.
///     assert!(pinned.cpu().is_none_or(|cpu| cpu == placement.cpu(0)));
/// }
/// ```
#[derive(Debug)]
#[must_use = "the thread is pinned until this is dropped"]
pub struct PinnedThread {
    cpu: Option<usize>,
    before: Option<CpuSet>,
    allowed_before: Option<CpuSet>,
    /// Not `Send`: an affinity belongs to a thread, which must drop this itself.
    of_this_thread: PhantomData<*const ()>,
}

impl PinnedThread {
    /// Pins the current thread, number `thread` of the execution; it keeps the placement's CPUs where the system
    /// refuses.
    pub fn pin(placement: &CpuPlacement, thread: usize) -> Self {
        let cpu = placement.cpu(thread);
        let before = CpuSet::of_current_thread();
        let is_pinned = CpuSet::from_iter([cpu]).apply();
        if !is_pinned {
            // Its starter may be pinned.
            placement.allowed.apply();
        }
        Self {
            cpu: is_pinned.then_some(cpu),
            before,
            allowed_before: ALLOWED.replace(Some(placement.allowed)),
            of_this_thread: PhantomData,
        }
    }

    /// The CPU; None if the system refused.
    #[must_use]
    pub fn cpu(&self) -> Option<usize> {
        self.cpu
    }
}

impl Drop for PinnedThread {
    fn drop(&mut self) {
        ALLOWED.set(self.allowed_before);
        if let Some(before) = &self.before {
            before.apply();
        }
    }
}

/// The main function of a thread that may use all CPUs of the current one before it was pinned. For threads that mostly
/// wait, or outlive the execution.
///
/// ```
/// let thread = std::thread::spawn(isochrony_runtime::unpinned(|| 7));
/// assert_eq!(thread.join().unwrap(), 7);
/// ```
pub fn unpinned<T>(main: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let allowed = ALLOWED.get();
    move || {
        if let Some(allowed) = allowed {
            allowed.apply();
        }
        main()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuTopology;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn affinity() -> Vec<usize> {
        CpuSet::of_current_thread().unwrap().cpus().collect()
    }

    #[test]
    fn a_pinned_thread_has_one_cpu_and_then_its_affinity_again() {
        let before = affinity();
        let placement = CpuPlacement::of_current_thread().unwrap();
        let pinned = PinnedThread::pin(&placement, 1);
        assert_eq!(affinity(), [placement.cpu(1)]);
        assert_eq!(pinned.cpu(), Some(placement.cpu(1)));
        drop(pinned);
        assert_eq!(affinity(), before);
    }

    #[test]
    fn a_panic_restores_the_affinity() {
        let before = affinity();
        let placement = CpuPlacement::of_current_thread().unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _pinned = PinnedThread::pin(&placement, 0);
            panic!("in a pinned thread");
        }));
        assert!(panicked.is_err());
        assert_eq!(affinity(), before);
    }

    #[test]
    fn guards_nest() {
        let before = affinity();
        let placement = CpuPlacement::of_current_thread().unwrap();
        let outer = PinnedThread::pin(&placement, 0);
        let inner_placement = CpuPlacement::of_current_thread().unwrap();
        let inner = PinnedThread::pin(&inner_placement, 5);
        assert_eq!(affinity(), [placement.cpu(0)]);
        drop(inner);
        assert_eq!(affinity(), [placement.cpu(0)]);
        drop(outer);
        assert_eq!(affinity(), before);
    }

    #[test]
    fn threads_inherit_the_cpu_unless_they_are_started_unpinned() {
        let before = affinity();
        let placement = CpuPlacement::of_current_thread().unwrap();
        let _pinned = PinnedThread::pin(&placement, 0);
        let inherits = std::thread::spawn(affinity).join().unwrap();
        let free = std::thread::spawn(unpinned(affinity)).join().unwrap();
        assert_eq!((inherits, free), (vec![placement.cpu(0)], before));
    }

    #[test]
    fn a_cpu_that_does_not_exist_leaves_the_thread_as_it_was() {
        let before = affinity();
        let missing = [CpuSet::MAX_CPUS - 1];
        let placement = CpuPlacement::new(&CpuTopology::default(), &missing, 0).unwrap();
        let pinned = PinnedThread::pin(&placement, 0);
        assert_eq!((pinned.cpu(), affinity()), (None, before));
    }
}
