//! Where samples come from: recordings that can be scanned again and again, and the sources that one scan pulls from.

pub(crate) mod description;
pub(crate) mod generated;
mod segment_cutter;
pub(crate) mod snapshot;
pub(crate) mod stored;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::{SigSeg, Stream};
use isochrony_store::{Reading, Signal};
use serde_json::{Map, Value};

use crate::plan::rows::on_grid;
use crate::{
    Break, Clock, Item, OpError, OuterGaps, PortType, Resource, RunError, SignalDescription,
    Snapshot,
};
use segment_cutter::Cut;
use snapshot::InMemory;

/// What a source gives next.
#[derive(Debug)]
pub enum SourceItem {
    /// A stretch without gaps or clock steps begins, before its first item: the index of its first sample, which
    /// lies before the scanned range if that begins inside the stretch; and what separates it from the stretch before.
    RangeStart {
        /// Windows are counted from here.
        anchor: i64,
        /// None for the first stretch of a scan.
        why: Option<Break>,
    },
    /// An item that continues the one before, or the first of a stretch.
    Item(Item),
    /// What follows lies before what was given, as ranges of a selection may: streams meet within what ascends. Before the
    /// stretch that begins there.
    Rewind,
    /// Nothing for now, from a live source; it wakes the run when there is something ([`Source::wakes`]).
    Idle,
    /// Nothing that begins before this index follows: where items alone do not say so.
    ProgressMark(i64),
    /// Nothing follows.
    End,
}

/// One pass over a recording.
pub trait Source: Send {
    /// What comes next. Called from one thread; may block for the time of one read.
    ///
    /// # Errors
    /// A failed read, an interrupt.
    fn pull(&mut self) -> Result<SourceItem, OpError>;

    /// Civil time of an index, for error messages.
    fn time_of(&self, index: i64) -> Option<String> {
        let _ = index;
        None
    }

    /// The run has failed elsewhere: whether the source goes on up to there, so that an error that comes before is found. What
    /// is pulled then has no consequences but errors.
    fn continues_after_failure(&mut self) -> bool {
        false
    }

    /// Whether what it had not got when it was last asked comes by itself, so that others may wait for it.
    fn is_awaited(&self) -> bool {
        false
    }

    /// What was met elsewhere and ended it, where [`OpErrorKind::Interrupted`](crate::OpErrorKind::Interrupted) is what
    /// pulling failed with; and when in what is read that was.
    fn failure(&mut self) -> Option<(f64, RunError)> {
        None
    }

    /// The run's thread, which a source that answers [`SourceItem::Idle`] unparks when there is something to pull. Said once,
    /// before the first pull.
    fn wakes(&mut self, thread: &std::thread::Thread) {
        let _ = thread;
    }

    /// Whether an item may begin before the place where the last one is continued, as where streams were merged.
    fn overlaps(&self) -> bool {
        false
    }

    /// Nobody wants more of it; said at the end of a run too, and perhaps more than once.
    fn close(&mut self) {}

    /// How it reads from a store, for the report.
    fn reading(&self) -> Option<Reading> {
        None
    }

    /// Samples in all, where that is known: what progress is measured against.
    fn total(&self) -> Option<u64> {
        None
    }

    /// Samples given so far, towards the total; None: those of its items.
    fn given(&self) -> Option<u64> {
        None
    }

    /// Samples whose items will come, where that is known, so that a sink may set memory aside.
    fn expects(&self) -> Option<u64> {
        self.total()
    }
}

/// Something that can be scanned: a stored signal, an array.
pub trait Recording: Send + Sync {
    /// What flows from it.
    fn port(&self) -> PortType;

    /// Begins a pass over the samples with indices in `range`, in segments of at most `segment` samples.
    ///
    /// # Errors
    /// Whatever opening meets.
    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError>;

    /// The recording as it is now, which several threads can read; None of what can only be read in one pass, as a feed.
    ///
    /// # Errors
    /// Whatever opening meets.
    fn snapshot(&self, range: Option<Range<i64>>) -> Result<Option<Arc<dyn Snapshot>>, OpError> {
        let _ = range;
        Ok(None)
    }

    /// Whether [`snapshot`](Self::snapshot) gives something.
    fn is_splittable(&self) -> bool {
        false
    }

    /// Whether it leaves samples out between others that it gives, as a selection of several ranges.
    fn skips_samples(&self) -> bool {
        false
    }

    /// Whether a pass over all of it gives all of its own samples, so that what is missing between them are its gaps.
    fn gives_own_samples(&self) -> bool {
        !self.skips_samples()
    }

    /// A range in which all its samples lie, also those that it may get; None: anywhere.
    fn within(&self) -> Option<Range<i64>> {
        None
    }

    /// What knows the civil times of its indices, if they are known. It must live as long as the recording does.
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }

    /// What it says of itself, where operators get its own samples; None: nothing.
    fn description(&self) -> Option<SignalDescription> {
        None
    }

    /// Gaps at the ends of what the last pass read; of a feed they are known at its end.
    fn outer_gaps(&self) -> OuterGaps {
        OuterGaps::default()
    }

    /// Whether samples whose times its clock does not tell were recorded without, as in a store. Else they have some that
    /// are not known here.
    fn knows_all_times(&self) -> bool {
        false
    }

    /// In words, how a range of it (None: all) will be read from a store; reads no samples.
    fn reads(&self, range: Option<Range<i64>>) -> Option<String> {
        let _ = range;
        None
    }

    /// The stored signal that it reads, and its index ranges (None: all); None of what is no stored signal.
    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        None
    }

    /// How a saved plan names it; None if it exists in this process only.
    fn saved(&self) -> Option<Map<String, Value>> {
        None
    }

    /// What reading it occupies.
    fn needs(&self) -> Resource {
        Resource::Cpu
    }
}

/// A shared recording; equal if it is the same one or is saved under the same name.
#[derive(Clone)]
pub struct SharedRecording(pub(crate) Arc<dyn Recording>);

impl SharedRecording {
    /// Shares a recording.
    pub fn new(recording: impl Recording + 'static) -> Self {
        Self(Arc::new(recording))
    }
}

impl SharedRecording {
    /// What knows the civil times of its indices, if they are known.
    #[must_use]
    pub fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.clock()
    }

    /// The same for the indices of a stream that was made of it, also of one that was resampled.
    #[must_use]
    pub fn clock_of(&self, stream: &Stream) -> Option<Arc<dyn Clock>> {
        Some(on_grid(self.clock()?, stream))
    }

    /// How a saved plan names it; None if it exists in this process only.
    #[must_use]
    pub fn saved(&self) -> Option<Map<String, Value>> {
        self.0.saved()
    }

    /// What it says of itself; None of what operators made of its samples.
    #[must_use]
    pub fn description(&self) -> Option<SignalDescription> {
        self.0.description()
    }

    /// Gaps at the ends of what the last pass read; none of what operators made of its samples.
    #[must_use]
    pub fn outer_gaps(&self) -> OuterGaps {
        self.0.outer_gaps()
    }

    /// Whether samples whose times its clock does not tell were recorded without.
    #[must_use]
    pub fn knows_all_times(&self) -> bool {
        self.0.knows_all_times()
    }
}

impl SharedRecording {
    /// A text that equal recordings share, to look them up by.
    pub(crate) fn key(&self) -> String {
        let own = || format!("{:p}", Arc::as_ptr(&self.0));
        self.0
            .saved()
            .map_or_else(own, |saved| format!("{saved:?}"))
    }
}

impl PartialEq for SharedRecording {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || matches!((self.0.saved(), other.0.saved()), (Some(a), Some(b)) if a == b)
    }
}

impl fmt::Debug for SharedRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedRecording({})", self.0.port())
    }
}

/// Segments in memory, as a recording: in index order, of one stream and dtype. What does not continue the segment
/// before is after a gap.
#[derive(Debug, Clone)]
pub struct Segments {
    segments: Arc<[SigSeg]>,
    port: PortType,
}

impl Segments {
    /// The segments; None if there is none, if they differ in stream or dtype, or if indices go back.
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
        alike.then_some(Self { segments, port })
    }
}

impl Recording for Segments {
    fn port(&self) -> PortType {
        self.port
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(SegmentsPass {
            segments: self.segments.clone(),
            at: 0,
            range: range.unwrap_or(i64::MIN..i64::MAX),
            cut: Cut::new(segment),
            anchor: 0,
        }))
    }

    fn snapshot(&self, range: Option<Range<i64>>) -> Result<Option<Arc<dyn Snapshot>>, OpError> {
        let all = InMemory::new(self.clone(), &self.segments, range);
        Ok(Some(Arc::new(all)))
    }

    fn is_splittable(&self) -> bool {
        true
    }

    fn within(&self) -> Option<Range<i64>> {
        Some(self.segments.first()?.start()..self.segments.last()?.end())
    }
}

struct SegmentsPass {
    segments: Arc<[SigSeg]>,
    at: usize,
    range: Range<i64>,
    cut: Cut,
    anchor: i64,
}

impl SegmentsPass {
    /// The next segment's part in the range; announces a stretch before its first part.
    fn enter(&mut self) -> Result<Option<SourceItem>, OpError> {
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
        Ok(Some(SourceItem::End))
    }
}

impl Source for SegmentsPass {
    fn pull(&mut self) -> Result<SourceItem, OpError> {
        if self.cut.is_empty()
            && let Some(first) = self.enter()?
        {
            return Ok(first);
        }
        Ok(self.cut.pull()?.unwrap_or(SourceItem::End))
    }

    fn total(&self) -> Option<u64> {
        let within = |segment: &SigSeg| {
            let from = segment.start().max(self.range.start);
            let to = segment.end().min(self.range.end);
            if from < to { from.abs_diff(to) } else { 0 }
        };
        Some(self.segments.iter().map(within).sum())
    }
}
