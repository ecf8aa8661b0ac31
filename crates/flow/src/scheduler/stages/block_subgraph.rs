//! A stage's operators as a subgraph that reads blocks, if they give the same bits wherever their input is cut.

use std::ops::Range;
use std::sync::Arc;

use super::link_writer::StageLink;
use super::stage_graph::StageGraph;
use super::stage_plan::Replication;
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::scan_groups::subgraph_plans;
use crate::scheduler::scan_input::ScanInput;
use crate::scheduler::subgraph::SubgraphPlan;
use crate::scheduler::task_output::ExitState;
use crate::scheduler::task_sizes::TaskSize;
use crate::{
    Clock, OpError, OpErrorKind, PortType, Portion, PortionOverlap, Recording, RunError,
    SharedRecording, Snapshot, Source,
};

/// Beyond this much, blocks have no replicas.
const MAX_OVERLAP_BYTES: u64 = 4 << 20;
/// Of the memory for one cell with its overlap: several are kept at a time.
const MAX_CELL_FRACTION: u64 = 8;

/// The link by which all input comes, if it is the only one and has one edge.
pub(super) fn only_input(stage: usize, links: &[Arc<StageLink>]) -> Option<&Arc<StageLink>> {
    let mut entering = links.iter().filter(|link| link.to == stage);
    let only = entering.next().filter(|link| link.edges.len() == 1)?;
    entering.next().is_none().then_some(only)
}

pub(super) fn subgraph(
    graph: &StageGraph,
    input: &StageLink,
    replication: Replication,
    options: &RunOptions<'_>,
) -> Result<Option<ParallelSubgraph>, RunError> {
    let mut own = graph.graph.clone();
    let Some(Op::Scan { recording, .. }) = own.nodes.first_mut().map(|node| &mut node.op) else {
        return Ok(None);
    };
    *recording = SharedRecording::new(BlockRecording {
        edge: recording.clone(),
        samples: input.expected(0),
    });
    let options = RunOptions {
        workers: 2,
        tolerance: match replication {
            Replication::Cells => options.tolerance,
            _ => 0.0,
        },
        ..*options
    };
    let Some(plan) = subgraph_plans(&own, &options).into_iter().next() else {
        return Ok(None);
    };
    let is_in_blocks = |node: usize| plan.nodes.iter().any(|one| one.node == node);
    let mut of_plan = graph.plan_node.iter().enumerate();
    let all = of_plan.all(|(node, of_plan)| of_plan.is_none() || is_in_blocks(node));
    let overlap = match own.nodes[0].properties.outputs[0] {
        PortType::Samples { dtype, .. } => {
            plan.overlap.samples().saturating_mul(dtype.size() as u64)
        }
        // Windows around a block would be windows, not samples.
        PortType::Frames { .. } if plan.overlap == PortionOverlap::default() => 0,
        _ => return Ok(None),
    };
    let fits = match plan.reproducible_samples {
        Some(samples) => {
            check_cell(graph, &plan, samples, &options)?;
            true
        }
        None => overlap <= MAX_OVERLAP_BYTES.min(options.memory / 64),
    };
    let reduces = plan.exits.iter().any(|exit| exit.reduces);
    if !all || !fits || reduces || plan.settles() && replication != Replication::Cells {
        return Ok(None);
    }
    let input = ScanInput::new(&own, 0, plan.overlap, false)?;
    Ok(input.map(|input| ParallelSubgraph {
        operators: plan
            .nodes
            .iter()
            .map(|one| own.nodes[one.node].clone())
            .collect(),
        size: TaskSize::fixed(0),
        inputs: vec![input],
        exit_states: plan.exits.iter().map(|_| ExitState::default()).collect(),
        by_block: false,
        plan,
    }))
}

/// Other cells would give other bits, so too little memory is an error.
fn check_cell(
    graph: &StageGraph,
    plan: &SubgraphPlan,
    samples: u64,
    options: &RunOptions<'_>,
) -> Result<(), RunError> {
    let nodes = &graph.graph.nodes;
    let dtype = nodes[0].properties.outputs[0].dtype();
    let sample = dtype.map_or(8, |dtype| dtype.size() as u64);
    let cell = (samples.saturating_add(plan.overlap.samples())).saturating_mul(sample);
    let asked = cell.saturating_mul(MAX_CELL_FRACTION);
    let settling = plan
        .nodes
        .iter()
        .find(|one| one.contract.rel_err > 0.0)
        .filter(|_| asked > options.memory);
    match settling {
        None => Ok(()),
        Some(one) => {
            let node = graph.plan_node[one.node].unwrap_or(0);
            Err(too_little_memory(
                nodes[one.node].op.name(),
                node,
                asked,
                options,
            ))
        }
    }
}

/// The error of an operator whose cells do not fit into `memory=`.
pub(super) fn too_little_memory(
    operator: &'static str,
    node: usize,
    asked: u64,
    options: &RunOptions<'_>,
) -> RunError {
    RunError::Operator {
        operator,
        node,
        range: None,
        time: None,
        error: OpErrorKind::MemoryCap {
            asked,
            used: 0,
            cap: options.memory,
        }
        .into(),
    }
}

/// Stands for a feed that is read in cells, as a stored recording would be in tasks.
pub(super) fn as_stored(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for node in &mut graph.nodes {
        if let Op::Scan { recording, .. } = &mut node.op
            && recording.is_feed()
        {
            *recording = SharedRecording::new(BlockRecording {
                edge: recording.clone(),
                samples: None,
            });
        }
    }
    graph
}

struct BlockRecording {
    edge: SharedRecording,
    samples: Option<u64>,
}

impl Recording for BlockRecording {
    fn port(&self) -> PortType {
        self.edge.0.port()
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        self.edge.0.open(range, segment)
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.edge.clock()
    }

    fn registers_clock(&self) -> bool {
        false
    }

    fn is_splittable(&self) -> bool {
        true
    }

    fn snapshot(&self, _: Option<Range<i64>>) -> Result<Option<Arc<dyn Snapshot>>, OpError> {
        Ok(Some(Arc::new(ArrivingBlocks(self.samples))))
    }
}

struct ArrivingBlocks(Option<u64>);

impl Snapshot for ArrivingBlocks {
    fn portion_after(&self, _: Option<&Portion>, _: u64, _: u64) -> Option<Portion> {
        None
    }

    fn open(&self, _: &Portion, _: PortionOverlap, _: u64) -> Result<Box<dyn Source>, OpError> {
        Err(OpErrorKind::Interrupted.into())
    }

    fn total(&self) -> u64 {
        self.0.unwrap_or(0)
    }
}
