//! Estimates the time of each operator from the cost that it declares. Pure.

use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::scheduler::output_estimate::output_estimates;

/// Least expected time, in ns per sample, for which another thread is worth passing samples on. Passing one takes about
/// 0.4 ns, but the maximum of windows (0.15 ns) in a stage of its own leaves the filter before it to any thread: three
/// filters in a row were then 1.7 times as fast as one thread, instead of 1.2.
const MIN_COST_NS: f64 = 0.1;

/// Of making, decoding or receiving a sample.
const SOURCE_COST_NS: f64 = 2.0;

/// By node, per sample of the fastest source.
pub(super) fn expected_ns(graph: &Graph) -> Vec<f64> {
    let nodes = graph.nodes.iter();
    let nodes = nodes.map(|node| (&node.inputs[..], &node.properties));
    let outputs = output_estimates(nodes);
    // Samples per second of the source; arrays may have no rate.
    let mut rates: Vec<f64> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let own = || node.properties.outputs.first()?.rate();
        let before = node.inputs.first().map(|&(from, _)| rates[from]);
        rates.push(before.unwrap_or_else(|| own().map_or(1.0, |rate| rate.to_f64())));
    }
    let fastest = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let nodes = graph.nodes.iter().enumerate();
    let costs = nodes.map(|(at, node)| match &node.op {
        Op::Scan { recording, .. } => {
            // Mapped samples cost nothing.
            match !recording.is_feed() && !recording.0.is_decoded() {
                true => 0.0,
                false => SOURCE_COST_NS * rates[at] / fastest,
            }
        }
        _ => {
            let inputs = node.inputs.iter();
            let values = inputs.map(|&(from, _)| outputs[from].values_per_sample * rates[from]);
            node.properties.cost_ns * values.sum::<f64>() / fastest
        }
    });
    costs.collect()
}

pub(super) fn computes_much(expected_ns: f64) -> bool {
    expected_ns >= MIN_COST_NS
}
