//! What slots of a cluster compute of a plan in stages, as its worker finds out.

use std::sync::Arc;
use std::time::Duration;

use super::block_subgraph::{only_input, subgraph};
use super::link_writer::SharedRoomMaker;
use super::pool::PoolRef;
use super::stage_graph::{StageGraph, links};
use super::stage_plan::{Replication, StagePlan};
use super::stage_queue::StageQueue;
use crate::RunError;
use crate::engine::RunOptions;
use crate::plan::graph::Graph;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;

/// Subgraphs of replicated stages, in stage order, as the client has them. Stages that settle are the client's, since
/// one replica computes all parts of a cell.
pub(in crate::scheduler) fn block_subgraphs(
    graph: &Graph,
    stages: &StagePlan,
    options: &RunOptions<'_>,
) -> Result<Vec<ParallelSubgraph>, RunError> {
    let entries = stages.entries(options.workers);
    let count = entries.last().map_or(0, |last| last.end);
    // Nothing is executed: it only joins links to stages.
    let queue = StageQueue::new(count, 0, Duration::ZERO, Duration::ZERO, false);
    let links = links(graph, stages, options, &Arc::new(queue), &entries);
    let room_maker: SharedRoomMaker = Arc::new(PoolRef::default());
    let mut subgraphs = Vec::new();
    for (number, entries) in entries.iter().enumerate() {
        let replication = stages.replication[number];
        if replication != Replication::Blocks || entries.len() < 2 {
            continue;
        }
        let stage = StageGraph::of(graph, stages, number, &links, &room_maker, &Arc::default());
        if let Some(input) = only_input(number, &links) {
            subgraphs.extend(subgraph(&stage, input, replication, options)?);
        }
    }
    Ok(subgraphs)
}
