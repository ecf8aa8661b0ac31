//! Branches of a running plan, against the plan's own results.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use isochrony_expr::Expr;
use isochrony_flow::{Control, Item, Plan, PlanOutput, Report, RunError, RunOptions, json};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::changing::{SAMPLES, made, ranges, stored};
use crate::common::plans::named;

fn smoothed(plan: &Plan, cutoff: f64) -> Plan {
    let params = json!({"band": "lowpass", "cutoff_hz": cutoff, "order": 2});
    named(plan, &("iir", params)).unwrap()
}

/// In tasks or stages, whose sizes, links and replicas follow from the seed.
fn run(
    plan: &Plan,
    control: Option<&Control>,
    workers: usize,
    seed: u64,
) -> Result<(PlanOutput, Report), RunError> {
    let mut options = RunOptions::default();
    options.control = control;
    options.workers = workers;
    options.task = 1 << (12 + seed % 4);
    options.stages.helpers_after_us = 0;
    options.stages.burst_bytes = 1 << (8 + seed % 9);
    options.stages.block_bytes = 1 << (8 + seed % 7);
    options.stages.shuffle = (!seed.is_multiple_of(3)).then_some(seed);
    plan.collect_with(&options)
}

/// Each sample, or each window's first sample and its sum.
type Seen = Vec<(i64, f64)>;

fn add_item(seen: &mut Seen, item: &Item) {
    match item {
        Item::Samples(samples) => {
            let values = samples.to_vec::<f64>().unwrap();
            seen.extend((samples.start()..).zip(values));
        }
        Item::Frames(frames) => {
            let values = frames.values::<f64>().unwrap();
            for k in 0..frames.count() {
                let at = k as usize * frames.stride();
                let sum = values[at..at + frames.width()].iter().sum();
                seen.push((frames.window_start(k), sum));
            }
        }
        other => panic!("{}", other.kind()),
    }
}

fn noting(plan: &Plan) -> (Plan, Arc<Mutex<Seen>>) {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let notes = seen.clone();
    let branch = plan.each(move |item| {
        add_item(&mut notes.lock().unwrap(), item);
        Ok(())
    });
    (branch.unwrap(), seen)
}

fn all_of(plan: &Plan) -> Seen {
    let (branch, seen) = noting(plan);
    branch.run().unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

fn within(all: &Seen, (from, upto): (i64, i64), window: i64) -> Seen {
    let mut inside = all.clone();
    inside.retain(|&(start, _)| start >= from && start + window <= upto);
    inside
}

fn tapped_plans(ranges: &[(i64, i64)], length: i64, pause: Duration) -> Vec<(Plan, Vec<Plan>)> {
    let sources = [stored(ranges, length as u64), made(ranges, length, pause)];
    let plans = sources.into_iter().map(|source| {
        let first = smoothed(&source, 300.0);
        let second = smoothed(&first, 200.0);
        let squares = second.map(&(Expr::input() * Expr::input())).unwrap();
        let third = smoothed(&squares, 100.0);
        (third.clone(), vec![source, first, second, squares, third])
    });
    plans.collect()
}

/// Start and duration of the branch, gaps, tap and window, segment length and seed.
type Case = ((i64, i64), Vec<i64>, (usize, i64), (i64, u64));

#[test]
fn a_branch_gets_each_item_between_two_indices_once_and_the_plan_stays_as_it_is() {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(60));
    let given = (
        (-100..SAMPLES + 200, 0..SAMPLES),
        proptest::collection::vec(0..SAMPLES, 0..3),
        (0usize..5, 1i64..60),
        (1i64..700, any::<u64>()),
    );
    let (refused, in_stages, in_tasks) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let check = |((from, count), gaps, (nth, window), (length, seed)): Case| {
        let ranges = ranges(&gaps);
        for (plan, taps) in tapped_plans(&ranges, length, Duration::ZERO) {
            let tap = &taps[nth];
            let windows = tap.rewindow(window as u64).unwrap();
            let (all, all_windows) = (all_of(tap), all_of(&windows));
            let (expected, plain) = run(&plan, None, 1, seed).unwrap();
            for workers in [1, 2, 3] {
                let control = Control::default();
                let (branch, seen) = noting(tap);
                let (second, seen_windows) = noting(&windows);
                control.add_from(&branch, from).unwrap();
                control.remove_from(&branch, from + count).unwrap();
                control.add_from(&second, from).unwrap();
                control.remove_from(&second, from + count).unwrap();
                let (got, report) = match run(&plan, Some(&control), workers, seed) {
                    Err(error) if workers > 1 => {
                        prop_assert_eq!(error.code(), "branch");
                        prop_assert!(error.to_string().contains("give the run workers=1"));
                        refused.set(refused.get() + 1);
                        continue;
                    }
                    ran => ran.unwrap(),
                };
                let range = (from, from + count);
                prop_assert!(got == expected, "{workers} workers");
                prop_assert_eq!(&*seen.lock().unwrap(), &within(&all, range, 1));
                let inside = within(&all_windows, range, window);
                prop_assert_eq!(&*seen_windows.lock().unwrap(), &inside);
                for (own, plain) in report.operators.iter().zip(&plain.operators) {
                    let of =
                        |one: &isochrony_flow::OperatorReport| (one.name, one.samples, one.gaps);
                    prop_assert!(workers > 1 || of(own) == of(plain), "{own:?} {plain:?}");
                }
                let first = within(&all, range, 1).first().map(|&(start, _)| start);
                prop_assert_eq!(report.branches[0].from, first);
                prop_assert_eq!(report.branches.len(), 2);
                in_stages.set(in_stages.get() + usize::from(!report.stages.is_empty()));
                in_tasks.set(in_tasks.get() + usize::from(!report.tasks.is_empty()));
            }
        }
        Ok(())
    };
    runner.run(&given, check).unwrap();
    assert!(in_stages.get() > 50, "{}", in_stages.get());
    assert!(refused.get() < 100, "{}", refused.get());
}

#[test]
fn a_branch_beside_tasks_is_tapped_behind_them() {
    let source = stored(&[(0, SAMPLES)], 100);
    let means = named(
        &source,
        &("running_quantile", json!({"window": 0.01, "q": 0.5})),
    )
    .unwrap();
    let plan = smoothed(&means, 100.0);
    for (tap, code) in [(&source, Some("branch")), (&means, None), (&plan, None)] {
        let control = Control::default();
        let (branch, seen) = noting(tap);
        control.add_from(&branch, 777).unwrap();
        let ran = run(&plan, Some(&control), 2, 0);
        match (ran, code) {
            (Err(error), Some(code)) => assert_eq!(error.code(), code),
            (Ok((_, report)), None) => {
                assert!(!report.tasks.is_empty());
                let expected = within(&all_of(tap), (777, SAMPLES), 1);
                assert_eq!(*seen.lock().unwrap(), expected);
            }
            (ran, code) => panic!("{:?} instead of {code:?}", ran.map(drop)),
        }
    }
}

#[test]
fn branches_that_another_thread_adds_and_removes_get_what_the_report_says() {
    let (mut got, mut refused) = (0, 0);
    for seed in 0..16u64 {
        let ranges = ranges(&[3_000, 7_000]);
        let pause = Duration::from_micros(100);
        for (plan, taps) in tapped_plans(&ranges, 50 + 7 * seed as i64, pause) {
            let expected = run(&plan, None, 1, seed).unwrap().0;
            let tap = &taps[1 + seed as usize % 4];
            let all = all_of(tap);
            let workers = 1 + seed as usize % 3;
            let (control, done) = (Control::default(), AtomicBool::new(false));
            let ((output, report), seen) = std::thread::scope(|scope| {
                let adds = scope.spawn(|| {
                    let mut seen = Vec::new();
                    while !done.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_micros(500));
                        let (branch, notes) = noting(tap);
                        if control.measurement().is_err() && workers > 1 {
                            continue;
                        }
                        match control.add(&branch) {
                            Ok(()) => seen.push(notes),
                            Err(error) => {
                                assert_eq!(error.code(), "branch");
                                continue;
                            }
                        }
                        std::thread::sleep(Duration::from_micros(1500));
                        let _ = control.remove(&branch);
                    }
                    seen
                });
                let ran = run(&plan, Some(&control), workers, seed);
                done.store(true, Ordering::SeqCst);
                (ran.unwrap(), adds.join().unwrap())
            });
            assert!(output == expected, "{workers} workers");
            for (branch, notes) in report.branches.iter().zip(&seen) {
                let notes = notes.lock().unwrap();
                let (Some(from), Some(upto)) = (branch.from, branch.upto) else {
                    assert!(notes.is_empty());
                    refused += 1;
                    continue;
                };
                got += 1;
                assert_eq!(*notes, within(&all, (from, upto), 1), "{workers} workers");
                let again = Control::default();
                let (same, repeated) = noting(tap);
                again.add_from(&same, from).unwrap();
                again.remove_from(&same, upto).unwrap();
                run(&plan, Some(&again), 1 + (workers + 1) % 2, seed).unwrap();
                assert_eq!(*notes, *repeated.lock().unwrap());
            }
        }
    }
    assert!(got > 60, "{got}, and {refused} without items");
}

#[test]
fn a_branch_ends_with_the_plan_and_does_not_prolong_it() {
    let source = made(&[(0, SAMPLES)], 100, Duration::ZERO);
    let first = smoothed(&source, 300.0);
    let plan = named(&first, &("limit", json!({"count": 1000}))).unwrap();
    let (branch, seen) = noting(&first);
    let control = Control::default();
    control.add(&branch).unwrap();
    let (output, report) = run(&plan, Some(&control), 1, 9).unwrap();
    assert_eq!(output, run(&plan, None, 1, 9).unwrap().0);
    assert_eq!(
        *seen.lock().unwrap(),
        within(&all_of(&first), (0, 1_000), 1)
    );
    assert_eq!(
        (report.branches[0].from, report.branches[0].upto),
        (Some(0), Some(1_000))
    );
}

#[test]
fn an_error_of_a_branch_ends_the_run() {
    for workers in [1, 3] {
        let source = smoothed(&made(&[(0, SAMPLES)], 100, Duration::ZERO), 300.0);
        let plan = smoothed(&source, 200.0);
        let branch = source
            .each(|item| match item.extent() {
                Some((start, _)) if start >= 5_000 => Err("no more".into()),
                _ => Ok(()),
            })
            .unwrap();
        let control = Control::default();
        control.add(&branch).unwrap();
        let error = run(&plan, Some(&control), workers, 1).unwrap_err();
        let RunError::Operator {
            operator, range, ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(
            (*operator, range.as_ref().map(|one| one.start)),
            ("each", Some(5_000))
        );
        run(&plan, Some(&control), workers, 1).unwrap();
    }
}

#[test]
fn a_branch_that_is_slower_than_its_stage_holds_it_up() {
    let source = made(&[(0, 400_000)], 4_000, Duration::ZERO);
    let first = smoothed(&source, 300.0);
    let second = smoothed(&first, 200.0);
    let loud = second
        .rewindow(1_000)
        .unwrap()
        .filter(&Expr::input().max().gt(1e9))
        .unwrap();
    let most = Arc::new(Mutex::new((0u64, 0u64)));
    let notes = most.clone();
    let branch = first.each(move |item| {
        notes.lock().unwrap().0 += item.samples();
        std::thread::sleep(Duration::from_micros(200));
        Ok(())
    });
    let control = Control::default();
    control.add(&branch.unwrap()).unwrap();
    let mut options = RunOptions::default();
    options.control = Some(&control);
    options.workers = 3;
    options.memory = 8 << 20;
    options.stages.helpers_after_us = 0;
    let (_, report) = loud.collect_with(&options).unwrap();
    assert!(!report.stages.is_empty());
    assert_eq!(most.lock().unwrap().0, 400_000);
    assert!(report.peak_bytes <= 8 << 20);
}

#[test]
fn what_is_no_branch_of_the_plan_is_refused() {
    let source = made(&[(0, SAMPLES)], 100, Duration::ZERO);
    let first = smoothed(&source, 300.0);
    let plan = smoothed(&first, 200.0);
    let other = made(&[(0, 100)], 100, Duration::ZERO);
    let merged = first.merge(&[smoothed(&other, 1.0)]).unwrap();
    let cases = [
        (
            noting(&smoothed(&other, 5.0)).0,
            "not_running",
            "not part of the running plan",
        ),
        (first.clone(), "branch", "it is part of the plan"),
        (
            smoothed(&first, 5.0),
            "branch",
            "nothing would receive its results",
        ),
        (noting(&merged).0, "branch", "results of one operator"),
    ];
    for (branch, code, part) in cases {
        let control = Control::default();
        control.add(&branch).unwrap();
        let error = run(&plan, Some(&control), 1, 0).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(part), "{error} lacks {part}");
    }
    let control = Control::default();
    let error = control.remove(&noting(&first).0).unwrap_err();
    assert!(error.to_string().contains("cannot be removed"), "{error}");
}
