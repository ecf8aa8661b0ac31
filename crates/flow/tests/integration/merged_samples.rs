#![allow(clippy::single_range_in_vec_init)]

use std::ops::Range;
use std::slice;

use isochrony_expr::Expr;
use isochrony_flow::{Catalog, Plan, PlanError, RunOptions, Stat, json};

use crate::common::channels::channel;

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
