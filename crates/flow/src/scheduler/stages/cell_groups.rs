//! Operators that tasks would compute if a feed were stored, where cuts between tasks show. Pure.
//!
//! On the feed one stage computes them, in cells that are cut as tasks would be. So results have the same bits. Not of
//! operators that read several feeds.

use super::block_subgraph::as_stored;
use super::stage_plan::reads_feed;
use crate::engine::RunOptions;
use crate::plan::graph::Graph;
use crate::scheduler::scan_groups::subgraph_plans;
use crate::scheduler::task_contract::reduces;

#[derive(Default)]
pub(super) struct CellGroups {
    /// Samples of a cell.
    pub(super) samples: Vec<u64>,
    /// By node.
    pub(super) group_of: Vec<Option<usize>>,
}

impl CellGroups {
    pub(super) fn of(graph: &Graph, options: &RunOptions<'_>) -> Self {
        let mut groups = Self {
            samples: Vec::new(),
            group_of: vec![None; graph.nodes.len()],
        };
        if options.tolerance <= 0.0 || !reads_feed(graph) {
            return groups;
        }
        // User code stays outside, as with one worker.
        let options = RunOptions {
            workers: 1,
            ..*options
        };
        let stored = as_stored(graph);
        for plan in subgraph_plans(&stored, &options) {
            let [scan] = plan.scans[..] else {
                continue;
            };
            let scan = plan.nodes[scan.position].node;
            let is_feed = graph.nodes[scan].is_feed();
            let Some(samples) = plan
                .reproducible_samples
                .filter(|_| is_feed && plan.settles())
            else {
                continue;
            };
            let own = plan.nodes.iter().map(|one| one.node);
            if own.clone().any(|node| graph.nodes[node].has_changes()) {
                continue;
            }
            for node in own.filter(|&node| node != scan && !reduces(&graph.nodes[node])) {
                groups.group_of[node] = Some(groups.samples.len());
            }
            groups.samples.push(samples);
        }
        groups
    }
}
