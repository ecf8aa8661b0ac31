//! Plans in stages match one thread in bits, errors and ends.

#![allow(clippy::single_range_in_vec_init)]

mod defaults;
mod grid;
mod interrupts;
mod meeting;
mod obstacles;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use isochrony_expr::Expr;
use isochrony_flow::{
    Contract, GeneratedRecording, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out,
    Plan, PlanError, PlanOutput, Port, PortType, Report, RunError, RunOptions, StageReport, Stat,
    json, operator,
};
use isochrony_runtime::Interrupt;
use isochrony_segment::{DType, SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::channels::{self, channel};
use crate::common::plans::{named, plan, settling, steps};

const CASES: u32 = 300;

fn run_all(plans: &[Plan], workers: usize) -> Result<(Vec<PlanOutput>, Report), RunError> {
    let mut options = RunOptions::default();
    options.workers = workers;
    Plan::collect_all(plans, &options)
}

/// Several busy stages even for a small plan; links and replicas change at random.
fn run_shuffled(
    plans: &[Plan],
    workers: usize,
    seed: u64,
) -> Result<(Vec<PlanOutput>, Report), RunError> {
    let mut options = RunOptions::default();
    options.workers = workers;
    options.stages.helpers_after_us = 0;
    options.stages.burst_bytes = 1 << (seed % 12);
    options.stages.divided_us = if seed.is_multiple_of(2) { 0 } else { 1 };
    options.stages.block_bytes = 1 << (seed / 12 % 14);
    options.stages.link_bytes = 1 << (seed / 168 % 16);
    // Consecutive threads appear to have caches of their own: stages then have homes.
    options.stages.threads_per_cache = (seed / 7 % 3) as usize;
    options.pin = seed.is_multiple_of(11);
    options.stages.shuffle = (!seed.is_multiple_of(5)).then_some(seed);
    Plan::collect_all(plans, &options)
}

/// Readable only in order; counts the samples in `made`.
fn generated(nth: i64, range: Range<i64>, segment: i64, made: &Arc<AtomicU64>) -> Plan {
    let rate = Rate::new(2000, 1).unwrap();
    let stream = Stream::new(format!("made/{nth}"), TimebaseId(0), rate).intern();
    let made = Arc::clone(made);
    let recording = GeneratedRecording::new(DType::I16, stream, move || {
        let (mut next, end, made) = (range.start, range.end, Arc::clone(&made));
        Ok(Box::new(move || {
            if next >= end {
                return Ok(None);
            }
            let stop = end.min(next + segment);
            let samples: Vec<i16> = (next..stop).map(|at| channels::value(nth, at)).collect();
            let made_one = SigSeg::from_slice(&samples, next, stream)?;
            next = stop + if (stop / segment) % 5 == 0 { 7 } else { 0 };
            made.fetch_add(1, Ordering::Relaxed);
            Ok(Some(made_one))
        }))
    });
    Plan::scan(recording)
}

/// By code bound to the calling thread.
fn generated_here(nth: i64, range: Range<i64>, segment: i64) -> Plan {
    let rate = Rate::new(2000, 1).unwrap();
    let stream = Stream::new(format!("made/{nth}"), TimebaseId(0), rate).intern();
    let caller = std::thread::current().id();
    let recording = GeneratedRecording::new(DType::I16, stream, move || {
        let (mut next, end) = (range.start, range.end);
        Ok(Box::new(move || {
            assert_eq!(std::thread::current().id(), caller);
            let stop = end.min(next + segment);
            let samples: Vec<i16> = (next..stop).map(|at| channels::value(nth, at)).collect();
            let made = (!samples.is_empty()).then(|| SigSeg::from_slice(&samples, next, stream));
            next = stop;
            Ok(made.transpose()?)
        }))
    });
    Plan::scan(recording.in_interpreter())
}

fn stages(report: &Report) -> &[StageReport] {
    &report.stages
}

fn in_order(plan: &Plan, nth: usize) -> Plan {
    let all = settling();
    named(plan, &all[nth % all.len()]).unwrap_or_else(|_| plan.clone())
}

#[test]
fn random_plans_give_the_same_bits_in_stages() {
    let given = (
        (steps(), steps(), steps()),
        (0usize..8, 0usize..8, 0usize..6, 1u8..16),
        (
            1i64..3000,
            1i64..300,
            2usize..6,
            any::<[bool; 2]>(),
            any::<u64>(),
        ),
    );
    let (staged, met, replicated) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |(
            (first, second, behind),
            (one, other, how, wanted),
            (len, segment, workers, which, seed),
        )| {
            let made = Arc::default();
            let source = |nth: i64, stored: bool| match stored {
                _ if how == 5 && nth == 0 => generated_here(nth, 0..len, segment),
                true => Plan::scan_part(channel(nth, &[3..3 + len], segment), None, 64),
                false => generated(nth, 0..len, segment, &made),
            };
            let base = in_order(&source(0, which[0]), one);
            let next = match which[1] {
                true => base.clone(),
                false => in_order(&source(1, which[0]), other),
            };
            let (a, b) = (plan(base, &first), plan(next, &second));
            let s = Expr::input();
            let others = std::slice::from_ref(&b);
            let both = match how {
                0 => a.zip(others),
                1 => a.zip(others).and_then(|both| both.output(1)),
                2 => a.merge(others),
                3 => a.map_with(&(&s - Expr::input_at(1)), others),
                4 => a.filter_with(&s.max().gt(Expr::input_at(1).mean()), others),
                _ => Ok(a.clone()),
            };
            let meets = both.is_ok() && how < 5;
            let both = both.map(|both| plan(both, &behind));
            let all = [both.ok(), Some(a.clone()), Some(b.clone()), None];
            let all = all.into_iter().enumerate();
            let some = all.filter(|(nth, _)| (wanted | 1) >> nth & 1 == 1);
            let plans: Vec<Plan> = some.filter_map(|(_, plan)| plan).collect();
            if plans.is_empty() {
                return Ok(());
            }
            let texts = || {
                plans
                    .iter()
                    .map(Plan::explain)
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            match (run_all(&plans, 1), run_shuffled(&plans, workers, seed)) {
                (Ok((expected, _)), Ok((got, report))) => {
                    prop_assert_eq!(got, expected, "{}", texts());
                    let several = stages(&report).len() > 1;
                    staged.set(staged.get() + u32::from(several));
                    met.set(met.get() + u32::from(several && meets));
                    let groups = |one: &StageReport| {
                        let mut nodes = one.operators.iter();
                        nodes.any(|&node| report.operators[node].name == "group_by")
                    };
                    let mut replicas = stages(&report).iter();
                    let replicas = replicas.any(|one| one.replica.is_some() && !groups(one));
                    replicated.set(replicated.get() + u32::from(replicas));
                }
                (Err(expected), Err(got)) => {
                    prop_assert_eq!(got.to_string(), expected.to_string(), "{}", texts());
                }
                (expected, got) => {
                    let (expected, got) = (expected.map(|_| ()), got.map(|_| ()));
                    prop_assert!(false, "{:?} and {:?}: {}", expected, got, texts());
                }
            }
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    let (staged, met, replicated) = (staged.get(), met.get(), replicated.get());
    assert!(
        staged > CASES / 3 && met > CASES / 40 && replicated > CASES / 10,
        "{staged}, {met} and {replicated} of {CASES}"
    );
}

fn filters(source: Plan, count: usize) -> Plan {
    let filter = |plan: Plan, nth: usize| {
        let params = serde_json::json!({"band": "lowpass", "cutoff_hz": 300.0 + (nth % 500) as f64, "order": 2});
        named(&plan, &("iir", params)).unwrap()
    };
    (0..count).fold(source, filter)
}

/// A block of a whole link would leave nothing for the second replica until the caller's thread reads the source again.
#[test]
fn two_replicas_share_a_small_link_behind_a_source_of_the_caller() {
    let plan = generated_here(1, 0..1 << 22, 1 << 16)
        .rewindow(4096)
        .unwrap()
        .power()
        .unwrap();
    let mut options = RunOptions::default();
    options.workers = 2;
    options.stages.helpers_after_us = 0;
    options.stages.link_bytes = 1 << 19;
    // Another program may have a core meanwhile: the best of a few runs counts.
    let least = (0..5).map(|_| {
        let (_, report) = Plan::collect_all(std::slice::from_ref(&plan), &options).unwrap();
        let replicas = report.stages.iter().filter(|one| one.replica.is_some());
        let items: Vec<u64> = replicas.map(|one| one.items).collect();
        assert_eq!((items.len(), items.iter().sum::<u64>()), (2, 64));
        items[0].min(items[1])
    });
    assert!(least.max() >= Some(16));
}

#[test]
fn filters_in_a_row_are_stages_and_the_report_adds_up() {
    let made = Arc::default();
    let plan = filters(generated(0, 0..300_000, 1000, &made), 3)
        .rewindow(256)
        .unwrap();
    let (one, single) = run_all(std::slice::from_ref(&plan), 1).unwrap();
    let (got, report) = run_all(std::slice::from_ref(&plan), 2).unwrap();
    assert_eq!(got, one);
    assert_eq!(stages(&report).len(), 4, "{}", plan.explain());
    assert!(
        plan.explain().contains("stage 3: iir -> rewindow"),
        "{}",
        plan.explain()
    );
    let counts = |report: &Report| -> Vec<_> {
        let operators = report.operators.iter();
        operators
            .map(|one| (one.name, one.items, one.samples, one.gaps))
            .collect()
    };
    assert_eq!(counts(&report), counts(&single));
    // No part of a thread's time is counted twice.
    for stage in stages(&report) {
        let time = stage.time;
        let sum = time.busy + time.core + time.input + time.output;
        assert!(
            sum <= report.elapsed + Duration::from_millis(50),
            "{stage:?}"
        );
        assert!(time.busy > Duration::ZERO);
    }
    let busy: Duration = stages(&report).iter().map(|stage| stage.time.busy).sum();
    assert!(
        busy <= 2 * report.elapsed + Duration::from_millis(50),
        "{report}"
    );
}

#[test]
fn code_that_makes_samples_stays_in_the_callers_thread_and_the_rest_does_not() {
    let of = |count| {
        let plan = filters(generated_here(0, 0..400_000, 1000), count);
        plan.rewindow(256).unwrap().power().unwrap()
    };
    for count in 1..4 {
        let plan = of(count);
        let (one, _) = run_all(std::slice::from_ref(&plan), 1).unwrap();
        let (got, report) = run_all(std::slice::from_ref(&plan), 2).unwrap();
        assert_eq!(got, one);
        let text = plan.explain();
        assert!(
            text.contains("stage 0: scan, in the caller's thread"),
            "{text}"
        );
        let busy = |one: &&StageReport| one.time.busy > Duration::ZERO;
        let mut numbers: Vec<usize> = stages(&report)
            .iter()
            .filter(busy)
            .map(|one| one.number)
            .collect();
        numbers.dedup();
        assert_eq!(
            numbers,
            (0..count + 3).collect::<Vec<_>>(),
            "{text} {report}"
        );
    }
    let failing = GeneratedRecording::new(
        DType::I16,
        Stream::new("failing", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern(),
        || Ok(Box::new(|| panic!("no more of this"))),
    );
    let plan = filters(Plan::scan(failing.in_interpreter()), 2);
    let errors = [1, 2].map(|workers| {
        let ran = run_all(std::slice::from_ref(&plan), workers);
        ran.unwrap_err().to_string()
    });
    assert_eq!(errors[0], errors[1]);
}

#[test]
fn thousands_of_operators_and_many_channels_share_a_few_stages() {
    let made = Arc::default();
    let long = filters(generated(0, 0..500, 100, &made), 2_000);
    let channels: Vec<Plan> = (0..120)
        .map(|nth| filters(generated(nth, 0..500, 100, &made), 1))
        .collect();
    for plans in [&[long][..], &channels] {
        let (one, _) = run_all(plans, 1).unwrap();
        let (got, report) = run_all(plans, 3).unwrap();
        assert_eq!(got, one);
        let count = stages(&report).len();
        assert!((8..=25).contains(&count), "{count}");
    }
}

#[test]
fn no_plan_has_more_stages_than_the_queue_holds() {
    let made = Arc::default();
    let channel = |nth: i64| {
        let around = |plan: Plan| named(&plan, &crate::common::plans::around()[0]).unwrap();
        let twice = |plan: Plan| around(filters(plan, 1));
        twice(twice(generated(nth, 0..3000, 100, &made)))
    };
    for channels in [15, 24, 31, 40] {
        let plans: Vec<Plan> = (0..channels).map(channel).collect();
        let (one, _) = run_all(&plans, 1).unwrap();
        let (got, report) = run_shuffled(&plans, 8, channels as u64 * 977).unwrap();
        assert!(got == one, "{channels}");
        assert!((20..=64).contains(&stages(&report).len()), "{report}");
    }
}

operator! {
    /// Panics at an index.
    struct PanicAt = "panic_at" (Inputs::Exactly(1)) {
        /// The index.
        index: i64 = "integer" {},
        /// Executed in order.
        in_order: bool = "bool" {},
    }
    state {}
}

impl Operator for PanicAt {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let properties = OperatorProperties::new(inputs.iter().copied());
        Ok(match self.in_order {
            true => properties.contract(Contract::Sequential),
            false => properties,
        })
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let range = item.range().unwrap_or(0..0);
        assert!(!range.contains(&self.index), "a defect of a test");
        Ok(Next::Forward)
    }
}

fn threads_of_this_process() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with("isochrony-"))
        .collect()
}

#[test]
fn a_panic_in_any_stage_or_replica_is_one_error_and_leaves_no_thread_behind() {
    let panic_at = |plan: &Plan, index: i64, in_order: bool| {
        let serde_json::Value::Object(params) = json!({"index": index, "in_order": in_order})
        else {
            unreachable!()
        };
        plan.then::<PanicAt>(params).unwrap()
    };
    let source = || generated(0, 0..60_000, 1000, &Arc::default());
    let spectra = |plan: &Plan| named(&plan.rewindow(256).unwrap(), &("power", json!({}))).unwrap();
    let plans = [
        // In the first stage, an inner one, replicas, and the caller's thread.
        spectra(&filters(panic_at(&source(), 30_500, true), 2)),
        spectra(&filters(panic_at(&filters(source(), 1), 30_500, true), 2)),
        panic_at(&spectra(&filters(source(), 2)), 30_500, false),
        panic_at(&spectra(&filters(source(), 2)), 30_500, true),
    ];
    for (at, plan) in plans.iter().enumerate() {
        let (one, _) = (
            run_all(std::slice::from_ref(plan), 1)
                .map(|_| ())
                .unwrap_err(),
            (),
        );
        for seed in 0..20 {
            let error = run_shuffled(std::slice::from_ref(plan), 3, seed).unwrap_err();
            let (text, expected) = (error.to_string(), one.to_string());
            assert_eq!(
                text.matches("a defect of a test").count(),
                1,
                "{at}: {text}"
            );
            // Blocks are cut elsewhere, so the range in the error differs.
            let operator = |text: &str| text.split(" at ").next().map(str::to_owned);
            assert_eq!(operator(&text), operator(&expected), "{at}");
        }
    }
    // Other tests of this process run plans, too.
    let begun = Instant::now();
    while !threads_of_this_process().is_empty() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            threads_of_this_process()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_limit_ends_the_stages_before_it() {
    let made = Arc::new(AtomicU64::new(0));
    let endless = filters(generated(0, 0..i64::MAX, 1000, &made), 2);
    let plan = endless
        .rewindow(100)
        .unwrap()
        .power()
        .unwrap()
        .limit(50)
        .unwrap();
    let (one, _) = run_all(std::slice::from_ref(&plan), 1).unwrap();
    let (got, report) = run_all(std::slice::from_ref(&plan), 2).unwrap();
    assert_eq!(got, one);
    assert!(stages(&report).len() > 1);
    assert!(made.load(Ordering::Relaxed) < 20_000, "{made:?}");
}

#[test]
fn an_interrupt_ends_all_stages_at_once() {
    let made = Arc::default();
    let endless = filters(generated(0, 0..i64::MAX, 1000, &made), 3)
        .rewindow(64)
        .unwrap();
    let plan = endless
        .power()
        .unwrap()
        .stats([Stat::Max])
        .unwrap()
        .count()
        .unwrap();
    let interrupt = Interrupt::default();
    let mut options = RunOptions::default();
    (options.workers, options.interrupt) = (2, Some(&interrupt));
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| (plan.collect_with(&options), Instant::now()));
        std::thread::sleep(Duration::from_millis(150));
        let asked = Instant::now();
        interrupt.request();
        let (ran, ended) = ran.join().unwrap();
        assert!(matches!(ran, Err(RunError::Interrupted { .. })), "{ran:?}");
        assert!(
            ended - asked < Duration::from_secs(2),
            "{:?}",
            ended - asked
        );
    });
}

#[test]
fn what_is_left_beside_tasks_is_cut_into_stages_if_it_can_work_at_the_same_time() {
    let averaged = |plan: &Plan| {
        let taps = json!({"taps": [0.25, 0.5, 0.25], "method": "direct"});
        named(plan, &("fir", taps)).unwrap()
    };
    let stored = |nth: i64| Plan::scan_shared(channel(nth, &[0..200_000], 10_000));
    let one = filters(averaged(&stored(0)), 1);
    let (_, report) = run_all(std::slice::from_ref(&one), 2).unwrap();
    assert!(
        report.stages.is_empty() && !report.workers.is_empty(),
        "{}",
        one.explain()
    );
    let row = filters(averaged(&stored(0)), 2);
    let channels: Vec<Plan> = (0..3)
        .map(|nth| filters(averaged(&stored(nth)), 1))
        .collect();
    for plans in [vec![row], channels] {
        let (single, _) = run_all(&plans, 1).unwrap();
        for workers in [2, 3] {
            let (got, report) = run_all(&plans, workers).unwrap();
            assert_eq!(got, single);
            assert!(report.workers.is_empty());
            assert!(
                report.stages.iter().any(|stage| stage.replica.is_some()),
                "{report}"
            );
        }
        assert_eq!(run_shuffled(&plans, 3, 977).unwrap().0, single);
    }
    let text = filters(averaged(&stored(0)), 2).explain();
    assert!(text.contains("stage 1: fir, 2 replicas"), "{text}");
}
