//! A stage that several threads execute at the same time, each a block of its input with operators of its own.
//!
//! To the queue each replica is a stage. Blocks, and what passes between them (`Idle`, `End`), are numbered as they are
//! cut; [`block_scheduler`](super::block_scheduler) keeps that order. A failed block ends the stage, whatever later
//! ones gave.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use isochrony_runtime::Progress;

use super::arrivals::BatchArrivals;
use super::block::{BlockCutter, BlockSource, StreamBlock};
use super::block_scheduler::{Assignment, BlockScheduler};
use super::block_subgraph::{only_input, subgraph};
use super::cell::CellCutter;
use super::input_cutter::InputCutter;
use super::link_writer::{StageLink, lock};
use super::remote_blocks::{Admission, RemoteBlocks, TakenBlock};
use super::replicated_io::{BlockResult, ReplicatedIo, StageExit};
use super::stage_graph::StageGraph;
use super::stage_plan::Replication;
use super::stage_queue::{StageOutcome, StageQueue};
use crate::engine::report::OperatorReport;
use crate::engine::{RunOptions, panic_error};
use crate::plan::graph::{Edge, Graph};
use crate::scheduler::boundary::RangeAnnouncer;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::remote::PlacedBlock;
use crate::scheduler::replica::{Replica, TaskPart};
use crate::scheduler::scan_input::PortionReader;
use crate::scheduler::subgraph::RatioChain;
use crate::scheduler::task_output::ExitOutput;
use crate::{Clock, RunError};

/// A block has at least so many times the samples around it, if they have arrived.
const MIN_OVERLAP_MULTIPLE: u64 = 4;

/// New bytes of a block where results must not be held back.
const SHORT_BLOCK_BYTES: u64 = 64 << 10;

fn max_bytes(options: &RunOptions<'_>) -> u64 {
    let bytes = options.stages.block_bytes;
    match options.latency {
        Some(_) => bytes.min(SHORT_BLOCK_BYTES),
        None => bytes,
    }
}

pub(super) struct ReplicatedStage {
    pub(super) number: usize,
    subgraph: ParallelSubgraph,
    graph: StageGraph,
    clock: Option<Arc<dyn Clock>>,
    blocks: BlockScheduler<ReplicatedIo>,
    pub(super) remote: Option<RemoteStage>,
}

pub(super) struct RemoteStage {
    pub(super) blocks: Arc<RemoteBlocks>,
    pub(super) position: usize,
}

pub(super) struct StageReplica {
    number: usize,
    shared: Arc<ReplicatedStage>,
    replica: Replica,
}

pub(super) struct StageToReplicate<'a> {
    pub(super) number: usize,
    pub(super) graph: StageGraph,
    pub(super) links: &'a [Arc<StageLink>],
    pub(super) plan: &'a Graph,
    pub(super) queue: &'a Arc<StageQueue>,
    pub(super) entries: &'a Range<usize>,
    pub(super) delivered: &'a Arc<Progress>,
    pub(super) replication: Replication,
    pub(super) cell_samples: Option<u64>,
    pub(super) remote: Option<RemoteStage>,
}

impl StageToReplicate<'_> {
    /// The inner error is the graph, if the stage cannot be replicated.
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
            cell_samples,
            remote,
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
                cutter: CellCutter::new(overlap, cell_samples.unwrap_or(samples), sample),
                owner: 0,
            },
            None => {
                InputCutter::Blocks(BlockCutter::new(overlap, max_bytes(options)).at_least(least))
            }
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
            arrivals: BatchArrivals::default(),
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
            remote,
        });
        stage.announce_samples();
        Ok(Ok(stage))
    }
}

impl ReplicatedStage {
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

    /// Blocks that wait for earlier ones, and what later ones need.
    pub(super) fn bytes(&self) -> u64 {
        let order = self.blocks.lock();
        let buffered = order.buffered().map(|result| match result {
            BlockResult::Results { exits, .. } => exits.iter().map(ExitOutput::bytes).sum(),
            _ => 0,
        });
        buffered.sum::<u64>() + order.io.cutter.bytes()
    }

    /// A retired replica completes its block.
    pub(super) fn set_replicas(&self, replicas: usize) {
        self.blocks.set_replicas(replicas);
    }

    pub(super) fn replicas(&self) -> usize {
        self.blocks.replicas()
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
            replica: Replica::new(
                &shared.subgraph,
                &RunOptions {
                    worker: Some(number),
                    ..*options
                },
                None,
            )?,
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

    pub(super) fn reports(&self, busy: Duration) -> impl Iterator<Item = (usize, OperatorReport)> {
        let report = self.replica.report(busy);
        let nodes = self.shared.subgraph.plan.nodes.iter();
        let nodes = nodes.map(|one| self.shared.graph.plan_node[one.node]);
        let both = nodes.zip(report.operators);
        let all: Vec<_> = both.filter_map(|(node, one)| Some((node?, one))).collect();
        all.into_iter()
    }

    /// True if the execution was interrupted.
    pub(super) fn burst(&mut self) -> (StageOutcome, bool) {
        let shared = Arc::clone(&self.shared);
        let remote = shared.remote.as_ref();
        let admission = match remote {
            Some(remote) => remote.blocks.admit(remote.position),
            None => Admission::Compute(None),
        };
        let taken = match admission {
            Admission::Full => return (shared.blocks.send_ready(), false),
            Admission::Compute(Some(taken)) => *taken,
            Admission::Compute(None) | Admission::Offer => {
                let (number, (block, input)) = match shared.blocks.take(self.number) {
                    Assignment::Block { number, block } => (number, block),
                    Assignment::None(outcome) => return (outcome, false),
                };
                let placed = PlacedBlock {
                    stage: remote.map_or(0, |remote| remote.position),
                    number,
                    block,
                };
                let taken = TakenBlock { placed, input };
                if let (Some(remote), Admission::Offer) = (remote, admission) {
                    remote.blocks.offer(taken);
                    return (StageOutcome::Ran, false);
                }
                taken
            }
        };
        let TakenBlock { placed, input } = taken;
        let PlacedBlock { number, block, .. } = placed;
        let (exits, error) = self.compute(number, block);
        if matches!(error, Some(RunError::Interrupted { .. })) {
            return (StageOutcome::Ended, true);
        }
        let result = BlockResult::Results {
            exits,
            input,
            error,
        };
        (shared.blocks.complete(number, result), false)
    }

    fn compute(&mut self, number: u64, block: StreamBlock) -> (Vec<ExitOutput>, Option<RunError>) {
        let Self {
            shared, replica, ..
        } = self;
        let clock = shared.clock.clone();
        let (exits, error) = compute_block(replica, &shared.subgraph, clock, number, block);
        (exits, error.map(|error| shared.in_plan(error)))
    }
}

/// Errors name operators by their numbers in the stage's graph.
pub(in crate::scheduler) fn compute_block(
    replica: &mut Replica,
    subgraph: &ParallelSubgraph,
    clock: Option<Arc<dyn Clock>>,
    number: u64,
    mut block: StreamBlock,
) -> (Vec<ExitOutput>, Option<RunError>) {
    let task = block.task(0, number);
    let source = BlockSource::new(&mut block, clock);
    let (range, overlap) = (block.range, subgraph.plan.overlap);
    let TaskPart { begins, completes } = block.part;
    if let Some(own) = replica.readers.first() {
        let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
        let source = Box::new(source);
        if begins {
            let reader = PortionReader::new(Some(source), range, overlap, &task.part.reads[0]);
            own.switch_to(if completes {
                reader
            } else {
                reader.continues()
            });
        } else {
            own.continue_with(source, completes);
        }
    }
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
    let error = ran.err();
    (
        replica.take_outputs(subgraph, &task, completes && error.is_none()),
        error,
    )
}

impl ReplicatedStage {
    pub(super) fn subgraph(&self) -> &ParallelSubgraph {
        &self.subgraph
    }

    pub(super) fn complete(&self, number: u64, result: BlockResult) {
        self.blocks.complete(number, result);
    }

    pub(super) fn set_slots(&self, slots: usize) {
        self.blocks.set_slots(slots);
    }

    pub(super) fn notify(&self) {
        self.blocks.notify_waiting();
    }

    /// By numbers in the plan. `reports`: in the order of the subgraph.
    pub(super) fn operator_reports<'r>(
        &self,
        reports: impl Iterator<Item = &'r OperatorReport>,
    ) -> impl Iterator<Item = (usize, &'r OperatorReport)> {
        let nodes = self.subgraph.plan.nodes.iter();
        let nodes = nodes.map(|one| self.graph.plan_node[one.node]);
        let both = nodes.zip(reports);
        both.filter_map(|(node, one)| Some((node?, one)))
    }

    /// Adds the civil time: another process has no clock of the feed.
    pub(super) fn with_time(&self, mut error: RunError) -> RunError {
        if let RunError::Operator {
            node,
            range: Some(range),
            time,
            ..
        } = &mut error
            && time.is_none()
        {
            let mut nodes = self.subgraph.plan.nodes.iter();
            let has_own_indices =
                nodes.any(|one| one.node == *node && one.ratios == RatioChain::default());
            let stamp = self.clock.as_ref().filter(|_| has_own_indices);
            let stamp = stamp.and_then(|clock| clock.stamp(range.start));
            *time = stamp.map(|stamp| isochrony_time::civil::format(stamp.civil));
        }
        error
    }

    pub(super) fn in_plan(&self, mut error: RunError) -> RunError {
        if let RunError::Operator { operator, node, .. } = &mut error {
            (*operator, *node) = self.graph.graph.plan_node(*node);
        }
        error
    }
}
