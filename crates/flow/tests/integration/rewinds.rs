//! Fan-ins over ranges that rewind match streams within each ascending part and lose nothing.

#[allow(dead_code)]
use std::ops::Range;

use isochrony_expr::Expr;
use isochrony_flow::{Plan, RunOptions, SharedRecording};
use isochrony_segment::DType;
use proptest::prelude::*;
use serde_json::json;

use crate::common::made::{Discontinuity, Made, history, values};

fn scan(made: &Made, ranges: &[Range<i64>]) -> Plan {
    Plan::scan(made.stored().ranges(ranges.to_vec()))
}

fn named(plan: &Plan, name: &str, params: &serde_json::Value) -> Plan {
    let declaration = *isochrony_flow::Catalog::standard().get(name).unwrap();
    let params = params.as_object().unwrap().clone();
    plan.apply(&declaration, params, &[]).unwrap()
}

fn met(scan: &Plan, window: u64) -> Vec<Plan> {
    let s = Expr::input();
    let windows = scan.rewindow(window).unwrap();
    let twice = windows.map(&(&s * 2).wrapping()).unwrap();
    let some = windows.filter(&s.max().gt(150)).unwrap();
    let difference = scan.map(&(&s * 3).wrapping()).unwrap();
    let difference = difference.map_with(
        &(&s - Expr::input_at(1)).wrapping(),
        std::slice::from_ref(scan),
    );
    let zipped = twice.zip(std::slice::from_ref(&some)).unwrap();
    let centred = json!({"taps": [1.0, 2.0, 1.0], "method": "direct", "delay": "centred"});
    let smooth = named(scan, "fir", &centred);
    let rest = [scan.clone(), smooth.clone()].map(|plan| plan.map(&s.astype(DType::I16)).unwrap());
    let [plain, smooth] = rest;
    let kept = named(scan, "rewindow", &json!({"window": window, "tail": "keep"}));
    let highest = kept.map(&s.max()).unwrap();
    let lowest = kept.map(&s.min()).unwrap();
    let on = windows.filter(&s.max().gt(150)).unwrap();
    let on = named(
        &on,
        "ranges",
        &json!({"join": 2 * window, "before": 3, "after": 2}),
    );
    let looped = smooth.feedback(3, json!(1), DType::I16, |plan, back| {
        let less = (&s - Expr::input_at(1) / 2).astype(DType::I16);
        let less = plan.map_with(&less, std::slice::from_ref(back))?;
        Ok((less.clone(), less))
    });
    vec![
        smooth
            .zip(std::slice::from_ref(&plain))
            .unwrap()
            .output(0)
            .unwrap(),
        plain.merge(std::slice::from_ref(&smooth)).unwrap(),
        highest.zip(&[lowest]).unwrap().output(0).unwrap(),
        scan.sync(&[on]).unwrap().output(0).unwrap(),
        looped.unwrap(),
        zipped.output(0).unwrap(),
        zipped.output(1).unwrap(),
        windows.merge(&[some]).unwrap(),
        difference.unwrap().rewindow(window).unwrap(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_meets_over_ranges_that_go_back_is_that_of_each_that_ascends(
        history in history(), cuts in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0), 1..5),
        window in 1u64..20, task in 2u64..300,
    ) {
        let made = Made::new(&history);
        let end = made.signal().end_index();
        let at = |share: f64| (share * end as f64) as i64;
        let ranges: Vec<_> = cuts.iter().map(|&(a, b)| at(a.min(b))..at(a.max(b))).collect();
        // Adjacent ascending ranges are read as one.
        let mut parts: Vec<Vec<Range<i64>>> = Vec::new();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            match parts.last_mut() {
                Some(part) if part.last().is_some_and(|last| last.end <= range.start) => {
                    part.push(range.clone());
                }
                _ => parts.push(vec![range.clone()]),
            }
        }
        let all = met(&scan(&made, &ranges), window);
        let each: Vec<_> = parts.iter().map(|part| met(&scan(&made, part), window)).collect();
        let many = [1, 3].map(|workers| {
            let mut options = RunOptions::default();
            (options.workers, options.task) = (workers, task);
            Plan::collect_all(&all, &options).unwrap().0
        });
        for nth in 0..all.len() {
            let one = |plan: &Plan| values(&plan.collect().unwrap());
            let expected: Vec<i16> = each.iter().flat_map(|plans| one(&plans[nth])).collect();
            for many in &many {
                prop_assert_eq!(values(&many[nth]), &expected[..], "plan {}, {:?}", nth, ranges);
            }
        }
    }
}

#[test]
fn two_scans_that_go_back_meet_part_by_part() {
    let made = Made::new(&[(100, Discontinuity::Gap(5))]);
    let [first, second] = [[40..60, 10..30], [50..80, 0..20]].map(|ranges| scan(&made, &ranges));
    let zipped = first.zip(&[second]).unwrap();
    let samples = |range: Range<i64>| made.windows(&range, 1, 1, true);
    let expected = [samples(50..60), samples(10..20)].concat();
    for output in [0, 1] {
        let plan = zipped.output(output).unwrap();
        assert_eq!(values(&plan.collect().unwrap()), expected);
    }
    // An ascending stream meets the first part only; in turn both continue.
    let (back, forth) = (scan(&made, &[40..60, 10..30]), Plan::scan(made.stored()));
    let zipped = back.zip(std::slice::from_ref(&forth)).unwrap();
    let one = zipped.output(0).unwrap().collect().unwrap();
    assert_eq!(values(&one), samples(40..60));
    let both = back.merge(&[forth]).unwrap().collect().unwrap();
    assert_eq!(values(&both).len(), 140);
}

#[test]
fn two_scans_that_go_back_are_read_part_by_part_together() {
    let made = Made::new(&[(500_000, Discontinuity::Gap(5))]);
    let [first, second] = [
        [350_000..450_000, 0..300_000],
        [300_000..490_000, 0..300_000],
    ]
    .map(|ranges| {
        Plan::scan_part(
            SharedRecording::new(made.stored().ranges(ranges.to_vec())),
            None,
            1000,
        )
    });
    let zipped = first.zip(&[second]).unwrap().output(0).unwrap();
    let mut options = RunOptions::default();
    options.memory = 400_000;
    let (one, _) = zipped.collect_with(&options).unwrap();
    assert_eq!(values(&one).len(), 400_000);
}
