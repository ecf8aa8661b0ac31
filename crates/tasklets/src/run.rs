//! Tasklets on threads: one lock for the roster, whoever is free asks it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, Scope};
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
    /// Begins what `keep` will have to do for these, while workers go on.
    fn write_back(&self, done: &[usize]);
    /// Asks for a tasklet's inputs to be read; of how many bytes.
    fn prefetch(&self, tasklet: usize) -> u64;
    /// How much a tasklet counts for progress.
    fn weight(&self, tasklet: usize) -> u64;
    /// The caller wants the run to end: long work should end soon.
    fn interrupt(&self);
    /// Whether that is so, or a tasklet asked for it.
    fn is_interrupted(&self) -> bool;
    /// Whether there is anything to be made durable.
    fn keeps(&self) -> bool;
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
pub(crate) struct Shared {
    visits: Vec<Visit>,
    workers: Vec<Worker>,
    failures: Vec<(usize, Cause)>,
    finished: Vec<usize>,
    bytes: u64,
    /// Places up to which tasklets have begun, or were passed over.
    pub(crate) begun: usize,
    /// How many have to have begun before the prefetcher has something to do.
    pub(crate) wanted: usize,
    active: usize,
    pub(crate) over: bool,
    interrupted: bool,
    fatal: Option<TaskletError>,
}

pub(crate) struct Run<'a> {
    pub(crate) work: &'a dyn Work,
    pub(crate) desk: Desk<Shared>,
    /// So many tasklets began as the prefetcher waits for, or the run is over.
    pub(crate) began: Condvar,
    /// All workers have gone home, or something is to be kept at once.
    gone: Condvar,
    total_bytes: u64,
    start: Instant,
    pub(crate) options: &'a Options,
    pub(crate) prefetched: Mutex<u64>,
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
        gone: Condvar::new(),
        total_bytes,
        start: Instant::now(),
        options,
        prefetched: Mutex::new(0),
    };
    let spawned = thread::scope(|scope| {
        let _over = Over(&run);
        if options.prefetch > 0 {
            // Without it the run is slower, and nothing else.
            let named = thread::Builder::new().name("tasklets ahead".into());
            let _ = named.spawn_scoped(scope, || run.ahead());
        }
        if options.in_caller && workers == 1 {
            run.alone(scope, watch)
        } else {
            run.together(scope, around, watch)
        }
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
    /// Workers in threads of their own, while the calling one looks around.
    fn together<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        around: Option<Around>,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<(), TaskletError> {
        let mut outcome = Ok(());
        for worker in 0..self.options.workers {
            self.desk.lock().more.active += 1;
            let named = thread::Builder::new().name(format!("tasklets {worker}"));
            let work = move || self.inside(around, worker);
            if let Err(source) = named.spawn_scoped(scope, work) {
                self.desk.stop(|behind| behind.more.active -= 1);
                outcome = Err(TaskletError::Thread { worker, source });
                break;
            }
        }
        self.look(watch);
        self.attend(Some(watch));
        outcome
    }

    /// One worker in the calling thread, which looks around between tasklets: no thread has to be woken for any of them.
    /// What is finished is made durable by another thread meanwhile, if that is asked for at all.
    fn alone<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<(), TaskletError> {
        self.desk.lock().more.active = 1;
        if self.work.keeps() {
            let named = thread::Builder::new().name("tasklets kept".into());
            let spawned = named.spawn_scoped(scope, || self.attend(None));
            if let Err(source) = spawned {
                return Err(TaskletError::Thread { worker: 0, source });
            }
        }
        let _leaves = Leaves(self);
        self.look(watch);
        let mut looked = Instant::now();
        self.worker(0, &mut || {
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.look(watch);
            }
        });
        Ok(())
    }

    fn inside(&self, around: Option<Around>, worker: usize) {
        let _leaves = Leaves(self);
        match around {
            Some(around) => around(&mut || self.worker(worker, &mut || ())),
            None => self.worker(worker, &mut || ()),
        }
    }

    fn worker(&self, worker: usize, between: &mut dyn FnMut()) {
        let mut waits = Instant::now();
        let begins = |behind: &mut Behind<Shared>, tasklet: usize| {
            let place = behind.roster.serial().place[tasklet];
            behind.more.begun = behind.more.begun.max(place + 1);
            if behind.more.begun >= behind.more.wanted {
                self.began.notify_all();
            }
        };
        while let Some(tasklet) = self.desk.take(begins) {
            let start = Instant::now();
            let done = catch_unwind(AssertUnwindSafe(|| self.work.run(tasklet, worker)));
            let done = done.unwrap_or_else(|panic| Err(panicked(&*panic).into()));
            let end = Instant::now();
            let asked_to_end = self.work.is_interrupted();
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
                if asked_to_end {
                    shared.interrupted = true;
                    behind.roster.stop();
                }
                for tasklet in released {
                    if let Err(error) = self.work.release(tasklet) {
                        behind.roster.stop();
                        shared.fatal.get_or_insert(error);
                    }
                }
            });
            if self.options.keep_every < LOOK_EVERY {
                self.gone.notify_all();
            }
            waits = end;
            between();
        }
        self.desk.lock().more.workers[worker].waited += waits.elapsed();
    }

    fn progress(&self, behind: &Behind<Shared>) -> Progress {
        let (tasklets, total_tasklets) = behind.roster.progress();
        Progress {
            tasklets,
            total_tasklets,
            bytes: behind.more.bytes,
            total_bytes: self.total_bytes,
        }
    }

    /// Asks the caller whether to go on.
    fn look(&self, watch: &mut dyn FnMut(&Progress) -> bool) {
        let behind = self.desk.lock();
        let (progress, interrupted) = (self.progress(&behind), behind.more.interrupted);
        drop(behind);
        if !interrupted && !watch(&progress) {
            self.desk.stop(|behind| behind.more.interrupted = true);
            self.work.interrupt();
        }
    }

    /// Looks around, for the caller if this is its thread, and makes durable what is finished, until all workers have gone
    /// home.
    fn attend(&self, mut watch: Option<&mut dyn FnMut(&Progress) -> bool>) {
        let mut kept = Instant::now();
        // How many of those that are finished are on their way to the disk.
        let mut written = 0;
        loop {
            let mut behind = self.desk.lock();
            let over = behind.more.active == 0;
            let due = over || kept.elapsed() >= self.options.keep_every;
            let news = behind.more.finished[written..].to_vec();
            written += news.len();
            let finished = if due {
                written = 0;
                std::mem::take(&mut behind.more.finished)
            } else {
                Vec::new()
            };
            drop(behind);
            if !news.is_empty() {
                self.work.write_back(&news);
            }
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
            if let Some(watch) = watch.as_deref_mut() {
                self.look(watch);
            }
            let behind = self.desk.lock();
            if behind.more.active > 0 {
                drop(self.gone.wait_timeout(behind, LOOK_EVERY));
            }
        }
    }
}

/// The run is over, be it by a panic of `watch` or of what this thread does: no other waits for more.
struct Over<'a, 'b>(&'a Run<'b>);

impl Drop for Over<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.desk.stop(|_| ());
        }
        self.0.desk.lock().more.over = true;
        self.0.began.notify_all();
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
        self.0.gone.notify_all();
    }
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("with no message"))
}
