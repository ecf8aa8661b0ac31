//! The time that each operator is expected to take: measured, or estimated from the cost that it declares. Pure.

use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::scheduler::output_estimate::output_estimates;

/// Least expected time, in ns per sample, for which another thread is worth passing samples on. Passing one takes about
/// 0.4 ns, but the maximum of windows (0.15 ns) in a stage of its own leaves the filter before it to any thread: three
/// filters in a row were then 1.7 times as fast as one thread, instead of 1.2.
const MIN_COST_NS: f64 = 0.1;

/// Of making, decoding or receiving a sample.
const SOURCE_COST_NS: f64 = 2.0;

/// By node: values of an output, per sample of the fastest source.
pub(super) fn edge_values(graph: &Graph) -> Vec<f64> {
    let nodes = graph.nodes.iter();
    let nodes = nodes.map(|node| (&node.inputs[..], &node.properties));
    let outputs = output_estimates(nodes);
    let rates = relative_rates(graph);
    let values = outputs.iter().zip(rates);
    let values = values.map(|(output, rate)| output.values_per_sample * rate);
    values.collect()
}

/// Rate of the source before each node, relative to the fastest one.
fn relative_rates(graph: &Graph) -> Vec<f64> {
    // Samples per second of the source; arrays may have no rate.
    let mut rates: Vec<f64> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let own = || node.properties.outputs.first()?.rate();
        let before = node.inputs.first().map(|&(from, _)| rates[from]);
        rates.push(before.unwrap_or_else(|| own().map_or(1.0, |rate| rate.to_f64())));
    }
    let fastest = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    rates.iter_mut().for_each(|rate| *rate /= fastest);
    rates
}

/// By node, per sample of the fastest source: as measured, if the options say so, else as declared.
pub(super) fn costs_ns(graph: &Graph, options: &RunOptions<'_>) -> Vec<f64> {
    let measured = options.cut_rule.and_then(|rule| rule.costs_ns.clone());
    measured.unwrap_or_else(|| expected_ns(graph))
}

/// By node, per sample of the fastest source, as declared.
pub(super) fn expected_ns(graph: &Graph) -> Vec<f64> {
    let (values, rates) = (edge_values(graph), relative_rates(graph));
    let nodes = graph.nodes.iter().enumerate();
    let costs = nodes.map(|(at, node)| match &node.op {
        Op::Scan { recording, .. } => {
            // Mapped samples cost nothing.
            match !recording.is_feed() && !recording.0.is_decoded() {
                true => 0.0,
                false => SOURCE_COST_NS * rates[at],
            }
        }
        _ => {
            let inputs = node.inputs.iter();
            node.properties.cost_ns * inputs.map(|&(from, _)| values[from]).sum::<f64>()
        }
    });
    costs.collect()
}

pub(super) fn computes_much(expected_ns: f64) -> bool {
    expected_ns >= MIN_COST_NS
}
