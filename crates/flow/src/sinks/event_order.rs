//! Order in which the sinks of one execution add events to one signal.
//!
//! Events get their numbers as they are added. Which sink is called first depends on how a recording is cut, so an event
//! waits until no sink can have one that ends earlier: events are added in the order of their ends, of equal ends that
//! of the sink that comes first in the plan. A sink alone waits for nothing.
//!
//! ```text
//!  sink 0 ──▶ [ ..70 | ..30 ]   no event ends before 75 ─┐
//!  sink 1 ──▶ [ ]               no event ends before 45 ─┼─▶ ..30 is added; ..70 waits for sink 1
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_store::{Signal, SignalWriter, Store};
use isochrony_time::{Ratio, Round, Time, TimebaseId};
use serde_json::{Map, Value};

use super::signal_location::SignalLocation;
use crate::plan::error::store_error;
use crate::{Clock, OpError, OpErrorKind, PortType, SharedRecording};

/// About what an event takes in the store.
const EVENT_BYTES: u64 = 100;
/// About what one takes while it waits, without its fields, and each value of a field without its text.
const WAITING_BYTES: u64 = 80;
const FIELD_BYTES: u64 = 100;

/// The signals whose events sinks of one execution add.
#[derive(Debug, Default)]
pub(crate) struct EventOrders(Mutex<Vec<Arc<Mutex<EventOrder>>>>);

impl EventOrders {
    /// Sinks join in the order of the plan.
    pub(crate) fn join(&self, location: &SignalLocation, is_created_by_run: bool) -> EventQueue {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = orders.iter().find(|order| {
            let order = lock(order);
            order.is_created_by_run == is_created_by_run && order.location.is_same(location)
        });
        let order = same.cloned().unwrap_or_else(|| {
            let order = EventOrder::new(location.clone(), is_created_by_run);
            let order = Arc::new(Mutex::new(order));
            orders.push(Arc::clone(&order));
            order
        });
        let number = lock(&order).add_branch();
        EventQueue { order, number }
    }
}

fn lock(order: &Mutex<EventOrder>) -> MutexGuard<'_, EventOrder> {
    order.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sink's place in the order.
#[derive(Debug, Clone)]
pub struct EventQueue {
    order: Arc<Mutex<EventOrder>>,
    number: usize,
}

impl EventQueue {
    pub(crate) fn bind(&self, port: &PortType, reads: Option<&SharedRecording>) {
        let mut order = lock(&self.order);
        order.branches[self.number].axis = QueueAxis::of(port, reads);
        order.by_index = order.share_indices();
    }

    /// Nothing that begins before `upto` follows.
    pub(crate) fn progress(&self, upto: i64) {
        let mut order = lock(&self.order);
        let by_index = order.by_index;
        order.branches[self.number].progress(upto, by_index);
    }

    /// The next samples are of another clock, and the first one is `first`.
    pub(crate) fn restarts_clock(&self, first: i64) {
        let mut order = lock(&self.order);
        if !order.by_index {
            order.branches[self.number].raise_to_end_before(first);
        }
    }

    /// The next events lie before the last ones.
    pub(crate) fn rewinds(&self) {
        let branch = &mut lock(&self.order).branches[self.number];
        let rewinds = branch.bound.rewinds + 1;
        branch.bound = EventPosition::first_after(rewinds);
    }

    pub(super) fn open(&self, same: bool) -> Result<(), OpError> {
        let mut order = lock(&self.order);
        order.branches[self.number].axis.same = same;
        let store = match &order.store {
            Some(store) => Arc::clone(store),
            None => order.location.open()?,
        };
        if order.signal.is_none() && !order.is_created_by_run {
            order.signal = Some(AnnotatedSignal::open(&store, &order.location)?);
        }
        order.store = Some(store);
        Ok(())
    }

    /// `end` exclusive, as indices of what the sink is given.
    pub(super) fn push(&self, kind: &Arc<str>, range: Range<i64>, fields: Map<String, Value>) {
        let mut order = lock(&self.order);
        let by_index = order.by_index;
        let branch = &mut order.branches[self.number];
        let range = branch.axis.recorded(range);
        let event = Event {
            at: branch.position_of(&range, by_index),
            kind: Arc::clone(kind),
            range,
            fields,
        };
        branch.waiting_bytes += event.waiting_bytes();
        branch.waiting.push_back(event);
    }

    /// Adds the events that no earlier one can precede, of all sinks; their bytes.
    pub(super) fn release(&self) -> Result<u64, OpError> {
        lock(&self.order).release()
    }

    /// Bytes of the events that wait for other sinks.
    pub(super) fn waiting_bytes(&self) -> u64 {
        lock(&self.order).branches[self.number].waiting_bytes
    }

    /// Adds what waits for the creation of the signal, and makes all durable.
    pub(super) fn commit(&self) -> Result<(), OpError> {
        lock(&self.order).commit()
    }

    pub(super) fn end(&self) {
        lock(&self.order).branches[self.number].bound = EventPosition::END;
    }
}

/// Where an event ends, comparable between the sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EventPosition {
    rewinds: u64,
    /// Last sample: its index, or its time if the sinks read recordings of different clocks.
    last: i64,
}

impl EventPosition {
    const END: Self = Self {
        rewinds: u64::MAX,
        last: i64::MAX,
    };

    fn first_after(rewinds: u64) -> Self {
        let last = i64::MIN;
        Self { rewinds, last }
    }
}

#[derive(Debug)]
struct Event {
    at: EventPosition,
    kind: Arc<str>,
    /// As indices of the recording.
    range: Range<i64>,
    fields: Map<String, Value>,
}

impl Event {
    fn waiting_bytes(&self) -> u64 {
        WAITING_BYTES + self.fields.values().map(value_bytes).sum::<u64>()
    }
}

fn value_bytes(value: &Value) -> u64 {
    FIELD_BYTES
        + match value {
            Value::String(text) => text.len() as u64,
            Value::Array(values) => values.iter().map(value_bytes).sum(),
            Value::Object(fields) => fields.values().map(value_bytes).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// From the indices that a sink is given to those of its recording, to times, and to the signal's indices.
struct QueueAxis {
    timebase: Option<TimebaseId>,
    ratio: Ratio,
    /// Shortest event, in samples of the sink.
    window: u64,
    clock: Option<Arc<dyn Clock>>,
    /// The recording is the signal: indices are the signal's.
    same: bool,
}

impl std::fmt::Debug for QueueAxis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueAxis").finish_non_exhaustive()
    }
}

impl QueueAxis {
    fn of(port: &PortType, reads: Option<&SharedRecording>) -> Self {
        let origin = port.stream().map(|stream| stream.timebase.origin());
        Self {
            timebase: origin.map(|(timebase, _)| timebase),
            ratio: origin.map_or(Ratio::ONE, |(_, ratio)| ratio),
            window: match port {
                PortType::Frames { window, .. } => *window,
                _ => 0,
            },
            clock: reads.and_then(SharedRecording::clock),
            same: false,
        }
    }

    /// The samples that cover a range; a resampled one may begin between samples.
    fn recorded(&self, range: Range<i64>) -> Range<i64> {
        if self.ratio.is_one() {
            return range;
        }
        let place = |index: i64| self.ratio.place(index).unwrap_or((i64::MAX, 0));
        let ((start, _), (last, part)) = (place(range.start), place(range.end));
        start..last.saturating_add(i64::from(part > 0))
    }

    fn time_ns(&self, index: i64) -> Option<i64> {
        let mut time = [i64::MIN];
        self.clock.as_ref()?.times(&[index], &mut time).ok()?;
        (time[0] != i64::MIN).then_some(time[0])
    }

    fn signal_range(&self, range: &Range<i64>, signal: &Signal) -> Result<Range<i64>, OpError> {
        let found = match self.same {
            true => range.clone(),
            false => {
                let first = self.signal_index(signal, range.start)?;
                let last = self.signal_index(signal, range.end - 1)?;
                first..last.saturating_add(1).max(first)
            }
        };
        let (first, last) = (signal.start_index(), signal.end_index());
        Ok(found.start.clamp(first, last)..found.end.clamp(first, last))
    }

    fn signal_index(&self, signal: &Signal, index: i64) -> Result<i64, OpError> {
        let stamp = self.clock.as_ref().and_then(|clock| clock.stamp(index));
        let Some(stamp) = stamp else {
            return Err(OpErrorKind::Failed(
                format!(
                    "index {index} has no civil time by which to find it in {:?}; annotate the signal that is read",
                    signal.name()
                )
                .into(),
            )
            .into());
        };
        let time = Time::new(stamp.civil, TimebaseId::CIVIL);
        let found = signal
            .index_of(&time, Round::Nearest, None)
            .map_err(store_error)?;
        Ok(found.index)
    }
}

#[derive(Debug)]
struct QueueState {
    axis: QueueAxis,
    /// No event that follows ends before it.
    bound: EventPosition,
    waiting: VecDeque<Event>,
    waiting_bytes: u64,
}

impl QueueState {
    /// An event that ends before one given earlier counts as ending with it: the order of one sink stays.
    fn position_of(&mut self, range: &Range<i64>, by_index: bool) -> EventPosition {
        let last = range.end.saturating_sub(1);
        let last = match by_index {
            true => Some(last),
            false => self.axis.time_ns(last),
        };
        self.raise(last);
        self.bound
    }

    fn raise(&mut self, last: Option<i64>) {
        self.bound.last = last.unwrap_or(i64::MIN).max(self.bound.last);
    }

    fn progress(&mut self, upto: i64, by_index: bool) {
        if upto == i64::MIN {
            return;
        }
        if !by_index {
            self.raise_to_end_before(upto);
            return;
        }
        let first = upto..upto.saturating_add_unsigned(self.axis.window);
        self.raise(Some(self.axis.recorded(first).end.saturating_sub(1)));
    }

    /// Times of samples to come may still change.
    fn raise_to_end_before(&mut self, index: i64) {
        let before = self.axis.recorded(index..index).start.saturating_sub(1);
        let time = self.axis.time_ns(before);
        self.raise(time);
    }
}

struct AnnotatedSignal {
    writer: SignalWriter,
    /// By kind.
    known: HashMap<Arc<str>, HashSet<(i64, i64, String)>>,
}

impl AnnotatedSignal {
    fn open(store: &Store, location: &SignalLocation) -> Result<Self, OpError> {
        let writer = store.writer(location.signal()).map_err(store_error)?;
        let known = HashMap::new();
        Ok(Self { writer, known })
    }

    fn add(&mut self, axis: &QueueAxis, event: &Event) -> Result<(), OpError> {
        let signal = self.writer.signal().map_err(store_error)?;
        let range = axis.signal_range(&event.range, &signal)?;
        let known = (self.known.entry(Arc::clone(&event.kind))).or_insert_with(|| {
            let known = signal.events().filter(|known| *known.kind == *event.kind);
            let known = known.map(|known| (known.start, known.end, known.fields.clone()));
            known.collect()
        });
        let text = Value::Object(event.fields.clone()).to_string();
        if !known.insert((range.start, range.end, text)) {
            return Ok(());
        }
        let added = self.writer.add_event(&event.kind, range, &event.fields);
        added.map(drop).map_err(store_error)
    }
}

struct EventOrder {
    location: SignalLocation,
    /// An earlier sink creates or replaces the signal: events are added with the next commit, when it exists.
    is_created_by_run: bool,
    store: Option<Arc<Store>>,
    /// None until a sink is open, or until the execution's sink has created it.
    signal: Option<AnnotatedSignal>,
    branches: Vec<QueueState>,
    /// All sinks count the same samples.
    by_index: bool,
    /// In order, of the sinks with these numbers; they wait for the signal.
    released: VecDeque<(usize, Event)>,
}

impl std::fmt::Debug for EventOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventOrder")
            .field("location", &self.location)
            .field("branches", &self.branches.len())
            .finish_non_exhaustive()
    }
}

impl EventOrder {
    fn new(location: SignalLocation, is_created_by_run: bool) -> Self {
        Self {
            location,
            is_created_by_run,
            store: None,
            signal: None,
            branches: Vec::new(),
            by_index: true,
            released: VecDeque::new(),
        }
    }

    fn add_branch(&mut self) -> usize {
        self.branches.push(QueueState {
            axis: QueueAxis::of(&PortType::Count, None),
            bound: EventPosition::first_after(0),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        });
        self.branches.len() - 1
    }

    fn share_indices(&self) -> bool {
        let mut timebases = self.branches.iter().map(|branch| branch.axis.timebase);
        let first = timebases.next().flatten();
        timebases.all(|timebase| timebase.is_some() && timebase == first)
    }

    /// The sink whose first event comes next, if no other sink can have an earlier one.
    fn next(&self) -> Option<usize> {
        let firsts = self.branches.iter().enumerate();
        let firsts = firsts.filter_map(|(at, branch)| Some((branch.waiting.front()?.at, at)));
        let (first, at) = firsts.min()?;
        let mut others = self.branches.iter().enumerate();
        let is_first = others.all(|(other, branch)| {
            let is_empty = other != at && branch.waiting.is_empty();
            !is_empty || (first, at) < (branch.bound, other)
        });
        is_first.then_some(at)
    }

    fn release(&mut self) -> Result<u64, OpError> {
        let mut bytes = 0;
        while let Some(at) = self.next() {
            let branch = &mut self.branches[at];
            let Some(event) = branch.waiting.pop_front() else {
                break;
            };
            branch.waiting_bytes -= event.waiting_bytes();
            self.released.push_back((at, event));
            bytes += EVENT_BYTES;
        }
        self.add_released().map(|()| bytes)
    }

    fn add_released(&mut self) -> Result<(), OpError> {
        let Some(signal) = &mut self.signal else {
            return Ok(());
        };
        while let Some((at, event)) = self.released.pop_front() {
            signal.add(&self.branches[at].axis, &event)?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), OpError> {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        if self.signal.is_none() {
            // If a sink replaces the signal, this makes the new one visible.
            store.commit(true).map_err(store_error)?;
            let name = self.location.signal();
            if !store.contains(name).map_err(store_error)? {
                let why = format!(
                    "no sink before annotate has created {name:?}; put annotate behind sink(store, {name:?}), or give \
                     the signal itself if it exists"
                );
                return Err(OpErrorKind::Failed(why.into()).into());
            }
            self.signal = Some(AnnotatedSignal::open(&store, &self.location)?);
            self.add_released()?;
        }
        store.commit(true).map(drop).map_err(store_error)
    }
}
