//! Which rewrites are made. `rewrites.rs` tests the results.

#![allow(clippy::single_range_in_vec_init)]

use isochrony_expr::Expr;
use isochrony_flow::{Plan, PlanOutput, RunOptions};

use crate::common::noise::recording;

fn run(plan: &Plan, optimise: bool) -> PlanOutput {
    let mut options = RunOptions::default();
    options.optimise = optimise;
    plan.collect_with(&options).unwrap().0
}

fn runs_as(plan: &Plan) -> String {
    let text = plan.explain();
    let (_, after) = text.split_once("runs as\n").unwrap();
    let chain = after.lines().next().unwrap().trim();
    chain.split_once(" -> ").unwrap().1.to_owned()
}

#[test]
fn each_rewrite_is_made_where_it_can_be() {
    let s = Expr::input();
    let scan = Plan::scan_part(recording(&[0..400], 400), None, 64);
    let windows = scan.rewindow(20).unwrap();
    let maps = windows
        .map(&(&s - &s.mean()))
        .unwrap()
        .map(&s.abs().max())
        .unwrap();
    assert_eq!(
        runs_as(&maps),
        "rewindow(window=20) -> map(expression=abs(s - s.mean()).max())"
    );
    let counted = windows
        .map(&(&s * 2))
        .unwrap()
        .filter(&s.max().gt(3))
        .unwrap()
        .count()
        .unwrap();
    assert_eq!(
        runs_as(&counted),
        "rewindow(window=20) -> filter(predicate=(s * 2).max() > 3) -> count"
    );
    let uncounted = windows.power().unwrap().count().unwrap();
    assert_eq!(runs_as(&uncounted), "rewindow(window=20) -> count");
    let range = windows
        .filter(&s.std().gt(3))
        .unwrap()
        .between(30..90)
        .unwrap();
    assert_eq!(
        runs_as(&range),
        "rewindow(window=20, anchor=\"run\") -> filter(predicate=s.std() > 3)"
    );
    let report = range.run().unwrap();
    assert_eq!(
        report.operators[0].samples, 60,
        "only what is wanted is read"
    );
}

#[test]
fn what_others_take_or_what_remembers_is_left_as_it_is() {
    let s = Expr::input();
    let windows = Plan::scan_part(recording(&[0..400], 400), None, 64)
        .rewindow(20)
        .unwrap();
    let doubled = windows.map(&(&s * 2)).unwrap();
    let both = doubled.map(&(&s + 1)).unwrap().zip(&[doubled]).unwrap();
    assert!(!both.explain().contains("rewrite"), "{}", both.explain());
    let running = windows
        .filter(&s.std().ewm(0.5).gt(3))
        .unwrap()
        .between(30..90)
        .unwrap();
    assert!(
        !running.explain().contains("rewrite"),
        "{}",
        running.explain()
    );
    let opaque = windows.passthrough().unwrap().between(30..90).unwrap();
    assert!(
        !opaque.explain().contains("rewrite"),
        "{}",
        opaque.explain()
    );
}

#[test]
fn a_limit_of_none_in_front_of_a_fan_in_ends_the_run() {
    let scan = Plan::scan_part(recording(&[0..400], 50), None, 64);
    let none = scan.limit(0).unwrap();
    let zipped = scan
        .zip(std::slice::from_ref(&none))
        .unwrap()
        .count()
        .unwrap();
    assert_eq!(run(&zipped, true), PlanOutput::Count(0));
    assert_eq!(
        run(&none.merge(&[scan]).unwrap().count().unwrap(), true),
        PlanOutput::Count(400)
    );
}

#[test]
fn what_begins_together_is_merged_in_turn_however_it_is_cut() {
    let windows = |cut| {
        Plan::scan_part(recording(&[0..400], cut), None, 64)
            .rewindow(20)
            .unwrap()
    };
    let twice = |cut| run(&windows(cut).merge(&[windows(cut)]).unwrap(), true);
    let PlanOutput::Array(merged) = twice(400) else {
        panic!("no array");
    };
    let starts: Vec<i64> = merged.parts.iter().map(|&(start, _)| start).collect();
    // Contiguous parts are joined: 0 | 0, 20 | 20, 40 | ...
    assert_eq!(starts[..5], [0, 0, 20, 40, 60]);
    assert_eq!(twice(33), PlanOutput::Array(merged));
}
