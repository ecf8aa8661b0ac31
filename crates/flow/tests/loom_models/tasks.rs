//! The task scheduler under every interleaving of a few threads with at most two preemptions: each part is processed
//! once, results come in order, the memory bound holds, and all threads end. loom ignores timeouts, so every waiting
//! thread must be woken.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::reorder::{Registration, ReorderScheduler};
use crate::task_queue::{NextResult, Partitioner, TaskResult};

/// Number of parts, in all and of a task.
struct Parts(u64, usize);

impl Partitioner for Parts {
    type Part = u64;

    fn part_after(&self, last: Option<&u64>, _: u64) -> Option<u64> {
        let next = last.map_or(0, |last| last + 1);
        (next < self.0).then_some(next)
    }

    fn parts_per_task(&self, _: u64) -> usize {
        self.1
    }

    fn bytes(&self) -> u64 {
        1
    }
}

/// Part number, and whether its error is relevant; None: no failure.
struct Done(u64, Option<bool>);

impl TaskResult for Done {
    type Error = (u64, bool);

    fn bytes(&self) -> u64 {
        1
    }

    fn has_failed(&self) -> bool {
        self.1.is_some()
    }

    fn is_relevant(error: &(u64, bool)) -> bool {
        error.1
    }

    fn take_error(&mut self) -> Option<(u64, bool)> {
        Some((self.0, self.1.take()?))
    }
}

type Model = ReorderScheduler<Parts, Done>;

/// Counts processed parts, eight bits each.
fn work(scheduler: &Model, fails: Option<u64>, done: &AtomicU64) {
    let mut registration = Registration::default();
    while let Some(task) = scheduler.next_task(&mut registration, || ()) {
        done.fetch_add(1 << (8 * task.part), Ordering::SeqCst);
        let failed = (fails == Some(task.part)).then_some(true);
        scheduler.complete(&task, Done(task.part, failed));
    }
}

type Ended = Result<(), Option<(u64, bool)>>;

fn gathered(scheduler: &Model, subgraph: usize) -> (Vec<u64>, Ended) {
    let mut all = Vec::new();
    loop {
        match scheduler.next_result(subgraph) {
            NextResult::Ready(done) => all.push(done.0),
            NextResult::Pending => thread::yield_now(),
            NextResult::End => return (all, Ok(())),
            NextResult::Failed(error) => return (all, Err(error)),
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

fn begin(
    scheduler: &Arc<Model>,
    fails: Option<u64>,
    done: &Arc<AtomicU64>,
) -> thread::JoinHandle<()> {
    let (scheduler, done) = (scheduler.clone(), done.clone());
    thread::spawn(move || work(&scheduler, fails, &done))
}

#[test]
fn each_part_is_done_once_and_comes_in_order() {
    model(|| {
        let scheduler = Arc::new(Model::new(vec![Parts(3, 1)], 2, 100));
        let done = Arc::new(AtomicU64::new(0));
        let workers = [(); 2].map(|()| begin(&scheduler, None, &done));
        assert_eq!(gathered(&scheduler, 0), (vec![0, 1, 2], Ok(())));
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(done.load(Ordering::SeqCst), 0x01_01_01);
    });
}

#[test]
fn without_memory_to_wait_in_all_is_done_one_by_one() {
    model(|| {
        let scheduler = Arc::new(Model::new(vec![Parts(2, 1), Parts(1, 1)], 3, 0));
        let done = Arc::new(AtomicU64::new(0));
        let worker = begin(&scheduler, None, &done);
        assert_eq!(gathered(&scheduler, 1), (vec![0], Ok(())));
        assert_eq!(gathered(&scheduler, 0), (vec![0, 1], Ok(())));
        worker.join().unwrap();
    });
}

#[test]
fn behind_a_failed_part_nothing_comes_and_its_error_is_the_run_s() {
    model(|| {
        let scheduler = Arc::new(Model::new(vec![Parts(3, 1)], 2, 100));
        let done = Arc::new(AtomicU64::new(0));
        let workers = [(); 2].map(|()| begin(&scheduler, Some(1), &done));
        // The failed part's own result is delivered, up to the error.
        let failed = Err(Some((1, true)));
        assert_eq!(gathered(&scheduler, 0), (vec![0, 1], failed));
        scheduler.stop();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn a_part_that_failed_with_what_matters_to_nobody_is_done_again_and_all_behind_it_is_done() {
    for fails in [0, 1] {
        model(move || {
            let scheduler = Arc::new(Model::new(vec![Parts(2, 1)], 2, 100));
            let failed = Arc::new(AtomicU64::new(0));
            let workers = [(); 2].map(|()| {
                let (scheduler, failed) = (scheduler.clone(), failed.clone());
                thread::spawn(move || {
                    let mut registration = Registration::default();
                    while let Some(task) = scheduler.next_task(&mut registration, || ()) {
                        let first =
                            task.part == fails && failed.fetch_add(1, Ordering::SeqCst) == 0;
                        scheduler.complete(&task, Done(task.part, first.then_some(false)));
                    }
                    scheduler.unregister(&registration);
                })
            });
            let all = if fails == 0 {
                vec![0, 0, 1]
            } else {
                vec![0, 1, 1]
            };
            assert_eq!(gathered(&scheduler, 0), (all, Ok(())));
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }
}

#[test]
fn nobody_waits_for_a_worker_that_is_gone_or_for_work_that_nobody_wants() {
    model(|| {
        let scheduler = Arc::new(Model::new(vec![Parts(3, 1)], 1, 100));
        let done = Arc::new(AtomicU64::new(0));
        let lost = {
            let scheduler = scheduler.clone();
            thread::spawn(move || {
                let took = scheduler
                    .next_task(&mut Registration::default(), || ())
                    .is_some();
                if took {
                    scheduler.report_lost_worker();
                }
                took
            })
        };
        let worker = begin(&scheduler, None, &done);
        let (all, ended) = gathered(&scheduler, 0);
        scheduler.stop();
        assert_eq!(lost.join().unwrap(), ended.is_err());
        assert_eq!(ended.is_ok(), all.len() == 3);
        worker.join().unwrap();
    });
}

/// Is refused memory unless its task runs alone.
fn work_alone(scheduler: &Model) {
    let mut registration = Registration::default();
    while let Some(task) = scheduler.next_task(&mut registration, || ()) {
        if task.alone {
            scheduler.complete(&task, Done(task.part, None));
        } else {
            assert!(
                scheduler.retry_later(&task),
                "only what is alone has all there is"
            );
        }
    }
    scheduler.unregister(&registration);
}

#[test]
fn what_needs_all_memory_is_done_alone_and_all_of_it_in_order() {
    // Two workers release memory many times: two preemptions would take ten seconds.
    for of_a_task in [1, 2] {
        within(1, move || {
            let scheduler = Arc::new(Model::new(vec![Parts(2, of_a_task)], 2, 100));
            let workers = [(); 2].map(|()| {
                let scheduler = scheduler.clone();
                thread::spawn(move || work_alone(&scheduler))
            });
            assert_eq!(gathered(&scheduler, 0), (vec![0, 1], Ok(())));
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }
}

#[test]
fn a_worker_does_all_parts_of_a_task() {
    model(|| {
        let scheduler = Arc::new(Model::new(vec![Parts(3, 2)], 2, 100));
        let workers = [(); 2].map(|()| {
            let scheduler = scheduler.clone();
            thread::spawn(move || {
                let mut registration = Registration::default();
                let mut done = Vec::new();
                while let Some(task) = scheduler.next_task(&mut registration, || ()) {
                    assert_eq!(task.continues, task.part == 0);
                    scheduler.complete(&task, Done(task.part, None));
                    done.push(task.part);
                }
                done
            })
        });
        assert_eq!(gathered(&scheduler, 0), (vec![0, 1, 2], Ok(())));
        let done = workers.map(|worker| worker.join().unwrap());
        let first = done.iter().find(|done| done.contains(&0)).unwrap();
        assert!(first.starts_with(&[0, 1]), "{done:?}");
    });
}

#[test]
fn one_permitted_worker_ends_its_task_before_another_begins_one() {
    model(|| {
        let scheduler = Arc::new(Model::new(vec![Parts(4, 2)], 2, 100));
        scheduler.set_workers(1);
        let computing = Arc::new(AtomicU64::new(0));
        let workers = [(); 2].map(|()| {
            let (scheduler, computing) = (scheduler.clone(), computing.clone());
            thread::spawn(move || {
                let mut registration = Registration::default();
                let mut is_inside = false;
                while let Some(task) = scheduler.next_task(&mut registration, || ()) {
                    if !is_inside {
                        assert_eq!(computing.fetch_add(1, Ordering::SeqCst), 0);
                    }
                    is_inside = task.continues;
                    if !is_inside {
                        computing.fetch_sub(1, Ordering::SeqCst);
                    }
                    scheduler.complete(&task, Done(task.part, None));
                }
            })
        });
        assert_eq!(gathered(&scheduler, 0), (vec![0, 1, 2, 3], Ok(())));
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn the_run_gets_memory_when_nobody_works_and_all_is_done_in_the_end() {
    for of_a_task in [1, 2] {
        model(move || {
            let scheduler = Arc::new(Model::new(vec![Parts(2, of_a_task)], 2, 100));
            let in_flight = Arc::new(AtomicU64::new(0));
            let worker = {
                let (scheduler, in_flight) = (scheduler.clone(), in_flight.clone());
                thread::spawn(move || {
                    let mut registration = Registration::default();
                    while let Some(task) = scheduler.next_task(&mut registration, || ()) {
                        in_flight.fetch_add(1, Ordering::SeqCst);
                        in_flight.fetch_sub(1, Ordering::SeqCst);
                        scheduler.complete(&task, Done(task.part, None));
                    }
                    scheduler.unregister(&registration);
                })
            };
            scheduler.reclaim_memory();
            assert_eq!(in_flight.load(Ordering::SeqCst), 0);
            scheduler.resume_tasks();
            assert_eq!(gathered(&scheduler, 0), (vec![0, 1], Ok(())));
            worker.join().unwrap();
        });
    }
}

#[test]
fn tasks_get_several_parts_again_after_memory_was_refused_once() {
    // Long, so only with the switches that waiting needs.
    let mut builder = loom::model::Builder::new();
    (builder.preemption_bound, builder.max_branches) = (Some(0), 100_000);
    builder.check(|| {
        let scheduler = Arc::new(Model::new(vec![Parts(60, 2)], 4, 100));
        let worker = {
            let scheduler = scheduler.clone();
            thread::spawn(move || {
                let mut registration = Registration::default();
                let first = scheduler.next_task(&mut registration, || ()).unwrap();
                assert!(first.continues);
                assert!(scheduler.retry_later(&first));
                let mut continued = Vec::new();
                while let Some(task) = scheduler.next_task(&mut registration, || ()) {
                    if task.continues {
                        continued.push(task.part);
                    }
                    scheduler.complete(&task, Done(task.part, None));
                }
                continued
            })
        };
        assert_eq!(gathered(&scheduler, 0), ((0..60).collect(), Ok(())));
        let continued = worker.join().unwrap();
        // First one part at a time, from the worker that runs alone.
        assert!(
            continued.first().is_some_and(|&part| part > 2),
            "{continued:?}"
        );
        assert!(continued.len() > 10, "{continued:?}");
    });
}

#[test]
fn parts_that_a_worker_leaves_are_done_by_others() {
    model(|| {
        let scheduler = Arc::new(Model::new(vec![Parts(3, 3)], 3, 100));
        let mut registration = Registration::default();
        let first = scheduler.next_task(&mut registration, || ()).unwrap();
        assert!(first.continues);
        scheduler.complete(&first, Done(first.part, None));
        scheduler.unregister(&registration);
        let done = Arc::new(AtomicU64::new(0));
        let worker = begin(&scheduler, None, &done);
        assert_eq!(gathered(&scheduler, 0), (vec![0, 1, 2], Ok(())));
        worker.join().unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 0x01_01_00);
    });
}
