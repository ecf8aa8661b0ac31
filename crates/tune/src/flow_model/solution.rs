//! Rates, utilizations and limits of a plan.

use serde::{Deserialize, Serialize};

use super::{FlowModel, SourceRule};

/// What limits a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// Arrivals at this source.
    Arrivals(usize),
    /// This server is at its utilization limit.
    Server(usize),
    /// All cores are busy.
    Cores,
    /// The interpreter's lock is always held.
    InterpreterLock,
    /// The disk is saturated.
    Disk,
}

/// The steady state of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowSolution {
    /// Items per second of each source.
    pub source_rates: Vec<f64>,
    /// Limit of each source.
    pub source_limits: Vec<Limit>,
    /// Limit of the slowest source by weight that arrivals do not limit; arrivals if they limit all.
    pub bottleneck: Limit,
    /// Items per second into each server.
    pub server_rates: Vec<f64>,
    /// Mean busy share of each server; 0 to 1.
    pub server_utilizations: Vec<f64>,
    /// Mean number of busy cores.
    pub busy_cores: f64,
    /// `busy_cores` over all cores; `None` without a limit.
    pub core_utilization: Option<f64>,
    /// Share of time with the interpreter's lock held; 0 to 1.
    pub lock_utilization: f64,
    /// Disk bytes per second.
    pub disk_bytes_per_second: f64,
    /// `disk_bytes_per_second` over the disk's limit; `None` without one.
    pub disk_utilization: Option<f64>,
}

/// The sum of `loads[i] · rate[i]` is at most `capacity`.
#[derive(Debug, Clone)]
pub(super) struct Constraint {
    limit: Limit,
    loads: Vec<f64>,
    capacity: f64,
}

pub(super) struct SourceFlow {
    pub(super) rates: Vec<f64>,
    pub(super) limits: Vec<Limit>,
    /// Rate by weight of the slowest source that arrivals do not limit.
    pub(super) level: f64,
    pub(super) bottleneck: Limit,
}

impl FlowModel {
    pub(super) fn constraints(&self, replicas: &[u32]) -> Vec<Constraint> {
        let graph = &self.graph;
        let resources = &graph.resources;
        let mut constraints = Vec::new();
        let mut add = |limit, loads: Vec<f64>, capacity| {
            constraints.push(Constraint {
                limit,
                loads,
                capacity,
            });
        };
        for (index, source) in graph.sources.iter().enumerate() {
            if let Some(rate) = source.rate {
                let mut loads = vec![0.0; graph.sources.len()];
                loads[index] = 1.0;
                add(Limit::Arrivals(index), loads, rate);
            }
        }
        for (index, server) in graph.servers.iter().enumerate() {
            let load = |visits: &Vec<f64>| visits[index] * server.service_time;
            let capacity = f64::from(replicas[index]) * resources.max_utilization;
            add(
                Limit::Server(index),
                self.visits.iter().map(load).collect(),
                capacity,
            );
        }
        if let Some(cores) = resources.cores {
            add(Limit::Cores, self.core_seconds.clone(), cores);
        }
        add(Limit::InterpreterLock, self.lock_seconds.clone(), 1.0);
        if let Some(rate) = resources.disk_bytes_per_second {
            add(Limit::Disk, self.disk_bytes.clone(), rate);
        }
        constraints
    }

    /// Raises all sources in the ratio of their weights until a constraint is full; under max-min fairness the sources
    /// that it does not hold rise further (progressive filling: Bertsekas and Gallager, Data Networks, 1992, section
    /// 6.5.2).
    pub(super) fn fill(&self, constraints: &[Constraint]) -> SourceFlow {
        let sources = &self.graph.sources;
        let mut rates = vec![0.0; sources.len()];
        let mut limits: Vec<Option<Limit>> = vec![None; sources.len()];
        let mut reached = 0.0f64;
        let mut slowest = None;
        while limits.contains(&None) {
            let full_at = |constraint: &Constraint| {
                let (mut taken, mut growth) = (0.0, 0.0);
                for (index, load) in constraint.loads.iter().enumerate() {
                    match limits[index] {
                        None => growth += load * sources[index].weight,
                        Some(_) => taken += load * rates[index],
                    }
                }
                (growth > 0.0).then(|| (constraint.capacity - taken) / growth)
            };
            let (level, full) = constraints
                .iter()
                .filter_map(|constraint| Some((full_at(constraint)?, constraint)))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .expect("FlowModel::new checks that every source has a limit");
            // Rounding may put a constraint that filled at the same level slightly below it.
            reached = reached.max(level);
            for (index, source) in sources.iter().enumerate() {
                let held =
                    self.graph.source_rule == SourceRule::FixedRatio || full.loads[index] > 0.0;
                if limits[index].is_none() && held {
                    rates[index] = source.weight * reached;
                    limits[index] = Some(full.limit);
                }
            }
            if slowest.is_none() && !matches!(full.limit, Limit::Arrivals(_)) {
                slowest = Some((reached, full.limit));
            }
        }
        let limits: Vec<Limit> = limits.into_iter().flatten().collect();
        let (level, bottleneck) = slowest.unwrap_or((reached, limits[0]));
        SourceFlow {
            rates,
            limits,
            level,
            bottleneck,
        }
    }

    pub(super) fn complete(&self, flow: SourceFlow, replicas: &[u32]) -> FlowSolution {
        let graph = &self.graph;
        let total = |loads: &[f64]| -> f64 {
            let terms = loads.iter().zip(&flow.rates);
            terms.map(|(load, rate)| load * rate).sum()
        };
        let server_rates: Vec<f64> = (0..graph.servers.len())
            .map(|server| {
                let terms = self.visits.iter().zip(&flow.rates);
                terms.map(|(visits, rate)| visits[server] * rate).sum()
            })
            .collect();
        let server_utilizations = graph
            .servers
            .iter()
            .zip(&server_rates)
            .zip(replicas)
            .map(|((server, rate), &replicas)| rate * server.service_time / f64::from(replicas))
            .collect();
        let busy_cores = total(&self.core_seconds);
        let disk_bytes_per_second = total(&self.disk_bytes);
        let resources = &graph.resources;
        FlowSolution {
            lock_utilization: total(&self.lock_seconds),
            core_utilization: resources.cores.map(|cores| busy_cores / cores),
            disk_utilization: resources
                .disk_bytes_per_second
                .map(|rate| disk_bytes_per_second / rate),
            busy_cores,
            disk_bytes_per_second,
            server_rates,
            server_utilizations,
            source_rates: flow.rates,
            source_limits: flow.limits,
            bottleneck: flow.bottleneck,
        }
    }
}

impl Constraint {
    pub(super) fn bounds(&self, source: usize) -> bool {
        (self.capacity / self.loads[source]).is_finite()
    }
}
