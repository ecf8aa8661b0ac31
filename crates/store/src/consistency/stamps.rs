//! Checks that a signal's fit belongs to its stamps.

use isochrony_time::{Fixed, Piece, Point, PointUse};

use super::{Contradiction, damaged};
use crate::clock;
use crate::error::StoreError;
use crate::op::PointRow;
use crate::state::{FIT, SignalState};

/// Deviation of a fit from its own stamps, in gap tolerances of the clock.
const MAX_FIT_DEVIATION: f64 = 10.0;

/// Deviation of a fitted rate from the expected one, as a fraction.
const MAX_RATE_DEVIATION: f64 = 0.01;

#[derive(Default)]
struct PieceStamps {
    ends: Option<(Point, Point)>,
    count: u64,
}

impl PieceStamps {
    fn add(&mut self, row: &PointRow) {
        let point = clock::point(row);
        if !is_in_fit(&point) {
            return;
        }
        self.count += 1;
        self.ends = Some((self.ends.map_or(point, |(first, _)| first), point));
    }
}

fn is_in_fit(point: &Point) -> bool {
    matches!(point.use_, PointUse::Used | PointUse::LeapSecond)
}

/// Compares each piece of the fit with its first and last stamp: cheap, and detects a fit of other stamps.
///
/// A piece that does not continue another passes near its first stamp. The last may be far off: stamps within the slip
/// stay in use even if the line could not follow, and earlier versions did not limit the slip. The rate deviates from
/// the expected one by at most what clocks do and the piece states.
///
/// # Errors
/// [`StoreError::DamagedTable`] with the piece's row.
pub(super) fn check_ends(state: &SignalState) -> Result<(), StoreError> {
    let mut points = state.points.iter().peekable();
    let mut before: Option<Piece> = None;
    for (row, (run, piece)) in state.fit.iter().enumerate() {
        let line = clock::piece(run, &piece);
        let end = line.end.unwrap_or(i64::MAX);
        let mut stamps = PieceStamps::default();
        while let Some(point) = points.next_if(|point| (point.run, point.index) < (run, end)) {
            if (point.run, point.index) >= (run, piece.index) {
                stamps.add(&point);
            }
        }
        if let Some((first, last)) = &stamps.ends {
            let goes_on = before.is_some_and(|before| continues(&before, &line));
            let is_near = |point: &Point| is_near(state, &line, stamps.count, point);
            if !goes_on && !is_near(first)? || !is_near(last)? && departs(state, &line, last)? {
                let reason = "the piece is far from the stamps from which it was fitted";
                return Err(damaged(state, FIT, row, reason));
            }
        }
        before = Some(line);
    }
    Ok(())
}

fn continues(before: &Piece, piece: &Piece) -> bool {
    let meets = before.run == piece.run && before.end == Some(piece.index);
    let end = before.civil_at(Fixed::from_int(piece.index)).ok();
    let apart = end.and_then(|end| piece.civil.checked_sub(end));
    meets && apart.is_some_and(|apart| apart.to_f64().abs() <= 1.0)
}

/// Largest deviation of a piece from a stamp, ns.
fn bound(state: &SignalState, line: &Piece, stamps: u64, point: &Point) -> Result<f64, StoreError> {
    let period = state.meta.expected_rate().duration_ns(1)?.to_f64();
    let slip = state.meta.clock.gap_slip_ns.map_or(0.0, |ns| ns as f64);
    let stated = point.resolution.to_f64() + line.uncertainty_ns;
    let residual = MAX_FIT_DEVIATION.max(largest(stamps)) * line.residual_ns;
    Ok(MAX_FIT_DEVIATION * (slip + 2.5 * period + stated + residual))
}

/// Largest deviation among `stamps` in units of their root mean square. The end of the previous piece counts as one
/// more.
fn largest(stamps: u64) -> f64 {
    (stamps as f64 + 1.0).sqrt()
}

fn is_near(
    state: &SignalState,
    line: &Piece,
    stamps: u64,
    point: &Point,
) -> Result<bool, StoreError> {
    let at = line.civil_at(Fixed::from_int(point.index));
    let apart = at.ok().and_then(|at| at.checked_sub(point.civil));
    let bound = bound(state, line, stamps, point)?;
    Ok(apart.is_some_and(|apart| apart.to_f64().abs() <= bound))
}

fn departs(state: &SignalState, line: &Piece, point: &Point) -> Result<bool, StoreError> {
    let period = state.meta.expected_rate().duration_ns(1)?.to_f64();
    let samples = (i128::from(point.index) - i128::from(line.index)) as f64;
    let by = (line.ns_per_sample() - period).abs() * samples;
    let allowed = MAX_RATE_DEVIATION * period * samples
        + MAX_FIT_DEVIATION * (2.5 * period + line.uncertainty_ns);
    Ok(by > allowed)
}

/// The first piece farther from a stamp than it states.
pub(super) fn far_from_fit(state: &SignalState) -> Option<Contradiction> {
    for run in state.runs.iter() {
        let pieces: Vec<_> = state
            .fit
            .of_run(run.id)
            .map(|row| clock::piece(run.id, &row))
            .collect();
        let mut counts = vec![0; pieces.len()];
        for row in state.points.of_run(run.id) {
            let at = pieces.partition_point(|piece| piece.index <= row.index);
            if let Some(count) = at.checked_sub(1).and_then(|at| counts.get_mut(at)) {
                *count += u64::from(is_in_fit(&clock::point(&row)));
            }
        }
        for row in state.points.of_run(run.id) {
            let point = clock::point(&row);
            if point.use_ != PointUse::Used {
                continue;
            }
            let position = pieces.partition_point(|piece| piece.index <= row.index);
            // A stamp where two pieces meet belongs to both.
            let near = position.saturating_sub(2)..pieces.len().min(position + 1);
            let least = pieces[near.clone()]
                .iter()
                .zip(&counts[near])
                .filter_map(|(piece, stamps)| {
                    let civil = piece.civil_at(Fixed::from_int(row.index)).ok()?;
                    let away = civil.checked_sub(point.civil)?.to_f64();
                    // The time is anywhere within the resolution.
                    let outside = (-away).max(away - point.resolution.to_f64()).max(0.0);
                    Some(outside - piece.uncertainty_ns - largest(*stamps) * piece.residual_ns)
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

/// Deviation beyond what a piece states: some periods, within which stamps are contiguous.
fn tolerance(state: &SignalState) -> f64 {
    let period = state.meta.expected_rate().duration_ns(1);
    let period = period.map_or(0.0, Fixed::to_f64);
    let slip = state.meta.clock.gap_slip_ns.unwrap_or(0) as f64;
    (10.0 * period).max(2.0 * slip).max(1e3)
}
