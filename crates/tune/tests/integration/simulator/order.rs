//! Order of results, and what counts as delivered.

use isochrony_tune::simulator::{
    CostChange, SimulatedLink, SimulatedMachine, SimulatedPlan, SimulatedStage,
};

use super::{ITEM, UNBOUNDED, assert_close, constant, endless, run, stage};

fn link(from: usize, to: usize, gain: f64) -> SimulatedLink {
    SimulatedLink {
        from,
        to,
        gain,
        item_bytes: ITEM,
    }
}

/// One of two replicas takes a second for the first item; later items take a millisecond.
fn with_slow_first_item(in_order: bool) -> SimulatedPlan {
    let change = |at_s, factor| CostChange {
        stage: 1,
        at_s,
        factor,
    };
    let filter = SimulatedStage {
        in_order,
        ..stage("filter", constant(0.001)).with_replicas(2)
    };
    SimulatedPlan {
        changes: vec![change(0.0005, 1000.0), change(0.0015, 1.0)],
        ..SimulatedPlan::chain(
            vec![endless(0.001), filter, stage("sink", constant(0.0))],
            ITEM,
        )
    }
}

#[test]
fn results_wait_in_the_reorder_buffer_for_earlier_ones() {
    let plan = with_slow_first_item(true);
    let mut start = plan.configuration(4, UNBOUNDED);
    start.replicas[1] = 2;
    let mut ordered = run(&plan, &SimulatedMachine::ideal(4), &start);
    let window = ordered.window(0.9);
    assert_eq!(window.delivered, 0.0);
    // Three slots per replica: the first item, and five behind it.
    assert_eq!(window.stages[1].items, 5.0);
    assert!(window.stages[1].output_wait_s > 0.85);
    assert_close(ordered.window(0.3).delivered, 400.0, 0.02);

    let plan = with_slow_first_item(false);
    let mut unordered = run(&plan, &SimulatedMachine::ideal(4), &start);
    let window = unordered.window(0.9);
    assert_close(window.stages[1].items, 898.0, 0.01);
    assert_close(window.links[1].bytes, 898.0 * ITEM as f64, 0.01);
}

#[test]
fn sources_that_meet_are_read_in_step() {
    // The first source is three times as fast; a filter passes half of its items.
    let plan = SimulatedPlan {
        stages: vec![
            endless(0.001),
            endless(0.003),
            stage("join", constant(0.0001)),
        ],
        links: vec![link(0, 2, 0.5), link(1, 2, 1.0)],
        changes: Vec::new(),
    };
    let start = plan.configuration(3, 4 * ITEM);
    let mut run = run(&plan, &SimulatedMachine::ideal(3), &start);
    let window = run.window(30.0);
    let given = run.totals().given;
    assert_close(given[1] as f64, 10_000.0, 0.01);
    // A link of four items is eight of the source; one more waits before it.
    assert!((0..=12).contains(&(given[0] - given[1])), "{given:?}");
    assert_close(window.delivered, 20_000.0, 0.01);
}

#[test]
fn what_has_passed_the_slowest_path_is_delivered() {
    for slow in [1, 2] {
        let mut plan = SimulatedPlan {
            stages: vec![
                endless(0.001),
                stage("path", constant(0.001)),
                stage("path", constant(0.001)),
                stage("sink", constant(0.0)),
            ],
            links: vec![
                link(0, 1, 1.0),
                link(0, 2, 1.0),
                link(1, 3, 1.0),
                link(2, 3, 1.0),
            ],
            changes: Vec::new(),
        };
        plan.stages[slow].service = constant(0.005);
        let start = plan.configuration(4, UNBOUNDED);
        let mut run = run(&plan, &SimulatedMachine::ideal(4), &start);
        let window = run.window(10.0);
        assert_close(window.stages[0].items, 10_000.0, 0.01);
        assert_close(window.delivered, 2000.0, 0.01);
    }
}
