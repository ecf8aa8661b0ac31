//! Whose turn it is: the queue of n-buffering.
//!
//! Every place where only one worker may be at a time (reading, an ordered execution, a join, an output) is a [`Gate`].
//! A gate serves the turns 0, 1, 2, ... one at a time and in that order. What distinguishes the configurations of the
//! paper's table 2 is only where a turn comes from:
//!
//! - [`Gate::queue`] draws it on arrival: first come, first served, which no worker can be starved by;
//! - [`Gate::ordered`] takes the number that the buffer got when it was read: workers cannot overtake each other. This is
//!   the queue that the paper describes in section 3.2.2 and leaves out.
//!
//! Why it cannot deadlock: a buffer's number is drawn while reading, and each worker has one buffer. Who waits at an
//! ordered gate waits for buffers that were read before, who waits in a queue for workers that are inside or came before;
//! nobody holds a gate of the second kind while it waits for one of the first (`worker` sees to that). So the worker with
//! the oldest buffer can always go on.
//!
//! A gate can be stopped from a buffer on: turns of it and of later ones are given to nobody any more, earlier ones are,
//! so that what comes before an error is still written.
//!
//! Nothing here knows threads' work or I/O; `tests/loom_turns.rs` runs this file through every interleaving of a few
//! threads with at most two preemptions.

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A place for one worker at a time.
pub(crate) struct Gate {
    state: Mutex<State>,
    /// At most as many workers wait as there are, and at most that many turns lie between the one that is served and the
    /// last that waits: with a condition for each turn modulo their number, only whose turn it is gets woken.
    turn_came: Box<[Condvar]>,
}

struct State {
    /// The next turn that is drawn on arrival.
    drawn: u64,
    /// Whose turn it is.
    serving: u64,
    /// The first buffer that is not let in any more.
    stopped_from: Option<u64>,
}

/// The right to be inside; leaves when it is dropped, also by a panic.
#[must_use]
pub(crate) struct Turn<'g> {
    gate: &'g Gate,
}

impl Gate {
    /// A gate for so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        let state = State {
            drawn: 0,
            serving: 0,
            stopped_from: None,
        };
        Self {
            state: Mutex::new(state),
            turn_came: (0..workers.max(1)).map(|_| Condvar::new()).collect(),
        }
    }

    /// Waits behind those who came before. None if the gate is stopped for this buffer; a worker that has none yet gives
    /// none, and is refused as soon as anything is stopped.
    pub(crate) fn queue(&self, buffer: Option<u64>) -> Option<Turn<'_>> {
        let mut state = self.lock();
        let turn = state.drawn;
        state.drawn += 1;
        // Also where it is stopped: later turns come only after this one.
        while state.serving != turn {
            state = self.wait(state, turn);
        }
        let refused = state.refuses(buffer);
        drop(state);
        // Dropped, the turn goes to the next.
        let turn = Turn { gate: self };
        (!refused).then_some(turn)
    }

    /// How many have come to the queue.
    #[cfg(test)]
    #[allow(dead_code)] // Of the tests, loom's ask for it.
    pub(crate) fn drawn(&self) -> u64 {
        self.lock().drawn
    }

    /// Waits until all earlier buffers have been inside. None if the gate is stopped for this one.
    pub(crate) fn ordered(&self, buffer: u64) -> Option<Turn<'_>> {
        let mut state = self.lock();
        loop {
            if state.refuses(Some(buffer)) {
                return None;
            }
            if state.serving == buffer {
                return Some(Turn { gate: self });
            }
            state = self.wait(state, buffer);
        }
    }

    /// From now on this buffer and later ones are not let in.
    pub(crate) fn stop(&self, from: u64) {
        let mut state = self.lock();
        let earliest = state.stopped_from.map_or(from, |before| before.min(from));
        state.stopped_from = Some(earliest);
        drop(state);
        for condition in &self.turn_came {
            condition.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked, and each change of the state is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn condition(&self, turn: u64) -> &Condvar {
        &self.turn_came[(turn % self.turn_came.len() as u64) as usize]
    }

    fn wait<'g>(&'g self, state: MutexGuard<'g, State>, turn: u64) -> MutexGuard<'g, State> {
        self.condition(turn)
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refuses(&self, buffer: Option<u64>) -> bool {
        self.stopped_from
            .is_some_and(|from| buffer.is_none_or(|buffer| buffer >= from))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.serving += 1;
        let next = state.serving;
        drop(state);
        // All: modulo the number of workers two may share a condition for the moment in which one is about to leave.
        self.gate.condition(next).notify_all();
    }
}
