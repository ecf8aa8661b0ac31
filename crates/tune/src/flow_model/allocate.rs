//! Allocation of cores to replicas.

use serde::{Deserialize, Serialize};

use super::{FlowModel, FlowSolution, Limit};
use crate::TuneError;

/// Relative rises up to this are rounding.
const ROUNDING: f64 = 1e-12;

/// Replicas and the resulting steady state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// Replicas per server.
    pub replicas: Vec<u32>,
    /// Steady state with these replicas.
    pub solution: FlowSolution,
}

impl FlowModel {
    /// The fewest replicas of largest throughput within a budget.
    ///
    /// `budget` counts cores, one per replica of a server that takes a core. Servers that are not replicable or take no
    /// core keep their replicas. Shared resources limit throughput as in [`solve`](Self::solve).
    ///
    /// Maximises the source rate; with several sources, the rate by weight of the slowest that arrivals do not limit.
    /// Replicas that only speed up others are not added.
    ///
    /// Greedy: starts with one replica each, and adds to the bottleneck until it moves off the servers or the budget is
    /// spent. Optimal: let `T` be the best level, reached with replicas `m`. Below `T`, the bottleneck server is full
    /// and its load grows with the level, so `T` needs another replica of it. Hence no server gets more than in `m`,
    /// the budget lasts, and the level reaches `T`. (Ibaraki and Katoh, Resource Allocation Problems, 1988, chapter 5.)
    ///
    /// # Errors
    ///
    /// [`TuneError::BudgetTooSmall`] if `budget` is below the minimum.
    ///
    /// ```
    /// use isochrony_tune::{FlowGraph, FlowModel, Route, Server, Source};
    ///
    /// let model = FlowModel::new(FlowGraph {
    ///     servers: vec![Server::new("read", 0.010), Server::new("filter", 0.035)],
    ///     routes: vec![Route { from: 0, to: 1, probability: 1.0 }],
    ///     sources: vec![Source { server: 0, rate: None, weight: 1.0 }],
    ///     ..FlowGraph::default()
    /// })?;
    /// let allocation = model.allocate(8)?;
    /// assert_eq!(allocation.replicas, [2, 6]);
    /// assert!((allocation.solution.source_rates[0] - 6.0 / 0.035).abs() < 1e-9);
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn allocate(&self, budget: u32) -> Result<Allocation, TuneError> {
        let servers = &self.graph.servers;
        let mut replicas: Vec<u32> = servers
            .iter()
            .map(|server| match server.replicable && server.uses_core {
                true => 1,
                false => server.replicas,
            })
            .collect();
        let pairs = servers.iter().zip(&replicas);
        let needed = pairs
            .filter(|(server, _)| server.uses_core)
            .fold(0u32, |sum, (_, &count)| sum.saturating_add(count));
        let Some(mut spare) = budget.checked_sub(needed) else {
            return Err(TuneError::BudgetTooSmall { budget, needed });
        };
        let mut flow = self.fill(&self.constraints(&replicas));
        let mut best = (flow.level, replicas.clone());
        while let Limit::Server(index) = flow.bottleneck
            && servers[index].replicable
            && servers[index].uses_core
            && spare > 0
        {
            replicas[index] += 1;
            spare -= 1;
            flow = self.fill(&self.constraints(&replicas));
            if flow.level > best.0 * (1.0 + ROUNDING) {
                best = (flow.level, replicas.clone());
            }
        }
        let replicas = best.1;
        let flow = self.fill(&self.constraints(&replicas));
        Ok(Allocation {
            solution: self.complete(flow, &replicas),
            replicas,
        })
    }
}
