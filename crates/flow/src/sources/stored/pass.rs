//! One pass over parts of a stored signal.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::StreamId;
use isochrony_store::{Reading, Signal, SignalReader};
use isochrony_time::{RunId, civil};

use super::contiguous::ContiguousRanges;
use super::skip::SkipMap;
use crate::plan::error::store_error;
use crate::sources::segment_cutter::SegmentCutter;
use crate::{Break, OpError, Source, SourceEvent};

pub(crate) type PreviousEnd = Option<(i64, u32)>;

pub(crate) struct StoredPass {
    pub(super) signal: Signal,
    pub(super) reader: SignalReader,
    pub(super) stream: StreamId,
    pub(super) total: u64,
    pub(super) ranges: ContiguousRanges,
    pub(super) contiguous: Range<i64>,
    pub(super) skips: Option<Arc<SkipMap>>,
    pub(super) skipped: VecDeque<Range<i64>>,
    pub(super) cut: SegmentCutter,
    pub(super) before: PreviousEnd,
    /// `RangeStart` after a `Rewind`.
    pub(super) pending: Option<SourceEvent>,
    /// Even if the first range continues the samples before the pass.
    pub(super) announces_start: bool,
}

impl StoredPass {
    /// None if the next range continues the previous one, and at the end.
    fn enter(&mut self) -> Option<SourceEvent> {
        let next = self.ranges.next()?;
        let (range, run, origin) = (next.range.clone(), next.run, next.origin);
        let before = self.before.replace((range.end, run));
        let continues = before == Some((range.start, run));
        let why = before.filter(|_| !continues);
        let why = why.map(|before| self.between(before, range.start, run));
        let announced = std::mem::take(&mut self.announces_start) || !continues;
        let skips = self.skips.as_ref();
        self.skipped = skips.map_or_else(VecDeque::new, |skips| skips.skipped(&next));
        self.contiguous = range;
        // Adjacent selected ranges have no break between them.
        if !announced {
            return None;
        }
        let start = SourceEvent::RangeStart { origin, why };
        if before.is_none_or(|(end, _)| self.contiguous.start >= end) {
            return Some(start);
        }
        self.pending = Some(start);
        Some(SourceEvent::Rewind)
    }

    fn between(&self, (end, old): (i64, u32), start: i64, new: u32) -> Break {
        if old != new {
            return Break::ClockStep {
                old: RunId(old),
                new: RunId(new),
            };
        }
        // Samples that were not selected are no gap.
        match self.signal.gaps().at(end) {
            Some(gap) if gap.end() == start => Break::Gap(end..start),
            _ => Break::Removed,
        }
    }

    fn read(&mut self) -> Result<Option<SourceEvent>, OpError> {
        if self.cut.is_empty() && !self.contiguous.is_empty() {
            let mut rest = self.contiguous.clone();
            if let Some(next) = self.skipped.front() {
                rest.end = next.start;
            }
            if rest.is_empty() {
                let skipped = self.skipped.pop_front();
                self.contiguous.start = skipped.as_ref().map_or(rest.end, |skipped| skipped.end);
                return Ok(skipped.map(|range| SourceEvent::Skipped {
                    own: range.clone(),
                    range,
                }));
            }
            let piece = self.reader.next_piece(&rest);
            self.contiguous.start = piece.end;
            let start = piece.start;
            let piece = self.reader.read(piece).map_err(store_error)?;
            self.cut.put(piece.relabelled(start, self.stream)?);
        }
        self.cut.pull()
    }
}

impl Source for StoredPass {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if let Some(start) = self.pending.take() {
            return Ok(start);
        }
        if let Some(item) = self.read()? {
            return Ok(item);
        }
        match self.enter() {
            Some(begun) => Ok(begun),
            None => Ok(self.read()?.unwrap_or(SourceEvent::End)),
        }
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let time = self.signal.time_of(index).ok()?;
        Some(civil::format(time.value))
    }

    fn reading(&self) -> Option<Reading> {
        Some(self.reader.reading().clone())
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }
}

/// Or the end of the gap around `index`.
pub(super) fn first_sample(signal: &Signal, mut index: i64) -> i64 {
    while let Some(gap) = signal.gaps().at(index) {
        index = gap.end();
    }
    index
}

/// `index`, or the start of the gap that ends there or contains it.
pub(super) fn samples_end(signal: &Signal, mut index: i64) -> i64 {
    while let Some(gap) = signal.gaps().at(index - 1) {
        index = gap.start;
    }
    index
}
