//! [`capture`] and [`replay`]: the items that come to an operator, taken in one execution and given to it in others.

use std::sync::Arc;

use isochrony_runtime::Progress;

pub(in crate::scheduler) use super::captured::Events;
use super::captured::{CapturedItems, LimitedRecording, ReplayRecording};
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::{OperatorProperties, SEGMENT_SAMPLES, SharedRecording};

/// Nodes before one, in plan order.
pub(in crate::scheduler) fn upstream(graph: &Graph, node: usize) -> impl Iterator<Item = usize> {
    let mut before = vec![false; node + 1];
    before[node] = true;
    for at in (0..=node).rev() {
        if before[at] {
            for &(from, _) in &graph.nodes[at].inputs {
                if from < at {
                    before[from] = true;
                }
            }
        }
    }
    (0..node).filter(move |&at| before[at])
}

/// The part of a plan that gives the items on certain edges, for the first samples.
pub(in crate::scheduler) struct CapturePlan {
    pub(in crate::scheduler) graph: Graph,
    captures: Vec<CapturedItems>,
    given: Vec<Arc<Progress>>,
}

impl CapturePlan {
    /// Items on each edge, and how many samples the largest source gave, after an execution.
    pub(in crate::scheduler) fn take(&self) -> (Vec<Arc<Events>>, u64) {
        let inputs = self.captures.iter().map(CapturedItems::take).map(Arc::new);
        let most = self.given.iter().map(|given| given.done()).max();
        (inputs.collect(), most.unwrap_or(0))
    }
}

pub(in crate::scheduler) fn capture(graph: &Graph, edges: &[Edge], samples: u64) -> CapturePlan {
    let mut part = graph.clone();
    let mut given = Vec::new();
    for node in &mut part.nodes {
        if let Op::Scan { recording, .. } = &mut node.op {
            let limited = LimitedRecording::new(recording.clone(), samples);
            given.push(limited.given());
            *recording = SharedRecording::new(limited);
        }
    }
    let mut captures = Vec::new();
    part.outputs = Vec::new();
    for &edge in edges {
        let capture = CapturedItems::default();
        captures.push(capture.clone());
        let port = part.nodes[edge.0].properties.outputs[usize::from(edge.1)];
        part.outputs.push((part.nodes.len(), 0));
        part.plan_nodes.push(("capture", part.nodes.len()));
        part.nodes.push(GraphNode {
            op: Op::Factory(crate::SharedFactory::new(capture)),
            inputs: vec![edge],
            properties: OperatorProperties::new([port]),
        });
    }
    part.plan_nodes.clear();
    part.drop_unused();
    CapturePlan {
        graph: part,
        captures,
        given,
    }
}

/// Gives captured items to a node, or only takes them.
pub(in crate::scheduler) fn replay(
    graph: &Graph,
    node: usize,
    edges: &[Edge],
    inputs: &[Arc<Events>],
    with_node: bool,
) -> Graph {
    let sources = edges.iter().zip(inputs).map(|(&edge, input)| {
        let port = graph.nodes[edge.0].properties.outputs[usize::from(edge.1)];
        GraphNode {
            op: Op::Scan {
                recording: SharedRecording::new(ReplayRecording {
                    port,
                    events: Arc::clone(input),
                    reads: graph.recording_of_edge(edge),
                }),
                range: None,
                segment: SEGMENT_SAMPLES,
            },
            inputs: Vec::new(),
            properties: OperatorProperties::new([port]),
        }
    });
    let mut nodes: Vec<GraphNode> = sources.collect();
    let count = nodes.len();
    let outputs = match with_node {
        true => {
            nodes.push(GraphNode {
                inputs: (0..count).map(|at| (at, 0)).collect(),
                ..graph.nodes[node].clone()
            });
            vec![(count, 0)]
        }
        false => (0..count).map(|at| (at, 0)).collect(),
    };
    Graph {
        nodes,
        outputs,
        plan_nodes: Vec::new(),
    }
}
