//! Which scans are read together, so that what they give meets in tasks: pure.
//!
//! Scans belong together whose streams meet at an operator that tasks can do: by equal indices, or in turn. What is held in
//! this process brings none together of which one shows where it is cut: where that is must not depend on what one worker
//! leaves where it is.

use std::collections::HashMap;

use super::tree::{Growing, Taken, Takers, Tree};
use crate::exec::RunOptions;
use crate::graph::Graph;
use crate::plan::Op;

/// The trees of all scans.
pub(super) fn trees(graph: &Graph, options: &RunOptions<'_>) -> Vec<Tree> {
    let scans = (0..graph.nodes.len()).filter(|&node| graph.nodes[node].op.recording().is_some());
    let scans: Vec<usize> = scans.collect();
    let mut planting = Planting {
        graph,
        options,
        takers: takers(graph),
        places: vec![None; graph.nodes.len()],
        refused: HashMap::new(),
    };
    let mut trees = Vec::new();
    for group in planting.groups(&scans) {
        let tree = planting.tree(&group);
        if is_one(&tree, graph) {
            trees.push(tree);
            continue;
        }
        // Where they meet there is not memory for.
        for scan in group {
            let mut alone = planting.tree(&[scan]);
            let more = tree.why.iter().filter(|why| !alone.why.contains(why));
            let more: Vec<String> = more.cloned().collect();
            alone.why.extend(more);
            trees.push(alone);
        }
    }
    trees
}

fn takers(graph: &Graph) -> Takers {
    let mut takers = vec![Vec::new(); graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for &(from, _) in &node.inputs {
            takers[from].push(at);
        }
    }
    takers
}

/// Whether all of its scans meet; where cuts show by what one worker does, too.
fn is_one(tree: &Tree, graph: &Graph) -> bool {
    let shows = tree.shows_cuts(graph);
    let scans = tree.scans.iter().map(|scan| tree.taken[scan.place].node);
    let mut groups = Groups::of(scans);
    for one in tree.taken.iter().filter(|one| !shows || !one.held) {
        groups.join(&one.scans);
    }
    groups.0.len() <= 1
}

struct Planting<'a> {
    graph: &'a Graph,
    options: &'a RunOptions<'a>,
    takers: Takers,
    /// All None between trees.
    places: Vec<Option<usize>>,
    /// Why some nodes cannot be done in tasks of all scans together.
    refused: HashMap<usize, String>,
}

impl Planting<'_> {
    fn growing<'b>(&'b mut self, scans: &[usize]) -> Growing<'b> {
        Growing::new(
            self.graph,
            &self.takers,
            self.options,
            &mut self.places,
            scans,
            &self.refused,
        )
    }

    fn tree(&mut self, scans: &[usize]) -> Tree {
        self.growing(scans).grown().tree()
    }

    /// What tasks could do of all scans together, had they memory for it.
    fn all(&mut self, scans: &[usize], without_held: bool) -> Vec<Taken> {
        let mut growing = self.growing(scans);
        growing.without_held = without_held;
        let Growing { taken, why_of, .. } = growing.grown();
        self.refused = why_of;
        for one in &taken {
            self.places[one.node] = None;
        }
        taken
    }

    /// Scans that are read together, in the order of the first of them.
    fn groups(&mut self, scans: &[usize]) -> Vec<Vec<usize>> {
        let mut groups = Groups::of(scans.iter().copied());
        let again = |&scan: &usize| {
            let recording = self.graph.nodes[scan].op.recording();
            recording.is_some_and(|recording| recording.0.in_portions())
        };
        let several: Vec<usize> = scans.iter().copied().filter(again).collect();
        if several.len() < 2 {
            return groups.0;
        }
        let taken = self.all(&several, true);
        for one in &taken {
            groups.join(&one.scans);
        }
        let shown = taken.iter().filter(|one| one.shows_cuts(self.graph));
        let shown: Vec<usize> = shown.flat_map(|one| &one.scans).copied().collect();
        let held = |node: &crate::graph::GraphNode| matches!(node.op, Op::Hold(_));
        if self.options.workers > 1 && self.graph.nodes.iter().any(held) {
            for one in self.all(&several, false) {
                let shows = groups.with(&one.scans).any(|scan| shown.contains(&scan));
                match shows && one.scans.len() > 1 {
                    false => groups.join(&one.scans),
                    true => {
                        let name = self.graph.nodes[one.node].op.name();
                        let why = "would bring scans together that show where they are cut, behind what one worker does not do in tasks";
                        self.refused.insert(one.node, format!("{name} {why}"));
                    }
                }
            }
        }
        groups.0
    }
}

/// Numbers in groups, each in one, all in order.
struct Groups(Vec<Vec<usize>>);

impl Groups {
    fn of(all: impl Iterator<Item = usize>) -> Self {
        Self(all.map(|one| vec![one]).collect())
    }

    /// The groups of some become one.
    fn join(&mut self, some: &[usize]) {
        if some.len() < 2 {
            return;
        }
        let has = |group: &Vec<usize>| some.iter().any(|one| group.contains(one));
        let Some(first) = self.0.iter().position(has) else {
            return;
        };
        let (mut joined, mut others) = (Vec::new(), Vec::new());
        for group in std::mem::take(&mut self.0) {
            match has(&group) {
                true => joined.extend(group),
                false => others.push(group),
            }
        }
        joined.sort_unstable();
        others.insert(first, joined);
        self.0 = others;
    }

    /// All that are in a group with one of some.
    fn with(&self, some: &[usize]) -> impl Iterator<Item = usize> {
        let groups = self.0.iter();
        let groups = groups.filter(move |group| some.iter().any(|one| group.contains(one)));
        groups.flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_become_one_where_any_of_theirs_meet() {
        let mut groups = Groups::of([1, 4, 5, 7, 9].into_iter());
        groups.join(&[4, 9]);
        groups.join(&[7]);
        groups.join(&[1, 7]);
        assert_eq!(groups.0, [vec![1, 7], vec![4, 9], vec![5]]);
        assert_eq!(groups.with(&[9, 5]).collect::<Vec<_>>(), [4, 9, 5]);
        groups.join(&[9, 7]);
        assert_eq!(groups.0, [vec![1, 4, 7, 9], vec![5]]);
    }
}
