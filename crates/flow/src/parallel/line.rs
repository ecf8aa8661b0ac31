//! A front as a worker runs it: a graph over a recording of portions, with cut-offs, that hands over by its exits.

use std::sync::{Arc, Mutex, PoisonError};

use isochrony_store::Reading;

use super::dispatch::{Leads, Leaving, Task};
use super::log::{Event, HandOver, Log};
use super::portions::{Current, Portions};
use super::split::{Front, renumbered};
use super::trim::{Kept, Trim};
use crate::exec::pool::Pool;
use crate::exec::{Run, RunOptions};
use crate::graph::{Edge, Graph, GraphNode};
use crate::plan::Op;
use crate::report::Report;
use crate::{Bound, Contract, Held, Live, PortType, Reach, RunError};

/// A front, laid out.
pub(super) struct Line {
    pub(super) run: Run,
    /// What is read of each recording of the front.
    pub(super) currents: Vec<Arc<Mutex<Current>>>,
    /// What goes on where something is cut off: of which edge, and how much around the portion.
    cuts: Vec<(Kept, Edge, Reach)>,
    exits: Vec<Leaves>,
    /// Of each exit, the last node before it.
    ends: Vec<usize>,
    /// Of each exit, whether what leads only there was ended when the last task began.
    ended: Vec<bool>,
    wiring: Wiring,
}

/// How a task's results leave it by an exit.
enum Leaves {
    /// As they come.
    Handed(Log),
    /// Gathered by the node.
    Gathered(usize),
}

/// Where the nodes of a front are in a worker's graph.
struct Wiring {
    /// Of each place of the front.
    at: Vec<usize>,
    /// Of each node of the worker's graph, whose it is in the whole one.
    origin: Vec<usize>,
}

impl Line {
    /// `pool`: the memory of one that failed.
    pub(super) fn new(
        front: &Front,
        options: &RunOptions<'_>,
        pool: Option<Pool>,
    ) -> Result<Self, RunError> {
        let currents: Vec<Arc<Mutex<Current>>> =
            front.recordings.iter().map(|_| Arc::default()).collect();
        let portions = currents.iter().zip(&front.recordings);
        let portions = portions.map(|(current, one)| Live::new(Portions::new(current, &one.reads)));
        let mut made = Making::default();
        made.nodes(front, &portions.collect::<Vec<_>>());
        made.exits(front);
        let Making {
            graph: nodes,
            origin,
            at,
            cuts,
            exits,
            ends,
            ..
        } = made;
        let graph = Graph {
            outputs: Vec::new(),
            nodes,
            called: Vec::new(),
        };
        let wiring = Wiring { at, origin };
        let run = Run::new(&graph, options);
        let run = run.map_err(|error| renumbered(error, &wiring.origin))?;
        Ok(Self {
            run: run.with_pool(pool).by_block(front.by_block),
            currents,
            cuts,
            exits,
            ended: vec![false; ends.len()],
            ends,
            wiring,
        })
    }

    /// Drives a portion through it.
    pub(super) fn task(
        &mut self,
        front: &Front,
        task: &Task,
        options: &RunOptions<'_>,
    ) -> Result<(), RunError> {
        let range = &task.portion.range;
        for (kept, edge, reach) in &self.cuts {
            let (_, indices) = front.given(*edge);
            let start = indices
                .of(range.start)
                .saturating_sub_unsigned(reach.before);
            let end = indices.of(range.end).saturating_add_unsigned(reach.after);
            kept.set(start..end);
        }
        for (leaves, exit) in self.exits.iter().zip(&front.tree.exits) {
            if let Leaves::Handed(log) = leaves {
                let (_, indices) = front.given(exit.edge);
                log.begin(indices.of(range.start));
            }
        }
        self.ended = front.leads.iter().map(Leads::closed).collect();
        let closed = self.ends.iter().zip(&self.ended);
        let closed = closed.filter(|(_, ended)| **ended);
        self.run.end(closed.map(|(&node, _)| node));
        let ran = self.run.task(options);
        ran.map_err(|error| renumbered(error, &self.wiring.origin))
    }

    /// What a task gave; of one that failed nothing that was gathered.
    pub(super) fn leaving(&mut self, front: &Front, task: &Task, failed: bool) -> Vec<Leaving> {
        let end = task.portion.range.end;
        let run = &mut self.run;
        let exits = self.exits.iter().zip(&front.tree.exits);
        let exits = exits.map(|(leaves, exit)| {
            let (_, indices) = front.given(exit.edge);
            let mut upto = Some(indices.of(end));
            let events = match leaves {
                Leaves::Handed(log) => {
                    let end = indices.of(end);
                    if failed {
                        upto = upto.min(log.upto());
                    }
                    let mut events = log.take();
                    for event in &mut events {
                        // What is read behind the portion is the next task's.
                        if let Event::Upto(upto) = event {
                            *upto = end.min(*upto);
                        }
                    }
                    events
                }
                // Nobody is told of breaks in what has no indices.
                &Leaves::Gathered(node) => {
                    upto = upto.filter(|_| !failed);
                    let partial = (!failed).then(|| run.partial(node)).flatten();
                    partial.into_iter().map(Event::Item).collect()
                }
            };
            Leaving { events, upto }
        });
        exits.collect()
    }

    /// The exits to which an operator leads that failed in the last task; none where it had been ended, or where it is not
    /// known which it was: then that matters in any case.
    pub(super) fn leads(&self, front: &Front, error: &RunError) -> Vec<Leads> {
        let RunError::Operator { node, .. } = error else {
            return Vec::new();
        };
        let behind: Vec<usize> = front.exits_behind(*node).collect();
        match behind.iter().all(|&exit| self.ended[exit]) {
            true => Vec::new(),
            false => behind
                .iter()
                .map(|&exit| front.leads[exit].clone())
                .collect(),
        }
    }

    /// How each recording was read.
    pub(super) fn readings(&self) -> Vec<Option<Reading>> {
        let currents = self.currents.iter();
        let currents = currents.map(|one| one.lock().unwrap_or_else(PoisonError::into_inner));
        currents.map(|one| one.reading()).collect()
    }

    /// What its operators did, in the order of the front's.
    pub(super) fn report(&self, busy: std::time::Duration) -> Report {
        let mut report = self.run.report(busy);
        let at = self.wiring.at.iter();
        report.operators = at.map(|&node| report.operators[node].clone()).collect();
        report
    }
}

/// What a worker's graph is made of.
#[derive(Default)]
struct Making {
    graph: Vec<GraphNode>,
    origin: Vec<usize>,
    at: Vec<usize>,
    cuts: Vec<(Kept, Edge, Reach)>,
    exits: Vec<Leaves>,
    ends: Vec<usize>,
    /// Of each cut-off of the front, its node, once it is there.
    cut: Vec<Option<usize>>,
}

impl Making {
    fn push(&mut self, origin: usize, node: GraphNode) -> usize {
        self.origin.push(origin);
        self.graph.push(node);
        self.graph.len() - 1
    }

    /// A node behind an edge that gives what it takes.
    fn behind(&mut self, from: Edge, port: PortType, held: impl Held + 'static) -> usize {
        let origin = self.origin[from.0];
        self.push(
            origin,
            GraphNode {
                op: Op::Hold(crate::Kept::new(held)),
                inputs: vec![from],
                bound: Bound::new([port]).contract(Contract::Sequential),
            },
        )
    }

    /// `portions`: what is read in the place of each recording.
    fn nodes(&mut self, front: &Front, portions: &[Live]) {
        self.cut = vec![None; front.tree.cutoffs.len()];
        for (place, one) in front.tree.taken.iter().enumerate() {
            let mut node = front.node(place).clone();
            if let Op::Scan { recording, .. } = &mut node.op
                && let Some(nth) = front.recording(place)
            {
                *recording = portions[nth].clone();
            }
            let inputs = one.inputs.iter();
            let inputs = inputs.map(|&edge| self.from(front, edge, Some(place)));
            node.inputs = inputs.collect();
            let at = self.push(one.node, node);
            self.at.push(at);
        }
    }

    fn exits(&mut self, front: &Front) {
        for exit in &front.tree.exits {
            let leaves = match exit.gathers {
                true => {
                    let node = self.at[exit.edge.0];
                    self.ends.push(node);
                    Leaves::Gathered(node)
                }
                false => {
                    let (log, from) = (Log::default(), self.from(front, exit.edge, None));
                    let end = self.behind(from, front.given(exit.edge).0, HandOver(log.clone()));
                    self.ends.push(end);
                    Leaves::Handed(log)
                }
            };
            self.exits.push(leaves);
        }
    }

    /// What a place, or who takes what is handed over, takes of an edge: all of it, or what goes on where it is cut off.
    fn from(&mut self, front: &Front, edge: Edge, taker: Option<usize>) -> Edge {
        let own = (self.at[edge.0], edge.1);
        let cuts = front.tree.cutoffs.iter().enumerate();
        let mut cuts = cuts.filter(|(_, cut)| cut.edge == edge);
        let wanted = cuts.find(|(_, cut)| match taker {
            Some(place) => cut.takers.contains(&place),
            None => cut.exit,
        });
        let Some((nth, cut)) = wanted else {
            return own;
        };
        if let Some(node) = self.cut[nth] {
            return (node, 0);
        }
        let kept = Kept::default();
        self.cuts.push((kept.clone(), edge, cut.kept));
        let node = self.behind(own, front.given(edge).0, Trim(kept));
        self.cut[nth] = Some(node);
        (node, 0)
    }
}
