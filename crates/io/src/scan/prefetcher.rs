//! Traits between readers and strategies.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use isochrony_segment::{Buffer, SigSeg};

use super::{PieceIter, TaskParts};
use crate::error::IoError;
use crate::source::SampleSource;
use crate::strategy::Strategy;

pub(crate) struct ScanSpec {
    pub(crate) source: Arc<dyn SampleSource>,
    pub(crate) parts: Vec<Range<i64>>,
    pub(crate) piece: i64,
    pub(crate) readers: usize,
    pub(crate) tasks: TaskParts,
}

impl ScanSpec {
    pub(crate) fn pieces(&self, piece: i64) -> PieceIter {
        PieceIter::new(self.source.clone(), self.parts.clone(), piece)
    }
}

pub(crate) trait Prefetcher: fmt::Debug + Send + Sync {
    /// The task may be unexpected.
    fn begin_task(self: Arc<Self>, task: u64, parts: &[Range<i64>]) -> Box<dyn TaskReader>;

    /// Stops reading ahead, since another strategy takes over.
    fn stop(&self) {}

    /// Threads and rings stay with the parent.
    fn survives_fork(&self) -> bool {
        true
    }
}

/// Dropped at the task's end.
pub(crate) trait TaskReader: fmt::Debug + Send {
    /// Reads a contiguous, non-empty range.
    fn read(&mut self, range: &Range<i64>) -> Result<ReadOutcome, IoError>;
}

pub(crate) enum ReadOutcome {
    Read(SigSeg),
    /// Another strategy reads the rest of the scan.
    FallBack(Fallback),
}

impl ReadOutcome {
    pub(crate) fn as_stored(
        source: &Arc<dyn SampleSource>,
        range: &Range<i64>,
    ) -> Result<Self, IoError> {
        let read = source.read(range.clone()).map_err(IoError::Source)?;
        Ok(Self::Read(read))
    }

    pub(crate) fn copied(
        source: &Arc<dyn SampleSource>,
        range: &Range<i64>,
        buffer: Buffer,
    ) -> Result<Self, IoError> {
        let (dtype, stream) = (source.dtype(), source.stream());
        Ok(Self::Read(SigSeg::new(buffer, range.start, dtype, stream)?))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Fallback {
    pub(crate) strategy: Strategy,
    pub(crate) why: String,
}

#[derive(Debug)]
pub(crate) struct SparePool<T>(Mutex<Vec<T>>);

impl<T> Default for SparePool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

// Never blocks: in a forked process, the lock's holder may not exist.
impl<T> SparePool<T> {
    pub(crate) fn take(&self) -> Option<T> {
        self.0.try_lock().ok()?.pop()
    }

    pub(crate) fn put(&self, spare: Option<T>) {
        if let Ok(mut spares) = self.0.try_lock() {
            spares.extend(spare);
        }
    }
}
