//! Who does what next: tasks are handed out in the order of reading and their results are given back in it.
//!
//! One lock a task, which takes milliseconds. A task is handed out while fewer than `window` of its front wait or are under
//! way and what waits is within its share of memory; the oldest that is wanted is always handed out, so nobody waits for
//! what nobody does. Of several fronts the one that is furthest behind is served first.
//!
//! Knows nothing of what a task is or gives, so that all its interleavings can be tried (`tests/loom_order.rs`).

use std::collections::VecDeque;
use std::thread::Thread;
use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How long the run waits for a task before it looks around.
const LOOK: Duration = Duration::from_millis(20);

/// What is cut into tasks.
pub(super) trait Cut {
    /// A part of it.
    type Part: Clone;

    /// The part behind another, or the first.
    fn after(&self, last: Option<&Self::Part>) -> Option<Self::Part>;

    /// Bytes that come of a part, about.
    fn bytes(&self) -> u64;
}

/// What a task gave.
pub(super) trait Gave {
    /// What went wrong behind all that.
    type Error;

    fn bytes(&self) -> u64;

    fn has_failed(&self) -> bool;

    fn take_error(&mut self) -> Option<Self::Error>;
}

/// A part of a front's input, to be done.
#[derive(Debug, Clone)]
pub(super) struct Task<Part> {
    pub(super) front: usize,
    pub(super) number: u64,
    pub(super) portion: Part,
}

/// What comes next of a front.
#[derive(Debug)]
pub(super) enum Given<G> {
    Parcel(G),
    NotYet,
    /// A task failed: no more comes.
    Failed,
    End,
}

struct Front<Part, G: Gave> {
    last: Option<Part>,
    /// All parts were handed out.
    exhausted: bool,
    handed_out: u64,
    /// Of the tasks from the oldest that is wanted on: what they gave, if they are done.
    parcels: VecDeque<Option<G>>,
    /// What the task that was taken last failed with: behind it nothing comes.
    error: Option<G::Error>,
    bytes: u64,
}

impl<Part, G: Gave> Front<Part, G> {
    fn new() -> Self {
        Self {
            last: None,
            exhausted: false,
            handed_out: 0,
            parcels: VecDeque::new(),
            error: None,
            bytes: 0,
        }
    }

    /// Bytes that wait, and about those that will.
    fn waiting(&self, each: u64) -> u64 {
        let under_way = self.parcels.iter().filter(|place| place.is_none()).count();
        self.bytes + under_way as u64 * each
    }
}

struct State<Part, G: Gave> {
    fronts: Vec<Front<Part, G>>,
    stopped: bool,
    /// A worker is gone that did not mean to go.
    lost: bool,
    error: Option<G::Error>,
    run: Option<Thread>,
}

/// Hands tasks out and takes what they gave.
pub(super) struct Order<C: Cut, G: Gave> {
    state: Mutex<State<C::Part, G>>,
    /// There may be work.
    work: Condvar,
    /// A task is done.
    done: Condvar,
    cuts: Vec<C>,
    window: usize,
    memory: u64,
}

impl<C: Cut, G: Gave> Order<C, G> {
    /// `window`: tasks of a front that wait or are under way; `memory`: most bytes that wait before only the oldest task is
    /// handed out.
    pub(super) fn new(cuts: Vec<C>, window: usize, memory: u64) -> Self {
        let fronts = cuts.iter().map(|_| Front::new()).collect();
        Self {
            state: Mutex::new(State {
                fronts,
                stopped: false,
                lost: false,
                error: None,
                run: None,
            }),
            work: Condvar::new(),
            done: Condvar::new(),
            cuts,
            window,
            memory,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<C::Part, G>> {
        // Nothing that can panic is done under the lock but to ask where a portion ends, which changes nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task, once there is one; None if there is nothing more to do.
    pub(super) fn take(&self) -> Option<Task<C::Part>> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.fronts.iter().all(|front| front.exhausted) {
                return None;
            }
            let fronts = state.fronts.iter().zip(&self.cuts);
            let waiting: u64 = fronts.map(|(front, cut)| front.waiting(cut.bytes())).sum();
            let open = state.fronts.iter().enumerate().filter(|(_, front)| {
                let room = front.parcels.len() < self.window && waiting < self.memory;
                !front.exhausted && (room || front.parcels.is_empty())
            });
            let Some((at, _)) = open.min_by_key(|(_, front)| front.parcels.len()) else {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let front = &mut state.fronts[at];
            match self.cuts[at].after(front.last.as_ref()) {
                Some(portion) => {
                    let number = front.handed_out;
                    front.handed_out += 1;
                    front.parcels.push_back(None);
                    front.last = Some(portion.clone());
                    return Some(Task {
                        front: at,
                        number,
                        portion,
                    });
                }
                None => {
                    front.exhausted = true;
                    self.work.notify_all();
                    self.tell(&state);
                }
            }
        }
    }

    /// What a task gave; behind one that failed nothing comes.
    pub(super) fn give(&self, task: &Task<C::Part>, gave: G) {
        let mut state = self.lock();
        let front = &mut state.fronts[task.front];
        let first = front.handed_out - front.parcels.len() as u64;
        front.bytes += gave.bytes();
        front.exhausted |= gave.has_failed();
        if let Some(place) = front.parcels.get_mut((task.number - first) as usize) {
            *place = Some(gave);
        }
        if task.number == first {
            self.tell(&state);
        }
    }

    fn tell(&self, state: &State<C::Part, G>) {
        self.done.notify_all();
        if let Some(run) = &state.run {
            run.unpark();
        }
    }

    /// What comes next of a front; waits for it for a while.
    pub(super) fn next(&self, front: usize) -> Given<G> {
        let mut state = self.lock();
        let mut waited = false;
        loop {
            let lost = state.lost;
            let own = &mut state.fronts[front];
            if let Some(error) = own.error.take() {
                state.error.get_or_insert(error);
                return Given::Failed;
            }
            if own.parcels.is_empty() && own.exhausted {
                return Given::End;
            }
            match own.parcels.front_mut().and_then(Option::take) {
                Some(mut parcel) => {
                    own.parcels.pop_front();
                    own.bytes -= parcel.bytes();
                    own.error = parcel.take_error();
                    self.work.notify_all();
                    return Given::Parcel(parcel);
                }
                None if lost => return Given::Failed,
                None if waited || state.stopped => return Given::NotYet,
                None => {
                    (state, _) = self
                        .done
                        .wait_timeout(state, LOOK)
                        .unwrap_or_else(PoisonError::into_inner);
                    waited = true;
                }
            }
        }
    }

    /// Whom to wake when something is done.
    pub(super) fn wakes(&self, run: &Thread) {
        self.lock().run = Some(run.clone());
    }

    /// Nobody wants more.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.work.notify_all();
        self.done.notify_all();
    }

    /// A worker is gone in the midst of its work: what it was to give does not come.
    pub(super) fn lose(&self) {
        let mut state = self.lock();
        state.lost = true;
        self.tell(&state);
    }

    /// What a task failed with, the first in the order of reading of those that were looked at.
    pub(super) fn take_error(&self) -> Option<G::Error> {
        self.lock().error.take()
    }
}
