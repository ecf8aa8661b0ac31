//! A graph while it is rewritten, and where there may be something left to rewrite.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;

use isochrony_expr::{Expr, Op as ExprOp};
use serde_json::json;

use super::{is, param, stateless};
use crate::Declared;
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph};

/// Operations of an expression that what was done shows in full.
const SHOWN: usize = 64;

/// An expression of a node, with what would take long to find out again of a large one.
pub(super) struct Expression {
    pub(super) expr: Expr,
    /// Operations, those of shared parts as often as they were written.
    pub(super) operations: usize,
    /// Whether it is computed of the input.
    pub(super) has_input: bool,
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operations {
            ..=SHOWN => self.expr.fmt(f),
            many => write!(f, "{many} operations"),
        }
    }
}

/// What takes an output: number of the node, number of its input.
type Taker = (usize, usize);

pub(super) struct Rewriter<'a> {
    graph: &'a mut Graph,
    takers: HashMap<Edge, BTreeSet<Taker>>,
    /// What comes out of the graph.
    outputs: BTreeSet<Edge>,
    /// Of each node whether it was taken out.
    removed: Vec<bool>,
    /// Expressions of nodes that were asked for, and of those that changed by which parameter.
    expressions: HashMap<usize, (Rc<Expression>, Option<&'static str>)>,
    /// Rewrites, and nodes to try them at.
    open: BTreeSet<(usize, usize)>,
    rewrites: usize,
}

impl<'a> Rewriter<'a> {
    /// All of `rewrites` rewrites are to be tried at all nodes.
    pub(super) fn new(graph: &'a mut Graph, rewrites: usize) -> Self {
        let mut takers: HashMap<Edge, BTreeSet<Taker>> = HashMap::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            for (port, &edge) in node.inputs.iter().enumerate() {
                takers.entry(edge).or_default().insert((at, port));
            }
        }
        let nodes = graph.nodes.len();
        let all = (0..rewrites).flat_map(|rewrite| (0..nodes).map(move |node| (rewrite, node)));
        Self {
            takers,
            outputs: graph.outputs.iter().copied().collect(),
            removed: vec![false; nodes],
            expressions: HashMap::new(),
            open: all.collect(),
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

    /// What to try next, and where.
    pub(super) fn next(&mut self) -> Option<(usize, usize)> {
        while let Some((rewrite, node)) = self.open.pop_first() {
            if !self.removed[node] {
                return Some((rewrite, node));
            }
        }
        None
    }

    /// A node was changed, or taken out: what is next to it is tried again.
    pub(super) fn look_around(&mut self, node: usize) {
        // What a node was taken out for now takes from its input.
        let node = match self.removed[node] {
            true => self.graph.nodes[node].inputs[0].0,
            false => node,
        };
        let before = self.graph.nodes[node].inputs.iter().map(|&(from, _)| from);
        let behind = self.takers.get(&(node, 0)).into_iter().flatten();
        let near: Vec<usize> = before.chain(behind.map(|&(at, _)| at)).collect();
        for at in near.into_iter().chain([node]) {
            self.open
                .extend((0..self.rewrites).map(|rewrite| (rewrite, at)));
        }
    }

    /// The node that alone gives a node what it takes, and gives it to nobody else.
    pub(super) fn only_input(&self, node: usize) -> Option<usize> {
        let &[(first, 0)] = self.graph.nodes[node].inputs.as_slice() else {
            return None;
        };
        (self.only_consumer(first) == Some(node)).then_some(first)
    }

    /// The node that alone takes output 0 of a node.
    pub(super) fn only_consumer(&self, node: usize) -> Option<usize> {
        let takers = self.takers.get(&(node, 0))?;
        let alone = takers.len() == 1 && !self.outputs.contains(&(node, 0));
        takers.first().filter(|_| alone).map(|&(taker, _)| taker)
    }

    /// The expression that a node that remembers nothing computes of one input.
    pub(super) fn expression<O: Declared>(
        &mut self,
        node: usize,
        name: &str,
    ) -> Option<Rc<Expression>> {
        let found = &self.graph.nodes[node];
        if !is::<O>(found) || !stateless(found) || found.inputs.len() != 1 {
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

    /// Gives a node another expression.
    pub(super) fn set(&mut self, node: usize, name: &'static str, expression: Expression) {
        self.expressions
            .insert(node, (Rc::new(expression), Some(name)));
    }

    /// Takes a node out; who takes from it takes from its input instead.
    pub(super) fn bypass(&mut self, node: usize) {
        self.removed[node] = true;
        self.expressions.remove(&node);
        let input = self.graph.nodes[node].inputs[0];
        let takers = self.takers.remove(&(node, 0)).unwrap_or_default();
        for &(taker, port) in &takers {
            self.graph.nodes[taker].inputs[port] = input;
        }
        let of_input = self.takers.entry(input).or_default();
        of_input.remove(&(node, 0));
        of_input.extend(takers);
        if self.outputs.remove(&(node, 0)) {
            self.outputs.insert(input);
            let outputs = self.graph.outputs.iter_mut();
            let own = outputs.filter(|edge| **edge == (node, 0));
            own.for_each(|edge| *edge = input);
        }
    }

    /// Writes changed expressions, and leaves out nodes that were taken out.
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
