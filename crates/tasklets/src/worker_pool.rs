//! Worker pool: runs tasklets on threads, reports progress, and commits finished tasklets.
//!
//! ```text
//!  worker threads   take a tasklet from the shared scheduler, run it, finish it     (wait on the scheduler)
//!  prefetcher       reads inputs ahead, at most `prefetch` bytes                    (waits on `prefetch_wanted`)
//!  calling thread   calls `watch` and commits finished tasklets, every 25 ms        (waits on `commit_wanted`)
//! ```
//!
//! When tuned, it also changes how many workers pass the gate.
//!
//! With [`in_caller`](ExecutorOptions::in_caller) the one worker is the calling thread, which calls `watch` between
//! tasklets; another thread commits.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use isochrony_runtime::{
    POLL_INTERVAL, Pinning, PollTimer, Progress, WorkerGate, WorkerReport, panic_message,
    start_scoped_helper, start_worker,
};
use isochrony_tune::TuningReport;

use crate::error::{Cause, TaskletError};
use crate::options::{ExecutorOptions, ThreadWrapper};
use crate::progress::{TaskletProgress, TaskletTiming};
use crate::runner::TaskletRunner;
use crate::scheduler::TaskletScheduler;
use crate::shared_scheduler::{SharedScheduler, SharedState};
use crate::sync::{Condvar, Mutex, PoisonError};
use crate::tuning::PoolTuning;

pub(crate) struct PoolOutcome {
    pub(crate) scheduler: TaskletScheduler,
    pub(crate) timings: Vec<TaskletTiming>,
    pub(crate) workers: Vec<WorkerReport>,
    pub(crate) failures: Vec<(usize, Cause)>,
    pub(crate) prefetched: u64,
    pub(crate) interrupted: bool,
    pub(crate) elapsed: Duration,
    pub(crate) fatal: Option<TaskletError>,
    pub(crate) tuning: Option<TuningReport>,
    pub(crate) pinned_cpus: Vec<Option<usize>>,
}

/// Under the scheduler's mutex.
#[derive(Default)]
pub(crate) struct PoolState {
    timings: Vec<TaskletTiming>,
    workers: Vec<WorkerReport>,
    failures: Vec<(usize, Cause)>,
    uncommitted: Vec<usize>,
    /// The step after the last started one.
    pub(crate) started_steps: usize,
    /// Started steps at which the prefetcher has work.
    pub(crate) wake_prefetcher_at: usize,
    active_workers: usize,
    pub(crate) is_over: bool,
    interrupted: bool,
    fatal: Option<TaskletError>,
}

pub(crate) struct WorkerPool<'a> {
    pub(crate) runner: &'a dyn TaskletRunner,
    pub(crate) shared: SharedScheduler<PoolState>,
    /// Enough steps have started, or the execution is over.
    pub(crate) prefetch_wanted: Condvar,
    /// The last worker has returned, or a commit is due.
    commit_wanted: Condvar,
    progress: TaskletProgress,
    gate: WorkerGate,
    pinning: Option<Pinning>,
    start: Instant,
    pub(crate) options: &'a ExecutorOptions,
    pub(crate) prefetched: Mutex<u64>,
}

/// Executes all tasklets. See [`Executor::run`](crate::Executor::run) for `watch`.
pub(crate) fn execute(
    scheduler: TaskletScheduler,
    runner: &dyn TaskletRunner,
    options: &ExecutorOptions,
    thread_wrapper: Option<ThreadWrapper>,
    watch: &mut dyn FnMut(&TaskletProgress) -> bool,
) -> Result<PoolOutcome, TaskletError> {
    let workers = options.workers;
    let tuned = options.tuning.as_ref().filter(|_| workers > 1);
    let mut tuning = tuned
        .map(|mode| PoolTuning::new(mode, workers))
        .transpose()?;
    let tasklets = scheduler.serial().tasklets.iter();
    let progress = TaskletProgress {
        tasklets: Progress::of(scheduler.progress().1 as u64),
        bytes: Progress::of(tasklets.map(|at| runner.byte_count(*at)).sum()),
    };
    let state = PoolState {
        workers: vec![WorkerReport::default(); workers],
        ..PoolState::default()
    };
    let pool = WorkerPool {
        runner,
        shared: SharedScheduler::new(scheduler, state),
        prefetch_wanted: Condvar::new(),
        commit_wanted: Condvar::new(),
        progress,
        gate: WorkerGate::new(tuning.as_ref().map_or(usize::MAX, PoolTuning::workers)),
        pinning: options.pin.then(Pinning::of_current_thread).flatten(),
        start: Instant::now(),
        options,
        prefetched: Mutex::new(0),
    };
    thread::scope(|scope| {
        let _over = ExecutionEndGuard(&pool);
        if options.prefetch > 0 {
            // Without the thread, the execution is only slower.
            let _ = start_scoped_helper(scope, "ahead", || pool.read_ahead());
        }
        if options.in_caller && workers == 1 {
            pool.execute_in_caller(scope, watch)
        } else {
            let mut watch = |progress: &TaskletProgress| {
                if let Some(tuning) = &mut tuning {
                    pool.tune(tuning);
                }
                watch(progress)
            };
            pool.execute_on_threads(scope, thread_wrapper, &mut watch)
        }
    })?;
    let prefetched = pool.prefetched.lock();
    let prefetched = *prefetched.unwrap_or_else(PoisonError::into_inner);
    let mut locked = pool.shared.lock();
    let state = std::mem::take(&mut locked.extra);
    let scheduler = locked.scheduler.clone();
    drop(locked);
    Ok(PoolOutcome {
        scheduler,
        timings: state.timings,
        workers: state.workers,
        failures: state.failures,
        prefetched,
        interrupted: state.interrupted,
        elapsed: pool.start.elapsed(),
        pinned_cpus: pool.pinning.map_or_else(Vec::new, Pinning::into_cpus),
        fatal: state.fatal,
        tuning: tuning.as_ref().map(PoolTuning::report),
    })
}

impl WorkerPool<'_> {
    fn execute_on_threads<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        thread_wrapper: Option<ThreadWrapper>,
        watch: &mut dyn FnMut(&TaskletProgress) -> bool,
    ) -> Result<(), TaskletError> {
        let mut outcome = Ok(());
        for worker in 0..self.options.workers {
            self.shared.lock().extra.active_workers += 1;
            let work = move || self.worker_thread(thread_wrapper, worker);
            if let Err(source) = start_worker(scope, worker, self.pinning.as_ref(), work) {
                self.shared.stop(|state| state.extra.active_workers -= 1);
                outcome = Err(TaskletError::Thread { worker, source });
                break;
            }
        }
        self.report_progress(watch);
        self.commit_until_over(Some(watch));
        outcome
    }

    fn execute_in_caller<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        watch: &mut dyn FnMut(&TaskletProgress) -> bool,
    ) -> Result<(), TaskletError> {
        self.shared.lock().extra.active_workers = 1;
        if self.runner.has_commits() {
            let started = start_scoped_helper(scope, "commit", || self.commit_until_over(None));
            if let Err(source) = started {
                return Err(TaskletError::Thread { worker: 0, source });
            }
        }
        let _active = ActiveWorkerGuard(self);
        let _pinned = self.pinning.as_ref().map(|pinning| pinning.pin(0));
        self.report_progress(watch);
        let mut timer = PollTimer::start();
        self.run_tasklets(0, &mut || {
            if timer.is_due() {
                timer.restart();
                self.report_progress(watch);
            }
        });
        Ok(())
    }

    fn worker_thread(&self, thread_wrapper: Option<ThreadWrapper>, worker: usize) {
        let _active = ActiveWorkerGuard(self);
        match thread_wrapper {
            Some(wrap) => wrap(&mut || self.run_tasklets(worker, &mut || ())),
            None => self.run_tasklets(worker, &mut || ()),
        }
    }

    fn run_tasklets(&self, worker: usize, after_each: &mut dyn FnMut()) {
        let mut idle_since = Instant::now();
        let on_start = |state: &mut SharedState<PoolState>, tasklet: usize| {
            let step = state.scheduler.serial().step[tasklet];
            state.extra.started_steps = state.extra.started_steps.max(step + 1);
            if state.extra.started_steps >= state.extra.wake_prefetcher_at {
                self.prefetch_wanted.notify_all();
            }
        };
        loop {
            self.gate.pass(worker);
            let Some(tasklet) = self.shared.wait_for_tasklet(on_start) else {
                break;
            };
            let start = Instant::now();
            let result = catch_unwind(AssertUnwindSafe(|| self.runner.run(tasklet, worker)));
            let result = result.unwrap_or_else(|panic| Err(panic_text(&*panic).into()));
            let end = Instant::now();
            let is_interrupted = self.runner.is_interrupted();
            let succeeded = result.is_ok();
            self.shared.finish(tasklet, succeeded, |state, released| {
                let pool = &mut state.extra;
                pool.timings.push(TaskletTiming {
                    tasklet,
                    worker,
                    start: start - self.start,
                    end: end - self.start,
                });
                let report = &mut pool.workers[worker];
                report.items += 1;
                report.waited += start - idle_since;
                report.busy += end - start;
                self.progress.bytes.advance(self.runner.byte_count(tasklet));
                match result {
                    Ok(()) => pool.uncommitted.push(tasklet),
                    Err(why) => {
                        pool.failures.push((tasklet, why));
                        if !self.options.keep_going {
                            state.scheduler.stop();
                        }
                    }
                }
                if is_interrupted {
                    pool.interrupted = true;
                    state.scheduler.stop();
                }
                // Under the lock: no tasklet may write scratch before the disk has room for it.
                for tasklet in released {
                    if let Err(error) = self.runner.release_scratch(tasklet) {
                        state.scheduler.stop();
                        pool.fatal.get_or_insert(error);
                    }
                }
            });
            if self.options.keep_every < POLL_INTERVAL {
                self.commit_wanted.notify_all();
            }
            idle_since = end;
            after_each();
        }
        // Nothing is left for those that wait there.
        self.gate.open();
        self.shared.lock().extra.workers[worker].waited += idle_since.elapsed();
    }

    fn tune(&self, tuning: &mut PoolTuning) {
        let workers = self.shared.lock().extra.workers.clone();
        let pause = self.options.tuning_pause.as_ref();
        let is_paused = pause.is_some_and(|pause| pause.load(Ordering::Relaxed));
        let next = tuning.poll(self.start.elapsed(), &workers, &self.progress, is_paused);
        if let Some(workers) = next {
            self.gate.set_limit(workers);
        }
    }

    fn report_progress(&self, watch: &mut dyn FnMut(&TaskletProgress) -> bool) {
        let state = self.shared.lock();
        let (finished, _) = state.scheduler.progress();
        let interrupted = state.extra.interrupted;
        drop(state);
        self.progress.tasklets.set_done(finished as u64);
        if !interrupted && !watch(&self.progress) {
            self.shared.stop(|state| state.extra.interrupted = true);
            self.runner.interrupt();
        }
    }

    /// Commits every [`keep_every`](ExecutorOptions::keep_every), and after all workers have returned.
    fn commit_until_over(&self, mut watch: Option<&mut dyn FnMut(&TaskletProgress) -> bool>) {
        let mut last_commit = Instant::now();
        let mut written_back = 0;
        loop {
            let mut state = self.shared.lock();
            let is_over = state.extra.active_workers == 0;
            let is_due = is_over || last_commit.elapsed() >= self.options.keep_every;
            let newly_finished = state.extra.uncommitted[written_back..].to_vec();
            written_back += newly_finished.len();
            let to_commit = if is_due {
                written_back = 0;
                std::mem::take(&mut state.extra.uncommitted)
            } else {
                Vec::new()
            };
            drop(state);
            if !newly_finished.is_empty() {
                self.runner.write_back(&newly_finished);
            }
            if is_due {
                if !to_commit.is_empty()
                    && let Err(error) = self.runner.commit(&to_commit)
                {
                    self.shared
                        .stop(|state| _ = state.extra.fatal.get_or_insert(error));
                }
                last_commit = Instant::now();
            }
            if is_over {
                break;
            }
            if let Some(watch) = watch.as_deref_mut() {
                self.report_progress(watch);
            }
            let state = self.shared.lock();
            if state.extra.active_workers > 0 {
                drop(self.commit_wanted.wait_timeout(state, POLL_INTERVAL));
            }
        }
    }
}

/// Ends the prefetcher when dropped, also by a panic.
struct ExecutionEndGuard<'a, 'b>(&'a WorkerPool<'b>);

impl Drop for ExecutionEndGuard<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.shared.stop(|_| ());
        }
        self.0.shared.lock().extra.is_over = true;
        self.0.prefetch_wanted.notify_all();
    }
}

/// Counts a worker as returned when dropped, also by a panic.
struct ActiveWorkerGuard<'a, 'b>(&'a WorkerPool<'b>);

impl Drop for ActiveWorkerGuard<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.shared.stop(|_| ());
            self.0.gate.open();
        }
        self.0.shared.lock().extra.active_workers -= 1;
        self.0.commit_wanted.notify_all();
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let message = panic_message(panic).unwrap_or("with no message");
    format!("it panicked: {message}")
}
