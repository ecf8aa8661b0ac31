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

use std::collections::HashMap;

use isochrony_expr::{Expr, Op as ExprOp};
use serde_json::{Value, json};

use crate::graph::{Edge, Graph, GraphNode};
use crate::plan::Op;
use crate::{Contract, Declared, PortType, ops};

/// Applies all rewrites; what they did, in order.
pub(crate) fn optimise(graph: &mut Graph) -> Vec<String> {
    let rewrites = [
        fuse_filters,
        fuse_maps,
        count_through,
        drop_uncounted,
        push_range,
    ];
    let mut done = Vec::new();
    while let Some(what) = rewrites.iter().find_map(|rewrite| rewrite(graph)) {
        done.push(what);
    }
    done
}

/// A node, and the one that alone takes what it gives.
type Pair = (usize, usize);

/// Neighbours of which the first has the second as its only consumer, and both remember nothing.
fn pairs(graph: &Graph) -> Vec<Pair> {
    let mut consumers: HashMap<Edge, usize> = HashMap::new();
    for node in &graph.nodes {
        for &edge in &node.inputs {
            *consumers.entry(edge).or_default() += 1;
        }
    }
    let pair = |(second, node): (usize, &GraphNode)| {
        let &[(first, 0)] = node.inputs.as_slice() else {
            return None;
        };
        let alone = consumers.get(&(first, 0)) == Some(&1) && !graph.outputs.contains(&(first, 0));
        alone.then_some((first, second))
    };
    graph.nodes.iter().enumerate().filter_map(pair).collect()
}

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

/// The expression that a node that remembers nothing computes.
fn expression<O: Declared>(node: &GraphNode, name: &str) -> Option<Expr> {
    let saved = param(node, name)?;
    (is::<O>(node) && stateless(node) && node.inputs.len() == 1)
        .then(|| serde_json::from_value(saved.clone()).ok())
        .flatten()
}

/// Takes a node out; its consumers take from its input instead.
fn bypass(graph: &mut Graph, node: usize) {
    let input = graph.nodes[node].inputs[0];
    let edges = graph.nodes.iter_mut().flat_map(|node| &mut node.inputs);
    edges
        .chain(&mut graph.outputs)
        .filter(|edge| **edge == (node, 0))
        .for_each(|edge| *edge = input);
    graph.remove(node);
}

fn set(node: &mut GraphNode, name: &str, value: Value) {
    if let Op::Apply { params, .. } = &mut node.op {
        params.insert(name.into(), value);
    }
}

fn fuse_filters(graph: &mut Graph) -> Option<String> {
    pairs(graph).into_iter().find_map(|(first, second)| {
        let a = expression::<ops::Filter>(&graph.nodes[first], "predicate")?;
        let b = expression::<ops::Filter>(&graph.nodes[second], "predicate")?;
        let both = &a & &b;
        set(&mut graph.nodes[second], "predicate", json!(both));
        bypass(graph, first);
        Some(format!(
            "one pass a window: filter({a}) and filter({b}) become filter({both})"
        ))
    })
}

/// `outer` of what `inner` gives.
fn composed(outer: &Expr, inner: &Expr) -> Option<Expr> {
    let mut made: Vec<Expr> = Vec::new();
    for node in outer.graph().nodes() {
        let args = node.args().iter().map(|&at| made[at].clone());
        made.push(match node.op() {
            ExprOp::Input(_) => inner.clone(),
            op => Expr::apply(op, args).ok()?,
        });
    }
    made.pop()
}

/// Whether a map gives a value for each that it is given, computed of it: then what follows can be computed of its input.
fn elementwise(graph: &Graph, map: usize, expr: &Expr) -> bool {
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
    same && expr
        .graph()
        .nodes()
        .iter()
        .any(|n| n.op() == ExprOp::Input(0))
}

fn fuse_maps(graph: &mut Graph) -> Option<String> {
    pairs(graph).into_iter().find_map(|(first, second)| {
        let a = expression::<ops::Map>(&graph.nodes[first], "expression")?;
        let b = expression::<ops::Map>(&graph.nodes[second], "expression")?;
        if !elementwise(graph, first, &a) {
            return None;
        }
        let both = composed(&b, &a)?;
        set(&mut graph.nodes[second], "expression", json!(both));
        bypass(graph, first);
        Some(format!(
            "one expression: map({a}) and map({b}) become map({both})"
        ))
    })
}

/// A filter of mapped values whose windows are only counted sees to the values itself.
fn count_through(graph: &mut Graph) -> Option<String> {
    let pairs = pairs(graph);
    pairs.iter().find_map(|&(first, second)| {
        let a = expression::<ops::Map>(&graph.nodes[first], "expression")?;
        let b = expression::<ops::Filter>(&graph.nodes[second], "predicate")?;
        let counted = pairs.iter().any(|&(from, to)| from == second && is::<ops::Count>(&graph.nodes[to]));
        if !counted || !elementwise(graph, first, &a) {
            return None;
        }
        let both = composed(&b, &a)?;
        set(&mut graph.nodes[second], "predicate", json!(both));
        // The windows that pass are now the samples' own.
        let (from, output) = graph.nodes[first].inputs[0];
        graph.nodes[second].bound.outputs = vec![graph.nodes[from].bound.outputs[usize::from(output)]];
        bypass(graph, first);
        Some(format!("one expression: map({a}) and filter({b}) become filter({both}), whose windows are only counted"))
    })
}

fn drop_uncounted(graph: &mut Graph) -> Option<String> {
    pairs(graph).into_iter().find_map(|(first, second)| {
        let node = &graph.nodes[first];
        let values = is::<ops::Map>(node) || is::<ops::Fft>(node) || is::<ops::Power>(node);
        // Several inputs may lack windows that the first has.
        let alone = values && stateless(node) && node.inputs.len() == 1;
        if !alone || !is::<ops::Count>(&graph.nodes[second]) {
            return None;
        }
        let name = node.op.name();
        bypass(graph, first);
        Some(format!(
            "nothing for nobody: {name} is not computed, since its rows are only counted"
        ))
    })
}

/// Whether a range behind a node may as well be in front of it.
fn lets_ranges_through(node: &GraphNode) -> bool {
    let own = |name: &str, value: &str| param(node, name) == Some(&json!(value));
    if is::<ops::Rewindow>(node) {
        // Windows of the stretch's own grid that lie in the range are those of the range.
        return own("anchor", "run") && own("tail", "drop");
    }
    let each = is::<ops::Map>(node)
        || is::<ops::Filter>(node)
        || is::<ops::Fft>(node)
        || is::<ops::Power>(node);
    each && stateless(node)
}

fn push_range(graph: &mut Graph) -> Option<String> {
    let before: HashMap<usize, usize> = pairs(graph).into_iter().map(|(a, b)| (b, a)).collect();
    (0..graph.nodes.len()).find_map(|at| {
        let index = |name| param(&graph.nodes[at], name)?.as_i64();
        let wanted = is::<ops::Between>(&graph.nodes[at])
            .then(|| Some(index("start")?..index("end")?))??;
        let mut scan = *before.get(&at)?;
        while lets_ranges_through(&graph.nodes[scan]) {
            scan = *before.get(&scan)?;
        }
        let Op::Scan { range, .. } = &mut graph.nodes[scan].op else {
            return None;
        };
        let (start, end) = match range {
            Some(range) => (range.start.max(wanted.start), range.end.min(wanted.end)),
            None => (wanted.start, wanted.end),
        };
        *range = Some(start..end.max(start));
        bypass(graph, at);
        Some(format!(
            "read what is wanted: the scan reads indices {start} to {end}"
        ))
    })
}
