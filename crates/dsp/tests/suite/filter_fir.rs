//! FIR filters and their designs.

use isochrony_dsp::Isa;
use isochrony_dsp::filter::{
    Band, Fir, FirBand, FirMethod, FirWindow, fir_window, kaiser_beta, kaiser_taps, remez,
};
use isochrony_dsp::spectrum::Precision;
use proptest::prelude::*;
use serde_json::Value;

fn noise<T: Precision>(count: usize) -> Vec<T> {
    (0..count)
        .map(|n| T::of(((n * n) as f64 * 0.37).sin() + 0.2))
        .collect()
}

fn convolution<T: Precision + Into<f64>>(taps: &[f64], samples: &[T]) -> Vec<f64> {
    let term = |n: usize, k: usize| {
        let sample: f64 = if n < k { 0.0 } else { samples[n - k].into() };
        taps[k] * sample
    };
    (0..samples.len())
        .map(|n| (0..taps.len()).rev().map(|k| term(n, k)).sum())
        .collect()
}

fn filtered<T: Precision>(filter: &mut Fir<T>, samples: &[T], cuts: &[usize]) -> Vec<T> {
    let latency = filter.latency();
    let mut input = samples.to_vec();
    input.extend(vec![T::zero(); latency]);
    let mut results = vec![T::zero(); input.len()];
    let mut from = 0;
    let mut cuts = cuts.iter().cycle();
    while from < input.len() {
        let to = input
            .len()
            .min(from + cuts.next().copied().unwrap_or(usize::MAX).max(1));
        filter
            .process(&input[from..to], &mut results[from..to])
            .expect("equal lengths");
        from = to;
    }
    results.split_off(latency)
}

fn lowpass(taps: usize) -> Vec<f64> {
    fir_window("fir", taps, Band::Lowpass(7.0), FirWindow::Hamming, 100.0).expect("a design")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn direct_filter_equals_convolution_for_any_chunking_and_instruction_set(
        taps in 1usize..90, count in 0usize..900, cuts in prop::collection::vec(1usize..300, 1..6),
    ) {
        let (taps, samples) = (lowpass(taps), noise::<f64>(count));
        let expected = convolution(&taps, &samples);
        for isa in Isa::available() {
            let mut filter = Fir::on(isa, "fir", &taps, FirMethod::Direct).expect("taps");
            prop_assert_eq!(&filtered(&mut filter, &samples, &cuts), &expected, "{}", isa.name());
        }
    }

    #[test]
    fn overlap_save_has_the_same_bits_for_any_chunking_and_approximates_convolution(
        taps in 1usize..600, count in 0usize..9000, cuts in prop::collection::vec(1usize..3000, 1..6),
    ) {
        let taps = lowpass(taps);
        let samples = noise::<f64>(count);
        let mut filter = Fir::new("fir", &taps, FirMethod::Fft).expect("taps");
        let whole = filtered(&mut filter, &samples, &[usize::MAX]);
        filter.reset();
        let pieces = filtered(&mut filter, &samples, &cuts);
        prop_assert!(whole.iter().zip(&pieces).all(|(x, y)| x.to_bits() == y.to_bits()));
        // Two transforms of 4096 numbers, 12 layers each, with a few roundings of the norm, at most 1.2 sqrt(4096).
        for (got, want) in whole.iter().zip(convolution(&taps, &samples)) {
            prop_assert!((got - want).abs() < 1e-13, "{} for {}", got, want);
        }
    }
}

#[test]
fn f32_samples_are_summed_in_f32() {
    for (taps, method) in [
        (30, FirMethod::Direct),
        (300, FirMethod::Direct),
        (300, FirMethod::Fft),
    ] {
        let (taps, samples) = (lowpass(taps), noise::<f32>(10_000));
        let mut filter = Fir::new("fir", &taps, method).expect("taps");
        let got = filtered(&mut filter, &samples, &[777]);
        // One rounding per product and sum; magnitudes of taps sum to less than 2, samples are below 1.2.
        let near = 2.4 * taps.len() as f64 * f64::from(f32::EPSILON);
        for (got, want) in got.iter().zip(convolution(&taps, &samples)) {
            assert!((f64::from(*got) - want).abs() < near, "{got} for {want}");
        }
    }
}

#[test]
fn nan_and_infinities_reach_as_far_as_the_taps() {
    for method in [FirMethod::Direct, FirMethod::Fft] {
        let taps = lowpass(300);
        let mut samples = noise::<f64>(5000);
        samples[1000] = f64::NAN;
        samples[3000] = f64::INFINITY;
        let mut filter = Fir::new("fir", &taps, method).expect("taps");
        for (n, y) in filtered(&mut filter, &samples, &[1024]).iter().enumerate() {
            let reached = (1000..1300).contains(&n) || (3000..3300).contains(&n);
            assert_eq!(y.is_finite(), !reached, "{method:?}: {y} at {n}");
        }
    }
}

#[test]
fn rejects_invalid_taps_and_lengths() {
    for (taps, part) in [
        (vec![], "taps=0 must be from 1 to"),
        (vec![1.0, f64::NAN], "taps=NaN must be finite"),
    ] {
        let error = Fir::<f64>::new("fir", &taps, FirMethod::Auto)
            .err()
            .expect(part)
            .to_string();
        assert!(error.contains(part), "{error}");
    }
    let mut filter = Fir::<f32>::new("fir", &[1.0], FirMethod::Auto).expect("taps");
    assert_eq!(
        filter.process(&[1.0], &mut []).expect_err("short").code(),
        "output_length"
    );
}

fn gain(taps: &[f64], hz: f64, rate: f64) -> f64 {
    let middle = (taps.len() - 1) as f64 / 2.0;
    let angle = 2.0 * std::f64::consts::PI * hz / rate;
    taps.iter()
        .enumerate()
        .map(|(k, tap)| tap * (angle * (k as f64 - middle)).cos())
        .sum()
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/fir.json")).expect("JSON")
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(|x| x.as_f64().expect("a number"))
        .collect()
}

#[test]
fn windowed_designs_equal_scipy() {
    for case in vectors()["firwin"].as_array().expect("a list") {
        let corners = numbers(&case["cutoff"]);
        let band = match case["band"].as_str().expect("text") {
            "lowpass" => Band::Lowpass(corners[0]),
            "highpass" => Band::Highpass(corners[0]),
            "bandpass" => Band::Bandpass(corners[0], corners[1]),
            _ => Band::Bandstop(corners[0], corners[1]),
        };
        let window = match case["window"].as_str().expect("text") {
            "hamming" => FirWindow::Hamming,
            "hann" => FirWindow::Hann,
            "blackman" => FirWindow::Blackman,
            "boxcar" => FirWindow::Boxcar,
            _ => FirWindow::Kaiser {
                beta: kaiser_beta(case["db"].as_f64().expect("dB")),
            },
        };
        let want = numbers(&case["taps"]);
        let got = fir_window("fir", want.len(), band, window, 1000.0).expect("a design");
        // A few roundings of numbers below 1, and the rounded argument of a sine, up to pi len / 2.
        let near = 4.0 * f64::EPSILON * want.len() as f64;
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() < near, "{got} for {want}: {case}");
        }
    }
    let kaiser = &vectors()["kaiserord"];
    for case in kaiser.as_array().expect("a list") {
        let case = numbers(case);
        let taps = kaiser_taps("fir", case[0], case[1], 1000.0).expect("a number");
        assert_eq!(taps, case[2] as usize | 1);
        assert!((kaiser_beta(case[0]) - case[3]).abs() < 1e-12);
    }
}

fn bands(case: &Value) -> Vec<FirBand> {
    let (edges, gains, weights) = (
        numbers(&case["edges"]),
        numbers(&case["gains"]),
        numbers(&case["weights"]),
    );
    let pairs = edges.chunks(2).zip(gains.iter().zip(&weights));
    pairs
        .map(|(edges, (&gain, &weight))| FirBand {
            from_hz: edges[0],
            to_hz: edges[1],
            gain,
            weight,
        })
        .collect()
}

/// Largest weighted error, on a grid of its own.
fn worst(taps: &[f64], bands: &[FirBand], rate: f64) -> f64 {
    let errors = bands.iter().flat_map(|band| {
        (0..=3000).map(move |k| {
            let hz = band.from_hz + (band.to_hz - band.from_hz) * f64::from(k) / 3000.0;
            (gain(taps, hz, rate) - band.gain).abs() * band.weight
        })
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn equiripple_designs_match_scipy_and_are_no_worse() {
    for case in vectors()["remez"].as_array().expect("a list") {
        let want = numbers(&case["taps"]);
        let bands = bands(case);
        let got = remez("fir", want.len(), &bands, 1000.0).expect("converges");
        let (ours, theirs) = (worst(&got, &bands, 1000.0), worst(&want, &bands, 1000.0));
        // Between 16 grid points per coefficient the error may be a hundredth larger.
        assert!(
            ours < 1.01 * theirs,
            "{ours} for {theirs}: {} taps, {bands:?}",
            want.len()
        );
        for (got, want) in got.iter().zip(&want) {
            assert!(
                (got - want).abs() < 0.02 * theirs,
                "{got} for {want}: {bands:?}"
            );
        }
    }
}

#[test]
fn long_equiripple_designs_converge_to_equal_errors() {
    for taps in [301, 500, 1001] {
        let width = 900.0 / taps as f64;
        let pass = FirBand {
            from_hz: 0.0,
            to_hz: 100.0,
            gain: 1.0,
            weight: 1.0,
        };
        let stop = FirBand {
            from_hz: 100.0 + width * 2.0,
            to_hz: 500.0,
            gain: 0.0,
            weight: 5.0,
        };
        let bands = [pass, stop];
        let got = remez("fir", taps, &bands, 1000.0).expect("converges");
        let (passing, stopping) = (
            worst(&got, &bands[..1], 1000.0),
            worst(&got, &bands[1..], 1000.0),
        );
        assert!(
            (passing / stopping - 1.0).abs() < 0.02,
            "{taps}: {passing} and {stopping}"
        );
        assert!(stopping < 0.05);
    }
}

#[test]
fn rejects_impossible_designs() {
    let window = |taps, band| fir_window("fir", taps, band, FirWindow::Hamming, 100.0);
    let pass = FirBand {
        from_hz: 0.0,
        to_hz: 10.0,
        gain: 1.0,
        weight: 1.0,
    };
    let cases = [
        (window(0, Band::Lowpass(1.0)), "taps=0 must be from 1 to"),
        (window(10, Band::Highpass(1.0)), "taps=10 must be odd"),
        (window(10, Band::Bandstop(1.0, 2.0)), "taps=10 must be odd"),
        (
            window(11, Band::Lowpass(50.0)),
            "cutoff_hz=50 Hz must be above 0 and below half the rate",
        ),
        (window(11, Band::Bandpass(20.0, 10.0)), "two ascending"),
        (
            remez("fir", 2, &[pass], 100.0),
            "taps=2 must be from 3 to 2048",
        ),
        (remez("fir", 20, &[], 100.0), "edges_hz=[] must be"),
        (
            remez(
                "fir",
                21,
                &[
                    pass,
                    FirBand {
                        from_hz: 5.0,
                        to_hz: 20.0,
                        ..pass
                    },
                ],
                100.0,
            ),
            "edges_hz=[0.0, 10.0, 5.0, 20.0]",
        ),
        (
            remez(
                "fir",
                21,
                &[FirBand {
                    to_hz: 60.0,
                    ..pass
                }],
                100.0,
            ),
            "half the rate, 50 Hz",
        ),
        (
            remez(
                "fir",
                21,
                &[FirBand {
                    weight: 0.0,
                    ..pass
                }],
                100.0,
            ),
            "weights=0 must be numbers above 0",
        ),
        (
            remez(
                "fir",
                21,
                &[FirBand {
                    gain: f64::NAN,
                    ..pass
                }],
                100.0,
            ),
            "gains=NaN",
        ),
        (
            remez(
                "fir",
                20,
                &[FirBand {
                    from_hz: 30.0,
                    to_hz: 50.0,
                    ..pass
                }],
                100.0,
            ),
            "taps=20 must be odd",
        ),
    ];
    for (result, part) in cases {
        let error = result.expect_err(part).to_string();
        assert!(error.contains(part), "{error:?} lacks {part:?}");
    }
    let error = kaiser_taps("fir", 60.0, 1e-6, 100.0).expect_err("too many");
    assert!(
        error
            .to_string()
            .contains("width_hz=0.000001 Hz must be wide enough"),
        "{error}"
    );
}
