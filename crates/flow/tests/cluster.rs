//! Random plans on the slots of a cluster: the same bits as in one thread, though what goes to slots and comes back are bytes
//! and slots are lost. Broken messages are errors.

#![allow(clippy::single_range_in_vec_init)]

#[path = "common/loopback.rs"]
mod loopback;
#[path = "common/noise.rs"]
mod noise;
#[path = "common/plans.rs"]
#[allow(dead_code)]
mod plans;

use std::cell::Cell;
use std::sync::Arc;

use isochrony_expr::Expr;
use isochrony_flow::{
    Plan, PreparedTasks, RunOptions, RunnerContext, Stat, TaskRunner, TaskRunnerError,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use loopback::collect_on_loopback;
use noise::recording;
use plans::{around, named, plans, steps};

const CASES: u32 = 300;

fn options(task: u64) -> RunOptions<'static> {
    let mut options = RunOptions::default();
    options.task = task;
    options
}

#[test]
fn random_plans_have_the_bits_of_one_thread() {
    let given = (
        steps(),
        (0i64..60, 1i64..500),
        (1i64..200, 1u64..300, 2u64..600),
        (1usize..4, 0u64..6),
        prop::option::of((0i64..700, 0i64..900)),
    );
    let on_slots = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |(steps, (gap, len), (cut, segment, task), (slots, lost), range)| {
            let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
            let range = range.map(|(from, wanted)| from..from + wanted);
            let all = plans(
                Plan::scan_part(recording(&stretches, cut), range, segment),
                &steps,
            );
            let some = [all[all.len() - 1].clone(), all[all.len() / 2].clone()];
            let (one, _) = Plan::collect_all(&some, &options(task)).unwrap();
            // Of one call alone, which would be lost again and again.
            let lost = if lost == 1 { 0 } else { lost };
            let (many, report, calls) =
                collect_on_loopback(&some, options(task), slots, lost).unwrap();
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

/// Each with its partial results, or what it needs around a portion.
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
        causes: Arc::new(loopback::Texts),
        check: None,
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
