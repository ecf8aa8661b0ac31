//! Solves the traffic equations.

use super::FlowGraph;
use crate::TuneError;

/// Beyond it, visit ratios are rounding noise.
const MAX_RETURNED: f64 = 1.0 - 1e-9;

/// Visits per source item, as `[source][server]`.
///
/// The visits `v` of one source solve `v = e + Mᵀ v`, where `e` is 1 at the source's server and `M[i][j] = gain(i) ·
/// probability(i, j)`. Elimination of `(I - Mᵀ) v = e` without pivoting also shows whether loops drain: all pivots are
/// positive exactly if the spectral radius of `M` is below 1 (`I - M` is then a non-singular M-matrix: Berman and
/// Plemmons, Nonnegative Matrices, 1994, theorem 6.2.3). A pivot is 1 minus the share of items that return. No
/// off-diagonal value is ever positive, so elimination is stable.
pub(super) fn visits(graph: &FlowGraph) -> Result<Vec<Vec<f64>>, TuneError> {
    let mut rows = transfer(graph);
    let mut visits = vec![vec![0.0; graph.servers.len()]; graph.sources.len()];
    for (visits, source) in visits.iter_mut().zip(&graph.sources) {
        visits[source.server] = 1.0;
    }
    for k in 0..rows.len() {
        let returned = 1.0 - rows[k][k];
        if returned >= MAX_RETURNED {
            return Err(TuneError::EndlessLoop {
                server: k,
                name: graph.servers[k].name.clone(),
                returned,
            });
        }
        let (done, below) = rows.split_at_mut(k + 1);
        let pivot = &done[k];
        for (i, row) in below.iter_mut().enumerate() {
            let factor = row[k] / pivot[k];
            if factor == 0.0 {
                continue;
            }
            for (value, above) in row[k..].iter_mut().zip(&pivot[k..]) {
                *value -= factor * above;
            }
            for visits in &mut visits {
                visits[k + 1 + i] -= factor * visits[k];
            }
        }
    }
    for visits in &mut visits {
        substitute_back(&rows, visits);
        if let Some(server) = visits.iter().position(|value| !value.is_finite()) {
            let place = format!("the product of gains on the way to servers[{server}]");
            return Err(TuneError::parameter(place, visits[server], "finite"));
        }
    }
    Ok(visits)
}

fn transfer(graph: &FlowGraph) -> Vec<Vec<f64>> {
    let count = graph.servers.len();
    let mut rows = vec![vec![0.0; count]; count];
    for (index, row) in rows.iter_mut().enumerate() {
        row[index] = 1.0;
    }
    for route in &graph.routes {
        rows[route.to][route.from] -= graph.servers[route.from].gain * route.probability;
    }
    rows
}

/// In place.
fn substitute_back(rows: &[Vec<f64>], values: &mut [f64]) {
    for k in (0..rows.len()).rev() {
        // An infinite value spoils only what depends on it.
        let terms = rows[k][k + 1..].iter().zip(&values[k + 1..]);
        let later: f64 = terms
            .filter(|(factor, _)| **factor != 0.0)
            .map(|(factor, value)| factor * value)
            .sum();
        values[k] = (values[k] - later) / rows[k][k];
    }
}
