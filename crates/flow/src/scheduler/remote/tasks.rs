//! Batches of tasks for a worker, as messages. Both sides have split the plan, so a message names subgraphs by position.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::message::{self, MessageError, MessageKind, MessageWriter, malformed};
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::partition::TaskInput;
use crate::scheduler::task_output::{ExitState, Task};
use crate::{Portion, RangeOrigin, RangePortion};

/// Tasks for a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskBatch {
    /// The split plan that the client has; the worker's must be the same.
    pub(crate) plan: u64,
    /// For each subgraph of its tasks, exits from which nothing is wanted any more.
    pub(crate) closed: Vec<(u32, Vec<bool>)>,
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
        let closed = |at: usize| {
            let exits = subgraphs[at].exit_states.iter();
            (at as u32, exits.map(ExitState::is_closed).collect())
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
            closed: subgraphs_of(tasks).into_iter().map(closed).collect(),
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

/// Positions of the subgraphs of tasks, in order.
pub(crate) fn subgraphs_of(tasks: &[Task]) -> BTreeSet<usize> {
    tasks.iter().map(|task| task.subgraph).collect()
}
