//! A plan's nodes in topological order, without duplicates: the form for optimiser and engine.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::node::{Node, Op, Plan, SEGMENT_SAMPLES};
use crate::sources::processed::ProcessedRecording;
use crate::{Alignment, OperatorProperties, PlanError, Resource, SharedRecording};

/// Input of `feedback` that identifies its loop; the previous one is fed back.
pub(crate) const LOOP: usize = 2;

pub(crate) type Edge = (usize, u16);

#[derive(Debug, Clone)]
pub(crate) struct GraphNode {
    pub(crate) op: Op,
    pub(crate) inputs: Vec<Edge>,
    pub(crate) properties: OperatorProperties,
}

impl GraphNode {
    fn begins_loop(&self) -> bool {
        matches!(self.properties.align, Alignment::Loop { .. })
    }

    /// Samples that are received or generated, not stored.
    pub(crate) fn is_feed(&self) -> bool {
        self.op.recording().is_some_and(SharedRecording::is_feed)
    }

    /// Not the function of a source.
    pub(crate) fn calls_python(&self) -> bool {
        self.properties.needs == Resource::Interpreter && !self.inputs.is_empty()
    }

    /// The run chose where its function is called, and may choose the blocks, too.
    pub(crate) fn is_placed(&self) -> bool {
        matches!(&self.op, Op::Factory(factory) if factory.0.is_placed())
    }

    /// Its parameters may change during an execution. That affects a cell by what its replica computed before.
    pub(crate) fn has_changes(&self) -> bool {
        matches!(
            self.op,
            Op::Apply {
                changes: Some(_),
                ..
            }
        )
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
    /// For a part of a plan: names and numbers in the whole.
    pub(crate) plan_nodes: Vec<(&'static str, usize)>,
}

/// Equal for equal nodes without inputs, so few nodes are compared.
fn source_key(op: &Op) -> String {
    match op {
        Op::Scan { recording, .. } => recording.key(),
        other => other.name().to_owned(),
    }
}

impl Graph {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::of(std::slice::from_ref(plan))
    }

    pub(crate) fn of(plans: &[Plan]) -> Self {
        let mut graph = Self {
            nodes: Vec::new(),
            outputs: Vec::new(),
            plan_nodes: Vec::new(),
        };
        let mut numbers: HashMap<*const Node, usize> = HashMap::new();
        let mut consumers: HashMap<Edge, Vec<usize>> = HashMap::new();
        let mut sources: HashMap<String, Vec<usize>> = HashMap::new();
        // Recursion would overflow on plans of thousands of operators.
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
            let candidate = GraphNode {
                op: node.op.clone(),
                inputs: node.inputs.iter().map(edge).collect(),
                properties: node.properties.clone(),
            };
            let equal = match candidate.inputs.first() {
                Some(first) => consumers
                    .get(first)
                    .into_iter()
                    .flatten()
                    .copied()
                    .find(|&n| graph.nodes[n] == candidate),
                None => sources
                    .get(&source_key(&candidate.op))
                    .into_iter()
                    .flatten()
                    .copied()
                    .find(|&n| graph.nodes[n] == candidate),
            };
            // Loops with equal beginnings may differ later.
            let equal = equal.filter(|_| !candidate.begins_loop());
            let number = equal.unwrap_or(graph.nodes.len());
            numbers.insert(Arc::as_ptr(node), number);
            if number == graph.nodes.len() {
                let same_key = match candidate.inputs.first() {
                    Some(&first) => consumers.entry(first).or_default(),
                    None => sources.entry(source_key(&candidate.op)).or_default(),
                };
                same_key.push(number);
                graph.nodes.push(candidate);
            }
        }
        let output = |plan: &Plan| (numbers[&Arc::as_ptr(&plan.node)], plan.output);
        graph.outputs = plans.iter().map(output).collect();
        graph
    }

    pub(crate) fn plan_node(&self, node: usize) -> (&'static str, usize) {
        let own = || (self.nodes[node].op.name(), node);
        self.plan_nodes.get(node).copied().unwrap_or_else(own)
    }

    /// The node equal to another graph's output, with equal inputs.
    pub(crate) fn find(&self, other: &Self) -> Option<usize> {
        let common = self.common(other);
        common.get(other.outputs.first()?.0).copied().flatten()
    }

    /// The equal node, with equal inputs, for each node of another graph.
    pub(crate) fn common(&self, other: &Self) -> Vec<Option<usize>> {
        let mut numbers: Vec<Option<usize>> = Vec::with_capacity(other.nodes.len());
        for node in &other.nodes {
            let inputs = node.inputs.iter().map(|&(n, o)| Some((numbers[n]?, o)));
            let found = inputs.collect::<Option<Vec<Edge>>>().and_then(|inputs| {
                let equal = |own: &GraphNode| own.inputs == inputs && own.op == node.op;
                self.nodes.iter().position(equal)
            });
            numbers.push(found);
        }
        numbers
    }

    pub(crate) fn upto(&self, edge: Edge) -> Self {
        let mut needed = vec![false; edge.0 + 1];
        needed[edge.0] = true;
        let mut pending = vec![edge.0];
        while let Some(at) = pending.pop() {
            for &(from, _) in &self.nodes[at].inputs {
                if !std::mem::replace(&mut needed[from], true) {
                    pending.push(from);
                }
            }
        }
        let mut numbers = vec![0; edge.0 + 1];
        let mut nodes: Vec<GraphNode> = Vec::new();
        for at in (0..=edge.0).filter(|&at| needed[at]) {
            numbers[at] = nodes.len();
            let node = &self.nodes[at];
            let inputs = node
                .inputs
                .iter()
                .map(|&(from, output)| (numbers[from], output));
            nodes.push(GraphNode {
                inputs: inputs.collect(),
                ..node.clone()
            });
        }
        Self {
            nodes,
            outputs: vec![(numbers[edge.0], edge.1)],
            plan_nodes: Vec::new(),
        }
    }

    pub(crate) fn drop_unused(&mut self) {
        let mut used = vec![false; self.nodes.len()];
        let mut pending: Vec<usize> = self.outputs.iter().map(|&(node, _)| node).collect();
        while let Some(at) = pending.pop() {
            if !std::mem::replace(&mut used[at], true) {
                pending.extend(self.nodes[at].inputs.iter().map(|&(from, _)| from));
            }
        }
        let mut numbers = vec![0; self.nodes.len()];
        let kept = (0..used.len()).filter(|&at| used[at]);
        for (number, at) in kept.enumerate() {
            numbers[at] = number;
        }
        let mut used = used.into_iter();
        self.nodes.retain(|_| used.next().unwrap_or(true));
        let inputs = self.nodes.iter_mut().flat_map(|node| &mut node.inputs);
        for (node, _) in inputs.chain(&mut self.outputs) {
            *node = numbers[*node];
        }
    }

    pub(crate) fn all_edges(&self) -> HashMap<Edge, Edge> {
        let nodes = self.nodes.iter().enumerate();
        let edges = nodes.flat_map(|(at, node)| {
            (0..node.properties.outputs.len().max(1) as u16).map(move |output| (at, output))
        });
        edges.map(|edge| (edge, edge)).collect()
    }

    pub(crate) fn loop_begin(&self, node: usize) -> Option<usize> {
        let node = &self.nodes[node];
        let ends = node.properties.closes_loop;
        ends.then(|| node.inputs.get(LOOP).map(|&(begin, _)| begin))?
    }

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

    pub(crate) fn check_loop(&self, end: usize) -> Result<(), PlanError> {
        let Some(begin) = self.loop_begin(end) else {
            return Ok(());
        };
        let ends = (0..self.nodes.len()).filter(|&at| self.loop_begin(at) == Some(begin));
        match ends.count() {
            1 if self.begins_loop(begin) => self.check_loop_body(begin, end),
            closed => Err(PlanError::LoopNotClosed { closed }),
        }
    }

    /// Whether an operator may end before its sources in a plan with fan-ins or several sources: block order then
    /// affects results and errors.
    pub(crate) fn ends_before_sources(&self) -> bool {
        let ends_early = |node: &GraphNode| node.properties.ends_early;
        let is_fan_in = |node: &GraphNode| node.inputs.len() > 1;
        let sources = self.nodes.iter().filter(|node| node.inputs.is_empty());
        self.nodes.iter().any(ends_early)
            && (sources.count() > 1 || self.nodes.iter().any(is_fan_in))
    }

    fn begins_loop(&self, node: usize) -> bool {
        self.nodes[node].begins_loop()
    }

    fn check_loop_body(&self, begin: usize, end: usize) -> Result<(), PlanError> {
        let mut upstream = vec![false; self.nodes.len()];
        let mut pending = vec![begin];
        while let Some(at) = pending.pop() {
            upstream[at] = true;
            pending.extend(
                self.nodes[at]
                    .inputs
                    .iter()
                    .map(|&(from, _)| from)
                    .filter(|&from| !upstream[from]),
            );
        }
        let mut seen = upstream;
        let mut pending = vec![self.nodes[end].inputs[LOOP - 1].0];
        while let Some(at) = pending.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let node = &self.nodes[at];
            // `Alignment::Window` emits the indices of all inputs, if no input drops any.
            if node.properties.ratio.is_none() && node.properties.align != Alignment::Window {
                let operator = node.op.name();
                return Err(PlanError::LoopMayStall { operator });
            }
            pending.extend(node.inputs.iter().map(|&(from, _)| from));
        }
        Ok(())
    }

    /// Gives a factory's first input its timebase. None for other operators, which do not need it: a plan may have a
    /// hundred thousand.
    pub(crate) fn recording_of(&self, node: usize) -> Option<SharedRecording> {
        if !matches!(self.nodes[node].op, Op::Factory(_)) {
            return None;
        }
        let (from, output) = *self.nodes[node].inputs.first()?;
        let timebase = |node: &GraphNode, output: u16| {
            let port = node.properties.outputs.get(usize::from(output))?;
            port.stream().map(|stream| stream.timebase.origin().0)
        };
        let wanted = timebase(&self.nodes[from], output)?;
        let (mut pending, mut seen) = (vec![from], vec![false; self.nodes.len()]);
        while let Some(at) = pending.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let ancestor = &self.nodes[at];
            if let Some(recording) = ancestor.op.recording()
                && timebase(ancestor, 0) == Some(wanted)
            {
                return Some(match self.emits_whole_recording(from) {
                    true => recording.clone(),
                    false => SharedRecording::new(ProcessedRecording(recording.0.clone())),
                });
            }
            pending.extend(ancestor.inputs.iter().map(|&(node, _)| node));
        }
        None
    }

    /// Gives an edge its indices and times; else the first upstream.
    pub(crate) fn recording_of_edge(&self, edge: Edge) -> Option<SharedRecording> {
        let timebase = |node: usize, output: u16| {
            let port = self.nodes[node]
                .properties
                .outputs
                .get(usize::from(output))?;
            port.stream().map(|stream| stream.timebase.origin().0)
        };
        let wanted = timebase(edge.0, edge.1);
        let (mut pending, mut seen) = (vec![edge.0], vec![false; edge.0 + 1]);
        let mut first = None;
        while let Some(at) = pending.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            if let Some(recording) = self.nodes[at].op.recording() {
                if wanted.is_some() && timebase(at, 0) == wanted {
                    return Some(recording.clone());
                }
                first = Some(recording.clone());
            }
            pending.extend(self.nodes[at].inputs.iter().map(|&(node, _)| node));
        }
        first
    }

    /// Whether it emits a recording unchanged: a whole scan, or sinks after it.
    pub(crate) fn emits_whole_recording(&self, mut node: usize) -> bool {
        loop {
            let GraphNode { op, inputs, .. } = &self.nodes[node];
            match (op, &inputs[..]) {
                (Op::Scan { range, .. }, _) => return range.is_none(),
                (Op::Factory(factory), &[(input, 0)]) if factory.0.is_writer() => node = input,
                _ => return false,
            }
        }
    }

    pub(crate) fn label(&self, node: usize) -> String {
        let name = self.nodes[node].op.name();
        let (declaration, params) = match &self.nodes[node].op {
            Op::Apply {
                declaration,
                params,
                ..
            } => (declaration, params),
            Op::Factory(factory) => return factory.0.label(),
            Op::Scan {
                recording,
                range,
                segment,
            } => return scan_label(recording, range.as_ref(), *segment),
        };
        let arguments = declaration.params.iter().filter_map(|param| {
            let value = params.get(param.name)?;
            if param.default.is_some_and(|default| default() == *value) {
                return None;
            }
            let text = match value {
                expr if param.kind == "expression" => expression_text(expr),
                Value::Object(all) if param.kind == "expressions" => {
                    let all = all
                        .iter()
                        .map(|(name, expr)| format!("{name}: {}", expression_text(expr)));
                    format!("{{{}}}", all.collect::<Vec<_>>().join(", "))
                }
                Value::String(text) => format!("{text:?}"),
                other => other.to_string(),
            };
            Some(format!("{}={text}", param.name))
        });
        let arguments: Vec<String> = arguments.collect();
        if arguments.is_empty() {
            name.into()
        } else {
            format!("{name}({})", arguments.join(", "))
        }
    }
}

fn scan_label(recording: &SharedRecording, range: Option<&Range<i64>>, segment: u64) -> String {
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

fn expression_text(saved: &Value) -> String {
    serde_json::from_value::<isochrony_expr::Expr>(saved.clone())
        .map_or_else(|_| saved.to_string(), |expr| expr.to_string())
}

impl Graph {
    pub(crate) fn as_chain(&self) -> Option<impl Iterator<Item = String>> {
        let mut nodes = self.nodes.iter().enumerate();
        let is_chain = nodes.all(|(at, node)| match at.checked_sub(1) {
            None => node.inputs.is_empty(),
            Some(previous) => node.inputs == [(previous, 0)],
        });
        is_chain.then(|| (0..self.nodes.len()).map(|node| self.label(node)))
    }

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

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entries, between): (Vec<String>, _) = match self.as_chain() {
            Some(labels) => (labels.collect(), " -> "),
            None => (self.lines().collect(), "\n"),
        };
        f.write_str(&entries.join(between))
    }
}
