//! Spectra and detrending against their definitions.

use isochrony_dsp::DspError;
use isochrony_dsp::spectrum::{
    Average, Detrend, Forward, Inverse, Power, Precision, Scaling, Shaper, Welch, frequencies,
    frequencies_hz, median_bias,
};
use num_complex::Complex;
use proptest::prelude::*;

fn values(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1000.0f64..1000.0, len)
}

fn line(window: &[f64], detrend: Detrend) -> Vec<f64> {
    let n = window.len() as f64;
    let mean = window.iter().sum::<f64>() / n;
    let middle = (n - 1.0) / 2.0;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (i, y) in window.iter().enumerate() {
        xy += (i as f64 - middle) * (y - mean);
        xx += (i as f64 - middle).powi(2);
    }
    let slope = if xx > 0.0 && detrend == Detrend::Linear {
        xy / xx
    } else {
        0.0
    };
    let mean = if detrend == Detrend::None { 0.0 } else { mean };
    (0..window.len())
        .map(|i| mean + slope * (i as f64 - middle))
        .collect()
}

fn shaped<T: Precision>(window: &[T], factors: &[f64], complex: bool, detrend: Detrend) -> Vec<T> {
    let mut out = vec![T::zero(); window.len()];
    Shaper::new(factors, complex, detrend).row(window, &mut out);
    out
}

const DETRENDS: [Detrend; 3] = [Detrend::None, Detrend::Constant, Detrend::Linear];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn inverse_restores_the_window(window in values(2..200), complex in any::<bool>()) {
        let width = if complex { window.len() / 2 } else { window.len() };
        let window = &window[..if complex { 2 * width } else { width }];
        let (mut forward, mut inverse) = (Forward::new(width, complex, &[], Detrend::None), Inverse::new(width, complex));
        forward.transform(window, inverse.spectrum());
        let mut back = vec![0.0; window.len()];
        inverse.window(&mut back);
        for (back, x) in back.iter().zip(window) {
            // log2(200) < 8 stages there and back, a few roundings of the norm (1000 sqrt(200)) each.
            prop_assert!((back - x).abs() < 1e-11, "{} {}", back, x);
        }
    }

    #[test]
    fn detrending_takes_the_line_of_least_squares(window in values(1..120), offset in -1e6f64..1e6, slope in -100f64..100.0, which in 0usize..3) {
        let detrend = DETRENDS[which];
        let window: Vec<f64> = window.iter().enumerate().map(|(i, x)| x + offset + slope * i as f64).collect();
        let factors: Vec<f64> = (0..window.len()).map(|i| 1.0 + (i % 3) as f64).collect();
        let got = shaped(&window, &factors, false, detrend);
        for (i, ((got, x), trend)) in got.iter().zip(&window).zip(line(&window, detrend)).enumerate() {
            // Offsets of 1e6, sums of 120, and a slope of the same magnitude.
            prop_assert!((got - (x - trend) * factors[i]).abs() < 1e-7 * factors[i]);
        }
    }

    #[test]
    fn detrended_f32_does_not_depend_on_the_offset(window in prop::collection::vec(-100i16..100, 2..200)) {
        // Exact in f32, far from zero.
        let near: Vec<f32> = window.iter().map(|&x| f32::from(x)).collect();
        let far: Vec<f32> = near.iter().map(|x| x + 4_194_304.0).collect();
        let ones = vec![1.0; window.len()];
        let (a, b) = (shaped(&near, &ones, false, Detrend::Constant), shaped(&far, &ones, false, Detrend::Constant));
        for (a, b) in a.iter().zip(b) {
            // Mean of 200 numbers of 2^22 in f64, then one f32 rounding below 2^8.
            prop_assert!((a - b).abs() <= 2e-5, "{} {}", a, b);
        }
    }

    #[test]
    fn real_and_imaginary_parts_are_detrended_separately(window in values(2..120), which in 0usize..3) {
        let detrend = DETRENDS[which];
        let pairs = &window[..window.len() / 2 * 2];
        let factors = vec![2.0; pairs.len() / 2];
        let got = shaped(pairs, &factors, true, detrend);
        for part in 0..2 {
            let own: Vec<f64> = pairs.iter().skip(part).step_by(2).copied().collect();
            prop_assert_eq!(shaped(&own, &factors, false, detrend), got.iter().skip(part).step_by(2).copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn welch_averages_the_spectra_of_its_segments(
        window in values(8..200), nfft in 2usize..60, hop in 1usize..60, complex in any::<bool>(), density in any::<bool>(),
    ) {
        let numbers = if complex { 2 } else { 1 };
        let width = window.len() / numbers;
        prop_assume!(nfft <= width);
        let window = &window[..numbers * width];
        let factors: Vec<f64> = (0..nfft).map(|i| 1.0 + (i % 5) as f64).collect();
        let scaling = if density { Scaling::Density } else { Scaling::Spectrum };
        let bins = frequencies(nfft, complex);
        let mut power = Power::new(&factors, complex, Detrend::Constant, scaling, 250.0);
        let parts: Vec<Vec<f64>> = (0..).map(|k| numbers * hop * k).take_while(|at| at + numbers * nfft <= window.len()).map(|at| {
            let mut row = vec![0.0; bins];
            power.row(&window[at..][..numbers * nfft], &mut row);
            row
        }).collect();
        for average in [Average::Mean, Average::Median] {
            let welch = Welch::new(width, complex, &factors, hop, Detrend::Constant, scaling, average, 250.0);
            let mut welch = welch.unwrap();
            let mut row = vec![0.0; welch.bins()];
            welch.row(window, &mut row);
            for (bin, got) in row.iter().enumerate() {
                let mut powers: Vec<f64> = parts.iter().map(|part| part[bin]).collect();
                powers.sort_by(f64::total_cmp);
                let middle = 0.5 * (powers[(powers.len() - 1) / 2] + powers[powers.len() / 2]);
                let want = match average {
                    Average::Mean => powers.iter().sum::<f64>() / powers.len() as f64,
                    Average::Median => middle / median_bias(powers.len()),
                };
                // At most 200 additions, and one rounding of the scale each.
                prop_assert!((got - want).abs() <= 250.0 * f64::EPSILON * want, "{} {}", got, want);
            }
        }
    }
}

#[test]
fn median_bias_matches_known_values() {
    // Allen et al., equation (C4).
    let known = [1.0, 1.0, 5.0 / 6.0, 5.0 / 6.0, 47.0 / 60.0];
    for (count, want) in (1..).zip(known) {
        assert!((median_bias(count) - want).abs() < 1e-15, "{count}");
    }
    assert!((median_bias(100_001) - std::f64::consts::LN_2).abs() < 1e-5);
}

#[test]
fn windows_of_another_length_change_nothing() {
    let mut forward = Forward::<f64>::new(8, false, &[], Detrend::None);
    let mut out = [Complex::new(7.0, 7.0); 5];
    forward.transform(&[1.0; 7], &mut out);
    forward.transform(&[1.0; 8], &mut out[..4]);
    assert_eq!(out, [Complex::new(7.0, 7.0); 5]);
    assert_eq!((forward.width(), forward.is_complex()), (8, false));
}

#[test]
fn imaginary_parts_at_zero_and_nyquist_are_ignored() {
    let mut inverse = Inverse::<f64>::new(4, false);
    let spectrum = [
        Complex::new(4.0, 9.0),
        Complex::new(0.0, 0.0),
        Complex::new(0.0, -9.0),
    ];
    inverse.spectrum().copy_from_slice(&spectrum);
    let mut window = [0.0; 4];
    inverse.window(&mut window);
    assert_eq!(window, [1.0; 4]);
}

#[test]
fn rejects_segments_that_do_not_fit() {
    let welch = |nfft: usize, hop| {
        Welch::<f64>::new(
            10,
            false,
            &vec![1.0; nfft],
            hop,
            Detrend::None,
            Scaling::Density,
            Average::Mean,
            1.0,
        )
        .err()
    };
    let text = |error: Option<DspError>| error.unwrap().to_string();
    assert!(text(welch(11, 1)).contains("nfft=11 must be samples from 1 to the window's 10"));
    assert!(text(welch(5, 0)).contains("hop=0"));
    assert!(welch(10, 99).is_none());
    assert_eq!(frequencies_hz(5, 10.0, true), [0.0, 2.0, 4.0, -4.0, -2.0]);
    assert_eq!(
        (
            Detrend::named("x"),
            Scaling::named("x"),
            Average::named("x")
        ),
        (None, None, None)
    );
}
