//! How many threads of an execution may compute at once.
//!
//! ```text
//!  CoreLimit: cores = 2          ┌────────┬────────┐
//!  computing                     │ user A │ user B │
//!                                └────────┴────────┘
//!  waiting for a core            user C
//!  waiting for something else    user D, outside: it holds no core
//! ```
//!
//! There may be more threads than cores: each computes while it holds a core and gives it back before it waits for
//! anything else, so a thread that has work computes as soon as a core is free. One that must have the memory of all
//! [`pause`](CoreUser::pause)s the others: each stops when it next waits, or at its next
//! [`checkpoint`](CoreUser::checkpoint).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Cores that the threads of an execution share.
#[derive(Debug)]
pub struct CoreLimit {
    state: Mutex<State>,
    changed: Condvar,
    cores: usize,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// One user computes, and nobody else may.
    paused: bool,
}

impl CoreLimit {
    /// At most `cores` threads compute at once; at least one does.
    #[must_use]
    pub fn new(cores: usize) -> Self {
        let cores = cores.max(1);
        let state = State {
            free: cores,
            paused: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            cores,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) {
        let mut state = self.lock();
        while state.free == 0 || state.paused {
            state = self.wait(state);
        }
        state.free -= 1;
    }

    fn leave(&self) {
        self.lock().free += 1;
        self.changed.notify_all();
    }
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitReason {
    /// Something to work on.
    Input,
    /// Room for what it made.
    Output,
}

/// Time that a thread spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreUse {
    /// Holding a core.
    pub busy: Duration,
    /// Waiting for a core, or paused.
    pub core: Duration,
    /// Waiting for input.
    pub input: Duration,
    /// Waiting for room.
    pub output: Duration,
}

/// A thread that computes within a [`CoreLimit`]. Shared by the parts of that thread, not with other threads.
///
/// ```
/// use std::sync::Arc;
/// use isochrony_runtime::{CoreLimit, CoreUser, WaitReason};
///
/// let limit = Arc::new(CoreLimit::new(1));
/// let user = CoreUser::new(&limit);
/// let sum = user.inside(|| {
///     // Computes; then waits for another thread, which may compute meanwhile.
///     let more = user.outside(WaitReason::Input, || 2);
///     40 + more
/// });
/// assert_eq!(sum, 42);
/// ```
#[derive(Debug)]
pub struct CoreUser {
    limit: Arc<CoreLimit>,
    /// Nanoseconds spent on each of [`CoreUse`], in its order.
    spent: [AtomicU64; 4],
}

/// Indices of [`CoreUser::spent`].
const BUSY: usize = 0;
const CORE: usize = 1;
const INPUT: usize = 2;
const OUTPUT: usize = 3;

impl CoreUser {
    /// A thread that holds no core yet.
    #[must_use]
    pub fn new(limit: &Arc<CoreLimit>) -> Self {
        Self {
            limit: Arc::clone(limit),
            spent: Default::default(),
        }
    }

    /// Runs `work` with a core.
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        self.limit.enter();
        self.add(CORE, begun.elapsed());
        let waits = self.waits();
        let held = CoreGuard(&self.limit);
        let begun = Instant::now();
        let done = work();
        let waited = self.waits().saturating_sub(waits);
        self.add(BUSY, begun.elapsed().saturating_sub(waited));
        drop(held);
        done
    }

    /// Runs `wait` without the core that this thread holds.
    pub fn outside<T>(&self, reason: WaitReason, wait: impl FnOnce() -> T) -> T {
        let spent = match reason {
            WaitReason::Input => INPUT,
            WaitReason::Output => OUTPUT,
        };
        let begun = Instant::now();
        self.limit.leave();
        let again = CoreReentry(self);
        let done = wait();
        self.add(spent, begun.elapsed());
        drop(again);
        done
    }

    /// Runs work of another user with the core that this thread holds, and counts it as that one's.
    pub fn lend<T>(&self, other: &Self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        let spent = begun.elapsed();
        other.add(BUSY, spent);
        self.add(INPUT, spent);
        done
    }

    /// Stops while another thread has [`pause`](Self::pause)d this one. `release_memory` runs before.
    pub fn checkpoint(&self, release_memory: impl FnOnce()) {
        if self.limit.lock().paused {
            release_memory();
            self.limit.leave();
            drop(CoreReentry(self));
        }
    }

    /// Waits until no other thread computes, and keeps them from it until [`resume`](Self::resume).
    pub fn pause(&self) {
        let mut state = self.limit.lock();
        while state.paused {
            // Another thread has paused this one.
            drop(state);
            self.limit.leave();
            drop(CoreReentry(self));
            state = self.limit.lock();
        }
        state.paused = true;
        while state.free + 1 < self.limit.cores {
            state = self.limit.wait(state);
        }
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.limit.lock().paused = false;
        self.limit.changed.notify_all();
    }

    /// How its time was spent so far.
    #[must_use]
    pub fn time(&self) -> CoreUse {
        let [busy, core, input, output] = [BUSY, CORE, INPUT, OUTPUT]
            .map(|at| Duration::from_nanos(self.spent[at].load(Ordering::Relaxed)));
        CoreUse {
            busy,
            core,
            input,
            output,
        }
    }

    fn waits(&self) -> Duration {
        let time = self.time();
        time.core + time.input + time.output
    }

    fn add(&self, at: usize, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.spent[at].fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// Gives the core back when dropped, also in a panic.
struct CoreGuard<'a>(&'a CoreLimit);

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Takes a core again when dropped, also in a panic.
struct CoreReentry<'a>(&'a CoreUser);

impl Drop for CoreReentry<'_> {
    fn drop(&mut self) {
        let begun = Instant::now();
        self.0.limit.enter();
        self.0.add(CORE, begun.elapsed());
    }
}
