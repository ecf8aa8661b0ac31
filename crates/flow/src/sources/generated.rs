//! Generated samples as a recording.
//!
//! A segment that starts at the end of the previous one continues it; a later start is a gap, an earlier one an error.
//! Long segments are cut, by reference.

use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::{DType, SigSeg, StreamId};
use isochrony_time::{Fixed, Rate, Stamp};
use serde_json::{Map, Value};

use super::segment_cutter::SegmentCutter;
use crate::plan::sent_objects::SentObjects;
use crate::{
    Cause, Clock, OpError, OpErrorKind, PlanError, PortType, Recording, Resource, Source,
    SourceEvent,
};

/// Returns the next segment of a pass; None at the end.
pub type SegmentGenerator = Box<dyn FnMut() -> Result<Option<SigSeg>, OpError> + Send>;
/// Starts a pass.
pub type GeneratorFactory = Arc<dyn Fn() -> Result<SegmentGenerator, OpError> + Send + Sync>;
type SentForm =
    Arc<dyn Fn(&mut SentObjects) -> Result<Map<String, Value>, PlanError> + Send + Sync>;

/// Generated samples.
///
/// ```
/// use isochrony_flow::{GeneratedRecording, Plan};
/// use isochrony_segment::{DType, SigSeg, Stream};
/// use isochrony_time::{Rate, TimebaseId};
///
/// let stream = Stream::new("ramp", TimebaseId(0), Rate::new(100, 1)?).intern();
/// let ramp = GeneratedRecording::new(DType::I32, stream, move || {
///     let mut starts = (0..1000).step_by(10);
///     Ok(Box::new(move || {
///         let segment = starts.next().map(|start| {
///             let samples: Vec<i32> = (start..start + 10).collect();
///             SigSeg::from_slice(&samples, start.into(), stream)
///         });
///         Ok(segment.transpose()?)
///     }))
/// });
/// assert_eq!(Plan::scan(ramp).rewindow(30)?.count()?.collect()?.count(), Some(33));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct GeneratedRecording {
    dtype: DType,
    stream: StreamId,
    begin: GeneratorFactory,
    clock: Option<Arc<NominalClock>>,
    saved: Option<Map<String, Value>>,
    sent: Option<SentForm>,
    needs: Resource,
}

impl GeneratedRecording {
    /// Segments of one dtype and stream; each pass calls `begin` once.
    pub fn new(
        dtype: DType,
        stream: StreamId,
        begin: impl Fn() -> Result<SegmentGenerator, OpError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            dtype,
            stream,
            begin: Arc::new(begin),
            clock: None,
            saved: None,
            sent: None,
            needs: Resource::Cpu,
        }
    }

    /// Sets the civil time of index 0, in ns; the rest follows at the stream's rate.
    #[must_use]
    pub fn starting(mut self, start: Fixed) -> Self {
        let rate = self.stream.get().rate;
        self.clock = Some(Arc::new(NominalClock { start, rate }));
        self
    }

    /// Sets its form in a saved plan.
    #[must_use]
    pub fn saved_as(mut self, saved: Map<String, Value>) -> Self {
        self.saved = Some(saved);
        self
    }

    /// Sets its form in a plan sent to another process.
    #[must_use]
    pub fn sent_as(
        mut self,
        sent: impl Fn(&mut SentObjects) -> Result<Map<String, Value>, PlanError> + Send + Sync + 'static,
    ) -> Self {
        self.sent = Some(Arc::new(sent));
        self
    }

    /// The generator occupies the Python interpreter.
    #[must_use]
    pub fn in_interpreter(mut self) -> Self {
        self.needs = Resource::Interpreter;
        self
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct NominalClock {
    /// Of index 0, in ns.
    pub(crate) start: Fixed,
    pub(crate) rate: Rate,
}

impl Clock for NominalClock {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        for (out, &index) in out.iter_mut().zip(indices) {
            let time = self.stamp(index).and_then(|stamp| stamp.civil.round_i64());
            *out = time.unwrap_or(i64::MIN);
        }
        Ok(())
    }

    fn stamp(&self, index: i64) -> Option<Stamp> {
        let since = self.rate.duration_ns(index).ok()?;
        Some(Stamp::new(self.start.checked_add(since)?, Fixed::ZERO))
    }
}

impl Recording for GeneratedRecording {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: self.dtype,
            stream: self.stream,
        }
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(GeneratedPass {
            generator: (self.begin)()?,
            dtype: self.dtype,
            stream: self.stream,
            range: range.unwrap_or(i64::MIN..i64::MAX),
            cut: SegmentCutter::new(segment),
            end: None,
            anchor: 0,
            clock: self.clock(),
        }))
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        self.saved.clone()
    }

    fn sent(&self, objects: &mut SentObjects) -> Result<Map<String, Value>, PlanError> {
        match &self.sent {
            Some(sent) => sent(objects),
            None => Err(PlanError::NotSendable {
                operator: format!("scan({})", self.stream.get().name),
                what: "a function of this process",
                mend: "build the plan in the process that runs it",
            }),
        }
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = self.clock.clone()?;
        Some(clock)
    }

    fn needs(&self) -> Resource {
        self.needs
    }
}

struct GeneratedPass {
    generator: SegmentGenerator,
    dtype: DType,
    stream: StreamId,
    range: Range<i64>,
    cut: SegmentCutter,
    end: Option<i64>,
    anchor: i64,
    clock: Option<Arc<dyn Clock>>,
}

fn refused(why: String) -> OpError {
    OpErrorKind::Failed(Cause::from(why)).into()
}

impl GeneratedPass {
    /// Returns the `RangeStart` before a contiguous segment.
    fn enter(&mut self) -> Result<Option<SourceEvent>, OpError> {
        loop {
            let Some(made) = (self.generator)()?.filter(|made| made.start() < self.range.end)
            else {
                return Ok(Some(SourceEvent::End));
            };
            if made.dtype() != self.dtype || made.stream_id() != self.stream {
                return Err(refused(format!(
                    "got {} of {} where {} of {} was expected; make segments of one dtype and stream",
                    made.dtype(),
                    made.stream().name,
                    self.dtype,
                    self.stream.get().name
                )));
            }
            let end = self.end.replace(made.end());
            if end.is_some_and(|end| made.start() < end) {
                return Err(refused(format!(
                    "samples from index {} come after those up to {}; give segments in order of their indices",
                    made.start(),
                    end.unwrap_or_default()
                )));
            }
            if end != Some(made.start()) {
                self.anchor = made.start();
            }
            let (from, to) = (
                made.start().max(self.range.start),
                made.end().min(self.range.end),
            );
            if from >= to {
                continue;
            }
            return Ok(self.cut.enter(made.subseg(from..to)?, self.anchor));
        }
    }
}

impl Source for GeneratedPass {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if self.cut.is_empty()
            && let Some(first) = self.enter()?
        {
            return Ok(first);
        }
        Ok(self.cut.pull()?.unwrap_or(SourceEvent::End))
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let stamp = self.clock.as_ref()?.stamp(index)?;
        Some(isochrony_time::civil::format(stamp.civil))
    }
}
