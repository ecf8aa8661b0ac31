//! What is left of a graph for the caller's thread: exits of fronts are its sources.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::combine::Combine;
use super::dispatch::Dispatch;
use super::gathering::{Gathering, Shelf};
use super::split::Front;
use crate::graph::{Edge, Graph, GraphNode};
use crate::plan::Op;
use crate::{Bound, Live};

/// What is left for the caller's thread.
pub(super) struct Rest {
    pub(super) graph: Graph,
    /// Numbers of its nodes in the whole graph.
    pub(super) origin: Vec<usize>,
    /// Of each node, by which scan of the whole graph it is asked where several are as far.
    pub(super) asked: Vec<usize>,
}

impl Rest {
    /// The graph with a scan of what workers hand over in the place of each exit, and without what they do.
    pub(super) fn of(graph: &Graph, fronts: &[Front], dispatch: &Arc<Dispatch>) -> Self {
        let mut done: Vec<Option<(usize, usize)>> = vec![None; graph.nodes.len()];
        let mut shelves = Vec::new();
        for (at, front) in fronts.iter().enumerate() {
            for (place, one) in front.tree.taken.iter().enumerate() {
                done[one.node] = Some((at, place));
            }
            shelves.push(Shelf::new(dispatch, at, front));
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
                // What comes of several is there when the last has been asked.
                let scans = &front.tree.taken[exit.edge.0].scans;
                rest.asked
                    .push((rest.nodes.len(), scans.last().copied().unwrap_or(0)));
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
        let mut asked = rest.origin.clone();
        for &(node, scan) in &rest.asked {
            asked[node] = scan;
        }
        Self {
            asked,
            graph: Graph {
                outputs: outputs.collect(),
                nodes: rest.nodes,
                called,
            },
            origin: rest.origin,
        }
    }
}

/// A graph that stands for a part of another.
#[derive(Default)]
struct Building {
    nodes: Vec<GraphNode>,
    /// Of each node, whom it stands for.
    origin: Vec<usize>,
    /// Exits, and by which scan each is asked.
    asked: Vec<(usize, usize)>,
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
