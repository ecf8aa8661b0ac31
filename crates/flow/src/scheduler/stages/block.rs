//! Cuts what arrives on an edge into blocks, which replicas of a stage compute at the same time. Pure.
//!
//! ```text
//!  arrived    |----------------------------------------|          upto: nothing that begins before it follows
//!  block 4    [before|=========|after]
//!  block 5              [before|===========|after]
//!                              start       end = upto - after, or where a range begins that lies behind
//! ```
//!
//! A block refers to the samples around it that its operators need. It may end anywhere, since replicable operators
//! give the same bits wherever their input is cut. So it is all that has arrived, up to a size: no idle replica waits
//! for a block to fill.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::link_writer::{EVENT_BYTES, event_bytes};
use crate::scheduler::partition::TaskInput;
use crate::scheduler::replica::TaskPart;
use crate::scheduler::task_output::Task;
use crate::{
    Break, Clock, Item, OpError, PortionOverlap, RangeOrigin, RangePortion, Source, SourceEvent,
};

pub(in crate::scheduler) struct StreamBlock {
    /// Results that begin here are the block's. For a cell: the range of all its parts.
    pub(in crate::scheduler) range: Range<i64>,
    /// Continued or directly followed; None if the block begins a contiguous range.
    pub(in crate::scheduler) origin: Option<RangeOrigin>,
    events: Vec<SourceEvent>,
    pub(super) part: TaskPart,
}

impl StreamBlock {
    pub(in crate::scheduler) fn new(
        range: Range<i64>,
        origin: Option<RangeOrigin>,
        events: Vec<SourceEvent>,
        part: TaskPart,
    ) -> Self {
        Self {
            range,
            origin,
            events,
            part,
        }
    }

    pub(in crate::scheduler) fn events(&self) -> &[SourceEvent] {
        &self.events
    }

    pub(in crate::scheduler) fn task(&self, subgraph: usize, number: u64) -> Task {
        Task {
            subgraph,
            number,
            part: TaskInput {
                range: self.range.clone(),
                reads: vec![RangePortion {
                    portion: None,
                    origin: self.origin,
                }],
            },
            alone: false,
            continues: false,
        }
    }
}

pub(super) enum Cut {
    Block(StreamBlock),
    /// Passes between blocks without results: `Idle`, `Rewind`, `End`.
    Pass(SourceEvent),
    Nothing,
}

pub(super) enum RetainedEvent {
    Item(Item),
    RangeStart(RangeOrigin, Option<Break>),
}

impl RetainedEvent {
    pub(super) fn to_event(&self) -> SourceEvent {
        match self {
            Self::Item(item) => SourceEvent::Item(item.clone()),
            Self::RangeStart(origin, why) => SourceEvent::RangeStart {
                origin: *origin,
                why: why.clone(),
            },
        }
    }

    pub(super) fn range_start(&self) -> Option<RangeOrigin> {
        match self {
            Self::RangeStart(origin, _) => Some(*origin),
            Self::Item(_) => None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Item(item) => item.bytes() + EVENT_BYTES,
            Self::RangeStart(..) => EVENT_BYTES,
        }
    }
}

pub(super) struct BlockCutter {
    overlap: PortionOverlap,
    max_bytes: u64,
    limit: u64,
    min_bytes: u64,
    arrived: VecDeque<SourceEvent>,
    arrived_bytes: u64,
    retained: VecDeque<RetainedEvent>,
    new_bytes: u64,
    /// Nothing that begins before this index follows.
    upto: i64,
    /// Of the last contiguous range: what lies before is complete.
    last_first: i64,
    /// None if nothing has arrived.
    start: Option<i64>,
    origin: Option<RangeOrigin>,
}

impl BlockCutter {
    /// A block ends with the item that brings its new items to `max_bytes`.
    pub(super) fn new(overlap: PortionOverlap, max_bytes: u64) -> Self {
        Self {
            overlap,
            max_bytes,
            limit: u64::MAX,
            min_bytes: 0,
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            retained: VecDeque::new(),
            new_bytes: 0,
            upto: i64::MIN,
            last_first: i64::MIN,
            start: None,
            origin: None,
        }
    }

    /// A block has at least so many bytes, whatever [`limit`](Self::limit) says, if enough have arrived.
    pub(super) fn at_least(mut self, bytes: u64) -> Self {
        self.min_bytes = bytes;
        self.max_bytes = self.max_bytes.max(bytes);
        self
    }

    /// From now on a block ends with the item that brings it to `bytes`, if that is less than the maximum.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    fn block_bytes(&self) -> u64 {
        self.max_bytes.min(self.limit).max(self.min_bytes)
    }

    pub(super) fn push(&mut self, events: impl Iterator<Item = SourceEvent>) {
        for event in events {
            self.arrived_bytes += event_bytes(&event);
            self.arrived.push_back(event);
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.arrived_bytes + self.new_bytes < self.block_bytes()
    }

    /// Events pushed and not looked at so far.
    pub(super) fn arrived(&self) -> usize {
        self.arrived.len()
    }

    pub(super) fn has_more(&self) -> bool {
        !self.arrived.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.arrived_bytes + self.retained_bytes()
    }

    fn retained_bytes(&self) -> u64 {
        self.retained.iter().map(RetainedEvent::bytes).sum()
    }

    pub(super) fn cut(&mut self) -> Cut {
        self.take_arrived();
        let next = self.arrived.front();
        let completes = matches!(next, Some(SourceEvent::Rewind | SourceEvent::End));
        let passes = completes || matches!(next, Some(SourceEvent::Idle));
        if let Some(block) = self.block(completes) {
            return Cut::Block(block);
        }
        if !passes {
            return Cut::Nothing;
        }
        if completes {
            self.retained.clear();
            (self.upto, self.last_first) = (i64::MIN, i64::MIN);
            (self.start, self.origin) = (None, None);
        }
        let passed = self.arrived.pop_front();
        self.arrived_bytes -= passed.as_ref().map_or(0, event_bytes);
        passed.map_or(Cut::Nothing, Cut::Pass)
    }

    fn end(&self) -> i64 {
        let end = self.upto.saturating_sub_unsigned(self.overlap.after);
        end.max(self.last_first)
    }

    fn take_arrived(&mut self) {
        let block_bytes = self.block_bytes();
        while self.new_bytes < block_bytes || self.start.is_none_or(|start| self.end() <= start) {
            let next = self.arrived.pop_front();
            self.arrived_bytes -= next.as_ref().map_or(0, event_bytes);
            let retained = match next {
                Some(SourceEvent::Item(item)) => {
                    if let Some((start, next)) = item.extent() {
                        self.start.get_or_insert(start);
                        self.upto = self.upto.max(next);
                    }
                    RetainedEvent::Item(item)
                }
                Some(SourceEvent::RangeStart { origin, why }) => {
                    self.start.get_or_insert(origin.first);
                    self.last_first = self.last_first.max(origin.first);
                    RetainedEvent::RangeStart(origin, why)
                }
                Some(SourceEvent::ProgressMark(upto)) => {
                    self.upto = self.upto.max(upto);
                    continue;
                }
                // Only for `rewindow`, which reads a scan.
                Some(SourceEvent::Skipped { .. }) => continue,
                Some(other) => {
                    self.arrived_bytes += event_bytes(&other);
                    return self.arrived.push_front(other);
                }
                None => return,
            };
            self.new_bytes += retained.bytes();
            self.retained.push_back(retained);
        }
    }

    /// The next block. `completes`: nothing more belongs to the last contiguous range.
    fn block(&mut self, completes: bool) -> Option<StreamBlock> {
        let start = self.start?;
        let last_start = self
            .retained
            .iter()
            .rposition(|one| one.range_start().is_some());
        let last_origin = last_start.and_then(|at| self.retained[at].range_start());
        let end = match completes {
            true => last_origin.map_or(self.upto, |origin| self.upto.max(origin.first + 1)),
            false => self.end(),
        };
        let end = end.max(start);
        if end <= start && !(completes && self.new_bytes > 0) {
            return None;
        }
        // The last range belongs to the next block if this one ends there.
        let starts_next = last_origin.is_some_and(|origin| origin.first >= end) && !completes;
        let own = last_start.filter(|_| starts_next);
        let own = own.unwrap_or(self.retained.len());
        let from = start.saturating_sub_unsigned(self.overlap.before);
        let events = self.retained.iter().take(own).filter_map(|one| match one {
            RetainedEvent::Item(item) => clipped(item, from..i64::MAX),
            RetainedEvent::RangeStart(..) => Some(one.to_event()),
        });
        let block = StreamBlock {
            range: start..end,
            origin: self.origin,
            events: events.collect(),
            part: TaskPart::WHOLE,
        };
        self.advance(end, own, last_origin);
        Some(block)
    }

    /// The next block starts at `end`; the first `own` retained events were in this one.
    fn advance(&mut self, end: i64, own: usize, last_origin: Option<RangeOrigin>) {
        let needed = end.saturating_sub_unsigned(self.overlap.before);
        let starts_next = own < self.retained.len();
        self.start = Some(end);
        if starts_next {
            self.retained.drain(..own);
            self.origin = None;
        } else {
            self.origin = last_origin.or(self.origin);
            let needs = |one: &RetainedEvent| match one {
                RetainedEvent::Item(item) => item.extent().is_some_and(|(_, next)| next > needed),
                RetainedEvent::RangeStart(..) => false,
            };
            let keeps = self.overlap.before > 0 || self.overlap.after > 0;
            while let Some(first) = self.retained.front() {
                let in_last = last_origin.is_none()
                    || !self.retained.iter().any(|one| one.range_start().is_some());
                if keeps && in_last && needs(first) {
                    break;
                }
                self.retained.pop_front();
            }
        }
        self.new_bytes = match starts_next {
            true => self.retained_bytes(),
            false => 0,
        };
    }
}

/// The part of an item in a range; None if empty.
pub(super) fn clipped(item: &Item, range: Range<i64>) -> Option<SourceEvent> {
    let Item::Samples(samples) = item else {
        return Some(SourceEvent::Item(item.clone()));
    };
    let part = samples.start().max(range.start)..samples.end().min(range.end);
    if part.is_empty() {
        return None;
    }
    let part = samples.subseg(part);
    // A range inside the item's own does not fail.
    part.ok().map(|part| SourceEvent::Item(Item::Samples(part)))
}

pub(super) struct BlockSource {
    events: std::vec::IntoIter<SourceEvent>,
    clock: Option<Arc<dyn Clock>>,
}

impl BlockSource {
    pub(super) fn new(block: &mut StreamBlock, clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            events: std::mem::take(&mut block.events).into_iter(),
            clock,
        }
    }
}

impl Source for BlockSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        Ok(self.events.next().unwrap_or(SourceEvent::End))
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let stamp = self.clock.as_ref()?.stamp(index)?;
        Some(isochrony_time::civil::format(stamp.civil))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use isochrony_segment::{SigSeg, Stream};
    use isochrony_time::{Rate, TimebaseId};
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) fn samples(range: Range<i64>) -> SourceEvent {
        let rate = Rate::new(100, 1).unwrap();
        let stream = Stream::new("blocks", TimebaseId(0), rate).intern();
        let values: Vec<i64> = range.clone().collect();
        SourceEvent::Item(Item::Samples(
            SigSeg::from_slice(&values, range.start, stream).unwrap(),
        ))
    }

    fn events(ranges: &[Range<i64>], len: usize) -> Vec<SourceEvent> {
        let mut events = Vec::new();
        for range in ranges {
            let origin = RangeOrigin::at(range.start);
            events.push(SourceEvent::RangeStart { origin, why: None });
            for start in range.clone().step_by(len) {
                events.push(samples(start..range.end.min(start + len as i64)));
            }
        }
        events.push(SourceEvent::End);
        events
    }

    fn indices(block: &StreamBlock) -> Vec<i64> {
        let items = block.events.iter().filter_map(|event| match event {
            SourceEvent::Item(Item::Samples(samples)) => Some(samples.range()),
            _ => None,
        });
        items.flatten().collect()
    }

    proptest! {
        /// Whatever arrives together: every sample is in one block, and each block follows the one before and has what
        /// surrounds it.
        #[test]
        fn blocks_divide_a_stream_and_have_what_is_around_them(
            lengths in prop::collection::vec((1i64..60, 1i64..20), 1..6),
            len in 1usize..15,
            (before, after) in (0u64..12, 0u64..12),
            (max_bytes, together) in (1u64..4000, 1usize..9),
        ) {
            let mut next = 5;
            let ranges = lengths.iter().map(|&(length, gap)| {
                let range = next..next + length;
                next = range.end + gap;
                range
            });
            let ranges: Vec<Range<i64>> = ranges.collect();
            let mut cutter = BlockCutter::new(PortionOverlap { before, after }, max_bytes);
            let (mut blocks, mut ended) = (Vec::new(), false);
            let mut arriving = events(&ranges, len).into_iter();
            while !ended {
                let some: Vec<SourceEvent> = arriving.by_ref().take(together).collect();
                prop_assert!(!some.is_empty(), "nothing more arrives, and it has not ended");
                cutter.push(some.into_iter());
                loop {
                    match cutter.cut() {
                        Cut::Block(block) => blocks.push(block),
                        Cut::Pass(event) => ended = matches!(event, SourceEvent::End),
                        Cut::Nothing => break,
                    }
                    if ended {
                        break;
                    }
                }
            }
            let mut own: Vec<i64> = Vec::new();
            for (nth, block) in blocks.iter().enumerate() {
                if nth > 0 {
                    prop_assert_eq!(block.range.start, blocks[nth - 1].range.end);
                }
                let has = indices(block);
                own.extend(has.iter().filter(|&index| block.range.contains(index)));
                for range in &ranges {
                    let part = range.start.max(block.range.start)..range.end.min(block.range.end);
                    if part.is_empty() {
                        continue;
                    }
                    let from = range.start.max(part.start - before as i64);
                    let to = range.end.min(part.end + after as i64);
                    for index in from..to {
                        prop_assert!(has.contains(&index), "{index} of {:?} in {has:?}", block.range);
                    }
                }
                let before_it = ranges.iter().rfind(|range| range.start < block.range.start);
                let before_it = before_it.map(|range| RangeOrigin::at(range.start));
                match block.events.first() {
                    Some(SourceEvent::RangeStart { .. }) => {
                        prop_assert!(block.origin.is_none() || block.origin == before_it)
                    }
                    _ => prop_assert_eq!(block.origin, before_it),
                }
            }
            let all: Vec<i64> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(own, all);
        }
    }

    #[test]
    fn a_limit_shortens_blocks_down_to_an_item_or_their_least_bytes() {
        let lengths = |mut cutter: BlockCutter, limit: u64| {
            let origin = RangeOrigin::at(0);
            let start = SourceEvent::RangeStart { origin, why: None };
            let items = (0..6).map(|k| samples(10 * k..10 * k + 10));
            cutter.push([start].into_iter().chain(items));
            cutter.limit(limit);
            let blocks = std::iter::from_fn(|| match cutter.cut() {
                Cut::Block(block) => Some(block.range.end - block.range.start),
                _ => None,
            });
            blocks.collect::<Vec<i64>>()
        };
        let cutter = || BlockCutter::new(PortionOverlap::default(), 1 << 20);
        let item = samples(0..10);
        let bytes = event_bytes(&item);
        assert_eq!(lengths(cutter(), u64::MAX), [60]);
        assert_eq!(lengths(cutter(), 3 * bytes), [30, 30]);
        assert_eq!(lengths(cutter(), 1), [10; 6]);
        assert_eq!(lengths(cutter().at_least(2 * bytes), 1), [20, 20, 20]);
    }

    #[test]
    fn what_passes_keeps_its_place_and_waits_for_no_more() {
        let mut cutter = BlockCutter::new(
            PortionOverlap {
                before: 2,
                after: 3,
            },
            1 << 20,
        );
        let origin = RangeOrigin::at(0);
        let start = SourceEvent::RangeStart { origin, why: None };
        cutter.push([start, samples(0..10), SourceEvent::Idle].into_iter());
        let Cut::Block(block) = cutter.cut() else {
            panic!("no block");
        };
        // What needs later samples belongs to the next block.
        assert_eq!(block.range, 0..7);
        assert!(matches!(cutter.cut(), Cut::Pass(SourceEvent::Idle)));
        assert!(matches!(cutter.cut(), Cut::Nothing));
        cutter.push([samples(10..12), SourceEvent::End].into_iter());
        let Cut::Block(block) = cutter.cut() else {
            panic!("no block");
        };
        assert_eq!(
            (block.range.clone(), indices(&block)),
            (7..12, (5..12).collect())
        );
        assert!(matches!(cutter.cut(), Cut::Pass(SourceEvent::End)));
    }
}
