//! Reads a subgraph's recordings. A [`ScanInput`] per subgraph opens a portion per task; a [`PortionSource`] per worker
//! presents portions as one recording, so operators survive from task to task.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_store::Reading;

use super::partition::UpcomingPortions;
use crate::engine::time_axis::TimeAxis;
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::{
    Break, Clock, OpError, PlannedReads, PortType, Portion, PortionOpener, PortionOverlap,
    RangeOrigin, RangePortion, Recording, RunError, SharedRecording, Snapshot, Source, SourceEvent,
};

#[derive(Clone)]
pub(super) struct ScanInput {
    pub(super) node: usize,
    pub(super) overlap: PortionOverlap,
    pub(super) segment: u64,
    pub(super) recording: SharedRecording,
    pub(super) snapshot: Arc<dyn Snapshot>,
    /// Reads ahead for all workers; None: each task opens its own portion.
    shared_reader: Option<Arc<dyn PortionOpener>>,
}

impl ScanInput {
    pub(super) fn time(&self, index: i64) -> f64 {
        TimeAxis::of_port(Some(&self.recording.0.port())).time(index)
    }

    /// None if single-pass, or without indices where several are read together.
    pub(super) fn new(
        graph: &Graph,
        node: usize,
        overlap: PortionOverlap,
        needs_index: bool,
    ) -> Result<Option<Self>, RunError> {
        let Op::Scan {
            recording,
            range,
            segment,
        } = &graph.nodes[node].op
        else {
            return Ok(None);
        };
        let snapshot = recording.0.snapshot(range.clone());
        let snapshot = snapshot.map_err(|error| scan_error(node, error))?;
        let snapshot = snapshot.filter(|one| !needs_index || one.indexed().is_some());
        Ok(snapshot.map(|snapshot| Self {
            node,
            overlap,
            segment: *segment,
            recording: recording.clone(),
            snapshot,
            shared_reader: None,
        }))
    }

    pub(super) fn start_read_ahead(
        &mut self,
        portions: UpcomingPortions,
        workers: usize,
    ) -> Result<(), RunError> {
        let foreseen = PlannedReads {
            overlap: self.overlap,
            segment: self.segment,
            at_once: workers,
            portions: Box::new(portions),
        };
        let shared_reader = self.snapshot.clone().portion_opener(foreseen);
        self.shared_reader = shared_reader.map_err(|error| scan_error(self.node, error))?;
        Ok(())
    }

    pub(super) fn open(
        &self,
        task: u64,
        portion: Option<&Portion>,
    ) -> Result<Option<Box<dyn Source>>, OpError> {
        if let Some(shared_reader) = &self.shared_reader {
            return shared_reader.open(task, portion);
        }
        let open = |portion| self.snapshot.open(portion, self.overlap, self.segment);
        portion.map(open).transpose()
    }
}

pub(super) fn scan_error(node: usize, error: OpError) -> RunError {
    RunError::Operator {
        operator: "scan",
        node,
        range: None,
        time: None,
        error,
    }
}

#[derive(Default)]
pub(super) struct PortionReader {
    source: Option<Box<dyn Source>>,
    /// Announced first, unless the portion begins inside a contiguous range.
    pending_origin: Option<RangeOrigin>,
    lookahead: Option<SourceEvent>,
    reading: Option<Reading>,
    range: Range<i64>,
    upto: i64,
    /// Read or skipped.
    pub(super) samples: u64,
    begun: bool,
    continues: bool,
    finished: bool,
    end_announced: bool,
}

impl PortionReader {
    pub(super) fn new(
        source: Option<Box<dyn Source>>,
        range: Range<i64>,
        overlap: PortionOverlap,
        read: &RangePortion,
    ) -> Self {
        Self {
            source,
            pending_origin: read.origin,
            upto: range.end.saturating_add_unsigned(overlap.after),
            range,
            ..Self::default()
        }
    }

    pub(super) fn continues(mut self) -> Self {
        self.continues = true;
        self
    }

    pub(super) fn continue_with(&mut self, source: Box<dyn Source>, completes: bool) {
        (self.source, self.continues) = (Some(source), !completes);
    }

    pub(super) fn reading(&self) -> Option<Reading> {
        let now = self.source.as_ref().and_then(|source| source.reading());
        now.or_else(|| self.reading.clone())
    }

    pub(super) fn switch_to(&mut self, next: Self) {
        let reading = self.reading();
        *self = Self { reading, ..next };
    }

    pub(super) fn close(&mut self) {
        self.reading = self.reading();
        self.source = None;
    }

    fn count(&mut self, samples: Range<i64>) -> Range<i64> {
        let start = samples.start.max(self.range.start);
        let own = start..samples.end.min(self.range.end).max(start);
        self.samples += own.start.abs_diff(own.end);
        own
    }

    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if let Some(next) = self.lookahead.take() {
            return Ok(next);
        }
        let mut pulled = SourceEvent::Rewind;
        // Nothing was given in this task: a rewind needs no notice.
        while matches!(pulled, SourceEvent::Rewind) {
            pulled = match &mut self.source {
                Some(source) => source.pull()?,
                None => SourceEvent::End,
            };
        }
        let Some(origin) = self.pending_origin.take() else {
            return Ok(pulled);
        };
        // A range that continues from before the portion announces itself.
        if matches!(pulled, SourceEvent::RangeStart { why: None, .. }) {
            return Ok(pulled);
        }
        self.lookahead = Some(pulled);
        Ok(SourceEvent::RangeStart { origin, why: None })
    }
}

/// All portions of a worker, as one source that a replica opens once.
pub(super) struct PortionSource {
    reader: Arc<Mutex<PortionReader>>,
    recording: SharedRecording,
}

impl PortionSource {
    pub(super) fn new(reader: &Arc<Mutex<PortionReader>>, recording: &SharedRecording) -> Self {
        Self {
            reader: reader.clone(),
            recording: recording.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PortionReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recording for PortionSource {
    fn port(&self) -> PortType {
        self.recording.0.port()
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(Self {
            reader: self.reader.clone(),
            recording: self.recording.clone(),
        }))
    }

    fn registers_clock(&self) -> bool {
        self.recording.0.registers_clock()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.recording.clock()
    }
}

impl Source for PortionSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let mut reader = self.lock();
        if reader.finished {
            // Lets a fan-in proceed without waiting for this source.
            return Ok(match std::mem::replace(&mut reader.end_announced, true) {
                false => SourceEvent::ProgressMark(reader.upto),
                true => SourceEvent::Idle,
            });
        }
        match reader.pull()? {
            // A break after the portion belongs to the next task.
            SourceEvent::RangeStart { origin, .. }
                if reader.begun && origin.anchor >= reader.range.end => {}
            SourceEvent::End if reader.continues => return Ok(SourceEvent::Idle),
            SourceEvent::End => {}
            SourceEvent::RangeStart { origin, why } => {
                reader.begun = true;
                return Ok(SourceEvent::RangeStart { origin, why });
            }
            SourceEvent::Item(item) => {
                if let Some((start, next)) = item.extent() {
                    reader.count(start..next);
                }
                return Ok(SourceEvent::Item(item));
            }
            SourceEvent::Skipped { range, own } => {
                let own = reader.count(own);
                return Ok(SourceEvent::Skipped { range, own });
            }
            other => return Ok(other),
        }
        reader.finished = true;
        // An empty break: operators flush and reset; no samples count as dropped. The largest anchor lets other inputs
        // of a fan-in finish the portion.
        let end = reader.range.end;
        Ok(SourceEvent::RangeStart {
            origin: RangeOrigin::at(i64::MAX),
            why: Some(Break::Dropped(end..end)),
        })
    }

    fn time_of(&self, index: i64) -> Option<String> {
        self.lock().source.as_ref()?.time_of(index)
    }

    fn continues_after_failure(&mut self) -> bool {
        true
    }

    fn reading(&self) -> Option<Reading> {
        self.lock().reading()
    }
}
