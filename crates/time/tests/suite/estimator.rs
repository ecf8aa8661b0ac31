//! Rates, times and uncertainties against a simulator.

use crate::common::*;
use isochrony_time::{Empirical, Placement};

const SEEDS: u64 = 200;

/// How often the truth lies outside the uncertainty, over all seeds.
fn honesty(rec: &Recorder, files: usize, max_pieces: usize, ppm_after: f64) {
    let (mut rate_misses, mut time_misses, mut times) = (0, 0, 0);
    let (mut worst_rate, mut sum_half) = (0f64, 0.0);
    for seed in 0..SEEDS {
        let mut rec = rec.clone();
        rec.ppm += Rng::new(seed + 77).normal() * 5.0;
        let recorded = record(&rec, files, seed, no_event);
        let im = import(config(&rec), &recorded, seed % 2 == 0);
        assert!(
            im.placements[1..]
                .iter()
                .all(|p| *p == Placement::Contiguous),
            "seed {seed}: {:?}",
            im.placements
                .iter()
                .enumerate()
                .filter(|p| *p.1 != Placement::Contiguous)
                .collect::<Vec<_>>()
        );
        let pieces = im.clock.pieces().unwrap();
        assert!(
            pieces.len() <= max_pieces,
            "seed {seed}: {} pieces",
            pieces.len()
        );
        let rate = im.clock.rate();
        let last = recorded.last().unwrap().true_start * 1e-9;
        let off = (rate.hz / rec.hz(last) - 1.0).abs() * 1e6;
        worst_rate = worst_rate.max(off);
        sum_half += rate.uncertainty_ppm;
        rate_misses += u64::from(off > rate.uncertainty_ppm);
        let metric = Empirical::from_pieces(pieces).unwrap();
        for (f, &i) in recorded.iter().zip(&im.index) {
            let off = error_ns(&metric, i, f.shown_start).abs();
            times += 1;
            time_misses += u64::from(off > metric.uncertainty_ns(i));
        }
    }
    println!(
        "rate: worst {worst_rate:.4} ppm, stated {:.4}, misses {rate_misses}/{SEEDS}; time misses {time_misses}/{times}",
        sum_half / SEEDS as f64
    );
    assert!(worst_rate < ppm_after, "rate off by {worst_rate} ppm");
    assert!(
        rate_misses * 100 <= SEEDS,
        "{rate_misses} of {SEEDS} rates outside their uncertainty"
    );
    assert!(
        time_misses * 100 <= times,
        "{time_misses} of {times} times outside theirs"
    );
}

#[test]
fn twenty_files_with_gaussian_jitter_give_the_rate_well_below_a_ppm() {
    for sigma in [1e-6, 20e-6, 50e-6] {
        honesty(
            &Recorder {
                noise: Noise::Gauss(sigma),
                ..Recorder::water()
            },
            20,
            1,
            0.4,
        );
    }
}

#[test]
fn uniform_and_late_stamps_do_as_well() {
    honesty(
        &Recorder {
            noise: Noise::Uniform(50e-6),
            ..Recorder::water()
        },
        20,
        1,
        0.4,
    );
    honesty(
        &Recorder {
            noise: Noise::Late(20e-6),
            ..Recorder::water()
        },
        20,
        2,
        0.4,
    );
}

#[test]
fn exact_stamps_are_followed_to_the_nanosecond() {
    honesty(
        &Recorder {
            noise: Noise::None,
            ..Recorder::water()
        },
        20,
        1,
        0.01,
    );
    honesty(
        &Recorder {
            noise: Noise::None,
            resolution_ns: 1,
            ..Recorder::water()
        },
        20,
        1,
        0.001,
    );
}

#[test]
fn a_hundred_ppm_wrong_nominal_rate_is_learned() {
    honesty(
        &Recorder {
            ppm: 100.0,
            ..Recorder::water()
        },
        20,
        1,
        0.2,
    );
    honesty(
        &Recorder {
            ppm: -100.0,
            ..Recorder::water()
        },
        20,
        1,
        0.2,
    );
}

#[test]
fn a_wandering_clock_needs_few_pieces() {
    // 1 ppm up and down within four hours.
    let rec = Recorder {
        wander: (1.0, 4.0 * 3600.0),
        ..Recorder::water()
    };
    honesty(&rec, 2880, 300, 0.6);
}

#[test]
fn stamps_to_the_second_give_one_piece_and_an_honest_width() {
    let rec = Recorder {
        noise: Noise::None,
        resolution_ns: S,
        ..Recorder::water()
    };
    honesty(&rec, 20, 1, 400.0);
    honesty(&rec, 2880, 1, 15.0);
}

#[test]
fn stamps_to_the_second_with_latency_stay_in_one_run() {
    let rec = Recorder {
        noise: Noise::Late(0.01),
        resolution_ns: S,
        ..Recorder::water()
    };
    honesty(&rec, 500, 12, 400.0);
}

#[test]
fn coarse_uncertainty_shrinks_with_the_recording() {
    let rec = Recorder {
        noise: Noise::None,
        resolution_ns: S,
        ..Recorder::water()
    };
    let ppm = |files| {
        import(config(&rec), &record(&rec, files, 3, no_event), true)
            .clock
            .rate()
    };
    let (short, long, day) = (ppm(5), ppm(400), ppm(2880));
    assert!(short.uncertainty_ppm > 100.0, "{short:?}");
    assert!(
        long.uncertainty_ppm < 0.5 * short.uncertainty_ppm,
        "{long:?}"
    );
    assert!(
        day.uncertainty_ppm < 0.2 * long.uncertainty_ppm.max(60.0),
        "{day:?}"
    );
}

#[test]
fn the_coarse_fit_goes_through_every_stamp_s_second() {
    let rec = Recorder {
        noise: Noise::None,
        resolution_ns: S,
        ..Recorder::water()
    };
    let files = record(&rec, 1000, 5, no_event);
    let im = import(config(&rec), &files, false);
    let metric = Empirical::from_pieces(im.clock.pieces().unwrap()).unwrap();
    for (f, &i) in files.iter().zip(&im.index) {
        let line = metric.time_of(i).unwrap().value;
        let off = line.checked_sub(f.stamp.civil).unwrap().to_f64();
        assert!(
            (-10.0..S as f64 + 10.0).contains(&off),
            "{off} ns from the stamp at {i}"
        );
    }
}

#[test]
fn other_rates_and_file_lengths_work_alike() {
    // Noise of a stamp over some 20 files, with room for the worst seed.
    for (nominal, samples, noise, ppm_after) in [
        (100.0, 100 * 60, 20e-6, 0.03),
        (10.0, 10 * 600, 1e-3, 0.15),
        (1.0, 3600, 1e-3, 0.03),
        (48_000.0, 48_000 * 10, 5e-6, 0.05),
        (1e6, 1_000_000, 1e-6, 0.1),
        (1e7, 10_000_000, 0.2e-6, 0.02),
    ] {
        let resolution_ns = if nominal > 1e6 { 100 } else { 1000 };
        let rec = Recorder {
            nominal,
            file_samples: samples,
            noise: Noise::Gauss(noise),
            resolution_ns,
            ..Recorder::water()
        };
        println!("{nominal} Hz");
        honesty(&rec, 40, 1, ppm_after);
    }
}

#[test]
fn short_live_blocks_give_few_pieces() {
    // 100 ms blocks stamped on arrival, as in a feed.
    let noise = Noise::Late(150e-6);
    let rec = Recorder {
        file_samples: 200,
        noise,
        ..Recorder::water()
    };
    for seed in 0..50 {
        let files = record(&rec, 3000, seed, no_event);
        let im = import(config(&rec), &files, seed % 2 == 0);
        let strays = im.placements[1..]
            .iter()
            .filter(|p| **p != Placement::Contiguous);
        assert!(
            strays.clone().count() <= 1,
            "seed {seed}: {:?}",
            strays.collect::<Vec<_>>()
        );
        let pieces = im.clock.pieces().unwrap();
        assert!(
            im.runs.is_empty() && pieces.len() <= 60,
            "seed {seed}: {} pieces",
            pieces.len()
        );
        let metric = Empirical::from_pieces(pieces).unwrap();
        for (f, &i) in files.iter().zip(&im.index) {
            assert!(error_ns(&metric, i, f.shown_start).abs() < 2e6);
        }
    }
}

#[test]
fn stamps_to_the_millisecond_are_honest_whatever_their_jitter() {
    for noise in [
        Noise::None,
        Noise::Gauss(20e-6),
        Noise::Gauss(200e-6),
        Noise::Uniform(1e-3),
    ] {
        let rec = Recorder {
            noise,
            resolution_ns: 1_000_000,
            ..Recorder::water()
        };
        honesty(&rec, 20, 1, 4.0);
        honesty(&rec, 300, 2, 0.6);
    }
}
