//! Splits a plan into subgraphs that workers replicate and the sequential part. Pure, except that recordings are asked for
//! their snapshots and read-ahead is started.

use std::sync::Arc;

use super::explain_parallel::placements;
use super::overlap::RatioChain;
use super::partition::RecordingPartitioner;
use super::partition::UpcomingPortions;
use super::scan_groups::subgraph_plans;
use super::scan_input::ScanInput;
use super::sequential::SequentialPart;
use super::subgraph::{SubgraphExit, SubgraphPlan};
use super::task_output::{ExitState, TASKS_PER_WORKER, TaskScheduler};
use super::task_size::TaskSize;
use super::worker::WorkerResult;
use crate::engine::RunOptions;
use crate::engine::axis::Axis;
use crate::engine::report::OperatorReport;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::{PortType, RunError};

/// A subgraph that every worker replicates: one scan, or several that are read together, and operators behind them.
pub(super) struct ParallelSubgraph {
    pub(super) plan: SubgraphPlan,
    /// Its nodes, by position.
    operators: Vec<GraphNode>,
    size: TaskSize,
    /// The recordings, in the order of the scans.
    pub(super) inputs: Vec<ScanInput>,
    /// For each exit, whether it is open.
    pub(super) exit_states: Vec<ExitState>,
    /// Whether sources must be asked block by block, because something in the plan may end early.
    pub(super) by_block: bool,
}

pub(super) struct SplitPlan {
    pub(super) subgraphs: Vec<ParallelSubgraph>,
    pub(super) sequential: SequentialPart,
    pub(super) scheduler: Arc<TaskScheduler>,
    /// Operator names of the plan.
    names: Vec<&'static str>,
}

impl ParallelSubgraph {
    pub(super) fn node(&self, position: usize) -> &GraphNode {
        &self.operators[position]
    }

    /// The input that the scan at a position reads.
    pub(super) fn input_of(&self, position: usize) -> Option<usize> {
        let node = self.plan.nodes[position].node;
        self.inputs.iter().position(|one| one.node == node)
    }

    /// The input that gives an edge its indices and times: of the inputs upstream the one of the same name and clock, else
    /// one of the same clock.
    pub(super) fn reference_input(&self, edge: Edge) -> &ScanInput {
        let before = &self.plan.nodes[edge.0].scans;
        let before = || self.inputs.iter().filter(|one| before.contains(&one.node));
        let (port, _) = self.output_of(edge);
        let wanted = port.stream();
        let own = |one: &&ScanInput| one.recording.0.port().stream();
        let clock = before().find(|one| {
            let both = own(one).zip(wanted);
            both.is_some_and(|(a, b)| a.timebase.origin().0 == b.timebase.origin().0)
        });
        let name = before().find(|one| {
            let both = own(one).zip(wanted);
            both.is_some_and(|(a, b)| {
                a.name == b.name && a.timebase.origin().0 == b.timebase.origin().0
            })
        });
        name.or(clock).unwrap_or(&self.inputs[0])
    }

    /// The partitioner of its inputs.
    fn partitioner(&self) -> RecordingPartitioner {
        let inputs = self.inputs.iter();
        let reads = inputs.map(|one| (one.snapshot.clone(), one.segment));
        RecordingPartitioner {
            reads: reads.collect(),
            samples: self.size.samples,
            bytes: self.size.bytes,
        }
    }

    /// Starts read-ahead for its inputs.
    fn start_read_ahead(
        &mut self,
        partitioner: &RecordingPartitioner,
        workers: usize,
    ) -> Result<(), RunError> {
        let inputs = self
            .inputs
            .iter_mut()
            .zip(UpcomingPortions::of(partitioner));
        inputs
            .into_iter()
            .try_for_each(|(one, tasks)| one.start_read_ahead(tasks, workers))
    }

    /// Samples of all inputs.
    pub(super) fn total(&self) -> u64 {
        self.inputs.iter().map(|one| one.snapshot.total()).sum()
    }

    /// The type of an edge, and the ratios from read indices to its own.
    pub(super) fn output_of(&self, (position, output): Edge) -> (PortType, &RatioChain) {
        let port = self.operators[position].bound.outputs[usize::from(output)];
        (port, &self.plan.nodes[position].ratios)
    }

    /// The time at which the block begins that an operator failed with.
    pub(super) fn failure_time(&self, error: &RunError) -> Option<f64> {
        let RunError::Operator {
            node,
            range: Some(range),
            ..
        } = error
        else {
            return None;
        };
        let position = self.plan.nodes.iter().position(|one| one.node == *node)?;
        let first_input = self.plan.nodes[position].inputs.first();
        let (port, _) = self.output_of(first_input.copied().unwrap_or((position, 0)));
        Some(Axis::of(Some(&port)).time(range.start))
    }

    /// The exits downstream of a node of the plan.
    pub(super) fn exits_after(&self, node: usize) -> impl Iterator<Item = usize> {
        let mut downstream: Vec<bool> = Vec::new();
        for one in &self.plan.nodes {
            let follows = one.inputs.iter().any(|&(from, _)| downstream[from]);
            downstream.push(one.node == node || follows);
        }
        let exits = self.plan.exits.iter().enumerate();
        exits.filter_map(move |(nth, exit)| downstream[exit.edge.0].then_some(nth))
    }

    /// How many samples leave by an exit, where known.
    pub(super) fn expected_count(&self, exit: &SubgraphExit) -> Option<u64> {
        let mut position = exit.edge.0;
        while let Some(&(from, _)) = self.plan.nodes[position].inputs.first() {
            self.operators[position].bound.ratio?;
            position = from;
        }
        let (_, ratios) = self.output_of(exit.edge);
        let read = &self.inputs[self.input_of(position)?];
        (!exit.reduces).then(|| ratios.count(read.snapshot.total()))
    }
}

pub(super) fn with_plan_node(mut error: RunError, origin: &[usize]) -> RunError {
    if let RunError::Operator { node, .. } | RunError::NoResult { node, .. } = &mut error {
        *node = origin
            .get(*node)
            .or(origin.last())
            .copied()
            .unwrap_or(*node);
    }
    error
}

impl SplitPlan {
    /// Splits a plan; None if no subgraph is worth replicating or can be read in portions.
    pub(super) fn of(graph: &Graph, options: &RunOptions<'_>) -> Result<Option<Self>, RunError> {
        let mut subgraphs = Vec::new();
        let mut subgraph_plans = subgraph_plans(graph, options);
        if options.workers < 2 {
            // One worker uses tasks only where cuts change bits, so that it gives the same bits as several workers.
            subgraph_plans.retain(|plan| plan.exposes_cuts(graph));
        }
        for plan in subgraph_plans {
            let Some(size) = plan.task_size(graph, options) else {
                continue;
            };
            let several = plan.scans.len() > 1;
            let inputs = plan.scans.iter().map(|scan| {
                ScanInput::new(graph, plan.nodes[scan.position].node, scan.reach, several)
            });
            let inputs: Result<Option<Vec<ScanInput>>, RunError> = inputs.collect();
            let Some(inputs) = inputs? else {
                continue;
            };
            let totals = inputs.iter().map(|one| one.snapshot.total());
            let size = plan.task_size_for(size, totals.max().unwrap_or(0), graph);
            let operators = plan.nodes.iter().map(|one| graph.nodes[one.node].clone());
            subgraphs.push(ParallelSubgraph {
                operators: operators.collect(),
                size,
                inputs,
                exit_states: plan.exits.iter().map(|_| ExitState::default()).collect(),
                by_block: graph.ends_before_sources(),
                plan,
            });
        }
        if subgraphs.is_empty() {
            return Ok(None);
        }
        let mut partitioners = Vec::with_capacity(subgraphs.len());
        for subgraph in &mut subgraphs {
            let partitioner = subgraph.partitioner();
            subgraph.start_read_ahead(&partitioner, options.workers.max(1))?;
            partitioners.push(partitioner);
        }
        let (window, memory) = (
            TASKS_PER_WORKER * options.workers.max(1),
            options.memory / 8,
        );
        let scheduler = Arc::new(TaskScheduler::new(partitioners, window, memory));
        Ok(Some(Self {
            sequential: SequentialPart::of(graph, &subgraphs, &scheduler),
            subgraphs,
            scheduler,
            names: graph.nodes.iter().map(|node| node.op.name()).collect(),
        }))
    }

    /// Where operators worked that hold code of this process.
    pub(super) fn placements(&self, graph: &Graph, options: &RunOptions<'_>) -> Vec<String> {
        let spread = self
            .subgraphs
            .iter()
            .flat_map(|subgraph| &subgraph.plan.nodes);
        let spread = spread.map(|one| one.node);
        placements(graph, options, &spread.collect::<Vec<_>>())
    }

    /// The report of each operator of the plan, summed over workers.
    pub(super) fn operator_reports(
        &self,
        workers: &[WorkerResult],
        of_sequential: Vec<OperatorReport>,
    ) -> Vec<OperatorReport> {
        let mut all: Vec<Option<OperatorReport>> = (0..self.names.len()).map(|_| None).collect();
        for (report, &node) in of_sequential.into_iter().zip(&self.sequential.plan_node) {
            all[node] = Some(report);
        }
        for (at, subgraph) in self.subgraphs.iter().enumerate() {
            // The source that stands for the exit in the sequential part is not an operator of the plan.
            for one in &subgraph.plan.nodes {
                all[one.node] = Some(OperatorReport::none(self.names[one.node]));
            }
            for done in workers {
                let Some(Some(theirs)) = done.operators.get(at) else {
                    continue;
                };
                for (report, one) in theirs.iter().zip(&subgraph.plan.nodes) {
                    match &mut all[one.node] {
                        Some(sum) => sum.add(report),
                        none => *none = Some(report.clone()),
                    }
                }
            }
        }
        all.into_iter().flatten().collect()
    }
}
