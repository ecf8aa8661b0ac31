//! Tasklets on threads: one lock for the roster, whoever is free asks it.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Cause, TaskletError};
use crate::executor::{Around, Options};
use crate::roster::{Next, Roster};

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

struct Shared {
    roster: Roster,
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
    shared: Mutex<Shared>,
    /// A tasklet ended.
    ended: Condvar,
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
        shared: Mutex::new(Shared {
            roster,
            visits: Vec::new(),
            workers: vec![Worker::default(); workers],
            failures: Vec::new(),
            finished: Vec::new(),
            bytes: 0,
            begun: 0,
            active: 0,
            over: false,
            interrupted: false,
            fatal: None,
        }),
        ended: Condvar::new(),
        began: Condvar::new(),
        start: Instant::now(),
        options,
        prefetched: Mutex::new(0),
    };
    let spawned = thread::scope(|scope| {
        let mut outcome = Ok(());
        for worker in 0..workers {
            run.lock().active += 1;
            let run = &run;
            let named = thread::Builder::new().name(format!("tasklets {worker}"));
            if let Err(source) = named.spawn_scoped(scope, move || run.inside(around, worker)) {
                let mut shared = run.lock();
                shared.active -= 1;
                shared.roster.stop();
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
    let prefetched = *run
        .prefetched
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let shared = run
        .shared
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(Ran {
        roster: shared.roster,
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
    /// A panic of ours while the lock was held would be told by the scope, which ends with it.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inside(&self, around: Option<Around>, worker: usize) {
        match around {
            Some(around) => around(&mut || self.worker(worker)),
            None => self.worker(worker),
        }
    }

    fn worker(&self, worker: usize) {
        let mut shared = self.lock();
        loop {
            let waits = Instant::now();
            let next = loop {
                match shared.roster.take() {
                    Next::Wait => {
                        shared = self
                            .ended
                            .wait(shared)
                            .unwrap_or_else(PoisonError::into_inner);
                    }
                    other => break other,
                }
            };
            let start = Instant::now();
            shared.workers[worker].waited += start - waits;
            let Next::Run(tasklet) = next else { break };
            shared.begun = shared.begun.max(shared.roster.serial().place[tasklet] + 1);
            self.began.notify_all();
            drop(shared);
            let done = catch_unwind(AssertUnwindSafe(|| self.work.run(tasklet, worker)));
            let done = done.unwrap_or_else(|panic| Err(panicked(&*panic).into()));
            let end = Instant::now();
            shared = self.lock();
            shared.visits.push(Visit {
                tasklet,
                worker,
                start: start - self.start,
                end: end - self.start,
            });
            let own = &mut shared.workers[worker];
            own.tasklets += 1;
            own.busy += end - start;
            shared.bytes += self.work.weight(tasklet);
            let released = match done {
                Ok(()) => {
                    shared.finished.push(tasklet);
                    shared.roster.done(tasklet)
                }
                Err(why) => {
                    shared.failures.push((tasklet, why));
                    if !self.options.keep_going {
                        shared.roster.stop();
                    }
                    shared.roster.failed(tasklet)
                }
            };
            // With the lock held: what is given back must be, before another takes it.
            for tasklet in released {
                if let Err(error) = self.work.release(tasklet) {
                    shared.roster.stop();
                    shared.fatal.get_or_insert(error);
                }
            }
            self.ended.notify_all();
        }
        shared.active -= 1;
        drop(shared);
        self.ended.notify_all();
    }

    /// The calling thread: looks around, and makes durable what is finished, until all workers have gone home.
    fn attend(&self, total_bytes: u64, watch: &mut dyn FnMut(&Progress) -> bool) {
        let mut kept = Instant::now();
        let mut shared = self.lock();
        loop {
            let over = shared.active == 0;
            if over || kept.elapsed() >= self.options.keep_every {
                let finished = std::mem::take(&mut shared.finished);
                drop(shared);
                let outcome = if finished.is_empty() {
                    Ok(())
                } else {
                    self.work.keep(&finished)
                };
                kept = Instant::now();
                shared = self.lock();
                if let Err(error) = outcome {
                    shared.roster.stop();
                    shared.fatal.get_or_insert(error);
                    self.ended.notify_all();
                }
            }
            if over {
                break;
            }
            let (tasklets, total_tasklets) = shared.roster.progress();
            let progress = Progress {
                tasklets,
                total_tasklets,
                bytes: shared.bytes,
                total_bytes,
            };
            let interrupted = shared.interrupted;
            drop(shared);
            let goes_on = interrupted || watch(&progress);
            shared = self.lock();
            if !goes_on {
                shared.interrupted = true;
                shared.roster.stop();
                self.work.interrupt();
                self.ended.notify_all();
            }
            if shared.active > 0 {
                let waited = self.ended.wait_timeout(shared, LOOK_EVERY);
                shared = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        shared.over = true;
        drop(shared);
        self.began.notify_all();
    }

    /// The prefetcher: asks for the inputs of tasklets behind those that have begun, in order, but never for more than so
    /// many bytes that nobody has begun to use.
    fn ahead(&self) {
        let mut asked: VecDeque<(usize, u64)> = VecDeque::new();
        let (mut next, mut waiting) = (0, 0);
        let mut shared = self.lock();
        while !shared.over {
            while let Some((_, bytes)) = asked.front().filter(|(place, _)| *place < shared.begun) {
                waiting -= bytes;
                asked.pop_front();
            }
            next = next.max(shared.begun);
            let order = &shared.roster.serial().tasklets;
            if next >= order.len() {
                break;
            }
            if waiting > 0 && waiting >= self.options.prefetch {
                shared = self
                    .began
                    .wait(shared)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let tasklet = order[next];
            drop(shared);
            let bytes = self.work.prefetch(tasklet);
            asked.push_back((next, bytes));
            waiting += bytes;
            next += 1;
            *self
                .prefetched
                .lock()
                .unwrap_or_else(PoisonError::into_inner) += bytes;
            shared = self.lock();
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("with no message"))
}
