//! Threads that read pieces ahead of a scan, each with one blocking request.
//!
//! ```text
//!  readers ── begin, take ──▶ state ◀── next piece ── threads ── filler ──▶ disk, server
//!     ▲                       queues, todo               │
//!     └──── done (condvar) ─────────────────────────────┘   work (condvar): threads wait for pieces
//! ```
//!
//! Threads serve requests in order. In [`PieceQueues`], a piece counts from its request until its reader takes it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use isochrony_runtime::{Interrupt, POLL_INTERVAL, poll_stop, start_helper, stoppable_waits};

use super::{Attempt, BufferPool, PieceQueues, QUEUE_DEPTH, ReadAheadQueue};
use crate::error::IoError;
use crate::owner_process::OwnerProcess;

pub(crate) trait PieceFiller {
    fn fill(&mut self, piece: &Range<i64>, buffers: &Mutex<BufferPool>)
    -> Result<Attempt, IoError>;

    /// Pieces to request ahead, if changed; asked after each.
    fn depth(&mut self) -> Option<usize> {
        None
    }
}

pub(crate) type MakeFiller = Box<dyn Fn() -> Box<dyn PieceFiller> + Send + Sync>;

#[derive(Debug)]
pub(crate) enum PieceState {
    /// A thread reads it or will.
    Requested,
    /// None: its thread panicked.
    Read(Option<Result<Attempt, IoError>>),
}

#[derive(Debug)]
struct QueueState {
    queues: PieceQueues<PieceState>,
    /// Pieces for no thread yet, by ticket, oldest first.
    todo: VecDeque<(u64, Range<i64>)>,
    stopped: bool,
}

impl QueueState {
    fn request(&mut self) {
        let todo = &mut self.todo;
        self.queues.fill(|ticket, piece| {
            todo.push_back((ticket, piece.clone()));
            PieceState::Requested
        });
    }
}

struct SharedPieces {
    state: Mutex<QueueState>,
    buffers: Mutex<BufferPool>,
    filler: MakeFiller,
    work: Condvar,
    done: Condvar,
}

pub(crate) struct ReadThreads {
    shared: Arc<SharedPieces>,
    threads: Vec<JoinHandle<()>>,
    owner: OwnerProcess,
    /// Cancels waits for pieces that are not needed.
    interrupt: Interrupt,
}

impl fmt::Debug for ReadThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.threads.len();
        f.debug_struct("ReadThreads")
            .field("threads", &threads)
            .finish_non_exhaustive()
    }
}

impl ReadThreads {
    pub(crate) fn start(
        queues: PieceQueues<PieceState>,
        threads: usize,
        filler: MakeFiller,
    ) -> io::Result<Self> {
        let mut started = Self::without_threads(queues, filler);
        started.shared.lock().request();
        for _ in 0..threads {
            let (shared, interrupt) = (started.shared.clone(), started.interrupt.clone());
            let thread = start_helper("read", move || {
                stoppable_waits(move || interrupt.is_requested(), || shared.work());
            })?;
            started.threads.push(thread);
        }
        Ok(started)
    }

    fn without_threads(queues: PieceQueues<PieceState>, filler: MakeFiller) -> Self {
        let shared = Arc::new(SharedPieces {
            buffers: Mutex::new(BufferPool::keeping(QUEUE_DEPTH * queues.readers())),
            state: Mutex::new(QueueState {
                queues,
                todo: VecDeque::new(),
                stopped: false,
            }),
            filler,
            work: Condvar::new(),
            done: Condvar::new(),
        });
        Self {
            shared,
            threads: Vec::new(),
            owner: OwnerProcess::current(),
            interrupt: Interrupt::default(),
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut QueueState) -> T) -> T {
        let mut state = self.shared.lock();
        let result = change(&mut state);
        state.request();
        drop(state);
        self.shared.work.notify_all();
        result
    }

    /// None if the piece is not next in its queue, or its thread panicked.
    fn wait(
        &self,
        queue: u64,
        piece: &Range<i64>,
    ) -> Option<(Range<i64>, Result<Attempt, IoError>)> {
        let mut state = self.shared.lock();
        let range = loop {
            let (range, front) = state.queues.front(queue, piece)?;
            if !matches!(front, PieceState::Requested) {
                break range;
            }
            // Without the lock, since the callback may be slow.
            drop(state);
            if poll_stop() {
                return Some((range, Err(IoError::Interrupted)));
            }
            state = self.shared.lock();
            let (_, front) = state.queues.front(queue, piece)?;
            if !matches!(front, PieceState::Requested) {
                continue;
            }
            let waited = self.shared.done.wait_timeout(state, POLL_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        let read = state.queues.take(queue)?;
        state.request();
        drop(state);
        self.shared.work.notify_all();
        match read {
            PieceState::Read(read) => Some((range, read?)),
            PieceState::Requested => None,
        }
    }
}

impl ReadAheadQueue for ReadThreads {
    fn begin_task(&self, task: u64, parts: &[Range<i64>]) -> u64 {
        self.change(|state| state.queues.begin(task, parts).0)
    }

    fn end_task(&self, queue: u64) {
        self.change(|state| state.queues.end(queue));
    }

    fn take(&self, queue: u64, piece: &Range<i64>) -> Result<(Range<i64>, Attempt), IoError> {
        match self.wait(queue, piece) {
            Some((request, read)) => Ok((request, read?)),
            None => {
                // Read now, in this thread.
                let read = (self.shared.filler)().fill(piece, &Mutex::default())?;
                Ok((piece.clone(), read))
            }
        }
    }

    fn stop(&self) {
        self.change(|state| state.queues.stop());
        // Else readers would wait for ever.
        self.shared.done.notify_all();
    }
}

impl SharedPieces {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut filler = (self.filler)();
        while let Some((ticket, piece)) = self.next() {
            let fill = || filler.fill(&piece, &self.buffers);
            let read = catch_unwind(AssertUnwindSafe(fill));
            let depth = filler.depth();
            let mut state = self.lock();
            if let Some(depth) = depth {
                state.queues.set_depth(depth);
            }
            if let Some(slot) = state.queues.of(ticket) {
                *slot = PieceState::Read(read.ok());
            }
            drop(state);
            self.done.notify_all();
        }
    }

    /// Waits for a needed piece; None at the end.
    fn next(&self) -> Option<(u64, Range<i64>)> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            while let Some((ticket, piece)) = state.todo.pop_front() {
                if state.queues.of(ticket).is_some() {
                    return Some((ticket, piece));
                }
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        if self.owner.check().is_err() {
            // A forked process has no threads to join, nor to release their locks.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.interrupt.request();
        self.shared.lock().stopped = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // It ends after its current piece, or at once if that is a wait.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
