//! Resampling against known tones, and other chunkings.

use isochrony_dsp::resample::{Edges, Quality, Ratio, Resampler};
use isochrony_dsp::spectrum::Precision;
use isochrony_dsp::{DspError, Isa};
use proptest::prelude::*;

const RATIOS: [(u64, u64); 12] = [
    (2, 1),
    (1, 2),
    (3, 1),
    (1, 10),
    (10, 1),
    (160, 147),
    (147, 160),
    (80, 441),
    (1, 1000),
    // Too many phases for rows.
    (47_123_456, 48_000_000),
    (500_000_021, 500_000_000),
    (1_000_003, 12_000_017),
];

fn ratio((up, down): (u64, u64)) -> Ratio {
    Ratio::new(up, down).unwrap()
}

fn resampled<T: Precision>(
    resampler: &mut Resampler<T>,
    start: i64,
    samples: &[T],
    cuts: &[usize],
) -> (i64, Vec<T>) {
    let first = resampler.begin(start).unwrap();
    let (mut results, mut from) = (Vec::new(), 0);
    let mut cuts = cuts.iter().cycle();
    while from < samples.len() {
        let to = samples.len().min(from + cuts.next().unwrap());
        let known = results.len();
        results.resize(known + resampler.ready(to - from), T::zero());
        resampler
            .process(&samples[from..to], &mut results[known..])
            .unwrap();
        from = to;
    }
    let known = results.len();
    results.resize(known + resampler.ready_at_end(), T::zero());
    resampler.finish(&mut results[known..]).unwrap();
    assert_eq!(resampler.next(), first + results.len() as i64);
    (first, results)
}

fn at_once<T: Precision>(
    (up, down): (u64, u64),
    quality: Quality,
    edges: Edges,
    start: i64,
    samples: &[T],
) -> (i64, Vec<T>) {
    let mut resampler = Resampler::new("resample", ratio((up, down)), quality, edges).unwrap();
    resampled(&mut resampler, start, samples, &[usize::MAX / 2])
}

/// Only the fraction of `cycles * place` matters.
fn tone(cycles: f64, place: i128, parts: i128) -> f64 {
    let (whole, rest) = (place.div_euclid(parts), place.rem_euclid(parts));
    // Exact to 1e-12: positions are below 10^6.
    let turns = cycles * whole as f64 + cycles * (rest as f64 / parts as f64);
    (std::f64::consts::TAU * turns.fract() + 0.3).cos()
}

fn tone_error<T: Precision>(pair: (u64, u64), quality: Quality, cycles: f64, stops: bool) -> f64 {
    let start = 123;
    let (up, down) = pair;
    let reach = Resampler::<T>::new("resample", ratio(pair), quality, Edges::Inside).unwrap();
    let reach = reach.reach().0 + reach.reach().1;
    let count = (reach + 100 * down / up + 1000) as i64;
    let samples: Vec<T> = (start..start + count)
        .map(|i| T::of(tone(cycles, i.into(), 1)))
        .collect();
    let (first, results) = at_once(pair, quality, Edges::Inside, start, &samples);
    assert!(results.len() >= 100, "{pair:?}: {}", results.len());
    let mut worst = 0.0f64;
    for (k, &result) in results.iter().enumerate() {
        let place = i128::from(first + k as i64) * i128::from(down);
        let want = if stops {
            0.0
        } else {
            tone(cycles, place, up.into())
        };
        let got: f64 = result.into();
        worst = worst.max((got - want).abs());
    }
    worst
}

fn qualities() -> [Quality; 4] {
    [(40.0, 0.5), (100.0, 0.9), (125.0, 0.92), (160.0, 0.8)].map(|(attenuation_db, passband)| {
        Quality {
            attenuation_db,
            passband,
        }
    })
}

fn is_quick((up, down): (u64, u64)) -> bool {
    down < 100 * up
}

#[test]
fn tones_that_pass_keep_their_values_at_exact_places() {
    for quality in qualities() {
        for pair in RATIOS {
            let low = 0.5 * (pair.0 as f64 / pair.1 as f64).min(1.0);
            let parts: &[f64] = if is_quick(pair) {
                &[0.01, 0.3, 0.77, 1.0]
            } else {
                &[0.9]
            };
            for part in parts {
                let cycles = part * quality.passband * low;
                // A Kaiser design ripples by its attenuation; normalising each phase adds as much, and so does the
                // nearest image on either side.
                let bound = 4.0 * 10f64.powf(-quality.attenuation_db / 20.0);
                // 200 products of f64 below 1, and the phase of the tone.
                let error = tone_error::<f64>(pair, quality, cycles, false);
                assert!(
                    error < bound + 2e-11,
                    "{pair:?} at {part}, {quality:?}: {error:e}"
                );
                // 200 additions of f32 below 1.5 have a standard deviation of 6e-7 in all; the largest of some thousand
                // is within six of these.
                let error = tone_error::<f32>(pair, quality, cycles, false);
                assert!(
                    error < bound + 4e-6,
                    "{pair:?} at {part}, {quality:?}: {error:e}"
                );
            }
        }
    }
}

#[test]
fn stopband_tones_are_attenuated_as_stated() {
    for quality in qualities() {
        let bound = 2.0 * 10f64.powf(-quality.attenuation_db / 20.0);
        for pair in RATIOS.into_iter().filter(|(up, down)| up < down) {
            let low = 0.5 * pair.0 as f64 / pair.1 as f64;
            let parts: &[f64] = if is_quick(pair) {
                &[0.0, 0.01, 0.2, 0.5, 0.99]
            } else {
                &[0.003]
            };
            for part in parts {
                let cycles = low + part * (0.5 - low);
                let error = tone_error::<f64>(pair, quality, cycles, true);
                assert!(
                    error < bound,
                    "{pair:?} at {cycles}, {quality:?}: {error:e}"
                );
            }
        }
    }
}

fn noise<T: Precision>(count: usize) -> Vec<T> {
    (0..count)
        .map(|n| T::of(((n * n) as f64 * 0.37).sin() + 0.2))
        .collect()
}

fn bits<T: Precision>(values: &[T]) -> Vec<u64> {
    values.iter().map(|&value| value.into().to_bits()).collect()
}

const EDGES: [Edges; 3] = [Edges::Inside, Edges::Zeros, Edges::Steady];

fn any_cut<T: Precision>(pair: (u64, u64), edges: Edges, count: usize, start: i64, cuts: &[usize]) {
    let quality = Quality {
        attenuation_db: 60.0,
        passband: 0.8,
    };
    let samples = noise::<T>(count);
    let (first, want) = at_once(pair, quality, edges, start, &samples);
    for isa in Isa::available() {
        let mut resampler = Resampler::on(isa, "resample", ratio(pair), quality, edges).unwrap();
        for _ in 0..2 {
            let (begins, got) = resampled(&mut resampler, start, &samples, cuts);
            assert_eq!(begins, first);
            assert_eq!(bits(&got), bits(&want), "{pair:?} {edges:?} {}", isa.name());
        }
    }
    if edges == Edges::Inside {
        return;
    }
    let places = |j: i64| i128::from(j) * i128::from(pair.1);
    let up = i128::from(pair.0);
    let (from, to) = (
        i128::from(start) * up,
        (i128::from(start) + count as i128) * up,
    );
    let end = first + want.len() as i64;
    if count > 0 {
        assert!(
            places(first - 1) < from && from <= places(first),
            "{pair:?}"
        );
        assert!(places(end - 1) < to || want.is_empty(), "{pair:?}");
        assert!(to <= places(end), "{pair:?}: {end}");
    } else {
        assert!(want.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_chunking_on_any_instruction_set_gives_the_same_bits(
        of in 0..RATIOS.len(), edges in 0..EDGES.len(), count in 0usize..6000, start in -5000i64..5000,
        cuts in prop::collection::vec(1usize..4000, 1..5), single in any::<bool>(),
    ) {
        let (pair, edges) = (RATIOS[of], EDGES[edges]);
        match single {
            true => any_cut::<f32>(pair, edges, count, start, &cuts),
            false => any_cut::<f64>(pair, edges, count, start, &cuts),
        }
    }

    #[test]
    fn results_do_not_depend_on_the_start(
        of in 0..RATIOS.len(), from in 0usize..2000, len in 1usize..3000,
    ) {
        let samples = noise::<f64>(6000);
        let quality = Quality { attenuation_db: 60.0, passband: 0.8 };
        let (first, all) = at_once(RATIOS[of], quality, Edges::Inside, -700, &samples);
        let part = &samples[from..from + len];
        let (begins, some) = at_once(RATIOS[of], quality, Edges::Inside, -700 + from as i64, part);
        if !some.is_empty() {
            let at = usize::try_from(begins - first).unwrap();
            prop_assert_eq!(bits(&all[at..at + some.len()]), bits(&some));
        }
    }
}

#[test]
fn constants_stay_and_steady_edges_continue_them() {
    for pair in RATIOS {
        let samples = [7.5f64; 3000];
        for edges in [Edges::Inside, Edges::Steady] {
            let (_, results) = at_once(pair, Quality::default(), edges, 11, &samples);
            let off = results.iter().map(|value| (value / 7.5 - 1.0).abs());
            assert!(off.fold(0.0, f64::max) < 2e-14, "{pair:?} {edges:?}");
        }
    }
}

#[test]
fn nan_spreads_no_further_than_the_reach() {
    for pair in [
        (2, 1),
        (1, 10),
        (160, 147),
        (10, 1),
        (47_123_456, 48_000_000),
    ] {
        let mut samples = noise::<f64>(8000);
        let quality = Quality::default();
        let (first, clean) = at_once(pair, quality, Edges::Inside, 0, &samples);
        samples[4000] = f64::NAN;
        let (_, results) = at_once(pair, quality, Edges::Inside, 0, &samples);
        let resampler = Resampler::<f64>::new("resample", ratio(pair), quality, Edges::Inside);
        let (before, behind) = resampler.unwrap().reach();
        let mut hit = 0;
        for (k, (got, want)) in results.iter().zip(&clean).enumerate() {
            let (place, _) = ratio(pair).place(first + k as i64).unwrap();
            let (from, to) = (place - before as i64, place + behind as i64);
            if (from..=to).contains(&4000) {
                hit += usize::from(got.is_nan());
            } else {
                assert_eq!(got.to_bits(), want.to_bits(), "{pair:?} at {place}");
            }
        }
        // Stages reach slightly less far.
        let within = (before + behind) as f64 * pair.0 as f64 / pair.1 as f64;
        assert!(
            hit as f64 > 0.9 * within - 2.0,
            "{pair:?}: {hit} of {within}"
        );
    }
}

#[test]
fn ratio_of_one_copies_samples() {
    let samples = [1.0f32, -0.0, f32::NAN, f32::INFINITY];
    for edges in EDGES {
        let (first, results) = at_once((3, 3), Quality::default(), edges, -2, &samples);
        assert_eq!((first, bits(&results)), (-2, bits(&samples)));
    }
}

#[test]
fn short_ranges_give_the_results_inside() {
    let short = |pair, edges, count: usize| {
        at_once(pair, Quality::default(), edges, 95, &vec![2.0f64; count])
    };
    assert_eq!(short((1, 10), Edges::Inside, 500).1.len(), 0);
    for edges in [Edges::Zeros, Edges::Steady] {
        assert_eq!(short((1, 10), edges, 5).1.len(), 0);
        let (first, results) = short((1, 10), edges, 6);
        assert_eq!((first, results.len()), (10, 1));
        assert_eq!(short((3, 1), edges, 1).1.len(), 3);
    }
    let (_, results) = short((3, 1), Edges::Steady, 1);
    assert!(results.iter().all(|value| (value - 2.0).abs() < 1e-13));
}

#[test]
fn parameters_out_of_range_are_refused_with_what_is_allowed() {
    let with = |pair, attenuation_db, passband| {
        let quality = Quality {
            attenuation_db,
            passband,
        };
        Resampler::<f64>::new("resample", ratio(pair), quality, Edges::Inside)
    };
    for (result, part) in [
        (
            with((2, 1), 19.0, 0.9),
            "attenuation_db=19 must be from 20 to 160 dB",
        ),
        (with((2, 1), f64::NAN, 0.9), "attenuation_db=NaN"),
        (
            with((2, 1), 100.0, 1.0),
            "passband=1 must be from 0.05 to 0.99",
        ),
        (with((1 << 21, 1), 100.0, 0.9), "up/down=2097152/1"),
        (with((1, 1 << 21), 100.0, 0.9), "up/down=1/2097152"),
    ] {
        let error = result.map(drop).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(with((1 << 20, 1), 100.0, 0.9).is_ok());
    let mut thousand = with((1000, 1), 100.0, 0.9).unwrap();
    let error = thousand.begin(1 << 60).unwrap_err();
    assert!(
        error.to_string().contains("at index 1152921504606846976"),
        "{error}"
    );
    let mut short = [0.0; 3];
    let error = thousand.process(&[0.0; 4000], &mut short).unwrap_err();
    assert!(
        matches!(error, DspError::OutputLength { got: 3, .. }),
        "{error}"
    );
}

// The output is full before the padding is used up.
#[test]
fn short_ranges_at_high_ratios_terminate() {
    for up in [100_003, 131_072, 500_000, 852_113, 1_000_000] {
        for edges in [Edges::Zeros, Edges::Steady] {
            for samples in [1_usize, 5] {
                let ratio = Ratio::new(up, 1).unwrap();
                let mut resampler =
                    Resampler::new("resample", ratio, Quality::default(), edges).unwrap();
                assert_eq!(resampler.begin(0).unwrap(), 0);
                let mut results = vec![0.0; resampler.ready(samples)];
                resampler
                    .process(&vec![1.0f64; samples], &mut results)
                    .unwrap();
                let mut rest = vec![0.0; resampler.ready_at_end()];
                resampler.finish(&mut rest).unwrap();
                results.extend(rest);
                assert_eq!(results.len(), samples * up as usize);
                if edges == Edges::Steady {
                    assert!(results.iter().all(|y| (y - 1.0).abs() < 1e-5), "{up}");
                }
            }
        }
    }
}
