//! Throughput of random expressions against loops fused by hand: `cargo bench -p isochrony-expr --bench fused`.
//!
//! Generated from a seed by `bench/fused.py`, for i16, f32 and f64 samples in windows of 4,096. Results are asserted
//! to be bit-equal; pairs run interleaved.

#[path = "fused/generated.rs"]
mod generated;
mod hand;

use hand::{Case, noise, quantile};

fn main() {
    // 12 bits, as from an instrument, or numbers between -1 and 1.
    let counts = |i: usize| noise(i) >> 4;
    let single = |i: usize| f32::from(noise(i) >> 4) / 2048.0;
    let double = |i: usize| f64::from(noise(i) >> 4) / 2048.0;
    let mut case = Case::of_arguments();
    generated::run(&mut case, counts, single, double);
    if case.ratios.is_empty() {
        return;
    }
    let met = case.ratios.iter().filter(|&&ratio| ratio >= 0.5).count();
    println!(
        "expr/seed-{}: {met} of {} at least 0.5 of the loop by hand; median {:.2}, least {:.2}",
        generated::SEED,
        case.ratios.len(),
        quantile(&mut case.ratios, 0.5),
        quantile(&mut case.ratios, 0.0),
    );
}
