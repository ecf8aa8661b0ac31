#![allow(clippy::single_range_in_vec_init)]

use std::ops::Range;

use isochrony_expr::Expr;
use isochrony_flow::{Catalog, Plan, PlanError, RunOptions, Segments, SharedRecording, json};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

type Ends = Result<(Plan, Plan), PlanError>;

fn stream(name: &str) -> StreamId {
    Stream::new(name, TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

fn value(seed: i64, index: i64) -> i16 {
    let mixed = (index + 77 * seed).wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64);
    (mixed >> 52) as i16
}

fn recording(seed: i64, stretches: &[Range<i64>], cut: i64) -> SharedRecording {
    let pieces = stretches.iter().flat_map(|range| {
        let starts = (range.start..range.end).step_by(cut as usize);
        starts.map(|start| {
            let indices = start..range.end.min(start + cut);
            let samples: Vec<i16> = indices.map(|index| value(seed, index)).collect();
            SigSeg::from_slice(&samples, start, stream("stn/p")).unwrap()
        })
    });
    SharedRecording::new(Segments::new(pieces.collect::<Vec<_>>()).unwrap())
}

fn scan(seed: i64, stretches: &[Range<i64>], cut: i64, segment: u64) -> Plan {
    Plan::scan_part(recording(seed, stretches, cut), None, segment)
}

fn floats(plan: &Plan, optimise: bool) -> Vec<f64> {
    let mut options = RunOptions::default();
    options.optimise = optimise;
    let (gathered, _) = plan.collect_with(&options).unwrap();
    gathered.array().unwrap().to_vec::<f64>().unwrap()
}

fn s(input: u8) -> Expr {
    Expr::input_at(input)
}

/// y[n] = x[n] + y[n - by] / 2.
fn echo(x: &Plan, by: u64, initial: f64) -> Result<Plan, PlanError> {
    x.feedback(by, json!(initial), DType::F64, |x, back| {
        let y = x.map_with(&(s(0) + s(1) * 0.5), std::slice::from_ref(back))?;
        Ok((y.clone(), y))
    })
}

fn two(len: i64, gap: i64, more: i64) -> [Range<i64>; 2] {
    [5..5 + len, 5 + len + gap..5 + len + gap + more]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_echo_is_that_of_a_plain_loop_and_begins_anew_after_a_gap(
        len in 1i64..300, gap in 1i64..50, more in 1i64..300, cut in 1i64..90, segment in 1u64..120, by in 1u64..70,
    ) {
        let stretches = two(len, gap, more);
        let mut expected = Vec::new();
        for range in &stretches {
            let mut y: Vec<f64> = Vec::new();
            for (n, index) in range.clone().enumerate() {
                let before = n.checked_sub(by as usize).map_or(3.0, |at| y[at]);
                y.push(f64::from(value(0, index)) + before * 0.5);
            }
            expected.extend(y);
        }
        let plan = echo(&scan(0, &stretches, cut, segment), by, 3.0).unwrap();
        prop_assert_eq!(floats(&plan, true), expected.clone());
        prop_assert_eq!(floats(&plan, false), expected);
    }

    #[test]
    fn a_gain_that_is_fed_back_is_that_of_a_plain_loop(
        len in 1i64..300, gap in 1i64..50, more in 1i64..300, cut in 1i64..90, segment in 1u64..120,
        window in 1i64..20, by in 1u64..4,
    ) {
        let stretches = two(len, gap, more);
        let mut expected = Vec::new();
        for range in &stretches {
            let mut gains = vec![1.0f64; by as usize];
            for (n, start) in (range.start..=range.end - window).step_by(window as usize).enumerate() {
                let samples = (start..start + window).map(|index| f64::from(value(0, index)) * gains[n]);
                let y: Vec<f64> = samples.collect();
                let loudest = y.iter().fold(0.0f64, |most, y| most.max(y.abs()));
                gains.push(1.0 / (1.0 + loudest));
                expected.extend(y);
            }
        }
        let windows = scan(0, &stretches, cut, segment).rewindow(window as u64).unwrap();
        let plan = windows.feedback(by, json!(1.0), DType::F64, |x, gain| {
            let y = x.map_with(&(s(0) * s(1)), std::slice::from_ref(gain))?;
            let next = y.map(&(1.0 / (s(0).abs().max() + 1.0)))?;
            Ok((y, next))
        }).unwrap();
        prop_assert_eq!(floats(&plan, true), expected.clone());
        prop_assert_eq!(floats(&plan, false), expected);
    }

    #[test]
    fn what_meets_and_what_is_remembered_of_it_does_not_depend_on_how_inputs_are_cut(
        len in 1i64..300, gap in 1i64..50, more in 1i64..300, hole in 1i64..300, window in 1i64..9,
        cuts in [1i64..90, 1i64..90], segments in [(1u64..40, 1u64..400), (1u64..40, 1u64..400)],
    ) {
        let a = two(len, gap, more);
        // The other has the first stretch in two, on the windows' grid; the second has its own grid.
        let cut = 5 + (hole % len) / window * window;
        let b = [5..cut.max(6), cut.max(6) + window..cut.max(6) + window + len, a[1].end + 900..a[1].end + 950];
        let b: Vec<_> = b.into_iter().filter(|range| !range.is_empty()).collect();
        let plan = |which: usize| {
            let (first, second) = segments[which];
            let x = scan(0, &a, cuts[which], first).rewindow(window as u64)?;
            let y = scan(1, &b, 1 + cuts[1 - which], second).rewindow(window as u64)?;
            let both = x.map_with(&(s(0) - s(1) * 2), &[y])?;
            both.filter(&s(0).max().ewm(0.25).gt(900))?.map(&s(0).sum().previous(0))
        };
        let [one, other] = [0, 1].map(|which| plan(which).unwrap().collect().unwrap());
        prop_assert_eq!(&one, &other);
    }
}

#[test]
fn several_inputs_meet_at_equal_indices_and_one_value_meets_a_window() {
    let ranges = [0..12];
    let x = scan(0, &ranges, 5, 4).rewindow(3).unwrap();
    let y = scan(1, &ranges, 12, 7).rewindow(3).unwrap();
    let means = y.map(&s(0).mean()).unwrap();
    let both = x
        .map_with(&(s(0) + s(1) - s(2)), &[y.clone(), means])
        .unwrap();
    let mut expected = Vec::new();
    for start in [0, 3, 6, 9] {
        let other: Vec<f64> = (start..start + 3).map(|i| f64::from(value(1, i))).collect();
        let mean = other.iter().sum::<f64>() / 3.0;
        // Sums of 16-bit integers are 16-bit integers, as in NumPy.
        let own = (start..start + 3).map(|i| f64::from(value(0, i) + value(1, i)) - mean);
        expected.extend(own);
    }
    assert_eq!(floats(&both, true), expected);
    let louder = x.filter_with(&s(0).max().gt(s(1).max()), &[y]).unwrap();
    let loudest = |seed: i64, start: i64| (start..start + 3).map(|i| value(seed, i)).max();
    let kept: Vec<i64> = [0, 3, 6, 9]
        .into_iter()
        .filter(|&start| loudest(0, start) > loudest(1, start))
        .collect();
    let gathered = louder.collect().unwrap();
    let starts: Vec<i64> = gathered
        .array()
        .unwrap()
        .parts
        .iter()
        .flat_map(|&(start, rows)| (0..rows as i64).map(move |row| start + 3 * row))
        .collect();
    assert_eq!(starts, kept);
}

#[test]
fn loops_within_loops_and_loops_behind_loops_come_round() {
    let ranges = [0..40];
    let x = scan(0, &ranges, 7, 9);
    // y[n] = (x[n] + z[n - 3] / 2) + y[n - 1] / 2, with z of the inner loop.
    let outer = x.feedback(3, json!(0.0), DType::F64, |x, back| {
        let fed = x.map_with(&(s(0) + s(1) * 0.5), std::slice::from_ref(back))?;
        let inner = echo(&fed, 1, 0.0)?;
        Ok((inner.clone(), inner))
    });
    let behind = echo(&outer.unwrap(), 2, 0.0).unwrap();
    let (mut z, mut last) = (Vec::new(), Vec::new());
    for n in 0..40usize {
        let of = |all: &[f64], by: usize| n.checked_sub(by).map_or(0.0, |at| all[at]);
        let inner = f64::from(value(0, n as i64)) + of(&z, 3) * 0.5 + of(&z, 1) * 0.5;
        z.push(inner);
        last.push(inner + of(&last, 2) * 0.5);
    }
    assert_eq!(floats(&behind, true), last);
}

#[test]
fn a_loop_that_another_source_feeds_waits_for_it_and_a_limit_behind_a_loop_stops_it() {
    let ranges = [0..900];
    let x = scan(0, &ranges, 900, 900);
    let other = scan(1, &ranges, 11, 10);
    let plan = x.feedback(4, json!(0.0), DType::F64, |x, back| {
        let y = x.map_with(&(s(0) + s(1) * 0.5 + s(2)), &[back.clone(), other])?;
        Ok((y.clone(), y))
    });
    let plan = plan.unwrap();
    let mut y: Vec<f64> = Vec::new();
    for n in 0..900usize {
        let back = n.checked_sub(4).map_or(0.0, |at| y[at]);
        let index = n as i64;
        y.push(f64::from(value(0, index)) + back * 0.5 + f64::from(value(1, index)));
    }
    assert_eq!(floats(&plan, true), y);
    let first = plan.limit(30).unwrap();
    assert_eq!(floats(&first, true), y[..30]);
    let report = first.run().unwrap();
    assert!(
        report
            .operators
            .iter()
            .any(|one| one.name == "scan" && one.samples < 900)
    );
}

#[test]
fn what_is_not_fed_back_ends_the_run_with_an_error_that_names_it() {
    let long = scan(0, &[0..1000], 100, 100);
    let short = scan(1, &[0..500], 100, 100);
    let plan = long.feedback(2, json!(0.0), DType::F64, |x, back| {
        let y = x.map_with(&(s(0) + s(1) + s(2)), &[back.clone(), short])?;
        Ok((y.clone(), y))
    });
    let error = plan.unwrap().run().unwrap_err();
    assert_eq!(error.code(), "loop_starved");
    let text = error.to_string();
    for part in ["delayed", "502 to 1000", "return one window"] {
        assert!(text.contains(part), "{text} lacks {part:?}");
    }
}

#[test]
fn loops_that_cannot_go_on_are_refused_before_they_run() {
    let windows = scan(0, &[0..100], 100, 100).rewindow(10).unwrap();
    let looped = |body: &dyn Fn(&Plan, &Plan) -> Ends| {
        windows
            .feedback(1, json!(0.0), DType::F64, body)
            .unwrap_err()
    };
    let filtered = looped(&|x, back| {
        let loud = x
            .filter(&s(0).max().gt(0))?
            .map_with(&(s(0).max() + s(1)), std::slice::from_ref(back))?;
        Ok((loud.clone(), loud))
    });
    assert_eq!(filtered.code(), "loop_may_stall");
    let in_the_loop = looped(&|_, back| {
        let passed = back.filter(&s(0).max().gt(0))?;
        Ok((passed.clone(), passed))
    });
    assert_eq!(in_the_loop.code(), "loop_may_stall");
    assert!(in_the_loop.to_string().contains("filter in its loop"));
    let wide = looped(&|x, _| Ok((x.clone(), x.map(&(s(0) * 1.0))?)));
    assert_eq!(wide.code(), "inputs_differ");
    assert!(
        wide.to_string().contains("as many values per window"),
        "{wide}"
    );
    let none = windows.feedback(1, json!([]), DType::F64, |x, _| Ok((x.clone(), x.clone())));
    assert_eq!(none.unwrap_err().code(), "parameter");
    let half = windows.feedback(1, json!(0.5), DType::I16, |x, _| Ok((x.clone(), x.clone())));
    let half = half.unwrap_err();
    assert!(
        half.to_string().contains("numbers that int16 has"),
        "{half}"
    );
    let rows = windows.stats([isochrony_flow::Stat::Max]).unwrap();
    let rows = rows.feedback(1, json!(0), DType::F64, |x, _| Ok((x.clone(), x.clone())));
    assert_eq!(rows.unwrap_err().code(), "input_type");
}

#[test]
fn what_is_fed_back_cannot_leave_its_loop() {
    let windows = scan(0, &[0..100], 100, 100).rewindow(10).unwrap();
    let mut leaked = None;
    let closed = windows.feedback(1, json!(0.0), DType::F64, |x, back| {
        leaked = Some(back.clone());
        let y = x.map_with(&(s(0).max() + s(1)), std::slice::from_ref(back))?;
        Ok((y.clone(), y))
    });
    let error = leaked.unwrap().run().unwrap_err();
    assert_eq!(error.code(), "loop_not_closed");
    assert!(error.to_string().contains("times instead of once"));
    assert!(closed.unwrap().run().is_ok());
}

#[test]
fn a_plan_with_loops_prints_compares_and_is_saved() {
    let live = || recording(0, &[0..100], 100);
    let plan = |gain: f64| {
        let x = Plan::scan_part(live(), None, isochrony_flow::SEGMENT_SAMPLES);
        x.feedback(2, json!(0.0), DType::F64, |x, back| {
            let y = x.map_with(&(s(0) + s(1) * gain), std::slice::from_ref(back))?;
            Ok((y.clone(), y))
        })
        .unwrap()
    };
    let text = "0: scan(stn/p)\n1: delayed(by=2) <- 0\n2: map(expression=s + s1 * 0.5) <- 0, 1\n3: feedback <- 2, 2, 1";
    assert_eq!(plan(0.5).to_string(), text);
    assert!(plan(0.5) != plan(0.25));
    let both = plan(0.5).merge(&[plan(0.25)]).unwrap();
    assert_eq!(both.to_string().matches("delayed").count(), 2, "{both}");
    let saved = json!({"isochrony_plan": 1, "output": [3, 0], "nodes": [
        {"op": "scan", "of": {}},
        {"op": "delayed", "params": {"by": 2}, "inputs": [[0, 0]]},
        {"op": "map", "params": {"expression": s(0) + s(1) * 0.5}, "inputs": [[0, 0], [1, 0]]},
        {"op": "feedback", "inputs": [[2, 0], [2, 0], [1, 0]]},
    ]});
    let read = Plan::from_json(&saved, &Catalog::standard(), &|_| Ok(live())).unwrap();
    assert_eq!(read.to_string(), text);
    assert_eq!(floats(&read, true), floats(&plan(0.5), true));
}
