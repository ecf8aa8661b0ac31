//! Each effect costs what its parameter says, and nothing at 0.

use isochrony_tune::simulator::{
    Competitor, SimulatedMachine, SimulatedPlan, SimulatedSource, SimulatedStage,
};

use super::{ITEM, UNBOUNDED, assert_close, constant, endless, finite, rate, run, stage};

fn single(items: u64, burst_items: usize) -> SimulatedPlan {
    let stage = SimulatedStage {
        burst_items,
        ..finite(items, 0.001)
    };
    SimulatedPlan::chain(vec![stage], ITEM)
}

#[test]
fn a_hand_over_costs_once_a_burst() {
    let machine = SimulatedMachine {
        hand_over_s: 0.0002,
        ..SimulatedMachine::ideal(1)
    };
    for (burst_items, bursts) in [(1, 1000.0), (10, 100.0)] {
        let plan = single(1000, burst_items);
        let makespan = run(&plan, &machine, &plan.configuration(1, 1)).run_to_end();
        assert_close(makespan, 1.0 + bursts * 0.0002, 1e-9);
    }
}

#[test]
fn a_thread_that_sleeps_is_late_and_one_that_spins_is_not() {
    let mut plan = single(1, 1);
    plan.stages[0].source = Some(SimulatedSource::Arrivals {
        interval: constant(0.1),
        items: Some(50),
    });
    // The last item arrives at 5 s and takes 0.001 s. A spinning thread computes all the time.
    for (spin_s, late_s, cpu_s) in [(0.0, 0.03, 0.05), (0.2, 0.0, 5.001), (0.02, 0.03, 1.05)] {
        let machine = SimulatedMachine {
            wake_s: 0.03,
            spin_s,
            ..SimulatedMachine::ideal(1)
        };
        let mut run = run(&plan, &machine, &plan.configuration(1, 1));
        assert_close(run.run_to_end(), 5.001 + late_s, 1e-9);
        assert_close(run.totals().window.cpu_s, cpu_s, 1e-9);
    }
}

#[test]
fn helpers_begin_later() {
    let plan = SimulatedPlan::chain(
        vec![finite(1000, 0.001), stage("sink", constant(0.001))],
        ITEM,
    );
    let machine = SimulatedMachine {
        helpers_after_s: 0.5,
        ..SimulatedMachine::ideal(2)
    };
    // One thread computes 250 items, then one per millisecond, and the last one's second stage.
    let makespan = run(&plan, &machine, &plan.configuration(2, UNBOUNDED)).run_to_end();
    assert_close(makespan, 0.5 + 0.75 + 0.001, 1e-3);
}

#[test]
fn memory_bounds_the_rate_of_all_replicas() {
    let mut plan = SimulatedPlan::chain(
        vec![
            endless(0.0),
            stage("reads memory", constant(0.001)).with_replicas(8),
            stage("sink", constant(0.0)),
        ],
        ITEM,
    );
    plan.stages[1].memory_bytes = 500_000.0;
    let rate = |replicas, memory_bytes_per_s| {
        let mut start = plan.configuration(10, 64 * ITEM);
        start.replicas[1] = replicas;
        let machine = SimulatedMachine {
            memory_bytes_per_s,
            ..SimulatedMachine::ideal(10)
        };
        rate(&plan, &machine, &start, 0.5, 2.0)
    };
    // One replica takes 0.5 ms longer; eight share the memory bandwidth: 2000 items per second.
    assert_close(rate(1, 1e9), 1.0 / 0.0015, 0.01);
    assert_close(rate(8, 1e9), 2000.0, 0.01);
    assert_close(rate(8, 0.0), 8000.0, 0.01);
}

#[test]
fn a_full_link_larger_than_the_cache_passes_through_memory() {
    let plan = SimulatedPlan::chain(
        vec![endless(0.0001), stage("slow", constant(0.001))],
        100_000,
    );
    let machine = SimulatedMachine {
        memory_bytes_per_s: 200e6,
        cache_bytes: 1e6,
        ..SimulatedMachine::ideal(2)
    };
    // Written and read again: 200 kB in 1 ms.
    for (link_bytes, expected) in [(900_000, 1000.0), (4_000_000, 500.0)] {
        let start = plan.configuration(2, link_bytes);
        assert_close(rate(&plan, &machine, &start, 1.0, 10.0), expected, 0.01);
    }
    let unlimited = SimulatedMachine {
        cache_bytes: 0.0,
        ..machine
    };
    let start = plan.configuration(2, 4_000_000);
    assert_close(rate(&plan, &unlimited, &start, 1.0, 10.0), 1000.0, 0.01);
}

#[test]
fn items_of_another_core_cost_a_transfer_and_of_another_node_more() {
    let plan = SimulatedPlan::chain(
        vec![endless(0.0005), stage("slow", constant(0.001))],
        100_000,
    );
    let machine = SimulatedMachine {
        transfer_bytes_per_s: 400e6,
        numa_factor: 3.0,
        ..SimulatedMachine::ideal(2)
    };
    let start = |workers| plan.configuration(workers, 400_000);
    // Either may compute the first stage.
    let near = rate(&plan, &machine, &start(2), 1.0, 10.0);
    assert_close(near, 1.0 / 0.00125, 0.02);
    let machine = SimulatedMachine {
        nodes: 2,
        ..machine
    };
    let far = rate(&plan, &machine, &start(2), 1.0, 10.0);
    assert_close(far, 1.0 / 0.00175, 0.02);
    let alone = rate(&plan, &machine, &start(1), 1.0, 10.0);
    assert_close(alone, 1.0 / 0.0015, 0.01);
}

#[test]
fn competitors_take_their_share_while_they_are_there() {
    let plan = SimulatedPlan::chain(vec![endless(0.0007)], ITEM);
    let machine = SimulatedMachine {
        time_slice_s: 0.003,
        competitors: vec![Competitor {
            threads: 1,
            start_s: 10.0,
            end_s: 20.0,
        }],
        ..SimulatedMachine::ideal(1)
    };
    let mut run = run(&plan, &machine, &plan.configuration(1, 1));
    for (expected, cpu) in [(1.0, 10.0), (0.5, 5.0), (1.0, 10.0)] {
        let window = run.window(10.0);
        assert_close(window.rate(), expected / 0.0007, 0.01);
        assert_close(window.cpu_s, cpu, 0.01);
        // Waiting for a core counts as computing.
        assert_close(window.stages[0].busy_s, 10.0, 1e-6);
    }
}

#[test]
fn competitors_share_cores_in_turn_or_leave_one() {
    let plan = SimulatedPlan::chain(
        vec![
            endless(0.0),
            stage("work", constant(0.0005)).with_replicas(4),
            stage("sink", constant(0.0)),
        ],
        ITEM,
    );
    let mut start = plan.configuration(4, 64 * ITEM);
    start.replicas[1] = 4;
    let machine = |threads, time_slice_s| SimulatedMachine {
        time_slice_s,
        competitors: vec![Competitor {
            threads,
            start_s: 0.0,
            end_s: f64::INFINITY,
        }],
        ..SimulatedMachine::ideal(4)
    };
    // They share the cores while all threads compute.
    let shared = rate(&plan, &machine(4, 0.003), &start, 1.0, 20.0);
    assert!((0.42..0.56).contains(&(shared / 8000.0)), "{shared}");
    // Without time slices competitors take whole cores, all but one.
    for (threads, cores) in [(1, 3.0), (2, 2.0), (4, 1.0), (9, 1.0)] {
        let found = rate(&plan, &machine(threads, 0.0), &start, 1.0, 10.0);
        assert_close(found, cores / 0.0005, 0.02);
    }
}
