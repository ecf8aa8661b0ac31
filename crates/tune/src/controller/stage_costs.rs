//! [`StageCosts`]: costs and bottleneck of a running plan.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Configuration, FlowGraph, FlowModel, Limit, LinkWindow, Resources, Route, Server, Source,
    Window,
};

/// Costs per source sample delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageCosts {
    /// Computing seconds per sample and stage, all replicas together.
    pub seconds_per_sample: Vec<f64>,
    /// Samples per second.
    pub rate: f64,
    /// Whether sources were empty at the end of most windows, so they limit throughput.
    pub keeps_up: bool,
    /// Share of time that each stage's replicas waited for room in a link, 0 to 1.
    pub output_wait: Vec<f64>,
    /// Mean number of threads missing for ready stages.
    pub core_wait: f64,
    /// Links with their traffic.
    pub links: Vec<LinkWindow>,
    /// Bytes per item of each link's writing stage.
    pub link_item_bytes: Vec<f64>,
    /// Bytes per second that each link carries.
    pub link_bytes_per_s: Vec<f64>,
    /// Mean number of tasks of a message from a slot of a cluster; 0 without messages.
    pub batch_tasks: f64,
}

/// What limits the throughput of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// All replicas of a stage are busy.
    Stage {
        /// Stage number.
        stage: usize,
        /// Predicted gain of one more replica, as a share.
        replica_gain: f64,
    },
    /// All threads, or all cores, are busy.
    Threads {
        /// Predicted gain of one more thread, as a share.
        thread_gain: f64,
    },
    /// The plan keeps up with its sources.
    Sources,
}

impl StageCosts {
    /// Costs over windows of one configuration; None if nothing was delivered.
    #[must_use]
    pub fn of(windows: &[Window]) -> Option<Self> {
        let mut all = Window::default();
        windows.iter().for_each(|window| all.add(window));
        if !(all.delivered > 0.0 && all.elapsed_s > 0.0) {
            return None;
        }
        let starved = windows.iter().filter(|window| window.starved).count();
        let core_wait: f64 = all.stages.iter().map(|stage| stage.core_wait_s).sum();
        Some(Self {
            seconds_per_sample: all
                .stages
                .iter()
                .map(|stage| stage.busy_s / all.delivered)
                .collect(),
            rate: all.rate(),
            keeps_up: 2 * starved > windows.len(),
            output_wait: all
                .stages
                .iter()
                .map(|stage| stage.output_wait_s / all.elapsed_s)
                .collect(),
            core_wait: core_wait / all.elapsed_s,
            link_item_bytes: (all.links.iter())
                .map(|link| match all.stages.get(link.from) {
                    Some(stage) if stage.items > 0.0 => link.bytes / stage.items,
                    _ => 0.0,
                })
                .collect(),
            link_bytes_per_s: (all.links.iter())
                .map(|link| link.bytes / all.elapsed_s)
                .collect(),
            batch_tasks: match all.stages.first() {
                Some(tasks) if all.messages > 0.0 => tasks.items / all.messages,
                _ => 0.0,
            },
            links: all.links,
        })
    }

    /// Predicted samples per second; None if unlimited.
    #[must_use]
    pub fn predict(&self, configuration: &Configuration, cores: usize) -> Option<f64> {
        let model = self.model(configuration, cores)?;
        model.solve().source_rates.first().copied()
    }

    /// The bottleneck under a configuration.
    #[must_use]
    pub fn bottleneck(&self, configuration: &Configuration, cores: usize) -> Bottleneck {
        let Some(model) = self.model(configuration, cores).filter(|_| !self.keeps_up) else {
            return Bottleneck::Sources;
        };
        let solution = model.solve();
        match solution.bottleneck {
            Limit::Server(stage) => {
                let gain = model.replica_gains().get(stage).copied().unwrap_or(0.0);
                Bottleneck::Stage {
                    stage,
                    replica_gain: gain / solution.source_rates[0],
                }
            }
            _ => {
                let more = Configuration {
                    workers: configuration.workers + 1,
                    ..configuration.clone()
                };
                let rates = (self.predict(configuration, cores)).zip(self.predict(&more, cores));
                Bottleneck::Threads {
                    thread_gain: rates.map_or(0.0, |(now, then)| (then / now - 1.0).max(0.0)),
                }
            }
        }
    }

    fn model(&self, configuration: &Configuration, cores: usize) -> Option<FlowModel> {
        let stages = self.seconds_per_sample.iter().zip(&configuration.replicas);
        let servers: Vec<Server> = stages
            .enumerate()
            .map(|(at, (&seconds, &replicas))| Server {
                replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
                ..Server::new(format!("stage {at}"), seconds)
            })
            .collect();
        let routes = (1..servers.len()).map(|to| Route {
            from: to - 1,
            to,
            probability: 1.0,
        });
        let threads = configuration.workers.min(cores);
        FlowModel::new(FlowGraph {
            routes: routes.collect(),
            servers,
            sources: vec![Source {
                server: 0,
                rate: None,
                weight: 1.0,
            }],
            resources: Resources {
                cores: Some(threads as f64),
                ..Resources::default()
            },
            ..FlowGraph::default()
        })
        .ok()
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage {
                stage,
                replica_gain,
            } => write!(
                f,
                "stage {stage} is always busy; one more replica is predicted to gain {:.1} %",
                100.0 * replica_gain
            ),
            Self::Threads { thread_gain } => write!(
                f,
                "all threads are busy; one more is predicted to gain {:.1} %",
                100.0 * thread_gain
            ),
            Self::Sources => write!(f, "the sources give no more: the plan keeps up"),
        }
    }
}
