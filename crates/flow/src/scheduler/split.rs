//! Splits a plan into replicated subgraphs and a sequential part. Pure, except that it takes snapshots of recordings
//! and starts read-ahead.

use std::sync::Arc;

use super::parallel_subgraph::ParallelSubgraph;
use super::scan_input::ScanInput;
use super::sequential::SequentialPart;
use super::subgraph::SubgraphPlan;
use super::task_contract::placements;
use super::task_output::{ExitState, TASKS_PER_WORKER, TaskScheduler};
use super::task_sizes::TaskSizes;
use super::worker::WorkerResult;
use crate::RunError;
use crate::engine::RunOptions;
use crate::engine::report::OperatorReport;
use crate::plan::graph::Graph;

pub(super) struct SplitPlan {
    pub(super) subgraphs: Vec<ParallelSubgraph>,
    pub(super) sequential: SequentialPart,
    pub(super) scheduler: Arc<TaskScheduler>,
    /// By subgraph.
    pub(super) sizes: Vec<Arc<TaskSizes>>,
    names: Vec<&'static str>,
}

/// In flight or buffered: two batches, and what waits for a slower slot.
const TASKS_PER_SLOT: usize = 96;
/// Assumed for the in-flight window of a cluster, since others may join.
const MIN_SLOTS: usize = 8;

/// Subgraphs worth replicating and readable in portions, without read-ahead.
pub(super) fn split_subgraphs(
    graph: &Graph,
    options: &RunOptions<'_>,
    mut subgraph_plans: Vec<SubgraphPlan>,
) -> Result<Vec<ParallelSubgraph>, RunError> {
    let mut subgraphs = Vec::new();
    if options.workers < 2 {
        // One worker uses tasks only where cuts change bits.
        subgraph_plans.retain(SubgraphPlan::settles);
    }
    for plan in subgraph_plans {
        let Some(size) = plan.task_size(graph, options) else {
            continue;
        };
        let several = plan.scans.len() > 1;
        let inputs = plan.scans.iter().map(|scan| {
            ScanInput::new(graph, plan.nodes[scan.position].node, scan.overlap, several)
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
    Ok(subgraphs)
}

impl SplitPlan {
    /// None if nothing is worth replicating or readable in portions.
    pub(super) fn of(
        graph: &Graph,
        options: &RunOptions<'_>,
        subgraph_plans: Vec<SubgraphPlan>,
    ) -> Result<Option<Self>, RunError> {
        let mut subgraphs = split_subgraphs(graph, options, subgraph_plans)?;
        if subgraphs.is_empty() {
            return Ok(None);
        }
        let mut partitioners = Vec::with_capacity(subgraphs.len());
        for subgraph in &mut subgraphs {
            // Slots of a cluster ask for single cells.
            let shuffle = options.stages.shuffle;
            let shuffle = shuffle.filter(|_| options.cluster.is_none() || !subgraph.size.is_cell);
            let partitioner = subgraph.partitioner(shuffle);
            if options.cluster.is_none() {
                subgraph.start_read_ahead(&partitioner, options.workers.max(1))?;
            }
            partitioners.push(partitioner);
        }
        let window = match options.cluster {
            Some(cluster) => TASKS_PER_SLOT * cluster.slots().max(MIN_SLOTS),
            None => TASKS_PER_WORKER * options.workers.max(1),
        };
        let memory = options.memory / 8;
        let sizes = partitioners.iter().map(|one| Arc::clone(&one.sizes));
        let sizes = sizes.collect();
        let scheduler = Arc::new(TaskScheduler::new(partitioners, window, memory));
        Ok(Some(Self {
            sequential: SequentialPart::of(graph, &subgraphs, &scheduler),
            subgraphs,
            scheduler,
            sizes,
            names: graph.nodes.iter().map(|node| node.op.name()).collect(),
        }))
    }

    pub(super) fn placements(&self, graph: &Graph, options: &RunOptions<'_>) -> Vec<String> {
        let spread = self
            .subgraphs
            .iter()
            .flat_map(|subgraph| &subgraph.plan.nodes);
        let spread = spread.map(|one| one.node);
        placements(graph, options, &spread.collect::<Vec<_>>())
    }

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
            // The source that stands for an exit is not an operator of the plan.
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
