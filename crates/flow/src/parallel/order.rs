//! Who does what next: tasks are handed out in the order of reading and their results are given back in it.
//!
//! One lock a task, which takes milliseconds. A task is handed out while fewer than `window` of its front wait or are under
//! way and what waits is within its share of memory; the oldest that is wanted is always handed out, so nobody waits for
//! what nobody does. Of several fronts the one that is furthest behind is served first.
//!
//! A task that gets no memory is given back and done again, fewer are done at once then, and one at last: before it begins,
//! what waits is dropped, to be done again, and every worker lets go of what it does not need. The run itself gets memory
//! in the same way. So nobody waits for memory while holding some, and what has enough of it alone comes to its end.
//!
//! Knows nothing of what a task is or gives, so that all its interleavings can be tried (`tests/loom_order.rs`).

use std::thread::Thread;
use std::time::Duration;

use super::queue::{Cut, Front, Gave, Given, Place, Task};
use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How long the run waits for a task before it looks around.
const LOOK: Duration = Duration::from_millis(20);
/// So often it looks whether workers have come to an end with what they were at, when it needs their memory.
const MOST_LOOKS: u32 = 250;
/// Tasks that had enough memory after which one more is done at once.
const CALM: u64 = 16;
/// So often a task is tried again that was alone: the run may have been at work beside it.
const IN_VAIN: u32 = 2;

/// A worker at the table, and what it has seen.
#[derive(Debug, Default)]
pub(super) struct Seat {
    /// When it last tidied up.
    round: u64,
    /// Whether it counts among those that are there.
    taken: bool,
}

struct State<Part, G: Gave> {
    fronts: Vec<Front<Part, G>>,
    stopped: bool,
    /// A worker is gone that did not mean to go.
    lost: bool,
    run: Option<Thread>,
    /// Tasks at once; fewer after memory was short, one more after some that had enough.
    at_once: usize,
    /// Tasks that had enough since.
    calm: u64,
    /// So often the same task had not enough though it was alone.
    in_vain: u32,
    /// Nothing is handed out: the run itself needs memory.
    halted: bool,
    /// Workers that are there, and of them those that keep nothing that they need not since the round began.
    workers: usize,
    tidied: usize,
    round: u64,
}

impl<Part, G: Gave> State<Part, G> {
    fn under_way(&self) -> usize {
        self.fronts.iter().map(Front::under_way).sum()
    }

    /// Memory was short: what waits is dropped, and every worker is to let go of what it does not need.
    fn shrink(&mut self, at_once: usize) {
        self.at_once = at_once.max(1);
        self.calm = 0;
        self.round += 1;
        self.tidied = 0;
        self.fronts.iter_mut().for_each(Front::drop_waiting);
    }
}

/// Hands tasks out and takes what they gave.
pub(super) struct Order<C: Cut, G: Gave> {
    state: Mutex<State<C::Part, G>>,
    /// There may be work.
    work: Condvar,
    /// A task is done, or a worker has tidied up.
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
                run: None,
                at_once: usize::MAX,
                calm: 0,
                in_vain: 0,
                halted: false,
                workers: 0,
                tidied: 0,
                round: 0,
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

    /// The next task, once there is one; None if there is nothing more to do. `tidy` lets go of memory that the worker does
    /// not need, where it is short.
    pub(super) fn take(&self, seat: &mut Seat, mut tidy: impl FnMut()) -> Option<Task<C::Part>> {
        let mut state = self.lock();
        if !std::mem::replace(&mut seat.taken, true) {
            state.workers += 1;
            seat.round = state.round;
            state.tidied += 1;
        }
        loop {
            if seat.round != state.round {
                seat.round = state.round;
                drop(state);
                tidy();
                state = self.lock();
                // Another round may have begun meanwhile.
                state.tidied += usize::from(seat.round == state.round);
                self.done.notify_all();
                self.work.notify_all();
                continue;
            }
            // What waits may have to be done again.
            if state.stopped || state.fronts.iter().all(Front::over) {
                return None;
            }
            let Some(at) = self.open(&state) else {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let alone = self.would_be_alone(&state);
            let front = &mut state.fronts[at];
            if let Some(place) = front.again() {
                let first = front.handed_out - front.places.len() as u64;
                front.places[place].1 = Place::UnderWay;
                return Some(Task {
                    front: at,
                    number: first + place as u64,
                    portion: front.places[place].0.clone(),
                    alone,
                });
            }
            match self.cuts[at].after(front.last.as_ref()) {
                Some(portion) => {
                    let number = front.handed_out;
                    front.handed_out += 1;
                    front.places.push_back((portion.clone(), Place::UnderWay));
                    front.last = Some(portion.clone());
                    return Some(Task {
                        front: at,
                        number,
                        portion,
                        alone,
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

    /// The front of which a task may be handed out: that which is furthest behind.
    fn open(&self, state: &State<C::Part, G>) -> Option<usize> {
        let under_way = state.under_way();
        if state.halted || under_way >= state.at_once {
            return None;
        }
        let fronts = state.fronts.iter().zip(&self.cuts);
        let waiting: u64 = fronts.map(|(front, cut)| front.waiting(cut.bytes())).sum();
        let open = state.fronts.iter().enumerate().filter(|(_, front)| {
            let again = front.again();
            if front.exhausted && again.is_none() {
                return false;
            }
            // What is wanted next, of what is to be done again too.
            let oldest = front.places.is_empty() || again == Some(0);
            let room =
                (again.is_some() || front.places.len() < self.window) && waiting < self.memory;
            match state.at_once {
                // Not before the run has come to the end of what it has.
                1 => oldest && front.asked && state.tidied >= state.workers,
                _ => room || oldest,
            }
        });
        open.min_by_key(|(_, front)| front.places.len())
            .map(|(at, _)| at)
    }

    /// Whether a task that is handed out now has all memory for itself but what the run needs, and what tasks gave that have
    /// failed: that is not dropped.
    fn would_be_alone(&self, state: &State<C::Part, G>) -> bool {
        state.at_once == 1 && state.under_way() == 0 && !state.fronts.iter().any(Front::waits)
    }

    /// Gives a task back for which there was no memory, to be done when there is more; false if there never will be.
    pub(super) fn put_back(&self, task: &Task<C::Part>) -> bool {
        let mut state = self.lock();
        state.in_vain += u32::from(task.alone);
        if state.in_vain > IN_VAIN {
            return false;
        }
        self.put(&mut state, task, Place::Again);
        let others = state.under_way();
        state.shrink(others);
        self.work.notify_all();
        self.done.notify_all();
        true
    }

    /// What a task gave; behind one that failed nothing comes.
    pub(super) fn give(&self, task: &Task<C::Part>, gave: G) {
        let mut state = self.lock();
        let front = &mut state.fronts[task.front];
        let first = front.handed_out - front.places.len() as u64;
        front.bytes += gave.bytes();
        front.exhausted |= gave.has_failed();
        self.put(&mut state, task, Place::Done(gave));
        state.in_vain = 0;
        if state.at_once < usize::MAX {
            state.calm += 1;
            if state.calm >= CALM {
                (state.at_once, state.calm) = (state.at_once + 1, 0);
            }
            self.work.notify_all();
            self.done.notify_all();
        }
        if task.number == first {
            self.tell(&state);
        }
    }

    fn put(&self, state: &mut State<C::Part, G>, task: &Task<C::Part>, place: Place<G>) {
        let front = &mut state.fronts[task.front];
        let first = front.handed_out - front.places.len() as u64;
        if let Some(own) = front.places.get_mut((task.number - first) as usize) {
            own.1 = place;
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
            let (lost, short) = (state.lost, state.at_once == 1);
            let own = &mut state.fronts[front];
            if let Some((part, error)) = own.failed.take() {
                if G::matters(&error) {
                    return Given::Failed(Some(error));
                }
                // Nobody takes any more what failed: the task is done again without it.
                own.places.push_front((part, Place::Again));
                own.exhausted = false;
                self.work.notify_all();
            }
            if own.places.is_empty() && own.exhausted {
                return Given::End;
            }
            if let Some((_, Place::Done(_))) = own.places.front()
                && let Some((part, Place::Done(mut parcel))) = own.places.pop_front()
            {
                own.bytes -= parcel.bytes();
                own.failed = parcel.take_error().map(|error| (part, error));
                own.asked = false;
                self.work.notify_all();
                return Given::Parcel(parcel);
            }
            own.asked = true;
            if short {
                self.work.notify_all();
            }
            if lost {
                return Given::Failed(None);
            }
            if waited || state.stopped {
                return Given::NotYet;
            }
            (state, _) = self
                .done
                .wait_timeout(state, LOOK)
                .unwrap_or_else(PoisonError::into_inner);
            waited = true;
        }
    }

    /// Gives the run all memory that workers do not need: they finish or give up what they are at, and what waits is done
    /// again. Nothing more is handed out until [`go_on`](Self::go_on). Who is at work may wait for what the run holds, as
    /// the interpreter's lock: so it is not waited for longer than some seconds.
    pub(super) fn make_room(&self) {
        let mut state = self.lock();
        state.halted = true;
        state.shrink(1);
        self.work.notify_all();
        for _ in 0..MOST_LOOKS {
            let tidy = state.under_way() == 0 && state.tidied >= state.workers;
            if tidy || state.stopped || state.lost {
                break;
            }
            (state, _) = self
                .done
                .wait_timeout(state, LOOK)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.fronts.iter_mut().for_each(Front::drop_waiting);
    }

    /// Hands tasks out again.
    pub(super) fn go_on(&self) {
        self.lock().halted = false;
        self.work.notify_all();
    }

    /// A worker goes.
    pub(super) fn leave(&self, seat: &Seat) {
        let mut state = self.lock();
        state.workers -= usize::from(seat.taken);
        state.tidied -= usize::from(seat.taken && seat.round == state.round).min(state.tidied);
        self.done.notify_all();
        self.work.notify_all();
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

    /// What tasks failed with all of which was taken that came before.
    pub(super) fn take_failed(&self) -> Vec<G::Error> {
        let mut state = self.lock();
        let failed = state.fronts.iter_mut();
        let failed = failed.filter_map(|front| Some(front.failed.take()?.1));
        failed.filter(G::matters).collect()
    }
}
