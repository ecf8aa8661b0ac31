//! Features against their definitions.

use isochrony_dsp::DspError;
use isochrony_dsp::features::{
    Envelope, Extreme, Haar, HaarOutput, Normalise, Peak, Quantiles, Score, rms, trim_peaks,
    zero_crossings,
};
use isochrony_dsp::spectrum::Detrend;
use num_complex::Complex;
use proptest::prelude::*;
use std::f64::consts::{PI, SQRT_2};

fn values(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1000.0f64..1000.0, len)
}

fn slow_haar(window: &[f64], levels: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let (mut approximation, mut details) = (window.to_vec(), Vec::new());
    for _ in 0..levels {
        let pairs = approximation.chunks_exact(2);
        details.push(pairs.clone().map(|p| (p[0] - p[1]) / SQRT_2).collect());
        approximation = pairs.map(|p| (p[0] + p[1]) / SQRT_2).collect();
    }
    (approximation, details)
}

fn slow_dft(window: &[f64]) -> Vec<Complex<f64>> {
    let n = window.len();
    let term =
        |k: usize, j: usize| Complex::from_polar(1.0, -2.0 * PI * ((k * j) % n) as f64 / n as f64);
    let bin = |k| window.iter().enumerate().map(|(j, x)| x * term(k, j)).sum();
    (0..n).map(bin).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn rms_equals_its_definition(window in values(1..200)) {
        let square = window.iter().map(|x| x * x).sum::<f64>() / window.len() as f64;
        // Sums of 200 squares: 200 eps, half of it after the root.
        prop_assert!((rms(&window, false) - square.sqrt()).abs() <= 100.0 * f64::EPSILON * square.sqrt());
        let singles: Vec<f32> = window.iter().map(|&x| x as f32).collect();
        let square = singles.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / window.len() as f64;
        prop_assert!((f64::from(rms(&singles, false)) - square.sqrt()).abs() <= 1e-7 * square.sqrt());
        if window.len() % 2 == 0 {
            prop_assert!((rms(&window, true) - SQRT_2 * rms(&window, false)).abs() <= 1e-12 * rms(&window, true));
        }
    }

    #[test]
    fn crossings_are_counted_between_samples_with_a_sign(
        window in prop::collection::vec(prop::sample::select(vec![-2.0, -1.0, -0.0, 0.0, 1.0, 3.0, f64::NAN]), 0..60),
        whole in any::<bool>(),
    ) {
        let window: Vec<f64> = window.into_iter().filter(|x| !whole || *x < 0.0 || *x > 0.0).collect();
        let signs: Vec<f64> = window.iter().filter(|x| x.abs() > 0.0).map(|x| x.signum()).collect();
        let want = signs.windows(2).filter(|pair| pair[0] != pair[1]).count();
        prop_assert_eq!(zero_crossings(&window), want);
    }

    #[test]
    fn haar_equals_its_definition_and_preserves_energy(window in values(1..20), levels in 1usize..5) {
        let window: Vec<f64> = window.iter().cycle().take(window.len() << levels).enumerate().map(|(i, x)| x + i as f64).collect();
        let (approximation, details) = slow_haar(&window, levels);
        let energy = |numbers: &[f64]| numbers.iter().map(|x| x * x).sum::<f64>();
        let total = energy(&window);
        let run = |output| {
            let mut haar = Haar::<f64>::new(window.len(), levels, output).unwrap();
            let mut row = vec![0.0; haar.bins()];
            haar.row(&window, &mut row);
            row
        };
        // Two roundings per level; sums of at most 320 squares.
        let tolerance = 400.0 * f64::EPSILON;
        let energies = run(HaarOutput::Energies);
        for (got, want) in energies.iter().zip(details.iter().map(|d| energy(d)).chain([energy(&approximation)])) {
            prop_assert!((got - want).abs() <= tolerance * total, "{} {}", got, want);
        }
        prop_assert!((energies.iter().sum::<f64>() - total).abs() <= tolerance * total);
        let mut all = approximation;
        details.iter().rev().for_each(|d| all.extend(d));
        let size = total.sqrt();
        for (got, want) in run(HaarOutput::Coefficients).iter().zip(&all) {
            prop_assert!((got - want).abs() <= tolerance * size);
        }
        let last = run(HaarOutput::Details);
        prop_assert_eq!(last.len(), details[levels - 1].len());
        for (got, want) in last.iter().zip(&details[levels - 1]) {
            prop_assert!((got - want).abs() <= tolerance * size);
        }
    }

    #[test]
    fn quantiles_lie_on_the_line_through_the_sorted_window(window in values(1..80), at in prop::collection::vec(0.0f64..=1.0, 1..6)) {
        let mut sorted = window.clone();
        sorted.sort_by(f64::total_cmp);
        let mut got = vec![0.0; at.len()];
        Quantiles::new(&at).unwrap().row(&window, &mut got);
        for (q, got) in at.iter().zip(got) {
            let place = q * (sorted.len() - 1) as f64;
            let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            let want = low + (high - low) * place.fract();
            prop_assert!((got - want).abs() <= 1e-12 * 1000.0, "{} {}", got, want);
            prop_assert!(low <= got && got <= high);
        }
    }

    #[test]
    fn an_envelope_is_the_magnitude_of_the_analytic_signal(window in values(1..60)) {
        let n = window.len();
        let mut spectrum = slow_dft(&window);
        for (k, value) in spectrum.iter_mut().enumerate() {
            let alone = k == 0 || 2 * k == n;
            *value *= if alone { 1.0 } else if 2 * k < n { 2.0 } else { 0.0 };
        }
        let mut got = vec![0.0; n];
        Envelope::new(n).row(&window, &mut got);
        let size = rms(&window, false) * (n as f64).sqrt();
        for (j, got) in got.iter().enumerate() {
            let term = |k: usize| Complex::from_polar(1.0, 2.0 * PI * ((k * j) % n) as f64 / n as f64);
            let analytic: Complex<f64> = spectrum.iter().enumerate().map(|(k, x)| x * term(k)).sum();
            // log2(60) roundings of the norm, here and in the sum of 60 terms.
            prop_assert!((got - analytic.norm() / n as f64).abs() <= 1e-13 * size.max(1.0));
        }
    }

    #[test]
    fn a_score_is_a_weighted_sum_of_magnitudes(window in values(2..50), seed in values(26..27)) {
        let bins = window.len() / 2 + 1;
        let weights = &seed[..bins];
        let magnitudes: Vec<f64> = slow_dft(&window)[..bins].iter().map(|x| x.norm()).collect();
        let want: f64 = magnitudes.iter().zip(weights).map(|(x, w)| x * w).sum();
        let total: f64 = magnitudes.iter().sum();
        let ones = vec![1.0; window.len()];
        let score = |normalise| Score::new(&ones, false, Detrend::None, weights, normalise).unwrap().of(&window);
        prop_assert!((score(Normalise::None) - want).abs() <= 1e-10 * 1000.0 * total);
        prop_assert!((score(Normalise::Total) - want / total).abs() <= 1e-10 * 1000.0);
    }

    #[test]
    fn direct_and_transformed_scores_agree(window in values(1..80), low in 0usize..12, count in 1usize..10) {
        let bins = window.len() / 2 + 1;
        let inside = |k: usize| (low..low + count).contains(&k);
        let weights: Vec<f64> = (0..bins).map(|k| if inside(k) { 1.0 + k as f64 } else { 0.0 }).collect();
        let factors: Vec<f64> = (0..window.len()).map(|i| 0.5 + i as f64 / 100.0).collect();
        let shaped: Vec<f64> = window.iter().zip(&factors).map(|(x, factor)| x * factor).collect();
        let want: f64 = slow_dft(&shaped)[..bins].iter().zip(&weights).map(|(x, w)| x.norm() * w).sum();
        // A sum of n products up to 1500 has at most n roundings each; ten weights up to 21.
        let size = 1500.0 * (window.len() * window.len()) as f64 * 210.0;
        let score = Score::new(&factors, false, Detrend::None, &weights, Normalise::None).unwrap().of(&window);
        prop_assert!((score - want).abs() <= size * f64::EPSILON);
        let singles: Vec<f32> = window.iter().map(|&x| x as f32).collect();
        let score = Score::new(&factors, false, Detrend::None, &weights, Normalise::None).unwrap().of(&singles);
        prop_assert!((f64::from(score) - want).abs() <= size * f64::from(f32::EPSILON));
    }

    #[test]
    fn each_peak_is_the_extreme_of_the_rest(window in values(1..60), skip in 1usize..10) {
        let mut peaks = [None; 4];
        trim_peaks(&window, Extreme::Abs, skip, &mut peaks);
        let mut from = 0;
        for peak in peaks {
            let rest = window.get(from..).unwrap_or_default();
            let largest = rest.iter().map(|x| x.abs()).fold(f64::NEG_INFINITY, f64::max);
            let at = rest.iter().position(|x| x.abs() == largest);
            prop_assert_eq!(peak, at.map(|at| Peak { at: from + at, value: rest[at] }));
            from = peak.map_or(window.len(), |peak| peak.at + skip);
        }
    }

    #[test]
    fn the_first_extreme_of_many_is_found_among_equals_and_nan(
        few in prop::collection::vec(prop::sample::select(vec![-2.0, -0.0, 0.0, 1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]), 1..8),
        places in prop::collection::vec(0usize..200, 0..40), len in 1usize..200, skip in 1usize..90,
    ) {
        let mut window = vec![few[0]; len];
        for (at, value) in places.iter().zip(few.iter().cycle()) {
            window[at % len] = *value;
        }
        for (extreme, size) in [(Extreme::Max, 1.0), (Extreme::Min, -1.0), (Extreme::Abs, 0.0)] {
            let mut peaks = [None; 3];
            trim_peaks(&window, extreme, skip, &mut peaks);
            let size = |x: f64| if size == 0.0 { x.abs() } else { size * x };
            let mut from = 0;
            for peak in peaks {
                let mut want: Option<usize> = None;
                for at in from..len {
                    let better = want.is_none_or(|best| size(window[at]) > size(window[best]));
                    if !window[at].is_nan() && better {
                        want = Some(at);
                    }
                }
                prop_assert_eq!(peak.map(|peak| peak.at), want);
                prop_assert_eq!(peak.map(|peak| peak.value.to_bits()), want.map(|at| window[at].to_bits()));
                from = want.map_or(len, |at| at + skip);
            }
        }
    }
}

#[test]
fn nan_is_no_peak_and_of_equals_the_first_is() {
    let mut peaks = [None; 2];
    trim_peaks(&[f64::NAN, 2.0, 5.0, 5.0], Extreme::Max, 2, &mut peaks);
    assert_eq!(peaks, [Some(Peak { at: 2, value: 5.0 }), None]);
    trim_peaks(&[f64::NAN; 3], Extreme::Min, 1, &mut peaks);
    assert_eq!(peaks, [None, None]);
}

#[test]
fn nan_and_infinity_spread_to_their_window() {
    let window = [1.0, f64::NAN, 3.0, 4.0];
    let mut row = [0.0; 2];
    Quantiles::new(&[0.0, 1.0]).unwrap().row(&window, &mut row);
    assert!(row.iter().all(|x| x.is_nan()) && rms(&window, false).is_nan());
    assert_eq!(rms(&[1.0, f64::INFINITY], false), f64::INFINITY);
    let mut row = [0.0; 4];
    Envelope::new(4).row(&window, &mut row);
    assert!(row.iter().all(|x| x.is_nan()));
}

#[test]
fn parameters_out_of_range_are_errors_that_name_them() {
    let said = |error: DspError, parts: &[&str]| {
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    said(
        Haar::<f64>::new(12, 3, HaarOutput::Energies).err().unwrap(),
        &["levels=3", "from 1 to 2", "12"],
    );
    said(
        Haar::<f64>::new(12, 0, HaarOutput::Energies).err().unwrap(),
        &["levels=0"],
    );
    said(
        Quantiles::<f64>::new(&[1.5]).err().unwrap(),
        &["1.5", "from 0 to 1"],
    );
    said(Quantiles::<f64>::new(&[]).err().unwrap(), &["one or more"]);
    let score = Score::<f64>::new(&[1.0; 8], false, Detrend::None, &[1.0; 4], Normalise::None);
    said(score.err().unwrap(), &["4 numbers", "5 frequencies"]);
    for (names, found) in [
        (
            HaarOutput::NAMES.to_vec(),
            HaarOutput::named("energies").is_some(),
        ),
        (
            Normalise::NAMES.to_vec(),
            Normalise::named("total").is_some(),
        ),
    ] {
        assert!(found, "{names:?}");
    }
    assert_eq!(
        (
            HaarOutput::named("x"),
            Normalise::named("x"),
            Extreme::named("x")
        ),
        (None, None, None)
    );
}
