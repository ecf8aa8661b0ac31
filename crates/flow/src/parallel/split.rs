//! A graph in two: what workers do, each for itself, and the rest. Pure but for asking recordings for their snapshots.

use std::sync::Arc;

use super::cells::Cutting;
use super::dispatch::{Dispatch, Leads, WINDOW};
use super::forest::trees;
use super::indices::Indices;
use super::places::places;
use super::recorded::Recorded;
use super::rest::Rest;
use super::size::TaskSize;
use super::tree::{Exit, Tree};
use super::walk::Ahead;
use super::worker::Done;
use crate::exec::RunOptions;
use crate::exec::axis::Axis;
use crate::graph::{Edge, Graph, GraphNode};
use crate::report::OperatorReport;
use crate::{PortType, RunError};

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
    /// Whether it matters which block of which source comes first.
    pub(super) by_block: bool,
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
    pub(super) fn read_by(&self, edge: Edge) -> &Recorded {
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
    pub(super) fn total(&self) -> u64 {
        self.recordings.iter().map(|one| one.snapshot.total()).sum()
    }

    /// What comes out by an edge, and its indices of those that are read.
    pub(super) fn given(&self, (place, output): Edge) -> (PortType, &Indices) {
        let port = self.nodes[place].bound.outputs[usize::from(output)];
        (port, &self.tree.taken[place].indices)
    }

    /// When in what is read the block begins that an operator failed with.
    pub(super) fn met_at(&self, error: &RunError) -> Option<f64> {
        let RunError::Operator {
            node,
            range: Some(range),
            ..
        } = error
        else {
            return None;
        };
        let place = self.tree.taken.iter().position(|one| one.node == *node)?;
        let given = self.tree.taken[place].inputs.first();
        let (port, _) = self.given(given.copied().unwrap_or((place, 0)));
        Some(Axis::of(Some(&port)).time(range.start))
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
    pub(super) fn expects(&self, exit: &Exit) -> Option<u64> {
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
                by_block: graph.ends_before_sources(),
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
            rest: Rest::of(graph, &fronts, &dispatch),
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
