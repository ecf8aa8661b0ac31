//! How large tasks are, by the plan and its memory alone, and by the plan alone where it shows: pure.

use super::dispatch::WINDOW;
use super::tree::Tree;
use super::weight::is_free;
use crate::exec::{MEMORY, RunOptions};
use crate::graph::Graph;

/// Of the run's memory, one part in so many is what a task reads at most.
const OF_MEMORY: u64 = 256;
/// So many tasks' results fit into what may wait. A number of its own, since that of workers must not show in where a
/// recording is cut.
const TASKS: u64 = WINDOW as u64 * 4;
/// A portion is at least so many times as long as what its task reads beyond it.
const OF_REACH: u64 = 4;
/// A recording has at least so many portions, where they do not become too short to be worth it and do not show.
const OF_RECORDING: u64 = 16;
/// Bytes of a portion below which handing over costs more than workers gain.
const LEAST: u64 = 16 << 10;

/// What a task is, of a tree that is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskSize {
    /// Samples of a portion, about.
    pub(super) samples: u64,
    /// Bytes that come out of it, about.
    pub(super) bytes: u64,
}

impl Tree {
    /// Samples of a task of which all that comes fits: what some tasks that wait give takes an eighth of the memory.
    pub(super) fn most(&self, memory: u64) -> u64 {
        ((memory / 8 / TASKS) as f64 / self.bytes) as u64
    }

    /// Samples of a task, of what is in the tree.
    fn wanted(&self, graph: &Graph, options: &RunOptions<'_>) -> u64 {
        let wanted = options.task.min(options.memory / OF_MEMORY) / self.sample_bytes(graph);
        let wanted = wanted.max(OF_REACH.saturating_mul(self.reach.samples()));
        wanted.min(self.most(options.memory)).max(1)
    }

    /// Samples of a task where cuts show, so that the run's memory must not: a task gives no more bytes than it reads, but
    /// for what is needed around, and a run that has too little for some at once does one after the other.
    pub(super) fn fixed(&self, graph: &Graph, options: &RunOptions<'_>) -> u64 {
        let given = (options.task as f64 / self.bytes) as u64;
        let wanted = given.min(options.task / self.sample_bytes(graph));
        let wanted = wanted.max(OF_REACH.saturating_mul(self.reach.samples()));
        wanted.min(self.most(MEMORY)).max(1)
    }

    /// What a task is; None if the tree is not worth being spread.
    pub(super) fn task(&self, graph: &Graph, options: &RunOptions<'_>) -> Option<TaskSize> {
        let operators = self.taken.iter().filter(|one| !one.reads());
        if operators.map(|one| &graph.nodes[one.node]).all(is_free) {
            return None;
        }
        let samples = self.shown.unwrap_or_else(|| self.wanted(graph, options));
        let bytes = (samples as f64 * self.bytes) as u64;
        Some(TaskSize { samples, bytes })
    }

    /// A task of a recording of so many samples: of a short one smaller, so that several workers have something to do, unless
    /// it shows where it is cut.
    pub(super) fn task_of(&self, task: TaskSize, total: u64, graph: &Graph) -> TaskSize {
        if self.shown.is_some() {
            return task;
        }
        let least = LEAST / self.sample_bytes(graph);
        let least = least.max(OF_REACH.saturating_mul(self.reach.samples()));
        let samples = task.samples.min((total / OF_RECORDING).max(least));
        // Rounded up: nothing is to be taken for free.
        let bytes = u128::from(task.bytes) * u128::from(samples) / u128::from(task.samples.max(1));
        TaskSize {
            samples,
            bytes: bytes as u64 + 1,
        }
    }

    /// Bytes that are read for an index.
    fn sample_bytes(&self, graph: &Graph) -> u64 {
        let bytes = self.scans.iter().map(|scan| {
            let port = graph.nodes[self.taken[scan.place].node].bound.outputs[0];
            port.dtype().map_or(8, |dtype| dtype.size() as u64)
        });
        bytes.sum()
    }
}
