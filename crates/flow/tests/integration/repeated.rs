use std::ops::Range;
use std::sync::{Arc, Mutex};

use isochrony_expr::Expr;
use isochrony_flow::{
    Catalog, Interrupt, Item, Plan, PlanOutput, RepeatedPlan, RunError, RunOptions, SEGMENT_SAMPLES,
};
use isochrony_segment::BufferMut;
use isochrony_time::TimebaseId;
use proptest::prelude::*;
use serde_json::json;

use crate::common::made::{Discontinuity, Made, around, history, values};

fn plans(scan: &Plan, window: u64, hop: u64) -> Vec<Plan> {
    let catalog = Catalog::standard();
    let apply = |plan: &Plan, name: &str, params: &serde_json::Value| {
        let params = params.as_object().unwrap().clone();
        plan.apply(catalog.get(name).unwrap(), params, &[]).unwrap()
    };
    let windows = scan.rewindow_every(window, hop).unwrap();
    let ranged = json!({"window": window, "hop": hop, "anchor": "range"});
    let fields = [("at", Expr::input().mean())];
    let mut plans = vec![
        windows.clone(),
        windows.fft().unwrap(),
        windows.map(&(Expr::input() * 2)).unwrap(),
        apply(scan, "rewindow", &ranged).power().unwrap(),
        scan.limit(7).unwrap(),
        windows.count().unwrap(),
        windows
            .rows(fields)
            .unwrap()
            .group_by(&[], [("mean", json!(["at", "mean"]))])
            .unwrap(),
        scan.map_with(
            &(Expr::input() + Expr::input_at(1)),
            std::slice::from_ref(scan),
        )
        .unwrap(),
    ];
    plans.extend(
        around()
            .iter()
            .map(|(name, params, _)| apply(scan, name, params)),
    );
    plans
}

fn bytes(gathered: &PlanOutput) -> &[u8] {
    &gathered.array().unwrap().bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_repeated_plan_gives_of_each_range_what_a_new_one_gives(
        history in history(), cuts in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0), 1..5),
        window in 1u64..30, hop in 1u64..40, fills in any::<[bool; 5]>(),
    ) {
        let made = Made::new(&history);
        let signal = made.signal();
        let (end, timebase) = (signal.end_index(), signal.timebase());
        let options = RunOptions::default();
        let ranges: Vec<Range<i64>> = cuts
            .iter()
            .map(|(a, b)| ((a * end as f64) as i64, (b * end as f64) as i64))
            .map(|(a, b)| a.min(b)..a.max(b))
            .collect();
        let repeated = plans(&made.plan(None, SEGMENT_SAMPLES), window, hop);
        let mut repeated: Vec<RepeatedPlan> = repeated.iter().map(RepeatedPlan::new).collect();
        for (range, fills) in ranges.iter().zip(fills) {
            let anew = plans(&made.plan(Some(range.clone()), SEGMENT_SAMPLES), window, hop);
            for (repeated, anew) in repeated.iter_mut().zip(&anew) {
                let stated = [(TimebaseId(timebase.0 ^ 1), 0..1), (timebase, range.clone())];
                let expected = anew.collect().unwrap();
                match &expected {
                    PlanOutput::Array(array) if fills && !array.bytes.is_empty() => {
                        let block = BufferMut::zeroed(array.bytes.len()).unwrap().freeze();
                        let (block, count) = repeated.fill(&stated, block, &options).unwrap();
                        prop_assert_eq!((block.bytes(), count), (&array.bytes[..], block.len() as u64));
                    }
                    _ => prop_assert_eq!(repeated.collect(&stated, &options).unwrap().0, expected),
                }
            }
            let windows = made.windows(range, window as i64, hop as i64, false);
            let stated = [(timebase, range.clone())];
            prop_assert_eq!(values(&repeated[0].collect(&stated, &options).unwrap().0), windows);
        }
        let windows = made.windows(&(0..end), window as i64, hop as i64, true);
        prop_assert_eq!(values(&repeated[0].collect(&[], &options).unwrap().0), windows);
    }
}

#[test]
fn a_run_that_failed_leaves_nothing_for_the_next() {
    let made = Made::new(&[(500, Discontinuity::Gap(3)), (200, Discontinuity::Step)]);
    let timebase = made.signal().timebase();
    let plan = made.plan(None, SEGMENT_SAMPLES).rewindow(10).unwrap();
    let mut repeated = RepeatedPlan::new(&plan);
    let mut options = RunOptions::default();
    let first = repeated.collect(&[(timebase, 0..100)], &options).unwrap().0;
    let stop = Interrupt::default();
    stop.request();
    options.interrupt = Some(&stop);
    let ended = repeated.collect(&[(timebase, 0..100)], &options);
    assert!(
        matches!(ended, Err(RunError::Interrupted { .. })),
        "{ended:?}"
    );
    let again = repeated.collect(&[(timebase, 0..100)], &RunOptions::default());
    assert_eq!(bytes(&again.unwrap().0), bytes(&first));
}

#[test]
fn what_does_not_fit_is_counted_and_left_out_and_a_table_fills_nothing() {
    let made = Made::new(&[(500, Discontinuity::Step)]);
    let timebase = made.signal().timebase();
    let (scan, options) = (made.plan(None, SEGMENT_SAMPLES), RunOptions::default());
    let mut repeated = RepeatedPlan::new(&scan);
    let block = BufferMut::zeroed(20).unwrap().freeze();
    let (block, count) = (repeated.fill(&[(timebase, 40..140)], block, &options)).unwrap();
    let expected: Vec<u8> = made.stretches[0].1[40..50]
        .iter()
        .flat_map(|sample| sample.to_ne_bytes())
        .collect();
    assert_eq!((block.bytes(), count), (&expected[..], 200));
    let (block, count) = (repeated.fill(&[(timebase, 490..900)], block, &options)).unwrap();
    assert_eq!(count, 20);
    assert_ne!(block.bytes(), expected);
    let mut table = RepeatedPlan::new(
        &scan
            .rewindow(5)
            .unwrap()
            .rows([("x", Expr::input().max())])
            .unwrap(),
    );
    let error = table.fill(&[], block, &options).unwrap_err().to_string();
    assert!(error.contains("samples or windows"), "{error}");
}

#[test]
fn what_somebody_keeps_of_one_range_counts_to_the_memory_of_no_other() {
    let made = Made::new(&[(100_000, Discontinuity::Step)]);
    let timebase = made.signal().timebase();
    let kept: Arc<Mutex<Vec<Item>>> = Arc::default();
    let keep = Arc::clone(&kept);
    // New windows, so that the memory is the run's, not the recording's.
    let windows = made.plan(None, SEGMENT_SAMPLES).rewindow(100).unwrap();
    let doubled = windows.map(&(Expr::input() * 2)).unwrap();
    let plan = doubled
        .each(move |item| {
            keep.lock().unwrap().push(item.clone());
            Ok(())
        })
        .unwrap()
        .count()
        .unwrap();
    let mut options = RunOptions::default();
    options.memory = 128 << 10;
    let mut repeated = RepeatedPlan::new(&plan);
    for from in (0..100_000).step_by(5_000) {
        let counted = repeated.collect(&[(timebase, from..from + 5_000)], &options);
        assert_eq!(counted.unwrap().0.count(), Some(50));
    }
    let samples: i64 = (kept.lock().unwrap().iter())
        .filter_map(Item::extent)
        .map(|(start, end)| end - start)
        .sum();
    assert!(
        2 * samples.cast_unsigned() > options.memory,
        "{samples} samples are kept"
    );
}
