//! Detectors and running statistics equal one kernel call per gap-free stretch, for any cuts.

use isochrony_dsp::detect::{CellCfar, ClassicStaLta, Noise, NoiseCfar, RecursiveStaLta, Sides};
use isochrony_dsp::running::{RunningMean, RunningQuantile, RunningRms};
use isochrony_expr::Expr;
use isochrony_flow::arrow::array::cast::AsArray;
use isochrony_flow::arrow::array::types::Int64Type;
use isochrony_flow::{Array, Plan, PlanError, PlanOutput, RunOptions, Segments, json};
use isochrony_segment::{Calibration, DType, Sample, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;
use serde_json::{Map, Value};

fn stream() -> Stream {
    Stream::new("stn/p", TimebaseId(0), Rate::new(100, 1).unwrap())
}

fn params(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(params) => params,
        _ => Map::new(),
    }
}

fn step(plan: &Plan, name: &str, given: Value) -> Result<Plan, PlanError> {
    let catalog = isochrony_flow::Catalog::standard();
    plan.apply(catalog.get(name)?, params(given), &[])
}

fn recording<T: Sample>(stretches: &[Vec<T>], cut: usize, stream: StreamId) -> Plan {
    let mut at = 0;
    let mut segments = Vec::new();
    for stretch in stretches {
        let mut start = at;
        for part in stretch.chunks(cut) {
            segments.push(SigSeg::from_slice(part, start, stream).unwrap());
            start += part.len() as i64;
        }
        at = start + 7;
    }
    Plan::scan(Segments::new(segments).unwrap())
}

fn array(plan: &Plan) -> Array {
    plan.collect().unwrap().array().unwrap().clone()
}

fn at_once(
    stretches: &[Vec<f64>],
    skip: usize,
    mut kernel: impl FnMut(&[f64], &mut [f64]),
) -> Vec<u64> {
    let mut all = Vec::new();
    for stretch in stretches {
        let mut results = vec![0.0; stretch.len()];
        kernel(stretch, &mut results);
        all.extend(results.iter().skip(skip).map(|result| result.to_bits()));
    }
    all
}

prop_compose! {
    fn stretches()(parts in prop::collection::vec(prop::collection::vec(-1e3f64..1e3, 1..150), 1..4)) -> Vec<Vec<f64>> {
        parts
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_stretch_is_one_call_of_the_kernel(stretches in stretches(), cut in 1usize..60) {
        let scan = recording(&stretches, cut, stream().intern());
        let both = Sides::Both;
        let cases: Vec<(&str, Value, Vec<u64>)> = vec![
            ("stalta", json!({"sta": 0.05, "lta": 0.2}),
                at_once(&stretches, 0, |v, r| ClassicStaLta::new(5, 20).unwrap().run(v, r))),
            ("stalta", json!({"sta": 0.05, "lta": 0.2, "method": "recursive"}),
                at_once(&stretches, 0, |v, r| RecursiveStaLta::new(5, 20).unwrap().run(v, r))),
            ("running_mean", json!({"window": 0.13}),
                at_once(&stretches, 0, |v, r| RunningMean::new(13).unwrap().run(v, r))),
            ("running_rms", json!({"window": 0.13}),
                at_once(&stretches, 0, |v, r| RunningRms::new(13).unwrap().run(v, r))),
            ("running_quantile", json!({"window": 0.13, "q": 0.4}),
                at_once(&stretches, 0, |v, r| RunningQuantile::new(13, 0.4).unwrap().run(v, r))),
            ("cfar", json!({"deviations": 2.0, "memory": 10, "timeout": 5}),
                at_once(&stretches, 0, |v, r| NoiseCfar::new(2.0, 10, 5).unwrap().run(v, r))),
            ("ca_cfar", json!({"pfa": 0.01, "training": 4, "guard": 1}),
                at_once(&stretches, 10, |v, r| CellCfar::new(0.01, 4, 1, both, Noise::Mean { degrees: 2 }).unwrap().run(v, r))),
            ("ca_cfar", json!({"pfa": 0.01, "training": 4, "guard": 1, "sides": "before", "order": 0.75}),
                at_once(&stretches, 5, |v, r| CellCfar::new(0.01, 4, 1, Sides::Before, Noise::Rank { at: 0.75 }).unwrap().run(v, r))),
        ];
        for (name, given, want) in cases {
            let got = array(&step(&scan, name, given.clone()).unwrap()).to_vec::<f64>().unwrap();
            let got: Vec<u64> = got.iter().map(|value| value.to_bits()).collect();
            prop_assert_eq!(got, want, "{} {}", name, given);
        }
    }

    #[test]
    fn windows_of_one_number_are_a_stream_of_numbers(stretches in stretches(), cut in 1usize..60, hop in 1u64..9) {
        let scan = recording(&stretches, cut, stream().intern());
        let peaks = scan.rewindow_every(8, hop).unwrap().map(&Expr::input().max()).unwrap();
        let of_windows: Vec<Vec<f64>> = stretches.iter().map(|stretch| {
            let windows = stretch.windows(8).step_by(hop as usize);
            windows.map(|window| window.iter().copied().fold(f64::MIN, f64::max)).collect()
        }).collect();
        let seconds = 5.0 * hop as f64 / 100.0;
        let got = array(&step(&peaks, "running_quantile", json!({"window": seconds, "q": 0.5})).unwrap());
        let want = at_once(&of_windows, 0, |v, r| RunningQuantile::new(5, 0.5).unwrap().run(v, r));
        prop_assert_eq!(got.to_vec::<f64>().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>(), want);
        let levels = step(&peaks, "ca_cfar", json!({"pfa": 0.1, "training": 2, "guard": 1})).unwrap();
        let want = at_once(&of_windows, 6, |v, r| {
            CellCfar::new(0.1, 2, 1, Sides::Both, Noise::Mean { degrees: 2 }).unwrap().run(v, r);
        });
        let rows = levels.rows([("level", Expr::input().max())]).unwrap().collect().unwrap();
        let column = rows.rows().unwrap().column_by_name("start").unwrap();
        let starts = column.as_primitive::<Int64Type>().values().to_vec();
        prop_assert_eq!(starts.len(), want.len());
        let mut first = 0;
        let mut expected = Vec::new();
        for (stretch, windows) in stretches.iter().zip(&of_windows) {
            // The first and last three windows lack cells.
            expected.extend((3..windows.len().saturating_sub(3)).map(|k| first + (k as u64 * hop) as i64));
            first += stretch.len() as i64 + 7;
        }
        prop_assert_eq!(starts, expected);
    }
}

fn ranges(plan: &Plan) -> Vec<std::ops::Range<i64>> {
    match plan.collect().unwrap() {
        PlanOutput::Ranges(ranges) => ranges,
        other => panic!("{other:?}"),
    }
}

#[test]
fn triggers_end_with_their_stretch_and_merge_within_it() {
    let stretches = [
        vec![0i16, 5, 4, 0, 0, 4, 5, 0, 0, 5, 3, 3],
        vec![3, 3, 5, 0, 0, 0],
    ];
    for cut in [1, 3, 100] {
        let scan = recording(&stretches, cut, stream().intern());
        let found = |given| ranges(&step(&scan, "triggers", given).unwrap());
        assert_eq!(found(json!({"on": 5})), [1..2, 6..7, 9..10, 21..22]);
        let both = json!({"on": 5, "off": 3});
        assert_eq!(found(both), [1..3, 6..7, 9..12, 21..22]);
        // 0.03 s are three samples; the gap is not bridged however near.
        let merged = json!({"on": 5, "off": 3, "merge": 0.03, "min_length": 0.02});
        assert_eq!(found(merged), vec![1..12]);
        let peaks = scan.rewindow(3).unwrap().map(&Expr::input().max()).unwrap();
        let of_windows = step(&peaks, "triggers", json!({"on": 5})).unwrap();
        assert_eq!(ranges(&of_windows), [0..3, 6..12, 19..22]);
        let kept = peaks.filter(&Expr::input().min().ge(5)).unwrap();
        let of_kept = step(&kept, "triggers", json!({"on": 0, "merge": 1.0})).unwrap();
        assert_eq!(ranges(&of_kept), [0..3, 6..12, 19..22]);
    }
}

#[test]
fn triggers_control_what_is_taken_out_of_other_streams() {
    let values: Vec<f32> = (0..3000)
        .map(|k| {
            if (2000..2050).contains(&k) {
                9.0
            } else {
                (k % 2) as f32
            }
        })
        .collect();
    let scan = recording(&[values], 700, stream().intern());
    let ratios = step(&scan, "stalta", json!({"sta": 0.1, "lta": 5.0})).unwrap();
    let onsets = step(&ratios, "triggers", json!({"on": 3.5, "off": 1.0})).unwrap();
    let found = ranges(&onsets);
    assert_eq!(found.len(), 1);
    assert!(
        (2000..2003).contains(&found[0].start) && (2050..2300).contains(&found[0].end),
        "{found:?}"
    );
    let taken = array(&scan.sync(&[onsets]).unwrap())
        .to_vec::<f32>()
        .unwrap();
    assert_eq!(taken.len() as i64, found[0].end - found[0].start);
    assert_eq!(taken[10], 9.0);
}

#[test]
fn precision_and_units_follow_the_samples() {
    let singles: Vec<f32> = (0..50).map(|k| k as f32).collect();
    let counts: Vec<i16> = (0..50).collect();
    let calibration = Calibration::new(0.5, 1.0, "kPa").unwrap();
    let kilopascals = stream().with_calibration(calibration).intern();
    let mean = |plan: &Plan| step(plan, "running_mean", json!({"window": 0.02})).unwrap();
    let single = mean(&recording(&[singles], 20, stream().intern()));
    assert_eq!(
        array(&single).to_vec::<f32>().unwrap()[..3],
        [0.0, 0.5, 1.5]
    );
    let double = mean(&recording(&[counts], 20, kilopascals));
    assert_eq!(
        array(&double).to_vec::<f64>().unwrap()[..3],
        [1.0, 1.25, 1.75]
    );
    let unit = |plan: &Plan| plan.port().stream().unwrap().calibration.unit().to_owned();
    assert_eq!(unit(&double), "kPa");
    let ratio = step(&double, "stalta", json!({"sta": 0.02, "lta": 0.04})).unwrap();
    assert_eq!(
        (unit(&ratio).as_str(), ratio.port().dtype()),
        ("", Some(DType::F64))
    );
}

#[test]
fn what_does_not_fit_is_refused_when_the_plan_is_made() {
    let scan = recording(&[vec![1.0f64; 50]], 20, stream().intern());
    let complex = recording(
        &[vec![isochrony_segment::Complex64::default(); 5]],
        20,
        stream().intern(),
    );
    let windows = scan.rewindow(4).unwrap();
    let cases: Vec<(&Plan, &str, Value, &[&str])> = vec![
        (
            &scan,
            "stalta",
            json!({"sta": 0.5, "lta": 0.5}),
            &[
                "lta=0.5 s (50 samples)",
                "longer than sta=0.5 s (50 samples)",
            ],
        ),
        (
            &scan,
            "stalta",
            json!({"sta": 0.001, "lta": 0.5}),
            &["sta=0.001 s", "from 0.005 s (half a sample)"],
        ),
        (
            &scan,
            "stalta",
            json!({"sta": 1, "lta": 1e8}),
            &["lta=100000000 s", "268435456"],
        ),
        (
            &scan,
            "running_quantile",
            json!({"window": 1, "q": 2}),
            &["q=2", "from 0 to 1"],
        ),
        (
            &scan,
            "running_rms",
            json!({"window": 0}),
            &["window=0 must be", "above 0 and at most 1e9 s"],
        ),
        (
            &scan,
            "triggers",
            json!({"on": 1, "off": 2}),
            &["off=2", "at most on=1"],
        ),
        (
            &scan,
            "cfar",
            json!({}),
            &["cfar needs pfa= or deviations=; give one of them"],
        ),
        (
            &scan,
            "cfar",
            json!({"pfa": 0.01, "deviations": 3}),
            &["cfar takes pfa= or deviations=, and both were given; leave one of them out"],
        ),
        (&scan, "cfar", json!({"pfa": 0.5}), &["pfa=0.5"]),
        (
            &scan,
            "ca_cfar",
            json!({"pfa": 0.01, "order": 0.5, "degrees": 1}),
            &["degrees=1", "2 where order"],
        ),
        (
            &scan,
            "ca_cfar",
            json!({"pfa": 0.01, "order": 0}),
            &["order=0"],
        ),
        (
            &complex,
            "cfar",
            json!({"pfa": 0.01}),
            &["real samples", "magnitude"],
        ),
        (
            &windows,
            "running_mean",
            json!({"window": 1}),
            &["running_mean", "one number each", "frames"],
        ),
    ];
    for (plan, name, given, parts) in cases {
        let error = step(plan, name, given).unwrap_err();
        let message = error.to_string();
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}

/// A shock's remaining energy outweighs noise for hundreds of long times: no warm-up would be long enough.
#[test]
fn ratios_that_never_forget_are_not_begun_anew_on_several_workers() {
    let noise = |k: usize| ((k * 7919) % 13) as f64 - 6.0;
    let samples: Vec<f64> = (0..4000)
        .map(|k| if k == 30 { 8e6 } else { 1e-3 * noise(k) })
        .collect();
    let scan = recording(&[samples], 4000, stream().intern());
    let given = json!({"sta": 0.02, "lta": 0.1, "method": "recursive"});
    let ratios = step(&scan, "stalta", given).unwrap();
    let mut options = RunOptions::default();
    (options.workers, options.task, options.tolerance) = (2, 410, 1e-9);
    let (many, _) = ratios.collect_with(&options).unwrap();
    assert_eq!(many, ratios.collect().unwrap());
}
