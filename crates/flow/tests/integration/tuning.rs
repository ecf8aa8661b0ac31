use std::cell::Cell;
use std::sync::Arc;

use isochrony_flow::{
    GeneratedRecording, GivenSettings, Plan, PlanOutput, Report, RunError, RunOptions,
    SharedRecording, Tuning, TuningMode, TuningReport,
};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use isochrony_tune::Configuration;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::common::plans::{named, plan, prefix, settling, steps};

fn stream() -> StreamId {
    Stream::new("made", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

fn samples(start: i64, count: usize) -> Vec<i16> {
    let samples = (start..start + count as i64)
        .map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64) >> 50) as i16);
    samples.collect()
}

fn made(total: i64) -> Plan {
    const SEGMENT: i64 = 1 << 16;
    let recording = GeneratedRecording::new(DType::I16, stream(), move || {
        let mut next = 0;
        Ok(Box::new(move || {
            if next >= total {
                return Ok(None);
            }
            let segment = SigSeg::from_slice(&samples(next, SEGMENT as usize), next, stream())?;
            next += SEGMENT;
            Ok(Some(segment))
        }))
    });
    Plan::scan(recording)
}

fn filters(plan: Plan) -> Plan {
    let filter = &settling()[0];
    (0..3).fold(plan, |plan, _| named(&plan, filter).unwrap())
}

fn run(
    plan: &Plan,
    workers: usize,
    tuning: Option<&Tuning>,
) -> Result<(PlanOutput, Report), RunError> {
    let mut options = RunOptions::default();
    options.workers = workers;
    options.tuning = tuning;
    plan.collect_with(&options)
}

fn tuned(plan: &Plan, workers: usize, mode: TuningMode) -> (PlanOutput, Report, TuningReport) {
    let tuning = Tuning::new(mode, false);
    let (output, report) = run(plan, workers, Some(&tuning)).unwrap();
    (output, report, tuning.report().unwrap())
}

#[test]
fn a_tuned_plan_in_stages_gives_the_bits_of_one_thread() {
    let plan = filters(made(30 << 20))
        .rewindow(4096)
        .unwrap()
        .power()
        .unwrap();
    let (expected, _) = run(&plan, 1, None).unwrap();
    let (output, report, tuning) = tuned(&plan, 3, TuningMode::Change);
    assert_eq!(output, expected);
    assert!(report.stages.len() > 1);
    assert!(tuning.windows > 3, "{tuning:?}");
    let configuration = tuning.configuration.unwrap();
    assert!((1..=3).contains(&configuration.workers));
    assert_eq!(configuration.link_bytes.len(), report.links.len());
    assert!(tuning.bottleneck.is_some());
    assert!(tuning.rate > 0.0 && tuning.predicted_rate.unwrap() > 0.0);
}

#[test]
fn a_recommendation_changes_nothing_and_is_a_configuration_of_the_plan() {
    let plan = filters(made(12 << 20));
    let (expected, _) = run(&plan, 1, None).unwrap();
    let (output, report, tuning) = tuned(&plan, 2, TuningMode::Recommend);
    assert_eq!(output, expected);
    assert!(tuning.decisions.is_empty());
    let recommended = tuning.configuration.unwrap();
    let (again, _, applied) = tuned(&plan, 2, TuningMode::Apply(recommended.clone()));
    assert_eq!(again, expected);
    let applied = applied.configuration.unwrap();
    assert_eq!(applied.workers, recommended.workers);
    // Where other cuts are recommended, replicas and links are not: they are those at the start.
    match recommended.replicas.is_empty() {
        true => assert!(recommended.link_bytes.is_empty()),
        false => assert_eq!(applied, recommended),
    }
    assert!(!report.links.is_empty());
}

#[test]
fn one_active_thread_executes_all_stages() {
    let plan = filters(made(4 << 20));
    let (expected, report) = run(&plan, 3, None).unwrap();
    let configuration = Configuration {
        workers: 1,
        replicas: vec![1; report.stages.len()],
        link_bytes: report.links.iter().map(|link| link.capacity).collect(),
        task_bytes: 0,
        batch_tasks: 0,
    };
    let (output, report, _) = tuned(&plan, 3, TuningMode::Apply(configuration));
    assert_eq!(output, expected);
    let cpu = |thread: usize| report.threads[thread].cpu.unwrap().as_secs_f64();
    let helpers: f64 = (1..report.threads.len()).map(cpu).sum();
    assert!(helpers < 0.05 * cpu(0), "{:?}", report.threads);
}

#[test]
fn one_active_worker_executes_all_tasks() {
    let samples = samples(0, 8 << 20);
    let segment = SigSeg::from_slice(&samples, 0, stream()).unwrap();
    let recording = SharedRecording::new(isochrony_flow::Segments::new([segment]).unwrap());
    let plan = Plan::scan_shared(recording)
        .rewindow(1024)
        .unwrap()
        .power()
        .unwrap();
    let (expected, _) = run(&plan, 1, None).unwrap();
    let configuration = Configuration {
        workers: 1,
        replicas: vec![3],
        link_bytes: Vec::new(),
        task_bytes: 0,
        batch_tasks: 0,
    };
    let (output, report, _) = tuned(&plan, 3, TuningMode::Apply(configuration));
    assert_eq!(output, expected);
    // Tasks do not overlap in time.
    let busy: f64 = (report.workers.iter())
        .map(|one| one.work.busy.as_secs_f64())
        .sum();
    assert!(
        busy <= 1.05 * report.elapsed.as_secs_f64(),
        "{busy} {:?}",
        report.elapsed
    );
    assert!(report.tasks.len() > 3);
}

#[test]
fn a_configuration_of_another_plan_is_refused_before_anything_runs() {
    let plan = filters(made(1 << 20));
    let configuration = Configuration {
        workers: 2,
        replicas: vec![1],
        link_bytes: Vec::new(),
        task_bytes: 0,
        batch_tasks: 0,
    };
    let tuning = Tuning::new(TuningMode::Apply(configuration), false);
    let error = run(&plan, 2, Some(&tuning)).unwrap_err();
    assert_eq!(error.code(), "other_plan");
    let text = error.to_string();
    assert!(
        text.starts_with("tune=: the configuration has 1 stages and the plan has "),
        "{text}"
    );
    assert!(text.ends_with("tune the plan again"), "{text}");
    assert!(tuning.report().is_err());
}

#[test]
fn a_plan_in_one_thread_has_nothing_to_tune() {
    let (_, _, tuning) = tuned(&filters(made(1 << 18)), 1, TuningMode::Change);
    assert_eq!(tuning, TuningReport::default());
}

#[test]
fn an_error_of_the_plan_ends_the_tuning() {
    let failing = GeneratedRecording::new(DType::I16, stream(), || {
        let mut left = 200;
        Ok(Box::new(move || {
            left -= 1;
            assert!(left > 0, "the sensor is gone");
            std::thread::sleep(std::time::Duration::from_millis(2));
            let start = (200 - left) << 16;
            Ok(Some(SigSeg::from_slice(
                &samples(start, 1 << 16),
                start,
                stream(),
            )?))
        }))
    });
    let plan = filters(Plan::scan(failing));
    let tuning = Arc::new(Tuning::new(TuningMode::Change, false));
    let error = run(&plan, 2, Some(&tuning)).unwrap_err();
    assert!(error.to_string().contains("the sensor is gone"), "{error}");
    assert!(tuning.report().unwrap().windows > 0);
}

fn stored(total: usize) -> Plan {
    let segment = SigSeg::from_slice(&samples(0, total), 0, stream()).unwrap();
    let segments = isochrony_flow::Segments::new([segment]).unwrap();
    Plan::scan_shared(SharedRecording::new(segments))
}

/// Lengths of what was computed at a time, without the last one.
fn lengths(report: &Report) -> Vec<i64> {
    let lengths = (report.tasks.iter()).map(|task| task.range.end - task.range.start);
    let mut lengths: Vec<i64> = lengths.collect();
    lengths.pop();
    lengths
}

#[test]
fn tasks_have_the_size_of_the_configuration_and_give_the_same_bits() {
    let plan = stored(8 << 20).rewindow(1024).unwrap().power().unwrap();
    let (expected, _) = run(&plan, 1, None).unwrap();
    let (_, first, tuning) = tuned(&plan, 2, TuningMode::Recommend);
    let own = tuning.configuration.unwrap();
    // What nobody changed is not stated.
    assert_eq!(own.task_bytes, 0);
    // A sixteenth of the recording, of two bytes a sample.
    let begun = (8 << 20) / 16 * 2;
    assert!(lengths(&first).iter().all(|&length| length == 8 << 16));
    for task_bytes in [begun / 4, begun / 2, begun] {
        let wanted = Configuration {
            task_bytes,
            ..own.clone()
        };
        let (output, report, tuning) = tuned(&plan, 2, TuningMode::Apply(wanted.clone()));
        assert_eq!(output, expected);
        let length = task_bytes as i64 / 2;
        assert!(
            lengths(&report).iter().all(|&one| one == length),
            "{wanted}"
        );
        assert_eq!(tuning.configuration, Some(wanted));
    }
}

#[test]
fn a_configuration_of_a_long_recording_is_applied_to_a_short_one() {
    let plan = |samples| stored(samples).rewindow(1024).unwrap().power().unwrap();
    let own = tuned(&plan(16 << 20), 2, TuningMode::Recommend)
        .2
        .configuration;
    let own = own.unwrap();
    let of = |task_bytes| Configuration {
        task_bytes,
        ..own.clone()
    };
    let short = plan(4 << 20);
    let (expected, _) = run(&short, 1, None).unwrap();
    // At most a sixteenth of the recording, which is the size at the start; half of it is a segment.
    let most = (4 << 20) / 16 * 2;
    for (stated, used) in [(0, 0), (most / 2, most / 2), (8 * most, most)] {
        for mode in [TuningMode::Apply, TuningMode::ChangeFrom] {
            let (output, report, tuning) = tuned(&short, 2, mode(of(stated)));
            assert_eq!(output, expected);
            assert_eq!(tuning.configuration, Some(of(used)));
            let length = if used == 0 { most } else { used } as i64 / 2;
            let found = lengths(&report);
            assert!(
                found.iter().all(|&one| one == length),
                "{stated}: {found:?}"
            );
        }
    }
    // Too small for any recording, or no size.
    for task_bytes in [100, 1 << 63, u64::MAX] {
        let tuning = Tuning::new(TuningMode::Apply(of(task_bytes)), false);
        let text = run(&short, 2, Some(&tuning)).unwrap_err().to_string();
        let expected = format!("task_bytes={task_bytes} is refused; it must be 16384 to {most}");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn tasks_whose_results_have_an_unknown_size_grow_to_four_times_that_of_the_start() {
    let scan = stored(8 << 20);
    let low = named(
        &scan,
        &("fir", json!({"taps": [1, 2, 1], "delay": "centred"})),
    )
    .unwrap();
    for (plan, factor) in [
        // The count depends on no size.
        (low.count().unwrap(), 4),
        // A sixteenth of the recording.
        (low, 16),
    ] {
        let tuning = Tuning::new(TuningMode::Recommend, false);
        let mut options = RunOptions::default();
        (options.workers, options.task) = (2, 64 << 10);
        options.tuning = Some(&tuning);
        plan.collect_with(&options).unwrap();
        let own = tuning.report().unwrap().configuration.unwrap();
        let largest = Configuration {
            task_bytes: 1 << 40,
            ..own
        };
        let tuning = Tuning::new(TuningMode::Apply(largest), false);
        options.tuning = Some(&tuning);
        plan.collect_with(&options).unwrap();
        let used = tuning.report().unwrap().configuration.unwrap();
        assert_eq!(used.task_bytes, factor * (64 << 10), "{plan}");
    }
}

#[test]
fn a_larger_task_has_more_cells_and_the_same_ones() {
    let filter = named(&stored(8 << 20), &settling()[0]).unwrap();
    let collect = |workers, tuning: Option<&Tuning>| {
        let mut options = RunOptions::default();
        (options.workers, options.tolerance, options.tuning) = (workers, 1e-9, tuning);
        filter.collect_with(&options).unwrap()
    };
    let (expected, one) = collect(1, None);
    let (_, report) = collect(2, None);
    let tuning = Tuning::new(TuningMode::Recommend, false);
    collect(2, Some(&tuning));
    let own = tuning.report().unwrap().configuration.unwrap();
    let cells = |report: &Report| {
        let cells = report.tasks.iter().map(|task| task.range.clone());
        cells.collect::<Vec<_>>()
    };
    assert!(cells(&one).len() > 30);
    let cell = &cells(&one)[0];
    let cell_bytes = 2 * (cell.end - cell.start) as u64;
    let of = |cells| Configuration {
        task_bytes: cells * cell_bytes,
        ..own.clone()
    };
    // The largest task has a sixteenth of the recording, but whole cells, whose number is a power of two.
    let tuning = Tuning::new(TuningMode::Apply(of(1 << 20)), false);
    collect(2, Some(&tuning));
    let most = (8 << 20) / 16 * 2 / cell_bytes;
    let most = 1 << most.ilog2();
    assert_eq!(tuning.report().unwrap().configuration, Some(of(most)));
    let tuning = Tuning::new(TuningMode::Apply(of(3)), false);
    let (output, larger) = collect(2, Some(&tuning));
    assert_eq!(output, expected);
    assert_eq!((cells(&larger), cells(&report)), (cells(&one), cells(&one)));
    // A worker is given three cells at a time.
    let workers: Vec<usize> = larger.tasks.iter().map(|task| task.worker).collect();
    let whole = workers.chunks_exact(3);
    assert!(whole.clone().count() > 10);
    for three in whole {
        assert!(three.iter().all(|&one| one == three[0]), "{workers:?}");
    }
}

/// Samples of a source that can be read once, so that the plan runs in stages.
fn short(total: i64, segment: i64) -> Plan {
    let recording = GeneratedRecording::new(DType::I16, stream(), move || {
        let mut next = 0;
        Ok(Box::new(move || {
            let count = segment.min(total - next);
            if count <= 0 {
                return Ok(None);
            }
            let made = SigSeg::from_slice(&samples(next, count as usize), next, stream())?;
            next += count;
            Ok(Some(made))
        }))
    });
    Plan::scan(recording)
}

/// Results, and the stage of each operator.
fn cut(
    plans: &[Plan],
    cuts: Option<Vec<usize>>,
) -> Result<(Vec<PlanOutput>, Vec<usize>), RunError> {
    let given = GivenSettings {
        cuts,
        ..GivenSettings::default()
    };
    let tuning = Tuning::new(TuningMode::Change, true).with_settings(given);
    let mut options = RunOptions::default();
    (options.workers, options.tuning) = (3, Some(&tuning));
    options.stages.helpers_after_us = 0;
    options.stages.link_bytes = 1 << 10;
    let (gathered, _) = Plan::collect_all(plans, &options)?;
    Ok((gathered, tuning.report().unwrap().start.cuts))
}

/// Of other cuts some are refused, such as those whose stages would wait for each other.
#[test]
fn any_cuts_that_a_configuration_may_have_give_the_same_bits() {
    const CASES: u32 = 200;
    let changes = prop::collection::vec((any::<prop::sample::Index>(), 0usize..6), 1..6);
    let given = (prefix(), steps(), steps(), steps(), changes, 1i64..400);
    let (own, other) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(&given, |(first, second, one, two, changes, segment)| {
        let base = plan(short(1500, segment), &first);
        let base = plan(named(&base, &settling()[0]).unwrap_or(base), &second);
        let plans = [plan(base.clone(), &one), plan(base, &two)];
        let (expected, _) = Plan::collect_all(&plans, &RunOptions::default()).unwrap();
        let (found, cuts) = cut(&plans, None).unwrap();
        prop_assert_eq!(&found, &expected);
        if cuts.is_empty() {
            return Ok(());
        }
        let (found, again) = cut(&plans, Some(cuts.clone())).unwrap();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(&again, &cuts);
        own.set(own.get() + 1);
        for (node, stage) in changes {
            let mut changed = cuts.clone();
            changed[node.index(cuts.len())] = stage;
            match cut(&plans, Some(changed.clone())) {
                Ok((found, _)) => {
                    prop_assert_eq!(&found, &expected, "{:?}", changed);
                    other.set(other.get() + u32::from(changed != cuts));
                }
                Err(error) => prop_assert!(["cuts", "other_plan"].contains(&error.code())),
            }
        }
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    // Else it would test nothing.
    let (own, other) = (own.get(), other.get());
    assert!(own > CASES / 4 && other > CASES / 4, "{own} and {other}");
}
