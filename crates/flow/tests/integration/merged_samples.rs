#![allow(clippy::single_range_in_vec_init)]

use std::ops::Range;
use std::slice;

use isochrony_expr::Expr;
use isochrony_flow::arrow::array::cast::AsArray;
use isochrony_flow::arrow::array::types::Int64Type;
use isochrony_flow::{Catalog, Plan, PlanError, RunOptions, Stat, json};
use proptest::prelude::*;

use crate::common::channels::channel;
use crate::common::noise;
use crate::common::plans::around;

fn scan(nth: i64, kept: Range<i64>) -> Plan {
    Plan::scan_part(channel(nth, &[kept], 1_000), None, 64)
}

fn named(plan: &Plan, name: &str, params: serde_json::Value) -> Result<Plan, PlanError> {
    let declaration = *Catalog::standard().get(name).unwrap();
    plan.apply(&declaration, params.as_object().unwrap().clone(), &[])
}

#[test]
fn windows_of_samples_that_come_twice_are_refused_with_a_mend() {
    let merged = scan(0, 0..100)
        .merge(&[scan(1, 200..300), scan(2, 250..400)])
        .unwrap();
    let error = merged.rewindow(10).unwrap_err();
    assert_eq!(error.code(), "indices_repeat");
    assert_eq!(
        error.to_string(),
        "rewindow needs contiguous samples, but follows a merge whose inputs 1 and 2 may both have samples with indices 250 to \
         299; put rewindow before the merge, on each of its inputs, or merge ranges that do not overlap"
    );
    let later = merged
        .map(&(Expr::input() * 2).wrapping())
        .unwrap()
        .limit(50)
        .unwrap();
    let later = scan(0, 1_000..1_100).merge(&[later]).unwrap();
    assert_eq!(later.rewindow(10).unwrap_err(), error);
    let windows = [scan(0, 0..100), scan(1, 200..300), scan(2, 250..400)]
        .map(|one| one.rewindow(10).unwrap());
    let all = windows[0].merge(&windows[1..]).unwrap().count().unwrap();
    assert_eq!(all.collect().unwrap().count(), Some(35));
}

#[test]
fn whatever_needs_stretches_is_refused_and_what_takes_each_sample_by_itself_is_not() {
    let merged = scan(0, 0..100).merge(&[scan(1, 0..100)]).unwrap();
    for (name, params) in [
        ("fir", json!({"taps": [0.5, 0.5]})),
        (
            "iir",
            json!({"band": "lowpass", "cutoff_hz": 300.0, "order": 2}),
        ),
        ("resample", json!({"down": 10, "attenuation_db": 20.0})),
        ("running_mean", json!({"window": 0.006})),
        ("triggers", json!({"on": 5.0})),
    ] {
        let error = named(&merged, name, params).unwrap_err();
        assert_eq!(error.code(), "indices_repeat", "{name}: {error}");
        assert!(error.to_string().starts_with(name), "{error}");
    }
    let other = scan(2, 0..100);
    let s = Expr::input() + Expr::input_at(1);
    for met in [
        other.zip(slice::from_ref(&merged)),
        merged.map_with(&s, &[other]),
    ] {
        assert_eq!(met.unwrap_err().code(), "indices_repeat");
    }
    let each = merged
        .map(&(Expr::input() * 2))
        .unwrap()
        .limit(120)
        .unwrap();
    assert_eq!(each.count().unwrap().collect().unwrap().count(), Some(120));
}

#[test]
fn ranges_that_have_nothing_in_common_may_be_merged_and_cut() {
    let all = scan(0, 0..1_000);
    let [first, second] = [0..300, 400..1_000].map(|part| all.between(part).unwrap());
    let merged = second
        .merge(&[first])
        .unwrap()
        .rewindow(50)
        .unwrap()
        .count()
        .unwrap();
    for workers in [1, 3] {
        let mut options = RunOptions::default();
        (options.workers, options.task) = (workers, 200);
        let (count, _) = merged.collect_with(&options).unwrap();
        assert_eq!(count.count(), Some(18));
    }
    let parts = [0..300, 300..1_000]
        .map(|part| Plan::scan_part(channel(0, &[0..1_000], 100), Some(part), 64));
    let merged = parts[0].merge(&parts[1..]).unwrap().rewindow(50).unwrap();
    assert_eq!(merged.count().unwrap().collect().unwrap().count(), Some(20));
}

#[test]
fn what_meets_by_index_is_where_all_of_it_is_in_whatever_order_it_is_named() {
    let (all, part) = (scan(0, 0..1_000), scan(1, 0..500));
    let sum = (Expr::input() + Expr::input_at(1)).wrapping();
    let rest = scan(2, 500..1_000);
    for (one, other) in [(&all, &part), (&part, &all)] {
        let both = one.map_with(&sum, slice::from_ref(other)).unwrap();
        let merged = both.merge(slice::from_ref(&rest)).unwrap();
        let windows = merged.rewindow(50).unwrap().count().unwrap();
        assert_eq!(windows.collect().unwrap().count(), Some(20));
        let common = scan(2, 499..1_000);
        let merged = both.merge(slice::from_ref(&common)).unwrap();
        assert_eq!(merged.rewindow(50).unwrap_err().code(), "indices_repeat");
    }
}

#[test]
fn statistics_of_samples_that_alternate_have_the_same_bits_in_tasks() {
    let tenth = |nth, kept| scan(nth, kept).map(&(Expr::input() * 0.1)).unwrap();
    let merged = tenth(0, 0..9_000).merge(&[tenth(1, 500..9_000)]).unwrap();
    let plan = merged.stats([Stat::Mean, Stat::Std, Stat::Count]).unwrap();
    let one = plan.collect().unwrap();
    for (workers, task) in [(2, 4_000), (3, 700)] {
        let mut options = RunOptions::default();
        (options.workers, options.task) = (workers, task);
        let (many, report) = plan.collect_with(&options).unwrap();
        assert_eq!(many, one, "{workers} workers, tasks of {task} bytes");
        assert!(!report.tasks.is_empty());
    }
}

/// Where the second begins the range is the first one's, so that tasks announce no break.
#[test]
fn windows_do_not_reach_from_one_merged_range_into_the_next_in_tasks() {
    let part = |range: Range<i64>| {
        let source = scan(0, 0..1_000).map(&(Expr::input() * 2).wrapping());
        let params = json!({"start": range.start, "end": range.end});
        named(&source.unwrap(), "between", params).unwrap()
    };
    for second in [165, 166, 266] {
        for (window, hop) in [(1, 3), (3, 3), (4, 4), (5, 2)] {
            let merged = part(109..165).merge(&[part(second..300)]).unwrap();
            let windows = merged.rewindow_every(window, hop).unwrap();
            let mut starts: Vec<i64> = Vec::new();
            let stretches = match second {
                165 => vec![109..300],
                _ => vec![109..165, second..300],
            };
            for stretch in stretches {
                let last = stretch.end - window as i64;
                starts.extend((stretch.start..=last).step_by(hop as usize));
            }
            let rows = windows.stats([Stat::Min]).unwrap();
            for workers in [1, 2, 3] {
                let mut options = RunOptions::default();
                (options.workers, options.task) = (workers, 64);
                let found = rows.collect_with(&options).unwrap().0;
                let found = found.rows().unwrap().column_by_name("start").unwrap();
                let found = found.as_primitive::<Int64Type>().values().to_vec();
                assert_eq!(
                    found, starts,
                    "{second}, {window}, {hop}, {workers} workers"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Which of them has samples first, and whether a `limit` ends it.
    #[test]
    fn windows_of_merged_ranges_begin_at_the_same_samples_with_any_number_of_workers(
        ranges in (0i64..400, 0i64..200, 0i64..60, 0i64..100, any::<bool>()),
        (window, hop, limit) in (1u64..4, 1u64..7, prop::option::of(1u64..6)),
        (gap, len, cut, segment) in (0i64..60, 1i64..500, 1i64..200, 1u64..300),
        (sources, wide, swapped) in (1usize..4, prop::option::of(0..around().len()), any::<bool>()),
        (task, workers, seed) in (2u64..600, 2usize..5, prop::option::of(1u64..100)),
    ) {
        let (first, own, behind, other, is_before) = ranges;
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let recording = noise::recording(&stretches, cut);
        let scan = Plan::scan_part(recording.clone(), None, segment);
        let second = match sources {
            1 => scan.clone(),
            2 => Plan::scan_part(recording, None, segment),
            // It begins later.
            _ => Plan::scan_part(noise::recording(&stretches[1..], cut), None, segment),
        };
        let a = first..first + own;
        let b = match is_before {
            true => (first - behind - other).max(0)..(first - behind).max(0),
            false => a.end + behind..a.end + behind + other,
        };
        let part = |source: &Plan, range: Range<i64>| {
            let params = json!({"start": range.start, "end": range.end});
            let source = source.map(&(Expr::input() * 2).wrapping()).unwrap();
            let wide = wide.map(|nth| around()[nth].clone());
            let source = match wide.map(|(name, params)| named(&source, name, params)) {
                Some(Ok(wide)) => wide,
                _ => source,
            };
            named(&source, "between", params).unwrap()
        };
        let (a, b) = (part(&scan, a), part(&second, b));
        let merged = match swapped {
            false => a.merge(&[b]).unwrap(),
            true => b.merge(&[a]).unwrap(),
        };
        // Refused where indices of both may be the same ones.
        let Ok(plan) = merged.rewindow_every(window, hop) else {
            return Ok(());
        };
        let plan = match limit {
            Some(limit) => plan.limit(limit).unwrap(),
            None => plan,
        };
        let mut options = RunOptions::default();
        let one = plan.collect_with(&options).unwrap().0;
        (options.workers, options.task) = (workers, task);
        options.stages.shuffle = seed;
        options.stages.helpers_after_us = 0;
        let (many, _) = plan.collect_with(&options).unwrap();
        prop_assert_eq!(many, one, "{}", plan.explain());
    }
}
