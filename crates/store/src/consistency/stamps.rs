//! The fit of a signal's clock against the stamps that it was made of.

use isochrony_time::{Fixed, Piece, PointUse};

use super::{Contradiction, damaged};
use crate::clock;
use crate::error::StoreError;
use crate::op::{PieceRow, PointRow};
use crate::state::{FIT, SignalState};

/// A fit may be beside its stamps by so many times what the clock takes for no gap: what is beside them by more was made
/// of other stamps.
const FACTOR: f64 = 10.0;

/// Compares each piece of the fit with the first and the last stamp that it was made of. That is cheap enough for every
/// time that a signal is loaded, and finds a fit of other stamps.
///
/// # Errors
/// [`StoreError::DamagedTable`] with the row of the piece.
pub(super) fn check_ends(state: &SignalState) -> Result<(), StoreError> {
    let mut points = state.points.iter().peekable();
    for (row, (run, piece)) in state.fit.iter().enumerate() {
        let end = if piece.end < 0 { i64::MAX } else { piece.end };
        let line = clock::piece(run, &piece);
        let mut last = None;
        let mut is_first = true;
        while let Some(point) = points.peek().copied() {
            if (point.run, point.index) >= (run, end) {
                break;
            }
            points.next();
            if (point.run, point.index) < (run, piece.index) || point.usage != 0 {
                continue;
            }
            if is_first {
                compare(state, row, &line, &piece, &point)?;
            }
            is_first = false;
            last = Some(point);
        }
        if let Some(point) = last {
            compare(state, row, &line, &piece, &point)?;
        }
    }
    Ok(())
}

fn compare(
    state: &SignalState,
    row: usize,
    line: &Piece,
    piece: &PieceRow,
    point: &PointRow,
) -> Result<(), StoreError> {
    let stamp = clock::point(point);
    let at = line.civil_at(Fixed::from_int(point.index));
    let apart = at.ok().and_then(|at| at.checked_sub(stamp.civil));
    let period = state.meta.expected_rate().duration_ns(1)?.to_f64();
    let slip = state.meta.clock.gap_slip_ns.map_or(0.0, |ns| ns as f64);
    let picoseconds = |number: u64| number as f64 / 1e3;
    let bound = FACTOR
        * (slip
            + 2.5 * period
            + stamp.resolution.to_f64()
            + picoseconds(piece.uncertainty_ps)
            + FACTOR * picoseconds(piece.residual_ps));
    if apart.is_some_and(|apart| apart.to_f64().abs() <= bound) {
        return Ok(());
    }
    let reason = "the piece is far beside the stamps that it was made of";
    Err(damaged(state, FIT, row, reason))
}

/// The first piece that lies further from a stamp that it was fitted to than it states.
pub(super) fn far_from_fit(state: &SignalState) -> Option<Contradiction> {
    for run in state.runs.iter() {
        let pieces: Vec<_> = state
            .fit
            .of_run(run.id)
            .map(|row| clock::piece(run.id, &row))
            .collect();
        for row in state.points.of_run(run.id) {
            let point = clock::point(&row);
            if point.use_ != PointUse::Used {
                continue;
            }
            let position = pieces.partition_point(|piece| piece.index <= row.index);
            // A stamp where two pieces meet is one of both.
            let near = &pieces[position.saturating_sub(2)..pieces.len().min(position + 1)];
            let least = near
                .iter()
                .filter_map(|piece| {
                    let civil = piece.civil_at(Fixed::from_int(row.index)).ok()?;
                    let away = civil.checked_sub(point.civil)?.to_f64();
                    // The time lies anywhere within the stamp's resolution.
                    let outside = (-away).max(away - point.resolution.to_f64()).max(0.0);
                    Some(outside - piece.uncertainty_ns - piece.residual_ns)
                })
                .fold(f64::INFINITY, f64::min);
            if least.is_finite() && least > tolerance(state) {
                let what = format!(
                    "the fit is {least:.0} ns further from the stamp at index {} than it states",
                    row.index
                );
                return Some(Contradiction {
                    table: FIT,
                    what,
                    range: run.start..run.end,
                });
            }
        }
    }
    None
}

/// What a fit may miss a stamp by beyond what it states: stamps are taken to follow on within some periods.
fn tolerance(state: &SignalState) -> f64 {
    let period = state.meta.expected_rate().duration_ns(1);
    let period = period.map_or(0.0, Fixed::to_f64);
    let slip = state.meta.clock.gap_slip_ns.unwrap_or(0) as f64;
    (10.0 * period).max(2.0 * slip).max(1e3)
}
