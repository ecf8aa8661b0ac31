//! Events of an edge in messages.
//!
//! A stream's id is valid in one process only: its position in the [`StreamTable`] travels.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use isochrony_segment::{Buffer, SigSeg, StreamId};
use isochrony_time::RunId;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::message::{MessageError, MessageWriter, Payload, PayloadRange, malformed};
use crate::plan::item::FrameShape;
use crate::scheduler::boundary::ExitEvent;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::{Break, Frames, Item, PartialResult, PortType, RangeOrigin, Ranges, Rows};

/// In port order of a subgraph's nodes: the same in each process.
pub(crate) struct StreamTable(Vec<StreamId>);

impl StreamTable {
    pub(crate) fn of(subgraph: &ParallelSubgraph) -> Self {
        let nodes = subgraph.operators.iter();
        Self::of_ports(nodes.flat_map(|node| &node.properties.outputs))
    }

    pub(super) fn of_ports<'a>(ports: impl Iterator<Item = &'a PortType>) -> Self {
        let mut streams = Vec::new();
        for stream in ports.filter_map(PortType::stream_id) {
            streams.push(stream);
            streams.push(stream.physical());
        }
        Self(streams)
    }

    pub(super) fn position(&self, stream: StreamId) -> Result<u32, MessageError> {
        let position = self.0.iter().position(|&one| one == stream);
        let position = position.and_then(|position| u32::try_from(position).ok());
        position.ok_or(malformed("the stream of a result"))
    }

    pub(super) fn get(&self, position: u32) -> Result<StreamId, MessageError> {
        let stream = self.0.get(position as usize).copied();
        stream.ok_or(malformed("the stream of a result"))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) enum EventMessage {
    Samples {
        start: i64,
        dtype: String,
        stream: u32,
        values: PayloadRange,
    },
    Frames {
        shape: FrameShape,
        dtype: String,
        stream: u32,
        values: PayloadRange,
    },
    Ranges {
        stream: u32,
        ranges: Vec<Range<i64>>,
    },
    Rows {
        covers: Option<Range<i64>>,
        next: i64,
        batch: PayloadRange,
    },
    Partial {
        bytes: u64,
        result: PayloadRange,
    },
    RangeStart {
        anchor: i64,
        first: i64,
        why: Option<BreakMessage>,
    },
    ProgressMark(i64),
}

#[derive(Serialize, Deserialize)]
pub(super) enum BreakMessage {
    Gap(Range<i64>),
    ClockStep { old: u32, new: u32 },
    Dropped(Range<i64>),
    Removed,
    Rewind,
}

impl From<&Break> for BreakMessage {
    fn from(why: &Break) -> Self {
        match why {
            Break::Gap(range) => Self::Gap(range.clone()),
            Break::ClockStep { old, new } => Self::ClockStep {
                old: old.0,
                new: new.0,
            },
            Break::Dropped(range) => Self::Dropped(range.clone()),
            Break::Removed => Self::Removed,
            Break::Rewind => Self::Rewind,
        }
    }
}

impl From<BreakMessage> for Break {
    fn from(why: BreakMessage) -> Self {
        match why {
            BreakMessage::Gap(range) => Self::Gap(range),
            BreakMessage::ClockStep { old, new } => Self::ClockStep {
                old: RunId(old),
                new: RunId(new),
            },
            BreakMessage::Dropped(range) => Self::Dropped(range),
            BreakMessage::Removed => Self::Removed,
            BreakMessage::Rewind => Self::Rewind,
        }
    }
}

pub(super) fn event_message(
    event: ExitEvent,
    streams: &StreamTable,
    writer: &mut MessageWriter,
) -> Result<EventMessage, MessageError> {
    Ok(match event {
        ExitEvent::ProgressMark(index) => EventMessage::ProgressMark(index),
        ExitEvent::RangeStart { origin, why } => EventMessage::RangeStart {
            anchor: origin.anchor,
            first: origin.first,
            why: why.as_ref().map(BreakMessage::from),
        },
        ExitEvent::Item(Item::Samples(samples)) => EventMessage::Samples {
            start: samples.start(),
            dtype: samples.dtype().to_string(),
            stream: streams.position(samples.stream_id())?,
            values: writer.add(samples.buffers().map(Buffer::bytes)),
        },
        ExitEvent::Item(Item::Frames(frames)) => EventMessage::Frames {
            shape: frames.shape(),
            dtype: frames.dtype().to_string(),
            stream: streams.position(frames.stream_id())?,
            values: writer.add(std::iter::once(frames.buffer().bytes())),
        },
        ExitEvent::Item(Item::Ranges(ranges)) => EventMessage::Ranges {
            stream: streams.position(ranges.stream)?,
            ranges: ranges.ranges.into_vec(),
        },
        ExitEvent::Item(Item::Rows(rows)) => {
            let failed = |_| malformed("a block of rows");
            let mut encoded = Vec::new();
            let mut stream =
                StreamWriter::try_new(&mut encoded, &rows.batch().schema()).map_err(failed)?;
            stream.write(rows.batch()).map_err(failed)?;
            stream.finish().map_err(failed)?;
            drop(stream);
            EventMessage::Rows {
                covers: rows.covers(),
                next: rows.next_start(),
                batch: writer.add(std::iter::once(&encoded[..])),
            }
        }
        ExitEvent::Item(Item::Partial(partial)) => {
            let encoded = partial.to_bytes();
            let encoded = encoded.ok_or(malformed("a partial result"))?;
            EventMessage::Partial {
                bytes: partial.bytes(),
                result: writer.add(std::iter::once(&encoded[..])),
            }
        }
        ExitEvent::Item(Item::Taken) => return Err(malformed("an item")),
    })
}

fn record_batch(encoded: &[u8]) -> Result<RecordBatch, MessageError> {
    let failed = || malformed("a block of rows");
    let read = || StreamReader::try_new(encoded, None).ok()?.next()?.ok();
    // The library panics where offsets lie outside of the bytes.
    let batch = catch_unwind(AssertUnwindSafe(read));
    batch.ok().flatten().ok_or_else(failed)
}

pub(super) fn event(
    event: EventMessage,
    port: &PortType,
    reduces: bool,
    streams: &StreamTable,
    payload: &Payload,
) -> Result<ExitEvent, MessageError> {
    let wrong = || malformed("an item of another type than its exit");
    let item = match (event, port) {
        (EventMessage::ProgressMark(index), _) => return Ok(ExitEvent::ProgressMark(index)),
        (EventMessage::RangeStart { anchor, first, why }, _) => {
            let origin = RangeOrigin { anchor, first };
            let why = why.map(Break::from);
            return Ok(ExitEvent::RangeStart { origin, why });
        }
        (EventMessage::Partial { bytes, result }, _) if reduces => {
            let result = payload.get(result)?;
            Item::Partial(PartialResult::from_bytes(result.bytes(), bytes))
        }
        (
            EventMessage::Samples {
                start,
                dtype,
                stream,
                values,
            },
            PortType::Samples {
                dtype: expected, ..
            },
        ) => {
            if dtype != expected.to_string() {
                return Err(wrong());
            }
            let (values, stream) = (payload.get(values)?, streams.get(stream)?);
            let samples = match values.is_empty() {
                true => Ok(SigSeg::empty(start, *expected, stream)),
                false => SigSeg::new(values, start, *expected, stream),
            };
            Item::Samples(samples.map_err(|_| malformed("samples"))?)
        }
        (
            EventMessage::Frames {
                shape,
                dtype,
                stream,
                values,
            },
            PortType::Frames {
                dtype: expected, ..
            },
        ) => {
            if dtype != expected.to_string() {
                return Err(wrong());
            }
            let (values, stream) = (payload.get(values)?, streams.get(stream)?);
            let frames = Frames::of_parts(shape, values, *expected, stream);
            Item::Frames(frames.ok_or(malformed("windows"))?)
        }
        (EventMessage::Ranges { stream, ranges }, PortType::Ranges { .. }) => {
            Item::Ranges(Ranges {
                stream: streams.get(stream)?,
                ranges: SmallVec::from_vec(ranges),
            })
        }
        (
            EventMessage::Rows {
                covers,
                next,
                batch,
            },
            PortType::Rows { fields, .. },
        ) => {
            let encoded = payload.get(batch)?;
            let batch = record_batch(encoded.bytes())?;
            // The port's own schema: operators compare fields with it.
            let batch = batch
                .with_schema(fields.schema().clone())
                .map_err(|_| wrong())?;
            Item::Rows(Rows::of_parts(batch, covers, next))
        }
        _ => return Err(wrong()),
    };
    Ok(ExitEvent::Item(item))
}
