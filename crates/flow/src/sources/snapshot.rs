//! Recordings as they are at one moment, read in portions by several threads.
//!
//! A run on many cores cuts what a scan reads into [`Portion`]s, in the order of reading, of about as many samples as it is
//! asked for. A portion never ends inside a gap or behind one: what separates a portion from the one before is then known
//! without reading that.

use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::SigSeg;

use crate::{Break, OpError, Segments, Source, SourceItem};

/// A part of a recording: what one task reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portion {
    /// Its indices; gaps may lie in it and at its beginning.
    pub range: Range<i64>,
    /// The end of the last samples before it and their run; None: there were none. It is the portion's beginning where
    /// samples of the same run go on from one to the other, or where a gap begins there.
    pub before: Option<(i64, u32)>,
    /// Which of the recording's parts it belongs to, in the order of reading.
    pub part: usize,
}

/// How far what comes of a portion reaches beyond it, in samples; never across a gap or a clock step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortionOverlap {
    /// So many before it.
    pub before: u64,
    /// So many behind it.
    pub after: u64,
}

impl PortionOverlap {
    /// Samples on both sides.
    pub(crate) fn samples(self) -> u64 {
        self.before.saturating_add(self.after)
    }
}

/// The tasks of a run that read a snapshot.
pub struct PlannedReads {
    /// How far each reaches beyond its portion.
    pub reach: PortionOverlap,
    /// Samples of a segment at most.
    pub segment: u64,
    /// So many of them are under way at once.
    pub at_once: usize,
    /// The portion of each, in the order in which they are handed out; None: of one that has nothing to read there.
    pub portions: Box<dyn Iterator<Item = Option<Portion>> + Send>,
}

/// Opens portions of a snapshot for all workers of a run.
pub trait PortionOpener: Send + Sync {
    /// As [`Snapshot::open`] of the task with a number, from 0 on; None of one that has nothing to read. A task may be opened
    /// again, or never.
    ///
    /// # Errors
    /// Whatever opening meets.
    fn open(
        &self,
        task: u64,
        portion: Option<&Portion>,
    ) -> Result<Option<Box<dyn Source>>, OpError>;
}

/// A recording as it is at one moment.
pub trait Snapshot: Send + Sync {
    /// The portion behind another, or the first: of about `samples`, at least one. Inside a stretch it ends at a multiple of
    /// `grain` samples from the stretch's first sample that is read, so that segments are cut as in one pass.
    fn portion_after(&self, last: Option<&Portion>, samples: u64, grain: u64) -> Option<Portion>;

    /// A pass over a portion and as many samples around it as `reach` says and its first and last stretch have. It begins
    /// with [`SourceItem::RangeStart`], whose `why` is what separates it from what was before the portion: None if nothing does,
    /// as where what is read before it continues in it, or if nothing was before.
    ///
    /// # Errors
    /// Whatever opening meets.
    fn open(
        &self,
        portion: &Portion,
        reach: PortionOverlap,
        segment: u64,
    ) -> Result<Box<dyn Source>, OpError>;

    /// What opens the portions of tasks that read it, all of which are known beforehand, so that what lies ahead of one of
    /// them is read already when the next begins; None: each is opened by itself, see [`open`](Self::open).
    ///
    /// # Errors
    /// Whatever opening meets.
    fn portion_opener(
        self: Arc<Self>,
        tasks: PlannedReads,
    ) -> Result<Option<Arc<dyn PortionOpener>>, OpError> {
        let _ = tasks;
        Ok(None)
    }

    /// Samples in all.
    fn total(&self) -> u64;

    /// Civil time of an index, for error messages.
    fn time_of(&self, index: i64) -> Option<String> {
        let _ = index;
        None
    }

    /// The same by indices, where they rise from the beginning to the end: then several recordings can be cut at the same ones.
    fn indexed(&self) -> Option<&dyn IndexedSnapshot> {
        None
    }
}

/// A recording as it is at one moment, whose parts lie in the order of their indices.
pub trait IndexedSnapshot {
    /// The first index at or behind one that has a sample.
    fn sample_from(&self, index: i64) -> Option<i64>;

    /// Where the first part begins that begins behind an index: one portion does not reach across it.
    fn part_behind(&self, index: i64) -> Option<i64>;

    /// An index that lies inside a stretch, or the next that lies a multiple of `grain` samples from its first sample that is
    /// read; any other index as it is.
    fn on_grain(&self, index: i64, grain: u64) -> i64;

    /// What of the recording lies in a range of indices, which has samples of one part at most.
    fn within(&self, range: &Range<i64>) -> RangePortion;
}

/// What a recording has in a range of indices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangePortion {
    /// What a task reads; None if there are no samples.
    pub portion: Option<Portion>,
    /// First sample of the stretch that was under way last before the range or, where nothing was, of the first one.
    pub anchor: Option<i64>,
}

/// An index of a stretch that begins at `stretch`, or the next behind it that lies a multiple of `grain` from there, but not
/// behind `end`.
pub(crate) fn on_grain(index: i64, stretch: i64, end: i64, grain: u64) -> i64 {
    let into = index.abs_diff(stretch.min(index));
    let rest = into % grain.max(1);
    let ahead = if rest == 0 { 0 } else { grain - rest };
    index.saturating_add_unsigned(ahead).min(end)
}

/// The stretches of segments in memory.
#[derive(Debug)]
pub(crate) struct InMemory {
    segments: Segments,
    stretches: Vec<Range<i64>>,
    /// Of each stretch its first sample, were it one that is not read.
    anchors: Vec<i64>,
}

impl InMemory {
    pub(crate) fn new(segments: Segments, all: &[SigSeg], range: Option<Range<i64>>) -> Self {
        let range = range.unwrap_or(i64::MIN..i64::MAX);
        let mut stretches: Vec<Range<i64>> = Vec::new();
        let mut anchors = Vec::new();
        // End of the segment before, and the first sample from which on there is no gap.
        let mut whole: Option<(i64, i64)> = None;
        for segment in all {
            let goes_on = whole.filter(|(end, _)| *end == segment.start());
            let anchor = goes_on.map_or(segment.start(), |(_, anchor)| anchor);
            whole = Some((segment.end(), anchor));
            let part = segment.start().max(range.start)..segment.end().min(range.end);
            if part.is_empty() {
                continue;
            }
            match stretches.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => {
                    stretches.push(part);
                    anchors.push(anchor);
                }
            }
        }
        Self {
            segments,
            stretches,
            anchors,
        }
    }

    /// The first stretch that ends behind an index.
    fn stretch_at(&self, index: i64) -> usize {
        self.stretches.partition_point(|one| one.end <= index)
    }
}

impl IndexedSnapshot for InMemory {
    fn sample_from(&self, index: i64) -> Option<i64> {
        let stretch = self.stretches.get(self.stretch_at(index))?;
        Some(index.max(stretch.start))
    }

    fn part_behind(&self, index: i64) -> Option<i64> {
        let next = self.stretches.partition_point(|one| one.start <= index);
        Some(self.stretches.get(next)?.start)
    }

    fn on_grain(&self, index: i64, grain: u64) -> i64 {
        match self.stretches.get(self.stretch_at(index)) {
            Some(one) if one.start < index => on_grain(index, one.start, one.end, grain),
            _ => index,
        }
    }

    fn within(&self, range: &Range<i64>) -> RangePortion {
        let part = self.stretch_at(range.start);
        // Under way at the range's beginning, or over by then.
        let begun = self
            .stretches
            .partition_point(|one| one.start < range.start);
        let anchor = self.anchors.get(begun.saturating_sub(1)).copied();
        let before = part.checked_sub(1).map(|last| self.stretches[last].end);
        let portion = self.stretches.get(part).and_then(|stretch| {
            let range = range.start.max(stretch.start)..range.end.min(stretch.end);
            let goes_on = range.start > stretch.start;
            let before = if goes_on { Some(range.start) } else { before };
            (!range.is_empty()).then(|| Portion {
                before: before.map(|end| (end, 0)),
                range,
                part,
            })
        });
        RangePortion { portion, anchor }
    }
}

impl Snapshot for InMemory {
    fn portion_after(&self, last: Option<&Portion>, samples: u64, grain: u64) -> Option<Portion> {
        let mut part = last.map_or(0, |last| last.part);
        let mut from = last.map_or(i64::MIN, |last| last.range.end);
        let before = last.map(|last| (last.range.end, 0));
        if last.is_some_and(|last| self.stretches[last.part].end == last.range.end) {
            part += 1;
        }
        let stretch = self.stretches.get(part)?;
        from = from.max(stretch.start);
        let end = from.saturating_add_unsigned(samples.max(1));
        Some(Portion {
            range: from..on_grain(end, stretch.start, stretch.end, grain),
            before,
            part,
        })
    }

    fn open(
        &self,
        portion: &Portion,
        reach: PortionOverlap,
        segment: u64,
    ) -> Result<Box<dyn Source>, OpError> {
        let stretch = self.stretches.get(portion.part).unwrap_or(&portion.range);
        let Range { start, end } = portion.range;
        let from = start.saturating_sub_unsigned(reach.before);
        let to = end.saturating_add_unsigned(reach.after);
        let range = from.max(stretch.start)..to.min(stretch.end);
        Ok(Box::new(Joined {
            // What is read before the portion continues in it.
            before: portion.before.map(|(end, _)| end.min(range.start)),
            start: range.start,
            source: crate::Recording::open(&self.segments, Some(range), segment)?,
        }))
    }

    fn total(&self) -> u64 {
        let lengths = self.stretches.iter().map(|one| one.start.abs_diff(one.end));
        lengths.sum()
    }

    fn indexed(&self) -> Option<&dyn IndexedSnapshot> {
        Some(self)
    }
}

/// A pass that says what lies before its first stretch.
struct Joined {
    source: Box<dyn Source>,
    before: Option<i64>,
    start: i64,
}

impl Source for Joined {
    fn pull(&mut self) -> Result<SourceItem, OpError> {
        let pulled = self.source.pull()?;
        Ok(match (pulled, self.before.take()) {
            (SourceItem::RangeStart { anchor, why: None }, Some(before))
                if before != self.start =>
            {
                SourceItem::RangeStart {
                    anchor,
                    why: Some(Break::Gap(before..self.start)),
                }
            }
            (pulled, _) => pulled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_the_grain_goes_on_to_it_or_to_the_end() {
        assert_eq!(on_grain(100, 0, 1000, 1), 100);
        assert_eq!(on_grain(107, 7, 1000, 30), 127);
        assert_eq!(on_grain(127, 7, 1000, 30), 127);
        assert_eq!(on_grain(999, 7, 1000, 30), 1000);
        assert_eq!(on_grain(-42, -50, 1000, 8), -42);
        assert_eq!(on_grain(i64::MAX - 1, 0, i64::MAX, 1 << 20), i64::MAX);
    }
}
