use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::SigSeg;

use super::pieces::next_piece;
use super::{ReadOutcome, Reading, ScanReaders, TaskReader};
use crate::error::IoError;
use crate::source::SampleSource;
use crate::strategy::Strategy;

/// Reads parts of a source by a strategy.
#[derive(Debug)]
pub struct PieceReader {
    readers: Arc<ScanReaders>,
    task: Box<dyn TaskReader>,
    reading: Reading,
}

impl PieceReader {
    /// A reader of parts. Reads ahead if the pieces of each range between gaps come in order, as
    /// [`next_piece`](Self::next_piece) returns them.
    ///
    /// # Errors
    /// [`IoError::System`] if a thread cannot be started.
    pub fn new(
        source: &Arc<dyn SampleSource>,
        parts: &[Range<i64>],
        piece: i64,
        strategy: Strategy,
    ) -> Result<Self, IoError> {
        let alone = Box::new(std::iter::once(parts.to_vec()));
        let readers = ScanReaders::new(source, parts, piece, strategy, 1, alone)?;
        Ok(readers.begin(0, parts))
    }

    pub(super) fn of(
        readers: &Arc<ScanReaders>,
        task: Box<dyn TaskReader>,
        reading: Reading,
    ) -> Self {
        Self {
            readers: readers.clone(),
            task,
            reading,
        }
    }

    /// The strategy in use.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The next piece of the rest of a range.
    #[must_use]
    pub fn next_piece(&self, rest: &Range<i64>) -> Range<i64> {
        next_piece(rest, self.readers.piece())
    }

    /// The samples of a gap-free range.
    ///
    /// # Errors
    /// [`IoError::MissingSamples`], [`IoError::System`], or those of the source.
    pub fn read(&mut self, range: Range<i64>) -> Result<SigSeg, IoError> {
        let source = self.readers.source();
        if range.is_empty() || !source.can_read(&range) {
            return source.read(range).map_err(IoError::Source);
        }
        match self.task.read(&range)? {
            ReadOutcome::Read(segment) => Ok(segment),
            ReadOutcome::FallBack(fallback) => {
                let prefetcher = self.readers.fall_back(&fallback).clone();
                self.task = prefetcher.begin_task(0, &[]);
                self.reading.replace(&fallback);
                self.read(range)
            }
        }
    }
}
