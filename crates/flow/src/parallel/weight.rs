//! What it costs to hand over what comes out of a chain.

use crate::graph::GraphNode;
use crate::ops::{Between, Calibrate, Count, Passthrough, Rewindow};
use crate::{Bound, Contract, Declared, PortType};

/// Bytes of a row, about.
const ROW: f64 = 128.0;

/// Bytes that come out of a chain of a sample, about.
pub(super) fn bytes_of_sample<'a>(nodes: impl Iterator<Item = &'a Bound>) -> f64 {
    // Samples that were read for each of an item.
    let (mut last, mut read, mut every) = (1.0, 1.0, 1.0);
    for bound in nodes {
        if matches!(bound.contract, Contract::Reducible { .. }) {
            // One number a group.
            last = 0.0;
            continue;
        }
        if let Some((up, down)) = bound.ratio {
            read *= down as f64 / up as f64;
        }
        let Some(port) = bound.outputs.first() else {
            continue;
        };
        last = match *port {
            PortType::Samples { dtype, .. } => dtype.size() as f64 / read,
            PortType::Frames {
                dtype, hop, width, ..
            } => {
                every = hop as f64 * read;
                (dtype.size() * width) as f64 / every
            }
            PortType::Rows { .. } => ROW / every,
            PortType::Ranges { .. } | PortType::Count => 0.0,
        };
    }
    last.max(1e-9)
}

/// Whether an operator only says where things are, so that it is done sooner than handed over.
pub(super) fn is_free(node: &GraphNode) -> bool {
    let name = node.op.name();
    let free = [
        Between::DECLARATION.name,
        Calibrate::DECLARATION.name,
        Count::DECLARATION.name,
        Passthrough::DECLARATION.name,
        Rewindow::DECLARATION.name,
    ];
    free.contains(&name)
}
