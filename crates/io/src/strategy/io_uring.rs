//! `io_uring`: the kernel fills buffers ahead, with several requests in flight and no extra threads. [`PieceQueues`]
//! bounds them: [`QUEUE_DEPTH`] per reader, and by bytes.
//!
//! Where the kernel did not read completely, `pread` reads when needed, so errors are those of any other read.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_system::read_ring;

use super::{DataPath, IoStrategy, StartError, Strategy};
use crate::error::IoError;
use crate::piece_ring::{PieceRead, PieceRing};
use crate::scan::{
    Attempt, BufferPool, Fallback, PieceQueues, Prefetcher, QUEUE_DEPTH, QueueScan, ReadAheadQueue,
    RequestPlanner, ScanSpec, SourceFiles,
};

pub(crate) struct IoUringStrategy;

impl IoStrategy for IoUringStrategy {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn piece_bytes(&self) -> u64 {
        512 << 10
    }

    fn data_path(&self) -> DataPath {
        DataPath::COPIED
    }

    fn uses_io_uring(&self) -> bool {
        true
    }

    fn fallback(&self, _files: SourceFiles, _first: &Range<i64>) -> Option<Fallback> {
        Some(Fallback {
            strategy: Strategy::Read,
            why: refusal()?,
        })
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        start(scan, false)
    }
}

pub(super) fn start(scan: ScanSpec, direct: bool) -> Result<Arc<dyn Prefetcher>, StartError> {
    let ring = PieceRing::new().map_err(|error| {
        StartError::FallBack(Fallback {
            strategy: Strategy::Read,
            why: unavailable(&error),
        })
    })?;
    let mut requests = InFlightPieces {
        ring,
        planner: RequestPlanner::new(SourceFiles::new(&scan.source), direct),
        buffers: BufferPool::keeping(QUEUE_DEPTH * scan.readers),
        queues: PieceQueues::new(scan.source.clone(), scan.piece, scan.readers, scan.tasks),
    };
    requests.submit();
    Ok(QueueScan::shared(scan.source, Mutex::new(requests)))
}

pub(super) fn refusal() -> Option<String> {
    PieceRing::new().err().map(|error| unavailable(&error))
}

fn unavailable(error: &io::Error) -> String {
    let remedy = read_ring::remedy(error);
    format!("io_uring is not available: {error}{remedy}")
}

fn ring_failure(error: &io::Error) -> String {
    format!("its io_uring takes no requests any more: {error}")
}

#[derive(Debug)]
enum SubmittedPiece {
    InFlight(usize),
    /// Why the rest of the scan falls back from this piece on.
    NotRequested(String),
    Failed(IoError),
}

#[derive(Debug)]
struct InFlightPieces {
    ring: PieceRing,
    planner: RequestPlanner,
    buffers: BufferPool,
    queues: PieceQueues<SubmittedPiece>,
}

/// One ring for all readers.
impl ReadAheadQueue for Mutex<InFlightPieces> {
    fn begin_task(&self, task: u64, parts: &[Range<i64>]) -> u64 {
        let mut pieces = lock(self);
        let (queue, unwanted) = pieces.queues.begin(task, parts);
        pieces.abandon(unwanted);
        pieces.submit();
        queue
    }

    fn end_task(&self, queue: u64) {
        let mut pieces = lock(self);
        let unwanted = pieces.queues.end(queue);
        pieces.abandon(unwanted);
        pieces.submit();
    }

    fn take(&self, queue: u64, piece: &Range<i64>) -> Result<(Range<i64>, Attempt), IoError> {
        let read = lock(self).take(queue, piece)?;
        Ok((piece.clone(), read))
    }

    fn stop(&self) {
        let mut pieces = lock(self);
        let unwanted = pieces.queues.stop();
        pieces.abandon(unwanted);
    }
}

fn lock(pieces: &Mutex<InFlightPieces>) -> MutexGuard<'_, InFlightPieces> {
    pieces.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InFlightPieces {
    fn abandon(&mut self, unwanted: Vec<SubmittedPiece>) {
        for piece in unwanted {
            if let SubmittedPiece::InFlight(number) = piece {
                self.ring.abandon(number);
            }
        }
    }

    fn submit(&mut self) {
        let Self {
            ring,
            planner,
            buffers,
            queues,
        } = self;
        queues.fill(|_, piece| {
            let submitted = submit_piece(ring, planner, buffers, piece);
            submitted.unwrap_or_else(SubmittedPiece::Failed)
        });
    }

    fn take(&mut self, queue: u64, piece: &Range<i64>) -> Result<Attempt, IoError> {
        let is_next = self.queues.front(queue, piece).is_some();
        let requested = is_next.then(|| self.queues.take(queue)).flatten();
        let read = match requested {
            Some(SubmittedPiece::InFlight(number)) => self.complete(number),
            Some(SubmittedPiece::NotRequested(why)) => Ok(Attempt::FallBack(why)),
            Some(SubmittedPiece::Failed(error)) => Err(error),
            None => self.planner.read(piece, &mut self.buffers),
        };
        self.submit();
        read
    }

    fn complete(&mut self, number: usize) -> Result<Attempt, IoError> {
        let read = match self.ring.wait(number) {
            Ok(read) => read,
            Err(error) => return Ok(Attempt::FallBack(ring_failure(&error))),
        };
        let PieceRead {
            request,
            mut buffer,
        } = read.target;
        for (part, got) in request.parts.iter().zip(read.got) {
            if let Some(why) = part.complete(&mut buffer, got)? {
                return Ok(Attempt::FallBack(why));
            }
        }
        // The view keeps the buffer from the pool.
        let samples = request.view(&buffer);
        self.buffers.release(buffer);
        Ok(samples)
    }
}

fn submit_piece(
    ring: &mut PieceRing,
    planner: &mut RequestPlanner,
    buffers: &mut BufferPool,
    piece: &Range<i64>,
) -> Result<SubmittedPiece, IoError> {
    let request = match planner.plan(piece)? {
        Ok(request) => request,
        Err(why) => return Ok(SubmittedPiece::NotRequested(why)),
    };
    let buffer = buffers.take(request.room())?;
    Ok(match ring.submit(PieceRead { request, buffer }) {
        Ok(number) => SubmittedPiece::InFlight(number),
        Err(error) => SubmittedPiece::NotRequested(ring_failure(&error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_states_the_remedy() {
        let told = unavailable(&io::ErrorKind::Unsupported.into());
        assert!(told.starts_with("io_uring is not available"), "{told}");
        assert!(told.contains("Linux 5.6 or later"), "{told}");
    }
}
