//! A run's mean rate and its uncertainty.

use crate::common::*;
use isochrony_time::{Empirical, Fixed, MeanRate, Piece, Rate, RunId};

const SEEDS: u64 = 200;

fn true_mean(files: &[File], next: &File) -> f64 {
    let (mut samples, mut ns) = (0.0, 0.0);
    for (k, file) in files.iter().enumerate() {
        let after = files.get(k + 1).unwrap_or(next);
        samples += file.samples as f64;
        ns += after.true_start - after.gap_before - file.true_start;
    }
    samples / ns * 1e9
}

/// Returns the mean uncertainty, ppm.
fn honesty(rec: &Recorder, files: usize, event: impl Fn(usize) -> Event + Copy) -> f64 {
    let (mut misses, mut worst, mut stated) = (0, 0f64, 0.0);
    for seed in 0..SEEDS {
        let mut rec = rec.clone();
        rec.ppm += Rng::new(seed + 77).normal() * 5.0;
        let recorded = record(&rec, files + 1, seed, event);
        let (last, recorded) = recorded.split_last().unwrap();
        let im = import(config(&rec), recorded, seed % 2 == 0);
        assert!(im.runs.is_empty(), "seed {seed}: a run too many");
        let metric = Empirical::from_pieces(im.clock.pieces().unwrap()).unwrap();
        let metric = metric.closed_at(im.clock.end().unwrap()).unwrap();
        let nominal = im.clock.config().nominal;
        let mean = metric.mean_rate(RunId(0), nominal).unwrap().unwrap();
        let off = (mean.hz / true_mean(recorded, last) - 1.0).abs() * 1e6;
        misses += u64::from(off > mean.uncertainty_ppm);
        worst = worst.max(off);
        stated += mean.uncertainty_ppm / SEEDS as f64;
    }
    println!("worst {worst:.4} ppm, stated {stated:.4}, misses {misses}/{SEEDS}");
    assert!(
        misses * 100 <= SEEDS,
        "{misses} of {SEEDS} mean rates outside their uncertainty"
    );
    stated
}

#[test]
fn the_true_mean_is_within_what_is_stated() {
    for noise in [
        Noise::None,
        Noise::Gauss(20e-6),
        Noise::Uniform(50e-6),
        Noise::Late(20e-6),
    ] {
        let rec = Recorder {
            noise,
            ..Recorder::water()
        };
        for files in [1, 2, 3, 20, 120] {
            honesty(&rec, files, no_event);
        }
    }
}

#[test]
fn a_day_of_wander_has_the_mean_that_the_samples_had() {
    // The running estimate ends up to 1 ppm beside the mean.
    let rec = Recorder {
        wander: (1.0, 4.0 * 3600.0),
        ..Recorder::water()
    };
    for files in [40, 120, 700] {
        honesty(&rec, files, no_event);
    }
    assert!(honesty(&rec, 2880, no_event) < 0.2);
}

#[test]
fn gaps_do_not_affect_the_mean_rate() {
    let rec = Recorder::water();
    let outage = |k| match k {
        5 => Event::Gap(0.3),
        30 => Event::Gap(90.0),
        31 => Event::Gap(7200.0),
        _ => Event::None,
    };
    honesty(&rec, 60, outage);
    honesty(&rec, 60, |k| match k % 7 {
        6 => Event::Gap(11.0),
        _ => Event::None,
    });
}

#[test]
fn a_step_within_the_slip_is_no_rate() {
    honesty(&Recorder::water(), 60, |k| match k {
        33 => Event::Step(0.8e-3),
        _ => Event::None,
    });
}

#[test]
fn coarse_stamps_state_no_more_than_crystals_do() {
    let rec = Recorder {
        noise: Noise::None,
        resolution_ns: S,
        ..Recorder::water()
    };
    for files in [1, 5, 20] {
        assert!(honesty(&rec, files, no_event) < 400.0);
    }
    honesty(&rec, 500, no_event);
    assert!(honesty(&rec, 2880, no_event) < 30.0);
    let rec = Recorder {
        noise: Noise::Late(0.01),
        ..rec
    };
    honesty(&rec, 300, no_event);
}

fn piece(run: u32, index: i64, end: Option<i64>, civil: i64, ns_per_sample: u64) -> Piece {
    Piece {
        run: RunId(run),
        index,
        end,
        civil: Fixed::from_int(civil),
        num: ns_per_sample,
        den: 1,
        uncertainty_ns: 10.0,
        residual_ns: 0.0,
    }
}

fn mean(pieces: Vec<Piece>, run: u32) -> Option<MeanRate> {
    let metric = Empirical::from_pieces(pieces).unwrap();
    metric
        .mean_rate(RunId(run), Rate::from_hz(1000).unwrap())
        .unwrap()
}

#[test]
fn mean_rate_is_samples_over_gap_free_time() {
    let pieces = vec![
        piece(0, 0, Some(1000), 0, 1_000_000),
        piece(0, 1000, Some(2000), 1_000_000_000, 1_000_100),
        piece(0, 5000, Some(6000), 9_000_000_000, 999_900),
        piece(1, 6000, Some(7000), 0, 1_000_200),
    ];
    let first = mean(pieces.clone(), 0).unwrap();
    assert!((first.hz - 1000.0).abs() < 1e-9, "{first:?}");
    // Ranges of 2 s and 1 s, each end good to 10 ns.
    assert!(
        (first.uncertainty_ppm - 40.0 / 3e9 * 1e6).abs() < 1e-6,
        "{first:?}"
    );
    let second = mean(pieces.clone(), 1).unwrap();
    assert!((second.hz - 1000.0 / 1.0002).abs() < 1e-9, "{second:?}");
    assert_eq!(mean(pieces, 2), None);
}

#[test]
fn growing_runs_have_no_mean_rate() {
    assert_eq!(mean(vec![piece(0, 0, None, 0, 1_000_000)], 0), None);
}
