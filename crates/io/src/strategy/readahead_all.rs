//! `readahead_all`: mapped; a thread advises the whole scan.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use isochrony_system::memory::available_memory;

use super::{DataPath, IoStrategy, StartError};
use crate::error::IoError;
use crate::scan::{
    PieceIter, PrefetchThread, Prefetcher, READ_AHEAD_BYTES, ReadAdvice, ReadOutcome, ScanSpec,
    SourceFiles, TaskReader,
};
use crate::source::SampleSource;

pub(crate) struct ReadaheadAllStrategy;

impl IoStrategy for ReadaheadAllStrategy {
    fn name(&self) -> &'static str {
        "readahead_all"
    }

    fn piece_bytes(&self) -> u64 {
        4 << 20
    }

    fn data_path(&self) -> DataPath {
        DataPath::MAPPED
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        // Beyond half of the free memory, read-ahead would evict earlier pages.
        let limit = (available_memory() / 2).max(READ_AHEAD_BYTES);
        let pieces = scan.pieces(scan.piece);
        Ok(Arc::new(AdvisedScan {
            thread: advise_ahead(&scan.source, pieces, limit)?,
            source: scan.source,
        }))
    }
}

pub(super) fn advise_ahead(
    source: &Arc<dyn SampleSource>,
    pieces: PieceIter,
    limit: u64,
) -> io::Result<PrefetchThread> {
    let mut advice = ReadAdvice::new(SourceFiles::new(source));
    PrefetchThread::start(pieces, limit, move |piece| {
        advice.request(piece);
        true
    })
}

#[derive(Debug)]
struct AdvisedScan {
    source: Arc<dyn SampleSource>,
    thread: PrefetchThread,
}

impl Prefetcher for AdvisedScan {
    fn begin_task(self: Arc<Self>, _task: u64, _parts: &[Range<i64>]) -> Box<dyn TaskReader> {
        Box::new(AdvisedReader(self))
    }
}

#[derive(Debug)]
struct AdvisedReader(Arc<AdvisedScan>);

impl TaskReader for AdvisedReader {
    fn read(&mut self, range: &Range<i64>) -> Result<ReadOutcome, IoError> {
        self.0.thread.consumed(range);
        ReadOutcome::as_stored(&self.0.source, range)
    }
}
