//! Explains results that are empty because nothing was read, or because no window fits into what was read.

use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{Declared, Report, operators::Rewindow};

/// One text for each reason why operators got nothing. What a filter or a detector did not find is no reason: that is
/// a result. `report` is that of an execution of `graph`.
pub(super) fn notes(graph: &Graph, report: &Report) -> Vec<String> {
    let ends_early = |node: &GraphNode| node.properties.ends_early;
    // Operators that end early may do so before the first window.
    if report.operators.len() != graph.nodes.len() || graph.nodes.iter().any(ends_early) {
        return Vec::new();
    }
    let nodes = graph.nodes.iter().enumerate();
    nodes
        .filter_map(|(at, node)| note(graph, report, at, node))
        .collect()
}

fn note(graph: &Graph, report: &Report, at: usize, node: &GraphNode) -> Option<String> {
    let mut consumers = graph.nodes.iter().zip(&report.operators);
    let mut emitted_to = consumers
        .by_ref()
        .filter(|(consumer, _)| consumer.inputs.iter().any(|&(from, _)| from == at))
        .map(|(_, report)| report.items)
        .peekable();
    emitted_to.peek()?;
    if emitted_to.any(|items| items > 0) {
        return None;
    }
    let given = report.operators[at].samples;
    match &node.op {
        Op::Scan {
            recording, range, ..
        } => {
            let selected = match (range, recording.0.stored()) {
                (Some(range), _) => !range.is_empty(),
                (None, Some((_, Some(ranges)))) => ranges.iter().any(|range| !range.is_empty()),
                _ => false,
            };
            let label = graph.label(at);
            selected.then(|| {
                format!("{label} read nothing: all of the selection lies in gaps or beyond the samples; `segments` of a selection says where it has samples")
            })
        }
        Op::Apply { params, .. } if node.op.name() == Rewindow::DECLARATION.name && given > 0 => {
            let window = params
                .get("window")
                .map(ToString::to_string)
                .unwrap_or_default();
            Some(format!(
                "{} made no window: no gap-free range of the samples that it was given is {window} long; choose a shorter window, or tail=\"keep\" for short ones",
                graph.label(at)
            ))
        }
        _ => None,
    }
}
