//! [`SimulatedPlan`]: stages, links and sources.

use serde::{Deserialize, Serialize};

use super::TimeDistribution;
use crate::{
    Configuration, ConfigurationLimits, FlowGraph, Resources, Route, Server, Source, TuneError,
};

/// A plan in stages: links lead to later stages, all to the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedPlan {
    /// Stages; only the caller's thread executes the last.
    pub stages: Vec<SimulatedStage>,
    /// Links between stages.
    pub links: Vec<SimulatedLink>,
    /// Cost changes, by time.
    #[serde(default)]
    pub changes: Vec<CostChange>,
}

/// Executed by one thread at a time, or by one per replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedStage {
    /// Name for messages.
    pub name: String,
    /// Undisturbed computing seconds per item.
    pub service: TimeDistribution,
    /// Source, besides links.
    #[serde(default)]
    pub source: Option<SimulatedSource>,
    /// Maximum replicas; 1 if not replicable. A replicable stage has one link in and no source.
    #[serde(default = "one")]
    pub max_replicas: usize,
    /// Whether results leave in item order, as in a real plan.
    #[serde(default = "yes")]
    pub in_order: bool,
    /// Items per burst, at least 1. A replica computes one per burst.
    #[serde(default = "one")]
    pub burst_items: usize,
    /// Memory traffic per item in bytes, whatever caches hold; finite, at least 0.
    #[serde(default)]
    pub memory_bytes: f64,
}

/// A source of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SimulatedSource {
    /// Endless items, given when taken.
    Endless,
    /// A number of items, given when taken.
    Finite {
        /// Total items.
        items: u64,
    },
    /// Items that arrive and wait.
    Arrivals {
        /// Seconds between items; the mean is above 0.
        interval: TimeDistribution,
        /// Total items; endless if not given.
        #[serde(default)]
        items: Option<u64>,
    },
}

/// A bounded queue; the [`Configuration`] has its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedLink {
    /// Number of the writing stage.
    pub from: usize,
    /// Number of the reading stage, above `from`.
    pub to: usize,
    /// Items per item that `from` takes; finite, above 0. After `n` items `gain · n`, rounded down.
    pub gain: f64,
    /// Bytes per item; at least 1.
    pub item_bytes: u64,
}

/// A change of a stage's cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostChange {
    /// Stage number.
    pub stage: usize,
    /// Seconds of the run.
    pub at_s: f64,
    /// Multiple of the service time; finite, above 0.
    pub factor: f64,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

impl SimulatedStage {
    /// One replica, bursts of one item, no source.
    #[must_use]
    pub fn new(name: impl Into<String>, service: TimeDistribution) -> Self {
        Self {
            name: name.into(),
            service,
            source: None,
            max_replicas: 1,
            in_order: true,
            burst_items: 1,
            memory_bytes: 0.0,
        }
    }

    /// Adds a source.
    #[must_use]
    pub fn with_source(self, source: SimulatedSource) -> Self {
        Self {
            source: Some(source),
            ..self
        }
    }

    /// Allows so many replicas.
    #[must_use]
    pub fn with_replicas(self, max_replicas: usize) -> Self {
        Self {
            max_replicas,
            ..self
        }
    }
}

impl SimulatedPlan {
    /// Stages in a row, with gain 1 and `item_bytes`.
    #[must_use]
    pub fn chain(stages: Vec<SimulatedStage>, item_bytes: u64) -> Self {
        let link = |to| SimulatedLink {
            from: to - 1,
            to,
            gain: 1.0,
            item_bytes,
        };
        Self {
            links: (1..stages.len()).map(link).collect(),
            stages,
            changes: Vec::new(),
        }
    }

    /// A configuration with one replica per stage.
    #[must_use]
    pub fn configuration(&self, workers: usize, link_bytes: u64) -> Configuration {
        Configuration {
            workers,
            replicas: vec![1; self.stages.len()],
            link_bytes: vec![link_bytes; self.links.len()],
            task_bytes: 0,
            batch_tasks: 0,
        }
    }

    /// A tuner's limits on so many cores.
    #[must_use]
    pub fn limits(
        &self,
        cores: usize,
        min_link_bytes: u64,
        max_link_bytes: u64,
    ) -> ConfigurationLimits {
        ConfigurationLimits {
            min_workers: 1,
            workers: cores,
            replicas: self.stages.iter().map(|stage| stage.max_replicas).collect(),
            min_link_bytes,
            max_link_bytes,
            min_task_bytes: 0,
            max_task_bytes: 0,
            max_batch_tasks: 0,
        }
    }

    /// Items of each stage per item of each source.
    #[must_use]
    pub fn visits(&self) -> Vec<f64> {
        let mut visits = vec![0.0; self.stages.len()];
        for (stage, of_stage) in self.stages.iter().enumerate() {
            visits[stage] += f64::from(u8::from(of_stage.source.is_some()));
            for link in self.links.iter().filter(|link| link.from == stage) {
                visits[link.to] += visits[stage] * link.gain;
            }
        }
        visits
    }

    /// The flow model of the plan: without link bounds, variation, and costs of passing items.
    ///
    /// ```
    /// use isochrony_tune::FlowModel;
    /// use isochrony_tune::simulator::{SimulatedPlan, SimulatedSource, SimulatedStage, TimeDistribution};
    ///
    /// let stage = |name, mean_s| SimulatedStage::new(name, TimeDistribution::Constant { mean_s });
    /// let plan = SimulatedPlan::chain(
    ///     vec![stage("scan", 0.01).with_source(SimulatedSource::Endless), stage("filter", 0.04).with_replicas(4)],
    ///     65536,
    /// );
    /// let mut configuration = plan.configuration(4, 1 << 20);
    /// configuration.replicas[1] = 2;
    /// let flow = FlowModel::new(plan.flow_graph(&configuration, 4))?.solve();
    /// assert!((flow.source_rates[0] - 50.0).abs() < 1e-9);
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    #[must_use]
    pub fn flow_graph(&self, configuration: &Configuration, cores: usize) -> FlowGraph {
        let gain_of = |stage: usize| -> f64 {
            let links = self.links.iter().filter(|link| link.from == stage);
            links.map(|link| link.gain).sum()
        };
        let server = |(number, stage): (usize, &SimulatedStage)| Server {
            replicas: configuration.replicas.get(number).copied().unwrap_or(1) as u32,
            replicable: stage.max_replicas > 1,
            gain: gain_of(number),
            ..Server::new(stage.name.clone(), stage.service.mean())
        };
        let route = |link: &SimulatedLink| Route {
            from: link.from,
            to: link.to,
            probability: (link.gain / gain_of(link.from)).min(1.0),
        };
        let source = |(server, stage): (usize, &SimulatedStage)| {
            let rate = match stage.source.as_ref()? {
                SimulatedSource::Arrivals { interval, .. } => Some(1.0 / interval.mean()),
                SimulatedSource::Endless | SimulatedSource::Finite { .. } => None,
            };
            Some(Source {
                server,
                rate,
                weight: 1.0,
            })
        };
        FlowGraph {
            servers: self.stages.iter().enumerate().map(server).collect(),
            routes: self.links.iter().map(route).collect(),
            sources: self.stages.iter().enumerate().filter_map(source).collect(),
            resources: Resources {
                cores: Some(cores.min(configuration.workers) as f64),
                ..Resources::default()
            },
            ..FlowGraph::default()
        }
    }

    pub(super) fn check_configuration(
        &self,
        configuration: &Configuration,
    ) -> Result<(), TuneError> {
        let limits = self.limits(MAX_THREADS, 1, u64::MAX);
        limits.check(configuration, self.links.len())
    }
}

/// Without competitors'.
pub(super) const MAX_THREADS: usize = 4096;
