//! The end of a link in the stage that fills it: an operator behind each edge that leads to the next stage.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_runtime::{CoreUser, Progress, WaitReason};

use super::link::{Batch, Link, Refused};
use crate::plan::graph::Edge;
use crate::{
    Break, Contract, Item, Next, OpError, Operator, OperatorFactory, OperatorProperties, Out,
    PlanError, Port, PortType, RangeOrigin, SharedRecording, SourceEvent,
};

/// What an edge carries, with the edge's number in the link.
pub(super) type LinkEvent = (u16, SourceEvent);

/// Bytes of a batch that are sent before the burst ends.
const BATCH_BYTES: u64 = 256 << 10;
/// What an event costs beside its samples.
const EVENT_BYTES: u64 = 128;

/// An edge that a link carries.
pub(super) struct LinkedEdge {
    pub(super) edge: Edge,
    /// Its consumers have ended.
    closed: AtomicBool,
    /// Samples that will come, if known; else `u64::MAX`.
    expected: AtomicU64,
}

/// Where a stage failed: what stands for the error until the execution ends.
#[derive(Debug, Clone)]
pub(super) struct StageFailure {
    pub(super) stage: usize,
    /// Of the failed item, which ranks the error.
    pub(super) time: f64,
    pub(super) node: usize,
    /// Whether an operator failed, as opposed to a lack of memory.
    pub(super) is_operator_error: bool,
}

/// Joins a stage to a later one: all edges between them, in the order in which the first stage computes their items.
pub(super) struct StageLink {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) edges: Vec<LinkedEdge>,
    pub(super) link: Link<LinkEvent>,
    /// Set when the writing stage has failed, before the link ends.
    pub(super) failure: Mutex<Option<StageFailure>>,
    /// Samples that the sources of the writing stage will give, if known, and if this of its links counts them.
    pub(super) total: Mutex<Option<u64>>,
    pub(super) counts: bool,
}

impl StageLink {
    pub(super) fn new(
        from: usize,
        to: usize,
        edges: Vec<Edge>,
        capacity: u64,
        counts: bool,
    ) -> Self {
        let edges = edges.into_iter().map(|edge| LinkedEdge {
            edge,
            closed: AtomicBool::new(false),
            expected: AtomicU64::new(u64::MAX),
        });
        Self {
            from,
            to,
            edges: edges.collect(),
            link: Link::new(capacity),
            failure: Mutex::new(None),
            total: Mutex::new(None),
            counts,
        }
    }

    /// Closes an edge; the link, if it was the last.
    pub(super) fn close(&self, port: u16) {
        self.edges[usize::from(port)]
            .closed
            .store(true, Ordering::Relaxed);
        let mut edges = self.edges.iter();
        if edges.all(|edge| edge.closed.load(Ordering::Relaxed)) {
            self.link.close();
        }
    }

    pub(super) fn is_closed(&self, port: u16) -> bool {
        self.edges[usize::from(port)].closed.load(Ordering::Relaxed)
    }

    pub(super) fn expected(&self, port: u16) -> Option<u64> {
        let expected = self.edges[usize::from(port)]
            .expected
            .load(Ordering::Relaxed);
        (expected != u64::MAX).then_some(expected)
    }
}

/// What the edges of a link gave and has not been sent. Used by the thread of one stage.
pub(super) struct LinkWriter {
    pub(super) link: Arc<StageLink>,
    /// Numbers of the operators that write to it, by edge.
    pub(super) nodes: Vec<usize>,
    core: Arc<CoreUser>,
    /// What the sources of the stage gave.
    delivered: Arc<Progress>,
    events: Vec<LinkEvent>,
    bytes: u64,
    /// The next stage knows that nothing has come since.
    is_idle: bool,
}

/// Shared by the stage and its operators.
pub(super) type SharedWriter = Arc<Mutex<LinkWriter>>;

pub(super) fn lock(writer: &SharedWriter) -> MutexGuard<'_, LinkWriter> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LinkWriter {
    pub(super) fn new(
        link: &Arc<StageLink>,
        core: &Arc<CoreUser>,
        delivered: &Arc<Progress>,
    ) -> Self {
        Self {
            link: Arc::clone(link),
            nodes: Vec::new(),
            core: Arc::clone(core),
            delivered: Arc::clone(delivered),
            events: Vec::new(),
            bytes: 0,
            is_idle: false,
        }
    }

    fn push(&mut self, port: u16, event: SourceEvent) {
        if let SourceEvent::Item(item) = &event {
            self.bytes += item.bytes();
        }
        self.bytes += EVENT_BYTES;
        self.events.push((port, event));
        self.is_idle = false;
        if self.bytes >= BATCH_BYTES {
            self.send();
        }
    }

    /// Of consecutive marks of an edge only the last is needed.
    fn push_progress(&mut self, port: u16, upto: i64) {
        match self.events.last_mut() {
            Some((last_port, SourceEvent::ProgressMark(last))) if *last_port == port => {
                *last = upto.max(*last);
            }
            _ => self.push(port, SourceEvent::ProgressMark(upto)),
        }
    }

    /// Sends what there is, once there is room.
    pub(super) fn send(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let mut batch = Batch {
            events: std::mem::take(&mut self.events),
            bytes: std::mem::take(&mut self.bytes),
            delivered: self.delivered.done(),
        };
        loop {
            let bytes = batch.bytes;
            batch = match self.link.link.send(batch) {
                Ok(()) | Err(Refused::Closed) => return,
                Err(Refused::Full(batch)) => batch,
            };
            let wait = || self.link.link.wait_for_room(bytes);
            self.core.outside(WaitReason::Output, wait);
        }
    }

    /// Sends the rest: the stage has ended, or failed.
    pub(super) fn end(&mut self, failure: Option<StageFailure>) {
        self.send();
        *self
            .link
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = failure;
        self.link.link.end();
    }
}

/// Makes the operator that passes what one edge gives to a link.
pub(super) struct LinkSender {
    pub(super) writer: SharedWriter,
    pub(super) port: u16,
}

impl OperatorFactory for LinkSender {
    fn name(&self) -> &'static str {
        "link"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self {
            writer: Arc::clone(&self.writer),
            port: self.port,
        }))
    }
}

impl Operator for LinkSender {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let mut writer = lock(&self.writer);
        if writer.link.is_closed(self.port) {
            return Ok(Next::Done);
        }
        writer.push(self.port, SourceEvent::Item(item.take()));
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, _: Port, why: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        // Others are announced, or show in the indices of the next item.
        if matches!(why, Break::Rewind) {
            lock(&self.writer).push(self.port, SourceEvent::Rewind);
        }
        Ok(())
    }

    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        let why = why.cloned();
        lock(&self.writer).push(self.port, SourceEvent::RangeStart { origin, why });
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        lock(&self.writer).push_progress(self.port, upto);
        upto
    }

    fn finish(&mut self, _: Port, _: &mut Out<'_>) -> Result<(), OpError> {
        lock(&self.writer).push(self.port, SourceEvent::End);
        Ok(())
    }

    /// Sends at once: the thread sleeps next.
    fn idle(&mut self, _: &mut Out<'_>) -> Result<(), OpError> {
        let mut writer = lock(&self.writer);
        if !writer.is_idle {
            writer.push(self.port, SourceEvent::Idle);
            writer.is_idle = true;
        }
        writer.send();
        Ok(())
    }

    fn expect(&mut self, samples: u64) {
        let writer = lock(&self.writer);
        let edge = &writer.link.edges[usize::from(self.port)];
        edge.expected.store(samples, Ordering::Relaxed);
    }
}
