//! Conversions between a signal's stored rows and types of the time crate.
//!
//! A fitted piece with an open end extends to its run's end, so contiguous appends do not change its row.

use isochrony_time::{
    Clock, ClockConfig, Empirical, Fixed, Piece, Point, PointUse, RunId, Stamp, TimeError,
};

use crate::error::StoreError;
use crate::meta::SignalMeta;
use crate::op::{PieceRow, PointRow, RunRow};
use crate::state::SignalState;

pub(crate) fn config(meta: &SignalMeta) -> ClockConfig {
    let mut config = ClockConfig::new(meta.rate);
    config.alpha = meta.clock.alpha;
    config.gap_slip_ns = meta.clock.gap_slip_ns.map(|ns| ns as f64);
    config.max_gap_ns = Fixed::from_int(meta.clock.max_gap_ns);
    config.initial_rate = meta.clock.initial_rate;
    config
}

pub(crate) fn parts(value: Fixed, what: &'static str) -> Result<(i64, u32), TimeError> {
    let whole = value.floor_i64().ok_or(TimeError::Overflow { what })?;
    Ok((whole, value.frac()))
}

pub(crate) fn point_row(run: u32, point: &Point) -> Result<PointRow, TimeError> {
    let (civil_ns, civil_frac) = parts(point.civil, "civil time of a stamp")?;
    let (resolution_ns, resolution_frac) = parts(point.resolution, "resolution of a stamp")?;
    Ok(PointRow {
        run,
        index: point.index,
        civil_ns,
        civil_frac,
        resolution_ns,
        resolution_frac,
        usage: point.use_ as u8,
    })
}

pub(crate) fn point(row: &PointRow) -> Point {
    Point {
        index: row.index,
        civil: Fixed::from_parts(row.civil_ns, row.civil_frac),
        resolution: Fixed::from_parts(row.resolution_ns, row.resolution_frac),
        use_: match row.usage {
            1 => PointUse::Outlier,
            2 => PointUse::BeforeLock,
            3 => PointUse::LeapSecond,
            _ => PointUse::Used,
        },
    }
}

pub(crate) fn piece_row(piece: &Piece) -> Result<PieceRow, TimeError> {
    let (civil_ns, civil_frac) = parts(piece.civil, "civil time of a fitted piece")?;
    let picoseconds = |ns: f64| (ns * 1e3).ceil().max(0.0) as u64;
    Ok(PieceRow {
        index: piece.index,
        end: piece.end.unwrap_or(-1),
        civil_ns,
        civil_frac,
        num: piece.num,
        den: piece.den,
        uncertainty_ps: picoseconds(piece.uncertainty_ns),
        residual_ps: picoseconds(piece.residual_ns),
    })
}

pub(crate) fn piece(run: u32, row: &PieceRow) -> Piece {
    Piece {
        run: RunId(run),
        index: row.index,
        end: (row.end >= 0).then_some(row.end),
        civil: Fixed::from_parts(row.civil_ns, row.civil_frac),
        num: row.num,
        den: row.den,
        uncertainty_ns: row.uncertainty_ps as f64 / 1e3,
        residual_ns: row.residual_ps as f64 / 1e3,
    }
}

/// Uncorrected metric from indices to civil time, if any.
pub(crate) fn empirical(state: &SignalState) -> Result<Option<Empirical>, StoreError> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(state.fit.len());
    for (id, row) in state.fit.iter() {
        let mut piece = piece(id, &row);
        let run = state.runs.by_id(id);
        if piece.end.is_none() {
            let end = run.map_or(state.end, |run| run.end);
            piece.end = (end > piece.index).then_some(end);
        }
        // Samples before a run's first stamp are on its own line.
        let first = pieces.last().is_none_or(|before| before.run != piece.run);
        if let Some(run) = run.filter(|run| first && run.start < piece.index) {
            piece.civil = piece.civil_at(Fixed::from_int(run.start))?;
            piece.index = run.start;
        }
        pieces.push(piece);
    }
    // Only the last piece may be open without samples.
    let count = pieces.len();
    let mut position = 0;
    pieces.retain(|piece| {
        position += 1;
        piece.end.is_some() || position == count
    });
    if pieces.is_empty() {
        return Ok(None);
    }
    Ok(Some(Empirical::from_pieces(pieces)?))
}

/// Half periods of insignificant deviation before the scatter of stamps is known: what a clock allows its first stamps.
const UNLEARNED_HALVES: i64 = 5;

/// Deviation that is neither gap nor step, where a line is only stated or the stamp is late: the signal's `gap_slip`,
/// else 2.5 periods; at least the stamp's resolution.
pub(crate) fn unlearned_slip(meta: &SignalMeta, stamp: &Stamp) -> Result<Fixed, StoreError> {
    let slip = match meta.clock.gap_slip_ns {
        Some(ns) => Fixed::from_int(ns),
        None => {
            let twice = meta.expected_rate().duration_ns(UNLEARNED_HALVES)?;
            Fixed::from_bits(twice.to_bits() / 2)
        }
    };
    Ok(slip.max(stamp.resolution))
}

/// The clock from the run's own stamps, if any.
pub(crate) fn of_run(state: &SignalState, run: &RunRow) -> Result<Option<Clock>, StoreError> {
    let points: Vec<Point> = state.points.of_run(run.id).map(|row| point(&row)).collect();
    if points.is_empty() {
        return Ok(None);
    }
    let pieces: Vec<Piece> = state
        .fit
        .of_run(run.id)
        .map(|row| piece(run.id, &row))
        .collect();
    let end = stamped_end(state, run);
    let clock = Clock::resume(config(&state.meta), RunId(run.id), &points, &pieces, end)?;
    Ok(Some(clock))
}

/// The clock to continue with in `run`, from earlier stamps of runs that `takes` accepts, if any.
pub(crate) fn resume(
    state: &SignalState,
    run: &RunRow,
    takes: impl Fn(&RunRow) -> bool,
) -> Result<Option<Clock>, StoreError> {
    let mut points: Vec<Point> = Vec::new();
    let mut pieces: Vec<Piece> = Vec::new();
    for earlier in state.runs.iter().filter(|r| r.id <= run.id && takes(r)) {
        points.extend(state.points.of_run(earlier.id).map(|row| point(&row)));
        let rows = state.fit.of_run(earlier.id);
        pieces.extend(rows.map(|row| {
            let mut piece = piece(earlier.id, &row);
            // A clock has one open piece, the last.
            if earlier.id != run.id {
                piece.end = piece.end.or(Some(earlier.end));
            }
            piece
        }));
    }
    if points.is_empty() {
        return Ok(None);
    }
    let end = stamped_end(state, run);
    let clock = Clock::resume(config(&state.meta), RunId(run.id), &points, &pieces, end)?;
    Ok(Some(clock))
}

/// End of the run, or its last jump of time at a gap.
fn stamped_end(state: &SignalState, run: &RunRow) -> i64 {
    let count = state.fit.count_of_run(run.id);
    match state.fit.last_of_run(run.id) {
        Some(last) if last.index >= run.end && count > 1 => state
            .fit
            .nth_of_run(run.id, count - 2)
            .map_or(run.end, |before| before.end),
        _ => run.end,
    }
}
