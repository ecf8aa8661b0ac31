//! A subgraph that can run in tasks: nodes, exits and trims. Data only.

use isochrony_time::Ratio;

use super::task_contract::TaskContract;
use crate::PortionOverlap;
use crate::plan::graph::{Edge, Graph};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SubgraphNode {
    pub(super) node: usize,
    pub(super) inputs: Vec<Edge>,
    pub(super) contract: TaskContract,
    pub(super) ratios: RatioChain,
    /// Bound on the difference from one pass, relative to the largest value; 0: bit-identical.
    pub(super) rel_err: f64,
    /// Itself or upstream.
    pub(super) uses_factory: bool,
    pub(super) interleaved: bool,
    pub(super) scans: Vec<usize>,
    /// One of these scans skips samples.
    pub(super) leaves_out: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) position: usize,
    pub(super) overlap: PortionOverlap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SubgraphExit {
    pub(super) edge: Edge,
    /// The node's partial result leaves, once per task.
    pub(super) reduces: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SubgraphPlan {
    /// Scans first, then operators, each in plan order.
    pub(super) nodes: Vec<SubgraphNode>,
    pub(super) exits: Vec<SubgraphExit>,
    pub(super) scans: Vec<Scan>,
    pub(super) overlap: PortionOverlap,
    pub(super) trims: Vec<TrimPlacement>,
    pub(super) reasons: Vec<String>,
    pub(super) bytes_per_sample: f64,
    /// Task size, where cuts change bits.
    pub(super) reproducible_samples: Option<u64>,
}

/// Between an overproducing operator and consumers that need exact input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrimPlacement {
    pub(super) edge: Edge,
    /// Around the portion, in indices of the edge.
    pub(super) kept: PortionOverlap,
    pub(super) consumers: Vec<usize>,
    pub(super) exit: bool,
}

impl SubgraphNode {
    pub(super) fn is_scan(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Whether its bits depend on where the recording is cut.
    pub(super) fn settles(&self) -> bool {
        self.rel_err > 0.0
    }
}

impl SubgraphPlan {
    /// Whether bits depend on where the recording is cut.
    pub(super) fn settles(&self) -> bool {
        self.nodes.iter().any(SubgraphNode::settles)
    }

    /// Decompression is work for several cores by itself.
    pub(super) fn decodes(&self, graph: &Graph) -> bool {
        let mut scans = self.nodes.iter().filter(|one| one.is_scan());
        scans.any(|one| {
            let recording = graph.nodes[one.node].op.recording();
            recording.is_some_and(|recording| recording.0.is_decoded())
        })
    }

    pub(super) fn reduces(&self) -> bool {
        self.exits.iter().all(|exit| exit.reduces)
    }
}

/// From a scan to an edge. Each ratio rounds, as for progress marks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RatioChain(Vec<Ratio>);

impl RatioChain {
    pub(super) fn then(mut self, ratio: Ratio) -> Self {
        if !ratio.is_one() {
            self.0.push(ratio);
        }
        self
    }

    /// The first output index not before a read index.
    pub(super) fn map(&self, read: i64) -> i64 {
        let next = |index, ratio: &Ratio| ratio.first_from(index).unwrap_or(i64::MAX);
        self.0.iter().fold(read, next)
    }

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
        // 31 lies after 3 of every tenth, so at 4; 4 * 2 / 3 lies after 2.
        assert_eq!((both.map(31), both.map(30), both.map(-31)), (3, 2, -2));
        assert_eq!(both.count(1000), 67);
    }
}
