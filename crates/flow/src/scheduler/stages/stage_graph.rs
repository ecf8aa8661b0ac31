//! The graph of a stage: its nodes, a scan for each edge that enters it, an operator for each that leaves it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use isochrony_runtime::Progress;

use super::link_reader::{LinkRecording, SharedReader};
use super::link_writer::{LinkSender, LinkWriter, SharedRoomMaker, SharedWriter, StageLink, lock};
use super::stage_plan::StagePlan;
use super::stage_queue::StageQueue;
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph, GraphNode};

use crate::{OperatorProperties, SEGMENT_SAMPLES, SharedFactory, SharedRecording};

pub(super) struct StageGraph {
    pub(super) graph: Graph,
    /// By node, if the plan has it.
    pub(super) plan_node: Vec<Option<usize>>,
    /// By node: the scan that ranks it among equally far sources.
    pub(super) source_order: Vec<usize>,
    pub(super) writers: Vec<SharedWriter>,
    pub(super) edges: HashMap<Edge, Edge>,
}

#[derive(Default)]
struct StageNodes {
    nodes: Vec<GraphNode>,
    names: Vec<(&'static str, usize)>,
    plan_node: Vec<Option<usize>>,
    source_order: Vec<usize>,
}

impl StageNodes {
    /// `of`: the node of the plan that errors name.
    fn push(
        &mut self,
        graph: &Graph,
        of: usize,
        plan_node: Option<usize>,
        order: usize,
        node: GraphNode,
    ) -> usize {
        self.nodes.push(node);
        self.names.push(graph.plan_node(of));
        self.plan_node.push(plan_node);
        self.source_order.push(order);
        self.nodes.len() - 1
    }
}

pub(super) fn links(
    graph: &Graph,
    plan: &StagePlan,
    options: &RunOptions<'_>,
    queue: &Arc<StageQueue>,
    entries: &[Range<usize>],
) -> Vec<Arc<StageLink>> {
    let mut pairs: Vec<(usize, usize, Vec<Edge>)> = Vec::new();
    for (from, to, edge) in plan.cut_edges(graph) {
        match pairs.last_mut() {
            Some((one, other, edges)) if (*one, *other) == (from, to) => edges.push(edge),
            _ => pairs.push((from, to, vec![edge])),
        }
    }
    let entries = &plan.computing(entries)[..];
    let capacity = StagePlan::link_capacity(options, pairs.len());
    let mut counted: Option<usize> = None;
    let links = pairs.into_iter().map(|(from, to, edges)| {
        // The first link of a stage counts what it read.
        let counts = counted.replace(from) != Some(from);
        // Each replica that reads has a block while others are in the link.
        let capacity = capacity.saturating_mul(entries[to].len() as u64);
        Arc::new(StageLink::new(
            from, to, edges, capacity, counts, queue, entries,
        ))
    });
    links.collect()
}

impl StageGraph {
    pub(super) fn of(
        graph: &Graph,
        plan: &StagePlan,
        stage: usize,
        links: &[Arc<StageLink>],
        room_maker: &SharedRoomMaker,
        delivered: &Arc<Progress>,
    ) -> Self {
        let mut nodes = StageNodes::default();
        let mut edges: HashMap<Edge, Edge> = HashMap::new();
        let entering: Vec<_> = links.iter().filter(|link| link.to == stage).collect();
        for link in &entering {
            let reader = SharedReader::new(link);
            let mut others = entering.iter().filter(|other| other.from != link.from);
            let is_alone = !others.any(|other| plan.share_roots(other.from, link.from));
            for (port, linked) in (0..).zip(&link.edges) {
                let edge = linked.edge;
                let types = graph.nodes[edge.0].properties.outputs[usize::from(edge.1)];
                let Some(reads) = graph.recording_of_edge(edge) else {
                    continue;
                };
                let recording = LinkRecording {
                    reader: reader.clone(),
                    port,
                    types,
                    is_processed: !graph.emits_whole_recording(edge.0),
                    reads,
                    is_alone,
                };
                let scan = GraphNode {
                    properties: OperatorProperties::new([types]),
                    op: Op::Scan {
                        recording: SharedRecording::new(recording),
                        range: None,
                        segment: SEGMENT_SAMPLES,
                    },
                    inputs: Vec::new(),
                };
                let order = last_scan(graph, edge.0);
                let at = nodes.push(graph, edge.0, None, order, scan);
                edges.insert(edge, (at, 0));
            }
        }
        for &at in &plan.stages[stage] {
            let node = &graph.nodes[at];
            let inputs = node.inputs.iter().map(|edge| edges[edge]);
            let own = GraphNode {
                inputs: inputs.collect(),
                ..node.clone()
            };
            let number = nodes.push(graph, at, Some(at), at, own);
            for output in 0..node.properties.outputs.len().max(1) as u16 {
                edges.insert((at, output), (number, output));
            }
        }
        let leaving = links.iter().filter(|link| link.from == stage);
        let mut writers = Vec::new();
        for link in leaving {
            let writer: SharedWriter =
                Arc::new(LinkWriter::new(link, room_maker, delivered).into());
            for (port, linked) in (0..).zip(&link.edges) {
                let (from, output) = linked.edge;
                let types = graph.nodes[from].properties.outputs[usize::from(output)];
                let sender = LinkSender {
                    writer: Arc::clone(&writer),
                    port,
                };
                let node = GraphNode {
                    properties: OperatorProperties::new([types])
                        .contract(crate::Contract::Sequential),
                    op: Op::Factory(SharedFactory::new(sender)),
                    inputs: vec![edges[&linked.edge]],
                };
                let number = nodes.push(graph, from, None, from, node);
                lock(&writer).nodes.push(number);
            }
            writers.push(writer);
        }
        let outputs = graph.outputs.iter().filter_map(|edge| edges.get(edge));
        let is_last = stage + 1 == plan.stages.len();
        let outputs = outputs.filter(|_| is_last).copied();
        Self {
            graph: Graph {
                outputs: outputs.collect(),
                nodes: nodes.nodes,
                plan_nodes: nodes.names,
            },
            plan_node: nodes.plan_node,
            source_order: nodes.source_order,
            writers,
            edges,
        }
    }
}

/// Results of several scans are complete when the last scan's are.
fn last_scan(graph: &Graph, mut node: usize) -> usize {
    while let Some(last) = graph.nodes[node].inputs.iter().map(|&(from, _)| from).max() {
        node = last;
    }
    node
}
