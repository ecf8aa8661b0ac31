//! Chooses the task size of a subgraph, and removes operators until tasks fit the memory budget. Pure.
//!
//! The size depends on the plan and the memory budget, never on the number of workers. Where cuts change results it
//! depends on the plan alone: it is chosen with the default budget, without factory operators, which are added if tasks
//! of that size have memory for them.

use super::subgraph::{SubgraphNode, SubgraphPlan};
use super::subgraph_builder::SubgraphBuilder;
use super::task_output::TASKS_PER_WORKER;
use super::task_sizes::TaskSize;
use crate::PortType;
use crate::engine::{DEFAULT_MEMORY, RunOptions};
use crate::plan::Op;
use crate::plan::graph::Graph;

/// Largest task size in multiples of that at the start, where the size of results is not known.
const MAX_GROWTH: u64 = 4;
/// Fraction of the memory that a task reads at most.
const MEMORY_FRACTION: u64 = 256;
/// Constant, because the number of workers must not move cuts.
const BUFFERED_TASKS: u64 = TASKS_PER_WORKER as u64 * 4;
/// Smallest portion, in overlaps of its task.
const MIN_OVERLAP_MULTIPLE: u64 = 4;
/// Portions of a short recording, unless below `MIN_PORTION_BYTES`.
const MIN_PORTIONS: u64 = 16;
/// Below this, passing results costs more than workers gain.
const MIN_PORTION_BYTES: u64 = 16 << 10;

/// For tasks of fixed size; one worker's results still fit the reorder buffer.
const MAX_FACTORY_OUTPUT_MULTIPLE: u64 = 4;

impl SubgraphPlan {
    /// Such that `BUFFERED_TASKS` results take an eighth of the memory.
    pub(super) fn max_samples(&self, memory: u64) -> u64 {
        ((memory / 8 / BUFFERED_TASKS) as f64 / self.bytes_per_sample) as u64
    }

    fn preferred_samples(&self, graph: &Graph, options: &RunOptions<'_>) -> u64 {
        let wanted =
            options.task.min(options.memory / MEMORY_FRACTION) / self.bytes_read_per_sample(graph);
        let wanted = wanted.max(MIN_OVERLAP_MULTIPLE.saturating_mul(self.overlap.samples()));
        wanted.min(self.max_samples(options.memory)).max(1)
    }

    /// Task size where cuts change bits: the output is at most the nominal input. With memory for few tasks, they run
    /// sequentially. Cells of streams have the same size.
    pub(super) fn reproducible_samples(&self, graph: &Graph, options: &RunOptions<'_>) -> u64 {
        let task = options.task.min(options.stages.cell_bytes);
        let given = (task as f64 / self.bytes_per_sample) as u64;
        let wanted = given.min(task / self.bytes_read_per_sample(graph));
        let wanted = wanted.max(MIN_OVERLAP_MULTIPLE.saturating_mul(self.overlap.samples()));
        wanted.min(self.max_samples(DEFAULT_MEMORY)).max(1)
    }

    pub(super) fn task_size(&self, graph: &Graph, options: &RunOptions<'_>) -> Option<TaskSize> {
        let mut operators = self.nodes.iter().filter(|one| !one.is_scan());
        let is_light = operators.all(|one| graph.nodes[one.node].properties.cost_ns == 0.0);
        if is_light && !self.decodes(graph) {
            return None;
        }
        let samples = self
            .reproducible_samples
            .unwrap_or_else(|| self.preferred_samples(graph, options));
        let is_cell = self.reproducible_samples.is_some();
        let least = if is_cell {
            samples
        } else {
            self.least_samples(graph)
        };
        let growth = match self.has_results_of_unknown_size(graph) {
            true => samples.saturating_mul(MAX_GROWTH),
            false => u64::MAX,
        };
        Some(TaskSize {
            samples,
            bytes: (samples as f64 * self.bytes_per_sample) as u64,
            least: least.min(samples),
            most: self.max_samples(options.memory).min(growth).max(samples),
            is_cell,
            read_bytes: self.bytes_read_per_sample(graph),
        })
    }

    /// Rows and ranges depend on data, and partial results on the operator: the memory does not limit the size of tasks.
    fn has_results_of_unknown_size(&self, graph: &Graph) -> bool {
        self.exits.iter().any(|exit| {
            let (position, output) = exit.edge;
            let node = &graph.nodes[self.nodes[position].node];
            let port = node.properties.outputs.get(usize::from(output));
            let is_known = matches!(
                port,
                Some(PortType::Samples { .. } | PortType::Frames { .. })
            );
            exit.reduces || !is_known
        })
    }

    /// Below it a task computes more around its portion, or takes more time for passing results, than workers gain.
    fn least_samples(&self, graph: &Graph) -> u64 {
        let least = MIN_PORTION_BYTES / self.bytes_read_per_sample(graph);
        let least = least.max(MIN_OVERLAP_MULTIPLE.saturating_mul(self.overlap.samples()));
        least.max(1)
    }

    /// Smaller for a short recording, to occupy several workers, unless cuts change bits.
    pub(super) fn task_size_for(&self, size: TaskSize, total: u64, graph: &Graph) -> TaskSize {
        let longest = (total / MIN_PORTIONS).max(self.least_samples(graph));
        if size.is_cell {
            let cells = (size.most.min(longest) / size.samples.max(1)).max(1);
            // A power of two: twice and half as many are other whole numbers of cells.
            let most = size.samples << cells.ilog2();
            return TaskSize { most, ..size };
        }
        let samples = size.samples.min(longest);
        // Rounded up: no task counts as zero bytes.
        let bytes = u128::from(size.bytes) * u128::from(samples) / u128::from(size.samples.max(1));
        TaskSize {
            samples,
            bytes: bytes as u64 + 1,
            least: size.least.min(samples),
            most: size.most.min(longest).max(samples),
            ..size
        }
    }

    fn bytes_read_per_sample(&self, graph: &Graph) -> u64 {
        let bytes = self.scans.iter().map(|scan| {
            let port = graph.nodes[self.nodes[scan.position].node]
                .properties
                .outputs[0];
            port.dtype().map_or(8, |dtype| dtype.size() as u64)
        });
        bytes.sum()
    }
}

impl SubgraphBuilder<'_> {
    pub(super) fn fit_to_memory(mut self) -> SubgraphPlan {
        let plan = match self.nodes.iter().any(SubgraphNode::settles) {
            true => self.fit_reproducibly(),
            false => self.fit(false),
        };
        for one in &self.nodes {
            self.positions[one.node] = None;
        }
        plan
    }

    /// Makes the same cuts as one worker.
    fn fit_reproducibly(&mut self) -> SubgraphPlan {
        let all = self.nodes.clone();
        let any_factory = all.iter().any(|one| one.uses_factory);
        if any_factory {
            self.retain(all.clone(), |one| !one.uses_factory);
        }
        let mut plan = self.fit(true);
        let shows = plan.settles();
        plan.reproducible_samples =
            shows.then(|| plan.reproducible_samples(self.graph, self.options));
        if shows && !any_factory {
            return plan;
        }
        let positions = self.positions.clone();
        self.retain(all, |one| one.uses_factory || positions[one.node].is_some());
        match plan.reproducible_samples {
            Some(samples) => self.fit_with_factories(samples),
            None => self.fit(false),
        }
    }

    /// Removes the operators with the largest overlap until the rest fits. `reproducible`: the default budget.
    fn fit(&mut self, reproducible: bool) -> SubgraphPlan {
        let (memory, mend) = match reproducible {
            true => (
                DEFAULT_MEMORY,
                " by default, which decides whatever memory= is, since results depend on where the recording is cut",
            ),
            false => (self.options.memory, "; raise memory="),
        };
        loop {
            let plan = self.build(None);
            let (most, needed) = (plan.max_samples(memory), plan.overlap.samples());
            if needed < most || self.nodes.iter().all(SubgraphNode::is_scan) {
                return plan;
            }
            let name = self.remove(self.largest_overlap());
            self.reasons.clear();
            self.add_reason(format!(
                "for {name} a task needs {needed} samples around its portion and has memory for {most}{mend}"
            ));
        }
    }

    fn fit_with_factories(&mut self, samples: u64) -> SubgraphPlan {
        loop {
            let plan = self.build(Some(samples));
            let most = plan
                .max_samples(self.options.memory)
                .saturating_mul(MAX_FACTORY_OUTPUT_MULTIPLE);
            let largest = self.largest_factory_output();
            let (Some(largest), true) = (largest, most <= samples.max(plan.overlap.samples()))
            else {
                return plan;
            };
            let name = self.remove(largest);
            self.add_reason(format!(
                "the output of {name} is too large for tasks of {samples} samples, the size that one worker uses; raise memory="
            ));
        }
    }

    fn largest_overlap(&self) -> usize {
        let mut needs: Vec<f64> = Vec::with_capacity(self.nodes.len());
        // Samples read per output index.
        let mut scales: Vec<f64> = Vec::with_capacity(self.nodes.len());
        for one in &self.nodes {
            let of = |values: &[f64], none: f64| {
                let before = one.inputs.iter().map(|&(from, _)| values[from]);
                before.fold(none, f64::max)
            };
            let scale = if one.is_scan() { 1.0 } else { of(&scales, 0.0) };
            needs.push(of(&needs, 0.0) + one.contract.overlap.samples() as f64 * scale);
            scales.push(scale * one.contract.ratio.down() as f64 / one.contract.ratio.up() as f64);
        }
        let behind = needs.iter().enumerate();
        let behind = behind.filter(|&(position, _)| !self.nodes[position].is_scan());
        let most = behind.max_by(|a, b| a.1.total_cmp(b.1));
        most.map_or(0, |(position, _)| position)
    }

    fn largest_factory_output(&self) -> Option<usize> {
        let (bytes, exits) = (self.bytes_per_sample(), self.exits());
        let factories = self.nodes.iter().enumerate();
        let factories =
            factories.filter(|(_, one)| matches!(self.graph.nodes[one.node].op, Op::Factory(_)));
        let leaving = factories.map(|(position, _)| {
            let behind = self.downstream_of(position);
            let leaving = exits.iter().filter(|exit| behind[exit.edge.0]);
            let leaving: f64 = leaving.map(|exit| bytes[exit.edge.0]).sum();
            (position, leaving)
        });
        let most = leaving.max_by(|a, b| a.1.total_cmp(&b.1));
        most.map(|(position, _)| position)
    }

    fn downstream_of(&self, first: usize) -> Vec<bool> {
        let mut behind = vec![false; self.nodes.len()];
        behind[first] = true;
        for position in first + 1..behind.len() {
            let inputs = &self.nodes[position].inputs;
            behind[position] = inputs.iter().any(|&(from, _)| behind[from]);
        }
        behind
    }

    /// With all downstream of it; returns its name.
    fn remove(&mut self, position: usize) -> &'static str {
        let node = self.nodes[position].node;
        let nodes = std::mem::take(&mut self.nodes);
        self.retain(nodes, |one| one.node != node);
        self.graph.nodes[node].op.name()
    }

    fn retain(&mut self, nodes: Vec<SubgraphNode>, wanted: impl Fn(&SubgraphNode) -> bool) {
        let mut at: Vec<Option<usize>> = Vec::with_capacity(nodes.len());
        self.nodes.clear();
        for mut one in nodes {
            let inputs = one.inputs.iter();
            let inputs = inputs.map(|&(from, output)| Some((at[from]?, output)));
            let inputs: Option<Vec<_>> = inputs.collect();
            let position = inputs.filter(|_| wanted(&one)).map(|inputs| {
                one.inputs = inputs;
                self.nodes.len()
            });
            at.push(position);
            self.positions[one.node] = position;
            if position.is_some() {
                self.nodes.push(one);
            }
        }
    }
}
