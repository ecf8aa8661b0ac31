//! What a strategy does for a scan: the traits between readers and strategies.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use isochrony_segment::{Buffer, SigSeg};

use super::{PieceIter, TaskParts};
use crate::error::IoError;
use crate::source::SampleSource;
use crate::strategy::Strategy;

/// A scan that is about to start.
pub(crate) struct ScanSpec {
    pub(crate) source: Arc<dyn SampleSource>,
    /// All that is read.
    pub(crate) parts: Vec<Range<i64>>,
    /// Samples of a piece, at most.
    pub(crate) piece: i64,
    /// How many readers there are at a time.
    pub(crate) readers: usize,
    pub(crate) tasks: TaskParts,
}

impl ScanSpec {
    /// The pieces of the scan, of at most `piece` samples.
    pub(crate) fn pieces(&self, piece: i64) -> PieceIter {
        PieceIter::new(self.source.clone(), self.parts.clone(), piece)
    }
}

/// A strategy at work on one scan: reads ahead for all of its tasks.
pub(crate) trait Prefetcher: fmt::Debug + Send + Sync {
    /// A reader of one task, which may be another than was expected.
    fn begin_task(self: Arc<Self>, task: u64, parts: &[Range<i64>]) -> Box<dyn TaskReader>;

    /// Stops reading ahead: another strategy takes over.
    fn stop(&self) {}

    /// Whether a forked process can go on with it. Threads and rings stay with the parent.
    fn survives_fork(&self) -> bool {
        true
    }
}

/// A strategy at work on one task. Dropped at the task's end.
pub(crate) trait TaskReader: fmt::Debug + Send {
    /// The samples of a contiguous, non-empty range of the source.
    fn read(&mut self, range: &Range<i64>) -> Result<ReadOutcome, IoError>;
}

/// What became of reading a range.
pub(crate) enum ReadOutcome {
    Read(SigSeg),
    /// The strategy cannot; the rest of the scan is read by another.
    FallBack(Fallback),
}

impl ReadOutcome {
    /// Samples as the source has them.
    pub(crate) fn as_stored(
        source: &Arc<dyn SampleSource>,
        range: &Range<i64>,
    ) -> Result<Self, IoError> {
        let read = source.read(range.clone()).map_err(IoError::Source)?;
        Ok(Self::Read(read))
    }

    /// Samples that were copied into a buffer.
    pub(crate) fn copied(
        source: &Arc<dyn SampleSource>,
        range: &Range<i64>,
        buffer: Buffer,
    ) -> Result<Self, IoError> {
        let (dtype, stream) = (source.dtype(), source.stream());
        Ok(Self::Read(SigSeg::new(buffer, range.start, dtype, stream)?))
    }
}

/// The strategy that takes another's place, and why.
#[derive(Debug, Clone)]
pub(crate) struct Fallback {
    pub(crate) strategy: Strategy,
    pub(crate) why: String,
}

/// What readers leave to the next ones: open files and buffers.
#[derive(Debug)]
pub(crate) struct Spares<T>(Mutex<Vec<T>>);

impl<T> Default for Spares<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

// Never waits: in a forked process whoever holds the lock may not be there.
impl<T> Spares<T> {
    pub(crate) fn take(&self) -> Option<T> {
        self.0.try_lock().ok()?.pop()
    }

    pub(crate) fn put(&self, spare: Option<T>) {
        if let Ok(mut spares) = self.0.try_lock() {
            spares.extend(spare);
        }
    }
}
