//! A progress counter.

use std::sync::atomic::{AtomicU64, Ordering};

const UNKNOWN: u64 = u64::MAX;

/// Work done and in total, in the owner's unit. Working threads advance it; any thread reads it.
///
/// ```
/// let bytes = isochrony_runtime::Progress::of(100);
/// bytes.advance(30);
/// assert_eq!((bytes.done(), bytes.total()), (30, Some(100)));
/// ```
#[derive(Debug)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Nothing of `total` is done.
    #[must_use]
    pub fn of(total: u64) -> Self {
        Self {
            done: AtomicU64::new(0),
            total: AtomicU64::new(total),
        }
    }

    /// Work done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Total work, if known.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        Some(self.total.load(Ordering::Relaxed)).filter(|total| *total != UNKNOWN)
    }

    /// Adds `amount` to the work done.
    pub fn advance(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
    }

    /// Sets the work done.
    pub fn set_done(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// Sets the total.
    pub fn set_total(&self, total: Option<u64>) {
        self.total
            .store(total.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// Adds `amount` to a known total.
    pub fn extend(&self, amount: u64) {
        let before = self.total.fetch_add(amount, Ordering::Relaxed);
        debug_assert!(before != UNKNOWN, "the total is unknown");
    }
}

impl Default for Progress {
    /// The total is unknown.
    fn default() -> Self {
        Self::of(UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_advance_it_together() {
        let progress = Progress::of(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        progress.extend(3);
                        progress.advance(2);
                    }
                });
            }
        });
        assert_eq!((progress.done(), progress.total()), (8000, Some(12_000)));
    }

    #[test]
    fn a_total_is_unknown_until_it_is_set() {
        let progress = Progress::default();
        progress.advance(5);
        assert_eq!((progress.done(), progress.total()), (5, None));
        progress.set_total(Some(0));
        progress.set_done(1);
        assert_eq!((progress.done(), progress.total()), (1, Some(0)));
        progress.set_total(None);
        assert_eq!(progress.total(), None);
    }
}
