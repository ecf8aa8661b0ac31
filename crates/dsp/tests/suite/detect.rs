//! STA/LTA and triggers against their definitions.

use crate::streams::{bits, in_parts};
use isochrony_dsp::DspError;
use isochrony_dsp::detect::{
    CellCfar, ClassicStaLta, Grid, Noise, NoiseCfar, RecursiveStaLta, Sides, Triggers,
};
use isochrony_dsp::running::SlidingSum;
use proptest::prelude::*;
use std::ops::Range;

const EPSILON: f64 = 1.2e-16; // slightly above 2^-53

fn slow_triggers(values: &[f64], on: f64, off: f64, least: u64, merge: u64) -> Vec<Range<i64>> {
    let mut found: Vec<Range<i64>> = Vec::new();
    let mut k = 0;
    while k < values.len() {
        if values[k] >= on {
            let start = k as i64;
            while k < values.len() && values[k] >= off {
                k += 1;
            }
            match found.last_mut() {
                Some(last) if start - last.end <= merge as i64 => last.end = k as i64,
                _ => found.push(start..k as i64),
            }
        } else {
            k += 1;
        }
    }
    found.retain(|range| (range.end - range.start) as u64 >= least);
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Block sums in order, and averages flushed to 0 instead of subnormal.
    #[test]
    fn vectorised_ratios_have_the_bits_of_serial_ones(
        values in prop::collection::vec(prop_oneof![
            8 => -1e3f64..1e3, 2 => -1e-155f64..1e-155, 2 => Just(0.0), 1 => Just(f64::NAN)
        ], 1..900),
        quiet in 0usize..900, sta in 1usize..40, more in 1usize..200, cuts in prop::collection::vec(1usize..300, 1..5),
    ) {
        let lta = sta + more;
        let values: Vec<f64> = values.iter().enumerate().map(|(k, &value)| if k < quiet { value } else { value * 1e-200 }).collect();
        let mut sums = [SlidingSum::new(sta), SlidingSum::new(lta)];
        sums.iter_mut().for_each(SlidingSum::prepare);
        let classic: Vec<f64> = values.iter().enumerate().map(|(k, &value)| {
            let [short, long] = sums.each_mut().map(|sum| sum.add(value * value));
            let least = f64::MIN_POSITIVE * lta as f64;
            let long = if long < least { least } else { long };
            if k + 1 < lta { 0.0 } else { short * (lta as f64 / sta as f64) / long }
        }).collect();
        let mut kernel = ClassicStaLta::new(sta, lta).unwrap();
        prop_assert_eq!(bits(&in_parts(&values, &cuts, |v, r| kernel.run(v, r))), bits(&classic));
        let (gains, mut averages) = ([1.0 / sta as f64, 1.0 / lta as f64], [0.0f64; 2]);
        let recursive: Vec<f64> = values.iter().enumerate().map(|(k, &value)| {
            for (average, gain) in averages.iter_mut().zip(gains).filter(|_| k > 0) {
                let next = gain * (value * value) + (1.0 - gain) * *average;
                *average = if next < f64::MIN_POSITIVE { 0.0 } else { next };
            }
            let long = if averages[1] < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { averages[1] };
            if k < lta { 0.0 } else { averages[0] / long }
        }).collect();
        let mut kernel = RecursiveStaLta::new(sta, lta).unwrap();
        prop_assert_eq!(bits(&in_parts(&values, &cuts, |v, r| kernel.run(v, r))), bits(&recursive));
    }

    #[test]
    fn classic_stalta_is_the_ratio_of_means(
        values in prop::collection::vec(-1e3f64..1e3, 1..400), sta in 1usize..20, more in 1usize..60,
        cuts in prop::collection::vec(1usize..90, 1..5),
    ) {
        let lta = sta + more;
        let mut kernel = ClassicStaLta::new(sta, lta).unwrap();
        let got = in_parts(&values, &cuts, |values, results| kernel.run(values, results));
        let mean = |at: usize, n: usize| values[at + 1 - n..=at].iter().map(|x| x * x).sum::<f64>() / n as f64;
        for (at, got) in got.iter().enumerate() {
            if at + 1 < lta {
                prop_assert_eq!(*got, 0.0);
                continue;
            }
            let want = mean(at, sta) / mean(at, lta);
            prop_assert!((got - want).abs() <= 2.0 * (sta + lta + 4) as f64 * EPSILON * want, "{} {}", got, want);
        }
        kernel.reset();
        prop_assert_eq!(bits(&in_parts(&values, &[values.len()], |v, r| kernel.run(v, r))), bits(&got));
    }

    #[test]
    fn recursive_stalta_is_its_recurrence(
        values in prop::collection::vec(-1e3f64..1e3, 1..400), sta in 1usize..20, more in 1usize..60,
        cuts in prop::collection::vec(1usize..90, 1..5),
    ) {
        let lta = sta + more;
        let mut kernel = RecursiveStaLta::new(sta, lta).unwrap();
        let got = in_parts(&values, &cuts, |values, results| kernel.run(values, results));
        // All but the first, weighted by age.
        let weighed = |at: usize, n: usize| -> f64 {
            let gain = 1.0 / n as f64;
            (1..=at).map(|k| gain * (1.0 - gain).powi((at - k) as i32) * values[k] * values[k]).sum()
        };
        for (at, got) in got.iter().enumerate() {
            let want = if at < lta { 0.0 } else { weighed(at, sta) / weighed(at, lta) };
            // A few roundings per sample of age.
            prop_assert!((got - want).abs() <= 8.0 * (at + 1) as f64 * EPSILON * want, "{} {} at {}", got, want, at);
        }
        kernel.reset();
        prop_assert_eq!(bits(&in_parts(&values, &[values.len()], |v, r| kernel.run(v, r))), bits(&got));
    }

    #[test]
    fn triggers_equal_the_serial_definition(
        // Bursts of high numbers among low ones.
        parts in prop::collection::vec((prop::collection::vec(0u8..3, 0..150), prop::collection::vec(0u8..6, 0..20)), 1..8),
        (off, up) in (0u8..4, 0u8..3), least in 1u64..6, merge in 0u64..8,
        cuts in prop::collection::vec(1usize..200, 1..5),
    ) {
        let values: Vec<f64> = parts.into_iter().flat_map(|(low, high)| low.into_iter().chain(high)).map(f64::from).collect();
        let (off, on) = (f64::from(off), f64::from(off + up));
        let mut triggers = Triggers::new(on, off, least, merge).unwrap();
        let mut found = Vec::new();
        let mut at = 0;
        let mut cuts = cuts.iter().cycle();
        while at < values.len() {
            let to = values.len().min(at + cuts.next().unwrap());
            triggers.run(&values[at..to], Grid { start: at as i64, hop: 1, span: 1 }, |range| found.push(range));
            at = to;
        }
        triggers.finish(|range| found.push(range));
        prop_assert_eq!(found, slow_triggers(&values, on, off, least, merge));
    }

}

#[test]
fn ratios_after_a_huge_step_are_exact() {
    // Noise of one count after a step of 1e9. Running sums with subtraction keep an error of 1e18 * 2^-53 * 5000 = 5e5
    // beside a power of 1.
    let (sta, lta) = (50, 2000);
    let noise = |k: u64| if (k * k).is_multiple_of(3) { 1.0 } else { -1.0 };
    let mut values: Vec<f64> = (0..1_000_000).map(noise).collect();
    values[10_000..15_000].fill(1e9);
    let mut ratios = vec![0.0; values.len()];
    ClassicStaLta::new(sta, lta)
        .unwrap()
        .run(&values, &mut ratios);
    // Squares are 1: quiet sums are exact.
    assert!(ratios[lta..10_000].iter().all(|&ratio| ratio == 1.0));
    assert!(ratios[15_000 + lta..].iter().all(|&ratio| ratio == 1.0));
    assert!(
        ratios[10_000..10_000 + sta]
            .iter()
            .all(|&ratio| ratio > 39.0)
    );
    // The recursive one decays: 1e18 after 60 time constants is 1e-8.
    RecursiveStaLta::new(sta, lta)
        .unwrap()
        .run(&values, &mut ratios);
    assert!(
        ratios[15_000 + 80 * lta..]
            .iter()
            .all(|&ratio| (ratio - 1.0).abs() < 1e-11)
    );
}

#[test]
fn silence_has_the_ratio_zero_also_after_sound() {
    let mut values = vec![0.0f32; 300_000];
    values[..1000].fill(0.5);
    let mut ratios = vec![1.0; values.len()];
    ClassicStaLta::new(10, 100)
        .unwrap()
        .run(&values, &mut ratios);
    assert!(ratios[1010..].iter().all(|&ratio| ratio == 0.0));
    RecursiveStaLta::new(10, 100)
        .unwrap()
        .run(&values, &mut ratios);
    assert!(ratios.iter().all(|ratio| ratio.is_finite()));
    assert!(ratios[200_000..].iter().all(|&ratio| ratio == 0.0));
}

#[test]
fn nan_reaches_the_ratios_whose_windows_have_it() {
    let mut values = vec![1.0; 60];
    values[20] = f64::NAN;
    let mut ratios = vec![0.0; 60];
    ClassicStaLta::new(2, 10).unwrap().run(&values, &mut ratios);
    for (at, ratio) in ratios.iter().enumerate() {
        assert_eq!(ratio.is_nan(), (20..30).contains(&at), "{at}");
    }
    RecursiveStaLta::new(2, 10)
        .unwrap()
        .run(&values, &mut ratios);
    assert!(ratios[20..].iter().all(|ratio| ratio.is_nan()));
    let mut found = Vec::new();
    let mut triggers = Triggers::new(0.5, 0.5, 1, 0).unwrap();
    triggers.run(
        &[1.0, f64::NAN, 1.0],
        Grid {
            start: 0,
            hop: 1,
            span: 1,
        },
        |range| found.push(range),
    );
    triggers.finish(|range| found.push(range));
    assert_eq!(found, [0..1, 2..3]);
}

#[test]
fn triggers_of_windows_cover_their_samples() {
    let windows = |start| Grid {
        start,
        hop: 10,
        span: 32,
    };
    let mut triggers = Triggers::new(5.0, 2.0, 33, 0).unwrap();
    let mut found = Vec::new();
    triggers.run(&[0.0, 6.0, 3.0], windows(100), |range| found.push(range));
    assert_eq!((found.len(), triggers.open_from()), (0, Some(110)));
    triggers.run(&[0.0; 9], windows(130), |range| found.push(range));
    triggers.run(&[6.0, 0.0, 0.0, 0.0, 0.0], windows(220), |range| {
        found.push(range)
    });
    assert_eq!(found, vec![110..152]); // the second is of 32 samples
    assert_eq!(triggers.open_from(), None);
}

#[test]
fn parameters_outside_their_range_are_refused() {
    let refused = |error: DspError, parts: &[&str]| {
        let message = error.to_string();
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    };
    refused(
        ClassicStaLta::new(5, 5).unwrap_err(),
        &["stalta", "lta=5 samples", "longer than sta=5"],
    );
    refused(
        RecursiveStaLta::new(0, 5).unwrap_err(),
        &["sta=0 samples", "1 to"],
    );
    refused(
        Triggers::new(1.0, 2.0, 0, 0).unwrap_err(),
        &["triggers", "off=2", "at most on=1"],
    );
    refused(
        Triggers::new(f64::NAN, 2.0, 0, 0).unwrap_err(),
        &["on=NaN", "finite"],
    );
    refused(
        NoiseCfar::new(0.5, 50, 5).unwrap_err(),
        &["cfar", "deviations=0.5", "1 to 1000"],
    );
    refused(
        NoiseCfar::new(5.0, 3, 5).unwrap_err(),
        &["memory=3", "from 8 to 2^52 - 1"],
    );
    refused(
        NoiseCfar::new(5.0, 50, 0).unwrap_err(),
        &["timeout=0", "from 1 to 2^52 - 1"],
    );
    refused(
        NoiseCfar::with_probability(0.5, 50, 5).unwrap_err(),
        &["pfa=0.5", "1e-15 to 0.1"],
    );
    let cells =
        |pfa, training, noise| CellCfar::new(pfa, training, 0, Sides::Both, noise).unwrap_err();
    refused(
        cells(0.0, 5, Noise::Mean { degrees: 2 }),
        &["ca_cfar", "pfa=0"],
    );
    refused(cells(0.01, 0, Noise::Mean { degrees: 2 }), &["training=0"]);
    refused(cells(0.01, 5, Noise::Mean { degrees: 0 }), &["degrees=0"]);
    refused(
        cells(0.01, 5, Noise::Rank { at: 0.0 }),
        &["order=0", "above 0"],
    );
}
