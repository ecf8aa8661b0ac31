//! Queueing models against oracles.

mod chains;
mod closed_forms;
mod error_table;
mod errors;
mod simulation;
mod simulator;

/// Relative tolerance, absolute near 0.
fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1e-3)
}
