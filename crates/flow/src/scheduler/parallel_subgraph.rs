//! A subgraph that every worker replicates, with its recordings.

use std::sync::Arc;

use super::partition::{RecordingPartitioner, UpcomingPortions};
use super::scan_input::ScanInput;
use super::subgraph::{RatioChain, SubgraphExit, SubgraphPlan};
use super::task_output::{ExitState, Task};
use super::task_sizes::{TaskSize, TaskSizes};
use crate::engine::time_axis::TimeAxis;
use crate::plan::graph::{Edge, GraphNode};
use crate::{OpError, PortType, RunError};

#[derive(Clone)]
pub(super) struct ParallelSubgraph {
    pub(super) plan: SubgraphPlan,
    pub(super) operators: Vec<GraphNode>,
    pub(super) size: TaskSize,
    pub(super) inputs: Vec<ScanInput>,
    pub(super) exit_states: Vec<ExitState>,
    /// Sources are asked block by block: something in the plan may end early.
    pub(super) by_block: bool,
}

impl ParallelSubgraph {
    pub(super) fn with_own_exits(&self) -> Self {
        let exits = self.exit_states.iter().map(|_| ExitState::default());
        Self {
            exit_states: exits.collect(),
            ..self.clone()
        }
    }

    pub(super) fn node(&self, position: usize) -> &GraphNode {
        &self.operators[position]
    }

    pub(super) fn input_of(&self, position: usize) -> Option<usize> {
        let node = self.plan.nodes[position].node;
        self.inputs.iter().position(|one| one.node == node)
    }

    /// The upstream input of the same name and clock, else one of the same clock: it gives indices and times.
    pub(super) fn reference_input(&self, edge: Edge) -> &ScanInput {
        let before = &self.plan.nodes[edge.0].scans;
        let before = || self.inputs.iter().filter(|one| before.contains(&one.node));
        let (port, _) = self.output_of(edge);
        let wanted = port.stream();
        let own = |one: &&ScanInput| one.recording.0.port().stream();
        let clock = before().find(|one| {
            let both = own(one).zip(wanted);
            both.is_some_and(|(a, b)| a.timebase.origin().0 == b.timebase.origin().0)
        });
        let name = before().find(|one| {
            let both = own(one).zip(wanted);
            both.is_some_and(|(a, b)| {
                a.name == b.name && a.timebase.origin().0 == b.timebase.origin().0
            })
        });
        name.or(clock).unwrap_or(&self.inputs[0])
    }

    /// `shuffle`: seed of random task sizes.
    pub(super) fn partitioner(&self, shuffle: Option<u64>) -> RecordingPartitioner {
        let inputs = self.inputs.iter();
        // Cells are counted from the first sample, wherever segments end.
        let grain = |segment: u64| if self.plan.settles() { 1 } else { segment };
        let reads = inputs.map(|one| (one.snapshot.clone(), grain(one.segment)));
        RecordingPartitioner {
            reads: reads.collect(),
            sizes: Arc::new(TaskSizes::new(self.size, shuffle)),
        }
    }

    pub(super) fn start_read_ahead(
        &mut self,
        partitioner: &RecordingPartitioner,
        workers: usize,
    ) -> Result<(), RunError> {
        let inputs = self
            .inputs
            .iter_mut()
            .zip(UpcomingPortions::of(partitioner));
        inputs
            .into_iter()
            .try_for_each(|(one, tasks)| one.start_read_ahead(tasks, workers))
    }

    /// Approximate: gaps make more.
    pub(super) fn task_count(&self) -> u64 {
        let longest = self.inputs.iter().map(|one| one.snapshot.total()).max();
        longest.unwrap_or(0).div_ceil(self.size.samples.max(1))
    }

    pub(super) fn total(&self) -> u64 {
        self.inputs.iter().map(|one| one.snapshot.total()).sum()
    }

    /// With the ratios from read indices to its own.
    pub(super) fn output_of(&self, (position, output): Edge) -> (PortType, &RatioChain) {
        let port = self.operators[position].properties.outputs[usize::from(output)];
        (port, &self.plan.nodes[position].ratios)
    }

    pub(super) fn failure_time(&self, error: &RunError) -> Option<f64> {
        let RunError::Operator {
            node,
            range: Some(range),
            ..
        } = error
        else {
            return None;
        };
        let position = self.plan.nodes.iter().position(|one| one.node == *node)?;
        let first_input = self.plan.nodes[position].inputs.first();
        let (port, _) = self.output_of(first_input.copied().unwrap_or((position, 0)));
        Some(TimeAxis::of_port(Some(&port)).time(range.start))
    }

    /// The error of a task that belongs to no operator.
    pub(super) fn task_error(&self, task: &Task, error: OpError) -> RunError {
        let input = &self.inputs[0];
        RunError::Task {
            scan: input.node,
            range: task.part.range.clone(),
            time: input.snapshot.time_of(task.part.range.start),
            error,
        }
    }

    pub(super) fn exits_after(&self, node: usize) -> impl Iterator<Item = usize> {
        let mut downstream: Vec<bool> = Vec::new();
        for one in &self.plan.nodes {
            let follows = one.inputs.iter().any(|&(from, _)| downstream[from]);
            downstream.push(one.node == node || follows);
        }
        let exits = self.plan.exits.iter().enumerate();
        exits.filter_map(move |(nth, exit)| downstream[exit.edge.0].then_some(nth))
    }

    pub(super) fn expected_count(&self, exit: &SubgraphExit) -> Option<u64> {
        let mut position = exit.edge.0;
        while let Some(&(from, _)) = self.plan.nodes[position].inputs.first() {
            self.operators[position].properties.ratio?;
            position = from;
        }
        let (_, ratios) = self.output_of(exit.edge);
        let read = &self.inputs[self.input_of(position)?];
        (!exit.reduces).then(|| ratios.count(read.snapshot.total()))
    }
}

pub(super) fn with_plan_node(mut error: RunError, origin: &[usize]) -> RunError {
    if let RunError::Operator { node, .. } | RunError::NoResult { node, .. } = &mut error {
        *node = origin
            .get(*node)
            .or(origin.last())
            .copied()
            .unwrap_or(*node);
    }
    error
}
