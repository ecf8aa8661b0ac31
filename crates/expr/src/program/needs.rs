//! Dependencies of a pass.

use std::collections::HashMap;

use crate::Shape;
use crate::lower::{Action, LoweredGraph};

pub(super) fn stages(lowered: &LoweredGraph) -> Vec<usize> {
    let mut stages: Vec<usize> = Vec::with_capacity(lowered.nodes.len());
    for place in 0..lowered.nodes.len() {
        let node = &lowered.nodes[place];
        let of_args = node.args.iter().map(|&arg| stages[arg]).max().unwrap_or(0);
        let reduced = matches!(node.action, Action::Reduce(_));
        stages.push(of_args + usize::from(reduced));
    }
    stages
}

/// Reducers of a node's samples, and whether they count only.
pub(super) type Gathers = HashMap<usize, Vec<(usize, bool)>>;

pub(super) fn is_counted(gathers: &Gathers, place: usize) -> bool {
    let of = gathers.get(&place);
    of.is_some_and(|of| of.iter().all(|&(_, counts)| counts))
}

pub(super) type Conditions = HashMap<usize, (usize, usize)>;

/// Dependencies; for a condition, its base.
pub(super) fn arguments(
    lowered: &LoweredGraph,
    conditions: &Conditions,
    place: usize,
) -> Vec<usize> {
    match conditions.get(&place) {
        Some(&(_, base)) => vec![base],
        None => lowered.nodes[place].args.to_vec(),
    }
}

/// Nodes that the result needs, arguments first.
pub(super) fn needed(lowered: &LoweredGraph) -> Vec<usize> {
    reach(lowered, &[lowered.root], &HashMap::new(), |_| true)
}

/// Sample nodes that the targets need within one pass, arguments first.
pub(super) fn samples_for(
    lowered: &LoweredGraph,
    targets: &[usize],
    conditions: &Conditions,
) -> Vec<usize> {
    let sampled = |place: usize| lowered.nodes[place].shape == Shape::Sample;
    reach(lowered, targets, conditions, sampled)
}

fn reach(
    lowered: &LoweredGraph,
    from: &[usize],
    conditions: &Conditions,
    follow: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut found = vec![false; lowered.nodes.len()];
    from.iter().for_each(|&place| found[place] = true);
    for place in (0..found.len()).rev() {
        if found[place] {
            for arg in arguments(lowered, conditions, place) {
                found[arg] |= follow(arg);
            }
        }
    }
    (0..found.len()).filter(|&place| found[place]).collect()
}
