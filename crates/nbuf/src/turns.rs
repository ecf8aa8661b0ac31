//! The queue of n-buffering: a ticket lock.
//!
//! Each place where one worker may be at a time (reading, an ordered execution, a join, an output) is a [`TurnLock`],
//! which serves turns 0, 1, 2, ... The configurations of the paper's table 2 differ only in where a turn comes from:
//!
//! - [`acquire_on_arrival`](TurnLock::acquire_on_arrival) draws it: first come, first served, so no worker starves;
//! - [`acquire_in_order`](TurnLock::acquire_in_order) takes the buffer's number, so workers cannot overtake each other
//!   (section 3.2.2 of the paper).
//!
//! No deadlock: a worker has one buffer, numbered when read. In stream order it waits for older buffers, on arrival for
//! earlier workers, and it holds no turn drawn on arrival while it waits in stream order (`worker` ensures this). So
//! the worker with the oldest buffer can always proceed.
//!
//! A stopped lock still admits earlier buffers, so what comes before an error is written.
//!
//! `tests/loom_turns.rs` checks all interleavings with at most two preemptions.

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct TurnLock {
    state: Mutex<TurnState>,
    /// One per turn modulo the number of workers, to wake only the next holder.
    turn_came: Box<[Condvar]>,
}

struct TurnState {
    next_drawn: u64,
    /// The turn that may hold the lock.
    serving: u64,
    stopped_from: Option<u64>,
}

/// The held lock. Dropping it, also by a panic, passes it on.
#[must_use]
pub(crate) struct Turn<'l> {
    lock: &'l TurnLock,
}

impl TurnLock {
    pub(crate) fn new(workers: usize) -> Self {
        let state = TurnState {
            next_drawn: 0,
            serving: 0,
            stopped_from: None,
        };
        Self {
            state: Mutex::new(state),
            turn_came: (0..workers.max(1)).map(|_| Condvar::new()).collect(),
        }
    }

    /// Waits for earlier arrivals. None if stopped for this buffer; without a buffer, if stopped at all.
    pub(crate) fn acquire_on_arrival(&self, buffer: Option<u64>) -> Option<Turn<'_>> {
        let mut state = self.lock();
        let turn = state.next_drawn;
        state.next_drawn += 1;
        // Waits even if it will be refused: later turns follow this one.
        while state.serving != turn {
            state = self.wait(state, turn);
        }
        let refused = state.refuses(buffer);
        drop(state);
        // If refused, the drop passes the lock on.
        let turn = Turn { lock: self };
        (!refused).then_some(turn)
    }

    #[cfg(test)]
    #[allow(dead_code)] // Used by the model check only.
    pub(crate) fn arrivals(&self) -> u64 {
        self.lock().next_drawn
    }

    /// Waits until earlier buffers have held the lock. None if stopped for this buffer.
    pub(crate) fn acquire_in_order(&self, buffer: u64) -> Option<Turn<'_>> {
        let mut state = self.lock();
        loop {
            if state.refuses(Some(buffer)) {
                return None;
            }
            if state.serving == buffer {
                return Some(Turn { lock: self });
            }
            state = self.wait(state, buffer);
        }
    }

    pub(crate) fn stop(&self, from: u64) {
        let mut state = self.lock();
        let earliest = state.stopped_from.map_or(from, |before| before.min(from));
        state.stopped_from = Some(earliest);
        drop(state);
        for condition in &self.turn_came {
            condition.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn condition(&self, turn: u64) -> &Condvar {
        &self.turn_came[(turn % self.turn_came.len() as u64) as usize]
    }

    fn wait<'l>(
        &'l self,
        state: MutexGuard<'l, TurnState>,
        turn: u64,
    ) -> MutexGuard<'l, TurnState> {
        self.condition(turn)
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnState {
    fn refuses(&self, buffer: Option<u64>) -> bool {
        self.stopped_from
            .is_some_and(|from| buffer.is_none_or(|buffer| buffer >= from))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.lock();
        state.serving += 1;
        let next = state.serving;
        drop(state);
        // All: two workers may share a condition while one is about to leave.
        self.lock.condition(next).notify_all();
    }
}
