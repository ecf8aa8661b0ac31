//! What of a tree there is memory for: pure.
//!
//! Where what comes out shows where the recording is cut, one worker and many must leave out the same and cut alike, and one
//! leaves what is held in this process where it is. So that is decided without what is held, and what is held comes in
//! only where tasks that were so decided have memory for it. Nor may the run's memory show: what is in tasks, and how long
//! they are, is decided there as if the run had what it has unless the caller says otherwise.

use super::tree::{Growing, Taken, Tree};
use crate::exec::MEMORY;
use crate::plan::Op;

/// Tasks that must not become smaller may give so many times as much, by what is held, as others: those that one worker has
/// under way still fit into what may wait.
const HELD: u64 = 4;

impl Growing<'_> {
    /// What was taken in, without that for which there is not enough memory.
    pub(super) fn tree(mut self) -> Tree {
        let tree = match self.taken.iter().any(|one| one.shows_cuts(self.graph)) {
            true => self.alike(),
            false => self.fitting(false),
        };
        for one in &self.taken {
            self.places[one.node] = None;
        }
        tree
    }

    /// Of what shows cuts, with cuts as one worker makes them.
    fn alike(&mut self) -> Tree {
        let all = self.taken.clone();
        let held = all.iter().any(|one| one.held);
        if held {
            self.keep(all.clone(), |one| !one.held);
        }
        let mut tree = self.fitting(true);
        let shows = tree.shows_cuts(self.graph);
        tree.shown = shows.then(|| tree.fixed(self.graph, self.options));
        if shows && !held {
            return tree;
        }
        let places = self.places.clone();
        self.keep(all, |one| one.held || places[one.node].is_some());
        match tree.shown {
            Some(samples) => self.beside(samples),
            None => self.fitting(false),
        }
    }

    /// What fits, without the operators that need most around; `shown`: whatever the run's memory is.
    fn fitting(&mut self, shown: bool) -> Tree {
        let (memory, mend) = match shown {
            true => (MEMORY, ", whatever memory= is, since where it is cut shows"),
            false => (self.options.memory, "; give more of it"),
        };
        loop {
            let tree = self.laid_out(None);
            let (most, needed) = (tree.most(memory), tree.reach.samples());
            if needed < most || self.taken.iter().all(Taken::reads) {
                return tree;
            }
            let name = self.give_up(self.needs_most());
            self.why.clear();
            self.ends(format!(
                "for {name} a task needs {needed} samples beside its own and has memory for {most}{mend}"
            ));
        }
    }

    /// What fits into tasks of so many samples, without what is held that makes most of them.
    fn beside(&mut self, samples: u64) -> Tree {
        loop {
            let tree = self.laid_out(Some(samples));
            let most = tree.most(self.options.memory).saturating_mul(HELD);
            let held = self.gives_most();
            let (Some(held), true) = (held, most <= samples.max(tree.reach.samples())) else {
                return tree;
            };
            let name = self.give_up(held);
            self.ends(format!(
                "{name} would make too much of tasks of {samples} samples, which are one worker's, too; give more memory"
            ));
        }
    }

    /// The place of the operator that needs most around.
    fn needs_most(&self) -> usize {
        let mut needs: Vec<f64> = Vec::with_capacity(self.taken.len());
        // Samples that were read for each index.
        let mut scales: Vec<f64> = Vec::with_capacity(self.taken.len());
        for one in &self.taken {
            let of = |values: &[f64], none: f64| {
                let before = one.inputs.iter().map(|&(from, _)| values[from]);
                before.fold(none, f64::max)
            };
            let scale = if one.reads() { 1.0 } else { of(&scales, 0.0) };
            needs.push(of(&needs, 0.0) + one.step.reach.samples() as f64 * scale);
            scales.push(scale * one.step.ratio.down() as f64 / one.step.ratio.up() as f64);
        }
        let behind = needs.iter().enumerate();
        let behind = behind.filter(|&(place, _)| !self.taken[place].reads());
        let most = behind.max_by(|a, b| a.1.total_cmp(b.1));
        most.map_or(0, |(place, _)| place)
    }

    /// The place of the operator that is held and by which most leaves; None if none is held.
    fn gives_most(&self) -> Option<usize> {
        let (bytes, exits) = (self.bytes(), self.exits());
        let held = self.taken.iter().enumerate();
        let held = held.filter(|(_, one)| matches!(self.graph.nodes[one.node].op, Op::Hold(_)));
        let leaving = held.map(|(place, _)| {
            let behind = self.behind(place);
            let leaving = exits.iter().filter(|exit| behind[exit.edge.0]);
            let leaving: f64 = leaving.map(|exit| bytes[exit.edge.0]).sum();
            (place, leaving)
        });
        let most = leaving.max_by(|a, b| a.1.total_cmp(&b.1));
        most.map(|(place, _)| place)
    }

    /// Of each place, whether it is that one or takes something that does.
    fn behind(&self, first: usize) -> Vec<bool> {
        let mut behind = vec![false; self.taken.len()];
        behind[first] = true;
        for place in first + 1..behind.len() {
            let inputs = &self.taken[place].inputs;
            behind[place] = inputs.iter().any(|&(from, _)| behind[from]);
        }
        behind
    }

    /// Takes out the operator of a place, and what is behind it; its name.
    fn give_up(&mut self, place: usize) -> &'static str {
        let node = self.taken[place].node;
        let taken = std::mem::take(&mut self.taken);
        self.keep(taken, |one| one.node != node);
        self.graph.nodes[node].op.name()
    }

    /// Takes in only what is wanted and has all before it.
    fn keep(&mut self, taken: Vec<Taken>, wanted: impl Fn(&Taken) -> bool) {
        let mut at: Vec<Option<usize>> = Vec::with_capacity(taken.len());
        self.taken.clear();
        for mut one in taken {
            let inputs = one.inputs.iter();
            let inputs = inputs.map(|&(from, output)| Some((at[from]?, output)));
            let inputs: Option<Vec<_>> = inputs.collect();
            let place = inputs.filter(|_| wanted(&one)).map(|inputs| {
                one.inputs = inputs;
                self.taken.len()
            });
            at.push(place);
            self.places[one.node] = place;
            if place.is_some() {
                self.taken.push(one);
            }
        }
    }
}
