//! A graph being rewritten, with a work list of nodes to try.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;

use isochrony_expr::{Expr, Op as ExprOp};
use serde_json::{Value, json};

use crate::plan::Op;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::{Contract, OperatorType};

/// Longer expressions are shown by their number of operations.
const MAX_SHOWN_OPERATIONS: usize = 64;

pub(super) struct Expression {
    pub(super) expr: Expr,
    /// Counts a shared part at each use.
    pub(super) operations: usize,
    pub(super) has_input: bool,
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operations {
            ..=MAX_SHOWN_OPERATIONS => self.expr.fmt(f),
            many => write!(f, "{many} operations"),
        }
    }
}

type Consumer = (usize, usize);

pub(super) struct Rewriter<'a> {
    graph: &'a mut Graph,
    consumers: HashMap<Edge, BTreeSet<Consumer>>,
    outputs: BTreeSet<Edge>,
    removed: Vec<bool>,
    /// By node; with the parameter to write back after a change.
    expressions: HashMap<usize, (Rc<Expression>, Option<&'static str>)>,
    pending: BTreeSet<(usize, usize)>,
    rewrites: usize,
}

pub(super) fn is_operator<O: OperatorType>(node: &GraphNode) -> bool {
    node.op.name() == O::DECLARATION.name
}

pub(super) fn is_stateless(node: &GraphNode) -> bool {
    node.properties.contract == Contract::Stateless
}

pub(super) fn param<'a>(node: &'a GraphNode, name: &str) -> Option<&'a Value> {
    match &node.op {
        Op::Apply { params, .. } => params.get(name),
        _ => None,
    }
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(graph: &'a mut Graph, rewrites: usize) -> Self {
        let mut consumers: HashMap<Edge, BTreeSet<Consumer>> = HashMap::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            for (port, &edge) in node.inputs.iter().enumerate() {
                consumers.entry(edge).or_default().insert((at, port));
            }
        }
        let nodes = graph.nodes.len();
        let all = (0..rewrites).flat_map(|rewrite| (0..nodes).map(move |node| (rewrite, node)));
        Self {
            consumers,
            outputs: graph.outputs.iter().copied().collect(),
            removed: vec![false; nodes],
            expressions: HashMap::new(),
            pending: all.collect(),
            rewrites,
            graph,
        }
    }

    pub(super) fn graph(&self) -> &Graph {
        self.graph
    }

    pub(super) fn graph_mut(&mut self) -> &mut Graph {
        self.graph
    }

    pub(super) fn next(&mut self) -> Option<(usize, usize)> {
        while let Some((rewrite, node)) = self.pending.pop_first() {
            if !self.removed[node] {
                return Some((rewrite, node));
            }
        }
        None
    }

    pub(super) fn requeue_neighbours(&mut self, node: usize) {
        // Consumers of a removed node read from its input.
        let node = match self.removed[node] {
            true => self.graph.nodes[node].inputs[0].0,
            false => node,
        };
        let before = self.graph.nodes[node].inputs.iter().map(|&(from, _)| from);
        let behind = self.consumers.get(&(node, 0)).into_iter().flatten();
        let near: Vec<usize> = before.chain(behind.map(|&(at, _)| at)).collect();
        for at in near.into_iter().chain([node]) {
            self.pending
                .extend((0..self.rewrites).map(|rewrite| (rewrite, at)));
        }
    }

    /// If it has no other consumer.
    pub(super) fn only_input(&self, node: usize) -> Option<usize> {
        let &[(first, 0)] = self.graph.nodes[node].inputs.as_slice() else {
            return None;
        };
        (self.only_consumer(first) == Some(node)).then_some(first)
    }

    pub(super) fn only_consumer(&self, node: usize) -> Option<usize> {
        let consumers = self.consumers.get(&(node, 0))?;
        let alone = consumers.len() == 1 && !self.outputs.contains(&(node, 0));
        consumers
            .first()
            .filter(|_| alone)
            .map(|&(consumer, _)| consumer)
    }

    pub(super) fn expression<O: OperatorType>(
        &mut self,
        node: usize,
        name: &str,
    ) -> Option<Rc<Expression>> {
        let found = &self.graph.nodes[node];
        if !is_operator::<O>(found) || !is_stateless(found) || found.inputs.len() != 1 {
            return None;
        }
        if let Some((known, _)) = self.expressions.get(&node) {
            return Some(Rc::clone(known));
        }
        let expr: Expr = serde_json::from_value(param(found, name)?.clone()).ok()?;
        let written = expr.graph();
        let expression = Rc::new(Expression {
            operations: written.nodes().len(),
            has_input: (written.nodes().iter()).any(|node| node.op() == ExprOp::Input(0)),
            expr,
        });
        self.expressions
            .insert(node, (Rc::clone(&expression), None));
        Some(expression)
    }

    pub(super) fn set(&mut self, node: usize, name: &'static str, expression: Expression) {
        self.expressions
            .insert(node, (Rc::new(expression), Some(name)));
    }

    pub(super) fn bypass(&mut self, node: usize) {
        self.removed[node] = true;
        self.expressions.remove(&node);
        let input = self.graph.nodes[node].inputs[0];
        let consumers = self.consumers.remove(&(node, 0)).unwrap_or_default();
        for &(consumer, port) in &consumers {
            self.graph.nodes[consumer].inputs[port] = input;
        }
        let of_input = self.consumers.entry(input).or_default();
        of_input.remove(&(node, 0));
        of_input.extend(consumers);
        if self.outputs.remove(&(node, 0)) {
            self.outputs.insert(input);
            let outputs = self.graph.outputs.iter_mut();
            let own = outputs.filter(|edge| **edge == (node, 0));
            own.for_each(|edge| *edge = input);
        }
    }

    pub(super) fn finish(self) {
        for (node, (expression, changed)) in self.expressions {
            if let (Some(name), Op::Apply { params, .. }) =
                (changed, &mut self.graph.nodes[node].op)
            {
                params.insert(name.into(), json!(expression.expr));
            }
        }
        let mut numbers = Vec::with_capacity(self.removed.len());
        let mut next = 0;
        for &removed in &self.removed {
            numbers.push(next);
            next += usize::from(!removed);
        }
        let mut removed = self.removed.iter();
        self.graph
            .nodes
            .retain(|_| !removed.next().copied().unwrap_or_default());
        let inputs = self
            .graph
            .nodes
            .iter_mut()
            .flat_map(|node| &mut node.inputs);
        let edges = inputs.chain(&mut self.graph.outputs);
        edges.for_each(|(node, _)| *node = numbers[*node]);
    }
}
