use crate::common::fail;
use isochrony_expr::Expr;
use isochrony_flow::{Plan, RunError};

use crate::common::gapped::{options, recording};

fn channels() -> [Plan; 2] {
    [500, 300].map(|segment| {
        let scan = Plan::scan_part(recording(), None, segment);
        scan.rewindow(100)
            .unwrap()
            .map(&(Expr::input() * 2))
            .unwrap()
    })
}

fn apart(first: &Plan, second: &Plan) -> Plan {
    let apart = Expr::input() - Expr::input_at(1);
    let apart = first.map_with(&apart, std::slice::from_ref(second));
    apart.unwrap()
}

fn error_of(plan: &Plan, workers: usize) -> RunError {
    assert!(plan.explain().contains(" and "), "{}", plan.explain());
    plan.collect_with(&options(workers)).unwrap_err()
}

#[test]
fn an_error_before_or_behind_where_scans_meet_names_the_operator_by_its_number() {
    let [a, b] = channels();
    let before = apart(&a, &fail::failing(&b, &[35_010], "error"));
    let behind = fail::failing(&apart(&a, &b), &[35_010], "error");
    for (plan, node) in [(before, 6), (behind, 7)] {
        let (alone, many) = (error_of(&plan, 1), error_of(&plan, 3));
        assert_eq!(many.code(), alone.code());
        assert!(
            many.to_string()
                .starts_with(&format!("fail (node {node}, samples ")),
            "{many}"
        );
        assert!(many.to_string().contains("sample 35010 is bad"), "{many}");
    }
}

#[test]
fn of_errors_of_two_scans_that_counts_which_comes_first_by_its_index() {
    let [a, b] = channels();
    let a = fail::failing(&a, &[31_500], "error");
    let b = fail::failing(&b, &[38_000, 9_000], "error");
    for _ in 0..10 {
        let error = error_of(&apart(&a, &b), 4);
        assert!(error.to_string().contains("sample 9000 is bad"), "{error}");
    }
}

#[test]
fn a_panic_of_one_of_two_scans_ends_the_run_and_not_the_process() {
    let [a, b] = channels();
    let error = error_of(&apart(&a, &fail::failing(&b, &[20_000], "panic")), 2);
    assert_eq!(error.code(), "operator_panicked");
    assert!(
        error.to_string().contains("sample 20000 is cursed"),
        "{error}"
    );
}

#[test]
fn who_wants_no_more_of_what_scans_give_together_ends_the_workers() {
    let [a, b] = channels();
    let failing = fail::failing(&b, &[39_000], "error");
    let plan = apart(&a, &failing).limit(3).unwrap();
    let (some, report) = plan.collect_with(&options(4)).unwrap();
    assert_eq!(some.array().unwrap().shape, [3, 100]);
    assert!(report.tasks.len() <= 13, "{}", report.tasks.len());
    let (few, all) = (
        apart(&a, &b).limit(3).unwrap(),
        a.map(&Expr::input().max()).unwrap(),
    );
    let run = |workers| Plan::collect_all(&[few.clone(), all.clone()], &options(workers)).unwrap();
    let ((one, _), (many, report)) = (run(1), run(3));
    assert_eq!(many, one);
    assert!(report.tasks.len() > 30, "{}", report.tasks.len());
}
