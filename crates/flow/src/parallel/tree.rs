//! Which operators behind a scan are done in tasks: pure.
//!
//! From the scan on an operator is taken in if all that it takes is, and if it declares that it makes what belongs to a
//! portion of portions alone ([`step`](super::step)). So what is taken in is a chain, or a tree where several take from
//! one, or branches that meet again. Where one ends there is an exit, by which a task hands over what came that far. What
//! a task has to read beyond its portion adds up from the exits to the scan; what comes of it too much is cut off where
//! that begins to matter ([`reach`](super::reach)). What remembers or gathers is not passed, and of what holds something of
//! this process only what says that it may be ([`Spread`](crate::Spread)).

use std::collections::BTreeSet;

use super::indices::Indices;
use super::reach::{Around, Cutoff, around};
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
    held: bool,
    /// Whether there are several streams in turn before it, or it makes them so.
    mixed: bool,
}

/// Where what tasks make leaves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    /// By places.
    pub(super) edge: Edge,
    /// Whether that gathers, and what it has gathered of a task is what comes out.
    pub(super) gathers: bool,
}

/// What tasks do behind a scan, before anything is read.
#[derive(Debug, PartialEq)]
pub(super) struct Tree {
    /// The scan, and the operators behind it, in the order of the whole graph.
    pub(super) taken: Vec<Taken>,
    pub(super) exits: Vec<Exit>,
    /// Samples around its portion that a task needs.
    pub(super) reach: Reach,
    /// Where what is given of them too much is cut off.
    pub(super) cutoffs: Vec<Cutoff>,
    /// Why it does not go on, in words.
    pub(super) why: Vec<String>,
    /// Bytes that come out of a sample, about.
    pub(super) bytes: f64,
    /// Samples that one worker could cut it into, where that shows; else none.
    pub(super) shown: Option<u64>,
}

pub(super) fn takers(graph: &Graph) -> Takers {
    let mut takers = vec![Vec::new(); graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for &(from, _) in &node.inputs {
            takers[from].push(at);
        }
    }
    takers
}

/// The tree of each scan.
pub(super) fn trees(graph: &Graph, options: &RunOptions<'_>) -> Vec<Tree> {
    let takers = takers(graph);
    let mut places = vec![None; graph.nodes.len()];
    let scans = (0..graph.nodes.len()).filter(|&node| graph.nodes[node].op.recording().is_some());
    scans
        .map(|scan| Growing::new(graph, &takers, options, &mut places, scan).tree())
        .collect()
}

struct Growing<'a> {
    graph: &'a Graph,
    takers: &'a Takers,
    options: &'a RunOptions<'a>,
    /// Of each node of the graph, its place among those that are taken in; all None between trees.
    places: &'a mut Vec<Option<usize>>,
    taken: Vec<Taken>,
    why: Vec<String>,
    /// Whether the recording leaves samples out between others that it gives.
    leaves_out: bool,
}

impl<'a> Growing<'a> {
    fn new(
        graph: &'a Graph,
        takers: &'a Takers,
        options: &'a RunOptions<'a>,
        places: &'a mut Vec<Option<usize>>,
        scan: usize,
    ) -> Self {
        let recording = graph.nodes[scan].op.recording();
        places[scan] = Some(0);
        let mut growing = Self {
            graph,
            takers,
            options,
            places,
            taken: vec![Taken {
                node: scan,
                inputs: Vec::new(),
                step: Step::alone(),
                indices: Indices::default(),
                rel_err: 0.0,
                held: false,
                mixed: false,
            }],
            why: Vec::new(),
            leaves_out: recording.is_some_and(|recording| recording.0.leaves_out()),
        };
        match recording.is_some_and(|recording| recording.0.in_portions()) {
            true => growing.grow(scan),
            false => growing.why = vec!["it can be read only once".into()],
        }
        growing
    }

    /// Takes in all behind the scan that can be.
    fn grow(&mut self, scan: usize) {
        // In the order of the graph, so that what a node takes was looked at before it.
        let mut open = BTreeSet::from_iter(self.takers[scan].iter().copied());
        while let Some(at) = open.pop_first() {
            match self.taken(at) {
                Ok(taken) => {
                    self.places[at] = Some(self.taken.len());
                    self.taken.push(taken);
                    open.extend(&self.takers[at]);
                }
                Err(why) => self.ends(why),
            }
        }
        if self.why.is_empty() {
            self.why.push("nothing takes what it gives".into());
        }
    }

    fn ends(&mut self, why: String) {
        if !self.why.contains(&why) {
            self.why.push(why);
        }
    }

    /// A node as one that tasks do, or why it is none.
    fn taken(&self, at: usize) -> Result<Taken, String> {
        let node = &self.graph.nodes[at];
        let name = node.op.name();
        let inputs = node.inputs.iter();
        let inputs = inputs.map(|&(from, output)| Some((self.places[from]?, output)));
        let Some(inputs) = inputs.collect::<Option<Vec<Edge>>>() else {
            return Err(format!(
                "{name} takes also what is not in tasks of this scan"
            ));
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
        if !step.ratio.is_one() && self.leaves_out {
            let why = "must know what it gave before what the selection leaves out";
            return Err(format!("{name} {why}"));
        }
        let meets = inputs.len() > 1;
        if meets && self.leaves_out {
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
        let held = before().any(|one| one.held);
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
        Ok(Taken {
            node: at,
            inputs: inputs.clone(),
            step,
            indices: indices.then(step.ratio),
            rel_err,
            held: held || matches!(node.op, Op::Hold(_)),
            mixed: mixed || mixes(node),
        })
    }

    /// What was taken in, without that for which there is not enough memory.
    fn tree(mut self) -> Tree {
        loop {
            let tree = self.laid_out();
            let (most, needed) = (tree.most(self.options), tree.reach.samples());
            if needed < most || self.taken.len() == 1 {
                self.taken
                    .iter()
                    .for_each(|one| self.places[one.node] = None);
                return tree;
            }
            let last = self.graph.nodes[self.give_up()].op.name();
            self.why.clear();
            self.ends(format!(
                "for {last} a task needs {needed} samples beside its own and has memory for {most}; give more of it"
            ));
        }
    }

    fn laid_out(&self) -> Tree {
        let exits = self.exits();
        let Around { reach, cutoffs } = around(&self.taken, &exits);
        let bounds = self
            .taken
            .iter()
            .map(|one| (&one.inputs[..], &self.graph.nodes[one.node].bound));
        let bytes = bytes_of_sample(bounds, &exits);
        let mut tree = Tree {
            taken: self.taken.clone(),
            exits,
            reach,
            cutoffs,
            why: self.why.clone(),
            bytes,
            shown: None,
        };
        if tree.shows_cuts(self.graph) {
            tree.shown = Some(self.alone().map_or_else(
                || tree.wanted(self.graph, self.options),
                |alone| alone.wanted(self.graph, self.options),
            ));
        }
        tree
    }

    /// What one worker would do of it, if that is less.
    fn alone(&self) -> Option<Tree> {
        if !self.taken.iter().any(|one| one.held) {
            return None;
        }
        let mut at = vec![None; self.taken.len()];
        let mut kept: Vec<Taken> = Vec::new();
        for (place, one) in self.taken.iter().enumerate().filter(|(_, one)| !one.held) {
            at[place] = Some(kept.len());
            let inputs = one.inputs.iter();
            let inputs = inputs.filter_map(|&(from, output)| Some((at[from]?, output)));
            kept.push(Taken {
                inputs: inputs.collect(),
                ..one.clone()
            });
        }
        let mut places = vec![None; self.graph.nodes.len()];
        for (place, one) in kept.iter().enumerate() {
            places[one.node] = Some(place);
        }
        let less = Growing {
            places: &mut places,
            taken: kept,
            why: Vec::new(),
            ..*self
        };
        Some(less.laid_out())
    }

    /// Edges that somebody else takes, or nobody.
    fn exits(&self) -> Vec<Exit> {
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

    /// Takes out the operator that needs most around, and what is behind it; its number.
    fn give_up(&mut self) -> usize {
        let mut needs: Vec<f64> = Vec::with_capacity(self.taken.len());
        // Samples that were read for each index.
        let mut scales: Vec<f64> = Vec::with_capacity(self.taken.len());
        for one in &self.taken {
            let of = |values: &[f64], none: f64| {
                let before = one.inputs.iter().map(|&(from, _)| values[from]);
                before.fold(none, f64::max)
            };
            let scale = if one.inputs.is_empty() {
                1.0
            } else {
                of(&scales, 0.0)
            };
            needs.push(of(&needs, 0.0) + one.step.reach.samples() as f64 * scale);
            scales.push(scale * one.step.ratio.down() as f64 / one.step.ratio.up() as f64);
        }
        let behind = needs.iter().enumerate().skip(1);
        let last = behind
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map_or(0, |(place, _)| place);
        let mut gone = vec![false; self.taken.len()];
        gone[last] = true;
        for place in last + 1..gone.len() {
            let inputs = &self.taken[place].inputs;
            gone[place] = inputs.iter().any(|&(from, _)| gone[from]);
        }
        let node = self.taken[last].node;
        let mut at = vec![0; gone.len()];
        let mut kept: Vec<Taken> = Vec::new();
        for (place, mut one) in std::mem::take(&mut self.taken).into_iter().enumerate() {
            self.places[one.node] = (!gone[place]).then_some(kept.len());
            at[place] = kept.len();
            if !gone[place] {
                one.inputs
                    .iter_mut()
                    .for_each(|(from, _)| *from = at[*from]);
                kept.push(one);
            }
        }
        self.taken = kept;
        node
    }
}

impl Tree {
    pub(super) fn scan(&self) -> usize {
        self.taken[0].node
    }

    /// Whether where a recording is cut shows in what comes out.
    pub(super) fn shows_cuts(&self, graph: &Graph) -> bool {
        let shows = |one: &Taken| one.rel_err > 0.0 || combines_inexactly(&graph.nodes[one.node]);
        self.taken.iter().any(shows)
    }

    /// Whether nothing comes out but what was gathered.
    pub(super) fn gathers(&self) -> bool {
        self.exits.iter().all(|exit| exit.gathers)
    }
}
