//! Whether other workers pay for a plan whose number of workers is not given.
//!
//! Where each operator was measured ([`Plan::characterise`](crate::Plan::characterise)), their costs decide; else the
//! number of samples does.

use super::measured_costs::measured_costs;
use super::prediction::operator_seconds;
use crate::plan::graph::Graph;

/// Without measured costs, shorter plans end before other threads would help.
pub(super) const MIN_SAMPLES: u64 = 1 << 20;
/// Longer ones take long to read and to decode, which costs of operators do not include.
const MAX_LIGHT_SAMPLES: u64 = 16 * MIN_SAMPLES;
/// What other workers must save: starting them takes some tenths of a millisecond, and predictions err.
const MIN_SAVED_S: f64 = 0.002;

/// None if the plan is long enough for `workers`. `samples`: in all stored recordings.
pub(super) fn too_short_because(graph: &Graph, samples: u64, workers: usize) -> Option<String> {
    if samples >= MAX_LIGHT_SAMPLES {
        return None;
    }
    match measured_costs().and_then(|costs| operator_seconds(graph, workers, &costs)) {
        Some((one, all)) => (one - all < MIN_SAVED_S).then(|| {
            format!(
                "its measured operators take {} in one thread, and {workers} would save less than {:.0} ms",
                duration(one),
                1e3 * MIN_SAVED_S
            )
        }),
        None => (samples < MIN_SAMPLES).then(|| format!("it reads only {samples} samples")),
    }
}

pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1e-3 => format!("{:.0} us", 1e6 * seconds),
        seconds if seconds < 1.0 => format!("{:.1} ms", 1e3 * seconds),
        seconds => format!("{seconds:.1} s"),
    }
}
