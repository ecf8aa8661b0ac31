//! [`FusedChain`]: a chain with the nodes that it reads, and [`ValueLocations`]: which chain computes which node.

use std::collections::HashMap;

use isochrony_segment::DType;

use crate::kernels::Chain;

#[derive(Debug, Clone)]
pub(crate) struct FusedChain {
    pub(crate) chain: Chain,
    /// Nodes of its blocks.
    pub(crate) blocks: Vec<usize>,
    /// The first is one.
    pub(crate) numbers: Vec<ChainNumber>,
}

/// A number of a chain: a node, or one of a calibration's two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ChainNumber {
    Node(usize),
    Given(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueLocation {
    /// Stored in memory.
    Stored,
    /// Computed in the chain with this result.
    Within(usize),
    /// Computed in every chain that needs it: it converts a stored value.
    Anywhere,
}

pub(super) struct ValueLocations {
    pub(super) of: HashMap<usize, ValueLocation>,
    /// Chain dtype of each node.
    pub(super) kinds: HashMap<usize, DType>,
}
