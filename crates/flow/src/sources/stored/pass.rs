//! One pass over parts of a stored signal.

use std::ops::Range;

use isochrony_segment::StreamId;
use isochrony_store::{Reading, Signal, SignalReader, Stretch};
use isochrony_time::{RunId, civil};

use super::failed;
use crate::sources::segment_cutter::Cut;
use crate::{Break, OpError, Source, SourceItem};

/// End and run of the stretch before.
pub(crate) type Before = Option<(i64, u32)>;

/// One pass over the parts.
pub(crate) struct Pass {
    pub(super) signal: Signal,
    pub(super) reader: SignalReader,
    pub(super) stream: StreamId,
    pub(super) parts: Vec<Stretch>,
    /// The part that is read, and from where on.
    pub(super) part: usize,
    pub(super) at: i64,
    /// What is left of the stretch that is read.
    pub(super) stretch: Range<i64>,
    /// Its piece that was read last.
    pub(super) cut: Cut,
    pub(super) before: Before,
    /// The stretch that begins next, where it was said that it lies before what was given.
    pub(super) begins: Option<SourceItem>,
    /// Whether a stretch that continues what was before the pass is announced, too.
    pub(super) tells_all: bool,
}

impl Pass {
    /// Announces its first stretch also where that continues what was before.
    pub(crate) fn telling_all(self) -> Self {
        Self {
            tells_all: true,
            ..self
        }
    }

    /// Enters the next stretch and says so, unless it continues the one before; then, and at the end, None.
    fn enter(&mut self) -> Option<SourceItem> {
        while let Some(part) = self.parts.get(self.part) {
            let (run, end) = (part.run, part.range.end);
            let gap = self.signal.gaps().first_within(self.at..end);
            let stretch = self.at..gap.map_or(end, |gap| gap.start);
            match gap {
                Some(gap) if gap.end() < end => self.at = gap.end(),
                _ => {
                    self.part += 1;
                    let next = self.parts.get(self.part);
                    self.at = next.map_or(0, |part| part.range.start);
                }
            }
            if stretch.is_empty() {
                continue;
            }
            let before = self.before.replace((stretch.end, run));
            let continues = before == Some((stretch.start, run));
            let why = before.filter(|_| !continues);
            let why = why.map(|before| self.between(before, stretch.start, run));
            let told = std::mem::take(&mut self.tells_all) || !continues;
            let anchor = first_of_stretch(&self.signal, stretch.start, run);
            self.stretch = stretch;
            // Ranges may touch inside a run: nothing to announce there.
            if !told {
                return None;
            }
            let begins = SourceItem::RangeStart { anchor, why };
            if before.is_none_or(|(end, _)| self.stretch.start >= end) {
                return Some(begins);
            }
            self.begins = Some(begins);
            return Some(SourceItem::Rewind);
        }
        None
    }

    /// What lies between two stretches.
    fn between(&self, (end, old): (i64, u32), start: i64, new: u32) -> Break {
        if old != new {
            return Break::ClockStep {
                old: RunId(old),
                new: RunId(new),
            };
        }
        // Samples that exist and were not asked for are no gap.
        match self.signal.gaps().at(end) {
            Some(gap) if gap.end() == start => Break::Gap(end..start),
            _ => Break::Removed,
        }
    }

    /// The next segment of the stretch.
    fn read(&mut self) -> Result<Option<SourceItem>, OpError> {
        if self.cut.is_empty() && !self.stretch.is_empty() {
            let piece = self.reader.next_piece(&self.stretch);
            self.stretch.start = piece.end;
            let start = piece.start;
            let piece = self.reader.read(piece).map_err(failed)?;
            self.cut.put(piece.relabelled(start, self.stream)?);
        }
        self.cut.pull()
    }
}

impl Source for Pass {
    fn pull(&mut self) -> Result<SourceItem, OpError> {
        if let Some(begins) = self.begins.take() {
            return Ok(begins);
        }
        if let Some(item) = self.read()? {
            return Ok(item);
        }
        match self.enter() {
            Some(begun) => Ok(begun),
            None => Ok(self.read()?.unwrap_or(SourceItem::End)),
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

/// First sample after the last gap or clock step at or before an index.
pub(crate) fn first_of_stretch(signal: &Signal, index: i64, run: u32) -> i64 {
    let run = signal.state().runs.by_id(run);
    let gaps = signal.gaps();
    let before = gaps.overlapping(0..index).end.checked_sub(1);
    let gap = before.and_then(|position| gaps.get(position));
    run.map_or(index, |run| run.start)
        .max(gap.map_or(0, |gap| gap.end()))
        .min(index)
}

/// Samples of parts of a signal.
pub(crate) fn samples_in(signal: &Signal, parts: &[Stretch]) -> u64 {
    let gaps = signal.gaps();
    let count = |part: &Stretch| {
        part.range.end - part.range.start - gaps.missing_within(part.range.clone())
    };
    parts.iter().map(count).sum::<i64>().unsigned_abs()
}
