//! A graph in two: what workers do, each for itself, and the rest. Pure but for asking recordings for their snapshots.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::cells::Cutting;
use super::combine::Combine;
use super::dispatch::{Dispatch, Leads, WINDOW};
use super::forest::trees;
use super::gathering::{Gathering, Shelf};
use super::indices::Indices;
use super::places::places;
use super::recorded::Recorded;
use super::size::TaskSize;
use super::tree::{Exit, Tree};
use super::walk::Ahead;
use super::worker::Done;
use crate::exec::RunOptions;
use crate::graph::{Edge, Graph, GraphNode};
use crate::plan::Op;
use crate::report::OperatorReport;
use crate::{Bound, Live, PortType, RunError};

/// What workers do behind a scan, or several that are read together.
pub(super) struct Front {
    pub(super) tree: Tree,
    /// Of what was taken in, by place.
    nodes: Vec<GraphNode>,
    task: TaskSize,
    /// In the order of their scans.
    pub(super) recordings: Vec<Recorded>,
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
    pub(super) fn node(&self, place: usize) -> &GraphNode {
        &self.nodes[place]
    }

    /// The recording that a place of the tree reads.
    pub(super) fn recording(&self, place: usize) -> Option<usize> {
        let node = self.tree.taken[place].node;
        self.recordings.iter().position(|one| one.node == node)
    }

    /// The recording whose indices and times are those of what comes out by an edge: of those before it that of the same name,
    /// else that of the same clock.
    fn read_by(&self, edge: Edge) -> &Recorded {
        let before = &self.tree.taken[edge.0].scans;
        let before = || {
            self.recordings
                .iter()
                .filter(|one| before.contains(&one.node))
        };
        let (port, _) = self.given(edge);
        let wanted = port.stream();
        let own = |one: &&Recorded| one.reads.0.port().stream();
        let clock = before().find(|one| {
            let both = own(one).zip(wanted);
            both.is_some_and(|(a, b)| a.timebase.origin().0 == b.timebase.origin().0)
        });
        let name = before().find(|one| {
            let both = own(one).zip(wanted);
            both.is_some_and(|(a, b)| {
                a.name == b.name && a.timebase.origin().0 == b.timebase.origin().0
            })
        });
        name.or(clock).unwrap_or(&self.recordings[0])
    }

    /// How what it reads is cut into tasks.
    fn cutting(&self) -> Cutting {
        let recordings = self.recordings.iter();
        let reads = recordings.map(|one| (one.snapshot.clone(), one.segment));
        Cutting {
            reads: reads.collect(),
            samples: self.task.samples,
            bytes: self.task.bytes,
        }
    }

    /// Has what it reads read ahead of its tasks.
    fn look_ahead(&mut self, cutting: &Cutting, workers: usize) -> Result<(), RunError> {
        let recordings = self.recordings.iter_mut().zip(Ahead::of(cutting));
        recordings
            .into_iter()
            .try_for_each(|(one, tasks)| one.foresee(tasks, workers))
    }

    /// Samples of all recordings.
    fn total(&self) -> u64 {
        self.recordings.iter().map(|one| one.snapshot.total()).sum()
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
        let read = &self.recordings[self.recording(place)?];
        (!exit.gathers).then(|| indices.count(read.snapshot.total()))
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
            let several = tree.scans.len() > 1;
            let recordings = tree
                .scans
                .iter()
                .map(|scan| Recorded::of(graph, tree.taken[scan.place].node, scan.reach, several));
            let recordings: Result<Option<Vec<Recorded>>, RunError> = recordings.collect();
            let Some(recordings) = recordings? else {
                continue;
            };
            let totals = recordings.iter().map(|one| one.snapshot.total());
            let task = tree.task_of(task, totals.max().unwrap_or(0), graph);
            let nodes = tree.taken.iter().map(|one| graph.nodes[one.node].clone());
            fronts.push(Front {
                nodes: nodes.collect(),
                task,
                recordings,
                leads: tree.exits.iter().map(|_| Leads::default()).collect(),
                tree,
            });
        }
        if fronts.is_empty() {
            return Ok(None);
        }
        let mut cuttings = Vec::with_capacity(fronts.len());
        for front in &mut fronts {
            let cutting = front.cutting();
            front.look_ahead(&cutting, options.workers.max(1))?;
            cuttings.push(cutting);
        }
        let (window, memory) = (WINDOW * options.workers.max(1), options.memory / 8);
        let dispatch = Arc::new(Dispatch::new(cuttings, window, memory));
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
            let read = front.read_by(from);
            let gathering = Gathering {
                shelf: shelves[at].clone(),
                exit: nth,
                port,
                reads: read.reads.clone(),
                snapshot: read.snapshot.clone(),
                total: front.total(),
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
                        segment: read.segment,
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
