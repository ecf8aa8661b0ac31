//! Writing end of a link: an operator behind each edge that leads to the next stage.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use isochrony_runtime::Progress;

use super::link::{Batch, Link, ReceiveOutcome};
use super::stage_queue::{Notice, StageQueue};
use crate::engine::is_operator_error;
use crate::engine::report::LinkReport;
use crate::engine::time_axis::ErrorRank;
use crate::plan::graph::{Edge, Graph};
use crate::{
    Break, Contract, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory,
    OperatorProperties, Out, PlanError, Port, PortType, RangeOrigin, RunError, SharedRecording,
    SourceEvent,
};

/// With the number of the edge in the link.
pub(super) type LinkEvent = (u16, SourceEvent);

/// A batch of this size is sent before the burst ends.
const BATCH_BYTES: u64 = 256 << 10;
pub(super) const EVENT_BYTES: u64 = 128;

pub(super) fn event_bytes(event: &SourceEvent) -> u64 {
    let item = match event {
        SourceEvent::Item(item) => item.bytes(),
        _ => 0,
    };
    item + EVENT_BYTES
}

pub(super) struct LinkedEdge {
    pub(super) edge: Edge,
    closed: AtomicBool,
    /// `u64::MAX` if unknown.
    expected: AtomicU64,
}

/// Stands for the error until the execution ends.
#[derive(Debug, Clone)]
pub(super) struct StageFailure {
    pub(super) stage: usize,
    /// Ranks the error.
    pub(super) time: f64,
    pub(super) node: usize,
    /// As opposed to a lack of memory.
    pub(super) is_operator_error: bool,
}

impl StageFailure {
    pub(super) fn of(plan: &Graph, stage: usize, error: &RunError) -> Self {
        let RunError::Operator {
            node, error: why, ..
        } = error
        else {
            return Self {
                stage,
                time: f64::INFINITY,
                node: 0,
                is_operator_error: true,
            };
        };
        // The stand-in of an earlier stage is passed on.
        let origin = match why.kind() {
            OpErrorKind::StageFailed { stage, .. } => *stage,
            _ => stage,
        };
        let rank = ErrorRank::of_error(plan, error);
        Self {
            stage: origin,
            time: rank.map_or(f64::INFINITY, |rank| rank.time),
            node: *node,
            is_operator_error: is_operator_error(why),
        }
    }
}

/// The pool of threads, seen from a writer whose link is full in the middle of a burst: its thread executes other stages
/// until there is room.
pub(super) trait RoomMaker: Send + Sync {
    fn make_room(&self, link: &StageLink);
}

pub(super) type SharedRoomMaker = Arc<dyn RoomMaker>;

/// Joins two stages: all edges between them, in the order of computation.
pub(super) struct StageLink {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) edges: Vec<LinkedEdge>,
    pub(super) link: Link<LinkEvent>,
    /// Bytes received but not consumed.
    unread: AtomicU64,
    queue: Arc<StageQueue>,
    pub(super) writers: Range<usize>,
    readers: Range<usize>,
    /// Set before the link ends.
    failure: Mutex<Option<StageFailure>>,
    /// Samples that the writing stage's sources will give, if known and counted here.
    total: Mutex<Option<u64>>,
    pub(super) counts: bool,
}

impl StageLink {
    pub(super) fn new(
        from: usize,
        to: usize,
        edges: Vec<Edge>,
        capacity: u64,
        counts: bool,
        queue: &Arc<StageQueue>,
        entries: &[Range<usize>],
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
            unread: AtomicU64::new(0),
            queue: Arc::clone(queue),
            writers: entries[from].clone(),
            readers: entries[to].clone(),
            failure: Mutex::new(None),
            total: Mutex::new(None),
            counts,
        }
    }

    fn notify_writers(&self) {
        for entry in self.writers.clone() {
            self.queue.notify(entry, Notice::Room);
        }
    }

    pub(super) fn notify_readers(&self) {
        // One is enough: it wakes others if there is more.
        let mut readers = self.readers.clone();
        readers.any(|entry| self.queue.notify(entry, Notice::Input));
    }

    pub(super) fn failure(&self) -> Option<StageFailure> {
        let failure = self.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.link.bytes() + self.unread.load(Ordering::Relaxed)
    }

    pub(super) fn begin_reading(&self, bytes: u64) {
        self.unread.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn consume(&self, event: &SourceEvent) {
        let bytes = event_bytes(event);
        let less = |unread: u64| Some(unread.saturating_sub(bytes));
        let _ = self
            .unread
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    pub(super) fn report(&self, got: u64) -> LinkReport {
        let (bytes, occupancy) = self.link.use_so_far();
        LinkReport {
            from: self.from,
            to: self.to,
            bytes,
            capacity: self.link.capacity(),
            gain: bytes as f64 / got.max(1) as f64,
            occupancy,
        }
    }

    pub(super) fn total(&self) -> Option<u64> {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn expect(&self, port: u16, samples: u64) {
        let edge = &self.edges[usize::from(port)];
        edge.expected.store(samples, Ordering::Relaxed);
    }

    pub(super) fn set_total(&self, total: Option<u64>) {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner) = total;
    }

    /// Called by the reading stage.
    pub(super) fn receive(&self) -> ReceiveOutcome<LinkEvent> {
        let received = self.link.receive();
        if matches!(received, ReceiveOutcome::Batch(_)) && self.link.has_room() {
            self.notify_writers();
        }
        received
    }

    fn send(&self, batch: Batch<LinkEvent>) {
        self.link.send(batch);
        self.notify_readers();
    }

    /// Called by the writing stage.
    fn end(&self) {
        self.link.end();
        self.notify_readers();
    }

    pub(super) fn remove_bound(&self) {
        self.set_capacity(u64::MAX);
    }

    /// Also while in use.
    pub(super) fn set_capacity(&self, bytes: u64) {
        self.link.set_capacity(bytes);
        self.notify_writers();
    }

    pub(super) fn close_all(&self) {
        self.link.close();
        self.notify_writers();
    }

    /// Closes an edge; with the last one, the link.
    pub(super) fn close(&self, port: u16) {
        self.edges[usize::from(port)]
            .closed
            .store(true, Ordering::Relaxed);
        let mut edges = self.edges.iter();
        if edges.all(|edge| edge.closed.load(Ordering::Relaxed)) {
            self.close_all();
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

/// Used by one stage's thread.
pub(super) struct LinkWriter {
    pub(super) link: Arc<StageLink>,
    pub(super) nodes: Vec<usize>,
    /// Last progress mark by edge, since it rewound.
    progress: Vec<i64>,
    room_maker: SharedRoomMaker,
    delivered: Arc<Progress>,
    events: Vec<LinkEvent>,
    bytes: u64,
    batch_bytes: u64,
    /// The next stage knows that nothing has come since.
    is_idle: bool,
    /// When what the stage works on arrived.
    pub(super) arrived: Option<Instant>,
}

pub(super) type SharedWriter = Arc<Mutex<LinkWriter>>;

pub(super) fn lock(writer: &SharedWriter) -> MutexGuard<'_, LinkWriter> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LinkWriter {
    pub(super) fn new(
        link: &Arc<StageLink>,
        room_maker: &SharedRoomMaker,
        delivered: &Arc<Progress>,
    ) -> Self {
        Self {
            link: Arc::clone(link),
            nodes: Vec::new(),
            progress: vec![i64::MIN; link.edges.len()],
            room_maker: Arc::clone(room_maker),
            delivered: Arc::clone(delivered),
            events: Vec::new(),
            bytes: 0,
            batch_bytes: BATCH_BYTES.min(link.link.capacity() / 4).max(1),
            is_idle: false,
            arrived: None,
        }
    }

    fn push(&mut self, port: u16, event: SourceEvent) -> bool {
        if matches!(event, SourceEvent::Rewind) {
            self.progress[usize::from(port)] = i64::MIN;
        }
        self.bytes += event_bytes(&event);
        self.events.push((port, event));
        self.is_idle = false;
        if self.bytes < self.batch_bytes {
            return false;
        }
        self.send();
        true
    }

    pub(super) fn give(&mut self, port: u16, event: &SourceEvent) {
        if self.link.is_closed(port) {
            return;
        }
        let event = match event {
            SourceEvent::ProgressMark(upto) => return self.push_progress(port, *upto),
            SourceEvent::Idle if self.is_idle => return,
            SourceEvent::Item(item) => SourceEvent::Item(item.clone()),
            SourceEvent::RangeStart { origin, why } => SourceEvent::RangeStart {
                origin: *origin,
                why: why.clone(),
            },
            SourceEvent::Idle => SourceEvent::Idle,
            SourceEvent::Rewind => SourceEvent::Rewind,
            SourceEvent::End => SourceEvent::End,
            // No operator gives it.
            SourceEvent::Skipped { .. } => return,
        };
        let is_idle = matches!(event, SourceEvent::Idle);
        self.push(port, event);
        self.is_idle = is_idle;
    }

    /// Drops a mark that says nothing new, since the stage would look busy. Of consecutive marks of an edge only the
    /// last is kept.
    fn push_progress(&mut self, port: u16, upto: i64) {
        let last = &mut self.progress[usize::from(port)];
        if upto <= *last {
            return;
        }
        *last = upto;
        match self.events.last_mut() {
            Some((last_port, SourceEvent::ProgressMark(last))) if *last_port == port => {
                *last = upto.max(*last);
            }
            _ => drop(self.push(port, SourceEvent::ProgressMark(upto))),
        }
    }

    pub(super) fn send(&mut self) {
        if self.events.is_empty() {
            return;
        }
        self.link.send(Batch {
            events: std::mem::take(&mut self.events),
            bytes: std::mem::take(&mut self.bytes),
            delivered: self.delivered.done(),
            arrived: self.arrived,
        });
    }

    pub(super) fn end(&mut self, failure: Option<StageFailure>) {
        self.send();
        *self
            .link
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = failure;
        self.link.end();
    }
}

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

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let mut writer = lock(&self.writer);
        if writer.link.is_closed(self.port) {
            return Ok(Next::Done);
        }
        writer.arrived = out.arrived();
        if writer.push(self.port, SourceEvent::Item(item.take())) {
            let link = Arc::clone(&writer.link);
            if link.link.is_overdrawn() {
                writer.room_maker.make_room(&link);
            }
            if link.link.is_full() {
                out.end_burst();
            }
        }
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, _: Port, why: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        // Others show in the next item or are announced.
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
    fn idle(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let mut writer = lock(&self.writer);
        writer.arrived = out.arrived();
        if !writer.is_idle {
            writer.push(self.port, SourceEvent::Idle);
            writer.is_idle = true;
        }
        writer.send();
        Ok(())
    }

    fn expect(&mut self, samples: u64) {
        lock(&self.writer).link.expect(self.port, samples);
    }
}
