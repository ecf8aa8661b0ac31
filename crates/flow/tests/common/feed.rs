//! A random live feed: samples arrive in pieces, with gaps, breaks and pauses.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use isochrony_flow::{Break, Item, OpError, PortType, RangeOrigin, Recording, Source, SourceEvent};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, RunId, TimebaseId};

/// Within which a run asks for cluster slots, on a busy machine too.
const ASK_TIME: Duration = Duration::from_millis(100);

/// In one thread each takes 20 ms.
const MAX_PAUSES: usize = 4;

fn value(index: i64) -> i16 {
    let noise = (index.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64) >> 48) as i16;
    noise >> (4 + (index / 37).rem_euclid(4))
}

#[derive(Debug, Default)]
pub(crate) struct JoinGate {
    state: Mutex<JoinState>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum JoinState {
    #[default]
    Open,
    Closed,
    Joining,
}

#[allow(dead_code)]
impl JoinGate {
    pub(crate) fn close(&self) {
        *self.state.lock().unwrap() = JoinState::Closed;
    }

    /// A slot was asked for. `is_last`: there is no further one.
    pub(crate) fn ask(&self, is_last: bool) {
        let mut state = self.state.lock().unwrap();
        if *state != JoinState::Open {
            *state = if is_last {
                JoinState::Open
            } else {
                JoinState::Joining
            };
            self.changed.notify_all();
        }
    }

    fn wait(&self) {
        let state = self.state.lock().unwrap();
        let is_closed = |state: &mut JoinState| *state == JoinState::Closed;
        let (state, _) = self
            .changed
            .wait_timeout_while(state, ASK_TIME, is_closed)
            .unwrap();
        let is_joining = |state: &mut JoinState| *state == JoinState::Joining;
        drop(self.changed.wait_while(state, is_joining).unwrap());
    }
}

pub(crate) struct Feed {
    stream: StreamId,
    pub(crate) stretches: Vec<Range<i64>>,
    pub(crate) piece: i64,
    pub(crate) pause: usize,
    pub(crate) gate: Arc<JoinGate>,
    /// How long before it was asked its items arrived.
    pub(crate) age: Duration,
}

impl Feed {
    pub(crate) fn new(stretches: Vec<Range<i64>>, piece: i64, pause: usize) -> Self {
        let rate = Rate::new(2000, 1).unwrap();
        let timebase = TimebaseId::unique().unwrap();
        Self {
            stream: Stream::new("feed", timebase, rate).intern(),
            stretches,
            piece,
            pause,
            gate: Arc::default(),
            age: Duration::ZERO,
        }
    }
}

impl Recording for Feed {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: DType::I16,
            stream: self.stream,
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let (mut events, mut pieces) = (Vec::new(), 0);
        let mut before: Option<i64> = None;
        for (nth, range) in self.stretches.iter().enumerate() {
            let clock_step = Break::ClockStep {
                old: RunId(nth as u32),
                new: RunId(nth as u32 + 1),
            };
            events.push(SourceEvent::RangeStart {
                origin: RangeOrigin::at(range.start),
                why: before.map(|end| match end < range.start {
                    true => Break::Gap(end..range.start),
                    false => clock_step,
                }),
            });
            before = Some(range.end);
            for start in range.clone().step_by(self.piece as usize) {
                let piece = start..range.end.min(start + self.piece);
                let samples: Vec<i16> = piece.map(value).collect();
                let samples = SigSeg::from_slice(&samples, start, self.stream)?;
                events.push(SourceEvent::Item(Item::Samples(samples)));
                pieces += 1;
                if pieces % self.pause.max(1) == 0 && pieces / self.pause.max(1) < MAX_PAUSES {
                    events.push(SourceEvent::Idle);
                }
            }
        }
        events.reverse();
        Ok(Box::new(FeedSource {
            events,
            waker: None,
            gate: Some(Arc::clone(&self.gate)),
            age: self.age,
        }))
    }
}

struct FeedSource {
    /// The last comes first.
    events: Vec<SourceEvent>,
    waker: Option<Waker>,
    gate: Option<Arc<JoinGate>>,
    age: Duration,
}

impl Source for FeedSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if let Some(gate) = self.gate.take() {
            gate.wait();
        }
        let event = self.events.pop().unwrap_or(SourceEvent::End);
        if let (SourceEvent::Idle, Some(waker)) = (&event, &self.waker) {
            waker.wake_by_ref();
        }
        Ok(event)
    }

    fn arrival(&self, asked: Instant) -> Option<Instant> {
        asked.checked_sub(self.age)
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }
}
