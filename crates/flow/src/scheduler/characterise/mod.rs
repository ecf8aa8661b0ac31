//! [`Plan::characterise`]: measures each operator's service rate, between a source that always has items and a consumer
//! that takes everything at once.
//!
//! Its items are captured while the first samples run through the plan before it, then replayed to it alone; the cost
//! of replaying without an operator is subtracted. Operators are measured one by one, so memory holds the input of one.

mod captured;

use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_store::machine::Quartiles;

use super::operator_key::key;
use super::run::prepare;
use super::stages::cpu_time;
use crate::engine::{PlanExecutor, RunOptions};
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::{OperatorProperties, Plan, PlanError, RunError, SEGMENT_SAMPLES, SharedRecording};

use captured::{CapturedItems, Events, LimitedRecording, ReplayRecording};

/// Options of [`Plan::characterise`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CharacteriseOptions {
    /// Replayed samples of each source, at least 1; rounded up to whole segments.
    pub samples: u64,
    /// Repetitions, at least 3; the median counts.
    pub repeats: usize,
}

impl Default for CharacteriseOptions {
    fn default() -> Self {
        Self {
            samples: 1 << 20,
            repeats: 9,
        }
    }
}

/// Cost of an operator by itself.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OperatorCost {
    /// Its number in the executed plan.
    pub node: usize,
    /// Operator name.
    pub name: &'static str,
    /// Determines the cost: operator, parameters and input types.
    pub key: String,
    /// Replayed items.
    pub items: u64,
    /// Their samples; overlapping windows count each once.
    pub samples: u64,
    /// Source samples that these items come from.
    pub source_samples: u64,
    /// Median and quartiles of seconds per one of `samples`, or of `source_samples` if there are none, as for rows.
    pub seconds_per_sample: Quartiles,
}

impl Plan {
    /// Measures what each operator of the executed plan costs by itself. Reads the first samples of the sources several
    /// times. Does not execute operators that write or call user code; they have no cost.
    ///
    /// # Errors
    /// [`PlanError::CannotCharacterise`] if a source is single-pass or empty; [`RunError`] of the executed part.
    pub fn characterise(
        &self,
        options: &CharacteriseOptions,
    ) -> Result<Vec<OperatorCost>, RunError> {
        let run = RunOptions::default();
        let graph = prepare(std::slice::from_ref(self), &run)?;
        for (at, node) in graph.nodes.iter().enumerate() {
            if let Op::Scan {
                recording, range, ..
            } = &node.op
            {
                let snapshot = recording.0.snapshot(range.clone());
                let snapshot =
                    snapshot.map_err(|error| super::scan_input::scan_error(at, error))?;
                if snapshot.is_none_or(|snapshot| snapshot.total() == 0) {
                    return Err(PlanError::CannotCharacterise {
                        source_name: graph.label(at),
                    }
                    .into());
                }
            }
        }
        let mut costs = Vec::new();
        for node in 0..graph.nodes.len() {
            if graph.nodes[node].inputs.is_empty() || calls_others(&graph, node) {
                continue;
            }
            // Nodes after a writer or user code would need it to be executed.
            if upstream(&graph, node).any(|before| calls_others(&graph, before)) {
                continue;
            }
            costs.extend(characterise_node(&graph, node, options, &run)?);
        }
        Ok(costs)
    }
}

fn calls_others(graph: &Graph, node: usize) -> bool {
    let node = &graph.nodes[node];
    matches!(node.op, Op::Factory(_)) || node.properties.needs == crate::Resource::Interpreter
}

fn upstream(graph: &Graph, node: usize) -> impl Iterator<Item = usize> {
    let mut before = vec![false; node + 1];
    before[node] = true;
    for at in (0..=node).rev() {
        if before[at] {
            for &(from, _) in &graph.nodes[at].inputs {
                if from < at {
                    before[from] = true;
                }
            }
        }
    }
    (0..node).filter(move |&at| before[at])
}

fn characterise_node(
    graph: &Graph,
    node: usize,
    options: &CharacteriseOptions,
    run: &RunOptions<'_>,
) -> Result<Option<OperatorCost>, RunError> {
    let edges = graph.nodes[node].inputs.clone();
    if edges.iter().any(|&(from, _)| from >= node) {
        return Ok(None);
    }
    let (inputs, source_samples) = capture(graph, &edges, options.samples, run)?;
    let items: u64 = inputs.iter().map(|input| input.items()).sum();
    if items == 0 || source_samples == 0 {
        return Ok(None);
    }
    let samples: u64 = inputs.iter().map(|input| input.samples()).sum();
    let unit = if samples > 0 { samples } else { source_samples } as f64;
    let with = replay(graph, node, &edges, &inputs, true);
    let without = replay(graph, node, &edges, &inputs, false);
    let mut seconds = Vec::with_capacity(options.repeats);
    // The first execution warms caches and pools.
    for repeat in 0..=options.repeats.max(3) {
        let own = execute(&with, run)?;
        let empty = execute(&without, run)?;
        if repeat > 0 {
            let own = own.as_secs_f64() - empty.as_secs_f64();
            seconds.push(own.max(0.0) / unit);
        }
    }
    let seconds = Quartiles::of(seconds).unwrap_or(Quartiles::exact(0.0));
    Ok(Some(OperatorCost {
        node,
        name: graph.nodes[node].op.name(),
        key: key(graph, node),
        items,
        samples,
        source_samples,
        seconds_per_sample: seconds,
    }))
}

/// Items on each edge for the first samples, and how many samples the largest source gave.
fn capture(
    graph: &Graph,
    edges: &[Edge],
    samples: u64,
    run: &RunOptions<'_>,
) -> Result<(Vec<Arc<Events>>, u64), RunError> {
    let mut part = graph.clone();
    let mut given = Vec::new();
    for node in &mut part.nodes {
        if let Op::Scan { recording, .. } = &mut node.op {
            let limited = LimitedRecording::new(recording.clone(), samples);
            given.push(limited.given());
            *recording = SharedRecording::new(limited);
        }
    }
    let mut captures = Vec::new();
    part.outputs = Vec::new();
    for &edge in edges {
        let capture = CapturedItems::default();
        captures.push(capture.clone());
        let port = part.nodes[edge.0].properties.outputs[usize::from(edge.1)];
        part.outputs.push((part.nodes.len(), 0));
        part.plan_nodes.push(("capture", part.nodes.len()));
        part.nodes.push(GraphNode {
            op: Op::Factory(crate::SharedFactory::new(capture)),
            inputs: vec![edge],
            properties: OperatorProperties::new([port]),
        });
    }
    part.plan_nodes.clear();
    part.drop_unused();
    execute(&part, run)?;
    let inputs = captures.iter().map(CapturedItems::take).map(Arc::new);
    let most = given.iter().map(|given| given.done()).max();
    Ok((inputs.collect(), most.unwrap_or(0)))
}

fn replay(
    graph: &Graph,
    node: usize,
    edges: &[Edge],
    inputs: &[Arc<Events>],
    with_node: bool,
) -> Graph {
    let sources = edges.iter().zip(inputs).map(|(&edge, input)| {
        let port = graph.nodes[edge.0].properties.outputs[usize::from(edge.1)];
        GraphNode {
            op: Op::Scan {
                recording: SharedRecording::new(ReplayRecording {
                    port,
                    events: Arc::clone(input),
                    reads: graph.recording_of_edge(edge),
                }),
                range: None,
                segment: SEGMENT_SAMPLES,
            },
            inputs: Vec::new(),
            properties: OperatorProperties::new([port]),
        }
    });
    let mut nodes: Vec<GraphNode> = sources.collect();
    let count = nodes.len();
    let outputs = match with_node {
        true => {
            nodes.push(GraphNode {
                inputs: (0..count).map(|at| (at, 0)).collect(),
                ..graph.nodes[node].clone()
            });
            vec![(count, 0)]
        }
        false => (0..count).map(|at| (at, 0)).collect(),
    };
    Graph {
        nodes,
        outputs,
        plan_nodes: Vec::new(),
    }
}

/// CPU time without setup: other programs do not count.
fn execute(graph: &Graph, run: &RunOptions<'_>) -> Result<Duration, RunError> {
    let mut executor = PlanExecutor::new(graph, run)?;
    let (begun, before) = (Instant::now(), cpu_time());
    executor.run(run)?;
    let used = cpu_time().zip(before).map(|(now, before)| now - before);
    Ok(used.unwrap_or_else(|| begun.elapsed()))
}
