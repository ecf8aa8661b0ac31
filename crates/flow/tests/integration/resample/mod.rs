mod envelope;
mod made;
mod refusals;
mod times;

use std::sync::{Arc, Mutex};

use isochrony_dsp::resample::{Edges, Quality, Ratio, Resampler};
use isochrony_expr::Expr;
use isochrony_flow::{
    Array, Item, Plan, PlanError, PortType, Segments, SharedFactory, SharedRecording, json,
    operators,
};
use isochrony_segment::{Calibration, Complex32, Complex64, SigSeg, Stream};
use isochrony_time::Rate;
use proptest::prelude::*;
use serde_json::{Map, Value};

use made::{array, noise, quick, resample, scan, stream};

fn alone(stretches: &[(i64, Vec<f64>)], (up, down): (u64, u64), edges: Edges) -> Vec<(i64, f64)> {
    let quality = Quality {
        attenuation_db: 50.0,
        passband: 0.5,
    };
    let mut kernel =
        Resampler::new("resample", Ratio::new(up, down).unwrap(), quality, edges).unwrap();
    let mut all = Vec::new();
    for (start, samples) in stretches {
        let first = kernel.begin(*start).unwrap();
        let mut results = vec![0.0; kernel.ready(samples.len())];
        kernel.process(samples, &mut results).unwrap();
        let mut rest = vec![0.0; kernel.ready_at_end()];
        kernel.finish(&mut rest).unwrap();
        all.extend((first..).zip(results.into_iter().chain(rest)));
    }
    all
}

fn placed(array: &Array) -> Vec<(i64, f64)> {
    let values = array.to_vec::<f64>().unwrap();
    let indices = array
        .parts
        .iter()
        .flat_map(|&(start, len)| start..start + len as i64);
    indices.zip(values).collect()
}

const EDGES: [(&str, Edges); 3] = [
    ("inside", Edges::Inside),
    ("zeros", Edges::Zeros),
    ("steady", Edges::Steady),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_cutting_equals_one_pass_and_every_stretch_is_by_itself(
        lens in prop::collection::vec(1usize..400, 1..5), cut in 1usize..300, up in 1u64..8, down in 1u64..8,
        edges in 0..EDGES.len(), start in -300i64..300, gap in 1i64..30,
    ) {
        let mut at = start;
        let mut stretches = Vec::new();
        for len in lens {
            stretches.push((at, noise(len)));
            at += len as i64 + gap;
        }
        let (word, edges) = EDGES[edges];
        let plan = resample(&scan(&stretches, cut, stream().intern()), quick(up, down, word)).unwrap();
        let got = placed(&array(&plan));
        let want = alone(&stretches, (up, down), edges);
        let bits = |all: &[(i64, f64)]| all.iter().map(|(at, y)| (*at, y.to_bits())).collect::<Vec<_>>();
        prop_assert_eq!(bits(&got), bits(&want));
    }

    #[test]
    fn a_part_of_a_recording_gives_the_samples_that_all_of_it_gives(from in 0i64..1500, len in 1i64..1500) {
        let stretches = [(-250, noise(2000)), (1800, noise(1000))];
        let recording = |range| {
            let segments = stretches.iter().map(|(start, samples)| {
                SigSeg::from_slice(samples, *start, stream().intern()).unwrap()
            });
            let recording = Segments::new(segments.collect::<Vec<_>>()).unwrap();
            let plan = Plan::scan_part(SharedRecording::new(recording), range, 512);
            placed(&array(&resample(&plan, quick(3, 7, "inside")).unwrap()))
        };
        let (all, some) = (recording(None), recording(Some(from..from + len)));
        prop_assert!(some.iter().all(|one| all.contains(one)));
        // Values with their whole reach in the range: less than 64 samples to each side.
        let within = |j: i64| (from + 64..from + len - 64).contains(&(j * 7 / 3));
        prop_assert!(all.iter().filter(|(j, _)| within(*j)).all(|one| some.contains(one)));
    }
}

#[test]
fn types_units_and_rates_are_those_of_what_comes_out() {
    let made = |dtype_plan: Plan, value: Value| resample(&dtype_plan, value).unwrap().port();
    let counts = stream()
        .with_calibration(Calibration::new(0.5, 1.0, "kPa").unwrap())
        .intern();
    let port = made(
        scan(&[(0, vec![1i16; 9])], 9, counts),
        json!({"rate_hz": 100.5}),
    );
    assert_eq!(
        port.to_string(),
        "samples[float64] of stn/p at 100.5 Hz in kPa"
    );
    assert_eq!(port.rate().unwrap(), Rate::new(201, 2).unwrap());
    let port = made(
        scan(&[(0, vec![1.0f32; 9])], 9, stream().intern()),
        json!({"up": 2, "down": 3}),
    );
    assert_eq!(port.to_string(), "samples[float32] of stn/p at 2000/3 Hz");
    let plan = resample(
        &scan(&[(0, vec![4i16; 400])], 9, counts),
        quick(1, 2, "steady"),
    )
    .unwrap();
    assert!(
        array(&plan)
            .to_vec::<f64>()
            .unwrap()
            .iter()
            .all(|y| (y - 3.0).abs() < 1e-14)
    );
    let one = resample(
        &scan(&[(3, noise(5))], 2, stream().intern()),
        json!({"rate_hz": 1000.0}),
    )
    .unwrap();
    assert_eq!(
        placed(&array(&one)),
        (3..).zip(noise(5)).collect::<Vec<_>>()
    );
}

#[test]
fn both_parts_of_complex_samples_are_resampled() {
    let (re, im) = (noise(500), noise(900).split_off(400));
    let pairs = re.iter().zip(&im);
    let both: Vec<Complex64> = pairs
        .clone()
        .map(|(&re, &im)| Complex64 { re, im })
        .collect();
    let plan = resample(
        &scan(&[(7, both)], 77, stream().intern()),
        quick(3, 2, "zeros"),
    )
    .unwrap();
    let got = array(&plan).to_vec::<Complex64>().unwrap();
    let parts = [
        alone(&[(7, re)], (3, 2), Edges::Zeros),
        alone(&[(7, im)], (3, 2), Edges::Zeros),
    ];
    assert_eq!(got.len(), parts[0].len());
    for (got, (re, im)) in got.iter().zip(parts[0].iter().zip(&parts[1])) {
        assert_eq!((got.re, got.im), (re.1, im.1));
    }
    let single = vec![Complex32 { re: 1.0, im: -1.0 }; 200];
    let plan = resample(
        &scan(&[(0, single)], 50, stream().intern()),
        quick(1, 3, "steady"),
    )
    .unwrap();
    let got = array(&plan).to_vec::<Complex32>().unwrap();
    assert!(
        got.iter()
            .all(|y| (y.re - 1.0).abs() < 1e-6 && (y.im + 1.0).abs() < 1e-6)
    );
}

#[test]
fn windows_behind_are_counted_from_the_first_place_of_their_stretch() {
    // Places of a fifth of the rate: 0, 5 ...; the second stretch begins at 1003, so its first is 1005.
    let stretches = [(2, noise(600)), (1003, noise(600))];
    let plan = resample(
        &scan(&stretches, 100, stream().intern()),
        quick(1, 5, "inside"),
    )
    .unwrap();
    let rows = plan
        .rewindow(20)
        .unwrap()
        .rows([])
        .unwrap()
        .collect()
        .unwrap();
    let starts = rows.rows().unwrap().column(0);
    let starts: &arrow_array::Int64Array = starts.as_any().downcast_ref().unwrap();
    for &start in starts.values() {
        let anchor = if start < 201 { 1 } else { 201 };
        assert_eq!((start - anchor) % 20, 0, "{starts:?}");
    }
    assert!(starts.len() > 6);
    let gaps = plan
        .count()
        .unwrap()
        .run()
        .unwrap()
        .operators
        .last()
        .unwrap()
        .gaps;
    assert_eq!(gaps, 1);
}

fn told(plan: &Plan) -> Vec<String> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let held = plan
        .apply_factory(SharedFactory::new(Listens(kept)), &[])
        .unwrap();
    held.run().unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

struct Listens(Arc<Mutex<Vec<String>>>);

struct BreakListener(Arc<Mutex<Vec<String>>>);

impl isochrony_flow::OperatorFactory for Listens {
    fn name(&self) -> &'static str {
        "listens"
    }

    fn make(
        &self,
        _: Option<&SharedRecording>,
    ) -> Result<Box<dyn isochrony_flow::Operator>, PlanError> {
        Ok(Box::new(BreakListener(self.0.clone())))
    }
}

impl isochrony_flow::Operator for BreakListener {
    fn bind(
        &mut self,
        inputs: &[PortType],
    ) -> Result<isochrony_flow::OperatorProperties, PlanError> {
        Ok(isochrony_flow::OperatorProperties::new(
            inputs.iter().copied(),
        ))
    }

    fn process(
        &mut self,
        _: u16,
        _: &mut Item,
        _: &mut isochrony_flow::Out<'_>,
    ) -> Result<isochrony_flow::Next, isochrony_flow::OpError> {
        Ok(isochrony_flow::Next::Forward)
    }

    fn on_break(
        &mut self,
        _: u16,
        why: &isochrony_flow::Break,
        out: &mut isochrony_flow::Out<'_>,
    ) -> Result<(), isochrony_flow::OpError> {
        self.0
            .lock()
            .unwrap()
            .push(format!("{why:?} before {}", out.anchor()));
        Ok(())
    }
}

#[test]
fn breaks_are_told_in_the_indices_of_what_comes_out() {
    let stretches = [(2, noise(100)), (110, noise(90)), (203, noise(50))];
    let plan = resample(
        &scan(&stretches, 40, stream().intern()),
        quick(1, 10, "steady"),
    )
    .unwrap();
    // No place of a tenth lies in 102 to 110. 200 to 203: that of 200.
    assert_eq!(
        told(&plan),
        ["Gap(11..11) before 1", "Gap(20..21) before 11"]
    );
    let up = resample(
        &plan,
        json!({"up": 10, "edges": "steady", "attenuation_db": 50.0}),
    )
    .unwrap();
    assert_eq!(
        told(&up),
        ["Gap(110..110) before 10", "Gap(200..210) before 110"]
    );
}

#[test]
fn what_was_removed_is_missing_behind_also_where_no_place_lay_in_it() {
    let plan = scan(&[(0, noise(300))], 300, stream().intern());
    let first = plan.between(0..101).unwrap();
    let rest = plan.between(104..300).unwrap();
    let both = first
        .apply(
            &<operators::Merge as isochrony_flow::OperatorType>::DECLARATION,
            Map::new(),
            &[rest],
        )
        .unwrap();
    let plan = resample(&both, quick(1, 10, "zeros")).unwrap();
    let got = placed(&array(&plan));
    let indices: Vec<i64> = got.iter().map(|(at, _)| *at).collect();
    // Places 0 to 100 and 110 to 290; that of 110 is left out, so a later filter restarts.
    assert_eq!(indices, (0..=10).chain(12..30).collect::<Vec<_>>());
    assert_eq!(told(&plan), ["Removed before 12"]);
}

#[test]
fn streams_of_one_timebase_meet_if_they_were_resampled_alike_and_not_otherwise() {
    let one = scan(&[(0, noise(900))], 100, stream().intern());
    let other = Stream {
        name: "stn/q".into(),
        ..stream()
    };
    let other = scan(&[(0, noise(700))], 64, other.intern());
    let (a, b) = (
        resample(&one, quick(2, 3, "inside")).unwrap(),
        resample(&other, quick(4, 6, "inside")).unwrap(),
    );
    let difference = Expr::input_at(0) - Expr::input_at(1);
    let got = array(&a.map_with(&difference, std::slice::from_ref(&b)).unwrap());
    assert_eq!(got.shape[0], array(&b).shape[0]);
    assert!(got.to_vec::<f64>().unwrap().iter().all(|y| *y == 0.0));
    for wrong in [
        one.clone(),
        resample(&other, quick(1, 3, "inside")).unwrap(),
    ] {
        let error = a.map_with(&difference, &[wrong]).unwrap_err();
        assert_eq!(error.code(), "inputs_differ", "{error}");
    }
    let back = resample(&a, quick(3, 2, "inside")).unwrap();
    let error = one
        .map_with(&difference, &[back])
        .unwrap()
        .collect()
        .unwrap();
    assert!(error.array().unwrap().shape[0] > 700);
}
