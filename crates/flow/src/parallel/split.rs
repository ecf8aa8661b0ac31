//! Which part of a graph workers do, each for itself: pure but for asking recordings for their snapshots.
//!
//! A front begins with a scan and goes on along a chain, as long as an operator has one input, is the only one to take
//! what comes before it, and makes each sample or window of itself alone. Windows are cut in it where they are counted
//! from a run's own beginning and only whole ones are given. What needs the interpreter, holds something of this
//! process, remembers or gathers is not in it.

use std::sync::Arc;

use super::dispatch::{Cutting, Dispatch, WINDOW};
use super::gathering::Gathering;
use super::log::{HandOver, Log};
use super::worker::Done;
use crate::exec::RunOptions;
use crate::graph::{Edge, Graph, GraphNode};
use crate::ops::{Between, Calibrate, Passthrough, Rewindow};
use crate::plan::Op;
use crate::report::OperatorReport;
use crate::{Align, Bound, Contract, Declared, Kept, Live, Needs, PortType, RunError, Snapshot};

/// Of the run's memory, one part in so many is what a task reads at most.
const OF_MEMORY: u64 = 256;

/// Bytes of a row, about.
const ROW: f64 = 128.0;

/// A chain from a scan on, before anything is read.
#[derive(Debug, PartialEq)]
struct Chain {
    /// The scan, and the operators behind it.
    nodes: Vec<usize>,
    /// Samples behind its portion that a task needs.
    after: u64,
    /// Why it does not go on.
    why: String,
}

/// A chain that workers do.
pub(super) struct Front {
    /// Numbers of its nodes in the whole graph, the scan's first.
    origin: Vec<usize>,
    nodes: Vec<GraphNode>,
    pub(super) after: u64,
    /// Samples of a portion, about.
    samples: u64,
    pub(super) segment: u64,
    pub(super) reads: Live,
    pub(super) snapshot: Arc<dyn Snapshot>,
}

/// What is left for the caller's thread.
pub(super) struct Rest {
    pub(super) graph: Graph,
    /// Numbers of its nodes in the whole graph.
    origin: Vec<usize>,
}

pub(super) struct Split {
    pub(super) fronts: Vec<Front>,
    pub(super) rest: Rest,
    pub(super) dispatch: Arc<Dispatch>,
    /// Names of the nodes of the whole graph.
    names: Vec<&'static str>,
}

impl Front {
    /// The node of the whole graph that reads.
    pub(super) fn scan(&self) -> usize {
        self.origin[0]
    }

    /// A graph of its own, over a recording of portions, that hands over to a log.
    pub(super) fn graph(&self, portions: Live, log: Log) -> Graph {
        let mut nodes = self.nodes.clone();
        if let Op::Scan { recording, .. } = &mut nodes[0].op {
            *recording = portions;
        }
        let port = self.port();
        let last = nodes.len() - 1;
        nodes.push(GraphNode {
            op: Op::Hold(Kept::new(HandOver(log))),
            inputs: vec![(last, 0)],
            bound: Bound::new([port]).contract(Contract::Sequential),
        });
        Graph {
            outputs: vec![(nodes.len() - 1, 0)],
            nodes,
        }
    }

    /// What comes out of it.
    fn port(&self) -> PortType {
        self.nodes[self.nodes.len() - 1].bound.outputs[0]
    }

    /// An error of a worker's run, by the numbers of the whole graph.
    pub(super) fn located(&self, error: RunError) -> RunError {
        renumbered(error, &self.origin)
    }
}

impl Rest {
    /// An error of its run, by the numbers of the whole graph.
    pub(super) fn located(&self, error: RunError) -> RunError {
        renumbered(error, &self.origin)
    }
}

fn renumbered(mut error: RunError, origin: &[usize]) -> RunError {
    if let RunError::Operator { node, .. } | RunError::NoResult { node, .. } = &mut error {
        *node = origin
            .get(*node)
            .or(origin.last())
            .copied()
            .unwrap_or(*node);
    }
    error
}

impl Split {
    /// Cuts a graph; None if nothing of it is worth being spread, or can be read by several.
    pub(super) fn of(graph: &Graph, options: &RunOptions<'_>) -> Result<Option<Self>, RunError> {
        let mut fronts = Vec::new();
        for chain in chains(graph) {
            let Ok(samples) = chain.task(graph, options) else {
                continue;
            };
            let scan = chain.nodes[0];
            let Op::Scan {
                recording,
                range,
                segment,
            } = &graph.nodes[scan].op
            else {
                continue;
            };
            let failed = |error| RunError::Operator {
                operator: "scan",
                node: scan,
                range: None,
                time: None,
                error,
            };
            let Some(snapshot) = recording.0.snapshot(range.clone()).map_err(failed)? else {
                continue;
            };
            let nodes = chain
                .nodes
                .iter()
                .enumerate()
                .map(|(place, &node)| GraphNode {
                    inputs: place
                        .checked_sub(1)
                        .map(|before| (before, 0))
                        .into_iter()
                        .collect(),
                    ..graph.nodes[node].clone()
                });
            fronts.push(Front {
                nodes: nodes.collect(),
                origin: chain.nodes,
                after: chain.after,
                samples,
                segment: *segment,
                reads: recording.clone(),
                snapshot,
            });
        }
        if fronts.is_empty() {
            return Ok(None);
        }
        let cuttings = fronts.iter().map(|front| Cutting {
            snapshot: front.snapshot.clone(),
            samples: front.samples,
            grain: front.segment,
        });
        let dispatch = Arc::new(Dispatch::new(
            cuttings.collect(),
            options.workers,
            options.memory / 8,
        ));
        Ok(Some(Self {
            rest: rest(graph, &fronts, &dispatch),
            fronts,
            dispatch,
            names: graph.nodes.iter().map(|node| node.op.name()).collect(),
        }))
    }

    /// What each operator of the whole graph did.
    pub(super) fn operators(
        &self,
        workers: &[Done],
        of_rest: Vec<OperatorReport>,
    ) -> Vec<OperatorReport> {
        let mut all: Vec<Option<OperatorReport>> = (0..self.names.len()).map(|_| None).collect();
        for (report, &node) in of_rest.into_iter().zip(&self.rest.origin) {
            all[node] = Some(report);
        }
        for (at, front) in self.fronts.iter().enumerate() {
            // What stands for its end among the rest is not an operator's.
            for &node in &front.origin {
                all[node] = Some(OperatorReport::none(self.names[node]));
            }
            for done in workers {
                let theirs = done.operators.get(at).and_then(Option::as_ref);
                for (report, &node) in theirs.into_iter().flatten().zip(&front.origin) {
                    match &mut all[node] {
                        Some(sum) => {
                            sum.items += report.items;
                            sum.samples += report.samples;
                            sum.gaps += report.gaps;
                            sum.useful += report.useful;
                        }
                        none => *none = Some(report.clone()),
                    }
                }
            }
        }
        all.into_iter().flatten().collect()
    }
}

impl Chain {
    /// Samples of a task, or why the chain is not worth being spread.
    fn task(&self, graph: &Graph, options: &RunOptions<'_>) -> Result<u64, String> {
        let nodes = || self.nodes[1..].iter().map(|&node| &graph.nodes[node]);
        if nodes().all(is_free) {
            return Err(self.why.clone());
        }
        let port = graph.nodes[self.nodes[0]].bound.outputs[0];
        let size = port.dtype().map_or(8, |dtype| dtype.size() as u64);
        let wanted = options.task.min(options.memory / OF_MEMORY) / size;
        // What all tasks that may wait give takes an eighth of the memory.
        let outputs = nodes().filter_map(|node| node.bound.outputs.first());
        let tasks = (WINDOW * options.workers.max(2)) as u64;
        let most = options.memory / 8 / tasks;
        let most = (most as f64 / bytes_of_sample(outputs)) as u64;
        if most <= self.after {
            return Err("windows overlap so much that what comes of a task would not fit".into());
        }
        Ok(wanted.max(4 * self.after).min(most).max(1))
    }
}

/// Bytes that come out of a chain of a sample, about.
fn bytes_of_sample<'a>(outputs: impl Iterator<Item = &'a PortType>) -> f64 {
    let (mut last, mut every) = (1.0, 1.0);
    for port in outputs {
        last = match *port {
            PortType::Samples { dtype, .. } => dtype.size() as f64,
            PortType::Frames {
                dtype, hop, width, ..
            } => {
                every = hop as f64;
                (dtype.size() * width) as f64 / every
            }
            PortType::Rows { .. } => ROW / every,
            PortType::Ranges { .. } | PortType::Count => 0.0,
        };
    }
    last.max(1e-9)
}

/// The graph with each front's last node in the place of a scan of what workers hand over, and without the others.
fn rest(graph: &Graph, fronts: &[Front], dispatch: &Arc<Dispatch>) -> Rest {
    let mut whole = graph.clone();
    let mut gone: Vec<usize> = Vec::new();
    for (at, front) in fronts.iter().enumerate() {
        let (&last, before) = front.origin.split_last().unwrap_or((&0, &[]));
        let gathering = Gathering {
            dispatch: dispatch.clone(),
            front: at,
            port: front.port(),
            reads: front.reads.clone(),
            snapshot: front.snapshot.clone(),
            whole: front.nodes.iter().all(|node| node.bound.ratio.is_some()),
        };
        whole.nodes[last] = GraphNode {
            bound: Bound::new([gathering.port]),
            op: Op::Scan {
                recording: Live::new(gathering),
                range: None,
                segment: front.segment,
            },
            inputs: Vec::new(),
        };
        gone.extend(before);
    }
    gone.sort_unstable();
    let mut origin: Vec<usize> = (0..whole.nodes.len()).collect();
    for &node in gone.iter().rev() {
        whole.remove(node);
        origin.remove(node);
    }
    Rest {
        graph: whole,
        origin,
    }
}

/// Whether an operator only says where things are, so that it is done sooner than handed over.
fn is_free(node: &GraphNode) -> bool {
    let name = node.op.name();
    let free = [
        Between::DECLARATION.name,
        Calibrate::DECLARATION.name,
        Passthrough::DECLARATION.name,
        Rewindow::DECLARATION.name,
    ];
    free.contains(&name)
}

/// The chain of each scan.
fn chains(graph: &Graph) -> Vec<Chain> {
    let scans = (0..graph.nodes.len()).filter(|&node| graph.nodes[node].op.recording().is_some());
    scans.map(|scan| chain(graph, scan)).collect()
}

fn chain(graph: &Graph, scan: usize) -> Chain {
    let mut nodes = vec![scan];
    let mut after = 0;
    let once = graph.nodes[scan].op.recording();
    if once.is_some_and(|recording| !recording.0.in_portions()) {
        let why = "it can be read only once".into();
        return Chain { nodes, after, why };
    }
    let why = loop {
        let last: Edge = (nodes[nodes.len() - 1], 0);
        let takes = |node: &GraphNode| node.inputs.contains(&last);
        let mut consumers = (0..graph.nodes.len()).filter(|&at| takes(&graph.nodes[at]));
        let Some(next) = consumers.next() else {
            break "nothing takes what it gives".to_owned();
        };
        if consumers.next().is_some() || graph.outputs.contains(&last) {
            break "several take what it gives".to_owned();
        }
        match joins(&graph.nodes[next]) {
            Ok(more) => after += more,
            Err(why) => break format!("{} {why}", graph.nodes[next].op.name()),
        }
        nodes.push(next);
    };
    Chain { nodes, after, why }
}

/// Whether an operator can be done for each window alone: how many samples behind a portion it needs, or why not.
fn joins(node: &GraphNode) -> Result<u64, &'static str> {
    let Op::Apply { params, .. } = &node.op else {
        return Err("holds something of this process");
    };
    let bound = &node.bound;
    if node.inputs.len() != 1 || bound.align != Align::Single {
        return Err("takes several inputs");
    }
    if bound.needs == Needs::Interpreter {
        return Err("needs the Python interpreter");
    }
    if bound.outputs.len() != 1
        || bound.delay != 0
        || bound.ratio.is_some_and(|(up, down)| up != down)
    {
        return Err("gives other indices than it takes");
    }
    if node.op.name() == Rewindow::DECLARATION.name {
        let text = |name| params.get(name).and_then(|value| value.as_str());
        return match (text("anchor"), text("tail"), bound.outputs[0]) {
            (Some("range"), ..) => Err("counts windows from where reading begins"),
            (_, Some("keep"), _) => Err("keeps a short last window"),
            (_, _, PortType::Frames { window, .. }) => Ok(window - 1),
            _ => Err("gives no windows"),
        };
    }
    match bound.contract {
        Contract::Stateless => Ok(0),
        Contract::Overlap { .. } => Err("needs samples around each"),
        Contract::Settling { .. } => Err("is recursive"),
        Contract::Reducible => Err("gathers"),
        Contract::Sequential => Err("remembers what came before"),
    }
}

/// What workers would do of a graph, and why not more.
pub(crate) fn explain(graph: &Graph) -> String {
    let line = |chain: Chain| {
        let names = chain.nodes.iter().map(|&node| graph.nodes[node].op.name());
        let names = names.collect::<Vec<_>>().join(" -> ");
        match chain.task(graph, &RunOptions::default()) {
            Err(why) => format!("{names} in order: {why}\n"),
            Ok(samples) => format!(
                "{names} in tasks of about {samples} samples, then in order: {}\n",
                chain.why
            ),
        }
    };
    chains(graph).into_iter().map(line).collect()
}
