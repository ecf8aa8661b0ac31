//! Rewrites of a graph that leave every result as it is, bit for bit.
//!
//! Each rewrite is a function that changes a graph and says what it did; together they run until none finds anything.
//! They can be switched off, and what they did shows in [`Plan::explain`](crate::Plan::explain). All ask that nobody
//! else takes what lies between the operators in question, and that these remember nothing of earlier items.
//!
//! - *One pass a window*: a filter behind a filter becomes one of both conditions, so that what they reduce is reduced
//!   in one pass.
//! - *One expression*: a map behind a map that gives as many values as it is given becomes one, and so do a filter's condition's
//!   values where the filter's windows are only counted. What lies between is never stored.
//! - *Nothing for nobody*: values that are only counted are not computed.
//! - *Read what is wanted*: a range of indices goes up to the scan.
//!
//! Nodes alike are one already when the graph is made, so shared sub-plans are computed once.

//!
//! A [`Rewriter`] finds what can be rewritten from a list of places to look at, and looks again only at the neighbours of
//! what it changed, so that a plan of n operators takes time in proportion to n, and to the logarithm of n. The rewrite that
//! comes first in the list of rewrites is done first, and of several places the one that comes first in the plan.

mod rewriter;

use isochrony_expr::{Expr, Op as ExprOp};
use serde_json::{Value, json};

use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{Contract, Declared, PortType, operators};

use rewriter::{Expression, Rewriter};

/// A rewrite: tried at a node, it says what it did.
type Rewrite = fn(&mut Rewriter<'_>, usize) -> Option<String>;

/// All rewrites, the most important first.
const REWRITES: [Rewrite; 5] = [
    fuse_filters,
    fuse_maps,
    count_through,
    drop_uncounted,
    push_range,
];

/// Applies all rewrites; what they did, in order.
pub(crate) fn optimise(graph: &mut Graph) -> Vec<String> {
    let mut rewriter = Rewriter::new(graph, REWRITES.len());
    let mut done = Vec::new();
    while let Some((rewrite, node)) = rewriter.next() {
        if let Some(what) = REWRITES[rewrite](&mut rewriter, node) {
            done.push(what);
            rewriter.look_around(node);
        }
    }
    rewriter.finish();
    done
}

/// Operations of a condition that may be written anew for a map before it.
const MOST_WRITTEN_ANEW: usize = 500;

fn is<O: Declared>(node: &GraphNode) -> bool {
    node.op.name() == O::DECLARATION.name
}

fn stateless(node: &GraphNode) -> bool {
    node.bound.contract == Contract::Stateless
}

fn param<'a>(node: &'a GraphNode, name: &str) -> Option<&'a Value> {
    match &node.op {
        Op::Apply { params, .. } => params.get(name),
        _ => None,
    }
}

fn fuse_filters(rewriter: &mut Rewriter<'_>, second: usize) -> Option<String> {
    let first = rewriter.only_input(second)?;
    let a = rewriter.expression::<operators::Filter>(first, "predicate")?;
    let b = rewriter.expression::<operators::Filter>(second, "predicate")?;
    let both = Expression {
        expr: &a.expr & &b.expr,
        operations: a.operations + b.operations + 1,
        has_input: a.has_input || b.has_input,
    };
    let what = format!("one pass a window: filter({a}) and filter({b}) become filter({both})");
    rewriter.set(second, "predicate", both);
    rewriter.bypass(first);
    Some(what)
}

/// `outer` of what `inner` gives.
fn composed(outer: &Expression, inner: &Expression) -> Option<Expression> {
    let mut made: Vec<Expr> = Vec::new();
    for node in outer.expr.graph().nodes() {
        let args = node.args().iter().map(|&at| made[at].clone());
        made.push(match node.op() {
            ExprOp::Input(_) => inner.expr.clone(),
            op => Expr::apply(op, args).ok()?,
        });
    }
    Some(Expression {
        expr: made.pop()?,
        operations: outer.operations + inner.operations,
        has_input: outer.has_input && inner.has_input,
    })
}

/// Whether a map gives a value for each that it is given, computed of it: then what follows can be computed of its input.
fn elementwise(graph: &Graph, map: usize, expression: &Expression) -> bool {
    let node = &graph.nodes[map];
    let width = |port: Option<&PortType>| match port {
        Some(PortType::Samples { .. }) => Some(None),
        Some(PortType::Frames { width, .. }) => Some(Some(*width)),
        _ => None,
    };
    let (from, output) = node.inputs[0];
    let given = width(graph.nodes[from].bound.outputs.get(usize::from(output)));
    // A row of one value may be of the window or of its only sample.
    let same = given == width(node.bound.outputs.first()) && given.is_some_and(|w| w != Some(1));
    // Without the input it is a constant, which takes its type from what it meets.
    same && expression.has_input
}

fn fuse_maps(rewriter: &mut Rewriter<'_>, second: usize) -> Option<String> {
    let first = rewriter.only_input(second)?;
    let a = rewriter.expression::<operators::Map>(first, "expression")?;
    let b = rewriter.expression::<operators::Map>(second, "expression")?;
    if !elementwise(rewriter.graph(), first, &a) {
        return None;
    }
    let both = composed(&b, &a)?;
    let what = format!("one expression: map({a}) and map({b}) become map({both})");
    rewriter.set(second, "expression", both);
    rewriter.bypass(first);
    Some(what)
}

/// A filter of mapped values whose windows are only counted sees to the values itself.
fn count_through(rewriter: &mut Rewriter<'_>, second: usize) -> Option<String> {
    let first = rewriter.only_input(second)?;
    let a = rewriter.expression::<operators::Map>(first, "expression")?;
    let b = rewriter.expression::<operators::Filter>(second, "predicate")?;
    let counted = rewriter.only_consumer(second);
    let counted = counted.is_some_and(|at| is::<operators::Count>(&rewriter.graph().nodes[at]));
    // All of the condition is written anew, and that once for each map before it.
    let small = b.operations <= MOST_WRITTEN_ANEW;
    if !counted || !small || !elementwise(rewriter.graph(), first, &a) {
        return None;
    }
    let both = composed(&b, &a)?;
    let what = format!(
        "one expression: map({a}) and filter({b}) become filter({both}), whose windows are only counted"
    );
    rewriter.set(second, "predicate", both);
    // The windows that pass are now the samples' own.
    let graph = rewriter.graph_mut();
    let (from, output) = graph.nodes[first].inputs[0];
    graph.nodes[second].bound.outputs = vec![graph.nodes[from].bound.outputs[usize::from(output)]];
    rewriter.bypass(first);
    Some(what)
}

fn drop_uncounted(rewriter: &mut Rewriter<'_>, second: usize) -> Option<String> {
    let first = rewriter.only_input(second)?;
    let node = &rewriter.graph().nodes[first];
    let values =
        is::<operators::Map>(node) || is::<operators::Fft>(node) || is::<operators::Power>(node);
    // Several inputs may lack windows that the first has.
    let alone = values && stateless(node) && node.inputs.len() == 1;
    if !alone || !is::<operators::Count>(&rewriter.graph().nodes[second]) {
        return None;
    }
    let name = node.op.name();
    rewriter.bypass(first);
    Some(format!(
        "nothing for nobody: {name} is not computed, since its rows are only counted"
    ))
}

/// Whether a range behind a node may as well be in front of it.
fn lets_ranges_through(node: &GraphNode) -> bool {
    let own = |name: &str, value: &str| param(node, name) == Some(&json!(value));
    if is::<operators::Rewindow>(node) {
        // Windows of the stretch's own grid that lie in the range are those of the range.
        return own("anchor", "run") && own("tail", "drop");
    }
    let each = is::<operators::Map>(node)
        || is::<operators::Filter>(node)
        || is::<operators::Fft>(node)
        || is::<operators::Power>(node);
    each && stateless(node)
}

fn push_range(rewriter: &mut Rewriter<'_>, at: usize) -> Option<String> {
    let node = &rewriter.graph().nodes[at];
    if !is::<operators::Between>(node) {
        return None;
    }
    let index = |name| param(node, name)?.as_i64();
    let wanted = index("start")?..index("end")?;
    let mut scan = rewriter.only_input(at)?;
    while lets_ranges_through(&rewriter.graph().nodes[scan]) {
        scan = rewriter.only_input(scan)?;
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
        "read what is wanted: the scan reads indices {start} to {end}"
    ))
}
