//! Sliding-window statistics against their definitions.

use crate::streams::{bits, in_parts};
use isochrony_dsp::DspError;
use isochrony_dsp::running::{
    MOST_SAMPLES, RankHeaps, RunningMean, RunningQuantile, RunningRms, SlidingSum,
};
use proptest::prelude::*;

const EPSILON: f64 = 1.2e-16; // slightly above 2^-53

fn window<T>(values: &[T], at: usize, window: usize) -> &[T] {
    &values[(at + 1).saturating_sub(window)..=at]
}

fn quantile(values: &[f64], at: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = at * (sorted.len() - 1) as f64;
    let (low, high) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    low + (high - low) * place.fract()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn sums_means_and_rms_are_those_of_their_windows(
        values in prop::collection::vec(-1e3f64..1e3, 1..400), width in 1usize..60,
        cuts in prop::collection::vec(1usize..90, 1..5),
    ) {
        let mut mean = RunningMean::new(width).unwrap();
        let means = in_parts(&values, &cuts, |values, results| mean.run(values, results));
        let mut rms = RunningRms::new(width).unwrap();
        let roots = in_parts(&values, &cuts, |values, results| rms.run(values, results));
        for at in 0..values.len() {
            let window = window(&values, at, width);
            let n = window.len() as f64;
            // n - 1 additions and a quotient, in both.
            let size = window.iter().map(|x| x.abs()).sum::<f64>() / n;
            let want = window.iter().sum::<f64>() / n;
            prop_assert!((means[at] - want).abs() <= 2.0 * (n + 1.0) * EPSILON * size, "{} {}", means[at], want);
            let want = (window.iter().map(|x| x * x).sum::<f64>() / n).sqrt();
            prop_assert!((roots[at] - want).abs() <= 2.0 * (n + 3.0) * EPSILON * want, "{} {}", roots[at], want);
        }
        // In one pass, and after a reset.
        let mut whole = RunningMean::new(width).unwrap();
        prop_assert_eq!(bits(&in_parts(&values, &[values.len()], |v, r| whole.run(v, r))), bits(&means));
        rms.reset();
        prop_assert_eq!(bits(&in_parts(&values, &[values.len()], |v, r| rms.run(v, r))), bits(&roots));
    }

    #[test]
    fn quantiles_are_those_of_their_windows(
        values in prop::collection::vec((0u8..12).prop_map(f64::from), 1..300), width in 1usize..50, at in 0.0..=1.0f64,
        cuts in prop::collection::vec(1usize..90, 1..5),
    ) {
        let mut kernel = RunningQuantile::new(width, at).unwrap();
        let got = in_parts(&values, &cuts, |values, results| kernel.run(values, results));
        for (k, got) in got.iter().enumerate() {
            let want = quantile(window(&values, k, width), at);
            // Two roundings of numbers up to 12.
            prop_assert!((got - want).abs() <= 4.0 * 12.0 * EPSILON, "{got} {want} at {k}");
        }
        kernel.reset();
        prop_assert_eq!(bits(&in_parts(&values, &[values.len()], |v, r| kernel.run(v, r))), bits(&got));
    }

    /// Windows sorted as f32 or f64, heaps, and switches between them.
    #[test]
    fn quantiles_equal_those_of_sorted_windows(
        values in prop::collection::vec(prop_oneof![
            8 => (-40i8..40).prop_map(f64::from),
            8 => -1e3f64..1e3,
            4 => prop::sample::select(vec![0.0, -0.0]),
            1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX, 5e-324]),
        ], 1..900),
        doubles_from in 0usize..900, width in prop_oneof![1usize..40, 1usize..330], at in 0.0..=1.0f64,
        cuts in prop::collection::vec(1usize..200, 1..5),
    ) {
        let values = values.iter().enumerate();
        let values: Vec<f64> = values.map(|(k, &value)| if k < doubles_from { f64::from(value as f32) } else { value }).collect();
        let mut kernel = RunningQuantile::new(width, at).unwrap();
        let got = in_parts(&values, &cuts, |values, results| kernel.run(values, results));
        for (k, &got) in got.iter().enumerate() {
            let mut sorted = window(&values, k, width).to_vec();
            sorted.sort_by(f64::total_cmp);
            let place = at * (sorted.len() - 1) as f64;
            let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            if sorted.iter().any(|value| value.is_nan()) {
                prop_assert!(got.is_nan(), "{got} at {k}");
            } else if low == high || place.fract() == 0.0 {
                // -0 before 0.
                prop_assert_eq!(got.to_bits(), low.to_bits(), "{} {} at {}", got, low, k);
            } else if low.is_infinite() || high.is_infinite() {
                let want = low + high;
                prop_assert!(got == want || got.is_nan() && want.is_nan(), "{got} {want} at {k}");
            } else {
                let want = low * (1.0 - place.fract()) + high * place.fract();
                let size = low.abs().max(high.abs());
                prop_assert!((got - want).abs() <= 8.0 * EPSILON * size, "{got} {want} at {k}");
            }
        }
        kernel.reset();
        prop_assert_eq!(bits(&in_parts(&values, &[values.len()], |v, r| kernel.run(v, r))), bits(&got));
    }

    #[test]
    fn f32_quantiles_equal_those_of_f64(
        values in prop::collection::vec(-1e3f32..1e3, 1..700), width in 1usize..300, at in 0.0..=1.0f64,
    ) {
        let doubles: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
        let (mut single, mut double) = (vec![0f32; values.len()], vec![0f64; values.len()]);
        RunningQuantile::new(width, at).unwrap().run(&values, &mut single);
        // Numbers inexact in f32 force f64 keys.
        let mut kernel = RunningQuantile::new(width, at).unwrap();
        kernel.run(&[0.1], &mut [0.0]);
        kernel.reset();
        kernel.run(&doubles, &mut double);
        for (single, double) in single.iter().zip(&double) {
            prop_assert_eq!(single.to_bits(), (*double as f32).to_bits());
        }
    }

    #[test]
    fn ranked_numbers_equal_a_sorted_list(
        steps in prop::collection::vec((0usize..9, -5i8..5, 1usize..10), 1..200),
    ) {
        let mut ranked = RankHeaps::new(9);
        let mut slots = [None; 9];
        for (slot, number, below) in steps {
            ranked.set(slot, f64::from(number));
            slots[slot] = Some(number);
            let mut sorted: Vec<_> = slots.iter().flatten().copied().collect();
            sorted.sort_unstable();
            let below = below.min(sorted.len());
            ranked.divide(below);
            prop_assert_eq!(ranked.below(), Some(f64::from(sorted[below - 1])));
            prop_assert_eq!(ranked.above(), sorted.get(below).map(|&number| f64::from(number)));
        }
    }
}

#[test]
fn sums_forget_samples_outside_the_window() {
    // Integers around 1e30 or infinity, after which a running sum with subtraction would be off by 1e14 or NaN.
    for huge in [1e30, f64::INFINITY, f64::NAN] {
        let width = 1000;
        let mut sum = SlidingSum::new(width);
        sum.prepare();
        for at in 0..20_000u64 {
            let value = if (3_000..3_500).contains(&at) {
                huge
            } else {
                (at % 7) as f64
            };
            let got = sum.add(value);
            if (3_000..4_499).contains(&at) {
                assert!(got >= huge || got.is_nan(), "{at}: {got}");
                continue;
            }
            let from = (at + 1).saturating_sub(width as u64);
            let want: u64 = (from..=at).map(|at| at % 7).sum();
            assert_eq!(got, want as f64, "{huge} at {at}"); // integers add exactly
        }
    }
}

#[test]
fn nan_and_infinities_reach_the_windows_that_have_them() {
    let mut values = vec![1.0; 30];
    values[8] = f64::NAN;
    values[20] = f64::NEG_INFINITY;
    let (mut results, mut quantiles) = (vec![0.0; 30], vec![0.0; 30]);
    RunningMean::new(5).unwrap().run(&values, &mut results);
    RunningQuantile::new(5, 0.5)
        .unwrap()
        .run(&values, &mut quantiles);
    for at in 0..30 {
        assert_eq!(results[at].is_nan(), (8..13).contains(&at), "{at}");
        assert_eq!(
            results[at] == f64::NEG_INFINITY,
            (20..25).contains(&at),
            "{at}"
        );
        assert_eq!(quantiles[at].is_nan(), (8..13).contains(&at), "{at}");
        assert!(quantiles[at].is_nan() || quantiles[at] == 1.0, "{at}");
    }
    let mut least = [0.0; 2];
    RunningQuantile::new(2, 0.25)
        .unwrap()
        .run(&[f64::NEG_INFINITY, 3.0], &mut least);
    assert_eq!(least, [f64::NEG_INFINITY; 2]);
}

#[test]
fn f32_samples_are_computed_in_f64_and_rounded_once() {
    let values: Vec<f32> = (0..500).map(|k| (k as f32 * 0.37).sin()).collect();
    let doubles: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
    let (mut single, mut double) = (vec![0f32; 500], vec![0f64; 500]);
    RunningRms::new(64).unwrap().run(&values, &mut single);
    RunningRms::new(64).unwrap().run(&doubles, &mut double);
    for (single, double) in single.iter().zip(&double) {
        assert_eq!(*single, *double as f32);
    }
}

#[test]
fn windows_and_quantiles_outside_their_range_are_refused() {
    let refused = |error: DspError, parts: &[&str]| {
        let message = error.to_string();
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    };
    refused(
        RunningMean::new(0).unwrap_err(),
        &["running_mean", "window=0 samples", "change window"],
    );
    refused(
        RunningRms::new(MOST_SAMPLES + 1).unwrap_err(),
        &["running_rms", "268435457"],
    );
    refused(
        RunningQuantile::new(5, 1.5).unwrap_err(),
        &["running_quantile", "q=1.5", "from 0 to 1"],
    );
    refused(RunningQuantile::new(5, f64::NAN).unwrap_err(), &["q=NaN"]);
}
