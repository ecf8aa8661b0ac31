//! Estimates values and bytes of operators' output. Pure.

use crate::plan::graph::Edge;
use crate::{Contract, OperatorProperties, PortType};

const ROW_BYTES: f64 = 128.0;

#[derive(Debug, Clone, Copy)]
pub(super) struct OutputEstimate {
    pub(super) bytes_per_sample: f64,
    /// Samples, window numbers or rows per sample read.
    pub(super) values_per_sample: f64,
    samples_per_index: f64,
    samples_per_item: f64,
}

impl OutputEstimate {
    /// Samples read for a sample or a window of this output; None if that depends on data.
    pub(super) fn samples_per_item(&self, output: &PortType) -> Option<f64> {
        match output {
            PortType::Samples { .. } => Some(self.samples_per_index),
            PortType::Frames { .. } => Some(self.samples_per_item),
            _ => None,
        }
    }
}

pub(super) fn output_estimates<'a>(
    nodes: impl Iterator<Item = (&'a [Edge], &'a OperatorProperties)>,
) -> Vec<OutputEstimate> {
    let mut estimates: Vec<OutputEstimate> = Vec::new();
    for (inputs, properties) in nodes {
        let first = inputs.first().map(|&(from, _)| estimates[from]);
        let mut estimate = first.unwrap_or(OutputEstimate {
            bytes_per_sample: 1.0,
            values_per_sample: 1.0,
            samples_per_index: 1.0,
            samples_per_item: 1.0,
        });
        if let Some((up, down)) = properties.ratio {
            estimate.samples_per_index *= down as f64 / up as f64;
        }
        let (values, bytes_per_value) = match properties.outputs.first() {
            _ if properties.contract == Contract::Reducible => (0.0, 0.0),
            Some(PortType::Samples { dtype, .. }) => {
                (1.0 / estimate.samples_per_index, dtype.size() as f64)
            }
            Some(PortType::Frames {
                dtype, hop, width, ..
            }) => {
                estimate.samples_per_item = *hop as f64 * estimate.samples_per_index;
                let values = *width as f64 / estimate.samples_per_item;
                (values, dtype.size() as f64)
            }
            Some(PortType::Rows { .. }) => (1.0 / estimate.samples_per_item, ROW_BYTES),
            Some(PortType::Ranges { .. } | PortType::Count) => (0.0, 0.0),
            None => {
                estimates.push(estimate);
                continue;
            }
        };
        estimate.values_per_sample = values;
        estimate.bytes_per_sample = values * bytes_per_value;
        estimates.push(estimate);
    }
    estimates
}

pub(super) fn output_bytes_per_sample<'a>(
    nodes: impl Iterator<Item = (&'a [Edge], &'a OperatorProperties)>,
) -> Vec<f64> {
    let estimates = output_estimates(nodes).into_iter();
    estimates
        .map(|estimate| estimate.bytes_per_sample)
        .collect()
}
