//! [`SettledLoads`]: configurations that were kept, with the loads at which they were.

use super::stage_costs::StageCosts;
use crate::Configuration;

const MAX_LOADS: usize = 16;
/// Costs per sample within this factor are one load.
const SIMILAR_COST: f64 = 1.25;

struct SettledLoad {
    configuration: Configuration,
    /// Samples per second.
    rate: f64,
    /// Computing seconds per sample, of all stages.
    cost_s: f64,
    keeps_up: bool,
}

/// The newest ones.
#[derive(Default)]
pub(super) struct SettledLoads {
    kept: Vec<SettledLoad>,
    /// With which the plan fell behind its feed.
    too_small: Vec<SettledLoad>,
}

/// Rates that are lower by more are another load.
const SIMILAR_RATE: f64 = 0.9;

impl SettledLoads {
    pub(super) fn remember(&mut self, configuration: &Configuration, costs: &StageCosts) {
        let load = SettledLoad::new(configuration, costs);
        self.kept.retain(|one| !one.is_same(&load));
        add(&mut self.kept, load);
    }

    /// The plan fell behind its feed.
    pub(super) fn exclude(&mut self, configuration: &Configuration, costs: &StageCosts) {
        let load = SettledLoad::new(configuration, costs);
        self.kept
            .retain(|one| !(one.keeps_up && one.configuration == load.configuration));
        add(&mut self.too_small, load);
    }

    /// Whether this or a larger configuration fell behind at such a load.
    pub(super) fn is_too_small(&self, configuration: &Configuration, costs: &StageCosts) -> bool {
        self.too_small.iter().any(|one| {
            let large = &one.configuration;
            let replicas = configuration.replicas.iter().zip(&large.replicas);
            configuration.workers <= large.workers
                && replicas.clone().all(|(one, other)| one <= other)
                && is_near(one.cost_s, total(costs))
                && costs.rate >= SIMILAR_RATE * one.rate
        })
    }

    /// The smallest configuration kept at a load like the present one. `falls_behind`: a feed brings more than is
    /// delivered, so the load is at least the present rate.
    pub(super) fn fitting(
        &self,
        costs: &StageCosts,
        falls_behind: bool,
        is_wanted: impl Fn(&Configuration) -> bool,
    ) -> Option<&Configuration> {
        let fits = |one: &&SettledLoad| {
            one.keeps_up == falls_behind
                && is_wanted(&one.configuration)
                && is_near(one.cost_s, total(costs))
                && (!falls_behind || one.rate > costs.rate)
        };
        let fitting = self.kept.iter().filter(fits);
        let fitting = fitting.map(|one| &one.configuration);
        fitting.min_by_key(|one| (one.workers, one.replicas.iter().sum::<usize>()))
    }
}

impl SettledLoad {
    fn new(configuration: &Configuration, costs: &StageCosts) -> Self {
        Self {
            configuration: configuration.clone(),
            rate: costs.rate,
            cost_s: total(costs),
            keeps_up: costs.keeps_up,
        }
    }

    /// Of a plan that does not wait for its sources one configuration a load is kept, of a feed several.
    fn is_same(&self, other: &Self) -> bool {
        self.keeps_up == other.keeps_up
            && is_near(self.cost_s, other.cost_s)
            && (!self.keeps_up
                || self.configuration == other.configuration && is_near(self.rate, other.rate))
    }
}

fn add(loads: &mut Vec<SettledLoad>, load: SettledLoad) {
    if loads.len() == MAX_LOADS {
        loads.remove(0);
    }
    loads.push(load);
}

fn total(costs: &StageCosts) -> f64 {
    costs.seconds_per_sample.iter().sum()
}

fn is_near(one: f64, other: f64) -> bool {
    one <= SIMILAR_COST * other && other <= SIMILAR_COST * one
}
