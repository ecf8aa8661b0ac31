//! Random plans on cluster slots have the bits of one thread, though slots are lost.

#![allow(clippy::single_range_in_vec_init)]

use crate::common::loopback;
use std::cell::Cell;
use std::sync::Arc;

use isochrony_expr::Expr;
use isochrony_flow::{
    DispatchOptions, Plan, PreparedTasks, RunError, RunOptions, RunnerContext, Stat, TaskRunner,
    TaskRunnerError,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::common::fail::failing;
use crate::common::feed::Feed;
use crate::common::feed_plans::{FeedPlans, feed_plans};
use crate::common::loopback::{
    collect_feed_on_loopback, collect_on_hosts, collect_on_loopback, sent,
};
use crate::common::noise::recording;
use crate::common::plans::{around, named, plans, steps};

const CASES: u32 = 300;

fn options(task: u64) -> RunOptions<'static> {
    let mut options = RunOptions::default();
    options.task = task;
    options
}

fn placements() -> impl Strategy<Value = DispatchOptions> {
    const NAMES: [&str; 5] = [
        "first-available",
        "first-cache-available",
        "max-cache-hit",
        "max-compute-util",
        "good-cache-compute",
    ];
    (prop::sample::select(&NAMES[..]), 0u64..20, 1usize..3).prop_map(|(name, wait, replicas)| {
        DispatchOptions {
            max_wait: wait * 1_000_000,
            max_replicas: replicas,
            ..DispatchOptions::for_policy(name.parse().unwrap())
        }
    })
}

#[test]
fn random_plans_have_the_bits_of_one_thread() {
    let given = (
        steps(),
        (0i64..60, 1i64..500),
        (1i64..200, 1u64..300, 2u64..600),
        (1usize..4, 0u64..6, prop::option::of(placements())),
        prop::option::of((0i64..700, 0i64..900)),
        prop::option::of(any::<u64>()),
    );
    let on_slots = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |(steps, (gap, len), (cut, segment, task), (slots, lost, placement), range, shuffle)| {
            let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
            let range = range.map(|(from, wanted)| from..from + wanted);
            let all = plans(
                Plan::scan_part(recording(&stretches, cut), range, segment),
                &steps,
            );
            let some = [all[all.len() - 1].clone(), all[all.len() / 2].clone()];
            let (one, _) = Plan::collect_all(&some, &options(task)).unwrap();
            let lost = if lost == 1 { 0 } else { lost };
            let hosts = [(some.to_vec(), None), (some.to_vec(), None)];
            let mut shuffled = options(task);
            shuffled.stages.shuffle = shuffle;
            let many = collect_on_hosts(&some, &hosts, placement, shuffled, slots, lost);
            let (many, report, calls) = many.unwrap();
            prop_assert_eq!(many, one, "{}", some[0].explain());
            let received: u64 = report.workers.iter().map(|slot| slot.received_bytes).sum();
            prop_assert_eq!(received > 0, calls > 0 && !report.tasks.is_empty());
            on_slots.set(on_slots.get() + u32::from(report.tasks.len() > 1));
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(on_slots.get() > CASES / 3, "{} of {CASES}", on_slots.get());
}

fn asks_for_slots(plans: &[Plan]) -> bool {
    let mut explained = plans.iter().map(Plan::explain);
    explained.any(|text| text.contains("on a cluster: its workers compute blocks"))
}

#[test]
fn random_plans_of_a_feed_have_the_bits_of_one_thread() {
    let given = (
        feed_plans(),
        (0usize..4, 0u64..6),
        (0u32..14, 0u32..14, 0u32..16),
    );
    let (on_slots, lost_slots) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |(FeedPlans { plans: some, gate }, (slots, lost), sizes)| {
            let (one, _) = Plan::collect_all(&some, &options(500)).unwrap();
            let mut options = options(500);
            options.stages.helpers_after_us = 0;
            options.stages.burst_bytes = 1 << sizes.0;
            options.stages.block_bytes = 1 << sizes.1;
            options.stages.link_bytes = 1 << sizes.2;
            let lost = if lost == 1 { 0 } else { lost };
            if asks_for_slots(&some) {
                gate.close();
            }
            let there = sent(&some);
            let on_ask = move |is_last| gate.ask(is_last);
            let (many, report, calls) =
                collect_feed_on_loopback(&some, &there, on_ask, options, slots, lost).unwrap();
            prop_assert_eq!(many, one, "{}", some[0].explain());
            let received: u64 = report.workers.iter().map(|slot| slot.received_bytes).sum();
            let is_lost = report.workers.iter().any(|slot| slot.lost);
            prop_assert!(received == 0 || calls > 0 && slots > 0 && !report.stages.is_empty());
            on_slots.set(on_slots.get() + u32::from(received > 0));
            lost_slots.set(lost_slots.get() + u32::from(is_lost));
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    let (on_slots, lost_slots) = (on_slots.get(), lost_slots.get());
    assert!(on_slots > CASES / 4, "{on_slots} of {CASES}");
    assert!(lost_slots > CASES / 6, "{lost_slots} of {CASES}");
}

#[test]
fn an_error_in_a_block_names_operator_and_host() {
    let plan = || {
        let feed = Feed::new(vec![5..3000], 50, 3);
        let gate = Arc::clone(&feed.gate);
        let scan = Plan::scan(feed);
        let bad = failing(&named(&scan, &around()[0]).unwrap(), &[2600], "error");
        ([bad.rewindow(8).unwrap().power().unwrap()], gate)
    };
    let is_fail = |error: RunError| match error {
        RunError::Operator {
            operator,
            node,
            error,
            ..
        } => {
            assert_eq!(operator, "fail");
            assert!(error.to_string().contains("sample 2600 is bad"), "{error}");
            (node, error.to_string())
        }
        other => panic!("{other}"),
    };
    let (node, _) = is_fail(Plan::collect_all(&plan().0, &options(500)).unwrap_err());
    let (plan, gate) = plan();
    let mut options = options(500);
    options.stages.helpers_after_us = 0;
    options.stages.burst_bytes = 64;
    options.stages.block_bytes = 256;
    assert!(asks_for_slots(&plan));
    gate.close();
    let on_ask = move |is_last| gate.ask(is_last);
    let error = collect_feed_on_loopback(&plan, &plan, on_ask, options, 2, 0).unwrap_err();
    let (other, text) = is_fail(error);
    assert_eq!(other, node);
    assert!(text.contains("slot "), "{text}");
}

#[test]
fn partial_results_and_what_lies_around_a_portion_travel() {
    let scan = || Plan::scan_part(recording(&[0..900, 950..2000], 130), None, 64);
    let rows = || {
        scan()
            .rewindow(7)
            .unwrap()
            .stats([Stat::Mean, Stat::Max])
            .unwrap()
    };
    let sums = ["sum", "mean", "std", "count"].map(|how| (how, json!(["mean", how])));
    let mut some = vec![
        scan()
            .rewindow(7)
            .unwrap()
            .filter(&Expr::input().mean().gt(0))
            .unwrap()
            .count()
            .unwrap(),
        scan().stats([Stat::Mean, Stat::Std, Stat::Min]).unwrap(),
        scan()
            .map(&(Expr::input() * 1.5))
            .unwrap()
            .stats([Stat::Mean, Stat::Std])
            .unwrap(),
        rows().group_by(&["max"], sums.clone()).unwrap(),
        rows().group_by(&[], sums).unwrap(),
    ];
    some.extend(around().iter().map(|one| named(&scan(), one).unwrap()));
    for plan in some {
        let plans = [plan];
        let (one, _) = Plan::collect_all(&plans, &options(500)).unwrap();
        let (many, report, _) = collect_on_loopback(&plans, options(500), 2, 0).unwrap();
        assert_eq!(many, one, "{}", plans[0].explain());
        assert!(report.tasks.len() > 1, "{}", plans[0].explain());
    }
}

fn runner(plan: &Plan) -> TaskRunner {
    let mut options = options(500);
    options.workers = 2;
    let prepared = PreparedTasks::new(std::slice::from_ref(plan), true, &options).unwrap();
    let context = RunnerContext {
        shared: None,
        causes: Arc::new(loopback::TextCauses),
        check: None,
        cache: None,
    };
    TaskRunner::new(Arc::new(prepared), 0, options, context).unwrap()
}

#[test]
fn what_is_no_batch_of_tasks_is_refused() {
    let plan = Plan::scan_part(recording(&[0..900], 130), None, 64)
        .count()
        .unwrap();
    let runner = runner(&plan);
    for message in [
        &b""[..],
        b"ISOT",
        &[0; 200],
        b"GET / HTTP/1.1\r\n\r\n----------------",
    ] {
        let error = runner.run(message.to_vec()).unwrap_err();
        assert!(matches!(error, TaskRunnerError::Message(_)), "{error}");
    }
}
