//! Every interleaving of a few workers with at most two preemptions: no worker beyond the limit passes, a raised limit
//! lets it pass, and all workers end once the gate is open.

/// What `worker_gate` finds as `crate::sync`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[allow(unreachable_pub)] // Public in the crate.
#[path = "../src/worker_gate.rs"]
mod worker_gate;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use worker_gate::WorkerGate;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// The first that finds no work opens the gate.
fn worker(gate: &WorkerGate, left: &AtomicUsize, number: usize) -> usize {
    let mut taken = 0;
    loop {
        gate.pass(number);
        let took = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        if took.is_err() {
            gate.open();
            return taken;
        }
        taken += 1;
    }
}

#[test]
fn workers_beyond_the_limit_take_nothing_and_end() {
    check(|| {
        let gate = Arc::new(WorkerGate::new(1));
        let left = Arc::new(AtomicUsize::new(2));
        let (other_gate, other_left) = (Arc::clone(&gate), Arc::clone(&left));
        let idle = thread::spawn(move || worker(&other_gate, &other_left, 1));
        assert_eq!(worker(&gate, &left, 0), 2);
        assert_eq!(idle.join().unwrap(), 0);
    });
}

#[test]
fn a_limit_that_changes_meanwhile_loses_no_work_and_no_worker() {
    check(|| {
        let gate = Arc::new(WorkerGate::new(1));
        let left = Arc::new(AtomicUsize::new(2));
        let workers: Vec<_> = (0..2)
            .map(|number| {
                let (gate, left) = (Arc::clone(&gate), Arc::clone(&left));
                thread::spawn(move || worker(&gate, &left, number))
            })
            .collect();
        gate.set_limit(2);
        gate.set_limit(1);
        let taken: usize = workers.into_iter().map(|one| one.join().unwrap()).sum();
        assert_eq!(taken, 2);
        // It stays open for late workers, too.
        gate.pass(7);
    });
}
