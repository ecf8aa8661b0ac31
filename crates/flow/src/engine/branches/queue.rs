//! Queue between a tap and its branch.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use isochrony_store::Signal;
use serde_json::{Map, Value};

use crate::{
    Clock, OpError, OuterGaps, PortType, Recording, SharedRecording, SignalDescription, Source,
    SourceEvent,
};

/// Bytes at which the executor ends its burst.
const CAPACITY: u64 = 1 << 20;
/// Cost of an event beside its samples.
const EVENT_BYTES: u64 = 128;

/// For a tap in another thread than the caller's.
#[derive(Debug, Clone)]
pub(crate) struct TapWakers {
    /// Wakes the caller's thread when something has come.
    pub(crate) input: Waker,
    /// Wakes the stage when there is room.
    pub(crate) room: Waker,
}

#[derive(Debug)]
pub(crate) struct Tap(Mutex<TapState>);

#[derive(Debug)]
struct TapState {
    events: VecDeque<SourceEvent>,
    bytes: u64,
    /// Items that begin here pass.
    wanted: Range<i64>,
    /// Discards what has not passed.
    is_removed: bool,
    ended: bool,
    is_complete: bool,
    /// Start of the first item, end of the last.
    from: Option<i64>,
    upto: Option<i64>,
    items: u64,
    wakers: Option<TapWakers>,
}

fn event_bytes(event: &SourceEvent) -> u64 {
    let item = match event {
        SourceEvent::Item(item) => item.bytes(),
        _ => 0,
    };
    item + EVENT_BYTES
}

impl Tap {
    pub(crate) fn new(at: Option<i64>) -> Self {
        Self(Mutex::new(TapState {
            events: VecDeque::new(),
            bytes: 0,
            wanted: at.unwrap_or(i64::MIN)..i64::MAX,
            is_removed: false,
            ended: false,
            is_complete: false,
            from: None,
            upto: None,
            items: 0,
            wakers: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, TapState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_wakers(&self, wakers: Option<TapWakers>) {
        self.lock().wakers = wakers;
    }

    /// Stops at an index; None: now.
    pub(crate) fn remove(&self, at: Option<i64>) {
        let mut state = self.lock();
        state.is_removed |= at.is_none();
        state.wanted.end = state.wanted.end.min(at.unwrap_or(i64::MAX));
    }

    fn close(&self) {
        let mut state = self.lock();
        state.events.clear();
        (state.bytes, state.ended) = (0, true);
        if let Some(wakers) = &state.wakers {
            wakers.room.wake_by_ref();
        }
    }

    /// Empty once removed or ended.
    pub(super) fn wanted(&self) -> Range<i64> {
        let state = self.lock();
        match state.is_removed || state.ended {
            true => i64::MIN..i64::MIN,
            false => state.wanted.clone(),
        }
    }

    pub(super) fn complete(&self) {
        self.close();
        self.lock().is_complete = true;
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.lock().is_complete
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    pub(super) fn is_full(&self) -> bool {
        let state = self.lock();
        !state.ended && state.bytes >= CAPACITY
    }

    pub(super) fn push(&self, event: SourceEvent) {
        let mut state = self.lock();
        if state.ended {
            return;
        }
        match (&event, state.events.back_mut()) {
            // Only the last of consecutive marks is needed.
            (SourceEvent::ProgressMark(upto), Some(SourceEvent::ProgressMark(last))) => {
                *last = (*last).max(*upto);
                return;
            }
            (SourceEvent::Idle, Some(SourceEvent::Idle)) => return,
            _ => {}
        }
        if let SourceEvent::Item(item) = &event {
            let starts = item.first_and_last_start();
            state.from = state.from.or(starts.map(|(first, _)| first));
            state.upto = item.extent().map(|(_, next)| next).or(state.upto);
            state.items += 1;
        }
        state.bytes += event_bytes(&event);
        state.events.push_back(event);
        let waker = state.wakers.as_ref().map(|wakers| wakers.input.clone());
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(wakers) = &state.wakers {
            wakers.input.wake_by_ref();
        }
    }

    fn pop(&self) -> SourceEvent {
        let mut state = self.lock();
        match state.events.pop_front() {
            Some(event) => {
                let was_full = state.bytes >= CAPACITY;
                state.bytes -= event_bytes(&event);
                if was_full
                    && state.bytes < CAPACITY
                    && let Some(wakers) = &state.wakers
                {
                    wakers.room.wake_by_ref();
                }
                event
            }
            None if state.ended => SourceEvent::End,
            None => SourceEvent::Idle,
        }
    }

    fn has_events(&self) -> bool {
        !self.lock().events.is_empty()
    }

    /// Start of the first item, end of the last, number of items.
    pub(crate) fn passed(&self) -> (Option<i64>, Option<i64>, u64) {
        let state = self.lock();
        (state.from, state.upto, state.items)
    }
}

pub(crate) struct TapRecording {
    pub(crate) tap: Arc<Tap>,
    pub(crate) types: PortType,
    pub(crate) reads: SharedRecording,
}

impl Recording for TapRecording {
    fn port(&self) -> PortType {
        self.types
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(TapSource {
            tap: Arc::clone(&self.tap),
            clock: self.reads.clock(),
            is_idle: false,
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.reads.clock()
    }

    fn registers_clock(&self) -> bool {
        false
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        self.reads.saved()
    }

    // The first and last samples do not arrive.
    fn description(&self) -> Option<SignalDescription> {
        None
    }

    fn outer_gaps(&self) -> OuterGaps {
        OuterGaps::default()
    }

    fn knows_all_times(&self) -> bool {
        self.reads.knows_all_times()
    }

    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        self.reads.0.stored()
    }
}

struct TapSource {
    tap: Arc<Tap>,
    clock: Option<Arc<dyn Clock>>,
    is_idle: bool,
}

impl Source for TapSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let has_events = self.tap.has_events();
        let event = self.tap.pop();
        if has_events {
            self.is_idle = matches!(event, SourceEvent::Idle);
        }
        Ok(event)
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let stamp = self.clock.as_ref()?.stamp(index)?;
        Some(isochrony_time::civil::format(stamp.civil))
    }

    fn is_awaited(&self) -> bool {
        !self.is_idle
    }

    fn is_under_way(&self) -> bool {
        !self.is_idle || self.tap.has_events()
    }

    fn overlaps(&self) -> bool {
        true
    }

    fn close(&mut self) {
        self.tap.close();
    }
}
