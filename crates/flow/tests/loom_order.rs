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

/// What `order` finds as `super::queue`.
#[allow(dead_code)]
#[path = "../src/parallel/queue.rs"]
mod queue;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use order::{Order, Seat};
use queue::{Cut, Gave, Given};

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

/// A part's number, and if it failed, whether that matters.
struct Done(u64, Option<bool>);

impl Gave for Done {
    type Error = (u64, bool);

    fn bytes(&self) -> u64 {
        1
    }

    fn has_failed(&self) -> bool {
        self.1.is_some()
    }

    fn matters(error: &(u64, bool)) -> bool {
        error.1
    }

    fn take_error(&mut self) -> Option<(u64, bool)> {
        Some((self.0, self.1.take()?))
    }
}

type Model = Order<Parts, Done>;

/// What a worker does, as `worker::work` has it; counts the tasks under way and those done.
fn work(order: &Model, fails: Option<u64>, done: &AtomicU64) {
    let mut seat = Seat::default();
    while let Some(task) = order.take(&mut seat, || ()) {
        done.fetch_add(1 << (8 * task.portion), Ordering::SeqCst);
        let failed = (fails == Some(task.portion)).then_some(true);
        order.give(&task, Done(task.portion, failed));
    }
}

/// How what the run takes of a front ends: with an error, or as a worker is gone.
type Ended = Result<(), Option<(u64, bool)>>;

/// What the run takes of a front until its end.
fn gathered(order: &Model, front: usize) -> (Vec<u64>, Ended) {
    let mut all = Vec::new();
    loop {
        match order.next(front) {
            Given::Parcel(done) => all.push(done.0),
            Given::NotYet => thread::yield_now(),
            Given::End => return (all, Ok(())),
            Given::Failed(error) => return (all, Err(error)),
        }
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    within(2, check);
}

fn within(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
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
        assert_eq!(gathered(&order, 0), (vec![0, 1, 2], Ok(())));
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
        assert_eq!(gathered(&order, 1), (vec![0], Ok(())));
        assert_eq!(gathered(&order, 0), (vec![0, 1], Ok(())));
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
        let failed = Err(Some((1, true)));
        assert_eq!(gathered(&order, 0), (vec![0, 1], failed));
        order.stop();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn a_part_that_failed_with_what_matters_to_nobody_is_done_again_and_all_behind_it_is_done() {
    // In the midst, and at the end, where there is nothing else to do meanwhile.
    for fails in [0, 1] {
        model(move || {
            let order = Arc::new(Model::new(vec![Parts(2)], 2, 100));
            let failed = Arc::new(AtomicU64::new(0));
            let workers = [(); 2].map(|()| {
                let (order, failed) = (order.clone(), failed.clone());
                thread::spawn(move || {
                    let mut seat = Seat::default();
                    while let Some(task) = order.take(&mut seat, || ()) {
                        let first =
                            task.portion == fails && failed.fetch_add(1, Ordering::SeqCst) == 0;
                        order.give(&task, Done(task.portion, first.then_some(false)));
                    }
                    order.leave(&seat);
                })
            });
            let all = if fails == 0 {
                vec![0, 0, 1]
            } else {
                vec![0, 1, 1]
            };
            assert_eq!(gathered(&order, 0), (all, Ok(())));
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }
}

#[test]
fn nobody_waits_for_a_worker_that_is_gone_or_for_work_that_nobody_wants() {
    model(|| {
        let order = Arc::new(Model::new(vec![Parts(3)], 1, 100));
        let done = Arc::new(AtomicU64::new(0));
        let lost = {
            let order = order.clone();
            thread::spawn(move || {
                let took = order.take(&mut Seat::default(), || ()).is_some();
                if took {
                    order.lose();
                }
                took
            })
        };
        let worker = begin(&order, None, &done);
        let (all, ended) = gathered(&order, 0);
        order.stop();
        assert_eq!(lost.join().unwrap(), ended.is_err());
        assert_eq!(ended.is_ok(), all.len() == 3);
        worker.join().unwrap();
    });
}

/// A worker that gets memory for a part only where it is alone.
fn work_alone(order: &Model) {
    let mut seat = Seat::default();
    while let Some(task) = order.take(&mut seat, || ()) {
        if task.alone {
            order.give(&task, Done(task.portion, None));
        } else {
            assert!(order.put_back(&task), "only what is alone has all there is");
        }
    }
    order.leave(&seat);
}

#[test]
fn what_needs_all_memory_is_done_alone_and_all_of_it_in_order() {
    // Two workers give back and tidy up many times: with two preemptions that takes ten seconds.
    within(1, || {
        let order = Arc::new(Model::new(vec![Parts(2)], 2, 100));
        let workers = [(); 2].map(|()| {
            let order = order.clone();
            thread::spawn(move || work_alone(&order))
        });
        assert_eq!(gathered(&order, 0), (vec![0, 1], Ok(())));
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn the_run_gets_memory_when_nobody_works_and_all_is_done_in_the_end() {
    model(|| {
        let order = Arc::new(Model::new(vec![Parts(2)], 2, 100));
        let under_way = Arc::new(AtomicU64::new(0));
        let worker = {
            let (order, under_way) = (order.clone(), under_way.clone());
            thread::spawn(move || {
                let mut seat = Seat::default();
                while let Some(task) = order.take(&mut seat, || ()) {
                    under_way.fetch_add(1, Ordering::SeqCst);
                    under_way.fetch_sub(1, Ordering::SeqCst);
                    order.give(&task, Done(task.portion, None));
                }
                order.leave(&seat);
            })
        };
        order.make_room();
        assert_eq!(under_way.load(Ordering::SeqCst), 0);
        order.go_on();
        assert_eq!(gathered(&order, 0), (vec![0, 1], Ok(())));
        worker.join().unwrap();
    });
}
