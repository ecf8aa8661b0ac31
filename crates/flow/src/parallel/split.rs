//! A graph in two: what workers do, each for itself, and the rest. Pure but for asking recordings for their snapshots.

use std::ops::Range;
use std::sync::Arc;

use isochrony_time::Ratio;

use super::chain::{Chain, Cutoff, TaskSize, chains};
use super::combine::Combine;
use super::dispatch::{Cutting, Dispatch, WINDOW};
use super::gathering::Gathering;
use super::indices::Indices;
use super::log::{HandOver, Log};
use super::places::places;
use super::trim::{self, Trim};
use super::worker::Done;
use crate::exec::RunOptions;
use crate::graph::{Graph, GraphNode};
use crate::plan::Op;
use crate::report::OperatorReport;
use crate::{Bound, Contract, Live, PortType, Portion, Reach, RunError, Snapshot};

/// A chain that workers do.
pub(super) struct Front {
    /// Numbers of its nodes in the whole graph, the scan's first.
    origin: Vec<usize>,
    nodes: Vec<GraphNode>,
    /// Samples around its portion that a task reads.
    pub(super) reach: Reach,
    /// What is given of them too much, and where it is cut off.
    pub(super) trim: Option<Cutoff>,
    /// Indices of what comes out, of those that are read.
    pub(super) indices: Indices,
    /// Whether its last operator gathers, and what it has gathered of each task is what comes out.
    gathers: bool,
    task: TaskSize,
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

    /// A graph of its own, over a recording of portions, that hands over to a log what it is to keep of each task.
    pub(super) fn graph(&self, portions: Live, kept: trim::Kept, log: Log) -> Graph {
        let mut nodes = self.nodes.clone();
        if let Op::Scan { recording, .. } = &mut nodes[0].op {
            *recording = portions;
        }
        if let Some(trim) = self.trim {
            let held = Op::Hold(crate::Kept::new(Trim(kept)));
            nodes.insert(trim.behind + 1, end(held, &nodes[trim.behind]));
        }
        nodes.push(end(
            Op::Hold(crate::Kept::new(HandOver(log))),
            &nodes[nodes.len() - 1],
        ));
        for (place, node) in nodes.iter_mut().enumerate().skip(1) {
            node.inputs = vec![(place - 1, 0)];
        }
        Graph {
            outputs: vec![(nodes.len() - 1, 0)],
            nodes,
            called: Vec::new(),
        }
    }

    /// The place of the operator that gathers, in a worker's run.
    pub(super) fn gatherer(&self) -> Option<usize> {
        self.gathers.then(|| self.places().last()).flatten()
    }

    /// Places of its nodes, without what cuts off, in a worker's run.
    fn places(&self) -> impl Iterator<Item = usize> {
        let trim = self.trim.map_or(usize::MAX, |trim| trim.behind);
        (0..self.nodes.len()).map(move |place| place + usize::from(place > trim))
    }

    /// What a task hands over, in indices of what the place is given where it is cut off.
    pub(super) fn kept(&self, portion: &Portion) -> Range<i64> {
        let after = self.trim.map_or(0, |trim| trim.after);
        let end = self.indices.of(portion.range.end);
        self.indices.of(portion.range.start)..end.saturating_add_unsigned(after)
    }

    /// What comes out of it.
    fn port(&self) -> PortType {
        self.nodes[self.nodes.len() - 1].bound.outputs[0]
    }

    /// An error of a worker's run, by the numbers of the whole graph.
    pub(super) fn located(&self, error: RunError) -> RunError {
        let mut origin = self.origin.clone();
        if let Some(trim) = self.trim {
            origin.insert(trim.behind + 1, origin[trim.behind]);
        }
        renumbered(error, &origin)
    }
}

/// A node behind another that gives what it takes.
fn end(op: Op, before: &GraphNode) -> GraphNode {
    let port = before.bound.outputs[0];
    GraphNode {
        op,
        inputs: Vec::new(),
        bound: Bound::new([port]).contract(Contract::Sequential),
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
        let mut chains = chains(graph, options);
        if options.workers < 2 {
            // Of the others several workers give what one pass gives.
            chains.retain(Chain::shows_cuts);
        }
        for chain in chains {
            let Some(task) = chain.task(graph, options) else {
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
            let task = chain.task_of(task, snapshot.total(), graph);
            let nodes = chain.nodes.iter().map(|&node| graph.nodes[node].clone());
            let ratios = chain.nodes.iter().filter_map(|&node| {
                let (up, down) = graph.nodes[node].bound.ratio?;
                Ratio::new(up, down).ok()
            });
            fronts.push(Front {
                nodes: nodes.collect(),
                indices: Indices::new(ratios),
                origin: chain.nodes,
                reach: chain.reach,
                trim: chain.trim,
                gathers: chain.gathers,
                task,
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
            samples: front.task.samples,
            bytes: front.task.bytes,
            grain: front.segment,
        });
        let (window, memory) = (WINDOW * options.workers.max(1), options.memory / 8);
        let dispatch = Arc::new(Dispatch::new(cuttings.collect(), window, memory));
        Ok(Some(Self {
            rest: rest(graph, &fronts, &dispatch),
            fronts,
            dispatch,
            names: graph.nodes.iter().map(|node| node.op.name()).collect(),
        }))
    }

    /// Where operators worked that hold something of this process.
    pub(super) fn places(&self, graph: &Graph, options: &RunOptions<'_>) -> Vec<String> {
        let spread = self.fronts.iter().flat_map(|front| front.origin.clone());
        places(graph, options, &spread.collect::<Vec<_>>())
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
                let Some(Some(theirs)) = done.operators.get(at) else {
                    continue;
                };
                let theirs = front.places().map(|place| &theirs[place]);
                for (report, &node) in theirs.zip(&front.origin) {
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

/// The graph with each front's last node in the place of a scan of what workers hand over, and without the others.
fn rest(graph: &Graph, fronts: &[Front], dispatch: &Arc<Dispatch>) -> Rest {
    let mut whole = graph.clone();
    let mut gone: Vec<usize> = Vec::new();
    for (at, front) in fronts.iter().enumerate() {
        // What gathers is there to combine what the tasks gathered.
        let (upto, port) = match front.gathers {
            true => {
                let (&last, upto) = front.origin.split_last().unwrap_or((&0, &[]));
                let held = Combine(whole.nodes[last].op.clone());
                whole.nodes[last].op = Op::Hold(crate::Kept::new(held));
                let before = &front.nodes[front.nodes.len().saturating_sub(2)];
                (upto, before.bound.outputs[0])
            }
            false => (&front.origin[..], front.port()),
        };
        let (&last, before) = upto.split_last().unwrap_or((&0, &[]));
        let gathering = Gathering {
            dispatch: dispatch.clone(),
            front: at,
            port,
            reads: front.reads.clone(),
            snapshot: front.snapshot.clone(),
            expects: (front.nodes.iter())
                .all(|node| node.bound.ratio.is_some() && !front.gathers)
                .then(|| front.indices.count(front.snapshot.total())),
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
    let called = |&node: &usize| (graph.nodes[node].op.name(), node);
    whole.called = origin.iter().map(called).collect();
    Rest {
        graph: whole,
        origin,
    }
}
