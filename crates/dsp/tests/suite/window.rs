//! Tapers against their definitions.

use isochrony_dsp::DspError;
use isochrony_dsp::window::{Taper, adds_up};
use proptest::prelude::*;
use std::f64::consts::PI;

const ALL: [&str; 14] = [
    "boxcar",
    "bartlett",
    "hann",
    "hamming",
    "blackman",
    "blackmanharris",
    "nuttall",
    "flattop",
    "kaiser(0)",
    "kaiser(8.6)",
    "tukey(0)",
    "tukey(0.3)",
    "tukey(1)",
    "gaussian(7.5)",
];

fn taper(text: &str) -> Taper {
    text.parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn periodic_tapers_are_symmetric_ones_without_the_last_factor(width in 2usize..300, which in 0..ALL.len()) {
        let taper = taper(ALL[which]);
        let symmetric = taper.symmetric(width + 1);
        prop_assert_eq!(&taper.periodic(width), &symmetric[..width]);
        let mirrored: Vec<f64> = symmetric.iter().rev().copied().collect();
        prop_assert_eq!(mirrored, symmetric);
    }
}

fn definition(text: &str, x: f64, width: usize) -> f64 {
    let cosines = |terms: &[f64]| {
        let terms = terms.iter().enumerate();
        terms
            .map(|(k, a)| a * (PI * k as f64 * x).cos())
            .sum::<f64>()
    };
    // By integral instead of series.
    let bessel = |x: f64| {
        let steps = 4000;
        let at = |k: i32| (x * ((f64::from(k) + 0.5) * PI / f64::from(steps)).cos()).exp();
        (0..steps).map(at).sum::<f64>() / f64::from(steps)
    };
    match text {
        "boxcar" | "kaiser(0)" | "tukey(0)" => 1.0,
        "bartlett" => 1.0 - x.abs(),
        "hann" | "tukey(1)" => cosines(&[0.5, 0.5]),
        "hamming" => cosines(&[0.54, 0.46]),
        "blackman" => cosines(&[0.42, 0.5, 0.08]),
        "blackmanharris" => cosines(&[0.35875, 0.48829, 0.14128, 0.01168]),
        "nuttall" => cosines(&[0.3635819, 0.4891775, 0.1365995, 0.0106411]),
        "flattop" => cosines(&[
            0.21557895,
            0.41663158,
            0.277263158,
            0.083578947,
            0.006947368,
        ]),
        "kaiser(8.6)" => bessel(8.6 * (1.0 - x * x).max(0.0).sqrt()) / bessel(8.6),
        "tukey(0.3)" if x.abs() <= 0.7 => 1.0,
        "tukey(0.3)" => 0.5 * (1.0 + (PI * (x.abs() - 0.7) / 0.3).cos()),
        "gaussian(7.5)" => (-0.5 * (x * (width as f64 - 1.0) / 2.0 / 7.5).powi(2)).exp(),
        _ => panic!("no definition of {text}"),
    }
}

#[test]
fn factors_equal_their_definitions() {
    for (text, width) in ALL.iter().flat_map(|text| [(text, 33), (text, 100)]) {
        for (at, factor) in taper(text).symmetric(width).into_iter().enumerate() {
            let x = 2.0 * at as f64 / (width as f64 - 1.0) - 1.0;
            let want = definition(text, x, width);
            // Arguments up to 4 pi with an error of 4 pi eps, times terms that sum to less than 2.
            assert!(
                (factor - want).abs() < 1e-14,
                "{text} {width} {at}: {factor} {want}"
            );
        }
    }
}

#[test]
fn taper_names_round_trip_and_others_are_rejected() {
    for text in ALL {
        assert_eq!(taper(text).to_string(), text);
    }
    for wrong in [
        "hat",
        "kaiser",
        "kaiser(-1)",
        "kaiser(701)",
        "tukey(1.1)",
        "gaussian(0)",
        "gaussian(nan)",
        "hann(2)",
        "kaiser(8",
    ] {
        let error = wrong.parse::<Taper>().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, DspError::Parameter { .. }));
        assert!(
            text.contains(wrong) && text.contains("kaiser(beta)"),
            "{text}"
        );
    }
    assert_eq!(Taper::Hann.periodic(1), [1.0]);
    assert_eq!(Taper::Hann.symmetric(1), [1.0]);
    assert!(Taper::Hann.periodic(0).is_empty());
}

#[test]
fn raised_cosines_add_up_at_half_a_window_and_others_do_not() {
    let cola = |text: &str, width, hop| adds_up(&taper(text).periodic(width), hop, 1e-10).unwrap();
    assert!(
        cola("hann", 64, 32)
            && cola("hann", 64, 16)
            && cola("boxcar", 60, 20)
            && cola("bartlett", 64, 32)
    );
    assert!(cola("blackman", 99, 33) && !cola("blackman", 99, 45));
    assert!(!cola("hann", 64, 64) && !cola("kaiser(8.6)", 64, 32) && !cola("boxcar", 60, 25));
    for hop in [0, 65] {
        let error = adds_up(&[1.0; 64], hop, 1e-10).unwrap_err();
        assert!(error.to_string().contains("from 1 to the window's 64"));
    }
}
