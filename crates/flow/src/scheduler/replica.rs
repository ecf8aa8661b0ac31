//! A worker's replica of a subgraph: its own operators, trims where results overlap, a recorder at each exit.

use std::sync::{Arc, Mutex, PoisonError};

use isochrony_store::Reading;

use super::boundary::{ExitEvent, OutputLog, OutputRecorder};
use super::boundary::{PortionTrimmer, TrimRange};
use super::parallel_subgraph::{ParallelSubgraph, with_plan_node};
use super::scan_input::{PortionReader, PortionSource};
use super::task_output::{ExitOutput, ExitState, Task};
use crate::engine::pool::OutputPool;
use crate::engine::report::Report;
use crate::engine::{PlanExecutor, RunOptions};
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::{
    Contract, OperatorFactory, OperatorProperties, PortType, PortionOverlap, RunError,
    SharedRecording,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskPart {
    pub(super) begins: bool,
    pub(super) completes: bool,
}

impl TaskPart {
    pub(super) const WHOLE: Self = Self {
        begins: true,
        completes: true,
    };
}

pub(super) struct Replica {
    pub(super) executor: PlanExecutor,
    pub(super) readers: Vec<Arc<Mutex<PortionReader>>>,
    /// Range, trimmed edge, and what passes around the portion.
    trims: Vec<(TrimRange, Edge, PortionOverlap)>,
    exits: Vec<ExitCollector>,
    exit_nodes: Vec<usize>,
    exit_closed: Vec<bool>,
    node_map: NodeMap,
}

enum ExitCollector {
    Items(OutputLog),
    Reduced(usize),
}

struct NodeMap {
    replica_node: Vec<usize>,
    plan_node: Vec<usize>,
}

impl Replica {
    /// `pool`: of a dropped replica.
    pub(super) fn new(
        subgraph: &ParallelSubgraph,
        options: &RunOptions<'_>,
        pool: Option<OutputPool>,
    ) -> Result<Self, RunError> {
        let readers: Vec<Arc<Mutex<PortionReader>>> =
            subgraph.inputs.iter().map(|_| Arc::default()).collect();
        let portions = readers.iter().zip(&subgraph.inputs);
        let portions = portions
            .map(|(reader, one)| SharedRecording::new(PortionSource::new(reader, &one.recording)));
        let mut builder = ReplicaBuilder::default();
        builder.add_nodes(subgraph, &portions.collect::<Vec<_>>());
        builder.add_exits(subgraph);
        let ReplicaBuilder {
            graph: nodes,
            plan_node,
            replica_node,
            trims,
            exits,
            exit_nodes,
            ..
        } = builder;
        let graph = Graph {
            outputs: Vec::new(),
            nodes,
            plan_nodes: Vec::new(),
        };
        let node_map = NodeMap {
            replica_node,
            plan_node,
        };
        let executor = PlanExecutor::new(&graph, options);
        let executor = executor.map_err(|error| with_plan_node(error, &node_map.plan_node))?;
        Ok(Self {
            executor: executor.with_pool(pool).by_block(subgraph.by_block),
            readers,
            trims,
            exits,
            exit_closed: vec![false; exit_nodes.len()],
            exit_nodes,
            node_map,
        })
    }

    pub(super) fn run_task(
        &mut self,
        subgraph: &ParallelSubgraph,
        task: &Task,
        options: &RunOptions<'_>,
    ) -> Result<(), RunError> {
        self.run_part(subgraph, task, TaskPart::WHOLE, options)
    }

    /// Operators keep their state between parts of a task.
    pub(super) fn run_part(
        &mut self,
        subgraph: &ParallelSubgraph,
        task: &Task,
        part: TaskPart,
        options: &RunOptions<'_>,
    ) -> Result<(), RunError> {
        let range = &task.part.range;
        for (trim_range, edge, overlap) in &self.trims {
            let (_, ratios) = subgraph.output_of(*edge);
            let start = ratios
                .map(range.start)
                .saturating_sub_unsigned(overlap.before);
            let end = ratios.map(range.end).saturating_add_unsigned(overlap.after);
            trim_range.set(start..end);
        }
        if part.begins {
            for (leaves, exit) in self.exits.iter().zip(&subgraph.plan.exits) {
                if let ExitCollector::Items(log) = leaves {
                    let (_, ratios) = subgraph.output_of(exit.edge);
                    log.begin(ratios.map(range.start));
                }
            }
        }
        self.exit_closed = subgraph
            .exit_states
            .iter()
            .map(ExitState::is_closed)
            .collect();
        let closed = self.exit_nodes.iter().zip(&self.exit_closed);
        let closed = closed.filter(|(_, exit_closed)| **exit_closed);
        self.executor.end_nodes(closed.map(|(&node, _)| node));
        let ran = self.executor.run_task(part.begins, part.completes, options);
        ran.map_err(|error| with_plan_node(error, &self.node_map.plan_node))
    }

    /// `completed`: the last part was computed; else there are no partial results.
    pub(super) fn take_outputs(
        &mut self,
        subgraph: &ParallelSubgraph,
        task: &Task,
        completed: bool,
    ) -> Vec<ExitOutput> {
        let end = task.part.range.end;
        let executor = &mut self.executor;
        let exits = self.exits.iter().zip(&subgraph.plan.exits);
        let exits = exits.map(|(leaves, exit)| {
            let (_, ratios) = subgraph.output_of(exit.edge);
            let mut upto = Some(ratios.map(end));
            let events = match leaves {
                ExitCollector::Items(log) => {
                    let end = ratios.map(end);
                    if !completed {
                        upto = upto.min(log.upto());
                    }
                    let mut events = log.take();
                    for event in &mut events {
                        // Marks after the portion belong to the next task.
                        if let ExitEvent::ProgressMark(upto) = event {
                            *upto = end.min(*upto);
                        }
                    }
                    events
                }
                // A partial result has no indices, so no breaks or marks.
                &ExitCollector::Reduced(node) => {
                    upto = upto.filter(|_| completed);
                    let partial = completed.then(|| executor.partial(node)).flatten();
                    partial.into_iter().map(ExitEvent::Item).collect()
                }
            };
            ExitOutput { events, upto }
        });
        exits.collect()
    }

    /// Downstream of the failed operator. Empty if unknown, or if all were closed before: the error then counts.
    pub(super) fn affected_exits(
        &self,
        subgraph: &ParallelSubgraph,
        error: &RunError,
    ) -> Vec<ExitState> {
        let RunError::Operator { node, .. } = error else {
            return Vec::new();
        };
        let behind: Vec<usize> = subgraph.exits_after(*node).collect();
        match behind.iter().all(|&exit| self.exit_closed[exit]) {
            true => Vec::new(),
            false => behind
                .iter()
                .map(|&exit| subgraph.exit_states[exit].clone())
                .collect(),
        }
    }

    pub(super) fn readings(&self) -> Vec<Option<Reading>> {
        let readers = self.readers.iter();
        let readers = readers.map(|one| one.lock().unwrap_or_else(PoisonError::into_inner));
        readers.map(|one| one.reading()).collect()
    }

    pub(super) fn report(&self, busy: std::time::Duration) -> Report {
        let mut report = self.executor.report(busy);
        let at = self.node_map.replica_node.iter();
        report.operators = at.map(|&node| report.operators[node].clone()).collect();
        report
    }
}

#[derive(Default)]
struct ReplicaBuilder {
    graph: Vec<GraphNode>,
    plan_node: Vec<usize>,
    replica_node: Vec<usize>,
    trims: Vec<(TrimRange, Edge, PortionOverlap)>,
    exits: Vec<ExitCollector>,
    exit_nodes: Vec<usize>,
    trim_nodes: Vec<Option<usize>>,
}

impl ReplicaBuilder {
    fn push(&mut self, plan_node: usize, node: GraphNode) -> usize {
        self.plan_node.push(plan_node);
        self.graph.push(node);
        self.graph.len() - 1
    }

    fn append(
        &mut self,
        from: Edge,
        port: PortType,
        factory: impl OperatorFactory + 'static,
    ) -> usize {
        let plan_node = self.plan_node[from.0];
        self.push(
            plan_node,
            GraphNode {
                op: Op::Factory(crate::SharedFactory::new(factory)),
                inputs: vec![from],
                properties: OperatorProperties::new([port]).contract(Contract::Sequential),
            },
        )
    }

    /// `portions`: sources that replace the recordings.
    fn add_nodes(&mut self, subgraph: &ParallelSubgraph, portions: &[SharedRecording]) {
        self.trim_nodes = vec![None; subgraph.plan.trims.len()];
        for (position, one) in subgraph.plan.nodes.iter().enumerate() {
            let mut node = subgraph.node(position).clone();
            if let Op::Scan { recording, .. } = &mut node.op
                && let Some(nth) = subgraph.input_of(position)
            {
                *recording = portions[nth].clone();
            }
            let inputs = one.inputs.iter();
            let inputs = inputs.map(|&edge| self.source_of(subgraph, edge, Some(position)));
            node.inputs = inputs.collect();
            let at = self.push(one.node, node);
            self.replica_node.push(at);
        }
    }

    fn add_exits(&mut self, subgraph: &ParallelSubgraph) {
        for exit in &subgraph.plan.exits {
            let leaves = match exit.reduces {
                true => {
                    let node = self.replica_node[exit.edge.0];
                    self.exit_nodes.push(node);
                    ExitCollector::Reduced(node)
                }
                false => {
                    let (log, from) = (
                        OutputLog::default(),
                        self.source_of(subgraph, exit.edge, None),
                    );
                    let end = self.append(
                        from,
                        subgraph.output_of(exit.edge).0,
                        OutputRecorder(log.clone()),
                    );
                    self.exit_nodes.push(end);
                    ExitCollector::Items(log)
                }
            };
            self.exits.push(leaves);
        }
    }

    /// There, or after a trim. `consumer` None: the exit.
    fn source_of(
        &mut self,
        subgraph: &ParallelSubgraph,
        edge: Edge,
        consumer: Option<usize>,
    ) -> Edge {
        let own = (self.replica_node[edge.0], edge.1);
        let trims = subgraph.plan.trims.iter().enumerate();
        let mut trims = trims.filter(|(_, cut)| cut.edge == edge);
        let wanted = trims.find(|(_, cut)| match consumer {
            Some(position) => cut.consumers.contains(&position),
            None => cut.exit,
        });
        let Some((nth, cut)) = wanted else {
            return own;
        };
        if let Some(node) = self.trim_nodes[nth] {
            return (node, 0);
        }
        let range = TrimRange::default();
        self.trims.push((range.clone(), edge, cut.kept));
        let node = self.append(own, subgraph.output_of(edge).0, PortionTrimmer(range));
        self.trim_nodes[nth] = Some(node);
        (node, 0)
    }
}
