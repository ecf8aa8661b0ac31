//! Skipping gives the results of reading all.

mod changes;
mod explain;

use crate::common::quiet;
use std::cell::Cell;
use std::ops::Range;

use isochrony_expr::Expr;
use isochrony_flow::{
    Catalog, Plan, PlanOutput, Progress, Report, RunOptions, SEGMENT_SAMPLES, SharedRecording, Stat,
};
use isochrony_segment::DType;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::common::quiet::{QuietHistory, QuietRecording, history};

const CASES: u32 = 150;

fn predicates(limit: f64) -> Vec<Expr> {
    let s = Expr::input();
    vec![
        s.max().gt(limit),
        s.max().ge(limit),
        s.min().lt(-limit),
        s.min().le(-limit),
        s.abs().max().gt(limit),
        s.abs().max().lt(limit),
        s.max().lt(limit),
        s.max().le(0),
        s.min().gt(-limit),
        s.min().ge(0),
        s.max().gt(limit) & s.min().lt(-limit),
        s.max().gt(limit) | s.min().lt(-limit),
        s.max().gt(limit) & s.std().gt(1),
        s.max().gt(limit) | s.abs().max().gt(3.0 * limit) & s.min().gt(-9.0 * limit),
        Expr::constant(limit).lt(s.max()),
    ]
}

/// `other`: windows of the same grid from another scan.
fn behind(windows: &Plan, other: &Plan, how: usize) -> Plan {
    let s = Expr::input();
    let behind = match how {
        0 => windows.count(),
        1 => Ok(windows.clone()),
        2 => windows.stats([Stat::Mean, Stat::Max, Stat::Std]),
        3 => windows.map(&(&s - s.mean())),
        4 => windows.map(&s.max().ewm(0.5)),
        5 => windows.limit(3),
        6 => windows
            .map(&(&s * 2))
            .unwrap()
            .merge(&[windows.map(&(&s * 3)).unwrap()]),
        7 => windows.zip(std::slice::from_ref(other)),
        _ => {
            let rows = windows.stats([Stat::Max]).unwrap();
            rows.group_by(
                &[],
                [("rows", json!("count")), ("last", json!(["max", "last"]))],
            )
        }
    };
    behind.unwrap()
}

fn run(plan: &Plan, workers: usize, task: u64, optimise: bool) -> (PlanOutput, Report) {
    let mut options = RunOptions::default();
    (options.workers, options.task, options.optimise) = (workers, task, optimise);
    plan.collect_with(&options).unwrap()
}

fn skipped(report: &Report) -> u64 {
    report.operators.iter().map(|one| one.skipped).sum()
}

fn windows_of(scan: &Plan, window: u64, hop: u64, anchor: &str) -> Plan {
    let declaration = *Catalog::standard().get("rewindow").unwrap();
    let params = json!({"window": window, "hop": hop, "anchor": anchor});
    scan.apply(&declaration, params.as_object().unwrap().clone(), &[])
        .unwrap()
}

fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(vec![
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::F32,
        DType::F64,
    ])
}

#[test]
fn results_are_those_of_reading_everything() {
    let given = (
        (
            dtypes(),
            history(),
            prop::option::of(prop::sample::select(vec![(0.5, 3.0), (-2.0, 1.0)])),
        ),
        (1u64..20_000, 0.1f64..2.5, any::<bool>()),
        (0usize..15, 0usize..9, 1usize..4, 100_000u64..4_000_000),
        prop::collection::vec((0.0f64..1.0, 0.0f64..1.0), 0..4),
        any::<bool>(),
    );
    let (few, many) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |(
            (dtype, history, calibration),
            (window, hop, from_run),
            (which, how, workers, task),
            ranges,
            narrowed,
        )| {
            let calibration = calibration.filter(|_| dtype != DType::Bool);
            let made = QuietRecording::new(dtype, &history.of(dtype), calibration);
            let end = made.signal().end_index();
            let at = |share: f64| (share * end as f64) as i64;
            let ranges = ranges.iter().map(|(a, b)| at(a.min(*b))..at(a.max(*b)));
            let ranges: Vec<Range<i64>> = ranges.collect();
            let mut stored = made.stored();
            let mut range = None;
            match ranges.as_slice() {
                [] => {}
                [one, ..] if narrowed => range = Some(one.clone()),
                _ => stored = stored.ranges(ranges.clone()),
            }
            let recording = SharedRecording::new(stored);
            let scan = Plan::scan_part(recording.clone(), range.clone(), SEGMENT_SAMPLES);
            let hop = ((window as f64 * hop) as u64).max(1);
            let anchor = if from_run { "run" } else { "range" };
            let windows = windows_of(&scan, window, hop, anchor);
            let Ok(filtered) = windows.filter(&predicates(made.limit())[which]) else {
                return Ok(());
            };
            let again = Plan::scan_part(recording, range, 5000);
            let plan = behind(&filtered, &windows_of(&again, window, hop, anchor), how);
            let (expected, all) = run(&plan, 1, task, false);
            prop_assert_eq!(skipped(&all), 0);
            for workers in [1, workers] {
                let (got, report) = run(&plan, workers, task, true);
                prop_assert_eq!(&got, &expected, "{} workers, {}", workers, plan.explain());
                let left = skipped(&report);
                few.set(few.get() + u32::from(left > 0));
                many.set(many.get() + u32::from(left > 0 && workers > 1));
                // Each sample is read or skipped, except for what completes windows of one task and begins the next.
                if how != 5 && how != 7 && workers == 1 {
                    prop_assert_eq!(report.operators[0].samples + left, all.operators[0].samples);
                }
            }
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    // Else it would test nothing.
    let (few, many) = (few.get(), many.get());
    assert!(
        few > CASES / 4 && many > CASES / 12,
        "{few} and {many} of {CASES}"
    );
}

/// All have stored extremes, which come in blocks of 2 MiB.
const TOTAL: u64 = 3 << 20;

fn one_loud(dtype: DType) -> QuietRecording {
    let history = QuietHistory {
        stretches: vec![(TOTAL as usize, Some(0))],
        loud: vec![(0.5, 5000, false)],
        not_finite: vec![],
        seed: 1,
    };
    QuietRecording::new(dtype, &history, None)
}

fn loud(scan: &Plan) -> Plan {
    let windows = scan.rewindow(4096).unwrap();
    windows
        .filter(&Expr::input().max().ge(quiet::LIMIT))
        .unwrap()
}

#[test]
fn only_what_may_pass_is_read() {
    let made = one_loud(DType::I16);
    let plan = loud(&Plan::scan(made.stored())).count().unwrap();
    for workers in [1, 3] {
        let progress = Progress::default();
        let mut options = RunOptions::default();
        (options.workers, options.task) = (workers, 700_000);
        options.progress = Some(&progress);
        let (output, report) = plan.collect_with(&options).unwrap();
        assert_eq!(output.count(), Some(2), "{workers}");
        let (read, left) = (report.operators[0].samples, skipped(&report));
        assert!(
            read < 100_000 && read + left == TOTAL || workers > 1 && left > TOTAL / 10 * 9,
            "{read} and {left} by {workers}"
        );
        assert_eq!((progress.done(), progress.total()), (TOTAL, Some(TOTAL)));
        let text = report.to_string();
        let said = format!("scan skipped {left} samples, by their stored extremes");
        assert!(text.contains(&said), "{text}");
        assert!(report.notes.is_empty(), "{:?}", report.notes);
    }
}

#[test]
fn that_nothing_passes_is_no_reason_to_note() {
    let made = one_loud(DType::F32);
    let windows = Plan::scan(made.stored()).rewindow(4096).unwrap();
    let plan = windows.filter(&Expr::input().max().gt(1e9)).unwrap();
    let (_, report) = plan.collect_with(&RunOptions::default()).unwrap();
    assert_eq!((report.operators[0].samples, skipped(&report)), (0, TOTAL));
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}
