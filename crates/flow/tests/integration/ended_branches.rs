//! Unwanted branches of tasks, and which of several errors ends a run.

#[allow(dead_code)]
use isochrony_expr::Expr;
use isochrony_flow::{Plan, PlanOutput, RunOptions, Stat};

use crate::common::fail::failing;
use crate::common::gapped::{options, windows};

/// With one, two and four workers; and the most items that the failing operator got.
fn same(plans: &[Plan]) -> (Vec<PlanOutput>, u64) {
    let (one, _) = Plan::collect_all(plans, &RunOptions::default()).unwrap();
    let mut most = 0;
    for workers in [2, 4] {
        let (many, report) = Plan::collect_all(plans, &options(workers)).unwrap();
        assert!(report.tasks.len() >= 20, "{}", report.tasks.len());
        for (nth, (many, one)) in many.iter().zip(&one).enumerate() {
            assert!(
                many == one,
                "plan {nth}, {workers} workers: {many:?} {one:?}"
            );
        }
        let called = report.operators.iter().filter(|one| one.name == "fail");
        most = most.max(called.map(|one| one.items).max().unwrap());
    }
    (one, most)
}

#[test]
fn a_branch_that_nobody_takes_any_more_is_ended_and_its_errors_do_not_count() {
    let s = Expr::input();
    let windows = windows().map(&(&s * 2)).unwrap();
    let few = failing(&windows, &[9_000, 20_000], "error")
        .limit(3)
        .unwrap();
    let rest = windows.map(&s.max()).unwrap();
    let plans = [few, rest.clone(), rest.count().unwrap()];
    let (one, called) = same(&plans);
    assert_eq!(one[0].array().unwrap().shape, [3, 100]);
    assert!(called <= 60, "{called}");
}

#[test]
fn what_fails_in_the_task_in_which_its_branch_ends_does_not_count_behind_that() {
    let s = Expr::input();
    let windows = windows().map(&(&s * 2)).unwrap();
    let rest = windows.map(&s.max()).unwrap();
    // The limit is met in the first of a task's two blocks, and the second fails.
    for at in [700, 1_700, 39_900] {
        for kind in ["error", "panic"] {
            let limit = (at / 1000 * 10 + 3 - 10 * i64::from(at > 31_000)) as u64;
            let limit = limit.min(380);
            let few = failing(&windows, &[at], kind).limit(limit).unwrap();
            let stats = rest.stats([Stat::Mean]).unwrap();
            let plans = [rest.clone(), few, stats, rest.count().unwrap()];
            same(&plans);
        }
    }
}

#[test]
fn what_is_wanted_no_more_where_branches_meet_behind_tasks_ends_no_run() {
    let s = Expr::input();
    let windows = windows().map(&(&s * 2)).unwrap();
    let bad = failing(&windows, &[20_000], "error");
    let good = windows.map(&(&s + 1)).unwrap();
    // Stateful filters meet in the caller's thread.
    let own = |plan: &Plan| plan.filter(&(s.max().ewm(0.5).gt(-1))).unwrap();
    let met = own(&bad).zip(&[own(&good)]).unwrap().limit(20).unwrap();
    let plans = [met, own(&good).map(&s.max()).unwrap()];
    same(&plans);
}

#[test]
fn an_error_counts_as_long_as_something_wants_what_its_operator_gives() {
    let s = Expr::input();
    let windows = windows().map(&(&s * 2)).unwrap();
    let bad = failing(&windows, &[9_000], "error");
    let plans = [
        bad.limit(3).unwrap(),
        bad.map(&s.max()).unwrap(),
        windows.map(&s.max()).unwrap(),
    ];
    let alone = Plan::collect_all(&plans, &RunOptions::default());
    let alone = alone.unwrap_err().to_string();
    for workers in [2, 4] {
        let many = Plan::collect_all(&plans, &options(workers)).unwrap_err();
        assert_eq!(many.to_string(), alone);
    }
}
