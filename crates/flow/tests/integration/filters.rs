use std::sync::{Arc, Mutex};

use isochrony_dsp::filter::{Band, Family, Fir, FirMethod, Iir, Initial, SosFilter};
use isochrony_flow::operators;
use isochrony_flow::{Array, Item, Plan, PlanError, Segments, SharedRecording, json};
use isochrony_segment::{
    Calibration, Complex32, Complex64, DType, Sample, SigSeg, Stream, StreamId,
};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;
use serde_json::{Map, Value};

fn stream() -> Stream {
    Stream::new("stn/p", TimebaseId(0), Rate::new(1000, 1).unwrap())
}

fn scan<T: Sample>(stretches: &[(i64, Vec<T>)], cut: usize, stream: StreamId) -> Plan {
    let segments = stretches.iter().flat_map(|(start, samples)| {
        let pieces = samples.chunks(cut).enumerate();
        pieces.map(move |(k, piece)| {
            SigSeg::from_slice(piece, start + (k * cut) as i64, stream).unwrap()
        })
    });
    let recording = Segments::new(segments.collect::<Vec<_>>()).unwrap();
    Plan::scan_part(SharedRecording::new(recording), None, cut as u64)
}

fn params(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn array(plan: &Plan) -> Array {
    plan.collect().unwrap().array().unwrap().clone()
}

fn noise(count: usize) -> Vec<f64> {
    (0..count)
        .map(|n| ((n * n) as f64 * 0.37).sin() + 0.2)
        .collect()
}

fn alone(stretches: &[(i64, Vec<f64>)], initial: Initial) -> Vec<f64> {
    let iir = Iir {
        family: Family::Butterworth,
        band: Band::Bandpass(20.0, 90.0),
        order: 3,
    };
    let sections = iir.design("iir", 1000.0).unwrap();
    let mut results = Vec::new();
    for (_, samples) in stretches {
        let from = results.len();
        results.resize(from + samples.len(), 0.0);
        let mut filter = SosFilter::new(&sections, initial);
        filter.process(samples, &mut results[from..]).unwrap();
    }
    results
}

fn bandpass() -> Value {
    json!({"band": "bandpass", "cutoff_hz": [20.0, 90.0], "order": 3})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_cutting_equals_one_pass_and_every_stretch_begins_anew(
        lens in prop::collection::vec(1usize..200, 1..4), cut in 1usize..90, steady in any::<bool>(),
    ) {
        let mut start = -5;
        let mut stretches = Vec::new();
        for len in lens {
            stretches.push((start, noise(len)));
            start += len as i64 + 7;
        }
        let initial = if steady { Initial::Steady } else { Initial::Zero };
        let mut given = params(bandpass());
        given.insert("initial".into(), if steady { "steady" } else { "zero" }.into());
        let plan = scan(&stretches, cut, stream().intern()).then::<operators::Iir>(given).unwrap();
        let got = array(&plan).to_vec::<f64>().unwrap();
        prop_assert_eq!(got, alone(&stretches, initial));
    }
}

#[test]
fn values_are_filtered_in_their_unit_and_keep_it() {
    let stream = stream().with_calibration(Calibration::new(0.5, 3.0, "kPa").unwrap());
    let counts: Vec<i16> = (0..300).map(|n| (n * n % 71) as i16).collect();
    let calibrated: Vec<f64> = counts.iter().map(|&x| f64::from(x) * 0.5 + 3.0).collect();
    let plan = scan(&[(0, counts)], 33, stream.intern())
        .then::<operators::Iir>(params(bandpass()))
        .unwrap();
    let got = array(&plan);
    assert_eq!(got.dtype, DType::F64);
    assert_eq!(plan.port().stream().unwrap().calibration.unit(), "kPa");
    assert_eq!(
        got.to_vec::<f64>().unwrap(),
        alone(&[(0, calibrated)], Initial::Zero)
    );
}

#[test]
fn singles_stay_single_and_parts_of_complex_numbers_are_filtered_by_themselves() {
    let (re, im) = (noise(200), noise(400).split_off(200));
    let single: Vec<f32> = re.iter().map(|&x| x as f32).collect();
    let filtered = |values: Value| {
        let (plan, stream) = (values, stream().intern());
        match plan.as_str().unwrap() {
            "f32" => scan(&[(0, single.clone())], 64, stream),
            "c64" => {
                let pairs = single.iter().map(|&x| Complex32::new(x, -x)).collect();
                scan(&[(0, pairs)], 64, stream)
            }
            _ => {
                let pairs = re
                    .iter()
                    .zip(&im)
                    .map(|(&x, &y)| Complex64::new(x, y))
                    .collect();
                scan(&[(0, pairs)], 64, stream)
            }
        }
        .then::<operators::Iir>(params(bandpass()))
        .map(|plan| array(&plan))
        .unwrap()
    };
    let singles = filtered(json!("f32"));
    assert_eq!(singles.dtype, DType::F32);
    let singles = singles.to_vec::<f32>().unwrap();
    let pairs = filtered(json!("c64")).to_vec::<Complex32>().unwrap();
    assert!(
        pairs
            .iter()
            .zip(&singles)
            .all(|(z, x)| z.re == *x && z.im == -*x)
    );
    let (re, im) = (
        alone(&[(0, re.clone())], Initial::Zero),
        alone(&[(0, im.clone())], Initial::Zero),
    );
    let pairs = filtered(json!("c128")).to_vec::<Complex64>().unwrap();
    assert!(
        pairs
            .iter()
            .zip(re.iter().zip(&im))
            .all(|(z, (x, y))| z.re == *x && z.im == *y)
    );
}

#[test]
fn what_cannot_be_designed_is_refused_when_the_plan_is_built() {
    let scan = scan(&[(0, noise(10))], 10, stream().intern());
    let cases = [
        (
            json!({"band": "lowpass", "cutoff_hz": 500.0}),
            "cutoff_hz=500 Hz must be above 0 and below half the rate, 500 Hz",
        ),
        (
            json!({"band": "lowpass", "cutoff_hz": [1.0, 2.0]}),
            "cutoff_hz=[1.0,2.0] must be one frequency in Hz",
        ),
        (
            json!({"band": "bandpass", "cutoff_hz": 1.0}),
            "two frequencies in Hz for band=\"bandpass\"",
        ),
        (
            json!({"band": "lowpass", "cutoff_hz": 5.0, "order": 33}),
            "order=33 must be an integer from 1 to 32",
        ),
        (
            json!({"band": "lowpass", "cutoff_hz": 5.0, "kind": "cheby1"}),
            "iir with kind=\"cheby1\" needs ripple_db=; give it",
        ),
        (
            json!({"band": "lowpass", "cutoff_hz": 5.0, "ripple_db": 1.0}),
            "ripple_db=1 must be left out for kind=\"butter\"",
        ),
        (
            json!({"band": "lowpass", "cutoff_hz": 1e-12, "order": 8}),
            "pole on or outside the unit circle",
        ),
    ];
    for (given, part) in cases {
        let error = scan
            .then::<operators::Iir>(params(given))
            .expect_err(part)
            .to_string();
        assert!(error.contains(part), "{error:?} lacks {part:?}");
    }
    let error = scan
        .then::<operators::Notch>(params(json!({"hz": 600.0})))
        .err()
        .unwrap();
    assert!(matches!(error, PlanError::Dsp(_)), "{error}");
    assert_eq!(error.code(), "parameter");
    let cases = [
        (
            json!({}),
            "fir needs taps=, a list, or a number with band= and cutoff_hz=",
        ),
        (
            json!({"taps": 5}),
            "taps=5 must be a list, or a number with band=",
        ),
        (
            json!({"taps": [1.0], "band": "lowpass"}),
            "taps=[1.0] must be a number where band=",
        ),
        (
            json!({"taps": []}),
            "fir needs a list of 1 to 1048576 taps, got an empty one; give the taps",
        ),
        (
            json!({"taps": 5.5, "band": "lowpass", "cutoff_hz": 3.0}),
            "taps=5.5 must be a whole number",
        ),
        (
            json!({"taps": 5, "cutoff_hz": 3.0}),
            "fir with cutoff_hz= needs band=; give it",
        ),
        (
            json!({"taps": 5, "band": "lowpass"}),
            "fir with band=\"lowpass\" needs cutoff_hz=; give it",
        ),
        (
            json!({"taps": 6, "band": "highpass", "cutoff_hz": 3.0}),
            "taps=6 must be odd",
        ),
        (
            json!({"taps": 5, "band": "lowpass", "cutoff_hz": 3.0, "width_hz": 1.0}),
            "left out unless window=\"kaiser\"",
        ),
        (
            json!({"band": "lowpass", "cutoff_hz": 3.0, "window": "kaiser", "width_hz": 1.0}),
            "fir with window=\"kaiser\" needs attenuation_db=; give it",
        ),
        (
            json!({"band": "lowpass", "cutoff_hz": 3.0, "window": "kaiser", "attenuation_db": 50.0}),
            "fir with window=\"kaiser\" takes taps= or width_hz=; give one of them",
        ),
        (
            json!({"taps": 7, "edges_hz": [0.0, 10.0, 20.0], "gains": [1.0, 0.0]}),
            "must be two numbers for each of the 2 gains",
        ),
        (
            json!({"taps": 7, "edges_hz": [0.0, 10.0, 20.0, 500.0], "gains": [1.0, 0.0], "weights": 3.0}),
            "weights=3.0 must be 2 numbers",
        ),
        (
            json!({"taps": 7, "band": "lowpass", "cutoff_hz": 3.0, "gains": 1.0}),
            "edges_hz=null must be left out",
        ),
        (
            json!({"taps": [1.0, 2.0, 3.0], "delay": "centred"}),
            "3 taps, not symmetric must be an odd number",
        ),
        (
            json!({"taps": [1.0, 1.0], "delay": "centred"}),
            "2 taps must be an odd number",
        ),
    ];
    for (given, part) in cases {
        let error = scan
            .then::<operators::Fir>(params(given))
            .expect_err(part)
            .to_string();
        assert!(error.contains(part), "{error:?} lacks {part:?}");
    }
    let windows = scan.rewindow(5).unwrap();
    let error = windows
        .then::<operators::Notch>(params(json!({"hz": 50.0})))
        .err()
        .unwrap();
    assert_eq!(error.code(), "input_type");
}

fn taps(count: usize) -> Vec<f64> {
    let middle = (count / 2) as f64;
    (0..count)
        .map(|k| 1.0 / (1.0 + (k as f64 - middle).abs()))
        .collect()
}

fn placed(plan: &Plan) -> Vec<(i64, f64)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let shown = plan.each(move |item| {
        let Item::Samples(samples) = item else {
            return Err("no samples".into());
        };
        let mut values = vec![0.0f64; samples.len() as usize];
        samples.copy_to(&mut values)?;
        told.lock().unwrap().extend((samples.start()..).zip(values));
        Ok(())
    });
    shown.unwrap().collect().unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn taps_reach_no_farther_than_their_stretch_and_centred_results_have_their_samples_indices(
        lens in prop::collection::vec(1usize..700, 1..4), cut in 1usize..900, count in 0usize..90,
        centred in any::<bool>(), fft in any::<bool>(),
    ) {
        let taps = taps(2 * count + 1);
        let mut start = -5;
        let mut stretches = Vec::new();
        for len in lens {
            stretches.push((start, noise(len)));
            start += len as i64 + 7;
        }
        let method = if fft { FirMethod::Fft } else { FirMethod::Direct };
        let mut expected = Vec::new();
        for (start, samples) in &stretches {
            let mut filter = Fir::new("fir", &taps, method).unwrap();
            let mut padded = samples.clone();
            padded.resize(samples.len() + filter.latency(), 0.0);
            let mut results = vec![0.0; padded.len()];
            filter.process(&padded, &mut results).unwrap();
            let results = results.split_off(filter.latency());
            let (skip, lag) = if centred { (2 * count, count as i64) } else { (0, 0) };
            let kept = results.into_iter().enumerate().skip(skip);
            expected.extend(kept.map(|(k, y)| (start + k as i64 - lag, y)));
        }
        let given = json!({
            "taps": taps,
            "delay": if centred { "centred" } else { "causal" },
            "method": if fft { "fft" } else { "direct" },
        });
        let plan = scan(&stretches, cut, stream().intern()).then::<operators::Fir>(params(given)).unwrap();
        prop_assert_eq!(placed(&plan), expected);
    }
}

#[test]
fn zero_phase_is_the_same_however_it_is_cut_and_each_stretch_is_by_itself() {
    let design = json!({"band": "lowpass", "cutoff_hz": 40.0, "order": 3});
    let stretches = [
        (-5, noise(40_000)),
        (50_000, noise(5)),
        (60_000, noise(17_000)),
    ];
    let plan = |cut: usize| {
        let scanned = scan(&stretches, cut, stream().intern());
        scanned
            .then::<operators::ZeroPhase>(params(design.clone()))
            .unwrap()
    };
    let whole = placed(&plan(1 << 17));
    let indices = stretches
        .iter()
        .flat_map(|(start, samples)| *start..start + samples.len() as i64);
    assert!(whole.iter().map(|(at, _)| *at).eq(indices));
    for cut in [1000, 16_384, 20_011] {
        assert!(placed(&plan(cut)) == whole, "{cut}");
    }
    let last = scan(&stretches[2..], 1 << 17, stream().intern());
    let last = last
        .then::<operators::ZeroPhase>(params(design.clone()))
        .unwrap();
    assert!(placed(&last) == whole[40_005..]);
    let complex = stretches[2]
        .1
        .iter()
        .map(|&x| Complex64::new(x, -x))
        .collect();
    let complex = scan(&[(0, complex)], 1000, stream().intern());
    let complex = array(
        &complex
            .then::<operators::ZeroPhase>(params(design))
            .unwrap(),
    );
    let parts = complex.to_vec::<Complex64>().unwrap();
    let expected = whole[40_005..].iter();
    assert!(
        parts.len() == 17_000
            && parts
                .iter()
                .zip(expected)
                .all(|(z, (_, y))| z.re == *y && z.im == -*y)
    );
    let error = scan(&stretches, 100, stream().intern())
        .then::<operators::ZeroPhase>(params(
            json!({"band": "lowpass", "cutoff_hz": 0.0001, "order": 2}),
        ))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("settled after 8388608"), "{error}");
}
