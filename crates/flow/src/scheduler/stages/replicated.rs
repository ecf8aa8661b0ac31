//! A stage that several threads execute at the same time, each a block of its input with operators of its own.
//!
//! ```text
//!  link   +-------------+  block 7   +-----------+
//!  =====> | BlockCutter | ---------> | replica 0 | --+   +----------------+  in order  link
//!         |             |  block 8   +-----------+   +-> | reorder buffer | ==========>
//!         |             | ---------> | replica 1 | --+   | 7 8 Idle 9     |
//!         +-------------+            +-----------+       +----------------+
//! ```
//!
//! To the queue of stages each replica is a stage of its own. Blocks are numbered in the order in which they are cut, and
//! what passes between them (`Idle`, `End`) takes its place among them; [`block_scheduler`](super::block_scheduler) keeps
//! that order. A failed block ends the stage, whatever later ones gave.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use isochrony_runtime::Progress;

use super::block::{BlockCutter, BlockSource, StreamBlock};
use super::block_scheduler::{Assignment, BlockScheduler};
use super::block_subgraph::{only_input, subgraph};
use super::cell::CellCutter;
use super::input_cutter::InputCutter;
use super::link_writer::{StageLink, lock};
use super::replicated_io::{BlockResult, ReplicatedIo, StageExit};
use super::stage_graph::StageGraph;
use super::stage_plan::Replication;
use super::stage_queue::{StageOutcome, StageQueue};
use crate::engine::report::OperatorReport;
use crate::engine::{RunOptions, panic_error};
use crate::plan::graph::{Edge, Graph};
use crate::scheduler::boundary::RangeAnnouncer;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::partition::TaskInput;
use crate::scheduler::replica::{Replica, TaskPart};
use crate::scheduler::scan_input::PortionReader;
use crate::scheduler::task_output::{ExitOutput, Task};
use crate::{Clock, RangePortion, RunError};

/// A block has at least so many times the samples around it, if enough have arrived.
const MIN_OVERLAP_MULTIPLE: u64 = 4;

/// New bytes of a block where results must not be held back for long.
const SHORT_BLOCK_BYTES: u64 = 64 << 10;

fn max_bytes(options: &RunOptions<'_>) -> u64 {
    let bytes = options.stages.block_bytes;
    match options.latency {
        Some(_) => bytes.min(SHORT_BLOCK_BYTES),
        None => bytes,
    }
}

/// What all replicas of a stage share.
pub(super) struct ReplicatedStage {
    pub(super) number: usize,
    subgraph: ParallelSubgraph,
    graph: StageGraph,
    clock: Option<Arc<dyn Clock>>,
    blocks: BlockScheduler<ReplicatedIo>,
}

/// A replica, executed by one thread at a time.
pub(super) struct StageReplica {
    number: usize,
    shared: Arc<ReplicatedStage>,
    replica: Replica,
}

/// What a replicated stage is made of.
pub(super) struct StageToReplicate<'a> {
    pub(super) number: usize,
    pub(super) graph: StageGraph,
    pub(super) links: &'a [Arc<StageLink>],
    pub(super) plan: &'a Graph,
    pub(super) queue: &'a Arc<StageQueue>,
    /// Its replicas' entries in the queue.
    pub(super) entries: &'a Range<usize>,
    pub(super) delivered: &'a Arc<Progress>,
    pub(super) replication: Replication,
}

impl StageToReplicate<'_> {
    /// The inner error is the graph, if the stage cannot be replicated after all.
    pub(super) fn replicate(
        self,
        options: &RunOptions<'_>,
    ) -> Result<Result<Arc<ReplicatedStage>, StageGraph>, RunError> {
        let Self {
            number,
            graph,
            links,
            plan,
            queue,
            entries,
            delivered,
            replication,
        } = self;
        let Some(input) = only_input(number, links) else {
            return Ok(Err(graph));
        };
        let Some(subgraph) = subgraph(&graph, input, replication, options)? else {
            return Ok(Err(graph));
        };
        let exits = subgraph.plan.exits.iter().map(|exit| {
            let edge: Edge = (subgraph.plan.nodes[exit.edge.0].node, exit.edge.1);
            let writers = graph.writers.iter().enumerate();
            let ports = writers.flat_map(|(at, writer)| {
                let nodes = lock(writer).nodes.clone();
                let reads = |&(_, node): &(u16, usize)| graph.graph.nodes[node].inputs[0] == edge;
                let ports = (0..).zip(nodes).filter(reads).map(|(port, _)| (at, port));
                ports.collect::<Vec<(usize, u16)>>()
            });
            ports.collect::<Vec<(usize, u16)>>()
        });
        let exits: Vec<Vec<(usize, u16)>> = exits.collect();
        let overlap = subgraph.plan.overlap;
        let sample = subgraph.inputs[0].recording.0.port().dtype();
        let sample = sample.map_or(8, |dtype| dtype.size() as u64);
        let least = MIN_OVERLAP_MULTIPLE * overlap.samples() * sample;
        let cutter = match subgraph.plan.reproducible_samples {
            Some(samples) => InputCutter::Cells {
                cutter: CellCutter::new(overlap, samples, sample),
                owner: 0,
            },
            None => InputCutter::Blocks(BlockCutter::new(overlap, max_bytes(options).max(least))),
        };
        let exits = exits.into_iter().zip(&subgraph.exit_states);
        let exits = exits.map(|(ports, state)| StageExit {
            ports,
            ranges: RangeAnnouncer::default(),
            state: state.clone(),
        });
        let io = ReplicatedIo {
            number,
            plan: plan.clone(),
            input: Arc::clone(input),
            cutter,
            input_ended: false,
            input_delivered: 0,
            exits: exits.collect(),
            writers: graph.writers.clone(),
            delivered: Arc::clone(delivered),
            error: None,
        };
        let stage = Arc::new(ReplicatedStage {
            number,
            clock: subgraph.inputs[0].recording.clock(),
            subgraph,
            graph,
            blocks: BlockScheduler::new(io, queue, entries),
        });
        stage.announce_samples();
        Ok(Ok(stage))
    }
}

impl ReplicatedStage {
    /// Tells the next stages how much to expect.
    fn announce_samples(&self) {
        let order = self.blocks.lock();
        let input = &order.io.input;
        let total = match input.counts {
            true => input.total(),
            false => Some(0),
        };
        for (exit, own) in self.subgraph.plan.exits.iter().zip(&order.io.exits) {
            let expected = input.expected(0);
            let expected = expected.and_then(|_| self.subgraph.expected_count(exit));
            for &(at, port) in &own.ports {
                let link = &lock(&self.graph.writers[at]).link;
                link.set_total(total);
                if let Some(expected) = expected {
                    link.expect(port, expected);
                }
            }
        }
    }

    pub(super) fn take_error(&self) -> Option<RunError> {
        self.blocks.lock().io.error.take()
    }

    /// Bytes that are in no link: blocks that wait for earlier ones, and what later ones need.
    pub(super) fn bytes(&self) -> u64 {
        let order = self.blocks.lock();
        let buffered = order.buffered().map(|result| match result {
            BlockResult::Results { exits, .. } => exits.iter().map(ExitOutput::bytes).sum(),
            _ => 0,
        });
        buffered.sum::<u64>() + order.io.cutter.bytes()
    }

    /// How many replicas take blocks from now on. A retired one completes its block.
    pub(super) fn set_replicas(&self, replicas: usize) {
        self.blocks.set_replicas(replicas);
    }

    pub(super) fn max_replicas(&self) -> usize {
        self.blocks.max_replicas()
    }
}

impl StageReplica {
    pub(super) fn new(
        number: usize,
        shared: &Arc<ReplicatedStage>,
        options: &RunOptions<'_>,
    ) -> Result<Self, RunError> {
        Ok(Self {
            number,
            shared: Arc::clone(shared),
            replica: Replica::new(&shared.subgraph, options, None)?,
        })
    }

    pub(super) fn release_memory(&mut self) {
        self.replica.executor.release_memory();
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Items and bytes of blocks so far.
    pub(super) fn given(&self) -> (u64, u64) {
        self.replica.executor.given()
    }

    pub(super) fn stage(&self) -> &ReplicatedStage {
        &self.shared
    }

    /// What it did, by number of the operator in the plan.
    pub(super) fn reports(&self, busy: Duration) -> impl Iterator<Item = (usize, OperatorReport)> {
        let report = self.replica.report(busy);
        let nodes = self.shared.subgraph.plan.nodes.iter();
        let nodes = nodes.map(|one| self.shared.graph.plan_node[one.node]);
        let both = nodes.zip(report.operators);
        let all: Vec<_> = both.filter_map(|(node, one)| Some((node?, one))).collect();
        all.into_iter()
    }

    /// Computes a block, if there is one. True if the execution was interrupted.
    pub(super) fn burst(&mut self) -> (StageOutcome, bool) {
        let shared = Arc::clone(&self.shared);
        let (number, (block, delivered)) = match shared.blocks.take(self.number) {
            Assignment::Block { number, block } => (number, block),
            Assignment::None(outcome) => return (outcome, false),
        };
        let (exits, error) = self.compute(number, block);
        if matches!(error, Some(RunError::Interrupted { .. })) {
            return (StageOutcome::Ended, true);
        }
        let result = BlockResult::Results {
            exits,
            delivered,
            error,
        };
        (shared.blocks.complete(number, result), false)
    }

    fn compute(
        &mut self,
        number: u64,
        mut block: StreamBlock,
    ) -> (Vec<ExitOutput>, Option<RunError>) {
        let Self {
            shared, replica, ..
        } = self;
        let subgraph = &shared.subgraph;
        let part = TaskInput {
            range: block.range.clone(),
            reads: vec![RangePortion {
                portion: None,
                origin: block.origin,
            }],
        };
        let source = BlockSource::new(&mut block, shared.clock.clone());
        let (range, overlap) = (block.range, subgraph.plan.overlap);
        let TaskPart { begins, completes } = block.part;
        if let Some(own) = replica.readers.first() {
            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
            let source = Box::new(source);
            if begins {
                let reader = PortionReader::new(Some(source), range, overlap, &part.reads[0]);
                own.switch_to(if completes {
                    reader
                } else {
                    reader.continues()
                });
            } else {
                own.continue_with(source, completes);
            }
        }
        let task = Task {
            subgraph: 0,
            number,
            part,
            alone: false,
        };
        let options = RunOptions::default();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            replica.run_part(subgraph, &task, block.part, &options)
        }));
        let ran = ran.unwrap_or_else(|panic| {
            Err(RunError::Operator {
                operator: "scan",
                node: 0,
                range: None,
                time: None,
                error: panic_error(&*panic),
            })
        });
        let error = ran.err().map(|error| shared.in_plan(error));
        (
            replica.take_outputs(subgraph, &task, completes && error.is_none()),
            error,
        )
    }
}

impl ReplicatedStage {
    /// Names the operator by its number in the plan.
    fn in_plan(&self, mut error: RunError) -> RunError {
        if let RunError::Operator { operator, node, .. } = &mut error {
            (*operator, *node) = self.graph.graph.plan_node(*node);
        }
        error
    }
}
