//! Whether a plan whose workers nobody asked for gets one or several, and how it is cut then.
//!
//! Several must change nothing that a user could notice: bits, the order of calls of user code, what is read of a
//! source that cannot be read again. Nor may a short or light plan get slower: a stored one has a least length, and of
//! others the caller's thread executes all stages until it is busy (`stages::run`).

use super::output_estimate::output_estimates;
use super::scan_input::scan_error;
use super::worker_gain::{MIN_SAMPLES, too_short_because};
use crate::engine::tuning::Tuning;
use crate::engine::{PlanCuts, RunOptions};
use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{PortType, Resource, RunError};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WorkerChoice {
    /// With the reason.
    One(String),
    Several(PlanCuts),
}

use WorkerChoice::{One, Several};

/// As [`choose`], if the options leave the choice to the plan.
pub(crate) fn choose_if_auto(
    graph: &Graph,
    options: &RunOptions<'_>,
) -> Result<Option<WorkerChoice>, RunError> {
    let is_auto = options.auto_workers && options.workers > 1 && options.cluster.is_none();
    is_auto.then(|| choose(graph, options)).transpose()
}

pub(crate) fn choose(graph: &Graph, options: &RunOptions<'_>) -> Result<WorkerChoice, RunError> {
    let ends_early = graph.nodes.iter().any(|node| node.properties.ends_early);
    let function = (graph.nodes.iter()).position(calls_python_as_stated);
    // Measured: the plan takes long enough.
    let has_placed = graph.nodes.iter().any(GraphNode::is_placed);
    let is_tuned = options.tuning.is_some_and(Tuning::chooses_workers);
    let (mut samples, mut reads_feed) = (0u64, false);
    for (at, node) in graph.nodes.iter().enumerate() {
        let Op::Scan {
            recording, range, ..
        } = &node.op
        else {
            continue;
        };
        let snapshot = recording.0.snapshot(range.clone());
        match snapshot.map_err(|error| scan_error(at, error))? {
            Some(snapshot) => samples = samples.saturating_add(snapshot.total()),
            // As `SubgraphBuilder::grow`: of stored recordings, only the pyramid cannot be split.
            None if recording.0.stored().is_some() => {
                return Ok(One("its results are read from the stored pyramid".into()));
            }
            None => reads_feed = true,
        }
    }
    if ends_early && reads_feed {
        return Ok(One(
            "something may end early, and what others read ahead of a live or generated source would be lost".into(),
        ));
    }
    if let Some(function) = function
        && let Some(why) = calls_differ(graph, function, options)
    {
        return Ok(One(why));
    }
    let (is_usual, too_short) = match (reads_feed, samples_up_to_limits(graph)) {
        (true, _) => (is_tuned && function.is_none(), None),
        (false, Some(limit)) if limit < samples.min(MIN_SAMPLES) => {
            (false, Some(format!("it reads only {limit} samples")))
        }
        (false, _) => (
            function.is_none() && !ends_early,
            too_short_because(graph, samples, options.workers),
        ),
    };
    if let Some(why) = too_short.filter(|_| !has_placed) {
        return Ok(One(why));
    }
    if !is_usual && options.control.is_some() {
        return Ok(One(
            "a Control may change how much memory its operators need, which several threads do not allow".into(),
        ));
    }
    Ok(Several(match function {
        _ if is_usual => PlanCuts::Any,
        None => PlanCuts::Stages,
        Some(_) => PlanCuts::WholeItems,
    }))
}

/// With blocks whose order and lengths the run may not choose.
fn calls_python_as_stated(node: &GraphNode) -> bool {
    node.calls_python() && !node.is_placed()
}

/// Why functions would notice several threads. Otherwise each is called with the items of one thread, in its order.
fn calls_differ(graph: &Graph, function: usize, options: &RunOptions<'_>) -> Option<String> {
    let name = graph.nodes[function].op.name();
    let mut sources = graph.nodes.iter().filter(|node| node.inputs.is_empty());
    if sources.any(|source| source.properties.needs == Resource::Interpreter) {
        return Some(format!(
            "{name} calls Python, and so does a source: their calls would no longer alternate"
        ));
    }
    if options.allows_settling() || !is_chain_before_functions(graph) {
        return Some(format!(
            "{name} calls Python, and could be given blocks of other lengths"
        ));
    }
    None
}

/// Where streams meet, and where rows are completed by progress, the lengths of items depend on how far sources are read
/// at a time.
fn is_chain_before_functions(graph: &Graph) -> bool {
    let has_parts =
        |port: &PortType| matches!(port, PortType::Samples { .. } | PortType::Frames { .. });
    let functions = graph.nodes.iter();
    let mut functions = functions.filter(|node| calls_python_as_stated(node));
    functions.all(|function| {
        let mut inputs = &function.inputs[..];
        while let [(from, _)] = *inputs {
            let before = &graph.nodes[from];
            if !before.properties.outputs.iter().all(has_parts) {
                return false;
            }
            inputs = &before.inputs;
        }
        inputs.is_empty()
    })
}

/// Samples that each source gives until a limit is reached; None if that depends on data, or something has no
/// limit.
fn samples_up_to_limits(graph: &Graph) -> Option<u64> {
    let nodes = graph.nodes.iter();
    let nodes = nodes.map(|node| (&node.inputs[..], &node.properties));
    let estimates = output_estimates(nodes);
    let limit = |at: usize| {
        let node = &graph.nodes[at];
        let Op::Apply { params, .. } = &node.op else {
            return None;
        };
        let items = params.get("count")?.as_u64()? as f64;
        let samples =
            estimates[node.inputs.first()?.0].samples_per_item(node.properties.outputs.first()?)?;
        Some((items * samples) as u64)
    };
    // All that is read must go through a limit: of a chain that is so.
    let is_chain = graph
        .nodes
        .iter()
        .enumerate()
        .all(|(at, node)| match at.checked_sub(1) {
            None => node.inputs.is_empty(),
            Some(before) => node.inputs == [(before, 0)],
        });
    let limits = (0..graph.nodes.len()).filter(|&at| graph.nodes[at].properties.ends_early);
    limits.filter_map(limit).min().filter(|_| is_chain)
}
