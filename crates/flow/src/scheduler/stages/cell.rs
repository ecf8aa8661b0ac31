//! Cuts what arrives on an edge into cells of a fixed length, for operators whose results depend on where they begin.
//! Pure.
//!
//! ```text
//!  range       |first-----------------------------------------------------|   gap   |----------
//!  cell 0      |===========|after]
//!  cell 1           [before|===========|after]
//!  cell 2                       [before|===========|after]  it is computed in parts while samples arrive slowly
//!                                           part 0 |part 1|
//! ```
//!
//! A cell begins with the first sample behind the last cell, or with a run of the clock, and may contain gaps. Cells,
//! and so results, depend neither on the items in which samples arrive nor on who computes them. While nothing arrives,
//! a part of the cell is computed; the replica of its first part computes the others.

use std::collections::VecDeque;
use std::ops::Range;

use super::block::{Cut, RetainedEvent, StreamBlock, clipped};
use super::link_writer::event_bytes;
use crate::scheduler::replica::TaskPart;
use crate::{Break, PortionOverlap, RangeOrigin, SourceEvent};

pub(super) struct CellCutter {
    overlap: PortionOverlap,
    samples: u64,
    max_bytes: u64,
    arrived: VecDeque<SourceEvent>,
    arrived_bytes: u64,
    retained: VecDeque<RetainedEvent>,
    retained_bytes: u64,
    given: usize,
    cell: Option<Range<i64>>,
    begun: bool,
    origin: Option<RangeOrigin>,
    last_origin: Option<RangeOrigin>,
    /// Nothing that begins before this index follows.
    upto: i64,
}

impl CellCutter {
    pub(super) fn new(overlap: PortionOverlap, samples: u64, sample_bytes: u64) -> Self {
        let samples = samples.max(1);
        Self {
            overlap,
            samples,
            max_bytes: samples
                .saturating_add(overlap.after)
                .saturating_mul(sample_bytes),
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            retained: VecDeque::new(),
            retained_bytes: 0,
            given: 0,
            cell: None,
            begun: false,
            origin: None,
            last_origin: None,
            upto: i64::MIN,
        }
    }

    pub(super) fn push(&mut self, events: impl Iterator<Item = SourceEvent>) {
        for event in events {
            self.arrived_bytes += event_bytes(&event);
            self.arrived.push_back(event);
        }
    }

    pub(super) fn has_room(&self) -> bool {
        let new = self
            .retained
            .iter()
            .skip(self.given)
            .map(RetainedEvent::bytes);
        self.arrived_bytes + new.sum::<u64>() < self.max_bytes
    }

    /// Events pushed and not looked at so far.
    pub(super) fn arrived(&self) -> usize {
        self.arrived.len()
    }

    pub(super) fn has_more(&self) -> bool {
        !self.arrived.is_empty() || self.is_complete()
    }

    /// Whether the next part belongs to a begun cell.
    pub(super) fn continues(&self) -> bool {
        self.begun
    }

    pub(super) fn bytes(&self) -> u64 {
        self.arrived_bytes + self.retained_bytes
    }

    fn is_complete(&self) -> bool {
        let end = self.cell.as_ref().map(|cell| cell.end);
        end.is_some_and(|end| self.upto >= end.saturating_add_unsigned(self.overlap.after))
    }

    pub(super) fn cut(&mut self) -> Cut {
        while !self.is_complete() {
            match self.arrived.front() {
                None => return Cut::Nothing,
                Some(SourceEvent::RangeStart { origin, why }) => {
                    let steps = matches!(why, Some(Break::ClockStep { .. } | Break::Rewind));
                    let ends = |cell: &Range<i64>| steps || !cell.contains(&origin.first);
                    if self.cell.as_ref().is_some_and(ends) {
                        break;
                    }
                }
                Some(SourceEvent::Idle) => {
                    let is_new = self.cell.is_some() && self.given < self.retained.len();
                    return match is_new {
                        true => self.part(false),
                        false => self.pass(),
                    };
                }
                Some(SourceEvent::Rewind | SourceEvent::End) => {
                    if self.cell.is_some() {
                        break;
                    }
                    self.retain_from(self.retained.len());
                    self.upto = i64::MIN;
                    (self.origin, self.last_origin) = (None, None);
                    return self.pass();
                }
                Some(_) => {}
            }
            self.take_arrived();
        }
        self.part(true)
    }

    fn next_arrived(&mut self) -> Option<SourceEvent> {
        let event = self.arrived.pop_front()?;
        self.arrived_bytes -= event_bytes(&event);
        Some(event)
    }

    fn pass(&mut self) -> Cut {
        self.next_arrived().map_or(Cut::Nothing, Cut::Pass)
    }

    fn take_arrived(&mut self) {
        let retained = match self.next_arrived() {
            Some(SourceEvent::Item(item)) => {
                if let Some((start, next)) = item.extent() {
                    self.upto = self.upto.max(next);
                    if self.cell.is_none() {
                        self.origin = self.last_origin;
                        self.open(start);
                    }
                }
                RetainedEvent::Item(item)
            }
            Some(SourceEvent::RangeStart { origin, why }) => {
                if self.cell.is_none() {
                    // Retained events are of an earlier range.
                    self.retain_from(self.retained.len());
                    self.origin = None;
                    self.open(origin.first);
                }
                self.last_origin = Some(origin);
                self.upto = self.upto.max(origin.first);
                RetainedEvent::RangeStart(origin, why)
            }
            Some(SourceEvent::ProgressMark(upto)) => {
                self.upto = self.upto.max(upto);
                return;
            }
            // `Skipped` is given to `rewindow` only; others are not taken.
            _ => return,
        };
        self.retained_bytes += retained.bytes();
        self.retained.push_back(retained);
    }

    fn open(&mut self, first: i64) {
        self.cell = Some(first..first.saturating_add_unsigned(self.samples));
        (self.begun, self.given) = (false, 0);
    }

    /// What the open cell has not given yet. `completes`: nothing follows.
    fn part(&mut self, completes: bool) -> Cut {
        let Some(cell) = self.cell.clone() else {
            return Cut::Nothing;
        };
        let from = cell.start.saturating_sub_unsigned(self.overlap.before);
        let to = cell.end.saturating_add_unsigned(self.overlap.after);
        let new = self.retained.iter().skip(self.given);
        let events = new.filter_map(|one| match one {
            RetainedEvent::Item(item) => clipped(item, from..to),
            RetainedEvent::RangeStart(..) => Some(one.to_event()),
        });
        let block = StreamBlock::new(
            cell.clone(),
            self.origin,
            events.collect(),
            TaskPart {
                begins: !self.begun,
                completes,
            },
        );
        match completes {
            true => self.open_next(cell.end),
            false => (self.begun, self.given) = (true, self.retained.len()),
        }
        Cut::Block(block)
    }

    fn open_next(&mut self, end: i64) {
        (self.cell, self.begun, self.given) = (None, false, 0);
        let next = self.retained.iter().enumerate();
        let mut next = next.filter_map(|(at, one)| match one {
            RetainedEvent::Item(item) => Some((at, item.extent()?)),
            RetainedEvent::RangeStart(..) => None,
        });
        let next = next.find(|&(_, (_, next))| next > end);
        let before = next.map_or(self.retained.len(), |(at, _)| at);
        // The range in which it begins is the last one before it.
        let starts = self.retained.iter().take(before);
        let mut starts = starts.enumerate().rev();
        let start = starts.find_map(|(at, one)| Some((at, one.range_start()?)));
        let first = next.map_or(end, |(_, (start, _))| start.max(end));
        if next.is_some() {
            self.open(first);
            self.origin = start.map_or(self.origin, |(_, origin)| Some(origin));
        }
        // What it needs around it is of that range.
        let needed = first.saturating_sub_unsigned(self.overlap.before);
        let own = start.map_or(0, |(at, _)| at + 1);
        let mut items = self.retained.iter().enumerate().skip(own);
        let keeps = items.find(|(_, one)| match one {
            RetainedEvent::Item(item) => item.extent().is_some_and(|(_, next)| next > needed),
            RetainedEvent::RangeStart(..) => true,
        });
        let from = keeps.map_or(self.retained.len(), |(at, _)| at);
        self.retain_from(from);
    }

    fn retain_from(&mut self, from: usize) {
        let gone = self.retained.drain(..from);
        self.retained_bytes -= gone.map(|one| one.bytes()).sum::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::block::tests::samples;
    use super::*;
    use crate::Item;

    fn content(block: &StreamBlock) -> (Vec<i64>, Vec<i64>) {
        let (mut indices, mut starts) = (Vec::new(), Vec::new());
        for event in block.events() {
            match event {
                SourceEvent::Item(Item::Samples(samples)) => indices.extend(samples.range()),
                SourceEvent::RangeStart { origin, .. } => starts.push(origin.first),
                _ => {}
            }
        }
        (indices, starts)
    }

    #[derive(Debug, PartialEq)]
    struct FoundCell {
        range: Range<i64>,
        origin: Option<RangeOrigin>,
        indices: Vec<i64>,
        starts: Vec<i64>,
    }

    fn cells(
        events: Vec<SourceEvent>,
        cell: u64,
        around: (u64, u64),
        together: usize,
    ) -> Vec<FoundCell> {
        let overlap = PortionOverlap {
            before: around.0,
            after: around.1,
        };
        let mut cutter = CellCutter::new(overlap, cell, 8);
        let mut found: Vec<FoundCell> = Vec::new();
        let (mut complete, mut ended) = (true, false);
        let mut arriving = events.into_iter();
        while !ended {
            let some: Vec<SourceEvent> = arriving.by_ref().take(together).collect();
            assert!(
                !some.is_empty(),
                "nothing more arrives, and it has not ended"
            );
            cutter.push(some.into_iter());
            loop {
                match cutter.cut() {
                    Cut::Block(block) => {
                        let (indices, starts) = content(&block);
                        assert_eq!(block.part.begins, complete);
                        complete = block.part.completes;
                        match found.last_mut().filter(|_| !block.part.begins) {
                            Some(last) => {
                                assert_eq!(
                                    (&last.range, last.origin),
                                    (&block.range, block.origin)
                                );
                                last.indices.extend(indices);
                                last.starts.extend(starts);
                            }
                            None => found.push(FoundCell {
                                range: block.range.clone(),
                                origin: block.origin,
                                indices,
                                starts,
                            }),
                        }
                    }
                    Cut::Pass(event) => ended = matches!(event, SourceEvent::End),
                    Cut::Nothing => break,
                }
                if ended {
                    break;
                }
            }
        }
        assert!(complete);
        found
    }

    proptest! {
        /// Against a loop over the samples, whatever arrives together and wherever nothing arrives for a while.
        #[test]
        fn cells_depend_on_samples_alone(
            lengths in prop::collection::vec((1i64..60, 1i64..30), 1..6),
            len in 1usize..15,
            cell in 1u64..50,
            (before, after) in (0u64..12, 0u64..12),
            together in 1usize..9,
            idle in prop::collection::vec(0u8..4, 0..40),
        ) {
            let mut next = 5;
            let ranges = lengths.iter().map(|&(length, gap)| {
                let range = next..next + length;
                next = range.end + gap;
                range
            });
            let ranges: Vec<Range<i64>> = ranges.collect();
            let mut events = Vec::new();
            let mut idle = idle.into_iter().cycle();
            for range in &ranges {
                events.push(SourceEvent::RangeStart { origin: RangeOrigin::at(range.start), why: None });
                for start in range.clone().step_by(len) {
                    events.push(samples(start..range.end.min(start + len as i64)));
                    if idle.next() == Some(0) {
                        events.push(SourceEvent::Idle);
                    }
                }
            }
            events.push(SourceEvent::End);
            let found = cells(events, cell, (before, after), together);
            let all: Vec<i64> = ranges.iter().cloned().flatten().collect();
            let mut expected = Vec::new();
            let mut at = 0;
            while let Some(&first) = all.get(at) {
                let end = first + cell as i64;
                let own = ranges.iter().filter(|one| one.start < end && one.end > first);
                let (mut indices, mut starts) = (Vec::new(), Vec::new());
                let mut origin = None;
                for one in own {
                    if one.start < first {
                        origin = Some(RangeOrigin::at(one.start));
                    } else {
                        starts.push(one.start);
                    }
                    let from = one.start.max(first - before as i64);
                    indices.extend(from..one.end.min(end + after as i64));
                }
                expected.push(FoundCell { range: first..end, origin, indices, starts });
                at += all[at..].iter().take_while(|&&index| index < end).count();
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_run_of_the_clock_begins_a_cell_and_a_rewind_forgets_the_last() {
        let start = |first: i64, why: Option<Break>| {
            let origin = RangeOrigin::at(first);
            SourceEvent::RangeStart { origin, why }
        };
        let (old, new) = (isochrony_time::RunId(0), isochrony_time::RunId(1));
        let events = vec![
            start(0, None),
            samples(0..7),
            start(7, Some(Break::ClockStep { old, new })),
            samples(7..9),
            SourceEvent::Rewind,
            start(2, None),
            samples(2..4),
            SourceEvent::End,
        ];
        let found = cells(events, 10, (3, 2), 100);
        let ranges: Vec<_> = found.iter().map(|one| one.range.clone()).collect();
        assert_eq!(ranges, [0..10, 7..17, 2..12]);
        assert!(
            found
                .iter()
                .all(|one| one.origin.is_none() && one.starts.len() == 1)
        );
        assert_eq!(found[1].indices, [7, 8]);
    }
}
