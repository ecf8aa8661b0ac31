//! [`StageCosts`]: what each stage of a running plan costs, and what limits the plan, from windows of its counters.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Configuration, FlowGraph, FlowModel, Limit, LinkWindow, Resources, Route, Server, Source,
    Window,
};

/// Costs for each source sample that reaches the end of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageCosts {
    /// Seconds that all replicas of each stage compute for a sample.
    pub seconds_per_sample: Vec<f64>,
    /// Samples per second.
    pub rate: f64,
    /// Most of the windows ended with sources that had nothing to give: throughput is theirs.
    pub keeps_up: bool,
    /// Part of the time that each stage waited for room in a link, from 0 to 1, of all its replicas together.
    pub output_wait: Vec<f64>,
    /// Part of the time that stages could have computed, but all threads were busy; of all stages together, in threads.
    pub core_wait: f64,
    /// Links, with what they carried.
    pub links: Vec<LinkWindow>,
    /// Bytes that each link carries for one item of the stage that writes into it.
    pub link_item_bytes: Vec<f64>,
}

/// What limits the throughput of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// All replicas of a stage are busy all the time.
    Stage {
        /// Its number.
        stage: usize,
        /// Gain that the model predicts of one more replica, as a part of the throughput.
        replica_gain: f64,
    },
    /// All threads, or all cores, are busy.
    Threads {
        /// Gain that the model predicts of one more thread; 0 where all cores are in use.
        thread_gain: f64,
    },
    /// The sources give no more: the plan keeps up with a feed.
    Sources,
}

impl StageCosts {
    /// The costs in some windows of the same configuration; None if no sample reached the end in them.
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
            links: all.links,
        })
    }

    /// Samples per second that the flow model predicts for a configuration; None where nothing limits the plan.
    #[must_use]
    pub fn predict(&self, configuration: &Configuration, cores: usize) -> Option<f64> {
        let model = self.model(configuration, cores)?;
        model.solve().source_rates.first().copied()
    }

    /// What limits the plan under a configuration.
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

    /// One server for each stage, each visited once for a sample, and threads as cores.
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
