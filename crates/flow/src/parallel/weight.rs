//! What it costs to hand over what comes out of a front.

use crate::graph::{Edge, GraphNode};
use crate::ops::{Between, Calibrate, Count, Merge, Passthrough, Rewindow, Zip};
use crate::{Bound, Contract, Declared, PortType};

/// Bytes of a row, about.
const ROW: f64 = 128.0;

/// What is known of what a node gives.
#[derive(Clone, Copy)]
struct Gives {
    /// Bytes for each sample that was read.
    bytes: f64,
    /// Samples that were read for each index.
    read: f64,
    /// Samples that were read for each item.
    every: f64,
}

/// Bytes that each node gives of a sample, about; `nodes` are those that tasks do, each with places of what it takes.
pub(super) fn bytes_of_sample<'a>(
    nodes: impl Iterator<Item = (&'a [Edge], &'a Bound)>,
) -> Vec<f64> {
    let mut given: Vec<Gives> = Vec::new();
    for (inputs, bound) in nodes {
        let first = inputs.first().map(|&(from, _)| given[from]);
        let mut gives = first.unwrap_or(Gives {
            bytes: 1.0,
            read: 1.0,
            every: 1.0,
        });
        if let Some((up, down)) = bound.ratio {
            gives.read *= down as f64 / up as f64;
        }
        gives.bytes = match bound.outputs.first() {
            // One number a group.
            _ if matches!(bound.contract, Contract::Reducible { .. }) => 0.0,
            Some(PortType::Samples { dtype, .. }) => dtype.size() as f64 / gives.read,
            Some(PortType::Frames {
                dtype, hop, width, ..
            }) => {
                gives.every = *hop as f64 * gives.read;
                (dtype.size() * width) as f64 / gives.every
            }
            Some(PortType::Rows { .. }) => ROW / gives.every,
            Some(PortType::Ranges { .. } | PortType::Count) => 0.0,
            None => gives.bytes,
        };
        given.push(gives);
    }
    given.into_iter().map(|gives| gives.bytes).collect()
}

/// Whether an operator only says where things are, so that it is done sooner than handed over.
pub(super) fn is_free(node: &GraphNode) -> bool {
    let name = node.op.name();
    let free = [
        Between::DECLARATION.name,
        Calibrate::DECLARATION.name,
        Count::DECLARATION.name,
        Merge::DECLARATION.name,
        Passthrough::DECLARATION.name,
        Rewindow::DECLARATION.name,
        Zip::DECLARATION.name,
    ];
    free.contains(&name)
}
