//! Which stages can be executed, and who waits: threads take a stage, execute a burst of it and put it back.
//!
//! ```text
//!            notify(Input)               take                    put_back(Ran)
//!  Waiting ----------------> Ready ----------------> Running ---------------------> Ready
//!   input, room, recall      ^                        |  ^                          put_back(Idle, Full, ...)
//!     ^                      |                suspend |  | resume                    -> Waiting, Ended
//!     +---- put_back --------+                        v  |
//!                                                  Suspended: mid-burst, waits for room
//! ```
//!
//! A thread takes the ready stage nearest to the end of the plan: its input is still cached, and links empty before
//! they fill. The caller's thread first takes stages that only it executes.
//!
//! Only a notice to a waiting stage takes the lock; any other is one atomic operation. An idle thread spins before it
//! sleeps: waking it takes longer than most bursts.
//!
//! Does not know what a stage is, for model checkers (`tests/loom_models/stages.rs`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use isochrony_runtime::StageTime;

use super::sync::{
    AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, PoisonError,
};

/// At most 64 stages.
pub(crate) type StageSet = u64;

/// For how long the caller's thread leaves a stage to helpers that spin: some microseconds.
const LEAVE_SPINS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    Input,
    Room,
    /// A retired replica is to take blocks again.
    Recall,
}

impl Notice {
    fn bit(self) -> u8 {
        match self {
            Self::Input => 1,
            Self::Room => 2,
            Self::Recall => 4,
        }
    }

    fn waits(self) -> u8 {
        self.bit() << 3
    }
}

/// How a burst of a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StageOutcome {
    Ran,
    Idle,
    Full,
    /// A replica that takes no blocks for now.
    Retired,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Ready,
    Running,
    Suspended,
    Waiting(Notice),
    Ended,
}

struct QueuedStage {
    phase: Phase,
    since: Instant,
    time: StageTime,
}

impl QueuedStage {
    fn enter(&mut self, phase: Phase, now: Instant) {
        let spent = match self.phase {
            Phase::Ready => &mut self.time.core,
            Phase::Running => &mut self.time.busy,
            Phase::Waiting(Notice::Input) => &mut self.time.input,
            Phase::Suspended | Phase::Waiting(Notice::Room) => &mut self.time.output,
            Phase::Waiting(Notice::Recall) | Phase::Ended => &mut Duration::default(),
        };
        *spent += now.saturating_duration_since(self.since);
        (self.phase, self.since) = (phase, now);
    }
}

struct State {
    stages: Vec<QueuedStage>,
    active: usize,
    /// One thread computes, and nobody else may.
    paused: bool,
    /// By role: threads asleep at the top of their loops.
    sleeping: [usize; 2],
    /// Of these: woken, but not running yet.
    woken: [usize; 2],
    /// All threads, and those that wait for room in the middle of a burst.
    threads: usize,
    suspended: usize,
    last_poll: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadRole {
    Caller,
    Helper,
}

pub(crate) struct StageQueue {
    state: Mutex<State>,
    /// By stage: notices since it was last taken, and what it waits for.
    notices: Vec<AtomicU8>,
    /// Ready stages, for threads that spin.
    ready: AtomicU64,
    stopped: AtomicBool,
    /// Helpers that spin.
    spinning: AtomicUsize,
    /// By role when idle; and for threads in the middle of a burst.
    idle: [Condvar; 2],
    suspended: Condvar,
    /// Stages that only the caller's thread executes.
    callers: StageSet,
    spin: Duration,
    /// Stands for all times if none is measured.
    unmeasured: Option<Instant>,
    /// Retry interval of stages that wait for input: not every source wakes them.
    poll_interval: Duration,
}

impl StageQueue {
    /// All begin ready. `measures`: the time of stages.
    pub(crate) fn new(
        stages: usize,
        callers: StageSet,
        spin: Duration,
        poll_interval: Duration,
        measures: bool,
    ) -> Self {
        let now = Instant::now();
        let stage = |_| QueuedStage {
            phase: Phase::Ready,
            since: now,
            time: StageTime::default(),
        };
        Self {
            state: Mutex::new(State {
                stages: (0..stages).map(stage).collect(),
                active: 0,
                paused: false,
                sleeping: [0; 2],
                woken: [0; 2],
                threads: 1,
                suspended: 0,
                last_poll: now,
            }),
            notices: (0..stages).map(|_| AtomicU8::new(0)).collect(),
            ready: AtomicU64::new(u64::MAX >> (64 - stages.clamp(1, 64))),
            stopped: AtomicBool::new(false),
            spinning: AtomicUsize::new(0),
            idle: [Condvar::new(), Condvar::new()],
            suspended: Condvar::new(),
            callers,
            spin,
            unmeasured: (!measures).then_some(now),
            poll_interval,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.unmeasured.unwrap_or_else(Instant::now)
    }

    fn takeable(&self, worker: ThreadRole, excluded: StageSet) -> StageSet {
        let others = match worker {
            ThreadRole::Caller => 0,
            ThreadRole::Helper => self.callers,
        };
        self.ready.load(Ordering::SeqCst) & !excluded & !others
    }

    fn make_ready(&self, state: &mut State, stage: usize, now: Instant) {
        state.stages[stage].enter(Phase::Ready, now);
        self.ready.fetch_or(1 << stage, Ordering::SeqCst);
    }

    fn wake_for(&self, state: &mut State, stage: usize) {
        let is_callers = self.callers & 1 << stage != 0;
        let workers = match is_callers {
            true => &[ThreadRole::Caller][..],
            false => &[ThreadRole::Helper, ThreadRole::Caller],
        };
        let mut workers = workers.iter().map(|&worker| worker as usize);
        if let Some(at) = workers.find(|&at| state.sleeping[at] > state.woken[at]) {
            state.woken[at] += 1;
            self.idle[at].notify_one();
        }
        if state.suspended > 0 {
            self.suspended.notify_all();
        }
    }

    /// Returns whether the stage waited for it.
    pub(crate) fn notify(&self, stage: usize, notice: Notice) -> bool {
        let before = self.notices[stage].fetch_or(notice.bit(), Ordering::SeqCst);
        if before & notice.waits() == 0 {
            return false;
        }
        let mut state = self.lock();
        match state.stages[stage].phase {
            Phase::Waiting(wait) if wait == notice => {
                self.notices[stage].fetch_and(!notice.waits(), Ordering::SeqCst);
                self.make_ready(&mut state, stage, self.now());
                self.wake_for(&mut state, stage);
                return true;
            }
            Phase::Suspended => self.suspended.notify_all(),
            _ => {}
        }
        false
    }

    pub(crate) fn add_helper(&self) {
        self.lock().threads += 1;
    }

    pub(crate) fn remove_helper(&self) {
        self.lock().threads -= 1;
        self.suspended.notify_all();
    }

    /// Of `preferred` if possible, nearest to the end of the plan.
    pub(crate) fn take(
        &self,
        worker: ThreadRole,
        excluded: StageSet,
        preferred: StageSet,
    ) -> Option<usize> {
        let mut state = self.lock();
        if state.paused || self.is_stopped() {
            return None;
        }
        let now = Instant::now();
        if now.duration_since(state.last_poll) >= self.poll_interval {
            state.last_poll = now;
            self.retry_idle(&mut state, self.unmeasured.unwrap_or(now));
        }
        let ready = self.takeable(worker, excluded);
        let sets = [ready & self.callers, ready & preferred, ready];
        let from = sets.into_iter().find(|&set| set != 0)?;
        let stage = from.ilog2() as usize;
        self.ready.fetch_and(!(1 << stage), Ordering::SeqCst);
        // Read, to see what came before a notice.
        self.notices[stage].swap(0, Ordering::SeqCst);
        let now = self.unmeasured.unwrap_or(now);
        state.stages[stage].enter(Phase::Running, now);
        state.active += 1;
        Some(stage)
    }

    /// Called by the caller's thread before it takes a stage. If the plan has a source that only this thread executes,
    /// waits a few microseconds while a helper that spins can take a ready stage: else that helper would wait for the
    /// source.
    pub(crate) fn leave_to_helpers(&self) {
        let last = 1 << (self.notices.len() - 1);
        if self.callers & !last == 0 {
            return;
        }
        for _ in 0..LEAVE_SPINS {
            let own = self.ready.load(Ordering::Relaxed) & self.callers;
            let nobody_spins = self.spinning.load(Ordering::Relaxed) == 0;
            if own != 0 || nobody_spins || self.takeable(ThreadRole::Helper, 0) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Not every source wakes its stage.
    fn retry_idle(&self, state: &mut State, now: Instant) {
        for stage in 0..state.stages.len() {
            if state.stages[stage].phase == Phase::Waiting(Notice::Input) {
                self.notices[stage].fetch_and(!Notice::Input.waits(), Ordering::SeqCst);
                self.make_ready(state, stage, now);
                self.wake_for(state, stage);
            }
        }
    }

    pub(crate) fn put_back(&self, stage: usize, outcome: StageOutcome) {
        let mut state = self.lock();
        let now = self.now();
        self.leave(&mut state);
        let wait = match outcome {
            StageOutcome::Ran => None,
            StageOutcome::Ended => return state.stages[stage].enter(Phase::Ended, now),
            StageOutcome::Idle => Some(Notice::Input),
            StageOutcome::Full => Some(Notice::Room),
            StageOutcome::Retired => Some(Notice::Recall),
        };
        if let Some(wait) = wait {
            // A notice since the burst looked is not lost.
            let before = self.notices[stage].fetch_or(wait.waits(), Ordering::SeqCst);
            if before & wait.bit() == 0 {
                return state.stages[stage].enter(Phase::Waiting(wait), now);
            }
            self.notices[stage].fetch_and(!wait.waits(), Ordering::SeqCst);
        }
        let others = self.ready.load(Ordering::SeqCst);
        self.make_ready(&mut state, stage, now);
        // This thread takes one next, unless its own burst can go on.
        if others != 0 || state.suspended > 0 {
            self.wake_for(&mut state, stage);
        }
    }

    fn leave(&self, state: &mut State) {
        state.active -= 1;
        if state.paused {
            self.wake_all();
        } else if state.active == 0 && state.suspended > 0 {
            self.suspended.notify_all();
        }
    }

    pub(crate) fn wake_all(&self) {
        self.idle.iter().for_each(Condvar::notify_all);
        self.suspended.notify_all();
    }

    pub(crate) fn wait(&self, worker: ThreadRole) {
        let has_work = || self.takeable(worker, 0) != 0 || self.is_stopped();
        let begun = Instant::now();
        let spinning = usize::from(worker == ThreadRole::Helper);
        self.spinning.fetch_add(spinning, Ordering::Relaxed);
        while !has_work() && begun.elapsed() < self.spin {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
        self.spinning.fetch_sub(spinning, Ordering::Relaxed);
        let mut state = self.lock();
        while (!has_work() || state.paused) && !self.is_stopped() {
            // User code may occupy the caller's thread: one helper polls, too.
            let polls = worker == ThreadRole::Caller || state.sleeping[worker as usize] == 0;
            state.sleeping[worker as usize] += 1;
            let idle = &self.idle[worker as usize];
            state = match polls {
                false => idle.wait(state).unwrap_or_else(PoisonError::into_inner),
                true => {
                    let waited = idle.wait_timeout(state, self.poll_interval);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleeping[worker as usize] -= 1;
            state.woken[worker as usize] = state.woken[worker as usize].saturating_sub(1);
            if polls {
                return;
            }
        }
    }

    /// Waits for room in the middle of a burst, until [`resume`](Self::resume).
    pub(crate) fn suspend(&self, stage: usize) {
        let mut state = self.lock();
        self.notices[stage].fetch_or(Notice::Room.waits(), Ordering::SeqCst);
        state.stages[stage].enter(Phase::Suspended, self.now());
        state.suspended += 1;
        self.leave(&mut state);
    }

    /// Waits in the middle of a burst for a stage, room, or time to poll. False if nobody computes or can: the burst
    /// must go on without room.
    pub(crate) fn wait_suspended(
        &self,
        worker: ThreadRole,
        excluded: StageSet,
        has_room: impl Fn() -> bool,
    ) -> bool {
        let mut state = self.lock();
        loop {
            if has_room() || self.is_stopped() {
                return true;
            }
            if !state.paused {
                if self.takeable(worker, excluded) != 0 {
                    return true;
                }
                let nobody_can = state.suspended >= state.threads;
                if state.active == 0 && (nobody_can || self.ready.load(Ordering::SeqCst) == 0) {
                    return false;
                }
            }
            let waited = self.suspended.wait_timeout(state, self.poll_interval);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            if timeout.timed_out() {
                // Ready stages are only for other threads.
                return state.active > 0 || state.paused;
            }
        }
    }

    pub(crate) fn resume(&self, stage: usize) {
        let mut state = self.lock();
        while state.paused {
            state = self.wait_paused(state);
        }
        state.suspended -= 1;
        state.active += 1;
        self.notices[stage].fetch_and(!Notice::Room.waits(), Ordering::SeqCst);
        state.stages[stage].enter(Phase::Running, self.now());
    }

    fn wait_paused<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.suspended.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Within a burst: until [`end_pause`](Self::end_pause) no other thread computes.
    pub(crate) fn pause(&self) {
        let mut state = self.lock();
        while state.paused {
            self.leave(&mut state);
            state = self.wait_paused(state);
            state.active += 1;
        }
        state.paused = true;
        while state.active > 1 && !self.is_stopped() {
            state = self.wait_paused(state);
        }
    }

    pub(crate) fn end_pause(&self) {
        self.lock().paused = false;
        self.wake_all();
    }

    pub(crate) fn stop(&self) {
        let state = self.lock();
        self.stopped.store(true, Ordering::SeqCst);
        drop(state);
        self.wake_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// No stage is executed or can be: each waits for input, or for room that nobody makes.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = self.lock();
        state.active == 0 && state.suspended == 0 && self.ready.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn time(&self, stage: usize) -> StageTime {
        let mut state = self.lock();
        let phase = state.stages[stage].phase;
        state.stages[stage].enter(phase, self.now());
        state.stages[stage].time
    }
}
