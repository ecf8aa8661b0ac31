//! Messages with blocks of replicated stages for a worker. Stages are named by position: both sides have cut the plan
//! alike.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::events::{EventMessage, StreamTable, event, event_message};
use super::message::{self, MessageError, MessageKind, MessageWriter, Payload, malformed};
use crate::scheduler::boundary::ExitEvent;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::replica::TaskPart;
use crate::scheduler::stages::StreamBlock;
use crate::scheduler::task_output::ExitState;
use crate::{RangeOrigin, SourceEvent};

pub(crate) struct PlacedBlock {
    pub(crate) stage: usize,
    pub(crate) number: u64,
    pub(crate) block: StreamBlock,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BlockBatch {
    /// Hash of the client's stages; the worker's must be equal.
    pub(crate) plan_hash: u64,
    /// Exits that are no longer wanted.
    pub(crate) closed: Vec<(u32, Vec<bool>)>,
    blocks: Vec<BlockMessage>,
}

#[derive(Serialize, Deserialize)]
struct BlockMessage {
    stage: u32,
    number: u64,
    range: Range<i64>,
    origin: Option<(i64, i64)>,
    events: Vec<EventMessage>,
}

impl BlockBatch {
    pub(crate) fn encode(
        plan_hash: u64,
        subgraphs: &[ParallelSubgraph],
        streams: &[StreamTable],
        block: &PlacedBlock,
    ) -> Result<Vec<u8>, MessageError> {
        let mut writer = MessageWriter::new();
        let PlacedBlock {
            stage,
            number,
            block,
        } = block;
        let events = block.events().iter().map(|event| {
            let event = match event {
                SourceEvent::Item(item) => ExitEvent::Item(item.clone()),
                SourceEvent::RangeStart { origin, why } => ExitEvent::RangeStart {
                    origin: *origin,
                    why: why.clone(),
                },
                _ => return Err(malformed("an event of a block")),
            };
            event_message(event, &streams[*stage], &mut writer)
        });
        let message = BlockMessage {
            stage: u32::try_from(*stage).map_err(|_| malformed("the stage of a block"))?,
            number: *number,
            range: block.range.clone(),
            origin: block.origin.map(|origin| (origin.anchor, origin.first)),
            events: events.collect::<Result<_, MessageError>>()?,
        };
        let exits = subgraphs[*stage].exit_states.iter();
        let closed = exits.map(ExitState::is_closed).collect();
        let batch = Self {
            plan_hash,
            closed: vec![(message.stage, closed)],
            blocks: vec![message],
        };
        writer.finish(MessageKind::Blocks, &batch)
    }

    pub(crate) fn decode(message: &[u8]) -> Result<(Self, Payload), MessageError> {
        message::read(MessageKind::Blocks, message)
    }

    pub(crate) fn into_blocks(
        self,
        subgraphs: &[ParallelSubgraph],
        streams: &[StreamTable],
        payload: &Payload,
    ) -> Result<Vec<PlacedBlock>, MessageError> {
        let blocks = self.blocks.into_iter().map(|message| {
            let stage = message.stage as usize;
            let subgraph = subgraphs.get(stage).zip(streams.get(stage));
            let (subgraph, streams) = subgraph.ok_or(malformed("the stage of a block"))?;
            if message.range.start > message.range.end {
                return Err(malformed("the range of a block"));
            }
            let port = subgraph.inputs.first().map(|one| one.recording.0.port());
            let port = port.ok_or(malformed("the stage of a block"))?;
            let events = message.events.into_iter().map(|one| {
                Ok(match event(one, &port, false, streams, payload)? {
                    ExitEvent::Item(item) => SourceEvent::Item(item),
                    ExitEvent::RangeStart { origin, why } => {
                        SourceEvent::RangeStart { origin, why }
                    }
                    ExitEvent::ProgressMark(_) => return Err(malformed("an event of a block")),
                })
            });
            let origin = message.origin;
            let origin = origin.map(|(anchor, first)| RangeOrigin { anchor, first });
            let events = events.collect::<Result<_, MessageError>>()?;
            Ok(PlacedBlock {
                stage,
                number: message.number,
                block: StreamBlock::new(message.range, origin, events, TaskPart::WHOLE),
            })
        });
        blocks.collect()
    }
}
