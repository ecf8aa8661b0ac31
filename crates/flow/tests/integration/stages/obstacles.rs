//! What must stay in one stage leaves the rest of a plan cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isochrony_expr::Expr;
use isochrony_flow::{Plan, Report, RunOptions, json};
use isochrony_segment::DType;
use proptest::prelude::*;

use super::{filters, generated, generated_here, run_all, run_shuffled};
use crate::common::channels::channel;

const LOOP: &str = "; not cut: it has a loop";
const LIMIT: &str = "; not cut: something may end early, and what it gives depends on the order";

fn echo(plan: &Plan) -> Plan {
    let (s, back) = (Expr::input(), Expr::input_at(1));
    let echo = plan.feedback(50, json!(0.0), DType::F64, |x, delayed| {
        let y = x.map_with(&(s + back * 0.5), std::slice::from_ref(delayed))?;
        Ok((y.clone(), y))
    });
    echo.unwrap()
}

fn floats(plan: &Plan) -> Plan {
    plan.map(&(Expr::input() * 1.0)).unwrap()
}

fn source(nth: i64) -> Plan {
    generated(nth, 0..20_000, 500, &Arc::default())
}

fn explained(plan: &Plan) -> String {
    plan.explain()
}

/// Numbers of the stages in which an operator of this name was executed.
fn stages_of(report: &Report, name: &str) -> Vec<usize> {
    let has = |at: &usize| report.operators[*at].name == name;
    let stages = report.stages.iter();
    let stages = stages.filter(|stage| stage.operators.iter().any(has));
    let mut numbers: Vec<usize> = stages.map(|stage| stage.number).collect();
    numbers.dedup();
    numbers
}

#[test]
fn a_loop_is_one_stage_and_what_lies_before_behind_and_beside_it_is_cut() {
    let looped = filters(echo(&filters(floats(&source(0)), 2)), 2);
    let text = explained(&looped);
    assert!(text.contains(LOOP), "{text}");
    let beside = filters(source(1), 3);
    for plans in [
        vec![looped.clone()],
        vec![looped, beside.clone()],
        vec![echo(&floats(&source(0))), beside],
    ] {
        let (one, _) = run_all(&plans, 1).unwrap();
        for workers in [2, 3] {
            let (got, report) = run_all(&plans, workers).unwrap();
            assert_eq!(got, one);
            let of_loop = stages_of(&report, "feedback");
            assert_eq!(of_loop.len(), 1);
            assert!(report.stages.len() > 2, "{report}");
        }
    }
}

#[test]
fn where_streams_meet_before_a_limit_that_part_is_one_stage() {
    let minus = Expr::input() - Expr::input_at(1);
    let apart = || source(0).map_with(&minus, &[source(1)]).unwrap();
    let met = apart().limit(9_000).unwrap();
    let behind = filters(source(0), 1).zip(&[filters(source(1), 1)]).unwrap();
    let behind = behind.limit(9_000).unwrap();
    let beside = filters(source(2), 3);
    for limited in [met, filters(behind, 3)] {
        let plans = [limited, beside.clone()];
        let (one, _) = run_all(&plans, 1).unwrap();
        for workers in [2, 3] {
            let (got, report) = run_all(&plans, workers).unwrap();
            assert_eq!(got, one);
            assert!(stages_of(&report, "iir").len() > 2, "{report}");
            assert_eq!(stages_of(&report, "limit").len(), 1);
        }
    }
    let text = explained(&filters(apart().limit(9).unwrap(), 3));
    assert!(text.contains(LIMIT), "{text}");
}

#[test]
fn a_generator_before_a_limit_is_asked_as_often_as_by_one_thread_beside_what_is_cut() {
    let made = |workers: usize| {
        let (made, other) = (Arc::new(AtomicU64::new(0)), filters(source(1), 3));
        let counted = Arc::clone(&made);
        let limited = filters(generated_here(0, 0..1 << 40, 100), 2);
        let limited = limited.each(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let limited = limited.unwrap().limit(900).unwrap();
        let (_, report) = run_all(&[limited, other], workers).unwrap();
        (made.load(Ordering::Relaxed), report)
    };
    let (expected, _) = made(1);
    for workers in [2, 3] {
        let (count, report) = made(workers);
        assert_eq!(count, expected);
        assert!(report.stages.len() > 2, "{report}");
    }
}

#[test]
fn of_many_sources_a_part_that_computes_much_is_cut() {
    let quiet = |nth: i64| Plan::scan_part(channel(nth, &[0..300], 100), None, 64);
    let mut plans: Vec<Plan> = (0..140)
        .map(|nth| quiet(nth).rewindow(10).unwrap())
        .collect();
    plans.push(filters(source(200), 4));
    let (one, _) = run_all(&plans, 1).unwrap();
    let (got, report) = run_all(&plans, 2).unwrap();
    assert!(got == one);
    assert!(stages_of(&report, "iir").len() > 1, "{report}");
}

/// A part of a plan that is connected with no other.
#[derive(Debug, Clone, Copy)]
enum Part {
    Chain,
    Loop,
    LimitedMeeting,
    LimitedBranches,
    Crossed,
}

fn part(kind: Part, nth: i64, segment: i64, limit: u64) -> Vec<Plan> {
    let made = Arc::default();
    let source = |other: i64| generated(3 * nth + other, 0..4_000, segment, &made);
    let (a, b) = (source(0), source(1));
    let minus = Expr::input() - Expr::input_at(1);
    let difference = |one: &Plan, other: &Plan| {
        let both = one.map_with(&minus, std::slice::from_ref(other));
        filters(both.unwrap(), 1)
    };
    match kind {
        Part::Chain => vec![filters(a, 3)],
        Part::Loop => vec![filters(echo(&filters(floats(&a), 1)), 1)],
        Part::LimitedMeeting => {
            let met = difference(&a, &filters(b, 1));
            vec![
                met.limit(limit)
                    .unwrap()
                    .rewindow(64)
                    .unwrap()
                    .power()
                    .unwrap(),
            ]
        }
        Part::LimitedBranches => {
            let first = filters(a.clone(), 1);
            let limited = first.limit(limit).unwrap();
            vec![limited.zip(&[filters(a, 2)]).unwrap(), filters(b, 1)]
        }
        Part::Crossed => {
            let late = |plan: &Plan| filters(plan.clone(), 2);
            vec![difference(&late(&a), &b), difference(&a, &late(&b))]
        }
    }
}

#[test]
fn parts_with_obstacles_give_the_same_bits_beside_each_other() {
    let kinds = prop_oneof![
        Just(Part::Chain),
        Just(Part::Loop),
        Just(Part::LimitedMeeting),
        Just(Part::LimitedBranches),
        Just(Part::Crossed),
    ];
    let given = (
        prop::collection::vec(kinds, 1..4),
        (1i64..700, 1u64..5_000, 2usize..5, any::<u64>()),
    );
    let staged = std::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(100));
    let ran = runner.run(&given, |(kinds, (segment, limit, workers, seed))| {
        let parts = kinds.iter().zip(0..);
        let plans = parts.flat_map(|(&kind, nth)| part(kind, nth, segment, limit));
        let plans: Vec<Plan> = plans.collect();
        let (one, _) = run_all(&plans, 1).unwrap();
        let (got, report) = run_shuffled(&plans, workers, seed).unwrap();
        prop_assert!(got == one, "{:?}", kinds);
        staged.set(staged.get() + u32::from(report.stages.len() > 1));
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(staged.get() > 80, "{}", staged.get());
}

#[test]
fn a_plan_whose_largest_items_do_not_fit_in_its_links_runs_in_one_thread() {
    let stored = Plan::scan_shared(channel(0, &[0..400_000], 10_000));
    let filtered = filters(stored, 4);
    let (one, _) = run_all(std::slice::from_ref(&filtered), 1).unwrap();
    // The last filters send 2^17 numbers in an item, 1 MiB each.
    for (memory, is_cut) in [(5 << 20, false), (16 << 20, true)] {
        let mut options = RunOptions::default();
        options.workers = 2;
        options.memory = memory;
        let (got, report) = filtered.collect_with(&options).unwrap();
        assert_eq!(got, one[0]);
        assert_eq!(!report.stages.is_empty(), is_cut, "{memory}: {report}");
    }
}
