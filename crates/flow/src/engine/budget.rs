//! One bound for the memory of all threads of a run.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use isochrony_segment::{Buffer, give_pages_back};

/// What the pools of a run take together.
#[derive(Debug)]
pub(crate) struct Budget {
    cap: u64,
    used: AtomicU64,
    peak: AtomicU64,
    /// It was not enough once.
    short: AtomicBool,
    /// Blocks of threads that are gone which somebody still refers to. They count until nobody does: what a run has memory
    /// for must not depend on when a thread ends.
    left: Mutex<Vec<Buffer>>,
}

impl Budget {
    pub(crate) fn new(cap: u64) -> Self {
        Self {
            cap,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            short: AtomicBool::new(false),
            left: Mutex::default(),
        }
    }

    /// Drops blocks of threads that are gone to which nobody refers any more.
    fn sweep(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain_mut(|block| {
            let Some(free) = block.get_mut() else {
                return true;
            };
            self.used.fetch_sub(free.len() as u64, Ordering::Relaxed);
            give_pages_back(free);
            false
        });
    }

    /// Most that was taken at once.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes so many bytes more if they fit.
    fn grow(&self, more: u64) -> bool {
        let fits = |used: u64| used.checked_add(more).filter(|&used| used <= self.cap);
        // Counts, by which no other memory is published.
        let grown = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        match grown {
            Ok(before) => self.peak.fetch_max(before + more, Ordering::Relaxed),
            Err(_) => u64::from(self.short.swap(true, Ordering::Relaxed)),
        };
        grown.is_ok()
    }
}

/// Who can give memory back where there is not enough.
pub(crate) trait Room: Send + Sync {
    /// Sees to it that others take as little as they can, until it is told to go on.
    fn make(&self);

    fn go_on(&self);
}

/// A thread's part in a budget: all if nobody else has one.
#[derive(Clone)]
pub(crate) struct Share {
    pub(crate) budget: Arc<Budget>,
    /// Who is asked where there is not enough.
    pub(crate) room: Option<Arc<dyn Room>>,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.budget.fmt(f)
    }
}

/// What one pool takes of a budget.
#[derive(Debug)]
pub(super) struct Taken {
    share: Share,
    bytes: u64,
}

impl Taken {
    pub(super) fn new(share: Share) -> Self {
        Self { share, bytes: 0 }
    }

    /// Takes so many bytes in all, if the budget has them.
    pub(super) fn set(&mut self, bytes: u64) -> bool {
        let budget = &self.share.budget;
        let fits = match bytes.checked_sub(self.bytes) {
            Some(more) => budget.grow(more),
            None => {
                let less = self.bytes - bytes;
                budget.used.fetch_sub(less, Ordering::Relaxed);
                true
            }
        };
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// The same, where others have to make room for it.
    pub(super) fn set_first(&mut self, bytes: u64) -> bool {
        let Some(room) = self.share.room.clone() else {
            return false;
        };
        room.make();
        self.sweep();
        let fits = self.set(bytes);
        room.go_on();
        fits
    }

    /// Drops what threads that are gone have left and nobody refers to.
    pub(super) fn sweep(&self) {
        self.share.budget.sweep();
    }

    /// Leaves blocks, which stay counted, to the budget.
    pub(super) fn leave(&mut self, blocks: impl Iterator<Item = Buffer>) {
        let budget = &self.share.budget;
        let mut left = budget.left.lock().unwrap_or_else(PoisonError::into_inner);
        for block in blocks {
            self.bytes = self.bytes.saturating_sub(block.len() as u64);
            left.push(block);
        }
    }

    /// Whether others wait for what it does not need.
    pub(super) fn is_short(&self) -> bool {
        self.share.room.is_some() && self.share.budget.short.load(Ordering::Relaxed)
    }

    pub(super) fn cap(&self) -> u64 {
        self.share.budget.cap
    }

    /// Bytes that all take.
    pub(super) fn used(&self) -> u64 {
        self.share.budget.used()
    }

    pub(super) fn peak(&self) -> u64 {
        self.share.budget.peak()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.share
            .budget
            .used
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
