//! [`ActiveSlots`]: which slots of a cluster are given tasks, and how many tasks a message carries.
//!
//! Tuning changes both while a plan runs. The slots that joined first are used; where one leaves, the next one takes its
//! place.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::placed_tasks::BATCHES_IN_FLIGHT;
use crate::scheduler::task_sizes::random;

/// Messages of a window of measurements, at least.
const MIN_WINDOW_MESSAGES: usize = 8;
const MAX_SHUFFLED_BATCH: u64 = 6;
/// How long slots of the workers that there are at the start may take to join.
const JOIN_TIME: Duration = Duration::from_secs(5);

pub(super) struct ActiveSlots {
    /// Slots that the cluster had at the start, some of which may still join.
    expected: usize,
    begun: Instant,
    state: Mutex<State>,
    changed: Condvar,
    /// 0: each slot decides by the time of its tasks.
    batch_tasks: AtomicUsize,
    /// Most slots to ask the cluster for.
    enough: AtomicUsize,
    messages: AtomicU64,
    tasks: AtomicU64,
}

struct State {
    joined: usize,
    /// Numbers of slots that have left.
    left: BTreeSet<usize>,
    /// Slots that are used; usize::MAX: all.
    limit: usize,
}

impl State {
    /// `expected`: slots that may still join.
    fn count(&self, expected: usize) -> usize {
        expected
            .max(self.joined)
            .saturating_sub(self.left.len())
            .max(1)
    }

    /// Earlier slots count from the moment that they have a number: their threads may start later.
    fn is_active(&self, number: usize) -> bool {
        self.limit == usize::MAX || number - self.left.range(..number).count() < self.limit
    }
}

impl ActiveSlots {
    pub(super) fn new(expected: usize) -> Self {
        Self {
            expected,
            begun: Instant::now(),
            state: Mutex::new(State {
                joined: 0,
                left: BTreeSet::new(),
                limit: usize::MAX,
            }),
            changed: Condvar::new(),
            batch_tasks: AtomicUsize::new(0),
            enough: AtomicUsize::new(usize::MAX),
            messages: AtomicU64::new(0),
            tasks: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join(&self) {
        self.lock().joined += 1;
    }

    pub(super) fn leave(&self, number: usize) {
        let mut state = self.lock();
        state.left.insert(number);
        self.changed.notify_all();
    }

    pub(super) fn is_active(&self, number: usize) -> bool {
        self.lock().is_active(number)
    }

    /// Until the slot is used, or for so long.
    pub(super) fn wait(&self, number: usize, limit: Duration) {
        let is_idle = |state: &mut State| !state.is_active(number);
        let waited = self.changed.wait_timeout_while(self.lock(), limit, is_idle);
        drop(waited);
    }

    /// Slots of the start; none once they are too late, such as those of a worker that was lost before it joined.
    fn expected(&self) -> usize {
        match self.begun.elapsed() < JOIN_TIME {
            true => self.expected,
            false => 0,
        }
    }

    /// Slots of the start are still to join: throughput says nothing of a configuration.
    pub(super) fn are_joining(&self) -> bool {
        self.lock().joined < self.expected()
    }

    /// Slots that there are, and how many of them are used.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        let count = state.count(self.expected());
        (count, state.limit.min(count))
    }

    /// All, also those that join later, if there are no more than so many.
    pub(super) fn set_limit(&self, slots: usize) {
        let mut state = self.lock();
        state.limit = match slots >= state.count(self.expected()) {
            true => usize::MAX,
            false => slots.max(1),
        };
        self.changed.notify_all();
    }

    pub(super) fn batch_tasks(&self) -> usize {
        self.batch_tasks.load(Ordering::Relaxed)
    }

    pub(super) fn set_batch_tasks(&self, tasks: usize) {
        self.batch_tasks.store(tasks, Ordering::Relaxed);
    }

    pub(super) fn enough(&self) -> Option<usize> {
        Some(self.enough.load(Ordering::Relaxed)).filter(|&slots| slots < usize::MAX)
    }

    pub(super) fn set_enough(&self, slots: Option<usize>) {
        let slots = slots.unwrap_or(usize::MAX);
        self.enough.store(slots, Ordering::Relaxed);
    }

    /// For tests: other numbers of slots and of tasks of a message, at random.
    pub(super) fn shuffle(&self, seed: u64) {
        let random = random(seed, self.messages().0);
        let (present, _) = self.counts();
        self.set_limit(1 + (random >> 32) as usize % present);
        self.set_batch_tasks((random % MAX_SHUFFLED_BATCH) as usize);
    }

    /// A message with results of tasks.
    pub(super) fn add_message(&self, tasks: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.tasks.fetch_add(tasks as u64, Ordering::Relaxed);
    }

    /// Messages and their tasks so far.
    pub(super) fn messages(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.messages), load(&self.tasks))
    }

    /// Messages until a window ends: at least as many as are in flight, so that what was sent before a change is answered
    /// within the next window.
    pub(super) fn window_messages(&self) -> u64 {
        let (_, used) = self.counts();
        (BATCHES_IN_FLIGHT * used).max(MIN_WINDOW_MESSAGES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(slots: &ActiveSlots) -> Vec<usize> {
        let joined = slots.lock().joined;
        (0..joined)
            .filter(|number| !slots.lock().left.contains(number) && slots.is_active(*number))
            .collect()
    }

    #[test]
    fn the_next_slot_takes_the_place_of_one_that_leaves() {
        let slots = ActiveSlots::new(4);
        (0..4).for_each(|_| slots.join());
        slots.set_limit(2);
        assert_eq!((active(&slots), slots.counts()), (vec![0, 1], (4, 2)));
        slots.leave(0);
        assert_eq!((active(&slots), slots.counts()), (vec![1, 2], (3, 2)));
        slots.leave(2);
        slots.leave(2);
        assert_eq!((active(&slots), slots.counts()), (vec![1, 3], (2, 2)));
        slots.join();
        assert_eq!((active(&slots), slots.counts()), (vec![1, 3], (3, 2)));
    }

    #[test]
    fn a_later_slot_that_joins_first_is_not_used() {
        let slots = ActiveSlots::new(3);
        slots.set_limit(2);
        // Slot 2; the threads of 0 and 1 start later.
        slots.join();
        assert!(!slots.is_active(2));
        assert!(slots.is_active(0) && slots.is_active(1));
    }

    #[test]
    fn slots_that_never_join_do_not_count_for_ever() {
        let mut slots = ActiveSlots::new(4);
        (0..3).for_each(|_| slots.join());
        assert_eq!((slots.counts(), slots.are_joining()), ((4, 4), true));
        slots.begun = Instant::now().checked_sub(JOIN_TIME).unwrap();
        assert_eq!((slots.counts(), slots.are_joining()), ((3, 3), false));
        slots.set_limit(3);
        slots.join();
        assert_eq!((active(&slots), slots.counts()), (vec![0, 1, 2, 3], (4, 4)));
        slots.leave(0);
        assert_eq!(slots.counts(), (3, 3));
    }

    #[test]
    fn with_all_slots_in_use_those_that_join_are_used_too() {
        let slots = ActiveSlots::new(2);
        // None has joined yet.
        assert_eq!((slots.counts(), slots.are_joining()), ((2, 2), true));
        slots.set_limit(2);
        (0..3).for_each(|_| slots.join());
        assert!(!slots.are_joining());
        assert_eq!((active(&slots), slots.counts()), (vec![0, 1, 2], (3, 3)));
        slots.set_limit(0);
        assert_eq!(active(&slots), [0]);
    }

    #[test]
    fn a_slot_waits_until_it_is_used() {
        let slots = ActiveSlots::new(2);
        (0..2).for_each(|_| slots.join());
        slots.set_limit(1);
        slots.wait(1, Duration::from_millis(1));
        assert!(!slots.is_active(1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| slots.wait(1, Duration::from_secs(600)));
            slots.leave(0);
            waiting.join().unwrap();
        });
        assert!(slots.is_active(1));
    }
}
