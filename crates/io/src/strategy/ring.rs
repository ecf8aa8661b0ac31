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
use crate::error::IoError;
use crate::source::Source;
use crate::system::Process;

/// Requests that the disk has at once for each reader: one of them is on its way while another's end is waited for.
const THREADS: usize = 2;

/// Most of them for all readers.
pub(super) const MOST_THREADS: usize = 8;

/// What became of a piece.
#[derive(Debug)]
pub(super) enum Slot {
    /// A thread reads it, or will.
    Asked,
    /// None: the thread was lost over it.
    Read(Option<Result<Attempt, IoError>>),
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
    /// Begins at once, for so many readers of so many pieces.
    pub(super) fn begin(
        source: &Arc<dyn Source>,
        lanes: Lanes<Slot>,
        readers: usize,
        pieces: usize,
    ) -> std::io::Result<Self> {
        let mut ring = Self::of(lanes, readers);
        ring.shared.lock().ask();
        let threads = (THREADS * readers).min(MOST_THREADS).min(pieces.max(1));
        for _ in 0..threads {
            let (shared, files) = (ring.shared.clone(), Files::new(source));
            let thread = std::thread::Builder::new().name("isochrony-direct".into());
            ring.threads.push(thread.spawn(move || shared.work(files))?);
        }
        Ok(ring)
    }

    /// One without threads.
    fn of(lanes: Lanes<Slot>, readers: usize) -> Self {
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
        Self {
            shared,
            threads: Vec::new(),
            owner: Process::current(),
        }
    }

    /// A task begins; gives its lane.
    pub(super) fn begin_task(&self, number: u64, parts: &[Range<i64>]) -> u64 {
        self.changed(|state| state.lanes.begin(number, parts).0)
    }

    /// A task is over.
    pub(super) fn end_task(&self, lane: u64) {
        self.changed(|state| state.lanes.end(lane));
    }

    /// Nothing is read ahead any more.
    pub(super) fn stop(&self) {
        self.changed(|state| state.lanes.stop());
        // Who waits for a piece that no thread has begun to read waits for nothing now.
        self.shared.done.notify_all();
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
    pub(super) fn take(&self, lane: u64, piece: &Range<i64>) -> Option<Result<Attempt, IoError>> {
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

    fn read(&self, requests: &mut Requests, piece: &Range<i64>) -> Result<Attempt, IoError> {
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::test_source::TestSource;

    fn thousand() -> Arc<dyn Source> {
        TestSource::shared(Path::new("no such file"), 1_000, Vec::new())
    }

    #[test]
    fn a_short_range_needs_no_more_threads_than_it_has_pieces() {
        let source = thousand();
        let threads = |readers, pieces| {
            let lanes = Lanes::new(source.clone(), 100, readers, Box::new(std::iter::empty()));
            let ring = Ring::begin(&source, lanes, readers, pieces).unwrap();
            ring.threads.len()
        };
        assert_eq!([threads(1, 1), threads(4, 3)], [1, 3]);
        assert_eq!([threads(1, 100), threads(2, 100)], [THREADS, 2 * THREADS]);
        assert_eq!(threads(100, 100), MOST_THREADS);
    }

    #[test]
    fn who_waits_for_a_piece_is_let_go_when_nothing_is_read_ahead_any_more() {
        let source = thousand();
        let parts = vec![0..1_000];
        let tasks = Box::new(std::iter::once(parts.clone()));
        let lanes = Lanes::new(source, 100, 1, tasks);
        // Its threads are busy with what others read.
        let ring = Arc::new(Ring::of(lanes, 1));
        let lane = ring.begin_task(0, &parts);
        let (waits, (say, said)) = (ring.clone(), channel());
        let thread = std::thread::spawn(move || {
            let read = waits.take(lane, &(0..100));
            say.send(read.is_none()).unwrap();
        });
        let early = said.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "it did not wait");
        ring.stop();
        assert_eq!(said.recv_timeout(Duration::from_secs(60)), Ok(true));
        thread.join().unwrap();
    }
}
