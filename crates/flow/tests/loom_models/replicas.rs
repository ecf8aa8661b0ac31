//! A replicated stage: one producer, two replicas, one consumer, three items, links for one item, under every
//! interleaving of two threads with at most two preemptions (switches from a runnable thread). Items come once and in
//! order, no notice is lost, and both threads end. loom never lets a wait time out.

use crate::stage_model::{Arrivals, Change, GraphSpec, Input, Model, Replicas, StageSpec};

/// Every execution must give the result of one thread.
fn model(spec: GraphSpec) -> Arrivals {
    let expected = spec.expected();
    let mut builder = loom::model::Builder::new();
    (builder.preemption_bound, builder.max_branches) = (Some(2), 10_000);
    builder.check(move || assert_eq!(Model::new(spec.clone()).run(), spec.expected()));
    expected
}

fn replicated() -> GraphSpec {
    let stage = |from: Option<usize>| StageSpec {
        inputs: Vec::from_iter(from.map(|from| Input { from, capacity: 1 })),
        items: 3,
        step: 1,
        burst: 1,
        batch: 1,
        ..StageSpec::default()
    };
    let mut stages = vec![stage(None), stage(Some(0)), stage(Some(1))];
    stages[1].replicas = Some(Replicas {
        count: 2,
        block: 1,
        cell: None,
    });
    GraphSpec {
        stages,
        threads: 2,
        caller_source: false,
        changes: Vec::new(),
    }
}

fn count(arrived: &Arrivals) -> usize {
    arrived.lanes.values().map(Vec::len).sum()
}

#[test]
fn three_items_come_in_order_through_two_replicas() {
    assert_eq!(count(&model(replicated())), 3);
}

#[test]
fn a_replica_that_is_retired_loses_nothing_and_may_return() {
    for count in [1, 2] {
        let mut spec = replicated();
        let change = |at, count| (at, Change::Replicas { stage: 1, count });
        // While the other's block is computed or waits.
        spec.changes = vec![change(1, 1), change(3, count)];
        model(spec);
    }
}

#[test]
fn a_replica_that_fails_ends_the_stage_behind_what_came_before() {
    for (fails_at, arrive) in [(0, 0), (1, 1)] {
        let mut spec = replicated();
        spec.stages[1].fails_at = Some(fails_at);
        let arrived = model(spec);
        assert!(arrived.failed);
        assert_eq!(count(&arrived), arrive);
    }
}

#[test]
fn a_consumer_that_ends_early_ends_both_replicas() {
    let mut spec = replicated();
    spec.stages[2].limit = Some(1);
    assert_eq!(count(&model(spec)), 1);
}

#[test]
fn one_replica_computes_all_parts_of_a_cell() {
    let mut spec = replicated();
    let replicas = spec.stages[1].replicas.as_mut().unwrap();
    replicas.cell = Some(2);
    assert_eq!(count(&model(spec)), 3);
}

#[test]
fn what_needs_no_replica_is_not_left_behind_in_front_of_a_full_link() {
    // One result, two, and a mark of progress: two parts of a cell, one of the next, which stays open, the mark, which
    // fills the link, and the end.
    let mut spec = replicated();
    (
        spec.stages[0].results,
        spec.stages[0].burst,
        spec.stages[0].batch,
    ) = (3, 4, 5);
    let replicas = spec.stages[1].replicas.as_mut().unwrap();
    replicas.cell = Some(2);
    assert_eq!(count(&model(spec)), 3);
}
