//! A stored signal at one commit, in portions for several workers.

use std::ops::Range;
use std::sync::Arc;

use isochrony_store::{Readers, Signal, SignalReader, StoreError, Stretch, Tasks};
use isochrony_time::civil;

use super::contiguous::{
    ContiguousRanges, first_contiguous, join_adjacent, samples_in, selection_start,
};
use super::pass::{PreviousEnd, StoredPass, first_sample, samples_end};
use super::prefetch::PrefetchingOpener;
use super::skip::SkipMap;
use crate::sources::snapshot::align_to_grain;
use crate::{
    IndexedSnapshot, OpError, PlannedReads, Portion, PortionOpener, PortionOverlap, RangeOrigin,
    RangePortion, Snapshot, Source, StoredRecording,
};

pub(crate) struct StoredSnapshot {
    stored: StoredRecording,
    signal: Signal,
    parts: Vec<Stretch>,
    /// None: the parts are all of it.
    selection: Option<Arc<[Range<i64>]>>,
    skips: Option<Arc<SkipMap>>,
}

impl StoredSnapshot {
    pub(crate) fn new(
        stored: &StoredRecording,
        signal: Signal,
        asked: Vec<Stretch>,
        selection: Option<Arc<[Range<i64>]>>,
    ) -> Arc<Self> {
        // Adjacent ranges of a run are one part, as in a pass.
        let parts = join_adjacent(asked);
        let all = ContiguousRanges::new(signal.clone(), parts.clone());
        let all = all.of_selection(selection.clone());
        let skips = stored.skips(&all);
        let strategy = match &skips {
            None => stored.strategy(&signal, &parts),
            Some(skips) => stored.strategy(&signal, &skips.kept(&all)),
        };
        let stored = stored.clone().io(strategy);
        Arc::new(Self {
            stored,
            signal,
            parts,
            selection,
            skips,
        })
    }

    fn selected_from(&self, part: &Stretch) -> i64 {
        selection_start(self.selection.as_deref(), part.range.start)
    }

    fn first_sample(&self, index: i64) -> i64 {
        first_sample(&self.signal, index)
    }

    fn samples_end(&self, index: i64) -> i64 {
        samples_end(&self.signal, index)
    }

    /// End of the last samples before an index, and their part. Parts must be in index order.
    fn last_before(&self, index: i64) -> Option<(i64, &Stretch)> {
        let begun = self.parts.partition_point(|part| part.range.start < index);
        let begun = self.parts[..begun].iter().rev();
        let mut ends = begun.map(|part| (self.samples_end(index.min(part.range.end)), part));
        ends.find(|(end, part)| *end > part.range.start)
    }

    fn part_of(&self, index: i64) -> Option<(usize, &Stretch)> {
        let at = self.parts.partition_point(|part| part.range.end <= index);
        let part = self.parts.get(at)?;
        (part.range.start <= index).then_some((at, part))
    }

    fn contiguous(&self, index: i64, part: &Stretch) -> Range<i64> {
        let gaps = self.signal.gaps();
        let last = gaps.overlapping(0..index).end.checked_sub(1);
        let before = last.and_then(|position| gaps.get(position));
        let behind = gaps.first_within(index..part.range.end);
        let start = before.map_or(part.range.start, |gap| gap.end().max(part.range.start));
        start..behind.map_or(part.range.end, |gap| gap.start)
    }
}

impl StoredSnapshot {
    pub(crate) fn around(
        &self,
        portion: &Portion,
        overlap: PortionOverlap,
    ) -> (ContiguousRanges, PreviousEnd) {
        let part = &self.parts[portion.part];
        let Range { start, end } = portion.range;
        let end = end
            .saturating_add_unsigned(overlap.after)
            .min(part.range.end);
        let mut before = portion.before;
        let mut from = start;
        // Overlap only if the samples before continue into the portion.
        let goes_on = start > part.range.start && self.first_sample(start) == start;
        if goes_on && before == Some((start, part.run)) {
            let whole = self.contiguous(start, part);
            from = start
                .saturating_sub_unsigned(overlap.before)
                .max(whole.start);
            before = Some((from, part.run));
        }
        let range = from..end;
        let run = part.run;
        let read = ContiguousRanges::new(self.signal.clone(), vec![Stretch { run, range }]);
        let selected_from = self.selected_from(part);
        (read.of_portion(portion.part, selected_from), before)
    }

    pub(crate) fn kept(&self, read: &ContiguousRanges) -> Vec<Stretch> {
        match &self.skips {
            None => read.parts().to_vec(),
            Some(skips) => skips.kept(read),
        }
    }

    pub(crate) fn readers(
        &self,
        segment: u64,
        at_once: usize,
        tasks: Tasks,
    ) -> Result<Arc<Readers>, StoreError> {
        let (strategy, piece) = self.stored.pieces(&self.signal, &self.parts, segment);
        Readers::new(&self.signal, &self.parts, piece, strategy, at_once, tasks)
    }

    pub(crate) fn pass(
        &self,
        reader: SignalReader,
        (read, before): (ContiguousRanges, PreviousEnd),
        segment: u64,
    ) -> StoredPass {
        let pass = self.stored.pass_with(reader, read, before, segment);
        StoredPass {
            announces_start: true,
            skips: self.skips.clone(),
            ..pass
        }
    }
}

impl IndexedSnapshot for StoredSnapshot {
    fn sample_from(&self, index: i64) -> Option<i64> {
        let behind = self.parts.partition_point(|part| part.range.end <= index);
        let parts = self.parts[behind..].iter();
        let mut firsts = parts.map(|part| (self.first_sample(index.max(part.range.start)), part));
        let (first, _) = firsts.find(|(first, part)| *first < part.range.end)?;
        Some(first)
    }

    fn next_part_start(&self, index: i64) -> Option<i64> {
        let next = self.parts.partition_point(|part| part.range.start <= index);
        Some(self.parts.get(next)?.range.start)
    }

    fn align_to_grain(&self, index: i64, grain: u64) -> i64 {
        let in_gap = self.first_sample(index) != index || self.samples_end(index) != index;
        match self.part_of(index) {
            Some((_, part)) if !in_gap && part.range.start < index => {
                let whole = self.contiguous(index, part);
                align_to_grain(index, whole.start, whole.end, grain)
            }
            _ => index,
        }
    }

    fn within(&self, range: &Range<i64>) -> RangePortion {
        let last = self.last_before(range.start);
        let first = self.sample_from(range.start);
        let origin_of = |index: i64, part: &Stretch| {
            let anchor = first_contiguous(&self.signal, index, part.run);
            let first = self.selected_from(part).max(anchor);
            RangeOrigin { anchor, first }
        };
        let origin = last.map(|(end, part)| origin_of(end - 1, part));
        let own = first.filter(|&first| first < range.end);
        let portion = own.and_then(|first| {
            let (at, part) = self.part_of(first)?;
            Some(Portion {
                range: range.start.max(part.range.start)..range.end.min(part.range.end),
                before: last.map(|(end, part)| (end, part.run)),
                part: at,
            })
        });
        RangePortion { portion, origin }
    }
}

impl Snapshot for StoredSnapshot {
    fn portion_after(&self, last: Option<&Portion>, samples: u64, grain: u64) -> Option<Portion> {
        let mut at = last.map_or(0, |last| last.part);
        let mut from = last.map(|last| last.range.end);
        // A portion ends right after a sample.
        let before = last.map(|last| (last.range.end, self.parts[last.part].run));
        loop {
            let part = self.parts.get(at)?;
            let from = from.take().unwrap_or(part.range.start);
            let first = self.first_sample(from);
            if first >= part.range.end {
                at += 1;
                continue;
            }
            let wanted = first.saturating_add_unsigned(samples.max(1));
            let mut end = self.samples_end(wanted.min(part.range.end)).max(first + 1);
            if end == wanted {
                let whole = self.contiguous(end - 1, part);
                end = align_to_grain(end, whole.start, whole.end, grain);
            }
            return Some(Portion {
                range: from..end,
                before,
                part: at,
            });
        }
    }

    fn open(
        &self,
        portion: &Portion,
        overlap: PortionOverlap,
        segment: u64,
    ) -> Result<Box<dyn Source>, OpError> {
        let around = self.around(portion, overlap);
        let (signal, kept) = (&self.signal, self.kept(&around.0));
        let reader = self.stored.reader(signal, &kept, segment)?;
        Ok(Box::new(self.pass(reader, around, segment)))
    }

    fn portion_opener(
        self: Arc<Self>,
        tasks: PlannedReads,
    ) -> Result<Option<Arc<dyn PortionOpener>>, OpError> {
        Ok(Some(Arc::new(PrefetchingOpener::new(self, tasks)?)))
    }

    fn total(&self) -> u64 {
        samples_in(&self.signal, &self.parts)
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let time = self.signal.time_of(index).ok()?;
        Some(civil::format(time.value))
    }

    fn indexed(&self) -> Option<&dyn IndexedSnapshot> {
        let pairs = self.parts.windows(2);
        let rises = |pair: &[Stretch]| pair[0].range.end <= pair[1].range.start;
        pairs.into_iter().all(rises).then_some(self)
    }
}
