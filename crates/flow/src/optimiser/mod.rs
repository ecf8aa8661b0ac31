//! Rewrites a graph with bit-identical results.
//!
//! Rewrites run until none applies; [`Plan::explain`](crate::Plan::explain) lists them. The operators between the
//! rewritten ones must be stateless and without other consumers.
//!
//! - *Filter fusion*: consecutive filters become one, whose reductions share a pass.
//! - *Map fusion*: an element-wise map merges into the next map, or into the condition of a filter whose windows are
//!   only counted.
//! - *Dead-operator elimination*: drops values whose rows are only counted.
//! - *Range pushdown*: moves an index range into the scan.
//! - *Stored views*: answers minimum, maximum and count of all samples from a stored signal's views.
//!
//! Last, [`skip_unmatched`] makes scans skip what later filters cannot pass. Equal sub-plans are merged when the graph
//! is built.
//!
//! A [`Rewriter`] revisits only the neighbours of a change, so n operators take O(n log n). The first rewrite that
//! applies is done first, at its earliest node.

mod extremes;
mod rewriter;
mod skip;

use isochrony_expr::{Expr, Op as ExprOp};
use serde_json::json;

use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{PortType, operators};

use extremes::read_extremes;
use rewriter::{Expression, Rewriter, is_operator, is_stateless, param};
pub(crate) use skip::{SkipOutcome, skip_unmatched};

type Rewrite = fn(&mut Rewriter<'_>, usize) -> Option<String>;

const REWRITES: [Rewrite; 6] = [
    fuse_filters,
    fuse_maps,
    fuse_map_into_filter,
    drop_unused_values,
    push_range,
    read_extremes,
];

pub(crate) fn optimise(graph: &mut Graph) -> Vec<String> {
    let mut rewriter = Rewriter::new(graph, REWRITES.len());
    let mut done = Vec::new();
    while let Some((rewrite, node)) = rewriter.next() {
        if let Some(what) = REWRITES[rewrite](&mut rewriter, node) {
            done.push(what);
            rewriter.requeue_neighbours(node);
        }
    }
    rewriter.finish();
    done
}

/// Each fused map copies the condition once, so larger ones are not fused.
const MAX_DUPLICATED_OPERATIONS: usize = 500;

fn fuse_filters(rewriter: &mut Rewriter<'_>, second: usize) -> Option<String> {
    let first = rewriter.only_input(second)?;
    let a = rewriter.expression::<operators::Filter>(first, "predicate")?;
    let b = rewriter.expression::<operators::Filter>(second, "predicate")?;
    let both = Expression {
        expr: &a.expr & &b.expr,
        operations: a.operations + b.operations + 1,
        has_input: a.has_input || b.has_input,
    };
    let what = format!(
        "filter fusion: filter({a}) and filter({b}) become filter({both}), one pass per window"
    );
    rewriter.set(second, "predicate", both);
    rewriter.bypass(first);
    Some(what)
}

fn compose(outer: &Expression, inner: &Expression) -> Option<Expression> {
    let mut composed: Vec<Expr> = Vec::new();
    for node in outer.expr.graph().nodes() {
        let args = node.args().iter().map(|&at| composed[at].clone());
        composed.push(match node.op() {
            ExprOp::Input(_) => inner.expr.clone(),
            op => Expr::apply(op, args).ok()?,
        });
    }
    Some(Expression {
        expr: composed.pop()?,
        operations: outer.operations + inner.operations,
        has_input: outer.has_input && inner.has_input,
    })
}

/// Whether the map gives one value per input value.
fn is_elementwise(graph: &Graph, map: usize, expression: &Expression) -> bool {
    let node = &graph.nodes[map];
    let width = |port: Option<&PortType>| match port {
        Some(PortType::Samples { .. }) => Some(None),
        Some(PortType::Frames { width, .. }) => Some(Some(*width)),
        _ => None,
    };
    let (from, output) = node.inputs[0];
    let given = width(
        graph.nodes[from]
            .properties
            .outputs
            .get(usize::from(output)),
    );
    // A row of one value may stand for the window or for its only sample.
    let same =
        given == width(node.properties.outputs.first()) && given.is_some_and(|w| w != Some(1));
    // A constant's type depends on its context.
    same && expression.has_input
}

fn fuse_maps(rewriter: &mut Rewriter<'_>, second: usize) -> Option<String> {
    let first = rewriter.only_input(second)?;
    let a = rewriter.expression::<operators::Map>(first, "expression")?;
    let b = rewriter.expression::<operators::Map>(second, "expression")?;
    if !is_elementwise(rewriter.graph(), first, &a) {
        return None;
    }
    let both = compose(&b, &a)?;
    let what = format!("map fusion: map({a}) and map({b}) become map({both})");
    rewriter.set(second, "expression", both);
    rewriter.bypass(first);
    Some(what)
}

/// Only if passing windows are merely counted.
fn fuse_map_into_filter(rewriter: &mut Rewriter<'_>, second: usize) -> Option<String> {
    let first = rewriter.only_input(second)?;
    let a = rewriter.expression::<operators::Map>(first, "expression")?;
    let b = rewriter.expression::<operators::Filter>(second, "predicate")?;
    let counted = rewriter.only_consumer(second);
    let counted =
        counted.is_some_and(|at| is_operator::<operators::Count>(&rewriter.graph().nodes[at]));
    let small = b.operations <= MAX_DUPLICATED_OPERATIONS;
    if !counted || !small || !is_elementwise(rewriter.graph(), first, &a) {
        return None;
    }
    let both = compose(&b, &a)?;
    let what = format!(
        "map fusion: map({a}) and filter({b}) become filter({both}), whose windows are only counted"
    );
    rewriter.set(second, "predicate", both);
    // The filter now forwards the map's input.
    let graph = rewriter.graph_mut();
    let (from, output) = graph.nodes[first].inputs[0];
    graph.nodes[second].properties.outputs =
        vec![graph.nodes[from].properties.outputs[usize::from(output)]];
    rewriter.bypass(first);
    Some(what)
}

fn drop_unused_values(rewriter: &mut Rewriter<'_>, second: usize) -> Option<String> {
    let first = rewriter.only_input(second)?;
    let node = &rewriter.graph().nodes[first];
    let values = is_operator::<operators::Map>(node)
        || is_operator::<operators::Fft>(node)
        || is_operator::<operators::Power>(node);
    // With several inputs, windows of the first may be dropped.
    let alone = values && is_stateless(node) && node.inputs.len() == 1;
    if !alone || !is_operator::<operators::Count>(&rewriter.graph().nodes[second]) {
        return None;
    }
    let name = node.op.name();
    rewriter.bypass(first);
    Some(format!(
        "dead-operator elimination: dropped {name} (only the row count is used)"
    ))
}

/// Whether a range filter after the node can move before it, if windows are counted from the run.
fn commutes_with_range(node: &GraphNode) -> bool {
    if is_operator::<operators::Rewindow>(node) {
        return param(node, "tail") == Some(&json!("drop"));
    }
    let each = is_operator::<operators::Map>(node)
        || is_operator::<operators::Filter>(node)
        || is_operator::<operators::Fft>(node)
        || is_operator::<operators::Power>(node);
    each && is_stateless(node)
}

fn reads_all(op: &Op) -> bool {
    match op {
        Op::Scan {
            recording, range, ..
        } => {
            let stored = recording.0.stored();
            range.is_none() && stored.is_none_or(|(_, ranges)| ranges.is_none())
        }
        _ => false,
    }
}

fn push_range(rewriter: &mut Rewriter<'_>, at: usize) -> Option<String> {
    let node = &rewriter.graph().nodes[at];
    if !is_operator::<operators::Between>(node) {
        return None;
    }
    let index = |name| param(node, name)?.as_i64();
    let wanted = index("start")?..index("end")?;
    let mut scan = rewriter.only_input(at)?;
    let mut counted_from_scan = Vec::new();
    while commutes_with_range(&rewriter.graph().nodes[scan]) {
        if param(&rewriter.graph().nodes[scan], "anchor") == Some(&json!("range")) {
            counted_from_scan.push(scan);
        }
        scan = rewriter.only_input(scan)?;
    }
    // A host executes its whole plan.
    let recording = rewriter.graph().nodes[scan].op.recording();
    if recording.is_some_and(|recording| recording.0.host_window().is_some()) {
        return None;
    }
    // Windows keep their places only if the scan begins with each run.
    if !counted_from_scan.is_empty() && !reads_all(&rewriter.graph().nodes[scan].op) {
        return None;
    }
    for window in counted_from_scan {
        if let Op::Apply { params, .. } = &mut rewriter.graph_mut().nodes[window].op {
            params.insert("anchor".into(), json!("run"));
        }
    }
    let Op::Scan { range, .. } = &mut rewriter.graph_mut().nodes[scan].op else {
        return None;
    };
    let (start, end) = match range {
        Some(range) => (range.start.max(wanted.start), range.end.min(wanted.end)),
        None => (wanted.start, wanted.end),
    };
    *range = Some(start..end.max(start));
    rewriter.bypass(at);
    Some(format!(
        "range pushdown: the scan reads indices {start} to {end}"
    ))
}
