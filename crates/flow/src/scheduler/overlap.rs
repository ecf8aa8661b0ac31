//! Plans the context that a task reads around its portion, and where surplus results are trimmed. Pure.

use super::subgraph::{SubgraphExit, SubgraphNode, TrimPlacement};
use crate::PortionOverlap;
use crate::plan::graph::Edge;

pub(super) struct OverlapPlan {
    pub(super) needs: Vec<PortionOverlap>,
    pub(super) trims: Vec<TrimPlacement>,
}

pub(super) fn union_overlap(a: PortionOverlap, b: PortionOverlap) -> PortionOverlap {
    PortionOverlap {
        before: a.before.max(b.before),
        after: a.after.max(b.after),
    }
}

/// A consumer's need, through its ratio and overlap, becomes that of its input; a node satisfies the largest need of
/// its consumers. Surplus input is harmless to an overproducing operator, and is trimmed after it; before other
/// operators and exits it is trimmed at once.
pub(super) fn plan_overlap(nodes: &[SubgraphNode], exits: &[SubgraphExit]) -> OverlapPlan {
    let mut needs = vec![PortionOverlap::default(); nodes.len()];
    // Whether surplus input would reach an exit untrimmed.
    let mut needs_exact = vec![false; nodes.len()];
    for exit in exits {
        needs_exact[exit.edge.0] = true;
    }
    for (position, one) in nodes.iter().enumerate().rev() {
        needs_exact[position] &= !one.contract.overproduces;
        let wants = one.contract.input_overlap(needs[position]);
        for &(from, _) in &one.inputs {
            needs[from] = union_overlap(needs[from], wants);
            needs_exact[from] |= needs_exact[position];
        }
    }
    let mut trims: Vec<TrimPlacement> = Vec::new();
    let mut exact = vec![true; nodes.len()];
    for (position, one) in nodes.iter().enumerate() {
        exact[position] = !one.contract.overproduces;
        let wants = one.contract.input_overlap(needs[position]);
        for &edge in &one.inputs {
            if exact[edge.0] && wants == needs[edge.0] {
                continue;
            }
            match needs_exact[position] {
                true => add_trim(&mut trims, edge, wants, Some(position)),
                false => exact[position] = false,
            }
        }
    }
    for exit in exits.iter().filter(|exit| !exit.reduces) {
        let (from, _) = exit.edge;
        if !exact[from] || needs[from] != PortionOverlap::default() {
            add_trim(&mut trims, exit.edge, PortionOverlap::default(), None);
        }
    }
    OverlapPlan { needs, trims }
}

fn add_trim(
    trims: &mut Vec<TrimPlacement>,
    edge: Edge,
    kept: PortionOverlap,
    consumer: Option<usize>,
) {
    let same = |one: &&mut TrimPlacement| one.edge == edge && one.kept == kept;
    let position = match trims.iter_mut().find(same) {
        Some(same) => same,
        None => {
            trims.push(TrimPlacement {
                edge,
                kept,
                consumers: Vec::new(),
                exit: false,
            });
            let last = trims.len() - 1;
            &mut trims[last]
        }
    };
    position.exit |= consumer.is_none();
    position.consumers.extend(consumer);
}
