//! Plans that combine several scans, on any number of workers.

#![allow(clippy::single_range_in_vec_init)]

use crate::common::plans;
use std::cell::Cell;
use std::ops::Range;

use isochrony_expr::Expr;
use isochrony_flow::{Plan, PlanOutput, Report, RunOptions, Stat};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::channels::{channel, value};
use crate::common::plans::{Step, plan, prefix, steps};

const CASES: u32 = 250;

fn run_all(plans: &[Plan], workers: usize, task: u64) -> (Vec<PlanOutput>, Report) {
    run_shuffled(plans, workers, task, None)
}

/// `shuffle`: seed of random sizes of tasks.
fn run_shuffled(
    plans: &[Plan],
    workers: usize,
    task: u64,
    shuffle: Option<u64>,
) -> (Vec<PlanOutput>, Report) {
    let mut options = RunOptions::default();
    (options.workers, options.task) = (workers, task);
    options.stages.shuffle = shuffle;
    Plan::collect_all(plans, &options).unwrap()
}

fn subgraphs(plan: &Plan) -> Vec<String> {
    let text = plan.explain();
    let (_, behind) = text.split_once("on several workers\n").unwrap();
    let lines = behind.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line.trim().to_owned()).collect()
}

fn reads_several(plan: &Plan) -> bool {
    let several = |line: &String| {
        let names = line.split(" in tasks of ").next().unwrap_or_default();
        line.contains(" in tasks of ") && names.matches(" scan").count() > 1
    };
    subgraphs(plan).iter().any(several)
}

fn stretches() -> impl Strategy<Value = Vec<Range<i64>>> {
    let one = (1i64..400, 1i64..70);
    (0i64..90, prop::collection::vec(one, 1..4)).prop_map(|(first, lengths)| {
        let mut at = first;
        let stretches = lengths.into_iter().map(|(len, gap)| {
            let start = at;
            at += len + gap;
            start..start + len
        });
        stretches.collect()
    })
}

fn kept() -> impl Strategy<Value = [Vec<Range<i64>>; 3]> {
    (
        stretches(),
        stretches(),
        stretches(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(a, b, c, second, third)| {
            let b = if second { a.clone() } else { b };
            let c = if third { a.clone() } else { c };
            [a, b, c]
        })
}

fn joined_plans(
    scans: [Plan; 3],
    common: &[Step],
    own: &[Vec<Step>; 3],
    how: usize,
    wanted: u8,
) -> Vec<Plan> {
    let [a, b, c] = scans.map(|scan| plan(scan, common));
    let s = Expr::input();
    let (second, third) = (std::slice::from_ref(&b), std::slice::from_ref(&c));
    let both = match how {
        0 => a.zip(&[b.clone(), c.clone()]),
        1 => a.zip(second).and_then(|both| both.output(1)),
        2 => a.merge(second),
        3 => a.map_with(&(&s - Expr::input_at(1)), second),
        4 => a.map_with(
            &(&s + Expr::input_at(1) * Expr::input_at(2)),
            &[b.clone(), c.clone()],
        ),
        5 => {
            let first = a.map_with(&(&s - Expr::input_at(1)), second);
            first.and_then(|first| first.map_with(&(&s + Expr::input_at(1)), third))
        }
        _ => a.filter_with(&s.max().gt(Expr::input_at(1).mean()), third),
    };
    let both = both.map(|both| plan(both, &own[2]));
    let all = [
        both.ok(),
        Some(plan(a, &own[0])),
        Some(plan(b, &own[1])),
        Some(c),
    ];
    let all = all.into_iter().enumerate();
    let some = all.filter(|(nth, _)| wanted >> nth & 1 == 1);
    some.filter_map(|(_, plan)| plan).collect()
}

/// In most of them tasks must read several scans: else it would test nothing.
#[test]
fn scans_that_meet_give_the_same_bits_on_any_number_of_workers() {
    let given = (
        (kept(), prefix(), steps(), steps(), steps()),
        (0usize..7, 1u8..16, 1u64..600),
        (1i64..200, [1u64..300, 1u64..300, 1u64..300]),
        prop::option::of((0i64..700, 0i64..900)),
    );
    let several = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |((kept, common, first, second, behind), (how, wanted, task), (cut, segments), range)| {
            let range = range.map(|(from, wanted)| from..from + wanted);
            let scan = |nth: usize| {
                let live = channel(nth as i64, &kept[nth], cut);
                let range = range.clone().filter(|_| nth < 2);
                Plan::scan_part(live, range, segments[nth])
            };
            let own = [first, second, behind];
            let plans = joined_plans([0, 1, 2].map(scan), &common, &own, how, wanted | 1);
            if plans.is_empty() {
                return Ok(());
            }
            let (one, _) = run_all(&plans, 1, task);
            let texts: Vec<String> = plans.iter().map(Plan::explain).collect();
            let (shuffled, _) = run_shuffled(&plans, 3, task, Some(task));
            prop_assert_eq!(&shuffled, &one, "{}", texts.join("\n"));
            let mut tasks = 0;
            for workers in [2, 3, 7] {
                let (many, report) = run_all(&plans, workers, task);
                prop_assert_eq!(&many, &one, "{}", texts.join("\n"));
                tasks = report.tasks.len();
            }
            let meets = tasks > 1 && plans.iter().any(reads_several);
            several.set(several.get() + u32::from(meets));
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(several.get() > CASES / 2, "{} of {CASES}", several.get());
}

fn common(a: &[Range<i64>], b: &[Range<i64>]) -> Vec<Range<i64>> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let both = pairs.map(|(a, b)| a.start.max(b.start)..a.end.min(b.end));
    both.filter(|both| !both.is_empty()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_meets_is_what_a_loop_finds_at_equal_indices(
        kept in kept(), window in 1i64..40, hop in 1i64..50, cut in 1i64..200, segment in 1u64..300, task in 1u64..600,
    ) {
        let [a, b] = [0, 1].map(|nth| Plan::scan_part(channel(nth as i64, &kept[nth], cut), None, segment));
        let s = Expr::input();
        let products = a.map_with(&(&s * 1.0 * Expr::input_at(1)), std::slice::from_ref(&b)).unwrap();
        let sums = products.rewindow_every(window as u64, hop as u64).unwrap().map(&s.sum()).unwrap();
        let [p, q] = [&a, &b].map(|one| one.rewindow_every(window as u64, hop as u64).unwrap());
        let apart = p.map_with(&(s.max() * 1.0 - Expr::input_at(1).min()), std::slice::from_ref(&q)).unwrap();
        let merged = a.map(&(&s * 1.0)).unwrap().merge(&[b.map(&(&s * 1.0)).unwrap()]).unwrap();
        let both = common(&kept[0], &kept[1]);
        let starts = |stretch: &Range<i64>| {
            let last = stretch.end - window;
            (stretch.start..=last).step_by(hop as usize).collect::<Vec<i64>>()
        };
        let product = |index: i64| f64::from(value(0, index)) * f64::from(value(1, index));
        let expected_sums: Vec<f64> = both.iter().flat_map(starts).map(|at| (at..at + window).map(product).sum()).collect();
        let of = |nth: usize| kept[nth].iter().flat_map(starts).collect::<Vec<i64>>();
        let together: Vec<i64> = of(0).into_iter().filter(|at| of(1).contains(at)).collect();
        let expected_apart: Vec<f64> = together.iter().map(|&at| {
            let top = (at..at + window).map(|k| value(0, k)).max().unwrap();
            let low = (at..at + window).map(|k| value(1, k)).min().unwrap();
            f64::from(top) - f64::from(low)
        }).collect();
        let mut all: Vec<(i64, i64)> = Vec::new();
        for nth in [0, 1] {
            all.extend(kept[nth].iter().cloned().flatten().map(|index| (index, nth as i64)));
        }
        all.sort_unstable();
        let expected_merged: Vec<f64> = all.iter().map(|&(index, nth)| f64::from(value(nth, index))).collect();
        let plans = [sums, apart, merged];
        prop_assert!(plans.iter().all(reads_several), "{}", plans[0].explain());
        for workers in [1, 3] {
            let (gathered, report) = run_all(&plans, workers, task);
            let values: Vec<Vec<f64>> = gathered.iter().map(|one| one.array().unwrap().to_vec().unwrap()).collect();
            prop_assert_eq!(&values[0], &expected_sums);
            prop_assert_eq!(&values[1], &expected_apart);
            prop_assert_eq!(&values[2], &expected_merged);
            prop_assert!(workers == 1 || report.workers.len() == 3);
        }
    }

    #[test]
    fn what_shows_cuts_is_the_same_bits_for_one_worker_too(
        kept in kept(), cut in 1i64..200, task in 2u64..600, workers in 2usize..5, alone in any::<bool>(),
    ) {
        let [a, b] = [0, 1].map(|nth| Plan::scan_part(channel(nth as i64, &kept[nth], cut), None, 64));
        let low = plans::named(&a, &plans::settling()[0]).unwrap();
        let s = Expr::input();
        let apart = low.map_with(&(&s - Expr::input_at(1)), std::slice::from_ref(&b)).unwrap();
        let plan = if alone { low } else { apart.rewindow(7).unwrap().stats([Stat::Mean]).unwrap() };
        let mut options = RunOptions::default();
        (options.task, options.tolerance, options.workers) = (task, 1e-8, 1);
        let (one, report) = plan.collect_with(&options).unwrap();
        prop_assert_eq!(report.workers.len(), 1);
        options.workers = workers;
        for shuffle in [None, Some(task)] {
            options.stages.shuffle = shuffle;
            prop_assert_eq!(&plan.collect_with(&options).unwrap().0, &one);
        }
    }
}

/// Twice the memory that one thread needs.
#[test]
fn with_little_memory_scans_that_meet_give_the_same_bits_on_many_workers() {
    let given = (
        (kept(), prefix(), steps(), steps(), steps()),
        (0usize..7, 1u8..16, 200u64..1200),
        (1i64..200, 2usize..6, 10_000u64..200_000),
    );
    let enough = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |((kept, common, first, second, behind), (how, wanted, task), (cut, workers, memory))| {
            let scan = |nth: usize| Plan::scan_part(channel(nth as i64, &kept[nth], cut), None, 64);
            let own = [first, second, behind];
            let plans = joined_plans([0, 1, 2].map(scan), &common, &own, how, wanted);
            let mut options = RunOptions::default();
            options.memory = memory;
            let Ok((one, _)) = Plan::collect_all(&plans, &options) else {
                return Ok(());
            };
            (options.workers, options.task, options.memory) = (workers, task, 2 * memory);
            let many = Plan::collect_all(&plans, &options);
            let (many, report) =
                many.map_err(|error| TestCaseError::fail(format!("{memory}: {error}")))?;
            prop_assert_eq!(many, one);
            prop_assert!(report.peak_bytes <= 2 * memory, "{}", report.peak_bytes);
            enough.set(enough.get() + u32::from(report.tasks.len() > 1));
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(enough.get() > CASES / 3, "{} of {CASES}", enough.get());
}

#[test]
fn explain_says_which_scans_are_read_together_and_why_others_are_not() {
    let [a, b] = [0, 1].map(|nth| Plan::scan_part(channel(nth, &[0..1000], 100), None, 64));
    let s = Expr::input();
    let apart = a
        .map_with(&(&s - Expr::input_at(1)), std::slice::from_ref(&b))
        .unwrap();
    assert_eq!(
        subgraphs(&apart.limit(4).unwrap()),
        [
            "0 scan, 1 scan, 0 and 1 -> 2 map in tasks of up to 1048576 samples of each scan, then in order: limit remembers what came before"
        ]
    );
    // One channel's history keeps them apart.
    let limited = a.map(&(&s + 1)).unwrap().limit(9).unwrap();
    let apart = limited
        .map_with(&(&s - Expr::input_at(1)), std::slice::from_ref(&b))
        .unwrap();
    let said = subgraphs(&apart.limit(4).unwrap());
    assert_eq!(said.len(), 2);
    assert!(
        said[1].starts_with(
            "scan in order: map has an input that is not computed in tasks of this scan"
        ),
        "{said:?}"
    );
}

#[test]
fn a_report_counts_what_was_read_of_each_scan_and_lists_tasks_by_their_indices() {
    let [a, b] = [(0, 0..3000), (1, 500..4000)]
        .map(|(nth, range)| Plan::scan_part(channel(nth, &[range], 100), None, 64));
    let s = Expr::input();
    let apart = a
        .map_with(&(&s - Expr::input_at(1)), std::slice::from_ref(&b))
        .unwrap();
    let progress = isochrony_flow::Progress::default();
    let mut options = RunOptions::default();
    (options.workers, options.task, options.progress) = (3, 800, Some(&progress));
    let (gathered, report) = apart.collect_with(&options).unwrap();
    assert_eq!(gathered.array().unwrap().shape, [2500]);
    let samples: Vec<u64> = report
        .operators
        .iter()
        .take(3)
        .map(|one| one.samples)
        .collect();
    assert_eq!(samples[..2], [3000, 3500]);
    assert_eq!((progress.done(), progress.total()), (6500, Some(6500)));
    let (first, last) = (report.tasks.first().unwrap(), report.tasks.last().unwrap());
    assert_eq!((first.range.start, last.range.end), (0, 4000));
    assert!(
        report
            .tasks
            .windows(2)
            .all(|pair| pair[0].range.end == pair[1].range.start)
    );
}

/// Regression: a window of rows began with the first sample of a scan that had none yet.
#[test]
fn a_scan_that_begins_later_does_not_move_the_first_window_of_rows() {
    let common = [Step::Windows(2, 1)];
    let own = [
        vec![],
        vec![],
        vec![Step::Stats, Step::TimedGroups(0, false)],
    ];
    let kept = [62..118, 2..128, 0..1];
    let scan = |nth: usize| {
        let live = channel(nth as i64, std::slice::from_ref(&kept[nth]), 1);
        Plan::scan_part(live, Some(3..63).filter(|_| nth < 2), 1)
    };
    let plans = joined_plans([0, 1, 2].map(scan), &common, &own, 2, 1);
    assert_eq!(run_all(&plans, 2, 1).0, run_all(&plans, 1, 1).0);
}
