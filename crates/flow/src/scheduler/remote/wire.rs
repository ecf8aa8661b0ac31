//! Tasks and their results as messages between a client and the workers of a cluster.
//!
//! Both sides have split the plan, so a message names subgraphs, nodes and streams by position. A stream's id means something
//! in one process only: what travels is its position among the streams of the subgraph's nodes ([`StreamTable`]).

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use isochrony_segment::{Buffer, SigSeg, StreamId};
use isochrony_time::RunId;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::message::malformed;
use super::message::{self, MessageError, MessageKind, MessageWriter, Payload, PayloadRange};
use crate::engine::report::OperatorReport;
use crate::plan::item::FrameShape;
use crate::scheduler::boundary::ExitEvent;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::partition::TaskInput;
use crate::scheduler::task_output::{ExitOutput, ExitState, Task, TaskFailure, TaskOutput};
use crate::{
    Break, Frames, Item, OpError, OpErrorKind, PartialResult, PortType, Portion, RangeOrigin,
    RangePortion, Ranges, RemoteFailure, Rows, RunError,
};

/// The streams of a subgraph's nodes, in the order of their ports: the same in each process.
pub(crate) struct StreamTable(Vec<StreamId>);

impl StreamTable {
    pub(crate) fn of(subgraph: &ParallelSubgraph) -> Self {
        let mut streams = Vec::new();
        for node in &subgraph.operators {
            for port in &node.properties.outputs {
                if let Some(stream) = port.stream_id() {
                    streams.push(stream);
                    streams.push(stream.physical());
                }
            }
        }
        Self(streams)
    }

    fn position(&self, stream: StreamId) -> Result<u32, MessageError> {
        let position = self.0.iter().position(|&one| one == stream);
        let position = position.and_then(|position| u32::try_from(position).ok());
        position.ok_or(malformed("the stream of a result"))
    }

    fn get(&self, position: u32) -> Result<StreamId, MessageError> {
        let stream = self.0.get(position as usize).copied();
        stream.ok_or(malformed("the stream of a result"))
    }
}

/// Tasks for a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskBatch {
    /// The split plan that the client has; the worker's must be the same.
    pub(crate) plan: u64,
    /// For each subgraph, exits from which nothing is wanted any more.
    pub(crate) closed: Vec<Vec<bool>>,
    tasks: Vec<TaskMessage>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TaskMessage {
    subgraph: u32,
    number: u64,
    range: Range<i64>,
    reads: Vec<ReadMessage>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ReadMessage {
    portion: Option<PortionMessage>,
    origin: Option<(i64, i64)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PortionMessage {
    range: Range<i64>,
    before: Option<(i64, u32)>,
    part: u64,
}

impl TaskBatch {
    pub(crate) fn encode(
        plan: u64,
        subgraphs: &[ParallelSubgraph],
        tasks: &[Task],
    ) -> Result<Vec<u8>, MessageError> {
        let closed = |subgraph: &ParallelSubgraph| {
            let exits = subgraph.exit_states.iter();
            exits.map(ExitState::is_closed).collect()
        };
        let read = |read: &RangePortion| ReadMessage {
            portion: read.portion.as_ref().map(|portion| PortionMessage {
                range: portion.range.clone(),
                before: portion.before,
                part: portion.part as u64,
            }),
            origin: read.origin.map(|origin| (origin.anchor, origin.first)),
        };
        let task = |task: &Task| TaskMessage {
            subgraph: task.subgraph as u32,
            number: task.number,
            range: task.part.range.clone(),
            reads: task.part.reads.iter().map(read).collect(),
        };
        let batch = Self {
            plan,
            closed: subgraphs.iter().map(closed).collect(),
            tasks: tasks.iter().map(task).collect(),
        };
        MessageWriter::new().finish(MessageKind::Tasks, &batch)
    }

    pub(crate) fn decode(message: &[u8]) -> Result<Self, MessageError> {
        message::read(MessageKind::Tasks, message).map(|(batch, _)| batch)
    }

    /// The tasks, if each reads as many recordings as its subgraph has.
    pub(crate) fn into_tasks(
        self,
        subgraphs: &[ParallelSubgraph],
    ) -> Result<Vec<Task>, MessageError> {
        let tasks = self.tasks.into_iter().map(|task| {
            let at = task.subgraph as usize;
            let subgraph = subgraphs
                .get(at)
                .ok_or(malformed("the subgraph of a task"))?;
            if task.reads.len() != subgraph.inputs.len() || task.range.start > task.range.end {
                return Err(malformed("what a task reads"));
            }
            let reads = task.reads.into_iter().map(|read| {
                let portion = read.portion.map(|portion| {
                    Ok(Portion {
                        range: portion.range,
                        before: portion.before,
                        part: usize::try_from(portion.part).map_err(|_| malformed("a portion"))?,
                    })
                });
                let origin = read.origin;
                Ok(RangePortion {
                    portion: portion.transpose()?,
                    origin: origin.map(|(anchor, first)| RangeOrigin { anchor, first }),
                })
            });
            Ok(Task {
                subgraph: at,
                number: task.number,
                part: TaskInput {
                    range: task.range,
                    reads: reads.collect::<Result<_, MessageError>>()?,
                },
                alone: false,
            })
        });
        tasks.collect()
    }
}

/// What a worker did with one task.
pub(crate) struct TaskDone {
    pub(crate) output: TaskOutput,
    pub(crate) elapsed_ns: u64,
}

/// What a slot answers to a batch of tasks.
pub(crate) struct SlotAnswer {
    /// For each task; an error where memory was refused.
    pub(crate) results: Vec<Result<TaskDone, String>>,
    /// What its operators did in the run so far, by subgraph.
    pub(crate) operators: Vec<Option<Vec<OperatorReport>>>,
}

#[derive(Serialize, Deserialize)]
struct ResultBatch {
    /// For each task of the batch; an error where memory was refused.
    results: Vec<Result<ResultMessage, String>>,
    /// What the slot's operators did in the run so far, by subgraph.
    operators: Vec<Vec<OperatorMessage>>,
}

#[derive(Serialize, Deserialize)]
struct OperatorMessage {
    items: u64,
    samples: u64,
    gaps: u64,
    skipped: u64,
    useful_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct ResultMessage {
    exits: Vec<ExitMessage>,
    samples: u64,
    failure: Option<FailureMessage>,
    elapsed_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct ExitMessage {
    events: Vec<EventMessage>,
    upto: Option<i64>,
}

#[derive(Serialize, Deserialize)]
enum EventMessage {
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
enum BreakMessage {
    Gap(Range<i64>),
    ClockStep { old: u32, new: u32 },
    Dropped(Range<i64>),
    Removed,
    Rewind,
}

#[derive(Serialize, Deserialize)]
struct FailureMessage {
    operator: String,
    node: u64,
    range: Option<Range<i64>>,
    time: Option<String>,
    code: String,
    text: String,
    /// As the embedding language sends its exceptions.
    cause: Option<Vec<u8>>,
    /// Orders the errors of several tasks.
    begins: f64,
    /// Exits behind the operator.
    exits: Vec<u32>,
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

/// How exceptions of the embedding language travel.
pub trait CauseCodec: Send + Sync {
    /// An error as bytes; None if its text is all there is.
    fn encode(&self, cause: &crate::Cause) -> Option<Vec<u8>>;

    /// The error; None if it cannot be read here.
    fn decode(&self, encoded: &[u8]) -> Option<crate::Cause>;
}

/// What both sides need to read and write results.
pub(crate) struct ResultCodec<'a> {
    pub(crate) subgraphs: &'a [ParallelSubgraph],
    pub(crate) streams: &'a [StreamTable],
    pub(crate) causes: &'a dyn CauseCodec,
}

impl ResultCodec<'_> {
    /// The results of a batch; an error where memory was refused.
    pub(crate) fn encode(
        &self,
        results: Vec<(usize, Result<TaskDone, String>)>,
        operators: &[Option<Vec<OperatorReport>>],
    ) -> Result<Vec<u8>, MessageError> {
        let mut writer = MessageWriter::new();
        let results = results.into_iter().map(|(subgraph, done)| {
            Ok(match done {
                Ok(done) => Ok(self.result(subgraph, done, &mut writer)?),
                Err(refused) => Err(refused),
            })
        });
        let results = results.collect::<Result<Vec<_>, MessageError>>()?;
        let operators = operators.iter().map(|reports| {
            let reports = reports.iter().flatten();
            let message = reports.map(|report| OperatorMessage {
                items: report.items,
                samples: report.samples,
                gaps: report.gaps,
                skipped: report.skipped,
                useful_ns: u64::try_from(report.useful.as_nanos()).unwrap_or(u64::MAX),
            });
            message.collect()
        });
        let batch = ResultBatch {
            results,
            operators: operators.collect(),
        };
        writer.finish(MessageKind::Results, &batch)
    }

    fn result(
        &self,
        subgraph: usize,
        done: TaskDone,
        writer: &mut MessageWriter,
    ) -> Result<ResultMessage, MessageError> {
        let TaskDone { output, elapsed_ns } = done;
        let streams = &self.streams[subgraph];
        let samples = output.samples;
        let (exits, failure) = output.into_parts();
        let exits = exits.into_iter().map(|exit| {
            let events = exit.events.into_iter();
            let events = events.map(|event| event_message(event, streams, writer));
            Ok(ExitMessage {
                events: events.collect::<Result<_, MessageError>>()?,
                upto: exit.upto,
            })
        });
        Ok(ResultMessage {
            exits: exits.collect::<Result<_, MessageError>>()?,
            samples,
            failure: failure.map(|failure| self.failure_message(subgraph, &failure)),
            elapsed_ns,
        })
    }

    fn failure_message(&self, subgraph: usize, failure: &TaskFailure) -> FailureMessage {
        let (operator, node, range, time, error) = match &*failure.error {
            RunError::Operator {
                operator,
                node,
                range,
                time,
                error,
            } => (*operator, *node, range.clone(), time.clone(), Some(error)),
            _ => ("scan", 0, None, None, None),
        };
        let cause = error.and_then(|error| match error.kind() {
            OpErrorKind::Failed(cause) => self.causes.encode(cause),
            _ => None,
        });
        let text = match error {
            Some(error) => error.to_string(),
            None => failure.error.to_string(),
        };
        FailureMessage {
            operator: operator.to_owned(),
            node: node as u64,
            range,
            time,
            code: failure.error.code().to_owned(),
            text,
            cause,
            begins: failure.time,
            exits: failure.positions(&self.subgraphs[subgraph].exit_states),
        }
    }

    /// The results of the tasks of a batch, as a worker on `host` sent them.
    pub(crate) fn decode(
        &self,
        tasks: &[Task],
        message: &[u8],
        host: &str,
    ) -> Result<SlotAnswer, MessageError> {
        let (batch, payload): (ResultBatch, Payload) =
            message::read(MessageKind::Results, message)?;
        if batch.results.len() != tasks.len() {
            return Err(malformed("the number of results"));
        }
        let results = batch.results.into_iter().zip(tasks);
        let results = results.map(|(result, task)| {
            Ok(match result {
                Ok(result) => Ok(self.done(task, result, &payload, host)?),
                Err(refused) => Err(refused),
            })
        });
        let results = results.collect::<Result<_, MessageError>>()?;
        let operators = batch.operators.iter().zip(self.subgraphs);
        let operators = operators.map(|(messages, subgraph)| {
            let reports = messages.iter().zip(&subgraph.operators);
            let reports = reports.map(|(message, operator)| OperatorReport {
                name: operator.op.name(),
                items: message.items,
                samples: message.samples,
                gaps: message.gaps,
                skipped: message.skipped,
                useful: Duration::from_nanos(message.useful_ns),
                threads: 1,
            });
            (messages.len() == subgraph.operators.len()).then(|| reports.collect())
        });
        Ok(SlotAnswer {
            results,
            operators: operators.collect(),
        })
    }

    fn done(
        &self,
        task: &Task,
        result: ResultMessage,
        payload: &Payload,
        host: &str,
    ) -> Result<TaskDone, MessageError> {
        let subgraph = &self.subgraphs[task.subgraph];
        let streams = &self.streams[task.subgraph];
        if result.exits.len() != subgraph.plan.exits.len() {
            return Err(malformed("the number of exits"));
        }
        let exits = result.exits.into_iter().zip(&subgraph.plan.exits);
        let exits = exits.map(|(message, exit)| {
            let (port, _) = subgraph.output_of(exit.edge);
            let events = message.events.into_iter();
            let events = events.map(|one| event(one, &port, exit.reduces, streams, payload));
            Ok(ExitOutput {
                events: events.collect::<Result<_, MessageError>>()?,
                upto: message.upto,
            })
        });
        let exits = exits.collect::<Result<_, MessageError>>()?;
        let failure = result.failure;
        let failure = failure.map(|failure| self.failure(subgraph, failure, host));
        let output = TaskOutput::new(exits, result.samples, failure.transpose()?);
        Ok(TaskDone {
            output: output.with_input(&task.part),
            elapsed_ns: result.elapsed_ns,
        })
    }

    fn failure(
        &self,
        subgraph: &ParallelSubgraph,
        failure: FailureMessage,
        host: &str,
    ) -> Result<TaskFailure, MessageError> {
        let node = usize::try_from(failure.node).map_err(|_| malformed("the node of an error"))?;
        let mut names = subgraph.operators.iter().map(|operator| operator.op.name());
        let operator = names
            .find(|name| *name == failure.operator)
            .unwrap_or("scan");
        let exits = failure.exits.iter().map(|&exit| {
            let state = subgraph.exit_states.get(exit as usize).cloned();
            state.ok_or(malformed("an exit of an error"))
        });
        let cause = failure.cause.and_then(|cause| self.causes.decode(&cause));
        let error: OpError = match cause {
            Some(cause) => OpErrorKind::Failed(cause).into(),
            None => OpErrorKind::Remote(RemoteFailure {
                code: failure.code,
                text: failure.text,
                host: host.to_owned(),
            })
            .into(),
        };
        let error = RunError::Operator {
            operator,
            node,
            range: failure.range,
            time: failure.time,
            error,
        };
        Ok(TaskFailure::new(
            error,
            failure.begins,
            exits.collect::<Result<_, _>>()?,
        ))
    }
}

fn event_message(
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

/// An event at an exit of this type.
fn event(
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
