//! The part of a plan in the caller's thread, with a source per exit of a subgraph.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::gather::PartialCombinerFactory;
use super::gather::{ExitQueues, ExitRecording};
use super::parallel_subgraph::ParallelSubgraph;
use super::task_output::TaskScheduler;
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::{OperatorProperties, SharedRecording};

pub(super) struct SequentialPart {
    pub(super) graph: Graph,
    pub(super) plan_node: Vec<usize>,
    /// By node: the scan whose number ranks it among equally far sources.
    pub(super) source_order: Vec<usize>,
    pub(super) edges: HashMap<Edge, Edge>,
}

impl SequentialPart {
    /// Replaces each subgraph by a scan per exit, and a combining operator if the exit reduces.
    pub(super) fn of(
        graph: &Graph,
        subgraphs: &[ParallelSubgraph],
        scheduler: &Arc<TaskScheduler>,
    ) -> Self {
        let mut done: Vec<Option<(usize, usize)>> = vec![None; graph.nodes.len()];
        let mut queues = Vec::new();
        for (at, subgraph) in subgraphs.iter().enumerate() {
            for (position, one) in subgraph.plan.nodes.iter().enumerate() {
                done[one.node] = Some((at, position));
            }
            queues.push(ExitQueues::new(scheduler, at, subgraph));
        }
        let mut builder = SequentialBuilder::default();
        for (number, node) in graph.nodes.iter().enumerate() {
            let Some((at, position)) = done[number] else {
                let inputs = node.inputs.iter().map(|edge| builder.edges[edge]);
                let inputs = inputs.collect();
                builder.push(
                    number,
                    0..node.properties.outputs.len().max(1),
                    GraphNode {
                        inputs,
                        ..node.clone()
                    },
                );
                continue;
            };
            let subgraph = &subgraphs[at];
            let exits = subgraph.plan.exits.iter().enumerate();
            for (nth, exit) in exits.filter(|(_, exit)| exit.edge.0 == position) {
                // A reducing operator stays, to combine the partial results.
                let from = match exit.reduces {
                    true => subgraph.plan.nodes[position].inputs[0],
                    false => exit.edge,
                };
                let (port, _) = subgraph.output_of(from);
                let read = subgraph.reference_input(from);
                let gathering = ExitRecording {
                    queues: queues[at].clone(),
                    exit: nth,
                    port,
                    reads: read.recording.clone(),
                    snapshot: read.snapshot.clone(),
                    total: subgraph.total(),
                    expects: subgraph.expected_count(exit),
                    is_processed: !gives_all(graph, subgraph.plan.nodes[exit.edge.0].node),
                };
                let output = usize::from(exit.edge.1);
                // Results of several scans are complete when those of the last are.
                let scans = &subgraph.plan.nodes[exit.edge.0].scans;
                builder
                    .source_order
                    .push((builder.nodes.len(), scans.last().copied().unwrap_or(0)));
                builder.push(
                    number,
                    output..output + 1,
                    GraphNode {
                        properties: OperatorProperties::new([port]),
                        op: Op::Scan {
                            recording: SharedRecording::new(gathering),
                            range: None,
                            segment: read.segment,
                        },
                        inputs: Vec::new(),
                    },
                );
                if exit.reduces {
                    let factory = PartialCombinerFactory(node.op.clone());
                    let inputs = vec![(builder.nodes.len() - 1, 0)];
                    builder.push(
                        number,
                        0..node.properties.outputs.len().max(1),
                        GraphNode {
                            op: Op::Factory(crate::SharedFactory::new(factory)),
                            inputs,
                            properties: node.properties.clone(),
                        },
                    );
                }
            }
        }
        let plan_nodes = builder
            .plan_node
            .iter()
            .map(|&node| (graph.nodes[node].op.name(), node));
        let plan_nodes = plan_nodes.collect();
        let outputs = graph.outputs.iter().map(|edge| builder.edges[edge]);
        let mut source_order = builder.plan_node.clone();
        for &(node, scan) in &builder.source_order {
            source_order[node] = scan;
        }
        Self {
            source_order,
            graph: Graph {
                outputs: outputs.collect(),
                nodes: builder.nodes,
                plan_nodes,
            },
            plan_node: builder.plan_node,
            edges: builder.edges,
        }
    }
}

#[derive(Default)]
struct SequentialBuilder {
    nodes: Vec<GraphNode>,
    plan_node: Vec<usize>,
    /// Exits, and the scan that ranks them.
    source_order: Vec<(usize, usize)>,
    edges: HashMap<Edge, Edge>,
}

impl SequentialBuilder {
    fn push(&mut self, plan_node: usize, outputs: Range<usize>, node: GraphNode) {
        let at = self.nodes.len();
        let single = outputs.len() == 1;
        for output in outputs {
            let own = if single { 0 } else { output as u16 };
            self.edges.insert((plan_node, output as u16), (at, own));
        }
        self.plan_node.push(plan_node);
        self.nodes.push(node);
    }
}

fn gives_all(graph: &Graph, node: usize) -> bool {
    matches!(graph.nodes[node].op, Op::Scan { range: None, .. })
}
