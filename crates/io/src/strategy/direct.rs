//! `direct`: past the page cache (`O_DIRECT`), by threads that fill buffers ahead of the scan.
//!
//! ```text
//!  readers ── begin, take ──▶ state ◀── next piece ── threads ── pread ──▶ disk
//!     ▲                       queues, todo               │
//!     └──── done (condvar) ─────────────────────────────┘   work (condvar): threads wait for pieces
//! ```
//!
//! Threads read in the order of requests. [`PieceQueues`] bounds what is read ahead; a piece counts from its request
//! until its reader takes it.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use isochrony_runtime::unpinned;

use super::{CostModel, IoStrategy, StartError, Strategy};
use crate::error::IoError;
use crate::scan::{
    Attempt, BufferPool, Fallback, PieceQueues, Prefetcher, QUEUE_DEPTH, QueueScan, ReadAheadQueue,
    RequestPlanner, ScanSpec, SourceFiles,
};
use crate::source::SampleSource;
use crate::system::OwnerProcess;

/// Threads per reader: while one waits for its request, the disk has another's.
const THREADS_PER_READER: usize = 2;

const MAX_THREADS: usize = 8;

pub(crate) struct DirectStrategy;

impl IoStrategy for DirectStrategy {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn piece_bytes(&self) -> u64 {
        2 << 20
    }

    fn cost_model(&self) -> CostModel {
        CostModel::DIRECT
    }

    fn fallback(&self, files: SourceFiles, first: &Range<i64>) -> Option<Fallback> {
        fallback(files, first)
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        // No more threads than pieces.
        let pieces = scan.pieces(scan.piece).take(MAX_THREADS).count();
        let source = scan.source.clone();
        let queues = PieceQueues::new(scan.source, scan.piece, scan.readers, scan.tasks);
        let threads = ReadThreads::start(&source, queues, scan.readers, pieces)?;
        Ok(QueueScan::shared(source, threads))
    }
}

/// What replaces reads past the page cache where the file system refuses them.
pub(super) fn fallback(files: SourceFiles, first: &Range<i64>) -> Option<Fallback> {
    Some(Fallback {
        strategy: Strategy::Read,
        why: RequestPlanner::new(files, true).refusal(first)?,
    })
}

#[derive(Debug)]
enum PieceState {
    /// A thread reads it, or will.
    Requested,
    /// None: the thread panicked over it.
    Read(Option<Result<Attempt, IoError>>),
}

#[derive(Debug)]
struct QueueState {
    queues: PieceQueues<PieceState>,
    /// Pieces that no thread has begun, by ticket, oldest first.
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

#[derive(Debug)]
struct SharedPieces {
    state: Mutex<QueueState>,
    buffers: Mutex<BufferPool>,
    /// There may be something to read.
    work: Condvar,
    /// Something was read.
    done: Condvar,
}

#[derive(Debug)]
struct ReadThreads {
    source: Arc<dyn SampleSource>,
    shared: Arc<SharedPieces>,
    threads: Vec<JoinHandle<()>>,
    owner: OwnerProcess,
}

impl ReadThreads {
    fn start(
        source: &Arc<dyn SampleSource>,
        queues: PieceQueues<PieceState>,
        readers: usize,
        pieces: usize,
    ) -> io::Result<Self> {
        let mut started = Self::without_threads(source, queues, readers);
        started.shared.lock().request();
        let threads = THREADS_PER_READER * readers;
        for _ in 0..threads.min(MAX_THREADS).min(pieces.max(1)) {
            let (shared, files) = (started.shared.clone(), SourceFiles::new(source));
            let thread = std::thread::Builder::new().name("isochrony-direct".into());
            let thread = thread.spawn(unpinned(move || shared.work(files)))?;
            started.threads.push(thread);
        }
        Ok(started)
    }

    fn without_threads(
        source: &Arc<dyn SampleSource>,
        queues: PieceQueues<PieceState>,
        readers: usize,
    ) -> Self {
        let shared = Arc::new(SharedPieces {
            state: Mutex::new(QueueState {
                queues,
                todo: VecDeque::new(),
                stopped: false,
            }),
            buffers: Mutex::new(BufferPool::keeping(QUEUE_DEPTH * readers)),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        Self {
            source: source.clone(),
            shared,
            threads: Vec::new(),
            owner: OwnerProcess::current(),
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

    /// The samples of a piece; None if it is not next in its queue, or its thread panicked.
    fn wait(&self, queue: u64, piece: &Range<i64>) -> Option<Result<Attempt, IoError>> {
        let mut state = self.shared.lock();
        while matches!(state.queues.front(queue, piece)?, PieceState::Requested) {
            state = self
                .shared
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let read = state.queues.take(queue)?;
        state.request();
        drop(state);
        self.shared.work.notify_all();
        match read {
            PieceState::Read(read) => read,
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

    fn take(&self, queue: u64, piece: &Range<i64>) -> Result<Attempt, IoError> {
        self.wait(queue, piece).unwrap_or_else(|| {
            let files = SourceFiles::new(&self.source);
            RequestPlanner::new(files, true).read(piece, &mut BufferPool::default())
        })
    }

    fn stop(&self) {
        self.change(|state| state.queues.stop());
        // Readers of pieces that no thread has begun would wait for ever.
        self.shared.done.notify_all();
    }
}

impl SharedPieces {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn buffers(&self) -> MutexGuard<'_, BufferPool> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, files: SourceFiles) {
        let mut planner = RequestPlanner::new(files, true);
        while let Some((ticket, piece)) = self.next() {
            let read = catch_unwind(AssertUnwindSafe(|| self.read(&mut planner, &piece)));
            let mut state = self.lock();
            if let Some(slot) = state.queues.of(ticket) {
                *slot = PieceState::Read(read.ok());
            }
            drop(state);
            self.done.notify_all();
        }
    }

    /// Waits for a piece that somebody wants; None at the end.
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

    fn read(&self, planner: &mut RequestPlanner, piece: &Range<i64>) -> Result<Attempt, IoError> {
        let request = match planner.plan(piece)? {
            Ok(request) => request,
            Err(why) => return Ok(Attempt::FallBack(why)),
        };
        let buffer = self.buffers().take(request.room())?;
        let (read, buffer) = request.fill(buffer)?;
        self.buffers().release(buffer);
        Ok(read)
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        if self.owner.check().is_err() {
            // Its threads are not here to be joined, nor to release their locks.
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

    fn thousand() -> Arc<dyn SampleSource> {
        TestSource::shared(Path::new("no such file"), 1_000, Vec::new())
    }

    #[test]
    fn a_short_range_needs_no_more_threads_than_it_has_pieces() {
        let source = thousand();
        let threads = |readers, pieces| {
            let queues =
                PieceQueues::new(source.clone(), 100, readers, Box::new(std::iter::empty()));
            let started = ReadThreads::start(&source, queues, readers, pieces).unwrap();
            started.threads.len()
        };
        assert_eq!([threads(1, 1), threads(4, 3)], [1, 3]);
        assert_eq!(
            [threads(1, 100), threads(2, 100)],
            [THREADS_PER_READER, 2 * THREADS_PER_READER]
        );
        assert_eq!(threads(100, 100), MAX_THREADS);
    }

    #[test]
    fn who_waits_for_a_piece_is_let_go_when_nothing_is_read_ahead_any_more() {
        let source = thousand();
        let parts: Vec<_> = std::iter::once(0..1_000).collect();
        let tasks = Box::new(std::iter::once(parts.clone()));
        let queues = PieceQueues::new(source.clone(), 100, 1, tasks);
        // Its threads are busy with what others read.
        let threads = Arc::new(ReadThreads::without_threads(&source, queues, 1));
        let queue = threads.begin_task(0, &parts);
        let (waits, (say, said)) = (threads.clone(), channel());
        let thread = std::thread::spawn(move || {
            let read = waits.wait(queue, &(0..100));
            say.send(read.is_none()).unwrap();
        });
        let early = said.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "it did not wait");
        threads.stop();
        assert_eq!(said.recv_timeout(Duration::from_secs(60)), Ok(true));
        thread.join().unwrap();
    }
}
