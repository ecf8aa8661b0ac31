//! Tuner actions have the same effect as in a real run.

use isochrony_tune::TuneError;
use isochrony_tune::simulator::{CostChange, SimulatedMachine, SimulatedPlan, SimulatedSource};

use super::{ITEM, assert_close, constant, endless, exponential, run, stage};

fn replicated() -> SimulatedPlan {
    SimulatedPlan::chain(
        vec![
            endless(0.0),
            stage("filter", constant(0.004)).with_replicas(8),
            stage("sink", constant(0.0)),
        ],
        ITEM,
    )
}

#[test]
fn replicas_and_workers_come_and_go() {
    let plan = replicated();
    let mut configuration = plan.configuration(10, 16 * ITEM);
    let mut run = run(&plan, &SimulatedMachine::ideal(10), &configuration);
    for (workers, replicas, expected) in [
        (10, 1, 250.0),
        (10, 8, 2000.0),
        (10, 3, 750.0),
        (2, 8, 500.0),
        (1, 8, 250.0),
        (10, 8, 2000.0),
        (10, 1, 250.0),
    ] {
        configuration.workers = workers;
        configuration.replicas[1] = replicas;
        run.configure(&configuration).unwrap();
        assert_eq!(run.configuration(), &configuration);
        run.window(1.0);
        let window = run.window(4.0);
        assert_close(window.rate(), expected, 0.01);
        let filter = window.stages[1];
        let sum = filter.busy_s + filter.input_wait_s + filter.output_wait_s + filter.core_wait_s;
        assert_close(sum, 4.0 * replicas as f64, 0.01);
    }
}

#[test]
fn a_larger_link_takes_more_at_once() {
    let plan = SimulatedPlan::chain(vec![endless(0.001), stage("slow", constant(0.1))], ITEM);
    let mut configuration = plan.configuration(2, 4 * ITEM);
    let mut run = run(&plan, &SimulatedMachine::ideal(2), &configuration);
    run.window(1.0);
    let held = run.totals().links[0].held;
    assert!(held <= 4, "{held}");
    configuration.link_bytes[0] = 100 * ITEM;
    run.configure(&configuration).unwrap();
    let window = run.window(1.0);
    let held = run.totals().links[0].held;
    assert!((80..=100).contains(&held), "{held}");
    assert!(window.stages[0].output_wait_s > 0.85);
    configuration.link_bytes[0] = 4 * ITEM;
    run.configure(&configuration).unwrap();
    run.window(20.0);
    let held = run.totals().links[0].held;
    assert!(held <= 4, "{held}");
}

#[test]
fn the_cost_of_a_stage_changes_at_its_time() {
    let mut plan =
        SimulatedPlan::chain(vec![endless(0.001), stage("filter", constant(0.002))], ITEM);
    let change = |at_s, factor| CostChange {
        stage: 1,
        at_s,
        factor,
    };
    plan.changes = vec![change(10.0, 3.0), change(20.0, 0.25)];
    let start = plan.configuration(2, 2 * ITEM);
    let mut run = run(&plan, &SimulatedMachine::ideal(2), &start);
    for expected in [500.0, 1000.0 / 6.0, 1000.0] {
        assert_close(run.window(10.0).rate(), expected, 0.01);
    }
}

#[test]
fn a_feed_that_the_plan_keeps_up_with_starves_it() {
    for (rate, starves) in [(300.0, true), (1500.0, false)] {
        let mut plan = SimulatedPlan::chain(vec![endless(0.001)], ITEM);
        plan.stages[0].source = Some(SimulatedSource::Arrivals {
            interval: exponential(1.0 / rate),
            items: None,
        });
        let start = plan.configuration(1, 1);
        let mut run = run(&plan, &SimulatedMachine::ideal(1), &start);
        run.window(5.0);
        let window = run.window(20.0);
        assert_eq!(window.starved, starves);
        assert_close(window.rate(), rate.min(1000.0), 0.05);
        assert_eq!(run.run_to_end(), f64::INFINITY);
    }
}

#[test]
fn counters_tell_what_the_bottleneck_is() {
    let plan = SimulatedPlan::chain(
        vec![
            endless(0.001),
            stage("bottleneck", constant(0.004)),
            stage("sink", constant(0.001)),
        ],
        ITEM,
    );
    let start = plan.configuration(3, 8 * ITEM);
    let mut run = run(&plan, &SimulatedMachine::ideal(3), &start);
    run.window(1.0);
    let window = run.window(10.0);
    let [scan, bottleneck, sink] = window.stages[..] else {
        panic!("{window:?}");
    };
    assert_close(scan.output_wait_s, 7.5, 0.01);
    assert_close(bottleneck.busy_s, 10.0, 0.01);
    assert_close(sink.input_wait_s, 7.5, 0.01);
    assert_close(window.cpu_s, 15.0, 0.01);
    assert_close(window.links[0].bytes, 2500.0 * ITEM as f64, 0.01);
    assert!(window.links[0].occupancy > 0.5 && window.links[1].occupancy == 0.0);
    let start = plan.configuration(1, 8 * ITEM);
    let mut run = super::run(&plan, &SimulatedMachine::ideal(3), &start);
    let window = run.window(12.0);
    assert!(window.stages.iter().any(|stage| stage.core_wait_s > 1.0));
    assert_close(window.rate(), 1.0 / 0.006, 0.01);
}

#[test]
fn a_refused_configuration_changes_nothing() {
    let plan = replicated();
    let start = plan.configuration(4, ITEM);
    let mut run = run(&plan, &SimulatedMachine::ideal(4), &start);
    let mut wrong = start.clone();
    wrong.replicas[1] = 9;
    let error = run.configure(&wrong).unwrap_err();
    assert_eq!(
        error.to_string(),
        "replicas[1]=9 is refused; it must be 1 to 8"
    );
    wrong.replicas.pop();
    let error = run.configure(&wrong).unwrap_err();
    assert!(matches!(error, TuneError::OtherPlan { .. }), "{error}");
    assert_eq!(run.configuration(), &start);
}
