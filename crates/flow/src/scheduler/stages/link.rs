//! A bounded queue from one thread to another, of batches of events.
//!
//! The writer sends what a burst gave as one batch, so a lock is taken once for some hundred thousand samples. A batch
//! that finds the link empty is accepted whatever its size; otherwise all batches together have at most `capacity`
//! bytes. Independent of what an event is, so that a model checker can try all interleavings (`tests/loom_link.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Consecutive events.
pub(crate) struct Batch<E> {
    pub(crate) events: Vec<E>,
    pub(crate) bytes: u64,
    /// Samples that the writer's sources gave up to here.
    pub(crate) delivered: u64,
}

/// Why a batch was not accepted.
pub(crate) enum Refused<E> {
    /// There is no room: see [`Link::wait_for_room`].
    Full(Batch<E>),
    /// The reader wants no more.
    Closed,
}

pub(crate) enum Received<E> {
    Batch(Batch<E>),
    /// Nothing now.
    Nothing,
    /// Nothing follows.
    End,
}

/// Wakes the reader.
pub(crate) type Waker = Arc<dyn Fn() + Send + Sync>;

struct State<E> {
    batches: VecDeque<Batch<E>>,
    bytes: u64,
    waker: Option<Waker>,
    /// For a writer that does other work meanwhile: what wakes it when there is room.
    writer_waker: Option<Waker>,
    /// The reader wants no more.
    closed: bool,
    /// Nothing follows.
    ended: bool,
    /// Everything is accepted.
    unbounded: bool,
    /// The writer does not exceed the bound by more than one batch.
    trusts_writer: bool,
}

pub(crate) struct Link<E> {
    state: Mutex<State<E>>,
    room: Condvar,
    capacity: u64,
}

impl<E> Link<E> {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            state: Mutex::new(State {
                batches: VecDeque::new(),
                bytes: 0,
                waker: None,
                writer_waker: None,
                closed: false,
                ended: false,
                unbounded: false,
                trusts_writer: false,
            }),
            room: Condvar::new(),
            capacity,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the batches in it leave room for no more.
    fn is_full(&self, state: &State<E>, more: u64) -> bool {
        !state.batches.is_empty()
            && !state.unbounded
            && state.bytes.saturating_add(more) > self.capacity
    }

    /// Called by the writer.
    pub(crate) fn send(&self, batch: Batch<E>) -> Result<(), Refused<E>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refused::Closed);
        }
        if !state.trusts_writer && self.is_full(&state, batch.bytes) {
            return Err(Refused::Full(batch));
        }
        state.bytes += batch.bytes;
        state.batches.push_back(batch);
        // A reader that sleeps has found it empty.
        let waker = state.waker.clone().filter(|_| state.batches.len() == 1);
        drop(state);
        if let Some(wake) = waker {
            wake();
        }
        Ok(())
    }

    /// Whether it accepts a batch of one byte, if a batch may also exceed the capacity.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.lock();
        state.closed || !self.is_full(&state, 1)
    }

    /// Blocks the writer until `bytes` more have room, or the link is closed.
    pub(crate) fn wait_for_room(&self, bytes: u64) {
        let mut state = self.lock();
        while !state.closed && self.is_full(&state, bytes) {
            let waited = self.room.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Nothing follows. Called by the writer.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let waker = state.waker.clone();
        drop(state);
        if let Some(wake) = waker {
            wake();
        }
    }

    /// The oldest batch. Called by the reader.
    pub(crate) fn receive(&self) -> Received<E> {
        let mut state = self.lock();
        let Some(batch) = state.batches.pop_front() else {
            return match state.ended {
                true => Received::End,
                false => Received::Nothing,
            };
        };
        state.bytes -= batch.bytes;
        let waker = state.writer_waker.clone();
        drop(state);
        self.room.notify_all();
        if let Some(wake) = waker {
            wake();
        }
        Received::Batch(batch)
    }

    /// Sets what wakes the reader when a batch arrives, or the end.
    pub(crate) fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    /// The reader wants no more: what is in it is dropped.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.bytes = 0;
        let dropped = std::mem::take(&mut state.batches);
        drop(state);
        drop(dropped);
        self.room.notify_all();
    }

    /// Every batch is accepted: the writer asks [`has_room`](Self::has_room) before it makes one, and is woken.
    pub(crate) fn trust_writer(&self, waker: Waker) {
        let mut state = self.lock();
        (state.trusts_writer, state.writer_waker) = (true, Some(waker));
    }

    /// Accepts everything from now on.
    pub(crate) fn remove_bound(&self) {
        self.lock().unbounded = true;
        self.room.notify_all();
    }

    /// Bytes in it.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }
}
