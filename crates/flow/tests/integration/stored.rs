use isochrony_flow::arrow::array::cast::AsArray;
use isochrony_flow::arrow::array::types::{Int64Type, TimestampNanosecondType};
use isochrony_flow::{
    Catalog, Plan, PlanOutput, RunOptions, SEGMENT_SAMPLES, Stat, StoredRecording,
};
use isochrony_segment::DType;
use isochrony_store::CreateOptions;
use isochrony_time::{Fixed, Rate, Stamp};
use proptest::prelude::*;
use serde_json::json;

use crate::common::made::{Discontinuity, Made, SECOND, T0, around, history, values};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn windows_of_a_stored_signal_are_those_of_a_loop(
        history in history(), cut in (0.0f64..1.0, 0.0f64..1.0), window in 1i64..30, hop in 1i64..40,
        segment in prop_oneof![Just(SEGMENT_SAMPLES), 1u64..90], whole in any::<bool>(), task in 2u64..400,
    ) {
        let made = Made::new(&history);
        let end = made.signal().end_index();
        let (a, b) = ((cut.0 * end as f64) as i64, (cut.1 * end as f64) as i64);
        let range = if whole { 0..end } else { a.min(b)..a.max(b) };
        let scan = made.plan((!whole).then(|| range.clone()), segment);
        let declaration = *Catalog::standard().get("rewindow").unwrap();
        let own = json!({"window": window, "hop": hop, "anchor": "run"});
        let own = |scan: &Plan| scan.apply(&declaration, own.as_object().unwrap().clone(), &[]).unwrap();
        let expected = made.windows(&range, window, hop, true);
        prop_assert_eq!(values(&own(&scan).collect().unwrap()), &expected[..]);
        let windows = scan.rewindow_every(window as u64, hop as u64).unwrap();
        let from_first = made.windows(&range, window, hop, false);
        prop_assert_eq!(values(&windows.collect().unwrap()), &from_first[..]);
        let selection = made.signal().select(range.clone()).unwrap();
        let selected = Plan::scan(StoredRecording::selection(made.store.path(), &selection));
        let again = selected.rewindow_every(window as u64, hop as u64).unwrap();
        prop_assert_eq!(values(&again.collect().unwrap()), &from_first[..]);
        prop_assert_eq!(values(&own(&selected).collect().unwrap()), &expected[..]);
        let at = |share: f64| (share * end as f64) as i64;
        let middle = at((cut.0 + cut.1) / 2.0);
        let ranges = [middle..end, a.min(b)..middle, 0..a.min(b)].map(|range| range.start..range.end.max(range.start));
        let ordered = [0..middle, middle..end];
        for ranges in [ranges.to_vec(), ordered.to_vec()] {
            let plan = Plan::scan(made.stored().ranges(ranges)).rewindow_every(window as u64, hop as u64).unwrap();
            let plan = plan.map(&(isochrony_expr::Expr::input() + 3)).unwrap();
            let mut options = RunOptions::default();
            (options.workers, options.task) = (3, task);
            prop_assert_eq!(plan.collect_with(&options).unwrap().0, plan.collect().unwrap());
        }
        let mut options = RunOptions::default();
        (options.workers, options.task) = (3, task);
        let worked = windows.map(&(isochrony_expr::Expr::input() * 2)).unwrap();
        let many = worked.collect_with(&options).unwrap().0;
        prop_assert_eq!(many, worked.collect().unwrap());
        let chosen = again.stats([Stat::Min, Stat::Count]).unwrap();
        prop_assert_eq!(chosen.collect_with(&options).unwrap().0, chosen.collect().unwrap());
        let marked = scan.passthrough().unwrap().map(&(isochrony_expr::Expr::input() + 1)).unwrap();
        let marked = marked.rewindow_every(window as u64, hop as u64).unwrap();
        prop_assert_eq!(marked.collect_with(&options).unwrap().0, marked.collect().unwrap());
        for (name, params, tolerance) in around() {
            for scan in [&scan, &Plan::scan(made.stored().ranges(ordered.clone())), &selected] {
                let plan = scan.apply(Catalog::standard().get(name).unwrap(), params.as_object().unwrap().clone(), &[]);
                let plan = plan.unwrap();
                let mut options = RunOptions::default();
                (options.workers, options.task, options.tolerance) = (3, task, tolerance);
                let many = plan.collect_with(&options).unwrap().0;
                options.workers = 1;
                prop_assert_eq!(many, plan.collect_with(&options).unwrap().0, "{}", plan);
            }
        }
        // Also over gaps, clock steps, and ranges that go back.
        let backwards = [middle..end, 0..middle].map(|range| range.start..range.end.max(range.start));
        for scan in [&scan, &Plan::scan(made.stored().ranges(backwards)), &selected] {
            let s = isochrony_expr::Expr::input();
            let (name, params, _) = &around()[0];
            let params = params.as_object().unwrap().clone();
            let smooth = scan.apply(Catalog::standard().get(name).unwrap(), params, &[]).unwrap();
            let both = scan.map(&(&s * 2)).unwrap();
            let both = both.map_with(&(&s - isochrony_expr::Expr::input_at(1)), std::slice::from_ref(&smooth)).unwrap();
            let rows = both.rewindow_every(window as u64, hop as u64).unwrap().stats([Stat::Min]).unwrap();
            let plans = [smooth, rows, both];
            let mut options = RunOptions::default();
            let (one, _) = Plan::collect_all(&plans, &options).unwrap();
            (options.workers, options.task) = (3, task);
            let (many, report) = Plan::collect_all(&plans, &options).unwrap();
            prop_assert_eq!(many, one, "{}", plans[1]);
            prop_assert!(report.workers.len() == 3 || !report.stages.is_empty());
        }
        let samples: Vec<i16> = made.windows(&range, 1, 1, true);
        let progress = isochrony_flow::Progress::default();
        let mut options = RunOptions::default();
        options.progress = Some(&progress);
        let (gathered, _) = scan.collect_with(&options).unwrap();
        prop_assert_eq!(values(&gathered), &samples[..]);
        prop_assert_eq!((progress.done(), progress.total()), (samples.len() as u64, Some(samples.len() as u64)));
    }
}

#[test]
fn what_a_selection_leaves_out_is_told_by_resampling_on_several_workers_too() {
    let made = Made::new(&[(100, Discontinuity::Gap(5))]);
    let scan = Plan::scan(made.stored().ranges([0..25, 26..100]));
    let (name, params, _) = &around()[1];
    let params = params.as_object().unwrap().clone();
    let catalog = Catalog::standard();
    let plan = scan.apply(catalog.get(name).unwrap(), params, &[]).unwrap();
    let mut options = RunOptions::default();
    (options.workers, options.task) = (2, 10);
    let many = plan.collect_with(&options).unwrap().0;
    // The place 28 continues 24, but not what was read: it is left out.
    assert_eq!(many.array().unwrap().parts, [(0, 7), (8, 17)]);
    assert_eq!(many, plan.collect().unwrap());
    let text = plan.count().unwrap().explain();
    assert!(
        text.contains(
            "resample must know what it emitted before the samples that the selection leaves out"
        ),
        "{text}"
    );
}

#[test]
fn gaps_and_clock_steps_are_told_apart() {
    let made = Made::new(&[
        (10, Discontinuity::Gap(5)),
        (10, Discontinuity::Step),
        (10, Discontinuity::Gap(1)),
        (10, Discontinuity::Gap(1)),
    ]);
    let plan = made.plan(None, SEGMENT_SAMPLES).count().unwrap();
    let (count, report) = plan.collect_with(&RunOptions::default()).unwrap();
    assert_eq!(count, PlanOutput::Count(40));
    assert_eq!(report.operators[1].gaps, 2);
}

#[test]
fn what_was_appended_since_is_read_too() {
    let made = Made::new(&[(10, Discontinuity::Gap(5))]);
    let plan = made.plan(None, SEGMENT_SAMPLES).count().unwrap();
    assert_eq!(plan.collect().unwrap(), PlanOutput::Count(10));
    made.writer.append(&[1i16; 7]).unwrap();
    assert_eq!(plan.collect().unwrap(), PlanOutput::Count(17));
    made.store.commit(true).unwrap();
    made.store.close().unwrap();
    let error = plan.collect().unwrap_err().to_string();
    assert!(error.contains("closed"), "{error}");
}

#[test]
fn a_selection_by_time_is_read_in_the_order_of_time() {
    let made = Made::new(&[(30, Discontinuity::Step), (20, Discontinuity::Gap(3))]);
    let signal = made.signal();
    let span = Fixed::from_int(T0 - 7200 * SECOND)..Fixed::from_int(T0 + SECOND / 5);
    let selection = signal.select(span).unwrap();
    let plan = Plan::scan(StoredRecording::selection(made.store.path(), &selection));
    let second = &made.stretches[1].1;
    let expected = [&second[..], &made.stretches[0].1[..20]].concat();
    assert_eq!(values(&plan.collect().unwrap()), expected);
    let windows = plan.rewindow(15).unwrap();
    let expected = [&second[..15], &made.stretches[0].1[..15]].concat();
    assert_eq!(values(&windows.collect().unwrap()), expected);
}

#[test]
fn saved_plans_find_their_signal_again() {
    let made = Made::new(&[(40, Discontinuity::Gap(5)), (20, Discontinuity::Gap(5))]);
    let plan = made
        .plan(Some(3..50), 16)
        .rewindow(7)
        .unwrap()
        .count()
        .unwrap();
    let saved = plan.to_json().unwrap();
    let catalog = Catalog::standard();
    let again =
        Plan::from_json(&saved, &catalog, &|map| StoredRecording::resolve(map, None)).unwrap();
    assert_eq!(again, plan);
    assert_eq!(again.collect().unwrap(), plan.collect().unwrap());
    let here = Plan::from_json(&saved, &catalog, &|map| {
        StoredRecording::resolve(map, Some(&made.store))
    });
    assert_eq!(here.unwrap(), plan);
    let selected = made.stored().ranges([50..55, 0..10]);
    let plan = Plan::scan(selected);
    let saved = plan.to_json().unwrap();
    let again =
        Plan::from_json(&saved, &catalog, &|map| StoredRecording::resolve(map, None)).unwrap();
    assert_eq!(again, plan);
    assert_eq!(
        values(&again.collect().unwrap()),
        [&made.stretches[1].1[5..10], &made.stretches[0].1[..10]].concat()
    );
    let mut gone = saved;
    gone["nodes"][0]["of"]["signal"] = json!("stn/q");
    let error =
        Plan::from_json(&gone, &catalog, &|map| StoredRecording::resolve(map, None)).unwrap_err();
    assert_eq!(error.code(), "no_recording");
    for part in ["stn/q", "restore stn/q"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_range_outside_is_an_error_of_the_run() {
    let made = Made::new(&[(40, Discontinuity::Gap(5))]);
    let error = Plan::scan(made.stored().ranges(std::iter::once(30..100)))
        .collect()
        .unwrap_err();
    assert!(error.to_string().contains("100"), "{error}");
}

fn times(plan: &Plan) -> Vec<(i64, i64)> {
    let gathered = plan.collect().unwrap();
    let table = gathered.rows().unwrap();
    let starts = table
        .column_by_name("start")
        .unwrap()
        .as_primitive::<Int64Type>();
    let times = table
        .column_by_name("time")
        .unwrap()
        .as_primitive::<TimestampNanosecondType>();
    assert_eq!(times.timezone(), Some("UTC"));
    starts
        .values()
        .iter()
        .copied()
        .zip(times.values().iter().copied())
        .collect()
}

#[test]
fn rows_have_the_times_of_the_signal_as_it_is_when_the_plan_runs() {
    let made = Made::new(&[
        (1000, Discontinuity::Gap(50)),
        (700, Discontinuity::Step),
        (500, Discontinuity::Gap(3)),
        (100, Discontinuity::Step),
    ]);
    let rows = |plan: Plan| plan.rewindow(64).unwrap().stats([Stat::Mean]).unwrap();
    let plan = rows(made.plan(None, SEGMENT_SAMPLES));
    let expect = |plan: &Plan, count: usize| {
        let signal = made.signal();
        let got = times(plan);
        assert_eq!(got.len(), count);
        for (start, time) in got {
            let exact = signal.time_of(start).unwrap().value;
            assert_eq!(Some(time), exact.round_i64(), "{start}");
        }
    };
    expect(&plan, 15 + 10 + 7 + 1);
    // A later plan over the earlier signal must not decide this one's times.
    let stale = rows(made.plan(None, SEGMENT_SAMPLES));
    let back = Stamp::new(Fixed::from_int(T0 - 20 * 3600 * SECOND), Fixed::ZERO);
    made.writer.append_at(&[1i16; 200], &back).unwrap();
    made.store.commit(true).unwrap();
    expect(&plan, 15 + 10 + 7 + 1 + 3);
    expect(&stale, 15 + 10 + 7 + 1 + 3);
}

#[test]
fn another_clock_is_refused_by_name_and_difference() {
    let made = Made::new(&[(40, Discontinuity::Gap(5))]);
    let other = made
        .store
        .create(
            "faster",
            &CreateOptions::new(DType::I16, Rate::from_hz(200).unwrap()),
        )
        .unwrap();
    let other = other.signal().unwrap();
    let error = made.stored().with_clock_of(&other).unwrap_err();
    assert_eq!(error.code(), "other_clock");
    for part in ["faster", "its rate is", "align"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn every_strategy_gives_the_same_windows_and_the_report_names_it() {
    let made = Made::new(&[
        (90_000, Discontinuity::Gap(5_000)),
        (70_001, Discontinuity::Step),
        (1, Discontinuity::Gap(3)),
        (150_000, Discontinuity::Step),
    ]);
    let expected = made.windows(&(0..made.signal().end_index()), 1_000, 300, true);
    for strategy in isochrony_store::Strategy::ALL {
        for segment in [SEGMENT_SAMPLES, 777] {
            let stored = isochrony_flow::SharedRecording::new(made.stored().io(strategy));
            let plan = Plan::scan_part(stored, None, segment);
            assert!(
                plan.to_string().contains(&format!("io={strategy}")),
                "{plan}"
            );
            let windows = plan.rewindow_every(1_000, 300).unwrap();
            let (gathered, report) = windows.collect_with(&RunOptions::default()).unwrap();
            assert_eq!(values(&gathered), expected, "{strategy}");
            assert_eq!(report.reads.len(), 1);
            assert_eq!(report.reads[0].asked, strategy);
            assert!(report.to_string().contains(strategy.name()), "{report}");
            assert!(
                windows.explain().contains("reads\n  stn/p"),
                "{}",
                windows.explain()
            );
        }
    }
}

#[test]
fn a_saved_plan_keeps_its_strategy_and_an_unknown_one_is_refused() {
    let made = Made::new(&[(1_000, Discontinuity::Step)]);
    let plan = Plan::scan(made.stored().io(isochrony_store::Strategy::Populate));
    let mut saved = plan.to_json().unwrap();
    let catalog = Catalog::standard();
    let resolved = |saved: &serde_json::Value| {
        Plan::from_json(saved, &catalog, &|map| {
            StoredRecording::resolve(map, Some(&made.store))
        })
    };
    assert_eq!(resolved(&saved).unwrap().to_string(), plan.to_string());
    saved["nodes"][0]["of"]["io"] = json!("fread");
    let error = resolved(&saved).unwrap_err().to_string();
    assert!(
        error.contains("fread") && error.contains("populate"),
        "{error}"
    );
}
