//! Messages with batches of tasks for a worker. Subgraphs are named by position: both sides have split the plan alike.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use isochrony_store::shard_cache::{ObjectName, PeerAddress};
use serde::{Deserialize, Serialize};

use super::message::{self, MessageError, MessageKind, MessageWriter, malformed};
use super::placement_state::PlacedTask;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::partition::TaskInput;
use crate::scheduler::task_output::{ExitState, Task};
use crate::{Portion, RangeOrigin, RangePortion};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskBatch {
    /// Hash of the client's split plan; the worker's must be equal.
    pub(crate) plan_hash: u64,
    /// By subgraph: exits that are no longer wanted.
    pub(crate) closed: Vec<(u32, Vec<bool>)>,
    tasks: Vec<TaskMessage>,
    pub(crate) sources: Vec<(ObjectName, Vec<PeerAddress>)>,
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
        plan_hash: u64,
        subgraphs: &[ParallelSubgraph],
        placed: &[PlacedTask],
    ) -> Result<Vec<u8>, MessageError> {
        let tasks = || placed.iter().map(|placed| &placed.task);
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
            plan_hash,
            closed: subgraphs_of(tasks()).into_iter().map(closed).collect(),
            tasks: tasks().map(task).collect(),
            sources: sources_of(placed),
        };
        MessageWriter::new().finish(MessageKind::Tasks, &batch)
    }

    pub(crate) fn decode(message: &[u8]) -> Result<Self, MessageError> {
        message::read(MessageKind::Tasks, message).map(|(batch, _)| batch)
    }

    /// If each reads as many recordings as its subgraph has.
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
                continues: false,
            })
        });
        tasks.collect()
    }
}

pub(crate) fn subgraphs_of<'t>(tasks: impl IntoIterator<Item = &'t Task>) -> BTreeSet<usize> {
    tasks.into_iter().map(|task| task.subgraph).collect()
}

/// Each object once.
fn sources_of(tasks: &[PlacedTask]) -> Vec<(ObjectName, Vec<PeerAddress>)> {
    let all: BTreeMap<_, _> = tasks.iter().flat_map(|one| one.sources.clone()).collect();
    all.into_iter().collect()
}
