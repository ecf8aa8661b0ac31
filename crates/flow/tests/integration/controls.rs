//! Parameters changed during a run, against plans with them from the start.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use isochrony_expr::Expr;
use isochrony_flow::{
    Control, GeneratedRecording, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out,
    Plan, PlanError, PlanOutput, Port, PortType, Report, RunError, RunOptions, Segments,
    SharedRecording, Stat, json, operator,
};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::plans::named;

const SEGMENT: i64 = 10;
const BURST: i64 = 64 * SEGMENT;

fn stream() -> StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

fn value(index: i64) -> i16 {
    (index.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64) >> 52) as i16
}

fn scan(samples: i64) -> Plan {
    let values: Vec<i16> = (0..samples).map(value).collect();
    let recording = Segments::new([SigSeg::from_slice(&values, 0, stream()).unwrap()]).unwrap();
    Plan::scan_part(SharedRecording::new(recording), None, SEGMENT as u64)
}

type Change = Box<dyn FnMut(i64) + Send>;

/// Called by `Watch`: a declared operator holds only JSON.
static WATCHED: Mutex<Vec<(u64, Arc<Mutex<Change>>)>> = Mutex::new(Vec::new());

operator! {
    /// Tells a test the position of the run.
    pub struct Watch = "watch" (Inputs::Exactly(1)) {
        /// Test.
        id: u64 = "integer" {},
    }
    state {}
}

impl Operator for Watch {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let watched = WATCHED.lock().unwrap();
        let change = watched
            .iter()
            .find(|(id, _)| *id == self.id)
            .unwrap()
            .1
            .clone();
        drop(watched);
        (change.lock().unwrap())(item.extent().unwrap().0);
        Ok(Next::Forward)
    }
}

fn watched(plan: &Plan, id: u64, change: impl FnMut(i64) + Send + 'static) -> Plan {
    let change: Change = Box::new(change);
    WATCHED
        .lock()
        .unwrap()
        .push((id, Arc::new(Mutex::new(change))));
    let serde_json::Value::Object(params) = json!({"id": id}) else {
        unreachable!()
    };
    plan.then::<Watch>(params).unwrap()
}

fn collected(plan: &Plan, control: Option<&Control>, optimise: bool) -> Vec<i16> {
    let mut options = RunOptions::default();
    options.control = control;
    options.optimise = optimise;
    let (gathered, _) = plan.collect_with(&options).unwrap();
    gathered.array().unwrap().to_vec::<i16>().unwrap()
}

fn above(level: i64) -> Expr {
    Expr::input().max().gt(level)
}

#[test]
fn a_filter_changes_at_the_next_window_whether_it_is_rewritten_or_not() {
    for (id, optimise) in [(1, true), (2, false)] {
        let control = Arc::new(Control::default());
        let slot: Arc<Mutex<Option<Plan>>> = Arc::default();
        let (asked, named) = (control.clone(), slot.clone());
        let watch = watched(&scan(3 * BURST), id, move |index| {
            if index == BURST + 5 * SEGMENT {
                let loud = named.lock().unwrap().clone().unwrap();
                asked
                    .set(&loud, [("predicate", json!(above(900)))])
                    .unwrap();
            }
        });
        let windows = watch.rewindow(5).unwrap();
        let loud = windows.filter(&above(1500)).unwrap();
        *slot.lock().unwrap() = Some(loud.clone());
        // The optimiser fuses the next filter with it.
        let plan = loud.filter(&Expr::input().min().lt(0)).unwrap();
        let mut expected = Vec::new();
        for start in (0..3 * BURST).step_by(5) {
            let samples: Vec<i16> = (start..start + 5).map(value).collect();
            let level = if start < BURST + 5 * SEGMENT {
                1500
            } else {
                900
            };
            if samples.iter().any(|&x| x > level) && samples.iter().any(|&x| x < 0) {
                expected.extend(samples);
            }
        }
        assert_eq!(collected(&plan, Some(&control), optimise), expected);
        assert_ne!(collected(&plan, None, optimise), expected);
    }
}

#[test]
fn what_is_remembered_stays_where_it_is_of_the_same() {
    let s = Expr::input();
    let running = |level: i64| s.sum().ewm(0.125).gt(level);
    let sums: Vec<f64> = (0..2 * BURST)
        .step_by(5)
        .map(|start| (start..start + 5).map(|i| f64::from(value(i))).sum())
        .collect();
    let control = Arc::new(Control::default());
    let slot: Arc<Mutex<Option<Plan>>> = Arc::default();
    let (asked, named) = (control.clone(), slot.clone());
    let change = json!(running(-300));
    let watch = watched(&scan(2 * BURST), 3, move |index| {
        if index == BURST {
            let plan = named.lock().unwrap().clone().unwrap();
            asked.set(&plan, [("predicate", change.clone())]).unwrap();
        }
    });
    let plan = watch.rewindow(5).unwrap().filter(&running(300)).unwrap();
    *slot.lock().unwrap() = Some(plan.clone());
    let (mut mean, mut expected) = (sums[0], 0u64);
    for (window, &sum) in sums.iter().enumerate() {
        if window > 0 {
            mean += 0.125 * (sum - mean);
        }
        let level = if window < sums.len() / 2 {
            300.0
        } else {
            -300.0
        };
        expected += u64::from(mean > level);
    }
    let kept = collected(&plan, Some(&control), true).len() as u64 / 5;
    assert_eq!(kept, expected);
}

#[test]
fn an_operator_that_cannot_take_a_change_is_replaced() {
    operator! {
        /// Lets every n-th item pass.
        pub struct Thin = "thin" (Inputs::Exactly(1)) {
            /// One item in so many.
            every: u64 = "integer" { range: (1.0, 1e9), adjustable: true },
        }
        state {
            seen: u64,
        }
    }
    impl Operator for Thin {
        fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
            Ok(OperatorProperties::new(inputs.iter().copied()).data_dependent())
        }
        fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
            self.seen += 1;
            Ok(if self.seen.is_multiple_of(self.every) {
                Next::Forward
            } else {
                Next::Consumed
            })
        }
    }
    let serde_json::Value::Object(params) = json!({"every": 64}) else {
        unreachable!()
    };
    let control = Arc::new(Control::default());
    let slot: Arc<Mutex<Option<Plan>>> = Arc::default();
    let (asked, named) = (control.clone(), slot.clone());
    let watch = watched(&scan(2 * BURST), 4, move |index| {
        if index == BURST {
            let plan = named.lock().unwrap().clone().unwrap();
            asked.set(&plan, [("every", json!(16))]).unwrap();
        }
    });
    let plan = watch.then::<Thin>(params).unwrap();
    *slot.lock().unwrap() = Some(plan.clone());
    assert_eq!(
        collected(&plan, Some(&control), true).len() as i64,
        5 * SEGMENT
    );
}

#[test]
fn a_control_serves_before_a_run_and_for_several_runs_one_after_another() {
    let control = Control::default();
    let plan = scan(BURST)
        .rewindow(5)
        .unwrap()
        .filter(&above(5000))
        .unwrap();
    assert!(collected(&plan, Some(&control), true).is_empty());
    control
        .set(&plan, [("predicate", json!(above(-5000)))])
        .unwrap();
    assert_eq!(collected(&plan, Some(&control), true).len() as i64, BURST);
    let again = collected(&plan, Some(&control), true);
    assert!(again.is_empty(), "a change is one run's");
}

#[test]
fn changes_that_cannot_be_made_are_refused_where_they_are_asked_for() {
    let s = Expr::input();
    let windows = scan(BURST).rewindow(5).unwrap();
    let loud = windows.filter(&above(5)).unwrap();
    let control = Control::default();
    let refused = |at: &Plan, name: &str, value: serde_json::Value| {
        control.set(at, [(name, value)]).unwrap_err()
    };
    let cases = [
        (
            refused(&loud, "level", json!(3)),
            "not_adjustable",
            "adjustable of filter: predicate",
        ),
        (
            refused(&windows, "window", json!(7)),
            "not_adjustable",
            "adjustable of rewindow: none",
        ),
        (
            refused(&loud, "predicate", json!(3)),
            "parameter",
            "an expression",
        ),
        (
            refused(&loud, "predicate", json!(s.max())),
            "predicate",
            "compare it",
        ),
        (
            refused(
                &windows.map(&(&s * 2).wrapping()).unwrap(),
                "expression",
                json!(s.max()),
            ),
            "changes_plan",
            "instead of frames[int16, window 5]",
        ),
    ];
    for (error, code, part) in cases {
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
    let control = Arc::new(Control::default());
    let asked = control.clone();
    let found: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let (told, other) = (found.clone(), loud.clone());
    let slot: Arc<Mutex<Option<Plan>>> = Arc::default();
    let named = slot.clone();
    let watch = watched(&scan(BURST), 5, move |index| {
        if index == 0 {
            let own = named.lock().unwrap().clone().unwrap();
            let stateful = Expr::input().max().ewm(0.5).gt(3);
            for at in [(&other, above(3)), (&own, stateful)] {
                let error = asked.set(at.0, [("predicate", json!(at.1))]).unwrap_err();
                told.lock().unwrap().push(error.code());
            }
        }
    });
    let own = watch.rewindow(5).unwrap().filter(&above(5)).unwrap();
    *slot.lock().unwrap() = Some(own.clone());
    let plan = own.filter(&above(6)).unwrap();
    collected(&plan, Some(&control), true);
    assert_eq!(*found.lock().unwrap(), ["not_running", "changes_plan"]);
}

#[test]
fn a_control_serves_one_run_at_a_time() {
    let control = Arc::new(Control::default());
    let (shared, found) = (control.clone(), Arc::<Mutex<Option<PlanError>>>::default());
    let told = found.clone();
    let watch = watched(&scan(BURST), 6, move |index| {
        if index == 0 {
            let mut options = RunOptions::default();
            options.control = Some(&shared);
            let error = scan(BURST).run_with(&options).unwrap_err();
            if let isochrony_flow::RunError::Plan(error) = error {
                *told.lock().unwrap() = Some(error);
            }
        }
    });
    let plan = watch.rewindow(5).unwrap().filter(&above(5)).unwrap();
    let first = collected(&plan, Some(&control), true);
    assert_eq!(*found.lock().unwrap(), Some(PlanError::ControlInUse));
    assert!(
        PlanError::ControlInUse
            .to_string()
            .contains("create a new Control")
    );
    assert_eq!(collected(&plan, Some(&control), true), first);
}

/// `pause` after each segment lets another thread make changes.
fn made(samples: i64, segment: i64, pause: Duration) -> Plan {
    let recording = GeneratedRecording::new(DType::I16, stream(), move || {
        let mut next = 0;
        Ok(Box::new(move || {
            let stop = samples.min(next + segment);
            let values: Vec<i16> = (next..stop).map(value).collect();
            let made = (!values.is_empty()).then(|| SigSeg::from_slice(&values, next, stream()));
            next = stop;
            std::thread::sleep(pause);
            Ok(made.transpose()?)
        }))
    });
    Plan::scan(recording)
}

fn smoothed(plan: &Plan) -> Plan {
    let params = json!({"band": "lowpass", "cutoff_hz": 300.0, "order": 2});
    named(plan, &("iir", params)).unwrap()
}

/// In tasks or stages, whose sizes, links and replicas follow from the seed.
fn run(
    plan: &Plan,
    control: &Control,
    workers: usize,
    seed: u64,
) -> Result<(PlanOutput, Report), RunError> {
    let mut options = RunOptions::default();
    options.control = Some(control);
    options.workers = workers;
    options.task = 1 << (9 + seed % 6);
    options.stages.helpers_after_us = 0;
    options.stages.burst_bytes = 1 << (6 + seed % 9);
    options.stages.block_bytes = 1 << (6 + seed % 7);
    options.stages.shuffle = (!seed.is_multiple_of(3)).then_some(seed);
    plan.collect_with(&options)
}

type Levels = Vec<(i64, i64)>;

fn level_at(levels: &Levels, index: i64) -> i64 {
    let before = levels.iter().rev().find(|&&(from, _)| from <= index);
    before.map_or(1500, |&(_, level)| level)
}

fn starts(samples: &[f64], (window, hop): (usize, usize), levels: &Levels) -> Vec<i64> {
    let windows = samples.windows(window).enumerate().step_by(hop);
    let loud = windows.filter(|(start, window)| {
        let peak = window.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        peak > level_at(levels, *start as i64) as f64
    });
    loud.map(|(start, _)| start as i64).collect()
}

const SAMPLES: i64 = 20_000;

/// The changed filter, and the plan after it: in tasks; in stages; after a sequential operator.
fn adjusted_plans(shape: (u64, u64), pause: Duration) -> Vec<(Plan, Plan)> {
    let sources = [
        scan(SAMPLES),
        made(SAMPLES, 37, pause),
        smoothed(&made(SAMPLES, 500, pause)),
        smoothed(&scan(SAMPLES)),
    ];
    let plans = sources.iter().map(|source| {
        let windows = source.rewindow_every(shape.0, shape.1).unwrap();
        let loud = windows.filter(&above(1500)).unwrap();
        let rows = loud.stats([Stat::Max]).unwrap();
        (loud, rows)
    });
    plans.collect()
}

fn starts_of(output: &PlanOutput) -> Vec<i64> {
    let starts = output.rows().unwrap().column_by_name("start").unwrap();
    starts.as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn changes_at_stated_indices_have_the_same_bits_for_any_number_of_workers() {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(40));
    let given = (
        proptest::collection::vec((0..SAMPLES + 500, -2000i64..2000), 0..5),
        prop_oneof![Just((5u64, 5u64)), Just((64, 16)), Just((300, 300))],
        any::<u64>(),
    );
    let in_parallel = std::cell::Cell::new(0);
    let check = |(mut changes, shape, seed): (Levels, (u64, u64), u64)| {
        changes.sort_by_key(|&(from, _)| from);
        for (loud, plan) in adjusted_plans(shape, Duration::ZERO) {
            let source = loud.inputs()[0].inputs()[0].clone();
            let samples = source.map(&Expr::input().astype(DType::F64)).unwrap();
            let samples = samples.collect().unwrap();
            let samples = samples.array().unwrap().to_vec::<f64>().unwrap();
            let shape = (shape.0 as usize, shape.1 as usize);
            let expected = starts(&samples, shape, &changes);
            for workers in [1, 2, 3] {
                let control = Control::default();
                for &(from, level) in &changes {
                    let params = [("predicate", json!(above(level)))];
                    control.set_from(&loud, from, params).unwrap();
                }
                let (got, report) = run(&plan, &control, workers, seed).unwrap();
                prop_assert!(
                    starts_of(&got) == expected,
                    "{} workers: {}",
                    workers,
                    &plan
                );
                let parallel = !report.stages.is_empty() || !report.workers.is_empty();
                in_parallel.set(in_parallel.get() + usize::from(parallel && workers > 1));
                let listed: Vec<_> = report.changes.iter().map(|one| one.from).collect();
                for (listed, &(from, _)) in listed.iter().zip(&changes) {
                    prop_assert!(listed.is_none_or(|listed| listed == from));
                }
            }
        }
        Ok(())
    };
    runner.run(&given, check).unwrap();
    assert!(in_parallel.get() > 200, "{}", in_parallel.get());
}

#[test]
fn a_run_whose_changes_another_thread_made_can_be_repeated_from_its_report() {
    let mut in_effect = 0;
    for seed in 0..12u64 {
        let pause = Duration::from_micros(200);
        for (loud, plan) in adjusted_plans((64, 16), pause) {
            let control = Control::default();
            let done = AtomicBool::new(false);
            let workers = 1 + seed as usize % 3;
            let (first, report) = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut level = seed as i64;
                    while !done.load(Ordering::SeqCst) {
                        level = (level * 7919 + 13) % 2000;
                        let _ = control.set(&loud, [("predicate", json!(above(level)))]);
                        if let Ok(measurement) = control.measurement() {
                            for stage in &measurement.stages {
                                let replicas = 1 + level as usize % workers;
                                let _ = control.set_replicas(stage.number, replicas);
                            }
                            let links = 0..measurement.links.len();
                            links.for_each(|link| {
                                let _ = control.set_link_capacity(link, 1 + level as u64 * 7);
                            });
                        }
                        std::thread::sleep(Duration::from_micros(700));
                    }
                });
                let ran = run(&plan, &control, workers, seed);
                done.store(true, Ordering::SeqCst);
                ran.unwrap()
            });
            // The first may precede the run.
            let from: Vec<i64> = report.changes.iter().filter_map(|one| one.from).collect();
            assert!(from.is_sorted());
            in_effect += from.len();
            let first_change = from.first().copied().unwrap_or(i64::MAX);
            for workers in [1, 2, 3] {
                let (repeated, _) =
                    run(&plan, &repeating(&report, &loud), workers, seed + 1).unwrap();
                let behind = |output: &PlanOutput| -> Vec<i64> {
                    let starts = starts_of(output).into_iter();
                    starts.filter(|&start| start >= first_change).collect()
                };
                assert!(
                    behind(&repeated) == behind(&first),
                    "{workers} workers: {plan}"
                );
            }
        }
    }
    assert!(in_effect > 100, "{in_effect}");
}

fn repeating(report: &Report, loud: &Plan) -> Control {
    let again = Control::default();
    for change in &report.changes {
        let params = change.params.iter();
        let params = params.map(|(name, value)| (name.as_str(), value.clone()));
        if let Some(from) = change.from {
            again.set_from(loud, from, params).unwrap();
        }
    }
    again
}
