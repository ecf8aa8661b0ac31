//! Random plans give the same bits as written, as rewritten, and for any cuts of their input.

#![allow(clippy::single_range_in_vec_init)]

use std::cell::Cell;

use isochrony_expr::Expr;
use isochrony_flow::{Plan, PlanOutput, RunOptions, Stat, operators::Rewindow};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::common::noise::recording;
use crate::common::plans::{
    Step, around, filters, maps, named, plan, plans, prefix, settling, steps,
};

const CASES: u32 = 300;

#[test]
fn all_that_is_chosen_from_by_chance_fits_samples() {
    let scan = Plan::scan_part(recording(&[0..400], 400), None, 64);
    for one in around().iter().chain(&settling()) {
        named(&scan, one).unwrap_or_else(|error| panic!("{}: {error}", one.0));
    }
}

fn run_all(plans: &[Plan], options: &RunOptions<'_>) -> (Vec<PlanOutput>, usize) {
    let (gathered, report) = Plan::collect_all(plans, options).unwrap();
    (gathered, report.tasks.len())
}

fn run(plan: &Plan, optimise: bool) -> PlanOutput {
    let mut options = RunOptions::default();
    options.optimise = optimise;
    plan.collect_with(&options).unwrap().0
}

/// Common steps, two branches, and what follows if they meet: some of these.
fn branches(scan: Plan, steps: &[Vec<Step>; 4], how: usize, wanted: u8) -> Vec<Plan> {
    let base = plan(scan, &steps[0]);
    let [a, b] = [1, 2].map(|nth| plan(base.clone(), &steps[nth]));
    let others = std::slice::from_ref(&b);
    let s = Expr::input();
    let both = match how {
        0 => a.zip(others),
        1 => a.zip(others).and_then(|both| both.output(1)),
        2 => a.merge(others),
        3 => a.map_with(&(&s - Expr::input_at(1)), others),
        _ => a.filter_with(&s.max().gt(Expr::input_at(1).mean()), others),
    };
    let both = both.map(|both| plan(both, &steps[3]));
    let all = [Some(a.clone()), Some(b.clone()), both.ok(), Some(base)];
    let some = all
        .into_iter()
        .enumerate()
        .filter(|(nth, _)| wanted >> nth & 1 == 1);
    some.filter_map(|(_, plan)| plan).collect()
}

/// Most must be spread: else it would test nothing.
#[test]
fn branches_and_fan_ins_of_a_scan_are_done_in_tasks_to_the_same_bits() {
    let given = (
        [
            prefix().boxed(),
            steps().boxed(),
            steps().boxed(),
            steps().boxed(),
        ],
        (0usize..5, 1u8..16, 0i64..60, 1i64..500),
        (1i64..200, 1u64..300, 2usize..5, 2u64..600),
        prop::option::of((0i64..700, 0i64..900)),
    );
    let (spread, met) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |(steps, (how, wanted, gap, len), (cut, segment, workers, task), range)| {
            let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
            let range = range.map(|(from, wanted)| from..from + wanted);
            let scan = Plan::scan_part(recording(&stretches, cut), range, segment);
            let plans = branches(scan, &steps, how, wanted);
            if plans.is_empty() {
                return Ok(());
            }
            let mut options = RunOptions::default();
            let (one, _) = run_all(&plans, &options);
            (options.workers, options.task) = (workers, task);
            options.pin = workers % 2 == 1;
            let (many, tasks) = run_all(&plans, &options);
            let texts: Vec<String> = plans.iter().map(Plan::explain).collect();
            prop_assert_eq!(many, one, "{}", texts.join("\n"));
            let in_tasks = |text: &String| {
                let (_, tasks) = text.split_once("on several workers\n").unwrap();
                tasks.contains(" and ") && tasks.contains(" in tasks of ")
            };
            spread.set(spread.get() + u32::from(tasks > 1));
            let meets = tasks > 1 && texts.iter().any(in_tasks);
            met.set(met.get() + u32::from(meets));
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    let (spread, met) = (spread.get(), met.get());
    assert!(
        spread > CASES / 2 && met > CASES / 10,
        "{spread} and {met} of {CASES}"
    );
}

/// The range that a branch without items reports decides where windows behind a fan-in begin.
#[test]
fn a_branch_without_items_begins_before_its_progress_passes_in_tasks_too() {
    let scan = Plan::scan_part(recording(&[5..701], 1), None, 1);
    let empty = vec![Step::Between(85, 85), Step::Limit(0)];
    let steps = [
        vec![Step::Map(1), Step::Around(2)],
        [empty, vec![Step::Merge(2), Step::Windows(1, 2)]].concat(),
        vec![Step::Pass],
        vec![Step::Pass],
    ];
    let plans = branches(scan, &steps, 0, 3);
    let mut options = RunOptions::default();
    let (one, _) = run_all(&plans, &options);
    for task in [2, 40, 4000] {
        (options.workers, options.task) = (2, task);
        let (many, tasks) = run_all(&plans, &options);
        assert!(many == one && tasks > 0, "tasks of {task} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rewritten_plans_give_the_same_bits(
        steps in steps(), counted: bool, gap in 0i64..60, len in 1i64..500, cut in 1i64..200, segment in 1u64..300,
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let plan = plan(Plan::scan_part(recording(&stretches, cut), None, segment), &steps);
        let plan = if counted { plan.count().unwrap() } else { plan };
        prop_assert_eq!(run(&plan, true), run(&plan, false), "{}", plan.explain());
    }

    #[test]
    fn any_chunking_gives_the_same_bits(
        steps in steps(), gap in 0i64..60, len in 1i64..500, cuts in (1i64..200, 1i64..800), segments in (1u64..300, 1u64..900),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let of = |cut, segment| {
            let plan = plan(Plan::scan_part(recording(&stretches, cut), None, segment), &steps);
            (run(&plan, true), plan)
        };
        let (one, plan) = of(cuts.0, segments.0);
        prop_assert_eq!(one, of(cuts.1, segments.1).0, "{}", plan);
    }

    #[test]
    fn any_number_of_workers_gives_the_same_bits(
        steps in steps(), gap in 0i64..60, len in 1i64..500, cut in 1i64..200, segment in 1u64..300, workers in 2usize..5,
        task in 2u64..600, range in prop::option::of((0i64..700, 0i64..900)),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let range = range.map(|(from, wanted)| from..from + wanted);
        let all = plans(Plan::scan_part(recording(&stretches, cut), range, segment), &steps);
        let some = [all[all.len() - 1].clone(), all[all.len() / 2].clone()];
        let mut options = RunOptions::default();
        let (one, _) = run_all(&some, &options);
        (options.workers, options.task) = (workers, task);
        for shuffle in [None, Some(task)] {
            options.stages.shuffle = shuffle;
            prop_assert_eq!(&run_all(&some, &options).0, &one, "{}", some[0].explain());
        }
    }

    /// Twice as much: a task's results are there as a whole, and memory comes in powers of two.
    #[test]
    fn with_little_memory_many_workers_give_the_same_bits_where_one_thread_has_enough(
        steps in [prefix().boxed(), steps().boxed(), steps().boxed(), steps().boxed()], how in (0usize..5, 1u8..16),
        cut in 1i64..200, workers in 2usize..6, task in 200u64..1200, memory in 10_000u64..200_000,
    ) {
        let scan = Plan::scan_part(recording(&[5..400, 405..700], cut), None, 64);
        let plans = branches(scan, &steps, how.0, how.1);
        let mut options = RunOptions::default();
        options.memory = memory;
        if let Ok((one, _)) = Plan::collect_all(&plans, &options) {
            (options.workers, options.task, options.memory) = (workers, task, 2 * memory);
            let many = Plan::collect_all(&plans, &options);
            let (many, report) = many.map_err(|error| TestCaseError::fail(format!("{memory}: {error}")))?;
            prop_assert_eq!(many, one);
            prop_assert!(report.peak_bytes <= 2 * memory, "{}", report.peak_bytes);
        }
    }

    #[test]
    fn what_needs_what_is_around_is_done_in_tasks_to_the_same_bits(
        first in (0..around().len(), 0..maps(&Expr::input()).len()), steps in steps(), gap in 0i64..60, len in 1i64..500, cut in 1i64..200,
        segment in 1u64..300, workers in 2usize..5, task in 2u64..600, range in prop::option::of((0i64..700, 0i64..900)),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let range = range.map(|(from, wanted)| from..from + wanted);
        let scan = Plan::scan_part(recording(&stretches, cut), range, segment);
        let steps = [&[Step::Map(first.1), Step::Around(first.0)], &steps[..]].concat();
        let plan = plan(scan, &steps);
        let mut options = RunOptions::default();
        (options.workers, options.task) = (workers, task);
        let one = run(&plan, true);
        for shuffle in [None, Some(task)] {
            options.stages.shuffle = shuffle;
            let (many, _) = plan.collect_with(&options).unwrap();
            prop_assert_eq!(&many, &one, "{}", plan.explain());
        }
    }

    #[test]
    fn what_settles_is_within_its_tolerance_and_the_same_bits_for_any_number_of_workers(
        first in 0..settling().len(), second in (any::<bool>(), any::<prop::sample::Index>()), window in 1u64..30, hop in 1u64..40, gap in 0i64..60,
        len in 1i64..500, cut in 1i64..200, segment in 1u64..300, tasks in (2u64..600, 1usize..5),
        range in prop::option::of((0i64..700, 0i64..900)),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let range = range.map(|(from, wanted)| from..from + wanted);
        let scan = Plan::scan_part(recording(&stretches, cut), range, segment);
        // Powers, since ratios of cancelling sums are useless.
        let plan = named(&scan.map(&(Expr::input().abs() + 1.5)).unwrap(), &settling()[first]).unwrap();
        let more = match second.0 {
            true => second.1.get(&around()).clone(),
            false => second.1.get(&settling()).clone(),
        };
        // Ratios of nearly zero amplify errors.
        let plan = match more.0 {
            "ca_cfar" | "stalta" => plan,
            _ => named(&plan, &more).unwrap(),
        };
        let plan = plan.rewindow_every(window, hop).unwrap().map(&(Expr::input() * 2)).unwrap();
        let mut options = RunOptions::default();
        (options.task, options.tolerance, options.workers) = (tasks.0, 1e-8, 1);
        let (one, report) = plan.collect_with(&options).unwrap();
        prop_assert!(report.workers.len() == 1, "{}", plan.explain());
        options.workers = tasks.1;
        // Tasks of any number of cells.
        for shuffle in [None, Some(tasks.0)] {
            options.stages.shuffle = shuffle;
            prop_assert_eq!(&plan.collect_with(&options).unwrap().0, &one);
        }
        let PlanOutput::Array(exact) = run(&plan, true) else { panic!("no array") };
        let PlanOutput::Array(one) = one else { panic!("no array") };
        prop_assert_eq!(&one.parts, &exact.parts);
        let most = 2.0 * 2048.0 * 1e-8;
        for (a, b) in one.to_vec::<f64>().unwrap().iter().zip(&exact.to_vec::<f64>().unwrap()) {
            prop_assert!((a - b).abs() < most, "{} {}: {}", a, b, plan.explain());
        }
    }

    #[test]
    fn partial_results_are_combined_to_the_same_bits_by_any_number_of_workers(
        keep in 0usize..5, window in 1u64..40, hop in 1u64..50, gap in 0i64..60, len in 1i64..500, cut in 1i64..200,
        tasks in (2u64..600, 1usize..5),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let windows = Plan::scan_part(recording(&stretches, cut), None, 64).rewindow_every(window, hop).unwrap();
        let rows = windows.filter(&filters(&Expr::input())[keep % 4]).unwrap().stats([Stat::Mean, Stat::Max]).unwrap();
        let sums = ["sum", "mean", "std"].map(|how| (how, json!(["mean", how])));
        let keys: &[&str] = if keep == 4 { &["max"] } else { &[] };
        let plan = rows.group_by(keys, sums).unwrap();
        let mut options = RunOptions::default();
        (options.task, options.workers) = (tasks.0, 1);
        let (one, _) = plan.collect_with(&options).unwrap();
        for (task, shuffle) in [(tasks.0, None), (tasks.0, Some(tasks.0)), (1 << 20, None)] {
            (options.task, options.workers, options.stages.shuffle) = (task, tasks.1, shuffle);
            prop_assert_eq!(&plan.collect_with(&options).unwrap().0, &one);
        }
    }

    #[test]
    fn a_range_of_windows_is_the_windows_of_a_range(
        window in 1u64..40, hop in 1u64..50, gap in 0i64..60, len in 1i64..500, from in 0i64..700, wanted in 0i64..600, cut in 1i64..200,
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let range = from..from + wanted;
        let live = recording(&stretches, cut);
        let own = json!({"window": window, "hop": hop, "anchor": "run"});
        let read = Plan::scan_part(live.clone(), Some(range.clone()), 64).then::<Rewindow>(own.as_object().unwrap().clone()).unwrap();
        let between = Plan::scan_part(live, None, 64).rewindow_every(window, hop).unwrap().between(range).unwrap();
        let between = run(&between, false);
        prop_assert_eq!(run(&read, true), between);
    }
}
