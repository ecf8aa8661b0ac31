//! A memory budget shared by threads.
//!
//! ```text
//!  MemoryBudget: limit ├──────────────────────────────────────────────┤
//!                      │ reservation │ reservation │     available    │
//! ```
//!
//! It only counts bytes, without waiting: a refused thread frees something, writes to disk, or fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit, use and peak of an execution's bytes.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    overdraft: AtomicU64,
    reserved: AtomicU64,
    peak: AtomicU64,
}

// Relaxed counters: they publish no memory.
impl MemoryBudget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            overdraft: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Allows temporary reservations above the limit.
    pub fn set_overdraft(&self, bytes: u64) {
        self.overdraft.store(bytes, Ordering::Relaxed);
    }

    /// Reserved bytes.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Peak of reserved bytes.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` more; false, without effect, above the limit. A [`MemoryReservation`] returns them when
    /// dropped.
    #[must_use]
    pub fn try_grow(&self, bytes: u64) -> bool {
        let limit = self
            .limit
            .saturating_add(self.overdraft.load(Ordering::Relaxed));
        let add = |reserved: u64| {
            let sum = reserved.checked_add(bytes)?;
            (sum <= limit).then_some(sum)
        };
        let before = self
            .reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if let Ok(before) = before {
            self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        }
        before.is_ok()
    }

    /// Returns reserved bytes.
    pub fn shrink(&self, bytes: u64) {
        let before = self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes returned of {before}");
    }
}

/// Part of a budget, returned when dropped.
///
/// ```
/// use std::sync::Arc;
/// use isochrony_runtime::{MemoryBudget, MemoryReservation};
///
/// let budget = Arc::new(MemoryBudget::new(100));
/// let mut first = MemoryReservation::new(&budget);
/// assert!(first.try_resize(70));
/// assert!(!MemoryReservation::new(&budget).try_resize(40));
/// drop(first);
/// assert_eq!((budget.reserved(), budget.peak()), (0, 70));
/// ```
#[derive(Debug)]
pub struct MemoryReservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl MemoryReservation {
    /// An empty reservation.
    #[must_use]
    pub fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes: 0,
        }
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sets its size; false, without effect, above the budget. Shrinking never fails.
    #[must_use]
    pub fn try_resize(&mut self, bytes: u64) -> bool {
        let fits = match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.try_grow(more),
            None => {
                self.budget.shrink(self.bytes - bytes);
                true
            }
        };
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// Splits off at most `bytes`, without changing the budget.
    #[must_use]
    pub fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            budget: Arc::clone(&self.budget),
            bytes,
        }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.budget.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_exceeds_the_limit_and_changes_nothing() {
        let budget = MemoryBudget::new(100);
        assert!(budget.try_grow(60) && !budget.try_grow(41) && !budget.try_grow(u64::MAX));
        assert_eq!((budget.reserved(), budget.peak()), (60, 60));
        assert!(budget.try_grow(40));
        budget.shrink(70);
        assert!(budget.try_grow(10));
        assert_eq!(
            (budget.limit(), budget.reserved(), budget.peak()),
            (100, 40, 100)
        );
    }

    #[test]
    fn a_reservation_keeps_its_size_when_it_is_refused_more() {
        let budget = Arc::new(MemoryBudget::new(100));
        let (mut one, mut other) = (
            MemoryReservation::new(&budget),
            MemoryReservation::new(&budget),
        );
        assert!(one.try_resize(50) && other.try_resize(50) && !one.try_resize(51));
        assert_eq!((one.bytes(), budget.reserved()), (50, 100));
        assert!(other.try_resize(20) && one.try_resize(80));
        drop(one);
        assert_eq!((budget.reserved(), budget.peak()), (20, 100));
    }

    #[test]
    fn parts_of_a_reservation_are_returned_one_by_one() {
        let budget = Arc::new(MemoryBudget::new(100));
        let mut all = MemoryReservation::new(&budget);
        assert!(all.try_resize(90));
        let (first, rest) = (all.split(30), all.split(1000));
        assert_eq!((all.bytes(), first.bytes(), rest.bytes()), (0, 30, 60));
        drop(all);
        assert_eq!(budget.reserved(), 90);
        drop(first);
        assert_eq!(budget.reserved(), 60);
        drop(rest);
        assert_eq!((budget.reserved(), budget.peak()), (0, 90));
    }

    #[test]
    fn threads_together_never_exceed_the_limit() {
        let (budget, held) = (Arc::new(MemoryBudget::new(100)), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (budget, held) = (&budget, &held);
                scope.spawn(move || {
                    let mut reservation = MemoryReservation::new(budget);
                    for round in 0..20_000 {
                        let before = reservation.bytes();
                        let wanted = (round * 7 + thread * 13) % 60;
                        // It lags behind the budget's sum and is never larger.
                        if wanted < before {
                            held.fetch_sub(before - wanted, Ordering::SeqCst);
                            assert!(reservation.try_resize(wanted));
                        } else if reservation.try_resize(wanted) {
                            let sum =
                                held.fetch_add(wanted - before, Ordering::SeqCst) + wanted - before;
                            assert!(sum <= 100, "{sum} bytes are held");
                        }
                    }
                    held.fetch_sub(reservation.bytes(), Ordering::SeqCst);
                });
            }
        });
        assert_eq!((budget.reserved(), held.into_inner()), (0, 0));
        assert!((59..=100).contains(&budget.peak()));
    }
}
