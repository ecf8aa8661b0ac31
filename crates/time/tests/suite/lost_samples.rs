//! Single lost and repeated samples.

use crate::common::*;
use isochrony_time::{Empirical, Placement};

const SEEDS: u64 = 200;
const FILES: usize = 60;

/// Rate, samples per file.
const RATES: [(f64, u64); 3] = [(1.0, 50), (100.0, 412), (2000.0, 60_000)];

fn recorder(
    nominal: f64,
    file_samples: u64,
    noise: Noise,
    resolution_ns: i64,
    ppm: f64,
) -> Recorder {
    Recorder {
        nominal,
        ppm,
        noise,
        resolution_ns,
        file_samples,
        ..Recorder::water()
    }
}

/// Loses (for `lost` -1 repeats) one sample after each of `at`; only these are found.
fn finds(rec: &Recorder, at: &[usize], lost: i64, look_ahead: impl Fn(u64) -> bool) {
    let (mut outside, mut times) = (0, 0);
    for seed in 0..SEEDS {
        let period = 1.0 / rec.hz(0.0);
        let event = |k| match at.contains(&k) {
            true if lost > 0 => Event::Gap(lost as f64 * period),
            true => Event::Step(lost as f64 * period),
            false => Event::None,
        };
        let files = record(rec, FILES, seed, event);
        let im = import(config(rec), &files, look_ahead(seed));
        for (k, placement) in im.placements.iter().enumerate().skip(1) {
            let right = match placement {
                _ if !at.contains(&(k - 1)) => *placement == Placement::Contiguous,
                Placement::Gap { samples, .. } => *samples == Some(lost.unsigned_abs()) && lost > 0,
                Placement::Backward { by_ns } => {
                    (by_ns.to_f64() * 1e-9 + lost as f64 * period).abs() < 0.3 * period
                }
                _ => false,
            };
            let (hz, r) = (rec.nominal, rec.resolution_ns);
            assert!(
                right,
                "{hz} Hz, {r} ns, seed {seed}, file {k}: {placement:?}"
            );
        }
        let mut pieces = Vec::new();
        for clock in im.runs.iter().chain([&im.clock]) {
            pieces.extend(clock.pieces().unwrap());
            pieces.last_mut().unwrap().end = clock.end();
        }
        let metric = Empirical::from_pieces(pieces).unwrap();
        for (file, &index) in files.iter().zip(&im.index) {
            times += 1;
            let off = error_ns(&metric, index, file.shown_start).abs();
            outside += u64::from(off > metric.uncertainty_ns(index));
        }
    }
    assert!(
        outside * 100 <= times,
        "{outside} of {times} times outside their uncertainty"
    );
}

#[test]
fn exact_stamps_tell_a_single_sample_from_the_first_stamps_on() {
    for (nominal, samples) in RATES {
        // Whole periods are whole nanoseconds.
        let rec = recorder(nominal, samples, Noise::None, 1, 0.0);
        for lost in [1, 2, -1, -2] {
            finds(&rec, &[0], lost, |_| true);
            finds(&rec, &[5, 9, 30], lost, |seed| seed % 2 == 0);
        }
    }
}

#[test]
fn stamps_to_a_fifth_of_a_period_tell_a_single_sample() {
    for (nominal, samples) in RATES {
        let fifth = (0.2e9 / nominal) as i64;
        let rec = recorder(nominal, samples, Noise::None, fifth, 0.0);
        finds(&rec, &[5, 9, 30], 1, |seed| seed % 2 == 0);
    }
    // SEED 2 records: stamps to 100 us, 512 or 4096 bytes.
    for (nominal, samples) in [(100.0, 412), (100.0, 4000), (200.0, 412), (1000.0, 4000)] {
        let rec = recorder(nominal, samples, Noise::None, 100_000, 0.0);
        finds(&rec, &[0], 1, |_| true);
        finds(&rec, &[1, 7, 40], 1, |_| true);
    }
}

#[test]
fn losses_at_every_border_are_found_one_by_one() {
    // One stamp per contiguous range, after a lost row.
    let all: Vec<usize> = (0..FILES).collect();
    for (nominal, resolution) in [(1.0, 1_000_000), (1.0 / 3600.0, S), (100.0, 1000)] {
        let rec = recorder(nominal, 99, Noise::None, resolution, 0.0);
        finds(&rec, &all, 1, |_| true);
    }
}

#[test]
fn small_jitter_and_a_drifting_clock_tell_a_single_sample_once_they_are_known() {
    for (nominal, samples) in RATES {
        for (noise, ppm) in [(1e-6, 100.0), (3e-6, -30.0)] {
            let rec = recorder(nominal, samples, Noise::Gauss(noise), 1000, ppm);
            for lost in [1, 2, -1, -2] {
                finds(&rec, &[30, 45], lost, |seed| seed % 2 == 0);
            }
        }
    }
}

#[test]
fn jitter_and_drift_alone_lose_nothing() {
    for (nominal, samples) in RATES {
        for noise in [Noise::Gauss(50e-6), Noise::Late(50e-6), Noise::Gauss(1e-6)] {
            for ppm in [0.0, 100.0, -100.0] {
                let rec = recorder(nominal, samples, noise, 1000, ppm);
                finds(&rec, &[], 0, |seed| seed % 2 == 0);
            }
        }
        let coarse = recorder(nominal, samples, Noise::None, S, 40.0);
        finds(&coarse, &[], 0, |seed| seed % 2 == 0);
    }
}

#[test]
fn a_lone_late_stamp_below_a_few_samples_is_no_loss() {
    // 0.7 of a sample late.
    let rec = recorder(2000.0, 60_000, Noise::Gauss(1e-6), 1000, 20.0);
    for seed in 0..SEEDS {
        let mut files = record(&rec, FILES, seed, no_event);
        let late = isochrony_time::Fixed::from_int(350_000);
        files[40].stamp.civil = files[40].stamp.civil.checked_add(late).unwrap();
        let im = import(config(&rec), &files, seed % 2 == 0);
        let gone = |p: &Placement| !matches!(p, Placement::Contiguous | Placement::Outlier);
        assert!(!im.placements[1..].iter().any(gone), "seed {seed}");
    }
}
