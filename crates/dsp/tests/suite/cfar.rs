//! CFAR detectors against definitions and promised rates.

use crate::streams::{Random, bits, in_parts};
use isochrony_dsp::detect::{CellCfar, Noise, NoiseCfar, Sides, thresholds};
use proptest::prelude::*;
use std::ops::Range;

fn close(got: f64, want: f64, relative: f64) {
    assert!((got - want).abs() <= relative * want.abs(), "{got} {want}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn cell_levels_equal_their_definition(
        power in prop::collection::vec(0.0f64..9.0, 1..120), training in 1usize..9, guard in 0usize..4,
        both in any::<bool>(), rank in prop::option::of(0.05f64..=1.0), cuts in prop::collection::vec(1usize..50, 1..4),
    ) {
        let (pfa, n) = (1e-2, if both { 2 * training } else { training });
        let sides = if both { Sides::Both } else { Sides::Before };
        let noise = rank.map_or(Noise::Mean { degrees: 2 }, |at| Noise::Rank { at });
        let mut kernel = CellCfar::new(pfa, training, guard, sides, noise).unwrap();
        let got = in_parts(&power, &cuts, |values, results| kernel.run(values, results));
        for (at, got) in got.iter().enumerate() {
            if (at as u64) < kernel.skip() {
                prop_assert_eq!(*got, 0.0);
                continue;
            }
            let tested = at - kernel.lag() as usize;
            let mut cells = power[tested - guard - training..tested - guard].to_vec();
            if both {
                cells.extend(&power[tested + guard + 1..=tested + guard + training]);
            }
            let threshold = match rank {
                None => n as f64 * (pfa.powf(-1.0 / n as f64) - 1.0) * cells.iter().sum::<f64>() / n as f64,
                Some(part) => {
                    let rank = ((part * n as f64).round() as usize).max(1);
                    cells.sort_by(f64::total_cmp);
                    thresholds::of_rank(pfa, n, rank).unwrap() * cells[rank - 1]
                }
            };
            prop_assert!((got - power[tested] / threshold).abs() <= 1e-13 * got, "{} at {}", got, at);
        }
        kernel.reset();
        prop_assert_eq!(bits(&in_parts(&power, &[power.len()], |v, r| kernel.run(v, r))), bits(&got));
    }

    #[test]
    fn levels_over_running_noise_do_not_depend_on_cuts(
        seed in any::<u64>(), memory in 8u64..40, cuts in prop::collection::vec(1usize..90, 1..5),
    ) {
        let mut random = Random(seed);
        let scores: Vec<f64> = (0..400).map(|k| random.gaussian() + if k > 300 { 9.0 } else { 0.0 }).collect();
        let mut kernel = NoiseCfar::new(3.0, memory, 20).unwrap();
        let got = in_parts(&scores, &cuts, |values, results| kernel.run(values, results));
        kernel.reset();
        prop_assert_eq!(bits(&in_parts(&scores, &[400], |v, r| kernel.run(v, r))), bits(&got));
    }
}

#[test]
fn factors_are_those_of_scipy() {
    // scipy 1.17: stats.f.sf(ratio, above, below), stats.f.isf(pfa, degrees, degrees * cells) (at 1e-9 its formula),
    // stats.t.isf(pfa, n - 1) * sqrt(1 + 1 / n), stats.truncnorm(-inf, limit).
    for (above, below, ratio, want) in [
        (2.0, 2.0, 1.0, 0.5),
        (1.0, 32.0, 9.0, 0.005_194_704_405_810_747_5),
        (2.0, 64.0, 12.5, 2.613_839_729_723_332e-5),
        (7.0, 500.0, 3.0, 0.004_284_970_247_635_596),
        (1.0, 1.0, 1e4, 0.006_365_985_529_814_51),
        (1.0, 1999.0, 40.0, 3.124_549_460_222_342_4e-10),
    ] {
        close(thresholds::f_tail(above, below, ratio), want, 1e-11);
    }
    for (pfa, cells, degrees, want) in [
        (1e-3, 16, 2, 8.638_824_416_951_87),
        (1e-3, 16, 1, 16.120_195_507_301_435),
        (1e-6, 32, 1, 36.340_796_111_288_576),
        (1e-2, 8, 8, 2.802_735_582_136_856),
        (1e-9, 64, 2, 24.471_822_550_905_58),
    ] {
        close(
            thresholds::of_mean(pfa, cells, degrees).unwrap(),
            want,
            1e-10,
        );
    }
    for (pfa, count, want) in [
        (1e-3, 199.0, 3.139_760_810_825_138_5),
        (1e-2, 1999.0, 2.328_797_983_499_004),
        (1e-6, 99.0, 5.080_651_762_878_029),
    ] {
        close(thresholds::of_deviation(pfa, count).unwrap(), want, 1e-10);
    }
    for (limit, mean, variance) in [
        (1.0, -0.287_599_970_939_178_4, 0.629_686_285_776_605_5),
        (2.33, -0.026_690_806_571_474_063, 0.937_098_021_533_029_6),
        (4.0, -0.000_133_834_464_468_575_2, 0.999_464_644_230_461_8),
    ] {
        let got = thresholds::cut_above(limit);
        close(got.0, mean, 1e-6);
        close(got.1, variance, 1e-6);
    }
    close(
        thresholds::of_rank(1e-3, 16, 12).unwrap(),
        7.421_411_314_149_085,
        1e-10,
    );
    close(
        thresholds::of_rank(1e-6, 32, 24).unwrap(),
        14.398_524_731_261_793,
        1e-10,
    );
}

/// Within 20 %, 6 standard deviations of 36 / 0.2^2 = 900 independent alarms. Neighbours share cells, not tested
/// numbers.
fn false_alarms(name: &str, pfa: f64, count: usize, levels: impl Iterator<Item = f64>) {
    let alarms = levels.filter(|&level| level >= 1.0).count();
    let expected = pfa * count as f64;
    assert!(expected >= 900.0, "{name}: too few numbers");
    let ratio = alarms as f64 / expected;
    assert!(
        (0.8..1.2).contains(&ratio),
        "{name}: {alarms} alarms, {expected} promised"
    );
}

#[test]
fn cells_raise_as_many_false_alarms_as_promised() {
    let count = 1_500_000;
    let mut random = Random(1);
    let exponential: Vec<f64> = (0..count).map(|_| 1e-6 * random.exponential()).collect();
    let squares: Vec<f64> = (0..count).map(|_| random.gaussian().powi(2)).collect();
    let mut levels = vec![0.0; count];
    for (pfa, training, sides) in [
        (1e-3, 16, Sides::Both),
        (1e-2, 8, Sides::Before),
        (1e-3, 100, Sides::Before),
    ] {
        for (name, noise, power) in [
            ("mean", Noise::Mean { degrees: 2 }, &exponential),
            ("mean of squares", Noise::Mean { degrees: 1 }, &squares),
            ("rank", Noise::Rank { at: 0.75 }, &exponential),
        ] {
            let mut kernel = CellCfar::new(pfa, training, 2, sides, noise).unwrap();
            kernel.run(power, &mut levels);
            let skip = kernel.skip() as usize;
            false_alarms(name, pfa, count - skip, levels[skip..].iter().copied());
        }
    }
}

#[test]
fn running_noise_raises_as_many_false_alarms_as_promised() {
    let count = 1_500_000;
    let mut random = Random(2);
    let scores: Vec<f64> = (0..count).map(|_| 70.0 + 3.0 * random.gaussian()).collect();
    let mut levels = vec![0.0; count];
    for (pfa, memory) in [(1e-3, 100), (1e-3, 2000), (1e-2, 100), (0.05, 50)] {
        let mut kernel = NoiseCfar::with_probability(pfa, memory, 1000).unwrap();
        kernel.run(&scores, &mut levels);
        let from = memory as usize;
        false_alarms(
            &format!("memory {memory}"),
            pfa,
            count - from,
            levels[from..].iter().copied(),
        );
    }
}

#[test]
fn targets_are_detected_as_often_as_theory_says() {
    // Swerling's first case: a target's cell is (1 + snr) times as strong: Pd = (1 + T / (N (1 + snr)))^-N. One cell in
    // 64 has a target, outside others' training cells.
    let (pfa, training, guard) = (1e-3, 16, 2);
    for snr_db in [5.0, 10.0, 15.0, 20.0] {
        let snr = 10f64.powf(snr_db / 10.0);
        let mut random = Random(3);
        let mut power: Vec<f64> = (0..640_000).map(|_| random.exponential()).collect();
        power
            .iter_mut()
            .skip(32)
            .step_by(64)
            .for_each(|cell| *cell *= 1.0 + snr);
        let mut kernel = CellCfar::new(
            pfa,
            training,
            guard,
            Sides::Both,
            Noise::Mean { degrees: 2 },
        )
        .unwrap();
        let mut levels = vec![0.0; power.len()];
        kernel.run(&power, &mut levels);
        let tested = levels[kernel.lag() as usize..].iter().skip(32).step_by(64);
        let (mut hits, mut trials) = (0.0, 0.0);
        for &level in tested {
            trials += 1.0;
            hits += f64::from(u8::from(level >= 1.0));
        }
        let n = 2.0 * training as f64;
        let factor = thresholds::of_mean(pfa, 2 * training, 2).unwrap() / n;
        let want = (1.0 + factor / (1.0 + snr)).powf(-n);
        let deviation = (want * (1.0 - want) / trials).sqrt();
        assert!(
            (hits / trials - want).abs() < 5.0 * deviation,
            "{snr_db} dB: {} of {trials}, theory {want}",
            hits
        );
    }
}

#[test]
fn a_detection_does_not_become_noise_and_a_lasting_step_does_after_the_timeout() {
    let mut random = Random(4);
    let (memory, timeout) = (200, 500);
    let mut scores: Vec<f64> = (0..20_000).map(|_| random.gaussian()).collect();
    scores[5_000..5_400]
        .iter_mut()
        .for_each(|score| *score += 10.0); // shorter than the timeout
    scores[10_000..].iter_mut().for_each(|score| *score += 10.0); // lasts
    let mut levels = vec![0.0; scores.len()];
    NoiseCfar::new(5.0, memory, timeout)
        .unwrap()
        .run(&scores, &mut levels);
    let detected =
        |range: Range<usize>| levels[range].iter().filter(|&&level| level >= 1.0).count();
    assert_eq!(detected(200..5_000), 0);
    assert_eq!(detected(5_000..5_400), 400); // it did not raise its own threshold
    assert_eq!(detected(5_400..10_000), 0);
    assert_eq!(detected(10_000..10_500), 500);
    assert_eq!(detected(10_000 + 500 + 5 * 200..20_000), 0);
    scores[19_000] += 10.0;
    NoiseCfar::new(5.0, memory, timeout)
        .unwrap()
        .run(&scores, &mut levels);
    assert!(levels[19_000] >= 1.0);
}

#[test]
fn nan_and_infinite_scores_do_not_enter_the_noise() {
    let mut random = Random(5);
    let mut scores: Vec<f64> = (0..1000).map(|_| random.gaussian()).collect();
    let mut clean = vec![0.0; 1000];
    NoiseCfar::new(4.0, 50, 100)
        .unwrap()
        .run(&scores, &mut clean);
    let mut more = scores.clone();
    for (at, what) in [
        (500, f64::NAN),
        (600, f64::INFINITY),
        (700, f64::NEG_INFINITY),
    ] {
        more.insert(at, what);
    }
    let mut levels = vec![0.0; more.len()];
    NoiseCfar::new(4.0, 50, 100)
        .unwrap()
        .run(&more, &mut levels);
    assert!(levels[500].is_nan());
    assert_eq!(
        (levels[600], levels[700]),
        (f64::INFINITY, f64::NEG_INFINITY)
    );
    for at in [700, 600, 500] {
        levels.remove(at);
    }
    assert_eq!(bits(&levels), bits(&clean));
    // A constant has no deviation: other values are infinitely far.
    scores.fill(7.0);
    scores[800] = 7.5;
    NoiseCfar::new(4.0, 50, 100)
        .unwrap()
        .run(&scores, &mut levels);
    assert_eq!(
        (levels[799], levels[800], levels[801]),
        (0.0, f64::INFINITY, 0.0)
    );
}
