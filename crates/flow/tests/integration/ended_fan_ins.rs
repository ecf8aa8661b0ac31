#![allow(clippy::single_range_in_vec_init)]

use std::cell::Cell;
use std::ops::Range;
use std::slice;

use isochrony_expr::Expr;
use isochrony_flow::{Plan, PlanOutput, RunError, RunOptions};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::channels::channel;
use crate::common::fail::failing;

const CASES: u32 = 600;

fn options(workers: usize, task: u64) -> RunOptions<'static> {
    let mut options = RunOptions::default();
    (options.workers, options.task) = (workers, task);
    options
}

/// Of an error operator and cause: its range depends on tasks.
fn ran(plans: &[Plan], workers: usize, task: u64) -> Result<Vec<PlanOutput>, String> {
    let ran = Plan::collect_all(plans, &options(workers, task));
    let told = |error: RunError| match error {
        RunError::Operator { node, error, .. } => format!("node {node}: {error}"),
        other => panic!("{other}"),
    };
    ran.map(|(gathered, _)| gathered).map_err(told)
}

fn windows(nth: i64, kept: &[Range<i64>], segment: u64, window: u64) -> Plan {
    let scan = Plan::scan_part(channel(nth, kept, 100_000), None, segment);
    scan.rewindow(window).unwrap()
}

fn in_order(plan: &Plan) -> Plan {
    plan.filter(&(Expr::input().max().ewm(0.5).gt(-1e9)))
        .unwrap()
}

/// In tasks of both scans, one, or none.
fn placed(plan: Plan, how: usize) -> Plan {
    let own = plan.map(&(Expr::input() * 2)).unwrap();
    if how == 0 { own } else { in_order(&own) }
}

#[test]
fn an_error_behind_what_a_limit_of_two_scans_needs_ends_no_run() {
    for how in 0..2 {
        for failing_channel in 0..2 {
            let [a, b] = [0, 1].map(|nth| {
                let own = windows(nth, &[0..40_000], 500, 100);
                let own = match nth == failing_channel {
                    true => failing(&own, &[2_000], "error"),
                    false => own,
                };
                placed(own, how)
            });
            let first = a.merge(&[b]).unwrap().limit(20).unwrap();
            let expected = ran(slice::from_ref(&first), 1, 2_000).unwrap();
            assert_eq!(expected[0].array().unwrap().shape, [20, 100]);
            for workers in [2, 3, 7] {
                for task in [1_000, 2_000, 30_000] {
                    let many = ran(slice::from_ref(&first), workers, task);
                    assert_eq!(many.as_ref(), Ok(&expected), "{how} {workers} {task}");
                }
            }
            let more = a_merge_limit(failing_channel, how, 60);
            let error = ran(slice::from_ref(&more), 1, 2_000).unwrap_err();
            assert!(error.contains("sample 2000 is bad"), "{error}");
            for workers in [2, 3, 7] {
                for task in [1_000, 2_000, 30_000] {
                    let many = ran(slice::from_ref(&more), workers, task);
                    assert_eq!(many.as_ref().unwrap_err(), &error);
                }
            }
        }
    }
}

fn a_merge_limit(failing_channel: i64, how: usize, limit: u64) -> Plan {
    let [a, b] = [0, 1].map(|nth| {
        let own = windows(nth, &[0..40_000], 500, 100);
        let own = match nth == failing_channel {
            true => failing(&own, &[2_000], "error"),
            false => own,
        };
        placed(own, how)
    });
    a.merge(&[b]).unwrap().limit(limit).unwrap()
}

#[test]
fn who_fails_behind_where_streams_meet_is_not_asked_once_enough_came() {
    let [a, b] = [0, 1].map(|nth| windows(nth, &[0..10_000], 500, 100));
    let s = Expr::input();
    let apart = a
        .map_with(&(&s - Expr::input_at(1)), slice::from_ref(&b))
        .unwrap();
    let merged = in_order(&a).merge(&[in_order(&b)]).unwrap();
    for (plan, name) in [(apart, "map"), (merged, "merge")] {
        let plan = failing(&plan, &[600], "error").limit(5).unwrap();
        for workers in [1, 2, 7] {
            let (some, _) = plan.collect_with(&options(workers, 1_000)).unwrap();
            assert_eq!(some.array().unwrap().shape, [5, 100], "{name} {workers}");
        }
    }
}

#[test]
fn a_fan_in_that_is_wanted_no_more_ends_what_leads_only_there() {
    let [a, b] = [0, 1].map(|nth| windows(nth, &[0..1_000_000], 500, 100));
    let first = in_order(&a)
        .merge(&[in_order(&b)])
        .unwrap()
        .limit(4)
        .unwrap();
    let (_, report) = first.collect_with(&RunOptions::default()).unwrap();
    let read: u64 = report
        .operators
        .iter()
        .filter(|one| one.name == "scan")
        .map(|one| one.samples)
        .sum();
    assert!(read <= 2_000, "{read}");
    let (_, report) = first.collect_with(&options(4, 4_000)).unwrap();
    assert!(report.tasks.len() < 100, "{}", report.tasks.len());
    let plans = [first, b.count().unwrap()];
    let (_, report) = Plan::collect_all(&plans, &RunOptions::default()).unwrap();
    let scans: Vec<u64> = report
        .operators
        .iter()
        .filter(|one| one.name == "scan")
        .map(|one| one.samples)
        .collect();
    assert_eq!(scans.iter().max(), Some(&1_000_000));
    assert!(scans.iter().min() < Some(&2_000), "{scans:?}");
}

#[test]
fn limits_behind_random_fan_ins_give_the_same_rows_and_errors() {
    let given = (
        (1u64..12, 1u64..30),
        (0usize..4, 0usize..3, 0usize..3),
        prop::collection::vec(0i64..4_000, 0..3),
        prop::collection::vec(0i64..4_000, 0..3),
        (1u64..50, prop::bool::ANY, prop::bool::ANY),
        (100u64..4_000, 0i64..3),
        (0i64..6, 0i64..3),
    );
    let (errors, ends) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |(
            (blocks, window),
            (how, one, other),
            bad_one,
            bad_other,
            (limit, beside, alike),
            (task, offset),
            (kept, left_out),
        )| {
            // Of whole windows: cut alike in one pass and in tasks.
            let window = window * 10;
            let block = blocks * window;
            let begin = (offset * block as i64).min(3_000 / block as i64 * block as i64);
            let gap = begin + kept * block as i64;
            let gap = [gap, gap + left_out * block as i64].map(|at| at.min(3_900));
            let second = [begin..gap[0], gap[1]..4_000];
            let second = second.into_iter().filter(|range| !range.is_empty());
            let kept = [vec![0..4_000], second.collect()];
            let scans = [(0, one, &bad_one), (1, other, &bad_other)];
            let [a, b] = scans.map(|(nth, place, bad)| {
                let own = match alike {
                    true => windows(0, &kept[1], block, window)
                        .map(&(Expr::input() + (nth + 1)))
                        .unwrap(),
                    false => windows(nth, &kept[nth as usize], block, window),
                };
                match place {
                    0 => failing(&own, bad, "error"),
                    1 => failing(&in_order(&own), bad, "error"),
                    _ => in_order(&failing(&own, bad, "error")),
                }
            });
            let s = Expr::input();
            let met = match how {
                0 => a.merge(slice::from_ref(&b)),
                1 => in_order(&a).merge(&[in_order(&b)]),
                2 => a.zip(slice::from_ref(&b)),
                _ => a.map_with(&(&s - Expr::input_at(1)), slice::from_ref(&b)),
            };
            let mut plans = vec![met.unwrap().limit(limit).unwrap()];
            if beside {
                plans.push(b.map(&s.max()).unwrap());
            }
            let alone = ran(&plans, 1, task);
            errors.set(errors.get() + u32::from(alone.is_err()));
            let failing = !bad_one.is_empty() || !bad_other.is_empty();
            ends.set(ends.get() + u32::from(alone.is_ok() && failing));
            for workers in [2, 3, 7] {
                let many = ran(&plans, workers, task);
                prop_assert_eq!(&many, &alone, "{} workers: {}", workers, plans[0].explain());
            }
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(errors.get() > CASES / 8, "{} errors", errors.get());
    assert!(ends.get() > CASES / 16, "{} ends", ends.get());
}
