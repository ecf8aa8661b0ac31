//! Reading end of a link: a recording for each edge.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use isochrony_store::Signal;
use serde_json::{Map, Value};

use super::link::ReceiveOutcome;
use super::link_writer::{LinkEvent, StageFailure, StageLink};
use crate::{
    Clock, OpError, OpErrorKind, OuterGaps, PortType, Recording, RunError, SharedRecording,
    SignalDescription, Source, SourceEvent,
};

struct LinkReader {
    link: Arc<StageLink>,
    events: VecDeque<LinkEvent>,
    /// The writing stage had nothing more at the last event.
    is_idle: bool,
    delivered: u64,
    /// Of the last batch.
    arrived: Option<Instant>,
    /// Something else failed: only what precedes the failure is wanted.
    draining: bool,
}

impl LinkReader {
    fn has_more(&self) -> bool {
        !self.events.is_empty() || self.link.link.has_more()
    }
}

#[derive(Clone)]
pub(super) struct SharedReader(Arc<Mutex<LinkReader>>);

impl SharedReader {
    pub(super) fn new(link: &Arc<StageLink>) -> Self {
        Self(Arc::new(Mutex::new(LinkReader {
            link: Arc::clone(link),
            events: VecDeque::new(),
            is_idle: false,
            delivered: 0,
            arrived: None,
            draining: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, LinkReader> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct LinkRecording {
    pub(super) reader: SharedReader,
    pub(super) port: u16,
    pub(super) types: PortType,
    pub(super) reads: SharedRecording,
    /// Some samples do not arrive, or operators changed them.
    pub(super) is_processed: bool,
    /// No other link of this stage depends on the same sources, so it may be waited for.
    pub(super) is_alone: bool,
}

impl Recording for LinkRecording {
    fn port(&self) -> PortType {
        self.types
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(LinkSource {
            reader: self.reader.clone(),
            port: self.port,
            clock: self.reads.clock(),
            is_alone: self.is_alone,
            failure: None,
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

    fn description(&self) -> Option<SignalDescription> {
        let own = (!self.is_processed).then_some(&self.reads);
        own.and_then(SharedRecording::description)
    }

    fn outer_gaps(&self) -> OuterGaps {
        let own = (!self.is_processed).then_some(&self.reads);
        own.map_or_else(OuterGaps::default, SharedRecording::outer_gaps)
    }

    fn knows_all_times(&self) -> bool {
        self.reads.knows_all_times()
    }

    fn gives_own_samples(&self) -> bool {
        !self.is_processed && self.reads.0.gives_own_samples()
    }

    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        self.reads.0.stored()
    }
}

struct LinkSource {
    reader: SharedReader,
    port: u16,
    clock: Option<Arc<dyn Clock>>,
    is_alone: bool,
    failure: Option<StageFailure>,
}

impl LinkSource {
    fn counts(&self, reader: &LinkReader) -> bool {
        self.port == 0 && reader.link.counts
    }
}

impl Source for LinkSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let mut reader = self.reader.lock();
        let mut has_taken = false;
        loop {
            // Events keep their order, whichever edge is asked first.
            while let Some(&(port, _)) = reader.events.front() {
                if port != self.port && !reader.link.is_closed(port) {
                    // That edge's source may have had nothing when asked: make the engine ask again. Not for an event
                    // that was here before: a stage that waits for another link would then run without end, and stages
                    // that wait for room would never be found to block each other.
                    if has_taken {
                        reader.link.notify_readers();
                    }
                    return Ok(SourceEvent::Idle);
                }
                has_taken = true;
                let event = reader.events.pop_front();
                if let Some((_, event)) = &event {
                    reader.link.consume(event);
                }
                let Some((_, event)) = event.filter(|&(port, _)| port == self.port) else {
                    continue;
                };
                reader.is_idle = matches!(event, SourceEvent::Idle);
                if reader.is_idle && reader.has_more() {
                    // The stage would wait for what is here, of which it was told before.
                    reader.link.notify_readers();
                }
                return Ok(event);
            }
            let link = Arc::clone(&reader.link);
            match link.receive() {
                ReceiveOutcome::Batch(batch) => {
                    has_taken = true;
                    reader.delivered = batch.delivered;
                    reader.arrived = batch.arrived;
                    link.begin_reading(batch.bytes);
                    reader.events.extend(batch.events);
                    reader.is_idle = false;
                }
                ReceiveOutcome::Nothing => return Ok(SourceEvent::Idle),
                ReceiveOutcome::End => {
                    let Some(failure) = link.failure() else {
                        return Ok(SourceEvent::End);
                    };
                    self.failure = Some(failure);
                    return Err(OpErrorKind::Interrupted.into());
                }
            }
        }
    }

    fn arrival(&self, _: Instant) -> Option<Instant> {
        self.reader.lock().arrived
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let stamp = self.clock.as_ref()?.stamp(index)?;
        Some(isochrony_time::civil::format(stamp.civil))
    }

    /// The earlier stage sends without a bound: what lies behind the failure is dropped.
    fn continues_after_failure(&mut self) -> bool {
        let mut reader = self.reader.lock();
        reader.draining = true;
        reader.link.remove_bound();
        true
    }

    fn is_awaited(&self) -> bool {
        let reader = self.reader.lock();
        match reader.events.front() {
            Some(&(port, _)) => port == self.port,
            None => (self.is_alone || reader.draining) && !reader.is_idle,
        }
    }

    fn is_under_way(&self) -> bool {
        let reader = self.reader.lock();
        !reader.events.is_empty() || !reader.is_idle
    }

    fn failure(&mut self) -> Option<(f64, RunError)> {
        let StageFailure {
            stage,
            time,
            node,
            is_operator_error,
        } = self.failure.take()?;
        let error = OpErrorKind::StageFailed {
            stage,
            is_operator_error,
        };
        let error = RunError::Operator {
            operator: "stage",
            node,
            range: None,
            time: None,
            error: error.into(),
        };
        Some((time, error))
    }

    fn overlaps(&self) -> bool {
        true
    }

    fn close(&mut self) {
        self.reader.lock().link.close(self.port);
    }

    fn total(&self) -> Option<u64> {
        let reader = self.reader.lock();
        if !self.counts(&reader) {
            return Some(0);
        }
        reader.link.total()
    }

    fn delivered(&self) -> Option<u64> {
        let reader = self.reader.lock();
        Some(if self.counts(&reader) {
            reader.delivered
        } else {
            0
        })
    }

    fn expected_samples(&self) -> Option<u64> {
        self.reader.lock().link.expected(self.port)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::link::{Batch, Link};
    use super::super::stage_queue::{Notice, StageOutcome, StageQueue, ThreadRole};
    use super::*;

    fn source(reader: &SharedReader, port: u16) -> LinkSource {
        LinkSource {
            reader: reader.clone(),
            port,
            clock: None,
            is_alone: true,
            failure: None,
        }
    }

    fn runs_again(queue: &StageQueue, edge: &mut LinkSource) -> bool {
        let taken = queue.take(ThreadRole::Caller, 0b01, 0);
        assert_eq!(taken, Some(1));
        assert!(matches!(edge.pull(), Ok(SourceEvent::Idle)));
        queue.put_back(1, StageOutcome::Idle);
        let again = queue.take(ThreadRole::Caller, 0b01, 0);
        if again.is_some() {
            queue.put_back(1, StageOutcome::Ran);
        }
        again.is_some()
    }

    #[test]
    fn an_edge_tells_the_stage_of_an_event_of_another_edge_once() {
        let minute = Duration::from_secs(60);
        let queue = Arc::new(StageQueue::new(2, 0, Duration::ZERO, minute, false));
        let edges = vec![(0, 0), (1, 0)];
        let link = StageLink::new(0, 1, edges, 1000, false, &queue, &[0..1, 1..2]);
        let link = Arc::new(link);
        let reader = SharedReader::new(&link);
        let (mut first, mut second) = (source(&reader, 0), source(&reader, 1));
        link.link.send(Batch {
            events: vec![(1, SourceEvent::ProgressMark(7))],
            bytes: 0,
            delivered: 0,
            arrived: None,
        });
        assert!(runs_again(&queue, &mut first));
        // The event stays, and nothing is new.
        assert!(!runs_again(&queue, &mut first));
        assert!(matches!(second.pull(), Ok(SourceEvent::ProgressMark(7))));
    }
    /// Whether a link is full, overdrawn, and has room, after batches of 100 bytes.
    fn filled(capacity: u64, batches: usize) -> [bool; 3] {
        let link = Link::new(capacity);
        for _ in 0..batches {
            link.send(Batch {
                events: vec![()],
                bytes: 100,
                delivered: 0,
                arrived: None,
            });
        }
        [link.is_full(), link.is_overdrawn(), link.has_room()]
    }

    #[test]
    fn a_link_holds_a_batch_however_small_its_capacity() {
        // The writer ends its burst, but does not wait mid-item.
        assert_eq!(filled(10, 1), [true, false, false]);
        assert_eq!(filled(10, 2), [true, true, false]);
        // A link that holds two batches reports each that is taken; one of many, half of them.
        assert_eq!(filled(150, 1), [false, false, true]);
        assert_eq!(filled(150, 2), [true, false, false]);
        assert_eq!(filled(800, 4), [false, false, true]);
        assert_eq!(filled(800, 5), [false, false, false]);
        assert_eq!(filled(800, 16), [true, true, false]);
    }
    #[test]
    fn a_retired_replica_waits_for_its_recall_alone() {
        let minute = Duration::from_secs(60);
        let queue = StageQueue::new(1, 0, Duration::ZERO, minute, true);
        let take = || queue.take(ThreadRole::Caller, 0, 0);
        assert_eq!(take(), Some(0));
        queue.put_back(0, StageOutcome::Retired);
        assert!(!queue.notify(0, Notice::Input));
        assert!(!queue.notify(0, Notice::Room));
        assert_eq!(take(), None);
        assert!(queue.notify(0, Notice::Recall));
        assert_eq!(take(), Some(0));
        assert!(!queue.notify(0, Notice::Recall));
        queue.put_back(0, StageOutcome::Retired);
        assert_eq!(take(), Some(0));
        let time = queue.time(0);
        assert_eq!((time.input, time.output), (Duration::ZERO, Duration::ZERO));
    }
}
