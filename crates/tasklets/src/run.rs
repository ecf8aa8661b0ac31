//! Tasklets on threads: one lock for the roster, whoever is free asks it.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crate::desk::{Behind, Desk};
use crate::error::{Cause, TaskletError};
use crate::executor::{Around, Options};
use crate::roster::Roster;
use crate::sync::{Condvar, Mutex, PoisonError};

/// Between two looks around of the calling thread.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// What tasklets do, by their numbers.
pub(crate) trait Work: Sync {
    /// Does a tasklet.
    fn run(&self, tasklet: usize, worker: usize) -> Result<(), Cause>;
    /// Nobody needs a tasklet's scratch any more.
    fn release(&self, tasklet: usize) -> Result<(), TaskletError>;
    /// Makes durable what tasklets wrote that are done.
    fn keep(&self, done: &[usize]) -> Result<(), TaskletError>;
    /// Asks for a tasklet's inputs to be read; of how many bytes.
    fn prefetch(&self, tasklet: usize) -> u64;
    /// How much a tasklet counts for progress.
    fn weight(&self, tasklet: usize) -> u64;
    /// The caller wants the run to end: long work should end soon.
    fn interrupt(&self);
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Tasklets that are over, those kept from an earlier run included.
    pub tasklets: usize,
    /// All tasklets.
    pub total_tasklets: usize,
    /// Bytes that those which were run had to read and write.
    pub bytes: u64,
    /// Bytes of all that are to be run.
    pub total_bytes: u64,
}

/// Who did a tasklet, and when: since the beginning of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The tasklet's number.
    pub tasklet: usize,
    /// The worker's.
    pub worker: usize,
    /// When it began.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
}

/// What a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Worker {
    /// Tasklets that it ran.
    pub tasklets: usize,
    /// How long it ran them.
    pub busy: Duration,
    /// How long it waited because nothing could begin.
    pub waited: Duration,
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) roster: Roster,
    pub(crate) visits: Vec<Visit>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) failures: Vec<(usize, Cause)>,
    pub(crate) prefetched: u64,
    pub(crate) interrupted: bool,
    pub(crate) elapsed: Duration,
    /// What ended the run as a whole.
    pub(crate) fatal: Option<TaskletError>,
}

/// What is behind the roster's lock besides.
#[derive(Default)]
struct Shared {
    visits: Vec<Visit>,
    workers: Vec<Worker>,
    failures: Vec<(usize, Cause)>,
    finished: Vec<usize>,
    bytes: u64,
    /// Places up to which tasklets have begun, or were passed over.
    begun: usize,
    active: usize,
    over: bool,
    interrupted: bool,
    fatal: Option<TaskletError>,
}

struct Run<'a> {
    work: &'a dyn Work,
    desk: Desk<Shared>,
    /// A tasklet began, or the run is over.
    began: Condvar,
    start: Instant,
    options: &'a Options,
    prefetched: Mutex<u64>,
}

/// Runs what a roster holds; `watch` says whether to go on.
pub(crate) fn run(
    roster: Roster,
    work: &dyn Work,
    options: &Options,
    around: Option<Around>,
    watch: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Ran, TaskletError> {
    let workers = options.workers;
    let total_bytes = roster
        .serial()
        .tasklets
        .iter()
        .map(|at| work.weight(*at))
        .sum();
    let run = Run {
        work,
        desk: Desk::new(
            roster,
            Shared {
                workers: vec![Worker::default(); workers],
                ..Shared::default()
            },
        ),
        began: Condvar::new(),
        start: Instant::now(),
        options,
        prefetched: Mutex::new(0),
    };
    let spawned = thread::scope(|scope| {
        let mut outcome = Ok(());
        for worker in 0..workers {
            run.desk.lock().more.active += 1;
            let run = &run;
            let named = thread::Builder::new().name(format!("tasklets {worker}"));
            if let Err(source) = named.spawn_scoped(scope, move || run.inside(around, worker)) {
                run.desk.stop(|behind| behind.more.active -= 1);
                outcome = Err(TaskletError::Thread { worker, source });
                break;
            }
        }
        if outcome.is_ok() && options.prefetch > 0 {
            // Without it the run is slower, and nothing else.
            let named = thread::Builder::new().name("tasklets ahead".into());
            let _ = named.spawn_scoped(scope, || run.ahead());
        }
        run.attend(total_bytes, watch);
        outcome
    });
    spawned?;
    let prefetched = run.prefetched.lock();
    let prefetched = *prefetched.unwrap_or_else(PoisonError::into_inner);
    let mut behind = run.desk.lock();
    let shared = std::mem::take(&mut behind.more);
    Ok(Ran {
        roster: behind.roster.clone(),
        visits: shared.visits,
        workers: shared.workers,
        failures: shared.failures,
        prefetched,
        interrupted: shared.interrupted,
        elapsed: run.start.elapsed(),
        fatal: shared.fatal,
    })
}

impl Run<'_> {
    fn inside(&self, around: Option<Around>, worker: usize) {
        let _leaves = Leaves(self);
        match around {
            Some(around) => around(&mut || self.worker(worker)),
            None => self.worker(worker),
        }
    }

    fn worker(&self, worker: usize) {
        let mut waits = Instant::now();
        let begins = |behind: &mut Behind<Shared>, tasklet: usize| {
            let place = behind.roster.serial().place[tasklet];
            behind.more.begun = behind.more.begun.max(place + 1);
            self.began.notify_all();
        };
        while let Some(tasklet) = self.desk.take(begins) {
            let start = Instant::now();
            let done = catch_unwind(AssertUnwindSafe(|| self.work.run(tasklet, worker)));
            let done = done.unwrap_or_else(|panic| Err(panicked(&*panic).into()));
            let end = Instant::now();
            self.desk.end(tasklet, done.is_ok(), |behind, released| {
                let shared = &mut behind.more;
                shared.visits.push(Visit {
                    tasklet,
                    worker,
                    start: start - self.start,
                    end: end - self.start,
                });
                let own = &mut shared.workers[worker];
                own.tasklets += 1;
                own.waited += start - waits;
                own.busy += end - start;
                shared.bytes += self.work.weight(tasklet);
                match done {
                    Ok(()) => shared.finished.push(tasklet),
                    Err(why) => {
                        shared.failures.push((tasklet, why));
                        if !self.options.keep_going {
                            behind.roster.stop();
                        }
                    }
                }
                for tasklet in released {
                    if let Err(error) = self.work.release(tasklet) {
                        behind.roster.stop();
                        shared.fatal.get_or_insert(error);
                    }
                }
            });
            waits = end;
        }
        self.desk.lock().more.workers[worker].waited += waits.elapsed();
    }

    /// The calling thread: looks around, and makes durable what is finished, until all workers have gone home.
    fn attend(&self, total_bytes: u64, watch: &mut dyn FnMut(&Progress) -> bool) {
        let mut kept = Instant::now();
        loop {
            let mut behind = self.desk.lock();
            let over = behind.more.active == 0;
            let due = over || kept.elapsed() >= self.options.keep_every;
            let finished = if due {
                std::mem::take(&mut behind.more.finished)
            } else {
                Vec::new()
            };
            let (tasklets, total_tasklets) = behind.roster.progress();
            let progress = Progress {
                tasklets,
                total_tasklets,
                bytes: behind.more.bytes,
                total_bytes,
            };
            let interrupted = behind.more.interrupted;
            drop(behind);
            if due {
                if !finished.is_empty()
                    && let Err(error) = self.work.keep(&finished)
                {
                    self.desk
                        .stop(|behind| _ = behind.more.fatal.get_or_insert(error));
                }
                kept = Instant::now();
            }
            if over {
                break;
            }
            if !interrupted && !watch(&progress) {
                self.desk.stop(|behind| behind.more.interrupted = true);
                self.work.interrupt();
            }
            let behind = self.desk.lock();
            if behind.more.active > 0 {
                drop(self.desk.ended.wait_timeout(behind, LOOK_EVERY));
            }
        }
        self.desk.lock().more.over = true;
        self.began.notify_all();
    }

    /// The prefetcher: asks for the inputs of tasklets behind those that have begun, in order, but for no more once so many
    /// bytes are asked for that nobody has begun to use.
    fn ahead(&self) {
        let mut asked: VecDeque<(usize, u64)> = VecDeque::new();
        let (mut next, mut waiting) = (0, 0);
        let mut behind = self.desk.lock();
        while !behind.more.over {
            let begun = behind.more.begun;
            while let Some((_, bytes)) = asked.front().filter(|(place, _)| *place < begun) {
                waiting -= bytes;
                asked.pop_front();
            }
            next = next.max(begun);
            let Some(tasklet) = behind.roster.serial().tasklets.get(next).copied() else {
                break;
            };
            if waiting > 0 && waiting >= self.options.prefetch {
                behind = (self.began.wait(behind)).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(behind);
            let bytes = self.work.prefetch(tasklet);
            asked.push_back((next, bytes));
            waiting += bytes;
            next += 1;
            *self
                .prefetched
                .lock()
                .unwrap_or_else(PoisonError::into_inner) += bytes;
            behind = self.desk.lock();
        }
    }
}

/// A worker goes home, be it by a panic: nobody waits for it. The scope of the threads hands on the panic.
struct Leaves<'a, 'b>(&'a Run<'b>);

impl Drop for Leaves<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.desk.stop(|_| ());
        }
        self.0.desk.lock().more.active -= 1;
        self.0.desk.ended.notify_all();
    }
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("with no message"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::graph::{Graph, Spec};
    use crate::order::{Order, Serial};

    /// Tasklets of ten bytes; the first lasts until the prefetcher has come to rest.
    struct Reading {
        asked: AtomicU64,
        behind: AtomicU64,
    }

    impl Work for Reading {
        fn run(&self, tasklet: usize, _worker: usize) -> Result<(), Cause> {
            let patience = Instant::now() + Duration::from_secs(20);
            while tasklet == 0 && self.asked.load(Ordering::SeqCst) < 3 && Instant::now() < patience
            {
                thread::sleep(Duration::from_millis(1));
            }
            if tasklet == 0 {
                thread::sleep(Duration::from_millis(20));
                self.behind
                    .store(self.asked.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            Ok(())
        }
        fn release(&self, _tasklet: usize) -> Result<(), TaskletError> {
            Ok(())
        }
        fn keep(&self, _done: &[usize]) -> Result<(), TaskletError> {
            Ok(())
        }
        fn prefetch(&self, _tasklet: usize) -> u64 {
            self.asked.fetch_add(1, Ordering::SeqCst);
            10
        }
        fn weight(&self, _tasklet: usize) -> u64 {
            10
        }
        fn interrupt(&self) {}
    }

    #[test]
    fn no_more_is_read_ahead_than_was_allowed() {
        let spec = |name: usize| Spec {
            name: name.to_string(),
            ..Spec::default()
        };
        let specs: Vec<Spec> = (0..50).map(spec).collect();
        let graph = Graph::new(&[], &specs).unwrap();
        let serial = Serial::new(&graph, &[false; 50], Order::Given, 0).unwrap();
        let options = Options {
            prefetch: 25,
            ..Options::default()
        };
        let work = Reading {
            asked: AtomicU64::new(0),
            behind: AtomicU64::new(0),
        };
        let roster = Roster::new(graph, serial, 0);
        let ran = run(roster, &work, &options, None, &mut |_| true).unwrap();
        // Three behind the first, and the first itself if the prefetcher came before the worker.
        let asked = work.behind.load(Ordering::SeqCst);
        assert!((3..=4).contains(&asked), "{asked} tasklets were read ahead");
        assert!(ran.prefetched <= 500 && ran.visits.len() == 50);
    }
}
