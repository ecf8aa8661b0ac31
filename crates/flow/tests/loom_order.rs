//! Who does what next in a run on several cores, under every interleaving of a few threads with at most two preemptions:
//! each part is done once, results come in order, memory is kept to, and all end. loom reports a deadlock itself, and
//! knows no timeouts: who waits must be woken.

/// What `order` finds as `super::sync`.
mod sync {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[allow(dead_code)]
#[path = "../src/parallel/order.rs"]
mod order;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use order::{Cut, Gave, Given, Order};

/// So many parts, counted from 0 on.
struct Parts(u64);

impl Cut for Parts {
    type Part = u64;

    fn after(&self, last: Option<&u64>) -> Option<u64> {
        let next = last.map_or(0, |last| last + 1);
        (next < self.0).then_some(next)
    }

    fn bytes(&self) -> u64 {
        1
    }
}

/// A part's number, and whether it failed.
struct Done(u64, bool);

impl Gave for Done {
    type Error = u64;

    fn bytes(&self) -> u64 {
        1
    }

    fn has_failed(&self) -> bool {
        self.1
    }

    fn take_error(&mut self) -> Option<u64> {
        std::mem::take(&mut self.1).then_some(self.0)
    }
}

type Model = Order<Parts, Done>;

/// What a worker does, as `worker::work` has it; counts the tasks under way and those done.
fn work(order: &Model, fails: Option<u64>, done: &AtomicU64) {
    while let Some(task) = order.take() {
        done.fetch_add(1 << (8 * task.portion), Ordering::SeqCst);
        let failed = fails == Some(task.portion);
        order.give(&task, Done(task.portion, failed));
    }
}

/// What the run takes of a front until its end or an error.
fn gathered(order: &Model, front: usize) -> (Vec<u64>, bool) {
    let mut all = Vec::new();
    loop {
        match order.next(front) {
            Given::Parcel(done) => all.push(done.0),
            Given::NotYet => thread::yield_now(),
            Given::End => return (all, true),
            Given::Failed => return (all, false),
        }
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(check);
}

fn begin(order: &Arc<Model>, fails: Option<u64>, done: &Arc<AtomicU64>) -> thread::JoinHandle<()> {
    let (order, done) = (order.clone(), done.clone());
    thread::spawn(move || work(&order, fails, &done))
}

#[test]
fn each_part_is_done_once_and_comes_in_order() {
    model(|| {
        let order = Arc::new(Model::new(vec![Parts(3)], 2, 100));
        let done = Arc::new(AtomicU64::new(0));
        let workers = [(); 2].map(|()| begin(&order, None, &done));
        assert_eq!(gathered(&order, 0), (vec![0, 1, 2], true));
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(done.load(Ordering::SeqCst), 0x01_01_01);
    });
}

#[test]
fn without_memory_to_wait_in_all_is_done_one_by_one() {
    model(|| {
        let order = Arc::new(Model::new(vec![Parts(2), Parts(1)], 3, 0));
        let done = Arc::new(AtomicU64::new(0));
        let worker = begin(&order, None, &done);
        // Whichever is asked for first.
        assert_eq!(gathered(&order, 1), (vec![0], true));
        assert_eq!(gathered(&order, 0), (vec![0, 1], true));
        worker.join().unwrap();
    });
}

#[test]
fn behind_a_failed_part_nothing_comes_and_its_error_is_the_run_s() {
    model(|| {
        let order = Arc::new(Model::new(vec![Parts(3)], 2, 100));
        let done = Arc::new(AtomicU64::new(0));
        let workers = [(); 2].map(|()| begin(&order, Some(1), &done));
        // The part itself is handed over, up to where it failed.
        assert_eq!(gathered(&order, 0), (vec![0, 1], false));
        assert_eq!(order.take_error(), Some(1));
        order.stop();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn nobody_waits_for_a_worker_that_is_gone_or_for_work_that_nobody_wants() {
    model(|| {
        let order = Arc::new(Model::new(vec![Parts(3)], 1, 100));
        let done = Arc::new(AtomicU64::new(0));
        let lost = {
            let order = order.clone();
            thread::spawn(move || {
                let took = order.take().is_some();
                if took {
                    order.lose();
                }
                took
            })
        };
        let worker = begin(&order, None, &done);
        let (all, ended) = gathered(&order, 0);
        order.stop();
        assert_eq!(lost.join().unwrap(), !ended);
        assert_eq!(ended, all.len() == 3);
        worker.join().unwrap();
    });
}
