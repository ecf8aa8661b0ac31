//! Throughput of window features: `cargo bench -p isochrony-dsp --bench features`.
//!
//! Without `--bench` cases run once.

use std::hint::black_box;
use std::time::Instant;

use isochrony_dsp::features::{Haar, HaarOfCounts, HaarOutput, Normalise, Score};
use isochrony_dsp::spectrum::{Detrend, Precision};
use isochrony_segment::Calibration;

fn time(samples: usize, rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e9 / samples as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn features<T: Precision>(name: &str, samples: usize, rounds: usize) {
    let input: Vec<T> = (0..samples)
        .map(|n| T::of(((n * n) as f64 * 0.37).sin()))
        .collect();
    for weighted in [5, 17] {
        let weights: Vec<f64> = (0..17).map(|k| f64::from(k < weighted)).collect();
        let factors = [1.0; 32];
        let score = Score::<T>::new(&factors, false, Detrend::None, &weights, Normalise::None);
        let mut score = score.expect("as many weights as frequencies");
        let spent = time(samples, rounds, || {
            for window in input.chunks_exact(32) {
                black_box(score.of(black_box(window)));
            }
        });
        println!("features/score of {weighted} frequencies/{name}: {spent:.2} ns a sample");
    }
    for (output, bins) in [(HaarOutput::Details, 32), (HaarOutput::Energies, 8)] {
        let mut haar = Haar::<T>::new(4096, 7, output).expect("levels");
        let mut row = vec![T::zero(); bins];
        let spent = time(samples, rounds, || {
            for window in input.chunks_exact(4096) {
                haar.row(black_box(window), &mut row);
            }
        });
        println!("features/haar {output:?}/{name}: {spent:.2} ns a sample");
    }
}

fn features_of_counts(samples: usize, rounds: usize) {
    let counts: Vec<i16> = (0..samples).map(|n| (n * n % 7919) as i16).collect();
    for (output, bins) in [(HaarOutput::Details, 32), (HaarOutput::Energies, 8)] {
        let haar = HaarOfCounts::<i16>::new(4096, 7, output, &Calibration::default());
        let mut haar = haar.expect("levels").expect("sums are exact");
        let mut row = vec![0.0; bins];
        let spent = time(samples, rounds, || {
            for window in counts.chunks_exact(4096) {
                haar.row(black_box(window), &mut row);
            }
        });
        println!("features/haar {output:?}/i16: {spent:.3} ns a sample");
    }
}

fn main() {
    let whole = std::env::args().any(|argument| argument == "--bench");
    let (samples, rounds) = if whole { (1 << 18, 51) } else { (1 << 13, 1) };
    features::<f32>("f32", samples, rounds);
    features::<f64>("f64", samples, rounds);
    features_of_counts(samples, rounds);
}
