//! A plan's nodes in topological order, each once: what the optimiser rewrites and the engine is built from.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::node::{Node, Op, Plan, SEGMENT_SAMPLES};
use crate::sources::processed::ProcessedRecording;
use crate::{Alignment, OperatorProperties, PlanError, SharedRecording};

/// The input of `feedback` that says which loop it ends; the one before is what is fed back.
pub(crate) const LOOP: usize = 2;

/// An output of a node: number of the node, number of the output.
pub(crate) type Edge = (usize, u16);

#[derive(Debug, Clone)]
pub(crate) struct GraphNode {
    pub(crate) op: Op,
    pub(crate) inputs: Vec<Edge>,
    pub(crate) bound: OperatorProperties,
}

impl GraphNode {
    fn begins_loop(&self) -> bool {
        matches!(self.bound.align, Alignment::Loop { .. })
    }
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
    /// Of a part of a graph, what its nodes are called in the whole.
    pub(crate) called: Vec<(&'static str, usize)>,
}

/// A key that equal operators without inputs share, so that only few have to be compared.
fn source_key(op: &Op) -> String {
    match op {
        Op::Scan { recording, .. } => recording.key(),
        other => other.name().to_owned(),
    }
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
            called: Vec::new(),
        };
        let mut numbers: HashMap<*const Node, usize> = HashMap::new();
        let mut consumers: HashMap<Edge, Vec<usize>> = HashMap::new();
        let mut sources: HashMap<String, Vec<usize>> = HashMap::new();
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
                None => sources
                    .get(&source_key(&made.op))
                    .into_iter()
                    .flatten()
                    .copied()
                    .find(|&n| graph.nodes[n] == made),
            };
            // Loops that begin alike may go on differently.
            let alike = alike.filter(|_| !made.begins_loop());
            let number = alike.unwrap_or(graph.nodes.len());
            numbers.insert(Arc::as_ptr(node), number);
            if number == graph.nodes.len() {
                let same_key = match made.inputs.first() {
                    Some(&first) => consumers.entry(first).or_default(),
                    None => sources.entry(source_key(&made.op)).or_default(),
                };
                same_key.push(number);
                graph.nodes.push(made);
            }
        }
        let output = |plan: &Plan| (numbers[&Arc::as_ptr(&plan.node)], plan.output);
        graph.outputs = plans.iter().map(output).collect();
        graph
    }

    /// A node's name and number, as errors say them.
    pub(crate) fn called(&self, node: usize) -> (&'static str, usize) {
        let own = || (self.nodes[node].op.name(), node);
        self.called.get(node).copied().unwrap_or_else(own)
    }

    /// The node that does what the last one of another graph does, to the same inputs.
    pub(crate) fn find(&self, other: &Self) -> Option<usize> {
        let mut places: Vec<usize> = Vec::with_capacity(other.nodes.len());
        for node in &other.nodes {
            let inputs: Vec<Edge> = node.inputs.iter().map(|&(n, o)| (places[n], o)).collect();
            let alike = |own: &GraphNode| own.inputs == inputs && own.op == node.op;
            places.push(self.nodes.iter().position(alike)?);
        }
        places.get(other.outputs.first()?.0).copied()
    }

    /// Where the loop begins that a node ends.
    pub(crate) fn loop_begin(&self, node: usize) -> Option<usize> {
        let node = &self.nodes[node];
        let ends = node.bound.closes_loop;
        ends.then(|| node.inputs.get(LOOP).map(|&(begin, _)| begin))?
    }

    /// Checks that every loop is closed once, and that what goes round cannot get lost.
    pub(crate) fn check_loops(&self) -> Result<(), PlanError> {
        let ends = (0..self.nodes.len()).filter(|&at| self.loop_begin(at).is_some());
        let ends: Vec<usize> = ends.collect();
        let ended: Vec<usize> = ends.iter().filter_map(|&at| self.loop_begin(at)).collect();
        let mut begins = (0..self.nodes.len()).filter(|&at| self.begins_loop(at));
        if begins.any(|begin| !ended.contains(&begin)) {
            return Err(PlanError::LoopNotClosed { closed: 0 });
        }
        ends.into_iter().try_for_each(|end| self.check_loop(end))
    }

    /// The same of the loop that a node ends.
    pub(crate) fn check_loop(&self, end: usize) -> Result<(), PlanError> {
        let Some(begin) = self.loop_begin(end) else {
            return Ok(());
        };
        let ends = (0..self.nodes.len()).filter(|&at| self.loop_begin(at) == Some(begin));
        match ends.count() {
            1 if self.begins_loop(begin) => self.check_round(begin, end),
            closed => Err(PlanError::LoopNotClosed { closed }),
        }
    }

    /// Whether something may end before its sources do, and streams meet or there are several: then results and errors
    /// depend on which block of which source is read first.
    pub(crate) fn ends_before_sources(&self) -> bool {
        let ends_early = |node: &GraphNode| node.bound.ends_early;
        let meets = |node: &GraphNode| node.inputs.len() > 1;
        let sources = self.nodes.iter().filter(|node| node.inputs.is_empty());
        self.nodes.iter().any(ends_early) && (sources.count() > 1 || self.nodes.iter().any(meets))
    }

    fn begins_loop(&self, node: usize) -> bool {
        self.nodes[node].begins_loop()
    }

    /// Checks that no operator on the way to what is fed back may leave windows out that come into the loop.
    fn check_round(&self, begin: usize, end: usize) -> Result<(), PlanError> {
        let mut before = vec![false; self.nodes.len()];
        let mut left = vec![begin];
        while let Some(at) = left.pop() {
            before[at] = true;
            left.extend(
                self.nodes[at]
                    .inputs
                    .iter()
                    .map(|&(from, _)| from)
                    .filter(|&from| !before[from]),
            );
        }
        let mut seen = before;
        let mut left = vec![self.nodes[end].inputs[LOOP - 1].0];
        while let Some(at) = left.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let node = &self.nodes[at];
            // Where streams meet, what all of them have goes on: as long as none of them lacks anything, all.
            if node.bound.ratio.is_none() && node.bound.align != Alignment::Window {
                let operator = node.op.name();
                return Err(PlanError::LoopMayStall { operator });
            }
            left.extend(node.inputs.iter().map(|&(from, _)| from));
        }
        Ok(())
    }

    /// The recording whose indices come in at a node that holds something beside data, or were resampled: that of the
    /// same timebase before it. Other operators do not ask, and a plan may have a hundred thousand.
    pub(crate) fn reads(&self, node: usize) -> Option<SharedRecording> {
        if !matches!(self.nodes[node].op, Op::Factory(_)) {
            return None;
        }
        let (from, output) = *self.nodes[node].inputs.first()?;
        let timebase = |node: &GraphNode, output: u16| {
            let port = node.bound.outputs.get(usize::from(output))?;
            port.stream().map(|stream| stream.timebase.origin().0)
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
                return Some(match self.is_given_whole(from) {
                    true => recording.clone(),
                    false => SharedRecording::new(ProcessedRecording(recording.0.clone())),
                });
            }
            left.extend(before.inputs.iter().map(|&(node, _)| node));
        }
        None
    }

    /// Whether a recording's own samples come out of a node, all that a pass gives: writers pass them on.
    fn is_given_whole(&self, mut node: usize) -> bool {
        loop {
            let GraphNode { op, inputs, .. } = &self.nodes[node];
            match (op, &inputs[..]) {
                (Op::Scan { range, .. }, _) => return range.is_none(),
                (Op::Factory(kept), &[(before, 0)]) if kept.0.is_writer() => node = before,
                _ => return false,
            }
        }
    }

    fn label(&self, node: usize) -> String {
        let name = self.nodes[node].op.name();
        let (declaration, params) = match &self.nodes[node].op {
            Op::Apply {
                declaration,
                params,
            } => (declaration, params),
            Op::Factory(kept) => return kept.0.label(),
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
fn scanned(recording: &SharedRecording, range: Option<&Range<i64>>, segment: u64) -> String {
    let port = recording.0.port();
    let mut text = format!("scan({}", port.stream().map_or("", |stream| &stream.name));
    if let Some(range) = range {
        text += &format!("[{}:{}]", range.start, range.end);
    }
    if segment != SEGMENT_SAMPLES {
        text += &format!(", segment={segment}");
    }
    let saved = recording.saved();
    let io = saved.as_ref().and_then(|saved| saved.get("io")?.as_str());
    if let Some(io) = io {
        text += &format!(", io={io}");
    }
    text + ")"
}

/// An expression as the user would write it.
fn written(saved: &Value) -> String {
    serde_json::from_value::<isochrony_expr::Expr>(saved.clone())
        .map_or_else(|_| saved.to_string(), |expr| expr.to_string())
}

impl Graph {
    /// Labels of a chain, in order; None of what branches or has several sources.
    pub(crate) fn as_chain(&self) -> Option<impl Iterator<Item = String>> {
        let mut nodes = self.nodes.iter().enumerate();
        let is_chain = nodes.all(|(at, node)| match at.checked_sub(1) {
            None => node.inputs.is_empty(),
            Some(before) => node.inputs == [(before, 0)],
        });
        is_chain.then(|| (0..self.nodes.len()).map(|node| self.label(node)))
    }

    /// A line for each node: its number, its label, and what it takes.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.nodes.iter().enumerate().map(|(at, node)| {
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
            format!("{at}: {}{from}", self.label(at))
        })
    }
}

/// A chain on one line; a graph on a line a node.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entries, between): (Vec<String>, _) = match self.as_chain() {
            Some(labels) => (labels.collect(), " -> "),
            None => (self.lines().collect(), "\n"),
        };
        f.write_str(&entries.join(between))
    }
}
