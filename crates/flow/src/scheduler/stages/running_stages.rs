//! A pool as [`RunningPlan`]: what a tuner and [`Control`](crate::engine::control::Control) see and change of it.

use isochrony_tune::{Configuration, ConfigurationLimits};

use super::pool::StagePool;
use crate::PlanError;
use crate::engine::report::{StageMeasurement, StageReport};
use crate::engine::tuning::RunningPlan;
use crate::scheduler::explain::joined;

/// A tuner makes links no smaller.
const MIN_LINK_BYTES: u64 = 1;

impl RunningPlan for StagePool {
    fn is_staged(&self) -> bool {
        true
    }

    fn names(&self) -> Vec<String> {
        let names = self.operators.iter().map(|stage| {
            let names = stage.iter().map(|&node| self.plan.nodes[node].op.name());
            joined(names)
        });
        names.collect()
    }

    fn configuration(&self) -> Configuration {
        let stages = 0..self.operators.len();
        let replicated = |stage| self.replicated.iter().find(|one| one.number == stage);
        let links = self.links.iter();
        Configuration {
            workers: self.threads.active(),
            replicas: stages
                .map(|stage| replicated(stage).map_or(1, |one| one.replicas()))
                .collect(),
            link_bytes: links
                .map(|link| {
                    link.link
                        .capacity()
                        .clamp(MIN_LINK_BYTES, self.max_link_bytes)
                })
                .collect(),
            task_bytes: 0,
            batch_tasks: 0,
        }
    }

    fn limits(&self) -> ConfigurationLimits {
        let stages = 0..self.operators.len();
        let replicated = |stage| self.replicated.iter().find(|one| one.number == stage);
        ConfigurationLimits {
            min_workers: 1,
            workers: self.threads.most(),
            replicas: stages
                .map(|stage| replicated(stage).map_or(1, |one| one.max_replicas()))
                .collect(),
            min_link_bytes: MIN_LINK_BYTES,
            max_link_bytes: self.max_link_bytes,
            min_task_bytes: 0,
            max_task_bytes: 0,
            max_batch_tasks: 0,
        }
    }

    fn set_workers(&self, workers: usize) {
        self.threads.set_active(workers);
        self.queue.wake_all();
    }

    fn set_replicas(&self, stage: usize, replicas: usize) -> Result<(), PlanError> {
        let of_blocks = self.replicated.iter().find(|one| one.number == stage);
        let by_key = self.helpers.iter().find(|one| one.stage == stage);
        let of_blocks_most = of_blocks.map(|one| one.max_replicas());
        let most = of_blocks_most.or(by_key.map(|one| one.max_replicas()));
        let most = most.unwrap_or(0);
        if !(1..=most).contains(&replicas) {
            let of_blocks = self.replicated.iter().map(|one| one.number);
            let by_key = self.helpers.iter().map(|one| one.stage);
            let mut able: Vec<usize> = of_blocks.chain(by_key).collect();
            able.sort_unstable();
            let able: Vec<String> = able.iter().map(usize::to_string).collect();
            return Err(PlanError::NoReplicas {
                stage,
                replicas,
                most,
                able: able.join(", "),
            });
        }
        if let Some(one) = of_blocks {
            one.set_replicas(replicas);
        }
        if let Some(one) = by_key {
            one.set_replicas(replicas);
        }
        Ok(())
    }

    fn set_link_capacity(&self, link: usize, bytes: u64) -> Result<(), PlanError> {
        match self.links.get(link).filter(|_| bytes > 0) {
            Some(named) => {
                named.set_capacity(bytes);
                Ok(())
            }
            None => Err(PlanError::NoLink {
                link,
                bytes,
                last: self.links.len().saturating_sub(1),
            }),
        }
    }

    fn measurement(&self) -> StageMeasurement {
        // Their time is in the stage's: it waits for them.
        let is_helper = |one: &StageReport| {
            let replica = one.replica.is_some_and(|number| number > 0);
            replica && self.helpers.iter().any(|of| of.stage == one.number)
        };
        let mut stages = self.stage_reports();
        stages.retain(|one| !is_helper(one));
        StageMeasurement {
            elapsed: self.begun.elapsed(),
            is_of_stages: true,
            links: self.link_reports(&stages),
            stages,
        }
    }
}
