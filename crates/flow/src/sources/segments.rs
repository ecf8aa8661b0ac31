//! Segments in memory as a recording.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, RwLock};

use isochrony_segment::SigSeg;
use isochrony_store::Signal;
use isochrony_time::Fixed;
use serde_json::{Map, Value, json};

use super::generated::NominalClock;
use super::segment_cutter::SegmentCutter;
use super::snapshot::align_to_grain;
use super::stored::clock::StoredClock;
use crate::plan::sent_objects::{SentObject, SentObjects};
use crate::{
    Break, Clock, IndexedSnapshot, OpError, PlanError, PortType, Portion, PortionOverlap,
    RangeOrigin, RangePortion, Recording, Snapshot, Source, SourceEvent,
};

/// Segments in memory, in index order, of one stream and dtype. Missing indices are gaps.
#[derive(Clone)]
pub struct Segments {
    segments: Arc<[SigSeg]>,
    port: PortType,
    clock: Option<Arc<dyn Clock>>,
    times: TimeSource,
}

#[derive(Clone)]
enum TimeSource {
    Unknown,
    /// Civil time of index 0.
    Start(Fixed),
    /// Equal indices are equal times.
    Of(Signal),
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segments({}, {})", self.port, self.segments.len())
    }
}

impl Segments {
    /// None without segments, with several streams or dtypes, or out of index order.
    #[must_use]
    pub fn new(segments: impl IntoIterator<Item = SigSeg>) -> Option<Self> {
        let segments: Arc<[SigSeg]> = segments.into_iter().collect();
        let first = segments.first()?;
        let alike = segments.windows(2).all(|pair| {
            pair[0].stream_id() == pair[1].stream_id()
                && pair[0].dtype() == pair[1].dtype()
                && pair[0].end() <= pair[1].start()
        });
        let port = PortType::Samples {
            dtype: first.dtype(),
            stream: first.stream_id(),
        };
        alike.then_some(Self {
            segments,
            port,
            clock: None,
            times: TimeSource::Unknown,
        })
    }

    /// As [`GeneratedRecording::starting`](crate::GeneratedRecording::starting).
    #[must_use]
    pub fn starting(mut self, start: Fixed) -> Self {
        let rate = self.port.stream().map(|stream| stream.rate);
        self.clock = rate.map(|rate| Arc::new(NominalClock { start, rate }) as Arc<dyn Clock>);
        self.times = TimeSource::Start(start);
        self
    }

    /// Uses the clock of a stored signal of the same timebase: equal indices are equal times.
    #[must_use]
    pub fn with_clock_of(mut self, signal: &Signal) -> Self {
        if !signal.state().fit.is_empty() {
            self.clock = Some(Arc::new(StoredClock(RwLock::new(signal.clone()))));
        }
        self.times = TimeSource::Of(signal.clone());
        self
    }
}

impl Recording for Segments {
    fn port(&self) -> PortType {
        self.port
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(SegmentPass {
            segments: self.segments.clone(),
            at: 0,
            range: range.unwrap_or(i64::MIN..i64::MAX),
            cut: SegmentCutter::new(segment),
            anchor: 0,
            clock: self.clock.clone(),
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.clock.clone()
    }

    fn snapshot(&self, range: Option<Range<i64>>) -> Result<Option<Arc<dyn Snapshot>>, OpError> {
        let all = MemorySnapshot::new(self.clone(), &self.segments, range);
        Ok(Some(Arc::new(all)))
    }

    fn is_splittable(&self) -> bool {
        true
    }

    fn sent(&self, objects: &mut SentObjects) -> Result<Map<String, Value>, PlanError> {
        let samples = objects.add(SentObject::Samples(self.segments.clone()));
        let mut form = Map::from_iter([("samples".into(), samples)]);
        match &self.times {
            TimeSource::Unknown => {}
            TimeSource::Start(start) => {
                form.insert("start".into(), json!(start.to_bits().to_string()));
            }
            TimeSource::Of(signal) => {
                let signal = objects.add(SentObject::Signal(signal.clone()));
                form.insert("clock".into(), signal);
            }
        }
        Ok(form)
    }

    fn within(&self) -> Option<Range<i64>> {
        Some(self.segments.first()?.start()..self.segments.last()?.end())
    }
}

struct SegmentPass {
    segments: Arc<[SigSeg]>,
    at: usize,
    range: Range<i64>,
    cut: SegmentCutter,
    anchor: i64,
    clock: Option<Arc<dyn Clock>>,
}

impl SegmentPass {
    /// Returns the `RangeStart` before a contiguous segment.
    fn enter(&mut self) -> Result<Option<SourceEvent>, OpError> {
        while let Some(segment) = self.segments.get(self.at) {
            let continues = self.at > 0 && self.segments[self.at - 1].end() == segment.start();
            if !continues {
                self.anchor = segment.start();
            }
            self.at += 1;
            let from = segment.start().max(self.range.start);
            let to = segment.end().min(self.range.end);
            if from >= to {
                continue;
            }
            return Ok(self.cut.enter(segment.subseg(from..to)?, self.anchor));
        }
        Ok(Some(SourceEvent::End))
    }
}

impl Source for SegmentPass {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if self.cut.is_empty()
            && let Some(first) = self.enter()?
        {
            return Ok(first);
        }
        Ok(self.cut.pull()?.unwrap_or(SourceEvent::End))
    }

    fn total(&self) -> Option<u64> {
        let within = |segment: &SigSeg| {
            let from = segment.start().max(self.range.start);
            let to = segment.end().min(self.range.end);
            if from < to { from.abs_diff(to) } else { 0 }
        };
        Some(self.segments.iter().map(within).sum())
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let stamp = self.clock.as_ref()?.stamp(index)?;
        Some(isochrony_time::civil::format(stamp.civil))
    }
}

#[derive(Debug)]
pub(crate) struct MemorySnapshot {
    segments: Segments,
    contiguous: Vec<Range<i64>>,
    /// First sample of each contiguous range; may precede the scanned range.
    anchors: Vec<i64>,
}

impl MemorySnapshot {
    pub(crate) fn new(segments: Segments, all: &[SigSeg], range: Option<Range<i64>>) -> Self {
        let range = range.unwrap_or(i64::MIN..i64::MAX);
        let mut contiguous: Vec<Range<i64>> = Vec::new();
        let mut anchors = Vec::new();
        // End of the previous segment, and first sample after the last gap.
        let mut whole: Option<(i64, i64)> = None;
        for segment in all {
            let goes_on = whole.filter(|(end, _)| *end == segment.start());
            let anchor = goes_on.map_or(segment.start(), |(_, anchor)| anchor);
            whole = Some((segment.end(), anchor));
            let part = segment.start().max(range.start)..segment.end().min(range.end);
            if part.is_empty() {
                continue;
            }
            match contiguous.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => {
                    contiguous.push(part);
                    anchors.push(anchor);
                }
            }
        }
        Self {
            segments,
            contiguous,
            anchors,
        }
    }

    /// The contiguous range with the first sample at or after an index.
    fn range_at(&self, index: i64) -> usize {
        self.contiguous.partition_point(|one| one.end <= index)
    }

    /// The contiguous range with the last sample before an index.
    fn range_before(&self, index: i64) -> Option<usize> {
        let begun = self.contiguous.partition_point(|one| one.start < index);
        begun.checked_sub(1)
    }

    /// End of the last samples before an index.
    fn samples_end(&self, index: i64) -> Option<i64> {
        let last = self.contiguous.get(self.range_before(index)?)?;
        Some(index.min(last.end))
    }

    fn end(&self) -> i64 {
        self.contiguous.last().map_or(i64::MIN, |last| last.end)
    }

    /// From the first sample to the last: one clock, so one part.
    fn whole(&self) -> Option<Range<i64>> {
        Some(self.contiguous.first()?.start..self.contiguous.last()?.end)
    }
}

impl IndexedSnapshot for MemorySnapshot {
    fn sample_from(&self, index: i64) -> Option<i64> {
        let range = self.contiguous.get(self.range_at(index))?;
        Some(index.max(range.start))
    }

    fn next_part_start(&self, index: i64) -> Option<i64> {
        let start = self.contiguous.first()?.start;
        (index < start).then_some(start)
    }

    fn align_to_grain(&self, index: i64, grain: u64) -> i64 {
        match self.contiguous.get(self.range_at(index)) {
            Some(one) if one.start < index => align_to_grain(index, one.start, one.end, grain),
            _ => index,
        }
    }

    fn within(&self, range: &Range<i64>) -> RangePortion {
        let origin = self.range_before(range.start).map(|begun| RangeOrigin {
            anchor: self.anchors[begun],
            first: self.contiguous[begun].start,
        });
        let first = self.sample_from(range.start);
        let own = first.filter(|&first| first < range.end);
        let portion = own.and(self.whole()).map(|whole| Portion {
            range: range.start.max(whole.start)..range.end.min(whole.end),
            before: self.samples_end(range.start).map(|end| (end, 0)),
            part: 0,
        });
        RangePortion { portion, origin }
    }
}

impl Snapshot for MemorySnapshot {
    fn portion_after(&self, last: Option<&Portion>, samples: u64, grain: u64) -> Option<Portion> {
        let whole = self.whole()?;
        let from = last.map_or(whole.start, |last| last.range.end);
        let first = self.sample_from(from)?;
        let wanted = first.saturating_add_unsigned(samples.max(1));
        let mut end = self.samples_end(wanted)?.max(first + 1);
        if end == wanted
            && let Some(one) = self.range_before(end)
        {
            let Range { start, end: last } = self.contiguous[one];
            end = align_to_grain(end, start, last, grain);
        }
        Some(Portion {
            range: from..end,
            // A portion ends right after a sample.
            before: last.map(|last| (last.range.end, 0)),
            part: 0,
        })
    }

    fn open(
        &self,
        portion: &Portion,
        overlap: PortionOverlap,
        segment: u64,
    ) -> Result<Box<dyn Source>, OpError> {
        let Range { start, end } = portion.range;
        let own = self.contiguous.get(self.range_at(start));
        let first = own.map_or(start, |own| own.start);
        let to = end.saturating_add_unsigned(overlap.after);
        // What is around it only if the samples before continue in it.
        let goes_on = first < start && portion.before.is_some_and(|(before, _)| before == start);
        let from = match goes_on {
            true => start.saturating_sub_unsigned(overlap.before).max(first),
            false => start,
        };
        let before = portion.before.filter(|_| !goes_on);
        Ok(Box::new(PortionPass {
            before: before.map(|(end, _)| end),
            first: Some(first),
            source: Recording::open(&self.segments, Some(from..to.min(self.end())), segment)?,
        }))
    }

    fn total(&self) -> u64 {
        let lengths = self
            .contiguous
            .iter()
            .map(|one| one.start.abs_diff(one.end));
        lengths.sum()
    }

    fn indexed(&self) -> Option<&dyn IndexedSnapshot> {
        Some(self)
    }
}

/// Announces the gap before it, and where the scan began to read the range.
struct PortionPass {
    source: Box<dyn Source>,
    before: Option<i64>,
    /// First sample read of the contiguous range in which it begins.
    first: Option<i64>,
}

impl Source for PortionPass {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let pulled = self.source.pull()?;
        let Some(first) = self.first.take() else {
            return Ok(pulled);
        };
        Ok(match pulled {
            SourceEvent::RangeStart { origin, why } => {
                let before = self.before.filter(|&before| before < first);
                SourceEvent::RangeStart {
                    origin: RangeOrigin { first, ..origin },
                    why: why.or_else(|| before.map(|end| Break::Gap(end..first))),
                }
            }
            other => other,
        })
    }
}
