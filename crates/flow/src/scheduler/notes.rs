//! Explains empty results: nothing was read, or no window fits what was read.

use std::ops::Range;

use isochrony_store::Signal;
use isochrony_time::civil;

use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{OperatorType, Report, operators::Rewindow};

/// Why operators got nothing. That a filter or detector found nothing is a result, not a reason.
pub(super) fn notes(graph: &Graph, report: &Report) -> Vec<String> {
    let ends_early = |node: &GraphNode| node.properties.ends_early;
    // Operators that end early may do so before the first window.
    if report.operators.len() != graph.nodes.len() || graph.nodes.iter().any(ends_early) {
        return Vec::new();
    }
    // Items received by each node's consumers; None without a consumer. One pass: plans may be large.
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

fn note(graph: &Graph, report: &Report, at: usize, node: &GraphNode) -> Option<String> {
    let given = report.operators[at].samples;
    // Skipped samples are a result: a filter does not pass their windows.
    let skips = |node: usize| report.operators[node].skipped > 0;
    if skips(at) || graph.nodes[at].inputs.iter().any(|&(from, _)| skips(from)) {
        return None;
    }
    match &node.op {
        Op::Scan {
            recording, range, ..
        } => {
            let (signal, ranges) = recording.0.stored()?;
            let asked = range.as_ref().map(std::slice::from_ref).or(ranges);
            Some(format!(
                "{} read nothing: {}",
                graph.label(at),
                why_nothing_was_read(signal, asked)
            ))
        }
        Op::Apply { params, .. } if node.op.name() == Rewindow::DECLARATION.name && given > 0 => {
            let param = |name: &str| params.get(name).map(ToString::to_string);
            let window = param("window").unwrap_or_default();
            let label = graph.label(at);
            let counted_from_run = params.get("anchor").is_some_and(|anchor| anchor == "run");
            Some(match counted_from_run {
                true => format!(
                    "{label} made no window: none of those that are counted from the start of the gap-free range lies \
                     wholly in what was read; read more, choose a window shorter than {window}, or count windows from \
                     what is read"
                ),
                false => format!(
                    "{label} made no window: no gap-free range of the samples that it was given has {window} of them; \
                     choose a shorter window, or select more"
                ),
            })
        }
        _ => None,
    }
}

fn why_nothing_was_read(signal: &Signal, asked: Option<&[Range<i64>]>) -> String {
    let name = signal.name();
    let (start, end) = (signal.start_index(), signal.end_index());
    if signal.sample_count() == 0 {
        return format!("signal {name:?} has no samples; append or import some first");
    }
    let inside = |range: &Range<i64>| range.start.max(start) < range.end.min(end);
    if asked.is_some_and(|ranges| ranges.iter().any(inside)) {
        return "all of the selection lies in gaps; `segments` of a selection says where it has samples".into();
    }
    let time = |index: i64| {
        signal
            .time_of(index)
            .ok()
            .map(|time| civil::format(time.value))
    };
    let times = match (time(start), time(end - 1)) {
        (Some(first), Some(last)) => format!(", from {first} to {last}"),
        _ => String::new(),
    };
    format!(
        "the selection has none of the samples of {name:?}, which has indices {start} to {}{times}; select some of these",
        end - 1
    )
}
