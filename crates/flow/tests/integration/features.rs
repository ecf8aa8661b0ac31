use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use isochrony_flow::{Catalog, Plan, PlanError, PortType, Segments, json};
use isochrony_segment::{Calibration, Complex64, DType, Sample, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;
use serde_json::Value;

fn stream() -> StreamId {
    let stream = Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap());
    stream
        .with_calibration(Calibration::new(0.5, 0.0, "kPa").unwrap())
        .intern()
}

fn scan<T: Sample>(parts: &[(&[T], i64)], stream: StreamId) -> Plan {
    let parts = parts.iter().filter(|(part, _)| !part.is_empty());
    let parts = parts.map(|&(part, at)| SigSeg::from_slice(part, at, stream).unwrap());
    Plan::scan(Segments::new(parts).unwrap())
}

fn step(plan: &Plan, name: &str, params: Value, others: &[Plan]) -> Result<Plan, PlanError> {
    let catalog = Catalog::standard();
    plan.apply(
        catalog.get(name).unwrap(),
        params.as_object().unwrap().clone(),
        others,
    )
}

/// Parameters for windows of 32 samples.
fn every() -> Vec<(&'static str, Value)> {
    vec![
        ("taper", json!({"taper": "kaiser(8.6)"})),
        ("detrend", json!({"kind": "linear"})),
        ("welch", json!({"nfft": 12, "average": "median"})),
        (
            "welch",
            json!({"nfft": 8, "hop": 3, "taper": "flattop", "detrend": "linear"}),
        ),
        ("fft", json!({"taper": "hann", "scaling": "psd"})),
        ("envelope", json!({})),
        ("rms", json!({})),
        ("zero_crossings", json!({})),
        ("haar", json!({"levels": 5})),
        ("haar", json!({"levels": 2, "output": "details"})),
        ("haar", json!({"levels": 3, "output": "coefficients"})),
        ("quantile", json!({"at": [0.1, 0.5, 0.9]})),
        (
            "spectral_score",
            json!({"band_hz": [100, 700], "normalise": "total"}),
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_chunking_gives_the_same_bits(
        samples in prop::collection::vec(any::<i16>(), 64..400), hop in 1u64..48, a in 0usize..400, b in 0usize..400, which in 0..every().len(),
    ) {
        let (name, params) = every().swap_remove(which);
        let run = |cut: usize| {
            let (first, rest) = samples.split_at(cut.min(samples.len()));
            let windows = scan(&[(first, 0), (rest, first.len() as i64)], stream()).rewindow_every(32, hop).unwrap();
            step(&windows, name, params.clone(), &[]).unwrap().collect().unwrap().array().unwrap().bytes.clone()
        };
        prop_assert_eq!(run(a), run(b));
    }

    #[test]
    fn any_chunking_gives_the_same_rows(
        samples in prop::collection::vec(-1000i16..1000, 64..400), hop in 1u64..48, a in 0usize..400, b in 0usize..400, shift in 0usize..4,
    ) {
        let run = |cut: usize, other: usize| {
            let of = |samples: &[i16], cut: usize| {
                let (first, rest) = samples.split_at(cut.min(samples.len()));
                scan(&[(first, 0), (rest, first.len() as i64)], stream()).rewindow_every(32, hop).unwrap()
            };
            let (x, y) = (of(&samples[4..], cut), of(&samples[4 - shift..samples.len() - shift], other));
            let peaks = step(&x, "trim_peak", json!({"extreme": "abs", "count": 3, "skip": 2}), &[]).unwrap();
            let delay = step(&x, "delay", json!({"max_lag": 8, "method": "gcc_phat"}), std::slice::from_ref(&y)).unwrap();
            let lags = step(&x, "xcorr", json!({"max_lag": 8, "normalise": "coeff"}), &[y]).unwrap();
            let text = |plan: &Plan| format!("{:?}", plan.collect().unwrap().rows());
            (text(&peaks), text(&delay), lags.collect().unwrap().array().unwrap().bytes.clone())
        };
        prop_assert_eq!(run(a, b), run(b, 0));
    }

    #[test]
    fn fft_and_its_inverse_are_the_same_windows(samples in prop::collection::vec(-1000f64..1000.0, 8..200), window in 1u64..40) {
        prop_assume!(samples.len() as u64 >= window);
        let stream = Stream::new("x", TimebaseId(0), Rate::new(10, 1).unwrap()).intern();
        let windows = scan(&[(&samples, 0)], stream).rewindow(window).unwrap();
        let back = step(&step(&windows, "fft", json!({}), &[]).unwrap(), "ifft", json!({}), &[]).unwrap();
        prop_assert_eq!(back.port(), windows.port());
        let (a, b) = (windows.collect().unwrap(), back.collect().unwrap());
        let (a, b) = (a.array().unwrap().to_vec::<f64>().unwrap(), b.array().unwrap().to_vec::<f64>().unwrap());
        for (a, b) in a.iter().zip(b) {
            prop_assert!((a - b).abs() < 1e-11);
        }
    }
}

#[test]
fn haar_of_counts_is_haar_of_their_values() {
    let samples: Vec<i32> = (0..400).map(|i| (i * i * 31) % 251 - 125).collect();
    let plain = Stream::new("plain", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern();
    fn rows<T: Sample>(counts: &[T], stream: StreamId, output: &str) -> (DType, Vec<f64>) {
        let windows = scan(&[(counts, 0)], stream).rewindow_every(64, 24).unwrap();
        let params = json!({"levels": 3, "output": output});
        let haar = step(&windows, "haar", params, &[]).unwrap();
        let gathered = haar.collect().unwrap();
        let array = gathered.array().unwrap();
        (array.dtype, array.to_vec::<f64>().unwrap_or_default())
    }
    for output in ["energies", "details", "coefficients"] {
        let values: Vec<f64> = samples.iter().map(|&x| f64::from(x)).collect();
        let want = rows(&values, plain, output);
        assert!(!want.1.is_empty());
        let long: Vec<i64> = samples.iter().map(|&x| i64::from(x)).collect();
        let word: Vec<i16> = samples.iter().map(|&x| x as i16).collect();
        let byte: Vec<i8> = samples.iter().map(|&x| x as i8).collect();
        assert_eq!(rows(&byte, plain, output), want);
        assert_eq!(rows(&word, plain, output), want);
        assert_eq!(rows(&samples, plain, output), want);
        assert_eq!(rows(&long, plain, output), want);
        let positive: Vec<f64> = values.iter().map(|x| x + 125.0).collect();
        let want = rows(&positive, plain, output);
        let byte: Vec<u8> = positive.iter().map(|&x| x as u8).collect();
        let word: Vec<u16> = positive.iter().map(|&x| x as u16).collect();
        assert_eq!(rows(&byte, plain, output), want);
        assert_eq!(rows(&word, plain, output), want);
        // Halves of counts are exact.
        let halves: Vec<f64> = values.iter().map(|x| x / 2.0).collect();
        let word: Vec<i16> = samples.iter().map(|&x| x as i16).collect();
        assert_eq!(rows(&word, stream(), output), rows(&halves, plain, output));
    }
}

#[test]
fn rows_say_their_length_type_and_unit() {
    let windows = scan(&[(&[1i16; 64], 0)], stream()).rewindow(32).unwrap();
    let said: Vec<(usize, DType, &str)> = every()
        .into_iter()
        .map(|(name, params)| {
            let plan = step(&windows, name, params, &[]).unwrap();
            let PortType::Frames {
                dtype,
                stream,
                window: 32,
                width,
                ..
            } = plan.port()
            else {
                panic!("{name} gives {}", plan.port());
            };
            (width, dtype, stream.get().calibration.unit())
        })
        .collect();
    let f64s = |width, unit| (width, DType::F64, unit);
    let want = [
        f64s(32, "kPa"),
        f64s(32, "kPa"),
        f64s(7, "kPa^2/Hz"),
        f64s(5, "kPa^2/Hz"),
        (17, DType::C128, "kPa/Hz^0.5"),
        f64s(32, "kPa"),
        f64s(1, "kPa"),
        f64s(1, ""),
        f64s(6, "kPa^2"),
        f64s(8, "kPa"),
        f64s(32, "kPa"),
        f64s(3, "kPa"),
        f64s(1, ""),
    ];
    assert_eq!(said, want);
}

#[test]
fn no_pair_of_windows_meets_across_a_gap_that_one_of_them_has() {
    let samples: Vec<i16> = (0..96).map(|i| ((i * i) % 37) as i16).collect();
    let whole = scan(&[(&samples, 0)], stream()).rewindow(16).unwrap();
    let broken = scan(&[(&samples[..32], 0), (&samples[64..], 64)], stream())
        .rewindow(16)
        .unwrap();
    let delays = step(&whole, "delay", json!({"max_lag": 4}), &[broken]).unwrap();
    let gathered = delays.collect().unwrap();
    let starts = gathered
        .rows()
        .unwrap()
        .column(0)
        .as_primitive::<Int64Type>();
    assert_eq!(&starts.values()[..], [0, 16, 64, 80]);
}

#[test]
fn frequencies_are_known_as_far_as_rows_are_spectra() {
    let windows = scan(&[(&[1i16; 64], 0)], stream()).rewindow(8).unwrap();
    let fft = step(&windows, "fft", json!({}), &[]).unwrap();
    assert_eq!(
        fft.frequencies().unwrap(),
        [0.0, 250.0, 500.0, 750.0, 1000.0]
    );
    let welch = step(&windows, "welch", json!({"nfft": 4}), &[]).unwrap();
    assert_eq!(welch.frequencies().unwrap(), [0.0, 500.0, 1000.0]);
    assert_eq!(fft.limit(1).unwrap().frequencies(), fft.frequencies());
    assert_eq!(windows.frequencies(), None);
    assert_eq!(
        step(&fft, "ifft", json!({}), &[]).unwrap().frequencies(),
        None
    );
}

fn message(result: Result<Plan, PlanError>) -> String {
    result.expect_err("is refused").to_string()
}

#[test]
fn what_does_not_fit_is_refused_when_the_plan_is_built() {
    let samples = scan(&[(&[1i16; 64], 0)], stream());
    let windows = samples.rewindow(12).unwrap();
    let refused = |name, params, parts: &[&str]| {
        let text = message(step(&windows, name, params, &[]));
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    refused(
        "taper",
        json!({"taper": "hat"}),
        &["taper: taper=\"hat\"", "blackmanharris"],
    );
    refused(
        "power",
        json!({"taper": "kaiser(-3)"}),
        &["power: taper", "kaiser(beta)"],
    );
    refused(
        "welch",
        json!({"nfft": 13}),
        &["nfft=13", "from 1 to the window's 12"],
    );
    refused("haar", json!({"levels": 3}), &["levels=3", "from 1 to 2"]);
    refused(
        "quantile",
        json!({"at": [0.5, 2]}),
        &["at=[0.5,2]", "from 0 to 1"],
    );
    refused(
        "spectral_score",
        json!({"weights": [1, 2]}),
        &["2 numbers", "7 frequencies"],
    );
    refused(
        "spectral_score",
        json!({"band_hz": [10, 2000]}),
        &["[10,2000]", "0 to 1000 Hz"],
    );
    refused("ifft", json!({}), &["complex rows", "fft()"]);
    let pair = |name, params: Value, parts: &[&str]| {
        let text = message(step(&windows, name, params, std::slice::from_ref(&windows)));
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    pair(
        "xcorr",
        json!({"max_lag": 12}),
        &["xcorr: max_lag=12", "below the window's 12"],
    );
    pair(
        "gcc_phat",
        json!({"max_lag": 3, "band_hz": [900, 100]}),
        &["gcc_phat: band_hz", "from 0 to 1000 Hz"],
    );
    pair(
        "delay",
        json!({"max_lag": 3, "band_hz": [100, 900]}),
        &["left out of xcorr"],
    );
    let other = samples.rewindow(16).unwrap();
    let text = message(step(&windows, "xcorr", json!({"max_lag": 3}), &[other]));
    assert!(text.contains("equal windows"), "{text}");
    for (name, params) in every() {
        let text = message(step(&samples, name, params, &[]));
        assert!(text.contains("rewindow"), "{text}");
    }
    let complex = scan(&[(&[Complex64::new(1.0, 2.0); 64], 0)], stream())
        .rewindow(32)
        .unwrap();
    for name in ["envelope", "zero_crossings", "trim_peak"] {
        let text = message(step(&complex, name, json!({}), &[]));
        assert!(text.contains("real"), "{text}");
    }
    assert!(step(&complex, "rms", json!({}), &[]).is_ok());
}
