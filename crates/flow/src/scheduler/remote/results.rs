//! Results of a batch of tasks as messages, with errors by operator, range and time.

use std::ops::Range;
use std::time::Duration;

use isochrony_store::shard_cache::CacheReport;
use serde::{Deserialize, Serialize};

use super::events::{EventMessage, StreamTable, event, event_message};
use super::message::{self, MessageError, MessageKind, MessageWriter, Payload, malformed};
use crate::engine::report::OperatorReport;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::task_output::{ExitOutput, Task, TaskFailure, TaskOutput};
use crate::{OpError, OpErrorKind, RemoteFailure, RunError};

pub(crate) struct TaskDone {
    pub(crate) output: TaskOutput,
    pub(crate) elapsed_ns: u64,
}

pub(crate) struct SlotAnswer {
    /// By task; an error where memory was refused.
    pub(crate) results: Vec<Result<TaskDone, String>>,
    pub(crate) operators: Vec<(usize, Vec<OperatorReport>)>,
    pub(crate) cache: Option<CacheReport>,
}

#[derive(Serialize, Deserialize)]
struct ResultBatch {
    results: Vec<Result<ResultMessage, String>>,
    operators: Vec<(u32, Vec<OperatorMessage>)>,
    cache: Option<CacheReport>,
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
struct FailureMessage {
    error: ErrorMessage,
    /// Orders errors of several tasks.
    begins: f64,
    exits: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ErrorMessage {
    operator: Option<(String, u64)>,
    range: Option<Range<i64>>,
    time: Option<String>,
    code: String,
    text: String,
    cause: Option<Vec<u8>>,
}

impl ErrorMessage {
    pub(super) fn of(error: &RunError, causes: &dyn CauseCodec) -> Self {
        let (operator, range, time, own) = match error {
            RunError::Operator {
                operator,
                node,
                range,
                time,
                error,
            } => {
                let operator = Some(((*operator).to_owned(), *node as u64));
                (operator, range.clone(), time.clone(), Some(error))
            }
            _ => (None, None, None, None),
        };
        let cause = own.and_then(|error| match error.kind() {
            OpErrorKind::Failed(cause) => causes.encode(cause),
            _ => None,
        });
        let text = match own {
            Some(own) => own.to_string(),
            None => error.to_string(),
        };
        Self {
            operator,
            range,
            time,
            code: error.code().to_owned(),
            text,
            cause,
        }
    }

    /// `operators`: names of possible culprits; `unplaced` builds an error without one.
    pub(super) fn into_error(
        self,
        operators: impl IntoIterator<Item = &'static str>,
        unplaced: impl FnOnce(OpError) -> RunError,
        host: &str,
        causes: &dyn CauseCodec,
    ) -> RunError {
        let operator = self.operator.and_then(|(name, node)| {
            let name = operators.into_iter().find(|one| *one == name)?;
            Some((name, usize::try_from(node).ok()?))
        });
        let cause = self.cause.and_then(|cause| causes.decode(&cause));
        let error: OpError = match cause {
            Some(cause) => OpErrorKind::Failed(cause).into(),
            None => OpErrorKind::Remote(RemoteFailure {
                code: self.code,
                text: self.text,
                host: host.to_owned(),
            })
            .into(),
        };
        match operator {
            Some((operator, node)) => RunError::Operator {
                operator,
                node,
                range: self.range,
                time: self.time,
                error,
            },
            None => unplaced(error),
        }
    }
}

/// Codec of the embedding language's exceptions.
pub trait CauseCodec: Send + Sync {
    /// An error as bytes; None if its text is all there is.
    fn encode(&self, cause: &crate::Cause) -> Option<Vec<u8>>;

    /// The error; None if unreadable here.
    fn decode(&self, encoded: &[u8]) -> Option<crate::Cause>;
}

pub(crate) struct ResultCodec<'a> {
    pub(crate) subgraphs: &'a [ParallelSubgraph],
    pub(crate) streams: &'a [StreamTable],
    pub(crate) causes: &'a dyn CauseCodec,
}

impl ResultCodec<'_> {
    pub(crate) fn encode(
        &self,
        results: Vec<(usize, Result<TaskDone, String>)>,
        operators: &[(usize, Vec<OperatorReport>)],
        cache: Option<CacheReport>,
    ) -> Result<Vec<u8>, MessageError> {
        let mut writer = MessageWriter::new();
        let results = results.into_iter().map(|(subgraph, done)| {
            Ok(match done {
                Ok(done) => Ok(self.result(subgraph, done, &mut writer)?),
                Err(refused) => Err(refused),
            })
        });
        let results = results.collect::<Result<Vec<_>, MessageError>>()?;
        let operators = operators.iter().map(|(subgraph, reports)| {
            let message = reports.iter().map(|report| OperatorMessage {
                items: report.items,
                samples: report.samples,
                gaps: report.gaps,
                skipped: report.skipped,
                useful_ns: u64::try_from(report.useful.as_nanos()).unwrap_or(u64::MAX),
            });
            (*subgraph as u32, message.collect())
        });
        let batch = ResultBatch {
            results,
            operators: operators.collect(),
            cache,
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
        FailureMessage {
            error: ErrorMessage::of(&failure.error, self.causes),
            begins: failure.time,
            exits: failure.positions(&self.subgraphs[subgraph].exit_states),
        }
    }

    pub(crate) fn decode(
        &self,
        tasks: &[&Task],
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
        let operators = batch.operators.iter().map(|(at, messages)| {
            let at = *at as usize;
            let subgraph = self.subgraphs.get(at);
            let subgraph = subgraph.filter(|one| one.operators.len() == messages.len());
            let subgraph = subgraph.ok_or(malformed("the operators of a subgraph"))?;
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
            Ok((at, reports.collect()))
        });
        Ok(SlotAnswer {
            results,
            operators: operators.collect::<Result<_, MessageError>>()?,
            cache: batch.cache,
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
        let failure = failure.map(|failure| self.failure(task, failure, host));
        let output = TaskOutput::new(exits, result.samples, failure.transpose()?);
        Ok(TaskDone {
            output: output.with_input(&task.part),
            elapsed_ns: result.elapsed_ns,
        })
    }

    fn failure(
        &self,
        task: &Task,
        failure: FailureMessage,
        host: &str,
    ) -> Result<TaskFailure, MessageError> {
        let subgraph = &self.subgraphs[task.subgraph];
        let exits = failure.exits.iter().map(|&exit| {
            let state = subgraph.exit_states.get(exit as usize).cloned();
            state.ok_or(malformed("an exit of an error"))
        });
        let operators = subgraph.operators.iter();
        let error = failure.error.into_error(
            operators.map(|operator| operator.op.name()),
            |error| subgraph.task_error(task, error),
            host,
            self.causes,
        );
        Ok(TaskFailure::new(
            error,
            failure.begins,
            exits.collect::<Result<_, _>>()?,
        ))
    }
}
