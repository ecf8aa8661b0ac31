//! A live feed made by chance: samples that are known by their indices arrive in pieces, with gaps, breaks and pauses.

use std::ops::Range;
use std::task::Waker;
use std::time::Duration;

use isochrony_flow::{Break, Item, OpError, PortType, RangeOrigin, Recording, Source, SourceEvent};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, RunId, TimebaseId};

/// How long a slot of a cluster has to join before samples arrive.
const JOIN_TIME: Duration = Duration::from_millis(2);

/// In one thread each takes 20 ms.
const MAX_PAUSES: usize = 4;

fn value(index: i64) -> i16 {
    let noise = (index.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64) >> 48) as i16;
    noise >> (4 + (index / 37).rem_euclid(4))
}

/// Contiguous stretches, which arrive in pieces of `piece` samples; after `pause` pieces nothing arrives for a moment.
pub(crate) struct Feed {
    stream: StreamId,
    pub(crate) stretches: Vec<Range<i64>>,
    pub(crate) piece: i64,
    pub(crate) pause: usize,
}

impl Feed {
    pub(crate) fn new(stretches: Vec<Range<i64>>, piece: i64, pause: usize) -> Self {
        let rate = Rate::new(2000, 1).unwrap();
        // As that of a listener.
        let timebase = TimebaseId::unique().unwrap();
        Self {
            stream: Stream::new("feed", timebase, rate).intern(),
            stretches,
            piece,
            pause,
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
        std::thread::sleep(JOIN_TIME);
        Ok(Box::new(FeedSource {
            events,
            waker: None,
        }))
    }
}

struct FeedSource {
    /// The last comes first.
    events: Vec<SourceEvent>,
    waker: Option<Waker>,
}

impl Source for FeedSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let event = self.events.pop().unwrap_or(SourceEvent::End);
        if let (SourceEvent::Idle, Some(waker)) = (&event, &self.waker) {
            waker.wake_by_ref();
        }
        Ok(event)
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }
}
