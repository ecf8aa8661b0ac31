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
//! what passes between them (`Idle`, `End`) takes its place among them. Whoever completes the oldest block sends what is
//! complete. A failed block ends the stage, whatever later ones gave. At most [`BLOCKS_PER_REPLICA`] blocks for each
//! replica are in flight or buffered.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use isochrony_runtime::Progress;

use super::block::{BlockCutter, BlockSource, Cut, StreamBlock};
use super::block_subgraph::{only_input, subgraph};
use super::cell::CellCutter;
use super::input_cutter::InputCutter;
use super::link::Received;
use super::link_writer::{StageFailure, StageLink, lock};
use super::pool::stage_failure;
use super::stage_graph::StageGraph;
use super::stage_plan::Replication;
use super::stage_queue::{Notice, StageOutcome, StageQueue};
use crate::engine::report::OperatorReport;
use crate::engine::{RunOptions, panic_error};
use crate::plan::graph::{Edge, Graph};
use crate::scheduler::boundary::RangeAnnouncer;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::partition::TaskInput;
use crate::scheduler::replica::{Replica, TaskPart};
use crate::scheduler::scan_input::PortionReader;
use crate::scheduler::task_output::{ExitOutput, ExitState, Task};
use crate::{Clock, RangePortion, RunError, SourceEvent};

/// Blocks in flight or buffered for each replica.
const BLOCKS_PER_REPLICA: usize = 3;
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
    input: Arc<StageLink>,
    clock: Option<Arc<dyn Clock>>,
    /// For each exit of the subgraph, the writers of its edges and their ports.
    exits: Vec<Vec<(usize, u16)>>,
    /// Counts the samples of blocks as they are sent.
    delivered: Arc<Progress>,
    queue: Arc<StageQueue>,
    /// Its replicas' entries in the queue of stages.
    entries: Range<usize>,
    plan: Graph,
    /// Replicas that take blocks, at least 1.
    replicas: AtomicUsize,
    order: Mutex<BlockOrder>,
}

enum BlockSlot {
    InFlight,
    Done(BlockResult),
}

enum BlockResult {
    Results {
        exits: Vec<ExitOutput>,
        delivered: u64,
        error: Option<RunError>,
    },
    Pass(SourceEvent),
    /// The earlier stage has failed, or ended without an `End` event.
    InputEnded(Option<StageFailure>),
}

struct BlockOrder {
    cutter: InputCutter,
    input_ended: bool,
    /// Number of the oldest block in `slots`.
    first: u64,
    slots: VecDeque<BlockSlot>,
    /// By exit.
    ranges: Vec<RangeAnnouncer>,
    /// What the earlier stage had read when the last batch was sent.
    delivered: u64,
    ended: bool,
    error: Option<RunError>,
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
        let stage = Arc::new(ReplicatedStage {
            number,
            clock: subgraph.inputs[0].recording.clock(),
            order: Mutex::new(BlockOrder {
                cutter,
                input_ended: false,
                first: 0,
                slots: VecDeque::new(),
                ranges: exits.iter().map(|_| RangeAnnouncer::default()).collect(),
                delivered: 0,
                ended: false,
                error: None,
            }),
            exits,
            subgraph,
            graph,
            input: Arc::clone(input),
            delivered: Arc::clone(delivered),
            queue: Arc::clone(queue),
            entries: entries.clone(),
            plan: plan.clone(),
            replicas: AtomicUsize::new(entries.len()),
        });
        stage.announce_samples();
        Ok(Ok(stage))
    }
}

impl ReplicatedStage {
    fn lock(&self) -> MutexGuard<'_, BlockOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the next stages how much to expect.
    fn announce_samples(&self) {
        let total = match self.input.counts {
            true => self.input.total(),
            false => Some(0),
        };
        for (exit, ports) in self.subgraph.plan.exits.iter().zip(&self.exits) {
            let expected = self.input.expected(0);
            let expected = expected.and_then(|_| self.subgraph.expected_count(exit));
            for &(at, port) in ports {
                let link = &lock(&self.graph.writers[at]).link;
                link.set_total(total);
                if let Some(expected) = expected {
                    link.expect(port, expected);
                }
            }
        }
    }

    pub(super) fn take_error(&self) -> Option<RunError> {
        self.lock().error.take()
    }

    /// Bytes that are in no link: blocks that wait for earlier ones, and what later ones need.
    pub(super) fn bytes(&self) -> u64 {
        let order = self.lock();
        let slots = order.slots.iter().map(|slot| match slot {
            BlockSlot::Done(BlockResult::Results { exits, .. }) => {
                exits.iter().map(ExitOutput::bytes).sum()
            }
            _ => 0,
        });
        slots.sum::<u64>() + order.cutter.bytes()
    }

    /// How many replicas take blocks from now on. A retired one completes its block.
    pub(super) fn set_replicas(&self, replicas: usize) {
        let replicas = replicas.clamp(1, self.entries.len());
        self.replicas.store(replicas, Ordering::Relaxed);
        self.notify_all(Notice::Room);
    }

    pub(super) fn max_replicas(&self) -> usize {
        self.entries.len()
    }

    fn has_room(&self) -> bool {
        let mut writers = self.graph.writers.iter();
        writers.all(|writer| !lock(writer).link.link.is_full())
    }

    fn notify_all(&self, notice: Notice) {
        for entry in self.entries.clone() {
            self.queue.notify(entry, notice);
        }
    }

    /// Receives a batch; false if there is none.
    fn receive(&self, order: &mut BlockOrder) -> bool {
        match self.input.receive() {
            Received::Batch(batch) => {
                order.delivered = batch.delivered;
                let events = batch.events.into_iter().map(|(_, event)| event);
                order.cutter.push(events);
                true
            }
            Received::Nothing => false,
            Received::End => {
                order.input_ended = true;
                false
            }
        }
    }

    /// The next block for a replica and its number; what passes before it takes its place among the blocks.
    fn next_block(&self, order: &mut BlockOrder, replica: usize) -> Option<(u64, StreamBlock)> {
        loop {
            if let Some(owner) = order.cutter.owner().filter(|&owner| owner != replica) {
                self.queue.notify(self.entries.start + owner, Notice::Input);
                return None;
            }
            while order.cutter.has_room() && self.receive(order) {}
            let number = order.first + order.slots.len() as u64;
            match order.cutter.cut(replica) {
                Cut::Block(block) => {
                    order.slots.push_back(BlockSlot::InFlight);
                    return Some((number, block));
                }
                Cut::Pass(event) => order
                    .slots
                    .push_back(BlockSlot::Done(BlockResult::Pass(event))),
                // The next block is larger than others.
                Cut::Nothing if self.receive(order) => {}
                Cut::Nothing => {
                    if std::mem::take(&mut order.input_ended) {
                        let failure = self.input.failure();
                        let ended = BlockResult::InputEnded(failure);
                        order.slots.push_back(BlockSlot::Done(ended));
                    }
                    return None;
                }
            }
        }
    }

    /// Sends what is complete, in order.
    fn send_complete(&self, order: &mut BlockOrder) {
        let mut sent = false;
        while !order.ended
            && self.has_room()
            && let Some(BlockSlot::Done(_)) = order.slots.front()
            && let Some(BlockSlot::Done(result)) = order.slots.pop_front()
        {
            (order.first, sent) = (order.first + 1, true);
            self.send(order, result);
            for writer in &self.graph.writers {
                lock(writer).send();
            }
        }
        if !sent {
            return;
        }
        if order.ended {
            order.slots.clear();
            self.input.close_all();
        }
        self.notify_all(Notice::Room);
    }

    fn send(&self, order: &mut BlockOrder, result: BlockResult) {
        match result {
            BlockResult::Results {
                exits,
                delivered,
                error,
            } => {
                self.delivered.set_done(delivered);
                for ((output, ranges), ports) in
                    exits.into_iter().zip(&mut order.ranges).zip(&self.exits)
                {
                    let upto = output.upto;
                    ranges.announce(output.events.into_iter(), |event| self.give(ports, &event));
                    if let Some(upto) = upto {
                        self.give(ports, &SourceEvent::ProgressMark(upto));
                    }
                }
                if let Some(error) = error {
                    let failure = stage_failure(&self.plan, self.number, &error);
                    order.error = Some(error);
                    self.end(order, Some(failure));
                }
            }
            BlockResult::Pass(SourceEvent::Rewind) => {
                order
                    .ranges
                    .iter_mut()
                    .for_each(|ranges| *ranges = RangeAnnouncer::default());
                self.give_all(&SourceEvent::Rewind);
            }
            BlockResult::Pass(event) => self.give_all(&event),
            BlockResult::InputEnded(failure) => self.end(order, failure),
        }
        // Closes exits that nobody reads any more.
        let exits = self.exits.iter().zip(&self.subgraph.exit_states);
        for (ports, state) in exits {
            let mut ports = ports.iter();
            if ports.all(|&(at, port)| lock(&self.graph.writers[at]).link.is_closed(port)) {
                state.close();
            }
        }
        if self.subgraph.exit_states.iter().all(ExitState::is_closed) && !order.ended {
            self.end(order, None);
        }
    }

    fn end(&self, order: &mut BlockOrder, failure: Option<StageFailure>) {
        for writer in &self.graph.writers {
            lock(writer).end(failure.clone());
        }
        order.ended = true;
    }

    fn give_all(&self, event: &SourceEvent) {
        self.exits.iter().for_each(|ports| self.give(ports, event));
    }

    fn give(&self, ports: &[(usize, u16)], event: &SourceEvent) {
        for &(at, port) in ports {
            lock(&self.graph.writers[at]).give(port, event);
        }
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
        let mut order = shared.lock();
        if order.ended {
            return (StageOutcome::Ended, false);
        }
        // Results that found no room before.
        shared.send_complete(&mut order);
        if order.ended {
            return (StageOutcome::Ended, false);
        }
        let window = BLOCKS_PER_REPLICA * shared.entries.len();
        let is_retired = self.number >= shared.replicas.load(Ordering::Relaxed)
            && order.cutter.owner() != Some(self.number);
        if is_retired {
            // Another replica takes what this one was woken for.
            let others = shared
                .entries
                .clone()
                .filter(|&at| at != shared.entries.start + self.number);
            for entry in others {
                shared.queue.notify(entry, Notice::Input);
            }
            return (StageOutcome::Full, false);
        }
        if !shared.has_room() || order.slots.len() >= window {
            return (StageOutcome::Full, false);
        }
        let next = shared.next_block(&mut order, self.number);
        shared.send_complete(&mut order);
        let Some((number, block)) = next else {
            let ended = order.ended;
            return (
                if ended {
                    StageOutcome::Ended
                } else {
                    StageOutcome::Idle
                },
                false,
            );
        };
        let delivered = order.delivered;
        // There may be a block for another replica.
        let more = order.cutter.has_more() || shared.input.link.bytes() > 0;
        drop(order);
        if more {
            shared.notify_all(Notice::Input);
        }
        let (exits, error) = self.compute(number, block);
        if matches!(error, Some(RunError::Interrupted { .. })) {
            return (StageOutcome::Ended, true);
        }
        let mut order = shared.lock();
        let at = number.checked_sub(order.first).map(|at| at as usize);
        if let Some(slot) = at.and_then(|at| order.slots.get_mut(at)) {
            *slot = BlockSlot::Done(BlockResult::Results {
                exits,
                delivered,
                error,
            });
        }
        shared.send_complete(&mut order);
        let outcome = match order.ended {
            true => StageOutcome::Ended,
            false => StageOutcome::Ran,
        };
        (outcome, false)
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
