//! [`StagePlan::has_room_for_items`]: whether `memory=` has room for the largest item of each link at the same time.
//! Pure.
//!
//! A link accepts any item, and one that is full may be exceeded by one item. So the room for one item per link is what
//! stages need beyond what one thread needs; a plan without it is not cut.

use super::stage_plan::StagePlan;
use crate::PortType;
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph};
use crate::scheduler::output_estimate::output_bytes_per_sample;

/// Part of the memory budget that the largest items of all links may take together.
const ITEM_MEMORY_FRACTION: u64 = 2;
/// Samples of a segment that arrives: feeds do not say how long theirs are.
const FEED_SEGMENT: u64 = 1 << 15;

impl StagePlan {
    pub(super) fn has_room_for_items(&self, graph: &Graph, options: &RunOptions<'_>) -> bool {
        let largest = largest_items(graph);
        let links = self.cut_edges(graph).into_iter();
        let reserved = links.fold(0u64, |sum, (_, _, edge)| sum.saturating_add(largest(edge)));
        reserved <= options.memory / ITEM_MEMORY_FRACTION
    }
}

/// By edge: bytes that a segment of the source becomes there, or one window if that is larger. Where the length depends
/// on data, as for ranges, it counts as nothing.
fn largest_items(graph: &Graph) -> impl Fn(Edge) -> u64 {
    let nodes = graph.nodes.iter();
    let bytes = output_bytes_per_sample(nodes.map(|node| (&node.inputs[..], &node.properties)));
    let mut segments: Vec<u64> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        segments.push(match &node.op {
            Op::Scan { recording, .. } if recording.is_feed() => FEED_SEGMENT,
            Op::Scan { segment, .. } => *segment,
            _ => {
                let inputs = node.inputs.iter();
                inputs.map(|&(from, _)| segments[from]).max().unwrap_or(0)
            }
        });
    }
    move |(node, output)| {
        let window = match graph.nodes[node]
            .properties
            .outputs
            .get(usize::from(output))
        {
            Some(PortType::Frames { dtype, width, .. }) => (width * dtype.size()) as u64,
            _ => 0,
        };
        let of_segment = bytes[node] * segments[node] as f64;
        window.max(of_segment as u64)
    }
}
