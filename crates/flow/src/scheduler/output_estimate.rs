//! Estimates the bytes that operators pass from workers to the caller's thread. Pure.

use crate::plan::graph::Edge;
use crate::{Contract, OperatorProperties, PortType};

const ROW_BYTES: f64 = 128.0;

#[derive(Clone, Copy)]
struct OutputEstimate {
    /// Bytes per sample read.
    bytes_per_sample: f64,
    /// Samples read per output index.
    samples_per_index: f64,
    /// Samples read per row or window.
    samples_per_item: f64,
}

/// By node, per sample read. `nodes`: inputs (by position) and declaration of each.
pub(super) fn output_bytes_per_sample<'a>(
    nodes: impl Iterator<Item = (&'a [Edge], &'a OperatorProperties)>,
) -> Vec<f64> {
    let mut estimates: Vec<OutputEstimate> = Vec::new();
    for (inputs, properties) in nodes {
        let first = inputs.first().map(|&(from, _)| estimates[from]);
        let mut estimate = first.unwrap_or(OutputEstimate {
            bytes_per_sample: 1.0,
            samples_per_index: 1.0,
            samples_per_item: 1.0,
        });
        if let Some((up, down)) = properties.ratio {
            estimate.samples_per_index *= down as f64 / up as f64;
        }
        estimate.bytes_per_sample = match properties.outputs.first() {
            // One number per group.
            _ if matches!(properties.contract, Contract::Reducible { .. }) => 0.0,
            Some(PortType::Samples { dtype, .. }) => {
                dtype.size() as f64 / estimate.samples_per_index
            }
            Some(PortType::Frames {
                dtype, hop, width, ..
            }) => {
                estimate.samples_per_item = *hop as f64 * estimate.samples_per_index;
                (dtype.size() * width) as f64 / estimate.samples_per_item
            }
            Some(PortType::Rows { .. }) => ROW_BYTES / estimate.samples_per_item,
            Some(PortType::Ranges { .. } | PortType::Count) => 0.0,
            None => estimate.bytes_per_sample,
        };
        estimates.push(estimate);
    }
    estimates
        .into_iter()
        .map(|estimate| estimate.bytes_per_sample)
        .collect()
}
