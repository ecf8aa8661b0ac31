//! Memory of an execution, shared by its threads.
//!
//! ```text
//!  MemoryBudget (one limit)
//!    ├── PoolReservation of each thread's buffer pool   what it has in blocks and queues
//!    └── blocks of ended threads                        until nobody refers to them
//!
//!  refused ──▶ drop free blocks, own and of ended threads ──▶ refused ──▶ MemoryReclaimer: the other threads release theirs
//! ```

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use isochrony_runtime::{MemoryBudget, MemoryReservation};
use isochrony_segment::{Buffer, give_pages_back};

#[derive(Debug)]
pub(crate) struct ExecutionMemory {
    budget: Arc<MemoryBudget>,
    was_exhausted: AtomicBool,
    /// Referenced blocks of ended threads stay reserved, so the memory left does not depend on when a thread ends.
    abandoned: Mutex<Vec<(Buffer, MemoryReservation)>>,
}

impl ExecutionMemory {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            budget: Arc::new(MemoryBudget::new(limit)),
            was_exhausted: AtomicBool::new(false),
            abandoned: Mutex::default(),
        }
    }

    fn sweep(&self) {
        let mut abandoned = self
            .abandoned
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        abandoned.retain_mut(|(block, _)| {
            let Some(free) = block.get_mut() else {
                return true;
            };
            give_pages_back(free);
            false
        });
    }

    /// How far the budget may be exceeded while one thread has all of it.
    pub(crate) fn set_overdraft(&self, bytes: u64) {
        self.budget.set_overdraft(bytes);
    }

    pub(crate) fn peak(&self) -> u64 {
        self.budget.peak()
    }
}

pub(crate) trait MemoryReclaimer: Send + Sync {
    /// Other threads hold as little as possible until [`resume`](Self::resume).
    fn reclaim(&self);

    fn resume(&self);
}

#[derive(Clone)]
pub(crate) struct MemoryHandle {
    pub(crate) memory: Arc<ExecutionMemory>,
    /// Asked when memory is refused. None in workers, and without them.
    pub(crate) reclaimer: Option<Arc<dyn MemoryReclaimer>>,
}

impl fmt::Debug for MemoryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory.fmt(f)
    }
}

#[derive(Debug)]
pub(super) struct PoolReservation {
    handle: MemoryHandle,
    reservation: MemoryReservation,
}

impl PoolReservation {
    pub(super) fn new(handle: MemoryHandle) -> Self {
        Self {
            reservation: MemoryReservation::new(&handle.memory.budget),
            handle,
        }
    }

    pub(super) fn try_resize(&mut self, bytes: u64) -> bool {
        let fits = self.reservation.try_resize(bytes);
        if !fits {
            let memory = &self.handle.memory;
            memory.was_exhausted.store(true, Ordering::Relaxed);
        }
        fits
    }

    pub(super) fn reclaim_and_resize(&mut self, bytes: u64) -> bool {
        let Some(reclaimer) = self.handle.reclaimer.clone() else {
            return false;
        };
        reclaimer.reclaim();
        self.sweep();
        let fits = self.try_resize(bytes);
        reclaimer.resume();
        fits
    }

    pub(super) fn sweep(&self) {
        self.handle.memory.sweep();
    }

    /// Leaves blocks to the execution; they stay reserved.
    pub(super) fn abandon(&mut self, blocks: impl Iterator<Item = Buffer>) {
        let abandoned = &self.handle.memory.abandoned;
        let mut abandoned = abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        for block in blocks {
            let reservation = self.reservation.split(block.len() as u64);
            abandoned.push((block, reservation));
        }
    }

    pub(super) fn should_release(&self) -> bool {
        let handle = &self.handle;
        handle.reclaimer.is_some() && handle.memory.was_exhausted.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> u64 {
        self.reservation.budget().limit()
    }

    pub(super) fn reserved_by_all(&self) -> u64 {
        self.reservation.budget().reserved()
    }

    pub(super) fn peak(&self) -> u64 {
        self.reservation.budget().peak()
    }
}
