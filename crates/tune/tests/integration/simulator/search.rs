//! The search finds known optima.

use isochrony_tune::simulator::{
    ConfigurationSearch, SimulatedMachine, SimulatedPlan, best_configuration, random_plan,
};
use isochrony_tune::{Configuration, FlowModel};

use super::{ITEM, assert_close, constant, endless, rate, stage};

#[test]
fn the_best_replicas_are_those_that_the_slowest_stage_needs() {
    let plan = SimulatedPlan::chain(
        vec![
            endless(0.001),
            stage("filter", constant(0.0055)).with_replicas(8),
            stage("stats", constant(0.0035)).with_replicas(8),
            stage("sink", constant(0.0005)),
        ],
        ITEM,
    );
    let best = best_configuration(&plan, &SimulatedMachine::ideal(16)).unwrap();
    assert!(best.is_exhaustive);
    // Six levels of replicas twice, four capacities.
    assert_eq!(best.runs, 144);
    assert_close(best.rate, 1000.0, 0.01);
    assert_eq!(best.configuration.replicas, [1, 6, 4, 1]);
}

#[test]
fn climbing_comes_close_to_trying_everything() {
    let machine = SimulatedMachine::typical(8);
    let search = |max_runs| ConfigurationSearch {
        max_runs,
        items: 200,
        link_bytes: vec![1 << 20, 4 << 20],
        ..ConfigurationSearch::default()
    };
    let mut compared = 0;
    for seed in 0..12 {
        let plan = random_plan(seed, 6);
        let all = search(500).find(&plan, &machine).unwrap();
        if !all.is_exhaustive || all.runs < 50 {
            continue;
        }
        compared += 1;
        let climbed = search(all.runs - 1).find(&plan, &machine).unwrap();
        assert!(!climbed.is_exhaustive);
        assert!(
            climbed.rate > 0.95 * all.rate,
            "seed {seed}: {climbed:?}, {all:?}"
        );
    }
    assert!(compared >= 3, "{compared}");
}

#[test]
fn no_configuration_beats_the_flow_model_and_the_best_beats_one_replica() {
    let machine = SimulatedMachine::typical(16);
    let mut gains = 0.0;
    for seed in 20..24 {
        let plan = random_plan(seed, 16);
        let search = ConfigurationSearch {
            max_runs: 120,
            ..ConfigurationSearch::default()
        };
        let best = search.find(&plan, &machine).unwrap();
        let most = Configuration {
            replicas: plan.stages.iter().map(|stage| stage.max_replicas).collect(),
            ..best.configuration.clone()
        };
        let flow = FlowModel::new(plan.flow_graph(&most, 16)).unwrap().solve();
        let bound = flow.source_rates[0];
        assert!(
            best.rate <= 1.1 * bound,
            "seed {seed}: {best:?}, flow model {bound}, {plan:?}"
        );
        let long = |configuration: &Configuration| rate(&plan, &machine, configuration, 1.0, 5.0);
        let one_each = long(&plan.configuration(16, 1 << 20));
        let found = long(&best.configuration);
        assert!(found >= 0.99 * one_each, "seed {seed}: {found}, {one_each}");
        gains += found / one_each;
    }
    assert!(gains > 1.5 * 4.0, "{gains}");
}

#[test]
fn an_empty_search_is_refused() {
    let plan = random_plan(1, 2);
    let machine = SimulatedMachine::ideal(2);
    let search = ConfigurationSearch {
        link_bytes: Vec::new(),
        ..ConfigurationSearch::default()
    };
    let error = search.find(&plan, &machine).unwrap_err();
    assert_eq!(
        error.to_string(),
        "link_bytes: capacities=0 is refused; it must be at least 1"
    );
}
