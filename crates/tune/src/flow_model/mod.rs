//! Flow model of a plan: rates, utilizations, bottleneck.
//!
//! A plan is a graph of servers: stages, links, splits and merges. Each emits `gain` items per input item along its
//! routes in fixed shares. The model is the maximum flow of Beard's RaftLib dissertation (2015, chapter 4):
//! conservation (eq. 4.2), gain (4.3), capacity (4.4), routing (4.5), bounded utilization (4.6). With fixed routing all
//! rates are proportional to the source rates, so the optimum has a closed form: the traffic equations give visits per
//! source item, and the smallest `capacity / load` limits the source.
//!
//! The dissertation divides a core's rate by its number of kernels (eq. 4.8); here a server takes a core, the
//! interpreter's lock or the disk only while busy.
//!
//! Means in steady state: buffers must be large enough that servers seldom wait for each other; see
//! [`Queue`](crate::Queue).

mod allocate;
mod graph;
mod solution;
mod traffic;

pub use allocate::Allocation;
pub use graph::{FlowGraph, Resources, Route, Server, Source, SourceRule};
pub use solution::{FlowSolution, Limit};

use crate::TuneError;

/// The flow model of a checked graph.
///
/// ```
/// use isochrony_tune::{FlowGraph, FlowModel, Limit, Route, Server, Source};
///
/// let mut detect = Server::new("detect", 0.020);
/// detect.replicas = 2;
/// detect.gain = 0.1;
/// let model = FlowModel::new(FlowGraph {
///     servers: vec![Server::new("read", 0.004), detect, Server::new("write", 0.050)],
///     routes: vec![
///         Route { from: 0, to: 1, probability: 1.0 },
///         Route { from: 1, to: 2, probability: 1.0 },
///     ],
///     sources: vec![Source { server: 0, rate: None, weight: 1.0 }],
///     ..FlowGraph::default()
/// })?;
/// let solution = model.solve();
/// assert!((solution.source_rates[0] - 100.0).abs() < 1e-9);
/// assert_eq!(solution.bottleneck, Limit::Server(1));
/// assert!((solution.server_utilizations[2] - 0.5).abs() < 1e-9);
/// assert!((model.replica_gains()[1] - 50.0).abs() < 1e-9);
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FlowModel {
    graph: FlowGraph,
    /// As `[source][server]`.
    visits: Vec<Vec<f64>>,
    core_seconds: Vec<f64>,
    lock_seconds: Vec<f64>,
    disk_bytes: Vec<f64>,
}

impl FlowModel {
    /// Checks a graph and solves its traffic equations, in time cubic in the number of servers.
    ///
    /// # Errors
    ///
    /// [`TuneError::Parameter`], [`TuneError::UnknownServer`], [`TuneError::RouteSum`], [`TuneError::NoSources`],
    /// [`TuneError::EndlessLoop`], [`TuneError::UnlimitedSource`].
    pub fn new(graph: FlowGraph) -> Result<Self, TuneError> {
        graph.check()?;
        let visits = traffic::visits(&graph)?;
        let per_item = |cost: fn(&Server) -> f64| -> Vec<f64> {
            let of_source = |visits: &Vec<f64>| {
                let terms = visits.iter().zip(&graph.servers);
                terms.map(|(visits, server)| visits * cost(server)).sum()
            };
            visits.iter().map(of_source).collect()
        };
        let core_seconds = per_item(|server| match server.uses_core {
            true => server.service_time,
            false => 0.0,
        });
        let lock_seconds = per_item(|server| match server.holds_lock {
            true => server.service_time,
            false => 0.0,
        });
        let disk_bytes = per_item(|server| server.bytes_per_item);
        let model = Self {
            graph,
            visits,
            core_seconds,
            lock_seconds,
            disk_bytes,
        };
        model.check_limits()?;
        Ok(model)
    }

    /// The graph.
    pub fn graph(&self) -> &FlowGraph {
        &self.graph
    }

    /// Mean visits of every server per item of a source, in the graph's order.
    ///
    /// # Errors
    ///
    /// [`TuneError::Parameter`] for an unknown source.
    ///
    /// ```
    /// use isochrony_tune::{FlowGraph, FlowModel, Route, Server, Source};
    ///
    /// // A quarter of the items is tried again.
    /// let model = FlowModel::new(FlowGraph {
    ///     servers: vec![Server::new("fetch", 0.1)],
    ///     routes: vec![Route { from: 0, to: 0, probability: 0.25 }],
    ///     sources: vec![Source { server: 0, rate: Some(3.0), weight: 1.0 }],
    ///     ..FlowGraph::default()
    /// })?;
    /// assert!((model.visits(0)?[0] - 4.0 / 3.0).abs() < 1e-12);
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn visits(&self, source: usize) -> Result<&[f64], TuneError> {
        let known = self.visits.get(source).map(Vec::as_slice);
        known.ok_or_else(|| {
            TuneError::parameter("source", source, "below the number of sources of the graph")
        })
    }

    /// The largest steady rates.
    pub fn solve(&self) -> FlowSolution {
        let replicas = self.replicas();
        let flow = self.fill(&self.constraints(&replicas));
        self.complete(flow, &replicas)
    }

    /// Gain of one more replica of each server, in items per second of all sources.
    ///
    /// 0 if not a bottleneck. Can be negative under [`SourceRule::MaxMinFair`]: a slow source may take more from others
    /// than it gains.
    pub fn replica_gains(&self) -> Vec<f64> {
        let total = |replicas: &[u32]| -> f64 {
            let flow = self.fill(&self.constraints(replicas));
            flow.rates.iter().sum()
        };
        let mut replicas = self.replicas();
        let now = total(&replicas);
        (0..replicas.len())
            .map(|server| {
                let count = replicas[server];
                replicas[server] = count.saturating_add(1);
                let gain = total(&replicas) - now;
                replicas[server] = count;
                gain
            })
            .collect()
    }

    /// Why a limit holds, and what would lift it.
    ///
    /// `limit` comes from [`solve`](Self::solve) of this model; unknown servers or sources are described without
    /// values.
    ///
    /// ```
    /// use isochrony_tune::{FlowGraph, FlowModel, Server, Source};
    ///
    /// let model = FlowModel::new(FlowGraph {
    ///     servers: vec![Server::new("filter", 0.1)],
    ///     sources: vec![Source { server: 0, rate: None, weight: 1.0 }],
    ///     ..FlowGraph::default()
    /// })?;
    /// assert_eq!(
    ///     model.explain(model.solve().bottleneck),
    ///     "server 0 (filter) is at its largest utilization of 1, with replicas=1 and service_time=0.1 s; add a \
    ///      replica, or make it faster"
    /// );
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn explain(&self, limit: Limit) -> String {
        let resources = &self.graph.resources;
        match limit {
            Limit::Arrivals(index) => {
                let rate = self.graph.sources.get(index).and_then(|source| source.rate);
                let rate = rate.map_or_else(String::new, |rate| format!(" {rate} items/s"));
                format!("source {index} has no more than{rate} arriving; the plan can take more")
            }
            Limit::Server(index) => match self.graph.servers.get(index) {
                Some(server) => format!(
                    "server {index} ({}) is at its largest utilization of {}, with replicas={} and service_time={} s; add \
                     a replica, or make it faster",
                    server.name, resources.max_utilization, server.replicas, server.service_time
                ),
                None => format!("server {index} is at its largest utilization"),
            },
            Limit::Cores => {
                let cores = resources.cores.unwrap_or(f64::INFINITY);
                format!("all {cores} cores are busy; more replicas do not help, more cores do")
            }
            Limit::InterpreterLock => {
                "the interpreter's lock is always held; run servers that hold it in processes of \
                                       their own, or let them release it"
                    .into()
            }
            Limit::Disk => {
                let rate = resources.disk_bytes_per_second.unwrap_or(f64::INFINITY);
                format!(
                    "the disk transfers all the {rate} bytes/s that it can; read or write fewer bytes an item"
                )
            }
        }
    }

    fn replicas(&self) -> Vec<u32> {
        let servers = self.graph.servers.iter();
        servers.map(|server| server.replicas).collect()
    }

    fn check_limits(&self) -> Result<(), TuneError> {
        let constraints = self.constraints(&self.replicas());
        for (index, source) in self.graph.sources.iter().enumerate() {
            if !constraints
                .iter()
                .any(|constraint| constraint.bounds(index))
            {
                return Err(TuneError::UnlimitedSource {
                    source_index: index,
                    server: source.server,
                    name: self.graph.servers[source.server].name.clone(),
                });
            }
        }
        Ok(())
    }
}
