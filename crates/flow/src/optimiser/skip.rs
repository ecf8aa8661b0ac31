//! Makes scans skip ranges in which, by stored extremes, no window passes the filter.
//!
//! Runs after the rewrites, except where a [`Control`](crate::Control) may change the predicate.

use isochrony_expr::Expr;
use serde_json::json;

use super::rewriter::{is_operator, is_stateless, param};
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::sources::stored::skip::WindowFilter;
use crate::{PortType, SharedRecording, StoredRecording, operators};

/// With more operators between scan and filter, `explain` gives no reason.
const MAX_BETWEEN: usize = 8;

pub(crate) enum SkipOutcome {
    Done(String),
    NotDone(String),
}

/// Applies to filters of windows directly after a scan's rewindow; gives a reason for others.
pub(crate) fn skip_unmatched(graph: &mut Graph) -> Vec<SkipOutcome> {
    let mut consumers = vec![0usize; graph.nodes.len()];
    let edges = graph.nodes.iter().flat_map(|node| &node.inputs);
    for &(from, _) in edges.chain(&graph.outputs) {
        consumers[from] += 1;
    }
    let mut all = Vec::new();
    for at in 0..graph.nodes.len() {
        let Some(found) = candidate(graph, at) else {
            continue;
        };
        let shown = format!("filter({})", found.predicate);
        let (scan, signal) = (found.scan, found.stored.signal_name().to_owned());
        all.push(match found.skipping(graph, &consumers) {
            Ok(recording) => {
                if let Op::Scan { recording: own, .. } = &mut graph.nodes[scan].op {
                    *own = recording;
                }
                SkipOutcome::Done(format!(
                    "stored extremes: the scan of {signal} skips ranges without a window that passes {shown}"
                ))
            }
            Err(why) => SkipOutcome::NotDone(format!("all of {signal} is read for {shown}: {why}")),
        });
    }
    all
}

struct SkippableFilter {
    predicate: Expr,
    filter: WindowFilter,
    /// From the filter's input back to the scan's consumer.
    between: Vec<usize>,
    scan: usize,
    stored: StoredRecording,
}

/// None where no user expects skipping.
fn candidate(graph: &Graph, at: usize) -> Option<SkippableFilter> {
    let node = &graph.nodes[at];
    if !is_operator::<operators::Filter>(node) || !is_stateless(node) {
        return None;
    }
    let mut between = Vec::new();
    let (mut input, mut windows) = (only_input(graph, at)?, None);
    let recording = loop {
        if between.len() > MAX_BETWEEN {
            return None;
        }
        let node = &graph.nodes[input];
        if let Op::Scan { recording, .. } = &node.op {
            break recording;
        }
        if is_operator::<operators::Rewindow>(node) {
            // Unreachable: rewindow takes samples, so there is no second one.
            if windows.is_some() {
                return None;
            }
            let window = param(node, "window")?.as_u64()?;
            let hop = param(node, "hop").and_then(serde_json::Value::as_u64);
            let from_anchor = param(node, "anchor") == Some(&json!("run"));
            windows = Some((window, hop.unwrap_or(window), from_anchor));
        }
        between.push(input);
        input = only_input(graph, input)?;
    };
    let stored = recording.0.as_stored()?.clone();
    let predicate: Expr = serde_json::from_value(param(node, "predicate")?.clone()).ok()?;
    let PortType::Samples { dtype, stream } = recording.0.port() else {
        return None;
    };
    let calibration = &stream.get().calibration;
    let filter = WindowFilter::new(windows?, &predicate, dtype, calibration)?;
    Some(SkippableFilter {
        predicate,
        filter,
        between,
        scan: input,
        stored,
    })
}

fn only_input(graph: &Graph, node: usize) -> Option<usize> {
    match graph.nodes[node].inputs[..] {
        [(input, 0)] => Some(input),
        _ => None,
    }
}

impl SkippableFilter {
    fn skipping(self, graph: &Graph, consumers: &[usize]) -> Result<SharedRecording, String> {
        let mut all = self.between.iter().chain([&self.scan]);
        if let Some(&at) = all.find(|at| consumers[**at] > 1) {
            let label = graph.label(at);
            return Err(format!("another operator, too, needs what {label} gives"));
        }
        let is_rewindow = |&at: &usize| is_operator::<operators::Rewindow>(&graph.nodes[at]);
        let rewindow = self.between.iter().position(is_rewindow).unwrap_or(0);
        if let Some(place) = self.between.iter().position(|at| !is_rewindow(at)) {
            return Err(self.hindrance(graph, self.between[place], place > rewindow));
        }
        let rewindow = &graph.nodes[self.between[rewindow]];
        if param(rewindow, "tail") != Some(&json!("drop")) {
            return Err("short last windows are kept, as tail=\"keep\" of rewindow says".into());
        }
        self.stored.skipping(self.filter)
    }

    /// Why an operator prevents skipping. `of_samples`: it precedes the rewindow.
    fn hindrance(&self, graph: &Graph, other: usize, of_samples: bool) -> String {
        let node = &graph.nodes[other];
        let name = node.op.name();
        let (items, remedy) = match of_samples {
            true => ("samples", "rewindow and filter"),
            false => ("windows", "filter"),
        };
        if is_stateless(node) {
            return format!(
                "{name} lies between, and extremes are those of the stored samples; {remedy} before {name} if that is meant"
            );
        }
        let label = graph.label(other);
        let remembers =
            is_operator::<operators::Filter>(node) || is_operator::<operators::Map>(node);
        let why = match remembers {
            true => format!("remembers earlier {items}, so it needs all of them"),
            false => format!("needs all {items}, in order"),
        };
        let predicate = &self.predicate;
        format!(
            "{label} lies between and {why}; put {remedy}({predicate}) before it to give it only what passes"
        )
    }
}

#[cfg(test)]
mod tests {
    use isochrony_segment::DType;
    use isochrony_store::{CreateOptions, Mode, Store};
    use isochrony_time::Rate;

    use super::*;
    use crate::Plan;
    use crate::plan::graph::GraphNode;

    #[test]
    fn windows_of_windows_are_not_taken_for_those_of_samples() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        let signal = store.create("stn", &options).unwrap().signal().unwrap();
        let windows = Plan::scan(StoredRecording::new(store.path(), signal)).rewindow(40);
        let windows = windows.unwrap();
        let plan = windows.filter(&Expr::input().max().gt(3)).unwrap();
        let twice = windows.rewindow(20).unwrap_err();
        assert_eq!(twice.code(), "input_type");
        let mut graph = Graph::new(&plan);
        assert!(candidate(&graph, 2).is_some());
        let second = GraphNode {
            inputs: vec![(1, 0)],
            ..graph.nodes[1].clone()
        };
        graph.nodes.push(second);
        graph.nodes[2].inputs = vec![(3, 0)];
        assert!(candidate(&graph, 2).is_none());
    }
}
