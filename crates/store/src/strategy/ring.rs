//! A ring of buffers that threads fill past the page cache, ahead of a scan.
//!
//! Threads read pieces in the order in which they are asked for ([`Lanes`], which bound memory); those who scan take them, each
//! from its own lane in order.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::files::Files;
use super::lanes::{DEEP, Lanes};
use super::pool::Pool;
use super::requests::{Attempt, Requests};
use super::system::Process;
use crate::error::StoreError;
use crate::selection::Stretch;
use crate::signal::Signal;

/// Requests that the disk has at once for each reader: one of them is on its way while another's end is waited for.
const THREADS: usize = 2;

/// Most of them for all readers.
const MOST_THREADS: usize = 8;

/// What became of a piece.
#[derive(Debug)]
pub(super) enum Slot {
    /// A thread reads it, or will.
    Asked,
    /// None: the thread was lost over it.
    Read(Option<Result<Attempt, StoreError>>),
}

#[derive(Debug)]
struct State {
    lanes: Lanes<Slot>,
    /// What no thread has begun to read yet, by ticket, oldest first.
    todo: VecDeque<(u64, Range<i64>)>,
    stopped: bool,
}

impl State {
    fn ask(&mut self) {
        let todo = &mut self.todo;
        self.lanes.fill(|ticket, piece| {
            todo.push_back((ticket, piece.clone()));
            Slot::Asked
        });
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    pool: Mutex<Pool>,
    /// There may be something to read.
    work: Condvar,
    /// Something was read.
    done: Condvar,
}

/// Reads the pieces of a scan ahead of it.
#[derive(Debug)]
pub(super) struct Ring {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    owner: Process,
}

impl Ring {
    /// Begins at once, for so many readers.
    pub(super) fn begin(
        signal: &Signal,
        lanes: Lanes<Slot>,
        readers: usize,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                lanes,
                todo: VecDeque::new(),
                stopped: false,
            }),
            pool: Mutex::new(Pool::keeping(DEEP * readers)),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        shared.lock().ask();
        let mut ring = Self {
            shared,
            threads: Vec::new(),
            owner: Process::current(),
        };
        for _ in 0..(THREADS * readers).min(MOST_THREADS) {
            let (shared, files) = (ring.shared.clone(), Files::new(signal.clone()));
            let thread = std::thread::Builder::new().name("isochrony-direct".into());
            ring.threads.push(thread.spawn(move || shared.work(files))?);
        }
        Ok(ring)
    }

    /// A task begins; gives its lane.
    pub(super) fn begin_task(&self, number: u64, parts: &[Stretch]) -> u64 {
        self.changed(|state| state.lanes.begin(number, parts).0)
    }

    /// A task is over.
    pub(super) fn end_task(&self, lane: u64) {
        self.changed(|state| state.lanes.end(lane));
    }

    /// Nothing is read ahead any more.
    pub(super) fn stop(&self) {
        self.changed(|state| state.lanes.stop());
    }

    fn changed<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.lock();
        let gave = change(&mut state);
        state.ask();
        drop(state);
        self.shared.work.notify_all();
        gave
    }

    /// The samples of a piece; None if it is not the one that is next in its lane, or a thread is gone.
    pub(super) fn take(
        &self,
        lane: u64,
        piece: &Range<i64>,
    ) -> Option<Result<Attempt, StoreError>> {
        let mut state = self.shared.lock();
        while matches!(state.lanes.front(lane, piece)?, Slot::Asked) {
            state = self
                .shared
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let read = state.lanes.take(lane)?;
        state.ask();
        drop(state);
        self.shared.work.notify_all();
        match read {
            Slot::Read(read) => read,
            Slot::Asked => None,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread of the ring does.
    fn work(&self, files: Files) {
        let mut requests = Requests::new(files, true);
        while let Some((ticket, piece)) = self.next() {
            let read = catch_unwind(AssertUnwindSafe(|| self.read(&mut requests, &piece)));
            let mut state = self.lock();
            if let Some(slot) = state.lanes.of(ticket) {
                *slot = Slot::Read(read.ok());
            }
            drop(state);
            self.done.notify_all();
        }
    }

    /// Waits for something to read that somebody wants still; None at the end.
    fn next(&self) -> Option<(u64, Range<i64>)> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            while let Some((ticket, piece)) = state.todo.pop_front() {
                if state.lanes.of(ticket).is_some() {
                    return Some((ticket, piece));
                }
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn read(&self, requests: &mut Requests, piece: &Range<i64>) -> Result<Attempt, StoreError> {
        let plan = match requests.plan(piece)? {
            Ok(plan) => plan,
            Err(why) => return Ok(Attempt::Refused(why)),
        };
        let buffer = self.pool().take(plan.room())?;
        let (read, buffer) = plan.fill(buffer)?;
        self.pool().give(buffer);
        Ok(read)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.owner.check().is_err() {
            // Its threads are not here: they cannot be waited for, nor the locks that they may have held.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.shared.lock().stopped = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // It ends with the piece that it reads now.
            let _ = thread.join();
        }
    }
}
