//! A graph in two: what workers do, each for itself, and the rest. Pure but for asking recordings for their snapshots.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::combine::Combine;
use super::dispatch::{Cutting, Dispatch, Leads, WINDOW};
use super::gathering::{Gathering, Shelf};
use super::indices::Indices;
use super::places::places;
use super::size::TaskSize;
use super::tree::{Exit, Tree, trees};
use super::worker::Done;
use crate::exec::RunOptions;
use crate::graph::{Edge, Graph, GraphNode};
use crate::plan::Op;
use crate::report::OperatorReport;
use crate::{Bound, Live, PortType, Reach, RunError, Snapshot};

/// What workers do behind a scan.
pub(super) struct Front {
    pub(super) tree: Tree,
    /// Of what was taken in, by place.
    nodes: Vec<GraphNode>,
    task: TaskSize,
    pub(super) segment: u64,
    pub(super) reads: Live,
    pub(super) snapshot: Arc<dyn Snapshot>,
    /// Of each exit, whether somebody still takes what leaves by it.
    pub(super) leads: Vec<Leads>,
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
        self.tree.scan()
    }

    pub(super) fn node(&self, place: usize) -> &GraphNode {
        &self.nodes[place]
    }

    pub(super) fn reach(&self) -> Reach {
        self.tree.reach
    }

    /// What comes out by an edge, and its indices of those that are read.
    pub(super) fn given(&self, (place, output): Edge) -> (PortType, &Indices) {
        let port = self.nodes[place].bound.outputs[usize::from(output)];
        (port, &self.tree.taken[place].indices)
    }

    /// The exits to which a node of the whole graph leads.
    pub(super) fn exits_behind(&self, node: usize) -> impl Iterator<Item = usize> {
        let mut behind: Vec<bool> = Vec::new();
        for one in &self.tree.taken {
            let follows = one.inputs.iter().any(|&(from, _)| behind[from]);
            behind.push(one.node == node || follows);
        }
        let exits = self.tree.exits.iter().enumerate();
        exits.filter_map(move |(nth, exit)| behind[exit.edge.0].then_some(nth))
    }

    /// How many come out by an exit, where that is known.
    fn expects(&self, exit: &Exit) -> Option<u64> {
        let mut place = exit.edge.0;
        while let Some(&(from, _)) = self.tree.taken[place].inputs.first() {
            self.nodes[place].bound.ratio?;
            place = from;
        }
        let (_, indices) = self.given(exit.edge);
        (!exit.gathers).then(|| indices.count(self.snapshot.total()))
    }
}

impl Rest {
    /// An error of its run, by the numbers of the whole graph.
    pub(super) fn located(&self, error: RunError) -> RunError {
        renumbered(error, &self.origin)
    }
}

pub(super) fn renumbered(mut error: RunError, origin: &[usize]) -> RunError {
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
        let mut trees = trees(graph, options);
        if options.workers < 2 {
            // Of the others several workers give what one pass gives.
            trees.retain(|tree| tree.shows_cuts(graph));
        }
        for tree in trees {
            let Some(task) = tree.task(graph, options) else {
                continue;
            };
            let scan = tree.scan();
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
            let task = tree.task_of(task, snapshot.total(), graph);
            let nodes = tree.taken.iter().map(|one| graph.nodes[one.node].clone());
            fronts.push(Front {
                nodes: nodes.collect(),
                task,
                segment: *segment,
                reads: recording.clone(),
                snapshot,
                leads: tree.exits.iter().map(|_| Leads::default()).collect(),
                tree,
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
        let spread = self.fronts.iter().flat_map(|front| &front.tree.taken);
        let spread = spread.map(|one| one.node);
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
            for one in &front.tree.taken {
                all[one.node] = Some(OperatorReport::none(self.names[one.node]));
            }
            for done in workers {
                let Some(Some(theirs)) = done.operators.get(at) else {
                    continue;
                };
                for (report, one) in theirs.iter().zip(&front.tree.taken) {
                    match &mut all[one.node] {
                        Some(sum) => sum.add(report),
                        none => *none = Some(report.clone()),
                    }
                }
            }
        }
        all.into_iter().flatten().collect()
    }
}

/// The graph with a scan of what workers hand over in the place of each exit, and without what they do.
fn rest(graph: &Graph, fronts: &[Front], dispatch: &Arc<Dispatch>) -> Rest {
    let mut done: Vec<Option<(usize, usize)>> = vec![None; graph.nodes.len()];
    let mut shelves = Vec::new();
    for (at, front) in fronts.iter().enumerate() {
        for (place, one) in front.tree.taken.iter().enumerate() {
            done[one.node] = Some((at, place));
        }
        shelves.push(Shelf::new(dispatch, at, &front.leads));
    }
    let mut rest = Building::default();
    for (number, node) in graph.nodes.iter().enumerate() {
        let Some((at, place)) = done[number] else {
            let inputs = node.inputs.iter().map(|edge| rest.edges[edge]);
            let inputs = inputs.collect();
            rest.push(
                number,
                0..node.bound.outputs.len().max(1),
                GraphNode {
                    inputs,
                    ..node.clone()
                },
            );
            continue;
        };
        let front = &fronts[at];
        let exits = front.tree.exits.iter().enumerate();
        for (nth, exit) in exits.filter(|(_, exit)| exit.edge.0 == place) {
            // What gathers is there to combine what the tasks gathered.
            let from = match exit.gathers {
                true => front.tree.taken[place].inputs[0],
                false => exit.edge,
            };
            let (port, _) = front.given(from);
            let gathering = Gathering {
                shelf: shelves[at].clone(),
                exit: nth,
                port,
                reads: front.reads.clone(),
                snapshot: front.snapshot.clone(),
                expects: front.expects(exit),
            };
            let output = usize::from(exit.edge.1);
            rest.push(
                number,
                output..output + 1,
                GraphNode {
                    bound: Bound::new([port]),
                    op: Op::Scan {
                        recording: Live::new(gathering),
                        range: None,
                        segment: front.segment,
                    },
                    inputs: Vec::new(),
                },
            );
            if exit.gathers {
                let held = Combine(node.op.clone());
                let inputs = vec![(rest.nodes.len() - 1, 0)];
                rest.push(
                    number,
                    0..node.bound.outputs.len().max(1),
                    GraphNode {
                        op: Op::Hold(crate::Kept::new(held)),
                        inputs,
                        bound: node.bound.clone(),
                    },
                );
            }
        }
    }
    let called = rest
        .origin
        .iter()
        .map(|&node| (graph.nodes[node].op.name(), node));
    let called = called.collect();
    let outputs = graph.outputs.iter().map(|edge| rest.edges[edge]);
    Rest {
        graph: Graph {
            outputs: outputs.collect(),
            nodes: rest.nodes,
            called,
        },
        origin: rest.origin,
    }
}

/// A graph that stands for a part of another.
#[derive(Default)]
struct Building {
    nodes: Vec<GraphNode>,
    /// Of each node, whom it stands for.
    origin: Vec<usize>,
    /// Where each edge of the other graph is in this one.
    edges: HashMap<Edge, Edge>,
}

impl Building {
    /// Adds what gives some of the outputs of a node of the other graph.
    fn push(&mut self, origin: usize, outputs: Range<usize>, node: GraphNode) {
        let at = self.nodes.len();
        let single = outputs.len() == 1;
        for output in outputs {
            let own = if single { 0 } else { output as u16 };
            self.edges.insert((origin, output as u16), (at, own));
        }
        self.origin.push(origin);
        self.nodes.push(node);
    }
}
