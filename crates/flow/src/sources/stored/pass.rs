//! One pass over parts of a stored signal.

use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::StreamId;
use isochrony_store::{Reading, Signal, SignalReader, Stretch};
use isochrony_time::{RunId, civil};

use crate::plan::error::store_error;
use crate::sources::segment_cutter::SegmentCutter;
use crate::{Break, OpError, RangeOrigin, Source, SourceEvent};

/// End and run of the samples before.
pub(crate) type PreviousEnd = Option<(i64, u32)>;

pub(crate) struct StoredPass {
    pub(super) signal: Signal,
    pub(super) reader: SignalReader,
    pub(super) stream: StreamId,
    pub(super) parts: Vec<Stretch>,
    /// The part being read, and from which index on.
    pub(super) part: usize,
    pub(super) at: i64,
    /// Rest of the contiguous range being read.
    pub(super) contiguous: Range<i64>,
    /// Its piece that was read last.
    pub(super) cut: SegmentCutter,
    pub(super) before: PreviousEnd,
    /// The `RangeStart` that follows a `Rewind`.
    pub(super) pending: Option<SourceEvent>,
    /// The first range is announced even if it continues the samples before the pass.
    pub(super) announces_start: bool,
    /// Where the selected part begins of which this pass reads a portion.
    pub(super) selected_from: Option<i64>,
    /// The selection, if this pass reads less than it.
    pub(super) selection: Option<Arc<[Range<i64>]>>,
}

/// Where the selected range begins in which an index lies, if it lies in one.
pub(super) fn selection_start(selection: Option<&[Range<i64>]>, index: i64) -> i64 {
    let ranges = selection.unwrap_or_default().iter();
    let around = ranges.filter(|range| range.contains(&index));
    around.map(|range| range.start).max().unwrap_or(index)
}

impl StoredPass {
    /// A portion of the part of a selection that begins at an index.
    pub(crate) fn for_portion_of(self, selected_from: i64) -> Self {
        Self {
            announces_start: true,
            selected_from: Some(selected_from),
            ..self
        }
    }

    /// Goes to the next contiguous range and announces it; None if it continues the one before, and at the end.
    fn enter(&mut self) -> Option<SourceEvent> {
        while let Some(part) = self.parts.get(self.part) {
            let (run, end) = (part.run, part.range.end);
            let gap = self.signal.gaps().first_within(self.at..end);
            let range = self.at..gap.map_or(end, |gap| gap.start);
            match gap {
                Some(gap) if gap.end() < end => self.at = gap.end(),
                _ => {
                    self.part += 1;
                    let next = self.parts.get(self.part);
                    self.at = next.map_or(0, |part| part.range.start);
                }
            }
            if range.is_empty() {
                continue;
            }
            let before = self.before.replace((range.end, run));
            let continues = before == Some((range.start, run));
            let why = before.filter(|_| !continues);
            let why = why.map(|before| self.between(before, range.start, run));
            let announced = std::mem::take(&mut self.announces_start) || !continues;
            let anchor = first_contiguous(&self.signal, range.start, run);
            let first = (self.selected_from)
                .unwrap_or_else(|| selection_start(self.selection.as_deref(), range.start))
                .max(anchor);
            let origin = RangeOrigin { anchor, first };
            self.contiguous = range;
            // Selected ranges can be adjacent: that is no break.
            if !announced {
                return None;
            }
            let start = SourceEvent::RangeStart { origin, why };
            if before.is_none_or(|(end, _)| self.contiguous.start >= end) {
                return Some(start);
            }
            self.pending = Some(start);
            return Some(SourceEvent::Rewind);
        }
        None
    }

    fn between(&self, (end, old): (i64, u32), start: i64, new: u32) -> Break {
        if old != new {
            return Break::ClockStep {
                old: RunId(old),
                new: RunId(new),
            };
        }
        // Samples that exist but were not selected are no gap.
        match self.signal.gaps().at(end) {
            Some(gap) if gap.end() == start => Break::Gap(end..start),
            _ => Break::Removed,
        }
    }

    fn read(&mut self) -> Result<Option<SourceEvent>, OpError> {
        if self.cut.is_empty() && !self.contiguous.is_empty() {
            let piece = self.reader.next_piece(&self.contiguous);
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
        Some(samples_in(&self.signal, &self.parts))
    }
}

/// The anchor: first sample after the last gap or clock step at or before an index.
pub(crate) fn first_contiguous(signal: &Signal, index: i64, run: u32) -> i64 {
    let run = signal.state().runs.by_id(run);
    let gaps = signal.gaps();
    let before = gaps.overlapping(0..index).end.checked_sub(1);
    let gap = before.and_then(|position| gaps.get(position));
    run.map_or(index, |run| run.start)
        .max(gap.map_or(0, |gap| gap.end()))
        .min(index)
}

/// `index`, or the end of the gap that it lies in.
pub(super) fn first_sample(signal: &Signal, mut index: i64) -> i64 {
    while let Some(gap) = signal.gaps().at(index) {
        index = gap.end();
    }
    index
}

/// End of the last samples before `index`: `index`, or the start of the gap that ends there or that it lies in.
pub(super) fn samples_end(signal: &Signal, mut index: i64) -> i64 {
    while let Some(gap) = signal.gaps().at(index - 1) {
        index = gap.start;
    }
    index
}

pub(crate) fn samples_in(signal: &Signal, parts: &[Stretch]) -> u64 {
    let gaps = signal.gaps();
    let count = |part: &Stretch| {
        part.range.end - part.range.start - gaps.missing_within(part.range.clone())
    };
    parts.iter().map(count).sum::<i64>().unsigned_abs()
}
