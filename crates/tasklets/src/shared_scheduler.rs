//! Thread-safe wrapper around [`TaskletScheduler`]: one mutex, and a condition variable signalled whenever a tasklet
//! finishes.
//!
//! ```text
//!  worker 0 ── wait_for_tasklet ──┐            ┌── Run(t): runs t without the lock, then finish(t)
//!  worker 1 ── wait_for_tasklet ──┼── mutex ───┼── Wait: sleeps on `progressed`
//!  worker 2 ── wait_for_tasklet ──┘            └── Finished: the worker returns
//!
//!  finish(t), stop() ── change the state, release the lock, wake all sleepers
//! ```
//!
//! Only a finished tasklet makes another startable, and only that or a stop lets a worker return, so only these wake
//! sleepers. `tests/loom_scheduler.rs` checks all interleavings of this file.

use crate::scheduler::{Assignment, TaskletScheduler};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct SharedState<T> {
    pub(crate) scheduler: TaskletScheduler,
    /// At 0, nobody is notified: that costs more than the rest of `finish`.
    sleeping_workers: usize,
    pub(crate) extra: T,
}

pub(crate) struct SharedScheduler<T> {
    state: Mutex<SharedState<T>>,
    progressed: Condvar,
}

impl<T> SharedScheduler<T> {
    pub(crate) fn new(scheduler: TaskletScheduler, extra: T) -> Self {
        Self {
            state: Mutex::new(SharedState {
                scheduler,
                sleeping_workers: 0,
                extra,
            }),
            progressed: Condvar::new(),
        }
    }

    /// Ignores poisoning: the thread scope reports the panic.
    pub(crate) fn lock(&self) -> MutexGuard<'_, SharedState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until a tasklet may start; None: nothing is left. Calls `on_start` under the lock.
    pub(crate) fn wait_for_tasklet(
        &self,
        on_start: impl FnOnce(&mut SharedState<T>, usize),
    ) -> Option<usize> {
        let mut state = self.lock();
        loop {
            match state.scheduler.assign() {
                Assignment::Run(tasklet) => {
                    on_start(&mut state, tasklet);
                    return Some(tasklet);
                }
                Assignment::Wait => {
                    state.sleeping_workers += 1;
                    state = (self.progressed.wait(state)).unwrap_or_else(PoisonError::into_inner);
                    state.sleeping_workers -= 1;
                }
                Assignment::Finished => return None,
            }
        }
    }

    /// `on_finish` runs under the lock: it must release scratch before another tasklet starts to write.
    pub(crate) fn finish(
        &self,
        tasklet: usize,
        succeeded: bool,
        on_finish: impl FnOnce(&mut SharedState<T>, Vec<usize>),
    ) {
        let mut state = self.lock();
        let released = if succeeded {
            state.scheduler.complete(tasklet)
        } else {
            state.scheduler.fail(tasklet)
        };
        on_finish(&mut state, released);
        self.wake_workers(state);
    }

    /// Starts no more tasklets. Calls `on_stop` under the lock.
    pub(crate) fn stop(&self, on_stop: impl FnOnce(&mut SharedState<T>)) {
        let mut state = self.lock();
        state.scheduler.stop();
        on_stop(&mut state);
        self.wake_workers(state);
    }

    /// Releases the lock first, since woken workers need it.
    fn wake_workers(&self, state: MutexGuard<'_, SharedState<T>>) {
        let sleeping = state.sleeping_workers;
        drop(state);
        if sleeping > 0 {
            self.progressed.notify_all();
        }
    }
}
