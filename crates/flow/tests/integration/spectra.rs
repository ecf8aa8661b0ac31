use isochrony_flow::{Array, Catalog, Plan, PlanError, Segments, json};
use isochrony_segment::{
    Calibration, Complex32, Complex64, DType, Sample, SigSeg, Stream, StreamId,
};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;
use std::f64::consts::PI;

const RATE: f64 = 2000.0;

fn stream() -> Stream {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap())
}

fn scan<T: Sample>(samples: &[T], cut: usize, stream: StreamId) -> Plan {
    let (a, b) = samples.split_at(cut.min(samples.len()));
    let parts = [(a, 0), (b, a.len())]
        .into_iter()
        .filter(|(part, _)| !part.is_empty());
    let parts = parts.map(|(part, at)| SigSeg::from_slice(part, at as i64, stream).unwrap());
    Plan::scan(Segments::new(parts).unwrap())
}

fn array(plan: &Plan) -> Array {
    plan.collect().unwrap().array().unwrap().clone()
}

/// The definition, term by term.
fn slow(row: &[Complex64], count: usize) -> Vec<Complex64> {
    let n = row.len();
    let term = |k: usize, j: usize| {
        Complex64::from_polar(1.0, -2.0 * PI * ((k * j) % n) as f64 / n as f64)
    };
    (0..count)
        .map(|k| row.iter().enumerate().map(|(j, x)| x * term(k, j)).sum())
        .collect()
}

fn close(got: Complex64, want: Complex64, size: f64, precision: f64) -> bool {
    (got - want).norm() <= precision * size
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn fft_is_its_definition(
        samples in prop::collection::vec(-30_000i16..30_000, 4..300), window in 2usize..70, cut in 0usize..300,
    ) {
        prop_assume!(samples.len() >= window);
        let stream = stream().intern();
        let size = 30_000.0 * window as f64;
        let real = scan(&samples, cut, stream).rewindow(window as u64).unwrap().fft().unwrap();
        let got = array(&real);
        prop_assert_eq!(&got.shape, &[(samples.len() / window) as u64, window as u64 / 2 + 1]);
        let got = got.to_vec::<Complex64>().unwrap();
        for (row, got) in samples.chunks_exact(window).zip(got.chunks_exact(window / 2 + 1)) {
            let row: Vec<_> = row.iter().map(|&x| Complex64::new(f64::from(x), 0.0)).collect();
            for (got, want) in got.iter().zip(slow(&row, window / 2 + 1)) {
                prop_assert!(close(*got, want, size, 1e-13), "{} {}", got, want);
            }
        }
        let pairs: Vec<_> = samples.chunks_exact(2).map(|p| Complex32::new(f32::from(p[0]), f32::from(p[1]))).collect();
        prop_assume!(pairs.len() >= window);
        let got = array(&scan(&pairs, cut, stream).rewindow(window as u64).unwrap().fft().unwrap());
        prop_assert_eq!(got.dtype, DType::C64);
        let got = got.to_vec::<Complex32>().unwrap();
        for (row, got) in pairs.chunks_exact(window).zip(got.chunks_exact(window)) {
            let row: Vec<_> = row.iter().map(|x| Complex64::new(f64::from(x.re), f64::from(x.im))).collect();
            for (got, want) in got.iter().zip(slow(&row, window)) {
                let got = Complex64::new(f64::from(got.re), f64::from(got.im));
                prop_assert!(close(got, want, size, 1e-5), "{} {}", got, want);
            }
        }
    }

    #[test]
    fn any_chunking_gives_the_same_bits(
        samples in prop::collection::vec(any::<i16>(), 64..400), window in 2u64..64, hop in 1u64..64, a in 0usize..400, b in 0usize..400,
    ) {
        let stream = stream().intern();
        let run = |cut| {
            let windows = scan(&samples, cut, stream).rewindow_every(window, hop).unwrap();
            (array(&windows.power().unwrap()).bytes, array(&windows.fft().unwrap()).bytes)
        };
        prop_assert_eq!(run(a), run(b));
    }

    #[test]
    fn a_density_adds_up_to_the_mean_square(samples in prop::collection::vec(-1.0f64..1.0, 8..200)) {
        let plan = scan(&samples, 0, stream().intern()).rewindow(samples.len() as u64).unwrap();
        let plan = plan.apply(Catalog::standard().get("power").unwrap(),
            serde_map(json!({"taper": "boxcar", "detrend": "none"})), &[]).unwrap();
        let power: f64 = array(&plan).to_vec::<f64>().unwrap().iter().sum();
        let square = samples.iter().map(|x| x * x).sum::<f64>() / samples.len() as f64;
        prop_assert!((power * RATE / samples.len() as f64 - square).abs() < 1e-12);
    }
}

fn serde_map(value: serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn a_sine_peaks_at_half_its_squared_amplitude_whatever_the_taper() {
    let samples: Vec<f64> = (0..500)
        .map(|i| 3.0 + 4.0 * (2.0 * PI * 25.0 * f64::from(i) / 500.0).sin())
        .collect();
    let windows = scan(&samples, 123, stream().intern())
        .rewindow(500)
        .unwrap();
    for taper in ["hann", "hamming", "blackman", "boxcar"] {
        let params = serde_map(json!({"taper": taper, "scaling": "spectrum"}));
        let plan = windows
            .apply(Catalog::standard().get("power").unwrap(), params, &[])
            .unwrap();
        let power = array(&plan).to_vec::<f64>().unwrap();
        let peak = (0..power.len()).max_by(|&a, &b| power[a].total_cmp(&power[b]));
        assert_eq!(peak, Some(25), "{taper}");
        assert!((power[25] - 8.0).abs() < 1e-9, "{taper}: {}", power[25]);
        assert!(power[0] < 1e-20, "{taper}: the mean is taken out");
    }
}

#[test]
fn counts_are_values_in_their_unit_and_the_result_says_its_own() {
    let counts = [100i16, -100, 300, 0, 7, 9, -3, 2];
    let stream = stream().with_calibration(Calibration::new(0.5, 1.0, "kPa").unwrap());
    let values: Vec<f64> = counts.iter().map(|&x| 1.0 + 0.5 * f64::from(x)).collect();
    let of = |plan: Plan| plan.rewindow(8).unwrap().power().unwrap();
    let (calibrated, plain) = (
        of(scan(&counts, 3, stream.intern())),
        of(scan(&values, 5, self::stream().intern())),
    );
    assert_eq!(array(&calibrated).bytes, array(&plain).bytes);
    assert_eq!(
        calibrated.port().stream().unwrap().calibration.unit(),
        "kPa^2/Hz"
    );
}

#[test]
fn spectra_of_anything_but_windows_of_samples_are_refused() {
    let samples = scan(&[1i16; 16], 0, stream().intern());
    let PlanError::InputType { operator, mend, .. } = samples.fft().unwrap_err() else {
        panic!("another error");
    };
    assert_eq!((operator, mend), ("fft", "put rewindow(...) before it"));
    let twice = samples.rewindow(8).unwrap().fft().unwrap().power();
    assert!(matches!(
        twice.unwrap_err(),
        PlanError::InputType {
            operator: "power",
            ..
        }
    ));
    let params = serde_map(json!({"taper": "hat"}));
    let windows = samples.rewindow(8).unwrap();
    let refused = windows.apply(Catalog::standard().get("power").unwrap(), params, &[]);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("hat") && text.contains("blackman"), "{text}");
}
