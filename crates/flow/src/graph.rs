//! A plan's nodes in topological order, each once: what the optimiser rewrites and the engine is built from.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use crate::plan::{Node, Op, Plan, SEGMENT};
use crate::{Bound, Live};

/// An output of a node: number of the node, number of the output.
pub(crate) type Edge = (usize, u16);

#[derive(Debug, Clone)]
pub(crate) struct GraphNode {
    pub(crate) op: Op,
    pub(crate) inputs: Vec<Edge>,
    pub(crate) bound: Bound,
}

impl PartialEq for GraphNode {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.inputs == other.inputs
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) outputs: Vec<Edge>,
}

impl Graph {
    /// Nodes that do the same to the same inputs become one.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::of(std::slice::from_ref(plan))
    }

    /// The same of several plans, which share what they have in common.
    pub(crate) fn of(plans: &[Plan]) -> Self {
        let mut graph = Self {
            nodes: Vec::new(),
            outputs: Vec::new(),
        };
        let mut numbers: HashMap<*const Node, usize> = HashMap::new();
        let mut consumers: HashMap<Edge, Vec<usize>> = HashMap::new();
        // Depth first by hand: plans of a thousand operators must not need a deep stack.
        let mut stack: Vec<_> = plans.iter().rev().map(|plan| (&plan.node, false)).collect();
        while let Some((node, inputs_done)) = stack.pop() {
            if numbers.contains_key(&Arc::as_ptr(node)) {
                continue;
            }
            if !inputs_done {
                stack.push((node, true));
                stack.extend(node.inputs.iter().rev().map(|input| (&input.node, false)));
                continue;
            }
            let edge = |input: &Plan| (numbers[&Arc::as_ptr(&input.node)], input.output);
            let made = GraphNode {
                op: node.op.clone(),
                inputs: node.inputs.iter().map(edge).collect(),
                bound: node.bound.clone(),
            };
            let alike = match made.inputs.first() {
                Some(first) => consumers
                    .get(first)
                    .into_iter()
                    .flatten()
                    .copied()
                    .find(|&n| graph.nodes[n] == made),
                None => graph.nodes.iter().position(|n| *n == made),
            };
            let number = alike.unwrap_or(graph.nodes.len());
            numbers.insert(Arc::as_ptr(node), number);
            if number == graph.nodes.len() {
                if let Some(&first) = made.inputs.first() {
                    consumers.entry(first).or_default().push(number);
                }
                graph.nodes.push(made);
            }
        }
        let output = |plan: &Plan| (numbers[&Arc::as_ptr(&plan.node)], plan.output);
        graph.outputs = plans.iter().map(output).collect();
        graph
    }

    /// The recording whose indices come in at a node that holds something beside data: that of the same timebase before
    /// it. Other operators do not ask, and a plan may have a hundred thousand.
    pub(crate) fn reads(&self, node: usize) -> Option<&Live> {
        if !matches!(self.nodes[node].op, Op::Hold(_)) {
            return None;
        }
        let (from, output) = *self.nodes[node].inputs.first()?;
        let timebase = |node: &GraphNode, output: u16| {
            let port = node.bound.outputs.get(usize::from(output))?;
            port.stream().map(|stream| stream.timebase)
        };
        let wanted = timebase(&self.nodes[from], output)?;
        let (mut left, mut seen) = (vec![from], vec![false; self.nodes.len()]);
        while let Some(at) = left.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let before = &self.nodes[at];
            if let Some(recording) = before.op.recording()
                && timebase(before, 0) == Some(wanted)
            {
                return Some(recording);
            }
            left.extend(before.inputs.iter().map(|&(node, _)| node));
        }
        None
    }

    /// Takes out a node that nobody takes from.
    pub(crate) fn remove(&mut self, node: usize) {
        self.nodes.remove(node);
        let edges = self
            .nodes
            .iter_mut()
            .flat_map(|n| &mut n.inputs)
            .chain(&mut self.outputs);
        edges.filter(|(n, _)| *n > node).for_each(|(n, _)| *n -= 1);
    }

    fn label(&self, node: usize) -> String {
        let name = self.nodes[node].op.name();
        let (declaration, params) = match &self.nodes[node].op {
            Op::Apply {
                declaration,
                params,
            } => (declaration, params),
            Op::Hold(kept) => return kept.0.label(),
            Op::Scan {
                recording,
                range,
                segment,
            } => return scanned(recording, range.as_ref(), *segment),
        };
        let shown = declaration.params.iter().filter_map(|param| {
            let value = params.get(param.name)?;
            if param.default.is_some_and(|default| default() == *value) {
                return None;
            }
            let text = match value {
                expr if param.kind == "expression" => written(expr),
                Value::Object(all) if param.kind == "expressions" => {
                    let all = all
                        .iter()
                        .map(|(name, expr)| format!("{name}: {}", written(expr)));
                    format!("{{{}}}", all.collect::<Vec<_>>().join(", "))
                }
                Value::String(text) => format!("{text:?}"),
                other => other.to_string(),
            };
            Some(format!("{}={text}", param.name))
        });
        let shown: Vec<String> = shown.collect();
        if shown.is_empty() {
            name.into()
        } else {
            format!("{name}({})", shown.join(", "))
        }
    }
}

/// A scan: what of, and what is not as usual.
fn scanned(recording: &Live, range: Option<&Range<i64>>, segment: u64) -> String {
    let port = recording.0.port();
    let mut text = format!("scan({}", port.stream().map_or("", |stream| &stream.name));
    if let Some(range) = range {
        text += &format!("[{}:{}]", range.start, range.end);
    }
    if segment != SEGMENT {
        text += &format!(", segment={segment}");
    }
    text + ")"
}

/// An expression as the user would write it.
fn written(saved: &Value) -> String {
    serde_json::from_value::<isochrony_expr::Expr>(saved.clone())
        .map_or_else(|_| saved.to_string(), |expr| expr.to_string())
}

/// A chain on one line; a graph on a line a node.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain = self
            .nodes
            .iter()
            .enumerate()
            .all(|(at, node)| match at.checked_sub(1) {
                None => node.inputs.is_empty(),
                Some(before) => node.inputs == [(before, 0)],
            });
        if chain {
            let labels: Vec<String> = (0..self.nodes.len()).map(|node| self.label(node)).collect();
            return f.write_str(&labels.join(" -> "));
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let inputs = node.inputs.iter().map(|&(n, output)| match output {
                0 => format!("{n}"),
                output => format!("{n}.{output}"),
            });
            let inputs: Vec<String> = inputs.collect();
            let from = if inputs.is_empty() {
                String::new()
            } else {
                format!(" <- {}", inputs.join(", "))
            };
            let newline = if at == 0 { "" } else { "\n" };
            write!(f, "{newline}{at}: {}{from}", self.label(at))?;
        }
        Ok(())
    }
}
