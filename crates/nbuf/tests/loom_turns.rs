//! Checks `TurnLock` under every interleaving of a few threads with at most two preemptions. loom reports deadlocks.

mod sync {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[path = "../src/turns.rs"]
mod turns;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::thread;

use turns::TurnLock;

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Free,
    Queue,
    Ordered,
}

struct Model {
    read: TurnLock,
    execute: TurnLock,
    write: TurnLock,
    next: AtomicU64,
    buffers: u64,
    inside: [AtomicUsize; 3],
    /// Buffers that passed a stage, a digit each.
    passed: [AtomicU64; 3],
}

impl Model {
    fn new(workers: usize, buffers: u64) -> Self {
        Self {
            read: TurnLock::new(workers),
            execute: TurnLock::new(workers),
            write: TurnLock::new(workers),
            next: AtomicU64::new(0),
            buffers,
            inside: [(); 3].map(|()| AtomicUsize::new(0)),
            passed: [(); 3].map(|()| AtomicU64::new(0)),
        }
    }

    fn stop(&self, from: u64) {
        for lock in [&self.read, &self.execute, &self.write] {
            lock.stop(from);
        }
    }

    /// Fails if another buffer is in the stage.
    fn pass(&self, stage: usize, buffer: u64) {
        assert_eq!(
            self.inside[stage].fetch_add(1, Ordering::SeqCst),
            0,
            "two are inside"
        );
        let passed = self.passed[stage].load(Ordering::SeqCst);
        self.passed[stage].store(passed * 10 + buffer + 1, Ordering::SeqCst);
        self.inside[stage].fetch_sub(1, Ordering::SeqCst);
    }

    fn enter(lock: &TurnLock, stage: Stage, buffer: u64) -> Option<turns::Turn<'_>> {
        match stage {
            Stage::Free => None,
            Stage::Queue => lock.acquire_on_arrival(Some(buffer)),
            Stage::Ordered => lock.acquire_in_order(buffer),
        }
    }

    /// As in `worker`. The buffer `fails` cannot be executed.
    fn work(&self, execute: Stage, write: Stage, fails: Option<u64>) {
        loop {
            let buffer = {
                let Some(_turn) = self.read.acquire_on_arrival(None) else {
                    return;
                };
                let buffer = self.next.load(Ordering::SeqCst);
                if buffer == self.buffers {
                    return;
                }
                self.next.store(buffer + 1, Ordering::SeqCst);
                self.pass(0, buffer);
                buffer
            };
            {
                let turn = Self::enter(&self.execute, execute, buffer);
                if execute != Stage::Free {
                    if turn.is_none() {
                        return;
                    }
                    self.pass(1, buffer);
                }
                if fails == Some(buffer) {
                    // Before the turn is passed on.
                    self.stop(buffer);
                    return;
                }
            }
            let Some(_turn) = Self::enter(&self.write, write, buffer) else {
                return;
            };
            self.pass(2, buffer);
        }
    }
}

fn check(workers: usize, buffers: u64, execute: Stage, write: Stage, fails: Option<u64>) {
    let mut builder = loom::model::Builder::new();
    // Most errors need few preemptions; more take far longer.
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let model = Arc::new(Model::new(workers, buffers));
        let others: Vec<_> = (1..workers)
            .map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.work(execute, write, fails))
            })
            .collect();
        model.work(execute, write, fails);
        for other in others {
            other.join().expect("no worker panics");
        }
        let digits = |count: u64| (1..=count).fold(0, |all, digit| all * 10 + digit);
        let read = model.passed[0].load(Ordering::SeqCst);
        let executed = model.passed[1].load(Ordering::SeqCst);
        let written = model.passed[2].load(Ordering::SeqCst);
        let Some(failed) = fails else {
            assert_eq!(read, digits(buffers));
            if execute == Stage::Ordered {
                assert_eq!(executed, digits(buffers));
            }
            if write == Stage::Ordered {
                assert_eq!(written, digits(buffers));
            } else {
                let mut seen: Vec<_> = written.to_string().into_bytes();
                seen.sort_unstable();
                assert_eq!(seen, digits(buffers).to_string().into_bytes());
            }
            return;
        };
        // Buffers before the error are written.
        if execute == Stage::Ordered {
            assert_eq!(executed, digits(failed + 1));
        }
        if write == Stage::Ordered {
            assert_eq!(written, digits(failed));
        }
    });
}

/// Two workers arrive while the lock is held; then its holder arrives again, behind both.
#[test]
fn serves_waiting_workers_in_the_order_of_arrival() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let lock = Arc::new(TurnLock::new(3));
        let served = Arc::new(AtomicU64::new(0));
        let serve = |lock: &TurnLock, served: &AtomicU64, who: u64| {
            let _turn = lock.acquire_on_arrival(None).expect("it is not stopped");
            let before = served.load(Ordering::SeqCst);
            served.store(before * 10 + who, Ordering::SeqCst);
        };
        let inside = lock.acquire_on_arrival(None).expect("it is not stopped");
        let others: Vec<_> = (1..=2)
            .map(|who| {
                let (theirs, noted) = (Arc::clone(&lock), Arc::clone(&served));
                let other = thread::spawn(move || serve(&theirs, &noted, who));
                while lock.arrivals() <= who {
                    thread::yield_now();
                }
                other
            })
            .collect();
        drop(inside);
        serve(&lock, &served, 3);
        for other in others {
            other.join().expect("no worker panics");
        }
        assert_eq!(served.load(Ordering::SeqCst), 123, "somebody was overtaken");
    });
}

#[test]
fn no_order_serves_every_buffer_once() {
    check(3, 2, Stage::Free, Stage::Queue, None);
    check(2, 4, Stage::Free, Stage::Queue, None);
}

#[test]
fn ordered_output_is_written_in_order() {
    check(3, 2, Stage::Free, Stage::Ordered, None);
    check(2, 4, Stage::Free, Stage::Ordered, None);
}

#[test]
fn ordered_execution_takes_turns() {
    check(3, 2, Stage::Ordered, Stage::Queue, None);
    check(2, 4, Stage::Ordered, Stage::Queue, None);
}

#[test]
fn both_orders_hold_together() {
    check(3, 2, Stage::Ordered, Stage::Ordered, None);
    check(2, 4, Stage::Ordered, Stage::Ordered, None);
}

#[test]
fn after_an_error_all_threads_end_and_earlier_buffers_are_written() {
    for execute in [Stage::Free, Stage::Ordered] {
        for write in [Stage::Queue, Stage::Ordered] {
            check(2, 3, execute, write, Some(1));
            check(3, 2, execute, write, Some(0));
        }
    }
}
