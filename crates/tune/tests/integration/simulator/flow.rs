//! Throughputs against the flow model.

use isochrony_tune::simulator::{
    SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedStage, TimeDistribution, random_plan,
};
use isochrony_tune::{Configuration, FlowModel};

use super::{ITEM, assert_close, constant, endless, rate, stage};

fn roomy(plan: &SimulatedPlan, workers: usize, items: u64) -> Configuration {
    let links = plan.links.iter();
    Configuration {
        link_bytes: links.map(|link| items * link.item_bytes).collect(),
        ..plan.configuration(workers, 1)
    }
}

fn flow_rate(plan: &SimulatedPlan, configuration: &Configuration, cores: usize) -> f64 {
    let model = FlowModel::new(plan.flow_graph(configuration, cores)).unwrap();
    model.solve().source_rates[0]
}

#[test]
fn random_plans_with_a_core_for_each_stage_have_the_rate_of_the_flow_model() {
    for seed in 0..60 {
        let mut plan = random_plan(seed, 4);
        for stage in &mut plan.stages {
            stage.service = constant(stage.service.mean());
        }
        let mut configuration = roomy(&plan, 64, 16);
        let mut random = fastrand::Rng::with_seed(seed);
        for (replicas, stage) in configuration.replicas.iter_mut().zip(&plan.stages) {
            *replicas = random.usize(1..=stage.max_replicas);
        }
        let flow = flow_rate(&plan, &configuration, 64);
        let (warm_up_s, measured_s) = (400.0 / flow, 2000.0 / flow);
        let machine = SimulatedMachine::ideal(64);
        let found = rate(&plan, &machine, &configuration, warm_up_s, measured_s);
        assert!(
            (found / flow - 1.0).abs() < 0.02,
            "seed {seed}: {found}, flow model {flow}"
        );
    }
}

#[test]
fn few_cores_have_the_rate_of_the_flow_model() {
    let mut sum = 0.0;
    for seed in 0..60 {
        let plan = random_plan(seed, 8);
        let cores = 2 + seed as usize % 3;
        let mut configuration = roomy(&plan, cores, 64);
        for (replicas, stage) in configuration.replicas.iter_mut().zip(&plan.stages) {
            *replicas = stage.max_replicas.min(cores);
        }
        let flow = flow_rate(&plan, &configuration, cores);
        let machine = SimulatedMachine::ideal(cores);
        let found = rate(
            &plan,
            &machine,
            &configuration,
            1000.0 / flow,
            6000.0 / flow,
        );
        // Threads prefer stages near the end, so an early bottleneck may wait for cores; the caller's thread may be
        // busy when the last stage is ready.
        let part = found / flow;
        assert!(
            (0.8..1.02).contains(&part),
            "seed {seed}: {found}, flow model {flow}"
        );
        sum += part;
    }
    assert!(sum / 60.0 > 0.97, "{sum}");
}

#[test]
fn one_stage_without_replicas_bounds_the_speedup() {
    let (serial_s, parallel_s) = (0.001, 0.012);
    let mut plan = SimulatedPlan::chain(
        vec![
            endless(0.0),
            stage("parallel", constant(parallel_s)).with_replicas(32),
            stage("serial", constant(serial_s)),
        ],
        ITEM,
    );
    plan.stages[0].name = "scan".into();
    for cores in [1, 2, 4, 8, 16, 32] {
        let mut start = plan.configuration(cores, 64 * ITEM);
        start.replicas[1] = cores;
        let found = rate(&plan, &SimulatedMachine::ideal(cores), &start, 1.0, 10.0);
        let bound = (1.0 / serial_s).min(cores as f64 / (serial_s + parallel_s));
        assert_close(found, bound, 0.02);
    }
}

#[test]
fn variation_and_small_links_lose_throughput_and_never_gain_any() {
    let lognormal = |mean_s| TimeDistribution::Lognormal { mean_s, cv: 1.0 };
    let chain = |service: fn(f64) -> TimeDistribution| {
        let stages: Vec<SimulatedStage> = (0..5)
            .map(|number| match number {
                0 => SimulatedStage {
                    service: service(0.001),
                    ..endless(0.001)
                },
                _ => stage("next", service(0.001)),
            })
            .collect();
        SimulatedPlan::chain(stages, ITEM)
    };
    let rates: Vec<f64> = [1, 4, 16, 64]
        .map(|items| {
            let plan = chain(lognormal);
            let machine = SimulatedMachine::ideal(5);
            let mut run =
                SimulatedRun::new(plan.clone(), machine, roomy(&plan, 5, items), 3).unwrap();
            run.window(2.0);
            run.window(40.0).rate()
        })
        .into();
    assert!(rates.is_sorted(), "{rates:?}");
    assert!(rates[0] < 700.0 && rates[3] < 1010.0, "{rates:?}");
    assert!(rates[3] > 930.0, "{rates:?}");
}
