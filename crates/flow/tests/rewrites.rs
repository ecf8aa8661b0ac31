//! Random plans give the same bits as written, as rewritten, and however their input is cut.

// One stretch is a list of one range here.
#![allow(clippy::single_range_in_vec_init)]

use std::ops::Range;

use arrow_array::cast::AsArray;
use isochrony_expr::Expr;
use isochrony_flow::ops::TrimPeak;
use isochrony_flow::{Catalog, Gathered, Live, Plan, PlanError, RunOptions, Segments, Stat};
use isochrony_segment::{SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;
use serde_json::{Value, json};

fn stream() -> StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

/// Loud and quiet parts, so that filters keep some windows.
fn value(index: i64) -> i16 {
    let noise = (index.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64) >> 48) as i16;
    noise >> (4 + (index / 37).rem_euclid(4))
}

/// Gap-free stretches, cut into segments that lie apart in memory.
fn recording(stretches: &[Range<i64>], cut: i64) -> Live {
    let pieces = stretches.iter().flat_map(|range| {
        let starts = (range.start..range.end).step_by(cut as usize);
        starts.map(|start| {
            let end = range.end.min(start + cut);
            let samples: Vec<i16> = (start..end).map(value).collect();
            SigSeg::from_slice(&samples, start, stream()).unwrap()
        })
    });
    Live::new(Segments::new(pieces.collect::<Vec<_>>()).unwrap())
}

#[derive(Debug, Clone)]
enum Step {
    Pass,
    Map(usize),
    Filter(usize),
    Between(i64, i64),
    Windows(u64, u64),
    Power,
    Fft,
    Stats,
    TrimPeak,
    Limit(u64),
    /// Rows in groups, of which nothing depends on the order of additions.
    Groups(bool),
    /// An operator that needs what is around: its name and parameters.
    Around(usize),
    /// One that settles.
    Settling(usize),
    /// With what it was some steps ago.
    Zip(usize),
    Merge(usize),
}

fn maps(s: &Expr) -> Vec<Expr> {
    vec![
        s * 3,
        s.abs() + 1.5,
        s - s.mean(),
        s.max() - s.min(),
        (s * s).sum(),
        s / (s.std() + 1.0),
        s.abs().sqrt(),
        Expr::constant(7),
        s.gt(3),
    ]
}

fn filters(s: &Expr) -> Vec<Expr> {
    vec![
        s.std().gt(400),
        s.mean().lt(0.5),
        s.max().gt(900),
        s.abs().gt(1000).any(),
        s.std().ewm(0.5).gt(300),
    ]
}

/// Exact, given what is around.
fn around() -> Vec<(&'static str, Value)> {
    vec![
        (
            "fir",
            json!({"taps": [0.5, -1.0, 0.25], "method": "direct"}),
        ),
        (
            "fir",
            json!({"taps": [0.1, 0.3, 0.5, 1.0, 0.5, 0.3, 0.1], "method": "direct", "delay": "centred"}),
        ),
        (
            "resample",
            json!({"down": 10, "attenuation_db": 20.0, "passband": 0.3}),
        ),
        (
            "resample",
            json!({"up": 2, "down": 5, "attenuation_db": 20.0, "passband": 0.4, "edges": "steady"}),
        ),
        (
            "resample",
            json!({"up": 3, "down": 2, "attenuation_db": 20.0, "passband": 0.3, "edges": "zeros"}),
        ),
        (
            "stream_envelope",
            json!({"low_hz": 300.0, "attenuation_db": 30.0}),
        ),
        ("running_quantile", json!({"window": 0.008, "q": 0.4})),
        (
            "ca_cfar",
            json!({"pfa": 0.01, "training": 3, "guard": 1, "order": 0.7}),
        ),
    ]
}

/// Within what it declares, given what is before.
fn settling() -> Vec<(&'static str, Value)> {
    vec![
        (
            "iir",
            json!({"band": "lowpass", "cutoff_hz": 300.0, "order": 2}),
        ),
        (
            "iir",
            json!({"band": "bandpass", "cutoff_hz": [200.0, 700.0], "order": 1, "initial": "steady"}),
        ),
        ("notch", json!({"hz": 400.0, "q": 1.0})),
        (
            "fir",
            json!({"taps": [0.1, 0.3, 0.5, 1.0, 0.5, 0.3, 0.1], "method": "fft", "delay": "centred"}),
        ),
        ("running_mean", json!({"window": 0.006})),
        ("running_rms", json!({"window": 0.02})),
        ("stalta", json!({"sta": 0.002, "lta": 0.006})),
        ("ca_cfar", json!({"pfa": 0.01, "training": 3, "guard": 1})),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Pass),
        (0usize..9).prop_map(Step::Map),
        (0usize..9).prop_map(Step::Map),
        (0usize..5).prop_map(Step::Filter),
        (0usize..5).prop_map(Step::Filter),
        (-20i64..900, 0i64..700).prop_map(|(a, len)| Step::Between(a, a + len)),
        (1u64..40, 1u64..50).prop_map(|(window, hop)| Step::Windows(window, hop)),
        Just(Step::Power),
        Just(Step::Fft),
        Just(Step::Stats),
        Just(Step::TrimPeak),
        (0u64..60).prop_map(Step::Limit),
        any::<bool>().prop_map(Step::Groups),
        (0usize..8).prop_map(Step::Around),
        (0usize..8).prop_map(Step::Around),
        (0usize..8).prop_map(Step::Settling),
        (0usize..6).prop_map(Step::Zip),
        (0usize..6).prop_map(Step::Merge),
    ];
    prop::collection::vec(step, 1..10)
}

fn named(plan: &Plan, (name, params): &(&'static str, Value)) -> Result<Plan, PlanError> {
    let declaration = *Catalog::standard().get(name).unwrap();
    plan.apply(&declaration, params.as_object().unwrap().clone(), &[])
}

/// Rows of `stats` in groups.
fn groups(rows: &Plan, keyed: bool) -> Result<Plan, PlanError> {
    let keys: &[&str] = if keyed { &["max"] } else { &[] };
    let exact = [
        ("rows", json!("count")),
        ("least", json!(["mean", "min"])),
        ("first", json!(["start", "first"])),
        ("last", json!(["mean", "last"])),
        ("starts", json!(["start", "sum"])),
    ];
    rows.group_by(keys, exact)
}

#[test]
fn all_that_is_chosen_from_by_chance_fits_samples() {
    let scan = Plan::scan_part(recording(&[0..400], 400), None, 64);
    for one in around().iter().chain(&settling()) {
        named(&scan, one).unwrap_or_else(|error| panic!("{}: {error}", one.0));
    }
}

/// The plan of the steps that fit one another; those that do not are left out.
fn plan(scan: Plan, steps: &[Step]) -> Plan {
    let s = Expr::input();
    let mut been = vec![scan];
    for step in steps {
        let now = been.last().unwrap().clone();
        let earlier = |back: &usize| been[been.len().saturating_sub(1 + back)].clone();
        let next = match step {
            Step::Pass => now.passthrough(),
            Step::Map(k) => now.map(&maps(&s)[*k]),
            Step::Filter(k) => now.filter(&filters(&s)[*k]),
            Step::Between(a, b) => now.between(*a..*b),
            Step::Windows(window, hop) => now.rewindow_every(*window, *hop),
            Step::Power => now.power(),
            Step::Fft => now.fft(),
            Step::Stats => now.stats([Stat::Mean, Stat::Max]),
            Step::TrimPeak => now.then::<TrimPeak>(serde_json::Map::new()),
            Step::Limit(count) => now.limit(*count),
            Step::Groups(keyed) => groups(&now, *keyed),
            Step::Around(k) => named(&now, &around()[*k]),
            Step::Settling(k) => named(&now, &settling()[*k]),
            Step::Zip(back) => now.zip(&[earlier(back)]),
            Step::Merge(back) => now.merge(&[earlier(back)]),
        };
        been.extend(next);
    }
    been.pop().unwrap()
}

fn run(plan: &Plan, optimise: bool) -> Gathered {
    let mut options = RunOptions::default();
    options.optimise = optimise;
    plan.collect_with(&options).unwrap().0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rewritten_plans_give_the_same_bits(
        steps in steps(), counted: bool, gap in 0i64..60, len in 1i64..500, cut in 1i64..200, segment in 1u64..300,
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let plan = plan(Plan::scan_part(recording(&stretches, cut), None, segment), &steps);
        let plan = if counted { plan.count().unwrap() } else { plan };
        prop_assert_eq!(run(&plan, true), run(&plan, false), "{}", plan.explain());
    }

    #[test]
    fn any_chunking_gives_the_same_bits(
        steps in steps(), gap in 0i64..60, len in 1i64..500, cuts in (1i64..200, 1i64..800), segments in (1u64..300, 1u64..900),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let of = |cut, segment| {
            let plan = plan(Plan::scan_part(recording(&stretches, cut), None, segment), &steps);
            (run(&plan, true), plan)
        };
        let (one, plan) = of(cuts.0, segments.0);
        prop_assert_eq!(one, of(cuts.1, segments.1).0, "{}", plan);
    }

    #[test]
    fn any_number_of_workers_gives_the_same_bits(
        steps in steps(), gap in 0i64..60, len in 1i64..500, cut in 1i64..200, segment in 1u64..300, workers in 2usize..5,
        task in 2u64..600, range in prop::option::of((0i64..700, 0i64..900)),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let range = range.map(|(from, wanted)| from..from + wanted);
        let plan = plan(Plan::scan_part(recording(&stretches, cut), range, segment), &steps);
        let mut options = RunOptions::default();
        (options.workers, options.task) = (workers, task);
        let (many, _) = plan.collect_with(&options).unwrap();
        prop_assert_eq!(many, run(&plan, true), "{}", plan.explain());
    }

    #[test]
    fn what_needs_what_is_around_is_done_in_tasks_to_the_same_bits(
        first in (0usize..8, 0usize..9), steps in steps(), gap in 0i64..60, len in 1i64..500, cut in 1i64..200,
        segment in 1u64..300, workers in 2usize..5, task in 2u64..600, range in prop::option::of((0i64..700, 0i64..900)),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let range = range.map(|(from, wanted)| from..from + wanted);
        let scan = Plan::scan_part(recording(&stretches, cut), range, segment);
        let steps = [&[Step::Map(first.1), Step::Around(first.0)], &steps[..]].concat();
        let plan = plan(scan, &steps);
        let mut options = RunOptions::default();
        (options.workers, options.task) = (workers, task);
        let (many, _) = plan.collect_with(&options).unwrap();
        prop_assert_eq!(many, run(&plan, true), "{}", plan.explain());
    }

    /// Of steps that carry an error on without making it larger.
    #[test]
    fn what_settles_is_within_its_tolerance_and_the_same_bits_for_any_number_of_workers(
        first in 0usize..8, second in (any::<bool>(), 0usize..8), window in 1u64..30, hop in 1u64..40, gap in 0i64..60,
        len in 1i64..500, cut in 1i64..200, segment in 1u64..300, tasks in (2u64..600, 1usize..5),
        range in prop::option::of((0i64..700, 0i64..900)),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let range = range.map(|(from, wanted)| from..from + wanted);
        let scan = Plan::scan_part(recording(&stretches, cut), range, segment);
        // Powers, since ratios of sums that cancel are of no use.
        let plan = named(&scan.map(&(Expr::input().abs() + 1.5)).unwrap(), &settling()[first]).unwrap();
        let more = match second.0 {
            true => around()[second.1].clone(),
            false => settling()[second.1].clone(),
        };
        // Ratios of what is nearly nothing carry no error on as it is.
        let plan = match more.0 {
            "ca_cfar" | "stalta" => plan,
            _ => named(&plan, &more).unwrap(),
        };
        let plan = plan.rewindow_every(window, hop).unwrap().map(&(Expr::input() * 2)).unwrap();
        let mut options = RunOptions::default();
        (options.task, options.tolerance, options.workers) = (tasks.0, 1e-8, 1);
        let (one, report) = plan.collect_with(&options).unwrap();
        prop_assert!(report.workers.len() == 1, "{}", plan.explain());
        options.workers = tasks.1;
        prop_assert_eq!(&plan.collect_with(&options).unwrap().0, &one);
        let Gathered::Array(exact) = run(&plan, true) else { panic!("no array") };
        let Gathered::Array(one) = one else { panic!("no array") };
        prop_assert_eq!(&one.parts, &exact.parts);
        // Two of them, and samples of up to 2048.
        let most = 2.0 * 2048.0 * 1e-8;
        for (a, b) in one.to_vec::<f64>().unwrap().iter().zip(&exact.to_vec::<f64>().unwrap()) {
            prop_assert!((a - b).abs() < most, "{} {}: {}", a, b, plan.explain());
        }
    }

    #[test]
    fn partial_results_are_combined_to_the_same_bits_by_any_number_of_workers(
        keep in 0usize..5, window in 1u64..40, hop in 1u64..50, gap in 0i64..60, len in 1i64..500, cut in 1i64..200,
        tasks in (2u64..600, 1usize..5),
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let windows = Plan::scan_part(recording(&stretches, cut), None, 64).rewindow_every(window, hop).unwrap();
        let rows = windows.filter(&filters(&Expr::input())[keep % 4]).unwrap().stats([Stat::Mean, Stat::Max]).unwrap();
        let sums = ["sum", "mean", "std"].map(|how| (how, json!(["mean", how])));
        let keys: &[&str] = if keep == 4 { &["max"] } else { &[] };
        let plan = rows.group_by(keys, sums).unwrap();
        let mut options = RunOptions::default();
        (options.task, options.workers) = (tasks.0, 1);
        let (one, report) = plan.collect_with(&options).unwrap();
        prop_assert_eq!(report.workers.len(), 1);
        options.workers = tasks.1;
        prop_assert_eq!(&plan.collect_with(&options).unwrap().0, &one);
        // All of it at once, where nothing is combined.
        options.task = 1 << 20;
        let all = plan.collect_with(&options).unwrap().0;
        let (one, all) = (one.rows().unwrap(), all.rows().unwrap());
        prop_assert_eq!(one.num_rows(), all.num_rows());
        for name in ["sum", "mean", "std"] {
            let values = |table: &arrow_array::RecordBatch| {
                let column = table.column_by_name(name).unwrap();
                column.as_primitive::<arrow_array::types::Float64Type>().values().to_vec()
            };
            for (a, b) in values(one).iter().zip(values(all)) {
                // Rounding of some hundred means of up to 2048, and of their squares.
                prop_assert!((a - b).abs() < 1e-8, "{} {} {}", name, a, b);
            }
        }
    }

    #[test]
    fn a_range_of_windows_is_the_windows_of_a_range(
        window in 1u64..40, hop in 1u64..50, gap in 0i64..60, len in 1i64..500, from in 0i64..700, wanted in 0i64..600, cut in 1i64..200,
    ) {
        let stretches = [5..5 + len, 5 + len + gap..700 + len + gap];
        let range = from..from + wanted;
        let live = recording(&stretches, cut);
        let read = Plan::scan_part(live.clone(), Some(range.clone()), 64).rewindow_every(window, hop).unwrap();
        let between = Plan::scan_part(live, None, 64).rewindow_every(window, hop).unwrap().between(range).unwrap();
        let between = run(&between, false);
        prop_assert_eq!(run(&read, true), between);
    }
}
