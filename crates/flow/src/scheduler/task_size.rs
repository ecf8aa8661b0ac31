//! Chooses the size of the tasks of a subgraph. Pure.
//!
//! The size depends on the plan and the memory budget, never on the number of workers; where cuts change results it depends
//! on the plan alone, so that results are reproducible.

use super::subgraph::SubgraphPlan;
use super::task_output::TASKS_PER_WORKER;
use crate::engine::{MEMORY, RunOptions};
use crate::plan::graph::Graph;

/// A task reads at most one part in so many of the memory budget.
const MEMORY_FRACTION: u64 = 256;
/// The results of so many tasks fit into the reorder buffer. Constant, because the number of workers must not change where
/// a recording is cut.
const BUFFERED_TASKS: u64 = TASKS_PER_WORKER as u64 * 4;
/// A portion is at least so many times as long as the overlap of its task.
const MIN_REACH_MULTIPLE: u64 = 4;
/// A short recording is cut into so many portions, unless they become smaller than `MIN_PORTION_BYTES`.
const MIN_PORTIONS: u64 = 16;
/// Below this size of a portion, passing results between threads costs more than workers gain.
const MIN_PORTION_BYTES: u64 = 16 << 10;

/// The size of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskSize {
    /// Samples of a portion, approximately.
    pub(super) samples: u64,
    /// Estimated bytes of its output.
    pub(super) bytes: u64,
}

impl SubgraphPlan {
    /// The largest task whose output fits: `BUFFERED_TASKS` of them take an eighth of the memory.
    pub(super) fn max_samples(&self, memory: u64) -> u64 {
        ((memory / 8 / BUFFERED_TASKS) as f64 / self.bytes_per_sample) as u64
    }

    /// The preferred number of samples of a task.
    fn preferred_samples(&self, graph: &Graph, options: &RunOptions<'_>) -> u64 {
        let wanted =
            options.task.min(options.memory / MEMORY_FRACTION) / self.bytes_read_per_sample(graph);
        let wanted = wanted.max(MIN_REACH_MULTIPLE.saturating_mul(self.reach.samples()));
        wanted.min(self.max_samples(options.memory)).max(1)
    }

    /// The task size where cuts change bits, which must not depend on the memory budget: the output is no larger than the
    /// nominal input of a task. With too little memory for several tasks, they run one after the other.
    pub(super) fn reproducible_samples(&self, graph: &Graph, options: &RunOptions<'_>) -> u64 {
        let given = (options.task as f64 / self.bytes_per_sample) as u64;
        let wanted = given.min(options.task / self.bytes_read_per_sample(graph));
        let wanted = wanted.max(MIN_REACH_MULTIPLE.saturating_mul(self.reach.samples()));
        wanted.min(self.max_samples(MEMORY)).max(1)
    }

    /// The size of a task; None if the subgraph is not worth replicating.
    pub(super) fn task_size(&self, graph: &Graph, options: &RunOptions<'_>) -> Option<TaskSize> {
        let operators = self.nodes.iter().filter(|one| !one.is_scan());
        if operators
            .map(|one| &graph.nodes[one.node])
            .all(|node| node.bound.light)
        {
            return None;
        }
        let samples = self
            .reproducible_samples
            .unwrap_or_else(|| self.preferred_samples(graph, options));
        let bytes = (samples as f64 * self.bytes_per_sample) as u64;
        Some(TaskSize { samples, bytes })
    }

    /// The size of a task for a recording of `total` samples: smaller for a short recording, so that several workers have
    /// work, unless cuts change bits.
    pub(super) fn task_size_for(&self, size: TaskSize, total: u64, graph: &Graph) -> TaskSize {
        if self.reproducible_samples.is_some() {
            return size;
        }
        let least = MIN_PORTION_BYTES / self.bytes_read_per_sample(graph);
        let least = least.max(MIN_REACH_MULTIPLE.saturating_mul(self.reach.samples()));
        let samples = size.samples.min((total / MIN_PORTIONS).max(least));
        // Rounded up, so that no task counts as zero bytes.
        let bytes = u128::from(size.bytes) * u128::from(samples) / u128::from(size.samples.max(1));
        TaskSize {
            samples,
            bytes: bytes as u64 + 1,
        }
    }

    /// Bytes that are read per index, over all scans.
    fn bytes_read_per_sample(&self, graph: &Graph) -> u64 {
        let bytes = self.scans.iter().map(|scan| {
            let port = graph.nodes[self.nodes[scan.position].node].bound.outputs[0];
            port.dtype().map_or(8, |dtype| dtype.size() as u64)
        });
        bytes.sum()
    }
}
