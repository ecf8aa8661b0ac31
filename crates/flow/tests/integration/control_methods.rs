use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use isochrony_flow::{Control, Plan, PlanOutput, Report, RunError, RunOptions, json};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::changing::{SAMPLES, made, ranges, stored, value};
use crate::common::plans::named;

const TOLERANCE: f64 = 1e-14;

/// In tasks or stages, whose sizes, links and replicas follow from the seed.
fn run(
    plan: &Plan,
    control: Option<&Control>,
    (workers, seed, tolerance): (usize, u64, f64),
) -> Result<(PlanOutput, Report), RunError> {
    let mut options = RunOptions::default();
    options.control = control;
    options.workers = workers;
    options.tolerance = tolerance;
    options.task = 1 << (12 + seed % 4);
    options.stages.helpers_after_us = 0;
    options.stages.burst_bytes = 1 << (8 + seed % 9);
    options.stages.block_bytes = 1 << (8 + seed % 7);
    options.stages.shuffle = (!seed.is_multiple_of(3)).then_some(seed);
    plan.collect_with(&options)
}

fn samples_of(output: &PlanOutput) -> Vec<(i64, f64)> {
    let array = output.array().unwrap();
    let starts = array.parts.iter();
    let indices = starts.flat_map(|&(start, rows)| start..start + rows as i64);
    indices.zip(array.to_vec::<f64>().unwrap()).collect()
}

fn smoothed(plan: &Plan) -> Plan {
    let params = json!({"band": "lowpass", "cutoff_hz": 300.0, "order": 2});
    named(plan, &("iir", params)).unwrap()
}

fn fir(source: &Plan, taps: usize, centred: bool) -> Plan {
    let taps = 2 * (taps / 2) + 1;
    let half = taps as i64 / 2;
    let weights: Vec<f64> = (0..taps as i64)
        .map(|k| 1.0 / (1.0 + (k - half).abs() as f64))
        .collect();
    let all: f64 = weights.iter().sum();
    let weights: Vec<f64> = weights.iter().map(|weight| weight / all).collect();
    let delay = if centred { "centred" } else { "causal" };
    named(source, &("fir", json!({"taps": weights, "delay": delay}))).unwrap()
}

type Switches = Vec<(i64, &'static str)>;

fn switching(operator: &Plan, switches: &Switches) -> Control {
    let control = Control::default();
    for &(from, method) in switches {
        let params = [("method", json!(method))];
        control.set_from(operator, from, params).unwrap();
    }
    control
}

fn switches(methods: &'static [&'static str]) -> impl Strategy<Value = Switches> {
    let one = (0..SAMPLES + 200, any::<prop::sample::Index>());
    proptest::collection::vec(one, 0..6).prop_map(move |mut all| {
        all.sort_by_key(|&(from, _)| from);
        let named = all.into_iter();
        named.map(|(from, nth)| (from, *nth.get(methods))).collect()
    })
}

#[test]
fn a_filter_switches_without_losing_or_repeating_a_sample() {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(60));
    let given = (
        switches(&["auto", "direct", "fft"]),
        (1usize..180, any::<bool>()),
        proptest::collection::vec(0..SAMPLES, 0..3),
        (1i64..700, any::<u64>()),
    );
    let (in_parallel, in_effect) = (Cell::new(0), Cell::new(0));
    let check = |(switches, (taps, centred), gaps, (length, seed)): (
        Switches,
        (usize, bool),
        Vec<i64>,
        (i64, u64),
    )| {
        let ranges = ranges(&gaps);
        let sources = [
            stored(&ranges, length as u64),
            made(&ranges, length, Duration::ZERO),
            smoothed(&made(&ranges, length, Duration::ZERO)),
        ];
        for source in sources {
            let filter = fir(&source, taps, centred);
            let plan = smoothed(&filter);
            let largest = value(SAMPLES).abs().max(1e6);
            let (direct, _) = run(&filter, None, (1, seed, 0.0)).unwrap();
            let direct = samples_of(&direct);
            let mut first: Option<Vec<(i64, f64)>> = None;
            for workers in [1, 2, 3] {
                let control = switching(&filter, &switches);
                let (got, report) =
                    run(&filter, Some(&control), (workers, seed, TOLERANCE)).unwrap();
                let got = samples_of(&got);
                prop_assert_eq!(got.len(), direct.len(), "{} workers: {}", workers, &filter);
                for (got, direct) in got.iter().zip(&direct) {
                    prop_assert_eq!(got.0, direct.0);
                    prop_assert!((got.1 - direct.1).abs() <= 4.0 * TOLERANCE * largest);
                }
                let first = first.get_or_insert_with(|| got.clone());
                prop_assert!(&got == first, "{} workers: {}", workers, &filter);
                for (change, &(at, _)) in report.changes.iter().zip(&switches) {
                    prop_assert!(change.from.is_none_or(|from| from == at));
                    in_effect.set(in_effect.get() + usize::from(change.from.is_some()));
                }
                let control = switching(&filter, &switches);
                let (_, report) = run(&plan, Some(&control), (workers, seed, TOLERANCE)).unwrap();
                let parallel = !report.stages.is_empty() || !report.workers.is_empty();
                in_parallel.set(in_parallel.get() + usize::from(parallel && workers > 1));
            }
        }
        Ok(())
    };
    runner.run(&given, check).unwrap();
    assert!(in_parallel.get() > 100, "{}", in_parallel.get());
    assert!(in_effect.get() > 300, "{}", in_effect.get());
}

#[test]
fn results_before_a_switch_are_those_of_one_implementation_and_behind_it_of_the_other() {
    let source = stored(&[(0, SAMPLES)], 500);
    for taps in [9, 81] {
        for (before, behind) in [("direct", "fft"), ("fft", "direct")] {
            let of = |method: &str| {
                let control = Control::default();
                let filter = fir(&source, taps, true);
                control.set(&filter, [("method", json!(method))]).unwrap();
                let ran = run(&filter, Some(&control), (1, 0, TOLERANCE)).unwrap();
                samples_of(&ran.0)
            };
            let filter = fir(&source, taps, true);
            let control = Control::default();
            control.set(&filter, [("method", json!(before))]).unwrap();
            let params = [("method", json!(behind))];
            control.set_from(&filter, 5_000, params).unwrap();
            let ran = run(&filter, Some(&control), (1, 0, TOLERANCE)).unwrap();
            let got = samples_of(&ran.0);
            let (first, second) = (of(before), of(behind));
            let direct = if behind == "direct" { &second } else { &first };
            for (at, got) in got.iter().enumerate() {
                let is_direct = (got.0 < 5_000) == (before == "direct");
                // Bits of transforms depend on where their blocks begin.
                if is_direct {
                    assert_eq!(*got, direct[at]);
                }
            }
            let differ = got.iter().zip(direct).filter(|(got, direct)| got != direct);
            assert!(differ.count() > 1_000, "transforms show in the last bits");
        }
    }
}

fn medians(source: &Plan, windowed: bool) -> Plan {
    let input = match windowed {
        true => {
            let windows = source.rewindow_every(8, 4).unwrap();
            windows.map(&isochrony_expr::Expr::input().max()).unwrap()
        }
        false => source.clone(),
    };
    let window = if windowed { 0.05 } else { 0.02 };
    named(
        &input,
        &("running_quantile", json!({"window": window, "q": 0.5})),
    )
    .unwrap()
}

#[test]
fn a_median_switches_with_the_same_bits_also_in_replicas() {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(40));
    let given = (
        switches(&["auto", "heaps"]),
        any::<bool>(),
        proptest::collection::vec(0..SAMPLES, 0..3),
        (1i64..700, any::<u64>()),
    );
    let replicas = Cell::new(0);
    let check =
        |(switches, windowed, gaps, (length, seed)): (Switches, bool, Vec<i64>, (i64, u64))| {
            let ranges = ranges(&gaps);
            let sources = [
                stored(&ranges, length as u64),
                smoothed(&made(&ranges, length, Duration::ZERO)),
            ];
            for source in sources {
                let median = medians(&source, windowed);
                let plan = median.clone();
                let expected = samples_of(&run(&plan, None, (1, seed, 0.0)).unwrap().0);
                for workers in [1, 2, 3] {
                    let control = switching(&median, &switches);
                    let (got, report) = run(&plan, Some(&control), (workers, seed, 0.0)).unwrap();
                    prop_assert!(
                        samples_of(&got) == expected,
                        "{} workers: {}",
                        workers,
                        &plan
                    );
                    let mut stages = report.stages.iter();
                    let has_replicas = stages.any(|stage| stage.replica.is_some_and(|one| one > 0));
                    replicas.set(replicas.get() + usize::from(has_replicas));
                }
            }
            Ok(())
        };
    runner.run(&given, check).unwrap();
    assert!(replicas.get() > 20, "{}", replicas.get());
}

#[test]
fn a_run_that_another_thread_switched_can_be_repeated_from_its_report() {
    let mut in_effect = 0;
    for seed in 0..8u64 {
        let source = made(&[(0, SAMPLES)], 100, Duration::from_micros(150));
        let filter = fir(&source, 31, seed.is_multiple_of(2));
        let control = Control::default();
        let done = AtomicBool::new(false);
        let workers = 1 + seed as usize % 3;
        let (first, report) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut methods = ["fft", "direct"].iter().cycle();
                while !done.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_micros(900));
                    let method = methods.next().unwrap();
                    let _ = control.set(&filter, [("method", json!(method))]);
                }
            });
            let ran = run(&filter, Some(&control), (workers, seed, TOLERANCE));
            done.store(true, Ordering::SeqCst);
            ran.unwrap()
        });
        let changes = report.changes.iter();
        let changes = changes.filter_map(|one| Some((one.from?, one.params["method"].clone())));
        let changes: Vec<_> = changes.collect();
        in_effect += changes.len();
        for workers in [1, 2, 3] {
            let control = Control::default();
            for (from, method) in &changes {
                let params = [("method", method.clone())];
                control.set_from(&filter, *from, params).unwrap();
            }
            let again = run(&filter, Some(&control), (workers, seed + 1, TOLERANCE)).unwrap();
            assert!(
                samples_of(&again.0) == samples_of(&first),
                "{workers} workers"
            );
        }
    }
    assert!(in_effect > 20, "{in_effect}");
}

#[test]
fn a_switch_that_was_not_granted_or_declared_is_refused() {
    let filter = fir(&stored(&[(0, SAMPLES)], 500), 9, false);
    let set = |method: &str, tolerance: f64| {
        let control = Control::default();
        control.set(&filter, [("method", json!(method))])?;
        run(&filter, Some(&control), (1, 0, tolerance)).map(drop)
    };
    let refused = set("fft", 1e-15).unwrap_err();
    assert_eq!(refused.code(), "not_within_tolerance");
    for part in [
        "fir",
        "method=\"fft\"",
        "1e-14",
        "granted 1e-15",
        "tolerance=1e-14",
    ] {
        assert!(refused.to_string().contains(part), "{refused} lacks {part}");
    }
    assert_eq!(set("slow", 1.0).unwrap_err().code(), "parameter");
    set("auto", 0.0).unwrap();
    set("fft", 1e-14).unwrap();
    let control = Control::default();
    let windows = filter.rewindow(5).unwrap();
    let refused = control.set(&windows, [("method", json!("fft"))]);
    assert_eq!(refused.unwrap_err().code(), "not_adjustable");
}
