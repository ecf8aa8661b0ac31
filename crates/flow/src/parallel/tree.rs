//! Which operators behind a scan, or several, are done in tasks: pure.
//!
//! From the scans on an operator is taken in if all that it takes is, and if it declares that it makes what belongs to a
//! portion of portions alone ([`step`](super::step)). So what is taken in is a chain, or a tree where several take from
//! one, or branches that meet again. Where one ends there is an exit, by which a task hands over what came that far. What
//! a task has to read beyond its portion adds up from the exits to the scan; what comes of it too much is cut off where
//! that begins to matter ([`reach`](super::reach)). What there is not memory for is left out ([`fit`](super::fit)). What remembers or gathers is not passed, and of what holds something of
//! this process only what says that it may be ([`Spread`](crate::Spread)).

use std::collections::{BTreeSet, HashMap};

use super::indices::Indices;
use super::reach::{Around, Cutoff, around, larger};
use super::step::{Step, combines_inexactly, gathers, joins, mixes};
use super::weight::bytes_of_sample;
use crate::exec::RunOptions;
use crate::graph::{Edge, Graph};
use crate::plan::Op;
use crate::{PortType, Reach};

/// Who takes from each node of a graph.
pub(super) type Takers = Vec<Vec<usize>>;

/// A node that tasks do.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Taken {
    /// Its number in the whole graph.
    pub(super) node: usize,
    /// Places of what it takes, and of which output.
    pub(super) inputs: Vec<Edge>,
    pub(super) step: Step,
    /// Indices of what it gives, of those that are read.
    pub(super) indices: Indices,
    /// By how much what it gives may differ from what one pass gives, against the largest value; 0: not at all.
    rel_err: f64,
    /// Whether something before it, or it itself, holds something of this process.
    pub(super) held: bool,
    /// Whether there are several streams in turn before it, or it makes them so.
    mixed: bool,
    /// The scans that it is behind, by their numbers in the whole graph, in order.
    pub(super) scans: Vec<usize>,
    /// Whether one of them leaves samples out between others that it gives.
    leaves_out: bool,
}

/// What a task reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) place: usize,
    /// Samples around its portion that a task needs of it.
    pub(super) reach: Reach,
}

/// Where what tasks make leaves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    /// By places.
    pub(super) edge: Edge,
    /// Whether that gathers, and what it has gathered of a task is what comes out.
    pub(super) gathers: bool,
}

/// What tasks do behind a scan or several, before anything is read.
#[derive(Debug, PartialEq)]
pub(super) struct Tree {
    /// The scans, and the operators behind them, both in the order of the whole graph.
    pub(super) taken: Vec<Taken>,
    pub(super) exits: Vec<Exit>,
    pub(super) scans: Vec<Scan>,
    /// Samples around its portion that a task needs, of any scan.
    pub(super) reach: Reach,
    /// Where what is given of them too much is cut off.
    pub(super) cutoffs: Vec<Cutoff>,
    /// Why it does not go on, in words.
    pub(super) why: Vec<String>,
    /// Bytes that come out of a sample, about.
    pub(super) bytes: f64,
    /// Samples that any run cuts it into, where that shows; else none.
    pub(super) shown: Option<u64>,
}

/// A tree while it is decided what is in it.
pub(super) struct Growing<'a> {
    pub(super) graph: &'a Graph,
    takers: &'a Takers,
    pub(super) options: &'a RunOptions<'a>,
    /// Of each node of the graph, its place among those that are taken in; all None between trees.
    pub(super) places: &'a mut Vec<Option<usize>>,
    pub(super) taken: Vec<Taken>,
    pub(super) why: Vec<String>,
    /// Why each node is not in tasks that takes something of them.
    pub(super) why_of: HashMap<usize, String>,
    /// Whether what holds something of this process is left out.
    pub(super) without_held: bool,
    /// Why some nodes cannot be done in tasks of all scans together.
    pub(super) refused: &'a HashMap<usize, String>,
}

impl<'a> Growing<'a> {
    /// Of some scans, in order.
    pub(super) fn new(
        graph: &'a Graph,
        takers: &'a Takers,
        options: &'a RunOptions<'a>,
        places: &'a mut Vec<Option<usize>>,
        scans: &[usize],
        refused: &'a HashMap<usize, String>,
    ) -> Self {
        let mut growing = Self {
            graph,
            takers,
            options,
            places,
            taken: Vec::new(),
            why: Vec::new(),
            why_of: HashMap::new(),
            without_held: false,
            refused,
        };
        for &scan in scans {
            let recording = graph.nodes[scan].op.recording();
            growing.places[scan] = Some(growing.taken.len());
            growing.taken.push(Taken {
                node: scan,
                inputs: Vec::new(),
                step: Step::alone(),
                indices: Indices::default(),
                rel_err: 0.0,
                held: false,
                mixed: false,
                scans: vec![scan],
                leaves_out: recording.is_some_and(|recording| recording.0.leaves_out()),
            });
        }
        growing
    }

    /// The same, with all behind the scans that can be.
    pub(super) fn grown(mut self) -> Self {
        let again = |one: &Taken| {
            let recording = self.graph.nodes[one.node].op.recording();
            recording.is_some_and(|recording| recording.0.in_portions())
        };
        match self.taken.iter().all(again) {
            true => self.grow(),
            false => self.why = vec!["it can be read only once".into()],
        }
        self
    }

    fn grow(&mut self) {
        // In the order of the graph, so that what a node takes was looked at before it.
        let scans = self.taken.iter().flat_map(|one| &self.takers[one.node]);
        let mut open: BTreeSet<usize> = scans.copied().collect();
        while let Some(at) = open.pop_first() {
            match self.taken(at) {
                Ok(taken) => {
                    self.places[at] = Some(self.taken.len());
                    self.taken.push(taken);
                    open.extend(&self.takers[at]);
                }
                Err(why) => {
                    self.why_of.insert(at, why.clone());
                    self.ends(why);
                }
            }
        }
        if self.why.is_empty() {
            self.why.push("nothing takes what it gives".into());
        }
    }

    pub(super) fn ends(&mut self, why: String) {
        if !self.why.contains(&why) {
            self.why.push(why);
        }
    }

    /// A node as one that tasks do, or why it is none.
    fn taken(&self, at: usize) -> Result<Taken, String> {
        let node = &self.graph.nodes[at];
        let name = node.op.name();
        if self.without_held && matches!(node.op, Op::Hold(_)) {
            return Err("is called here".into());
        }
        let inputs = node.inputs.iter();
        let inputs = inputs.map(|&(from, output)| Some((self.places[from]?, output)));
        let Some(inputs) = inputs.collect::<Option<Vec<Edge>>>() else {
            let why = || format!("{name} takes also what is not in tasks of this scan");
            return Err(self.refused.get(&at).cloned().unwrap_or_else(why));
        };
        let before = || inputs.iter().map(|&(place, _)| &self.taken[place]);
        let gatherer = before().find(|one| gathers(&self.graph.nodes[one.node]));
        if let Some(one) = gatherer {
            let first = self.graph.nodes[one.node].op.name();
            return Err(format!("{first} is complete at the end"));
        }
        let ports = inputs.iter().map(|&(place, output)| {
            let from = &self.graph.nodes[self.taken[place].node];
            from.bound.outputs[usize::from(output)]
        });
        let ports: Vec<PortType> = ports.collect();
        let step = joins(node, &ports, self.options).map_err(|why| format!("{name} {why}"))?;
        let leaves_out = before().any(|one| one.leaves_out);
        if !step.ratio.is_one() && leaves_out {
            let why = "must know what it gave before what the selection leaves out";
            return Err(format!("{name} {why}"));
        }
        let meets = inputs.len() > 1;
        if meets && leaves_out {
            return Err(format!(
                "{name} lets streams meet of ranges that may go back"
            ));
        }
        let mixed = before().any(|one| one.mixed);
        if mixed && (meets || step.continues) {
            return Err(format!("{name} is behind streams that go on in turn"));
        }
        let indices = self.taken[inputs.first().map_or(0, |&(place, _)| place)]
            .indices
            .clone();
        if before().any(|one| one.indices != indices) {
            return Err(format!(
                "{name} takes indices that were made in several ways"
            ));
        }
        let held = before().any(|one| one.held) || matches!(node.op, Op::Hold(_));
        if held && (step.rel_err > 0.0 || combines_inexactly(node)) {
            // With one worker there would be less before it.
            return Err(format!(
                "{name} shows where the recording is cut, and is behind what one worker does not do in tasks"
            ));
        }
        let rel_err = before().map(|one| one.rel_err).sum::<f64>() + step.rel_err;
        if rel_err > self.options.tolerance.max(0.0) {
            return Err(format!(
                "{name} settles: in tasks it would be within {rel_err:.0e} of one pass, which tolerance= has to grant"
            ));
        }
        let mut scans: Vec<usize> = before().flat_map(|one| &one.scans).copied().collect();
        scans.sort_unstable();
        scans.dedup();
        Ok(Taken {
            node: at,
            inputs: inputs.clone(),
            step,
            indices: indices.then(step.ratio),
            rel_err,
            held,
            mixed: mixed || mixes(node),
            scans,
            leaves_out,
        })
    }

    /// What was taken in; `shown` as in [`Tree`].
    pub(super) fn laid_out(&self, shown: Option<u64>) -> Tree {
        let exits = self.exits();
        let Around { needs, cutoffs } = around(&self.taken, &exits);
        let scans = self.taken.iter().enumerate().filter(|(_, one)| one.reads());
        let scans = scans.map(|(place, _)| Scan {
            place,
            reach: needs[place],
        });
        let scans: Vec<Scan> = scans.collect();
        let given = self.bytes();
        let bytes = exits.iter().map(|exit| given[exit.edge.0]).sum::<f64>();
        Tree {
            taken: self.taken.clone(),
            exits,
            reach: scans
                .iter()
                .fold(Reach::default(), |all, scan| larger(all, scan.reach)),
            scans,
            cutoffs,
            why: self.why.clone(),
            bytes: bytes.max(1e-9),
            shown,
        }
    }

    /// Bytes that each of what was taken in gives for a sample that is read, about.
    pub(super) fn bytes(&self) -> Vec<f64> {
        let nodes = self.taken.iter();
        bytes_of_sample(nodes.map(|one| (&one.inputs[..], &self.graph.nodes[one.node].bound)))
    }

    /// Edges that somebody else takes, or nobody.
    pub(super) fn exits(&self) -> Vec<Exit> {
        let mut exits = Vec::new();
        for (place, one) in self.taken.iter().enumerate() {
            let node = &self.graph.nodes[one.node];
            let gathers = gathers(node);
            let outside = |output: u16| {
                let edge = (one.node, output);
                let takes = |&at: &usize| self.graph.nodes[at].inputs.contains(&edge);
                let mut takers = self.takers[one.node].iter().filter(|at| takes(at));
                takers.any(|&at| self.places[at].is_none()) || self.graph.outputs.contains(&edge)
            };
            let outputs = 0..node.bound.outputs.len().max(1) as u16;
            let leaf = gathers || self.takers[one.node].is_empty();
            for output in outputs.filter(|&output| outside(output) || leaf && output == 0) {
                let edge = (place, output);
                exits.push(Exit { edge, gathers });
            }
        }
        exits
    }
}

impl Taken {
    /// Whether it is a scan.
    pub(super) fn reads(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Whether where a recording is cut shows in what it gives.
    pub(super) fn shows_cuts(&self, graph: &Graph) -> bool {
        self.rel_err > 0.0 || combines_inexactly(&graph.nodes[self.node])
    }
}

impl Tree {
    /// Whether where a recording is cut shows in what comes out.
    pub(super) fn shows_cuts(&self, graph: &Graph) -> bool {
        self.taken.iter().any(|one| one.shows_cuts(graph))
    }

    /// Whether nothing comes out but what was gathered.
    pub(super) fn gathers(&self) -> bool {
        self.exits.iter().all(|exit| exit.gathers)
    }
}
