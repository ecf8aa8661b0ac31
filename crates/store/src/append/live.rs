//! The live run's clock: kept between appends, else rebuilt.

use isochrony_time::{Clock, Fixed, Piece, Placement, Point, RunId, Stamp};

use super::change::Change;
use super::writer_state::{LiveClock, WriterState};
use crate::clock;
use crate::error::StoreError;
use crate::op::{RunReason, RunRow};
use crate::state::SignalState;

pub(crate) fn is_late(run: &RunRow) -> bool {
    matches!(run.reason, RunReason::Late | RunReason::Overlap)
}

pub(crate) fn live_run(state: &SignalState) -> Option<RunRow> {
    let last = state.runs.len();
    (0..last)
        .rev()
        .filter_map(|position| state.runs.get(position))
        .find(|run| !is_late(run))
}

/// `None` before any civil time.
pub(crate) fn live_clock<'a>(
    state: &SignalState,
    writer: &'a mut WriterState,
) -> Result<Option<&'a mut Clock>, StoreError> {
    if writer.live.is_none() {
        writer.live = Some(make_live_clock(state)?.map_or(LiveClock::Unknown, |clock| {
            LiveClock::Known(Box::new(clock))
        }));
    }
    Ok(match &mut writer.live {
        Some(LiveClock::Known(clock)) => Some(clock),
        _ => None,
    })
}

fn make_live_clock(state: &SignalState) -> Result<Option<Clock>, StoreError> {
    match live_run(state) {
        Some(run) => clock::resume(state, &run, |run| !is_late(run)),
        None => Ok(None),
    }
}

/// The live run's line before any stamp or sample confirms it: at its start, or after a gap over which time jumps.
pub(super) fn stated(state: &SignalState, run: &RunRow) -> Option<Piece> {
    let row = state.fit.last_of_run(run.id)?;
    let has_samples = state
        .points
        .of_run(run.id)
        .next_back()
        .is_some_and(|point| point.index >= row.index);
    (!has_samples).then(|| clock::piece(run.id, &row))
}

/// Civil time of the live run's next sample.
pub(crate) fn expected(
    state: &SignalState,
    writer: &mut WriterState,
) -> Result<Option<Fixed>, StoreError> {
    if let Some(piece) = live_run(state).and_then(|run| stated(state, &run)) {
        // Late samples at the end do not change it.
        let end = live_run(state).map_or(state.end, |run| run.end);
        return Ok(Some(piece.civil_at(Fixed::from_int(end))?));
    }
    match live_clock(state, writer)? {
        Some(clock) => Ok(clock.expected()?),
        None => Ok(None),
    }
}

pub(super) fn extend_clock(writer: &mut WriterState, samples: i64) -> Result<(), StoreError> {
    if let Some(LiveClock::Known(clock)) = &mut writer.live
        && clock.start().is_some()
    {
        clock.extend(samples.unsigned_abs())?;
    }
    Ok(())
}

/// Run for unstamped samples or a gap: the last or, if that holds late samples, a new one with the live clock.
pub(super) fn live_tail(
    state: &SignalState,
    writer: &mut WriterState,
) -> Result<(RunRow, Option<RunReason>), StoreError> {
    live_clock(state, writer)?;
    Ok(match state.runs.last() {
        Some(last) if !is_late(&last) => (last, None),
        Some(_) => (new_run(state, RunReason::Resumed), Some(RunReason::Resumed)),
        None => (new_run(state, RunReason::First), Some(RunReason::First)),
    })
}

/// Adds unstamped samples to the clock, with the expected time as their stamp where the clock has not started but civil
/// time is known.
pub(super) fn follow_on(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'_>,
    run: &RunRow,
    samples: i64,
) -> Result<(), StoreError> {
    let stated = stated(state, run);
    let goes_on = live_clock(state, writer)?
        .is_some_and(|clock| clock.run().0 == run.id && clock.start().is_some());
    if goes_on && stated.is_none() {
        return extend_clock(writer, samples);
    }
    let Some(civil) = expected(state, writer)? else {
        return Ok(());
    };
    // Exact: any other point of a wide stamp would deviate.
    let stamp = Stamp::new(civil, Fixed::ZERO);
    let mut clock = take_clock(state, writer, run)?;
    let placement = match clock.end() {
        None => Placement::First,
        Some(end) if end == state.end => Placement::Contiguous,
        Some(_) => Placement::Gap {
            samples: None,
            duration_ns: Fixed::ZERO,
        },
    };
    let point = clock.accept(state.end, &stamp, samples.unsigned_abs(), &placement)?;
    remember(state, writer, change, clock, &[point])
}

pub(super) fn take_clock(
    state: &SignalState,
    writer: &mut WriterState,
    run: &RunRow,
) -> Result<Box<Clock>, StoreError> {
    live_clock(state, writer)?;
    let id = RunId(run.id);
    Ok(match writer.live.take() {
        Some(LiveClock::Known(clock)) if clock.run() == id => clock,
        Some(LiveClock::Known(clock)) => {
            writer.settled = 0;
            Box::new(clock.next_run(id))
        }
        _ => Box::new(Clock::new(clock::config(&state.meta), id)?),
    })
}

pub(super) fn remember(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'_>,
    clock: Box<Clock>,
    points: &[Point],
) -> Result<(), StoreError> {
    let run = clock.run().0;
    for point in points {
        change.point(run, point)?;
        if let Some(stamps) = &mut writer.stamps {
            stamps.add(&clock::point_row(run, point)?);
        }
    }
    let closed = clock.closed_pieces();
    let settled = writer.settled.min(closed.len());
    let mut behind = closed[settled..].to_vec();
    behind.extend(clock.open_piece()?);
    change.fit(state, run, &behind, settled)?;
    writer.settled = closed.len();
    writer.live = Some(LiveClock::Known(clock));
    Ok(())
}

pub(crate) fn new_run(state: &SignalState, reason: RunReason) -> RunRow {
    RunRow {
        id: state.runs.next_id(),
        start: state.end,
        end: state.end,
        reason: if state.runs.is_empty() {
            RunReason::First
        } else {
            reason
        },
    }
}
