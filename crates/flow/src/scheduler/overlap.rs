//! Plans the overlap of tasks: what each reads beyond its portion, and where the surplus is trimmed. Pure.
//!
//! Operators that need neighbouring samples would give wrong results at the edges of a portion; and what they give for
//! samples outside of it belongs to another task.

use isochrony_time::Ratio;

use super::subgraph::{SubgraphExit, SubgraphNode};
use crate::PortionOverlap;
use crate::plan::graph::Edge;

/// A trim between an operator that overproduces and consumers that need exact input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OverlapTrim {
    /// The trimmed edge, by positions.
    pub(super) edge: Edge,
    /// How much around the portion passes, in indices of the edge.
    pub(super) kept: PortionOverlap,
    /// Positions of the consumers behind the trim.
    pub(super) consumers: Vec<usize>,
    /// Whether the exit reads behind the trim.
    pub(super) exit: bool,
}

/// The overlap of a subgraph.
pub(super) struct OverlapPlan {
    /// What each position must give around the portion.
    pub(super) needs: Vec<PortionOverlap>,
    pub(super) trims: Vec<OverlapTrim>,
}

pub(super) fn union_reach(a: PortionOverlap, b: PortionOverlap) -> PortionOverlap {
    PortionOverlap {
        before: a.before.max(b.before),
        after: a.after.max(b.after),
    }
}

/// Plans how much is read around a portion so that all results that leave are right, and where the surplus is trimmed.
///
/// Needs propagate from the exits to the scans: a consumer's need, through its ratio and reach, is the need of its input, and
/// a node must satisfy the largest need of its consumers. Surplus input does no harm to an operator that overproduces anyway;
/// it is trimmed behind that operator. Before any other operator, and before exits, it is trimmed.
pub(super) fn plan_overlap(nodes: &[SubgraphNode], exits: &[SubgraphExit]) -> OverlapPlan {
    let mut needs = vec![PortionOverlap::default(); nodes.len()];
    // Whether surplus input would reach an exit untrimmed.
    let mut needs_exact = vec![false; nodes.len()];
    for exit in exits {
        needs_exact[exit.edge.0] = true;
    }
    for (position, one) in nodes.iter().enumerate().rev() {
        needs_exact[position] &= !one.contract.overproduces;
        let wants = one.contract.input_reach(needs[position]);
        for &(from, _) in &one.inputs {
            needs[from] = union_reach(needs[from], wants);
            needs_exact[from] |= needs_exact[position];
        }
    }
    let mut trims: Vec<OverlapTrim> = Vec::new();
    // Whether a node gives exactly what is needed of it.
    let mut exact = vec![true; nodes.len()];
    for (position, one) in nodes.iter().enumerate() {
        exact[position] = !one.contract.overproduces;
        let wants = one.contract.input_reach(needs[position]);
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

/// Adds a trim, or a consumer to an equal one.
fn add_trim(
    trims: &mut Vec<OverlapTrim>,
    edge: Edge,
    kept: PortionOverlap,
    consumer: Option<usize>,
) {
    let same = |one: &&mut OverlapTrim| one.edge == edge && one.kept == kept;
    let position = match trims.iter_mut().find(same) {
        Some(same) => same,
        None => {
            trims.push(OverlapTrim {
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

/// The index ratios of the operators from a scan to an edge. Indices are rounded at each ratio, as progress marks are.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RatioChain(Vec<Ratio>);

impl RatioChain {
    /// Appends the ratio of another operator.
    pub(super) fn then(mut self, ratio: Ratio) -> Self {
        if !ratio.is_one() {
            self.0.push(ratio);
        }
        self
    }

    /// The first output index that does not lie before a read index.
    pub(super) fn map(&self, read: i64) -> i64 {
        let next = |index, ratio: &Ratio| ratio.first_from(index).unwrap_or(i64::MAX);
        self.0.iter().fold(read, next)
    }

    /// Output samples for a number of read samples.
    pub(super) fn count(&self, read: u64) -> u64 {
        i64::try_from(read).map_or(read, |read| self.map(read).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_rounded_at_each_ratio() {
        let ratio = |up, down| Ratio::new(up, down).unwrap();
        let both = RatioChain::default().then(ratio(1, 10)).then(Ratio::ONE);
        let both = both.then(ratio(2, 3));
        // 31 lies behind 3 of every tenth, so at 4; 4 * 2 / 3 lies behind 2.
        assert_eq!((both.map(31), both.map(30), both.map(-31)), (3, 2, -2));
        assert_eq!(both.count(1000), 67);
    }
}
