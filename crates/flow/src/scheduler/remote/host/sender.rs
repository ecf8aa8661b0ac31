//! Last operator of a plan on a host: sends its input over the link.

use std::sync::{Arc, Mutex, PoisonError};

use isochrony_runtime::Interrupt;

use super::message::{HostCodec, SourceState};
use super::send_buffer::SendBuffer;
use crate::{
    Break, Clock, Contract, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory,
    OperatorProperties, Out, PlanError, Port, PortType, RangeOrigin, SharedRecording, SourceEvent,
};

/// A message of this size is sent before the source is idle.
const MESSAGE_BYTES: u64 = 256 << 10;
const EVENT_BYTES: u64 = 64;

/// A source, and how many changes of its clock were sent.
struct SentSource {
    recording: SharedRecording,
    clock: Option<Arc<dyn Clock>>,
    changes: u64,
}

struct Outbox {
    codec: HostCodec,
    buffer: Arc<SendBuffer>,
    sources: Vec<SentSource>,
    interrupt: Interrupt,
    message_bytes: u64,
    events: Vec<SourceEvent>,
    bytes: u64,
}

#[derive(Clone)]
pub(super) struct HostSender(Arc<Mutex<Outbox>>);

impl HostSender {
    pub(super) fn new(
        port: PortType,
        buffer: &Arc<SendBuffer>,
        sources: Vec<SharedRecording>,
        interrupt: &Interrupt,
        link_bytes: u64,
    ) -> Self {
        let sources = sources.into_iter().map(|recording| SentSource {
            clock: recording.clock(),
            recording,
            changes: 0,
        });
        Self(Arc::new(Mutex::new(Outbox {
            codec: HostCodec::of(port),
            buffer: Arc::clone(buffer),
            sources: sources.collect(),
            interrupt: interrupt.clone(),
            message_bytes: MESSAGE_BYTES.min(link_bytes / 4).max(1),
            events: Vec::new(),
            bytes: 0,
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Outbox) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Outbox {
    fn push(&mut self, event: SourceEvent) -> Result<(), OpError> {
        let item = match &event {
            SourceEvent::Item(item) => item.bytes(),
            _ => 0,
        };
        self.bytes += item + EVENT_BYTES;
        self.events.push(event);
        match self.bytes < self.message_bytes {
            true => Ok(()),
            false => self.send(),
        }
    }

    fn push_progress(&mut self, upto: i64) {
        if let Some(SourceEvent::ProgressMark(last)) = self.events.last_mut() {
            *last = upto.max(*last);
        } else {
            self.bytes += EVENT_BYTES;
            self.events.push(SourceEvent::ProgressMark(upto));
        }
    }

    fn send(&mut self) -> Result<(), OpError> {
        if self.events.is_empty() {
            return Ok(());
        }
        let sources = self.sources.iter_mut().map(|source| {
            let changes = source.clock.as_ref();
            let changes = changes.and_then(|clock| clock.changes(source.changes));
            let clock = changes.map(|(count, changes)| {
                source.changes = count;
                changes
            });
            SourceState {
                clock,
                position: source.recording.0.position(),
            }
        });
        let sources = sources.collect();
        self.bytes = 0;
        let message = self
            .codec
            .encode(sources, std::mem::take(&mut self.events))
            .map_err(|error| OpErrorKind::Failed(Box::new(error)))?;
        let interrupt = &self.interrupt;
        match self.buffer.push(message, || interrupt.is_requested()) {
            true => Ok(()),
            false => Err(OpErrorKind::Interrupted.into()),
        }
    }
}

impl OperatorFactory for HostSender {
    fn name(&self) -> &'static str {
        "on"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for HostSender {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        self.with(|outbox| outbox.push(SourceEvent::Item(item.take())))?;
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, _: Port, why: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        // Others show in the next item or are announced.
        match why {
            Break::Rewind => self.with(|outbox| outbox.push(SourceEvent::Rewind)),
            _ => Ok(()),
        }
    }

    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        let why = why.cloned();
        self.with(|outbox| {
            outbox.bytes += EVENT_BYTES;
            outbox.events.push(SourceEvent::RangeStart { origin, why });
        });
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        self.with(|outbox| outbox.push_progress(upto));
        upto
    }

    fn finish(&mut self, _: Port, _: &mut Out<'_>) -> Result<(), OpError> {
        self.with(|outbox| {
            outbox.push(SourceEvent::End)?;
            outbox.send()
        })
    }

    /// Sends at once: the thread sleeps next.
    fn idle(&mut self, _: &mut Out<'_>) -> Result<(), OpError> {
        self.with(Outbox::send)
    }
}
