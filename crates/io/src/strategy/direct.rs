//! `direct`: bypasses the page cache (`O_DIRECT`); threads fill buffers ahead.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::{DataPath, IoStrategy, StartError, Strategy};
use crate::error::IoError;
use crate::scan::{
    Attempt, BufferPool, Fallback, PieceFiller, PieceQueues, Prefetcher, QueueScan, ReadThreads,
    RequestPlanner, ScanSpec, SourceFiles,
};

/// While one waits, the disk has another's request.
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

    fn data_path(&self) -> DataPath {
        DataPath::DIRECT
    }

    fn fallback(&self, files: SourceFiles, first: &Range<i64>) -> Option<Fallback> {
        fallback(files, first)
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        // At most one thread per piece.
        let pieces = scan.pieces(scan.piece).take(MAX_THREADS).count();
        let threads = thread_count(scan.readers, pieces);
        let source = scan.source.clone();
        let queues = PieceQueues::new(scan.source, scan.piece, scan.readers, scan.tasks);
        let files = source.clone();
        let filler = move || -> Box<dyn PieceFiller> {
            let files = SourceFiles::new(&files);
            Box::new(DirectFiller(RequestPlanner::new(files, true)))
        };
        let threads = ReadThreads::start(queues, threads, Box::new(filler))?;
        Ok(QueueScan::shared(source, threads))
    }
}

fn thread_count(readers: usize, pieces: usize) -> usize {
    let threads = (THREADS_PER_READER * readers).min(MAX_THREADS);
    threads.min(pieces.max(1))
}

/// Replacement of direct reads if the file system refuses them.
pub(super) fn fallback(files: SourceFiles, first: &Range<i64>) -> Option<Fallback> {
    Some(Fallback {
        strategy: Strategy::Read,
        why: RequestPlanner::new(files, true).refusal(first)?,
    })
}

struct DirectFiller(RequestPlanner);

impl PieceFiller for DirectFiller {
    fn fill(
        &mut self,
        piece: &Range<i64>,
        buffers: &Mutex<BufferPool>,
    ) -> Result<Attempt, IoError> {
        let request = match self.0.plan(piece)? {
            Ok(request) => request,
            Err(why) => return Ok(Attempt::FallBack(why)),
        };
        let buffers = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = buffers().take(request.room())?;
        let (read, buffer) = request.fill(buffer)?;
        buffers().release(buffer);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_range_needs_no_more_threads_than_it_has_pieces() {
        assert_eq!([thread_count(1, 1), thread_count(4, 3)], [1, 3]);
        assert_eq!(thread_count(1, 0), 1);
        for readers in [1, 2] {
            assert_eq!(thread_count(readers, 100), readers * THREADS_PER_READER);
        }
        assert_eq!(thread_count(100, 100), MAX_THREADS);
    }
}
