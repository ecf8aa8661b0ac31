//! Streams that meet over ranges that go back: within what ascends, and nothing of it is lost.

#[allow(dead_code)]
#[path = "common/made.rs"]
mod made;

use std::ops::Range;

use isochrony_expr::Expr;
use isochrony_flow::{Plan, RunOptions};
use proptest::prelude::*;

use made::{Made, Then, history, values};

fn scan(made: &Made, ranges: &[Range<i64>]) -> Plan {
    Plan::scan(made.stored().ranges(ranges.to_vec()))
}

/// Plans in which a scan meets what was made of it.
fn met(scan: &Plan, window: u64) -> Vec<Plan> {
    let s = Expr::input();
    let windows = scan.rewindow(window).unwrap();
    let twice = windows.map(&(&s * 2)).unwrap();
    // What is removed on the way is missing in what meets.
    let some = windows.filter(&s.max().gt(150)).unwrap();
    let difference = scan.map(&(&s * 3)).unwrap();
    let difference = difference.map_with(&(&s - Expr::input_at(1)), std::slice::from_ref(scan));
    let zipped = twice.zip(std::slice::from_ref(&some)).unwrap();
    vec![
        zipped.output(0).unwrap(),
        zipped.output(1).unwrap(),
        windows.merge(&[some]).unwrap(),
        difference.unwrap().rewindow(window).unwrap(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_meets_over_ranges_that_go_back_is_that_of_each_that_ascends(
        history in history(), cuts in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0), 1..5),
        window in 1u64..20, task in 2u64..300,
    ) {
        let made = Made::new(&history);
        let end = made.signal().end_index();
        let at = |share: f64| (share * end as f64) as i64;
        let ranges: Vec<_> = cuts.iter().map(|&(a, b)| at(a.min(b))..at(a.max(b))).collect();
        // Ranges that ascend are one selection: what touches in them is read as one.
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
    let made = Made::new(&[(100, Then::Gap(5))]);
    let [first, second] = [[40..60, 10..30], [50..80, 0..20]].map(|ranges| scan(&made, &ranges));
    let zipped = first.zip(&[second]).unwrap();
    let samples = |range: Range<i64>| made.windows(&range, 1, 1, true);
    // 50 to 60 of the first parts, 10 to 20 of the second.
    let expected = [samples(50..60), samples(10..20)].concat();
    for output in [0, 1] {
        let plan = zipped.output(output).unwrap();
        assert_eq!(values(&plan.collect().unwrap()), expected);
    }
    // One that ascends meets the first part only, and in turn both go on.
    let (back, forth) = (scan(&made, &[40..60, 10..30]), Plan::scan(made.stored()));
    let zipped = back.zip(std::slice::from_ref(&forth)).unwrap();
    let one = zipped.output(0).unwrap().collect().unwrap();
    assert_eq!(values(&one), samples(40..60));
    let both = back.merge(&[forth]).unwrap().collect().unwrap();
    assert_eq!(values(&both).len(), 140);
}
