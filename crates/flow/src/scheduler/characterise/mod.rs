//! [`Plan::characterise`]: measures each operator's service rate, between a source that always has items and a consumer
//! that takes everything at once.
//!
//! Its items are captured while the first samples run through the plan before it, then replayed to it alone; the cost
//! of replaying without an operator is subtracted. Operators are measured one by one, so memory holds the input of one.

mod captured;
pub(super) mod replay;

use std::time::{Duration, Instant};

use isochrony_store::machine::Quartiles;

use super::operator_key::key;
use super::run::prepare;
use super::stages::cpu_time;
use crate::engine::{PlanExecutor, RunOptions};
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::{Plan, PlanError, RunError};

use replay::{capture, replay, upstream};

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
    let captured = capture(graph, &edges, options.samples);
    execute(&captured.graph, run)?;
    let (inputs, source_samples) = captured.take();
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

/// CPU time without setup: other programs do not count.
fn execute(graph: &Graph, run: &RunOptions<'_>) -> Result<Duration, RunError> {
    let mut executor = PlanExecutor::new(graph, run)?;
    let (begun, before) = (Instant::now(), cpu_time());
    executor.run(run)?;
    let used = cpu_time().zip(before).map(|(now, before)| now - before);
    Ok(used.unwrap_or_else(|| begun.elapsed()))
}
