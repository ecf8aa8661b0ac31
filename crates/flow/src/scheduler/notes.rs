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
    // Items that consumers of a node were given; None without a consumer. In one pass: plans may be large.
    let mut emitted: Vec<Option<u64>> = vec![None; graph.nodes.len()];
    for (consumer, done) in graph.nodes.iter().zip(&report.operators) {
        for &(from, _) in &consumer.inputs {
            *emitted[from].get_or_insert(0) += done.items;
        }
    }
    let nodes = graph.nodes.iter().enumerate();
    let silent = nodes.filter(|&(at, _)| emitted[at] == Some(0));
    silent
        .filter_map(|(at, node)| note(graph, report, at, node))
        .collect()
}

/// Why a node emitted nothing.
fn note(graph: &Graph, report: &Report, at: usize, node: &GraphNode) -> Option<String> {
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
