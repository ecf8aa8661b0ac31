//! The simulator against closed forms, the flow model and invariants.

mod adaptation;
mod effects;
mod errors;
mod flow;
mod invariants;
mod json;
mod oracles;
mod order;
mod queues;
mod schedules;
mod search;

use isochrony_tune::Configuration;
use isochrony_tune::simulator::{
    SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedSource, SimulatedStage,
    TimeDistribution,
};

const ITEM: u64 = 1000;

/// Never full.
const UNBOUNDED: u64 = 1 << 50;

fn constant(mean_s: f64) -> TimeDistribution {
    TimeDistribution::Constant { mean_s }
}

fn exponential(mean_s: f64) -> TimeDistribution {
    TimeDistribution::Exponential { mean_s }
}

fn stage(name: &str, service: TimeDistribution) -> SimulatedStage {
    SimulatedStage::new(name, service)
}

fn finite(items: u64, mean_s: f64) -> SimulatedStage {
    stage("scan", constant(mean_s)).with_source(SimulatedSource::Finite { items })
}

fn endless(mean_s: f64) -> SimulatedStage {
    stage("scan", constant(mean_s)).with_source(SimulatedSource::Endless)
}

fn run(plan: &SimulatedPlan, machine: &SimulatedMachine, start: &Configuration) -> SimulatedRun {
    SimulatedRun::new(plan.clone(), machine.clone(), start.clone(), 1).unwrap()
}

fn rate(
    plan: &SimulatedPlan,
    machine: &SimulatedMachine,
    start: &Configuration,
    warm_up_s: f64,
    measured_s: f64,
) -> f64 {
    let mut run = run(plan, machine, start);
    run.window(warm_up_s);
    run.window(measured_s).rate()
}

#[track_caller]
fn assert_close(found: f64, expected: f64, relative: f64) {
    assert!(
        (found - expected).abs() <= relative * expected.abs(),
        "{found}, not {expected}"
    );
}
