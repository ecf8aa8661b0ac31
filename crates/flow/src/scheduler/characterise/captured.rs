//! Items on an edge, captured in one execution and replayed in others.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use isochrony_runtime::Progress;

use crate::{
    Break, Clock, Contract, Item, Next, OpError, Operator, OperatorFactory, OperatorProperties,
    Out, PlanError, Port, PortType, RangeOrigin, Recording, SharedRecording, Source, SourceEvent,
};

#[derive(Default)]
pub(in crate::scheduler) struct Events(Vec<CapturedEvent>);

#[derive(Clone)]
enum CapturedEvent {
    RangeStart(RangeOrigin, Option<Break>),
    Item(Item),
}

impl Events {
    pub(in crate::scheduler) fn items(&self) -> u64 {
        let is_item = |event: &&CapturedEvent| matches!(event, CapturedEvent::Item(_));
        self.0.iter().filter(is_item).count() as u64
    }

    pub(super) fn samples(&self) -> u64 {
        let items = self.0.iter().map(|event| match event {
            CapturedEvent::Item(item) => item.samples(),
            CapturedEvent::RangeStart(..) => 0,
        });
        items.sum()
    }
}

#[derive(Clone, Default)]
pub(super) struct CapturedItems(Arc<Mutex<Events>>);

impl CapturedItems {
    pub(super) fn take(&self) -> Events {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut events)
    }

    fn push(&self, event: CapturedEvent) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.0.push(event);
    }
}

impl OperatorFactory for CapturedItems {
    fn name(&self) -> &'static str {
        "capture"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for CapturedItems {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let port = inputs.first().copied().unwrap_or(PortType::Count);
        Ok(OperatorProperties::new([port]).contract(Contract::Sequential))
    }

    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        self.push(CapturedEvent::RangeStart(origin, why.cloned()));
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        self.push(CapturedEvent::Item(item.take()));
        Ok(Next::Consumed)
    }
}

pub(super) struct ReplayRecording {
    pub(super) port: PortType,
    pub(super) events: Arc<Events>,
    /// Gives indices and times.
    pub(super) reads: Option<SharedRecording>,
}

impl Recording for ReplayRecording {
    fn port(&self) -> PortType {
        self.port
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(ReplaySource {
            events: Arc::clone(&self.events),
            next: 0,
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.reads.as_ref()?.clock()
    }

    fn registers_clock(&self) -> bool {
        false
    }
}

struct ReplaySource {
    events: Arc<Events>,
    next: usize,
}

impl Source for ReplaySource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let Some(event) = self.events.0.get(self.next) else {
            return Ok(SourceEvent::End);
        };
        self.next += 1;
        Ok(match event.clone() {
            CapturedEvent::RangeStart(origin, why) => SourceEvent::RangeStart { origin, why },
            CapturedEvent::Item(item) => SourceEvent::Item(item),
        })
    }

    fn overlaps(&self) -> bool {
        true
    }
}

pub(super) struct LimitedRecording {
    whole: SharedRecording,
    samples: u64,
    given: Arc<Progress>,
}

impl LimitedRecording {
    pub(super) fn new(whole: SharedRecording, samples: u64) -> Self {
        Self {
            whole,
            samples,
            given: Arc::default(),
        }
    }

    pub(super) fn given(&self) -> Arc<Progress> {
        Arc::clone(&self.given)
    }
}

impl Recording for LimitedRecording {
    fn port(&self) -> PortType {
        self.whole.0.port()
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(LimitedSource {
            whole: self.whole.0.open(range, segment)?,
            left: self.samples,
            given: Arc::clone(&self.given),
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.whole.0.clock()
    }

    fn registers_clock(&self) -> bool {
        self.whole.0.registers_clock()
    }

    fn skips_samples(&self) -> bool {
        self.whole.0.skips_samples()
    }
}

struct LimitedSource {
    whole: Box<dyn Source>,
    left: u64,
    given: Arc<Progress>,
}

impl Source for LimitedSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if self.left == 0 {
            self.whole.close();
            return Ok(SourceEvent::End);
        }
        let event = self.whole.pull()?;
        if let SourceEvent::Item(item) = &event {
            let samples = item.samples();
            self.left = self.left.saturating_sub(samples);
            self.given.advance(samples);
        }
        Ok(event)
    }

    fn time_of(&self, index: i64) -> Option<String> {
        self.whole.time_of(index)
    }

    fn overlaps(&self) -> bool {
        self.whole.overlaps()
    }

    fn close(&mut self) {
        self.whole.close();
    }
}
