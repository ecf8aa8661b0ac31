//! The server graph of a flow model.

use serde::{Deserialize, Serialize};

use crate::TuneError;

const SUM_TOLERANCE: f64 = 1e-9;

/// A stage, link, split or merge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Name for messages.
    pub name: String,
    /// Mean busy seconds per item and replica; finite, at least 0.
    pub service_time: f64,
    /// Replicas on one queue; at least 1.
    pub replicas: u32,
    /// Whether [`FlowModel::allocate`](crate::FlowModel::allocate) may change `replicas`.
    pub replicable: bool,
    /// Mean outputs per input, over all routes; finite, at least 0.
    pub gain: f64,
    /// Whether a busy replica takes a core.
    pub uses_core: bool,
    /// Whether a busy replica holds the interpreter's lock.
    pub holds_lock: bool,
    /// Disk bytes per item; finite, at least 0.
    pub bytes_per_item: f64,
}

impl Server {
    /// A replicable server with one replica and gain 1 that takes a core.
    pub fn new(name: impl Into<String>, service_time: f64) -> Self {
        Self {
            name: name.into(),
            service_time,
            replicas: 1,
            replicable: true,
            gain: 1.0,
            uses_core: true,
            holds_lock: false,
            bytes_per_item: 0.0,
        }
    }
}

/// A share of a server's output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Number of the sending server.
    pub from: usize,
    /// Number of the receiving server.
    pub to: usize,
    /// Share of the output of `from`; 0 to 1. The rest leaves the plan.
    pub probability: f64,
}

/// Where items enter the graph.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Number of the server entered.
    pub server: usize,
    /// Arrivals per second, finite and above 0; `None` for unlimited.
    pub rate: Option<f64>,
    /// Share among sources, by [`SourceRule`]; finite and above 0.
    pub weight: f64,
}

/// How sources share limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SourceRule {
    /// Rates stay in the ratio of the weights, for sources that meet in a join: the slowest holds the others back.
    #[default]
    FixedRatio,
    /// Weighted max-min fairness, for independent sources. Maximising the total would starve the source of the most
    /// expensive items.
    MaxMinFair,
}

/// Resources shared by all servers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Cores, finite and above 0; `None` for no limit.
    pub cores: Option<f64>,
    /// Disk bytes per second, finite and above 0; `None` for no limit.
    pub disk_bytes_per_second: Option<f64>,
    /// Largest utilization of a server; above 0, at most 1. Below 1 it bounds queues (dissertation, eq. 4.6).
    pub max_utilization: f64,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            cores: None,
            disk_bytes_per_second: None,
            max_utilization: 1.0,
        }
    }
}

/// Servers, routes, sources and shared resources.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FlowGraph {
    /// Servers, numbered from 0.
    pub servers: Vec<Server>,
    /// Routes in any order; loops are allowed.
    pub routes: Vec<Route>,
    /// Sources, at least one.
    pub sources: Vec<Source>,
    /// How sources share limits.
    pub source_rule: SourceRule,
    /// Resources shared by all servers.
    pub resources: Resources,
}

impl FlowGraph {
    /// The traffic equations check the graph.
    pub(super) fn check(&self) -> Result<(), TuneError> {
        for (index, server) in self.servers.iter().enumerate() {
            let values = [
                ("service_time", server.service_time),
                ("gain", server.gain),
                ("bytes_per_item", server.bytes_per_item),
            ];
            for (field, value) in values {
                if !(value.is_finite() && value >= 0.0) {
                    let place = format!("servers[{index}].{field}");
                    return Err(TuneError::parameter(place, value, "finite and at least 0"));
                }
            }
            if server.replicas == 0 {
                let place = format!("servers[{index}].replicas");
                return Err(TuneError::parameter(place, 0, "at least 1"));
            }
        }
        self.check_routes()?;
        self.check_sources()?;
        self.resources.check()
    }

    fn check_routes(&self) -> Result<(), TuneError> {
        let mut sums = vec![0.0; self.servers.len()];
        for (index, route) in self.routes.iter().enumerate() {
            for (field, server) in [("from", route.from), ("to", route.to)] {
                self.check_server(|| format!("routes[{index}].{field}"), server)?;
            }
            if !(0.0..=1.0).contains(&route.probability) {
                let place = format!("routes[{index}].probability");
                return Err(TuneError::parameter(place, route.probability, "0 to 1"));
            }
            sums[route.from] += route.probability;
        }
        match sums.iter().position(|&sum| sum > 1.0 + SUM_TOLERANCE) {
            Some(server) => Err(TuneError::RouteSum {
                server,
                name: self.servers[server].name.clone(),
                sum: sums[server],
            }),
            None => Ok(()),
        }
    }

    fn check_sources(&self) -> Result<(), TuneError> {
        if self.sources.is_empty() {
            return Err(TuneError::NoSources);
        }
        for (index, source) in self.sources.iter().enumerate() {
            self.check_server(|| format!("sources[{index}].server"), source.server)?;
            for (field, value) in [("weight", Some(source.weight)), ("rate", source.rate)] {
                check_positive(|| format!("sources[{index}].{field}"), value)?;
            }
        }
        Ok(())
    }

    fn check_server(&self, place: impl Fn() -> String, index: usize) -> Result<(), TuneError> {
        let servers = self.servers.len();
        if index < servers {
            return Ok(());
        }
        Err(TuneError::UnknownServer {
            place: place(),
            index,
            servers,
        })
    }
}

impl Resources {
    fn check(&self) -> Result<(), TuneError> {
        check_positive(|| "resources.cores".into(), self.cores)?;
        check_positive(
            || "resources.disk_bytes_per_second".into(),
            self.disk_bytes_per_second,
        )?;
        if self.max_utilization > 0.0 && self.max_utilization <= 1.0 {
            return Ok(());
        }
        Err(TuneError::parameter(
            "resources.max_utilization",
            self.max_utilization,
            "above 0 and at most 1",
        ))
    }
}

fn check_positive(place: impl Fn() -> String, value: Option<f64>) -> Result<(), TuneError> {
    match value {
        Some(value) if !(value.is_finite() && value > 0.0) => {
            Err(TuneError::parameter(place(), value, "finite and above 0"))
        }
        _ => Ok(()),
    }
}
