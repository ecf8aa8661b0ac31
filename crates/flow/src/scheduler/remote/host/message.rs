//! Messages of a host: events of one edge, clock updates and positions of its sources.

use serde::{Deserialize, Serialize};

use super::super::events::{EventMessage, StreamTable, event, event_message};
use super::super::message::{self, MessageError, MessageKind, MessageWriter, PayloadRange};
use super::super::results::{CauseCodec, ErrorMessage};
use crate::scheduler::boundary::ExitEvent;
use crate::{PortType, RunError, SourceEvent};

#[derive(Serialize, Deserialize)]
enum HostEvent {
    Flow(EventMessage),
    Rewind,
    End,
    Failed(ErrorMessage),
}

#[derive(Serialize, Deserialize)]
struct HostMessage {
    sources: Vec<SourceMessage>,
    events: Vec<HostEvent>,
}

#[derive(Serialize, Deserialize)]
struct SourceMessage {
    clock: Option<PayloadRange>,
    position: Option<(i64, u32)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SourceState {
    pub(super) clock: Option<Vec<u8>>,
    /// Next index and run number, if another process can continue from there.
    pub(super) position: Option<(i64, u32)>,
}

pub(super) struct HostBatch {
    pub(super) sources: Vec<SourceState>,
    pub(super) events: Vec<SourceEvent>,
    pub(super) failure: Option<RunError>,
}

pub(super) struct HostCodec {
    pub(super) port: PortType,
    pub(super) streams: StreamTable,
}

impl HostCodec {
    pub(super) fn of(port: PortType) -> Self {
        Self {
            streams: StreamTable::of_ports(std::iter::once(&port)),
            port,
        }
    }

    pub(super) fn encode(
        &self,
        sources: Vec<SourceState>,
        events: Vec<SourceEvent>,
    ) -> Result<Vec<u8>, MessageError> {
        let mut writer = MessageWriter::new();
        let mut encoded = Vec::with_capacity(events.len());
        for event in events {
            let flow = match event {
                SourceEvent::Item(item) => ExitEvent::Item(item),
                SourceEvent::RangeStart { origin, why } => ExitEvent::RangeStart { origin, why },
                SourceEvent::ProgressMark(upto) => ExitEvent::ProgressMark(upto),
                SourceEvent::Rewind => {
                    encoded.push(HostEvent::Rewind);
                    continue;
                }
                SourceEvent::End => {
                    encoded.push(HostEvent::End);
                    continue;
                }
                SourceEvent::Idle | SourceEvent::Skipped { .. } => continue,
            };
            encoded.push(HostEvent::Flow(event_message(
                flow,
                &self.streams,
                &mut writer,
            )?));
        }
        finish(writer, sources, encoded)
    }

    pub(super) fn decode(
        &self,
        message: &[u8],
        host: &str,
        causes: &dyn CauseCodec,
        operators: &[&'static str],
    ) -> Result<HostBatch, MessageError> {
        let (message, payload): (HostMessage, _) = message::read(MessageKind::Host, message)?;
        let sources = message.sources.into_iter().map(|source| {
            let clock = source.clock.map(|clock| payload.get(clock)).transpose()?;
            Ok(SourceState {
                clock: clock.map(|clock| clock.bytes().to_vec()),
                position: source.position,
            })
        });
        let sources = sources.collect::<Result<_, MessageError>>()?;
        let mut batch = HostBatch {
            sources,
            events: Vec::with_capacity(message.events.len()),
            failure: None,
        };
        for one in message.events {
            batch.events.push(match one {
                HostEvent::Flow(flow) => {
                    match event(flow, &self.port, false, &self.streams, &payload)? {
                        ExitEvent::Item(item) => SourceEvent::Item(item),
                        ExitEvent::RangeStart { origin, why } => {
                            SourceEvent::RangeStart { origin, why }
                        }
                        ExitEvent::ProgressMark(upto) => SourceEvent::ProgressMark(upto),
                    }
                }
                HostEvent::Rewind => SourceEvent::Rewind,
                HostEvent::End => SourceEvent::End,
                HostEvent::Failed(error) => {
                    let unplaced = |error| RunError::Operator {
                        operator: "on",
                        node: 0,
                        range: None,
                        time: None,
                        error,
                    };
                    let operators = operators.iter().copied();
                    batch.failure = Some(error.into_error(operators, unplaced, host, causes));
                    break;
                }
            });
        }
        Ok(batch)
    }
}

pub(super) fn failed(error: &RunError, causes: &dyn CauseCodec) -> Result<Vec<u8>, MessageError> {
    let error = HostEvent::Failed(ErrorMessage::of(error, causes));
    finish(MessageWriter::new(), Vec::new(), vec![error])
}

fn finish(
    mut writer: MessageWriter,
    sources: Vec<SourceState>,
    events: Vec<HostEvent>,
) -> Result<Vec<u8>, MessageError> {
    let sources = sources.into_iter().map(|source| SourceMessage {
        clock: source
            .clock
            .map(|clock| writer.add(std::iter::once(&clock[..]))),
        position: source.position,
    });
    let sources = sources.collect();
    writer.finish(MessageKind::Host, &HostMessage { sources, events })
}
