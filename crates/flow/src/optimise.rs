//! Rewrites of a graph that leave every result as it is.
//!
//! Each rewrite is a function from graph to graph that says what it did; together they run until none finds anything.
//! They can be switched off, and what they did shows in [`Plan::explain`](crate::Plan::explain).
//!
//! - *One pass a window*: a filter behind a filter, where nobody else takes what lies between and neither remembers
//!   earlier windows, becomes one filter of both conditions, so that what they reduce is reduced in one pass.

use std::collections::HashMap;

use isochrony_expr::Expr;
use serde_json::json;

use crate::graph::{Edge, Graph, GraphNode};
use crate::plan::Op;
use crate::{Contract, Declared, ops};

/// Applies all rewrites; what they did, in order.
pub(crate) fn optimise(graph: &mut Graph) -> Vec<String> {
    let mut done = Vec::new();
    while let Some(what) = fuse_filters(graph) {
        done.push(what);
    }
    done
}

/// Nodes that take from each output.
fn consumers(graph: &Graph) -> HashMap<Edge, Vec<usize>> {
    let mut consumers: HashMap<Edge, Vec<usize>> = HashMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        for &edge in &node.inputs {
            consumers.entry(edge).or_default().push(at);
        }
    }
    consumers
}

/// The condition of a filter that remembers nothing.
fn condition(node: &GraphNode) -> Option<Expr> {
    let Op::Apply {
        declaration,
        params,
    } = &node.op
    else {
        return None;
    };
    let filter = declaration.name == ops::Filter::DECLARATION.name
        && node.bound.contract == Contract::Stateless;
    filter
        .then(|| serde_json::from_value(params.get("predicate")?.clone()).ok())
        .flatten()
}

fn fuse_filters(graph: &mut Graph) -> Option<String> {
    let consumers = consumers(graph);
    for second in 0..graph.nodes.len() {
        let Some(&(first, 0)) = graph.nodes[second].inputs.first() else {
            continue;
        };
        let alone = consumers.get(&(first, 0)).is_some_and(|all| all.len() == 1)
            && !graph.outputs.contains(&(first, 0));
        let (true, Some(a), Some(b)) = (
            alone,
            condition(&graph.nodes[first]),
            condition(&graph.nodes[second]),
        ) else {
            continue;
        };
        let both = &a & &b;
        let what = format!("one pass a window: filter({a}) and filter({b}) become filter({both})");
        let input = graph.nodes[first].inputs.clone();
        let node = &mut graph.nodes[second];
        node.inputs = input;
        if let Op::Apply { params, .. } = &mut node.op {
            params.insert("predicate".into(), json!(both));
        }
        graph.remove(first);
        return Some(what);
    }
    None
}
