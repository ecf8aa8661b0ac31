//! Single queues and tandems against closed forms.

use isochrony_tune::Queue;
use isochrony_tune::simulator::{
    SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedSource, SimulatedStage,
    TimeDistribution,
};

use super::oracles::{interval, mmc_wait, tandem_throughput};
use super::{ITEM, UNBOUNDED, assert_close, constant, exponential, finite, run, stage};

const ITEMS: u64 = 60_000;

fn queue(load: f64, servers: usize, service: &TimeDistribution, seed: u64) -> (f64, f64) {
    let interval = exponential(service.mean() / (load * servers as f64));
    let source = SimulatedSource::Arrivals {
        interval,
        items: Some(ITEMS),
    };
    let mut plan = SimulatedPlan::chain(
        vec![
            stage("arrivals", constant(0.0)).with_source(source),
            SimulatedStage {
                in_order: false,
                ..stage("server", service.clone()).with_replicas(servers)
            },
            stage("sink", constant(0.0)),
        ],
        ITEM,
    );
    plan.stages[0].burst_items = 1;
    let mut start = plan.configuration(servers + 2, UNBOUNDED);
    start.replicas[1] = servers;
    let machine = SimulatedMachine::ideal(servers + 2);
    let mut run = SimulatedRun::new(plan, machine, start, seed).unwrap();
    let makespan = run.run_to_end();
    let link = run.totals().links[0];
    assert_eq!(link.received, ITEMS);
    (link.wait_s / ITEMS as f64, link.item_seconds / makespan)
}

/// In the interval of ten runs, which must be narrow.
#[track_caller]
fn assert_in_interval(results: &[f64], closed: f64) {
    let (mean, half_width) = interval(results);
    let context = format!("{mean} ± {half_width}, not {closed}");
    assert!((mean - closed).abs() <= half_width, "{context}");
    assert!(half_width < 0.2 * closed, "{context}");
}

#[test]
fn waits_behind_poisson_arrivals_are_those_of_the_closed_forms() {
    for (service, scv) in [
        (exponential(0.01), 1.0),
        (constant(0.01), 0.0),
        (
            TimeDistribution::Lognormal {
                mean_s: 0.01,
                cv: 1.5,
            },
            2.25,
        ),
    ] {
        for load in [0.4, 0.8] {
            let closed = Queue::mg1(load / 0.01, 0.01, scv).unwrap();
            let found: Vec<_> = (0..10).map(|seed| queue(load, 1, &service, seed)).collect();
            let waits: Vec<f64> = found.iter().map(|found| found.0).collect();
            let lengths: Vec<f64> = found.iter().map(|found| found.1).collect();
            assert_in_interval(&waits, closed.mean_wait().unwrap());
            assert_in_interval(&lengths, closed.mean_queue_length().unwrap());
        }
    }
}

#[test]
fn waits_before_replicas_are_those_of_erlang_c() {
    for (servers, load) in [(2, 0.7), (4, 0.85), (8, 0.85)] {
        let waits: Vec<f64> = (0..10)
            .map(|seed| queue(load, servers, &exponential(0.01), seed).0)
            .collect();
        assert_in_interval(&waits, mmc_wait(servers as u32, load, 0.01));
    }
}

#[test]
fn measured_times_are_drawn_evenly() {
    let times_s = vec![0.001, 0.002, 0.009];
    let service = TimeDistribution::Measured { times_s };
    // Mean 0.004 s, variance 12.67e-6 s².
    let scv = 38e-6 / 3.0 / (0.004 * 0.004);
    let closed = Queue::mg1(0.6 / 0.004, 0.004, scv).unwrap();
    let waits: Vec<f64> = (0..10)
        .map(|seed| queue(0.6, 1, &service, seed).0)
        .collect();
    assert_in_interval(&waits, closed.mean_wait().unwrap());
}

#[test]
fn exponential_stages_with_a_bounded_link_have_the_throughput_of_the_markov_chain() {
    for (first, second, slots) in [(100.0, 100.0, 1), (100.0, 80.0, 4), (100.0, 120.0, 7)] {
        let source = stage("first", exponential(1.0 / first)).with_source(SimulatedSource::Endless);
        let stages = vec![source, stage("second", exponential(1.0 / second))];
        let plan = SimulatedPlan::chain(stages, ITEM);
        let start = plan.configuration(2, slots * ITEM);
        let rates: Vec<f64> = (0..10)
            .map(|seed| {
                let machine = SimulatedMachine::ideal(2);
                let mut run =
                    SimulatedRun::new(plan.clone(), machine, start.clone(), seed).unwrap();
                run.window(10.0);
                run.window(400.0).rate()
            })
            .collect();
        assert_in_interval(&rates, tandem_throughput(first, second, slots as usize));
    }
}

#[test]
fn constant_stages_take_the_time_of_the_slowest_and_of_one_item() {
    let times = [0.002, 0.005, 0.003, 0.001];
    let mut stages = vec![finite(1000, times[0])];
    stages.extend(times[1..].iter().map(|&time| stage("next", constant(time))));
    let plan = SimulatedPlan::chain(stages, ITEM);
    let all: f64 = times.iter().sum();
    for link_bytes in [1, ITEM, 3 * ITEM, UNBOUNDED] {
        let start = plan.configuration(4, link_bytes);
        let makespan = run(&plan, &SimulatedMachine::ideal(4), &start).run_to_end();
        assert_close(makespan, all + 999.0 * 0.005, 1e-9);
        let start = plan.configuration(1, link_bytes);
        let makespan = run(&plan, &SimulatedMachine::ideal(4), &start).run_to_end();
        assert_close(makespan, 1000.0 * all, 1e-9);
    }
}
