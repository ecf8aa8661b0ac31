//! `populate`: mapped; a thread fills the page tables ahead, so readers do not fault.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::{BufferKind, SigSeg};
use isochrony_system::page_cache;

use super::{DataPath, IoStrategy, StartError, Strategy};
use crate::error::IoError;
use crate::scan::{
    Fallback, PieceIter, PrefetchThread, Prefetcher, READ_AHEAD_BYTES, ReadOutcome, ScanSpec,
    TaskReader,
};
use crate::source::SampleSource;

pub(crate) struct PopulateStrategy;

impl IoStrategy for PopulateStrategy {
    fn name(&self) -> &'static str {
        "populate"
    }

    fn piece_bytes(&self) -> u64 {
        4 << 20
    }

    fn data_path(&self) -> DataPath {
        DataPath::MAPPED
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        let thread = match scan.pieces(scan.piece).nth(1) {
            Some(_) => {
                // Short steps, so the thread can end soon.
                let step = self.piece_bytes() / scan.source.dtype().size() as u64;
                let pieces = scan.pieces(scan.piece.min(step.cast_signed()));
                Some(populate_ahead(&scan.source, pieces, READ_AHEAD_BYTES)?)
            }
            None => None,
        };
        Ok(Arc::new(PopulatedScan {
            source: scan.source,
            thread,
        }))
    }
}

pub(super) fn populate_ahead(
    source: &Arc<dyn SampleSource>,
    pieces: PieceIter,
    limit: u64,
) -> io::Result<PrefetchThread> {
    let source = source.clone();
    // Its reader gets the error, and may need nothing after it.
    PrefetchThread::start(pieces, limit, move |piece| {
        source.read(piece).is_ok_and(|segment| populate(&segment))
    })
}

/// False if not supported.
fn populate(segment: &SigSeg) -> bool {
    // An unreadable page faults later, with its own error.
    segment
        .buffers()
        .filter(|buffer| buffer.kind() == BufferKind::Mapped)
        .all(|buffer| page_cache::populate(buffer.bytes()).unwrap_or(true))
}

#[derive(Debug)]
struct PopulatedScan {
    source: Arc<dyn SampleSource>,
    thread: Option<PrefetchThread>,
}

impl Prefetcher for PopulatedScan {
    fn begin_task(self: Arc<Self>, _task: u64, _parts: &[Range<i64>]) -> Box<dyn TaskReader> {
        Box::new(PopulatedReader(self))
    }
}

#[derive(Debug)]
struct PopulatedReader(Arc<PopulatedScan>);

impl TaskReader for PopulatedReader {
    fn read(&mut self, range: &Range<i64>) -> Result<ReadOutcome, IoError> {
        if let Some(thread) = &self.0.thread {
            thread.consumed(range);
        }
        let read = self.0.source.read(range.clone());
        let segment = read.map_err(IoError::Source)?;
        // Cheap if the thread has been here.
        if populate(&segment) {
            return Ok(ReadOutcome::Read(segment));
        }
        Ok(ReadOutcome::FallBack(Fallback {
            strategy: Strategy::Mmap,
            why: "the system cannot fill page tables on request (Linux from 5.14 can)".into(),
        }))
    }
}
