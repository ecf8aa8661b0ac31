//! Appends gaps.

use isochrony_time::{Fixed, Piece, RunId};

use super::change::Change;
use super::checked_end;
use super::live::{expected, live_tail, take_clock};
use super::writer_state::{LiveClock, WriterState};
use crate::clock;
use crate::error::StoreError;
use crate::op::{Op, RunReason};
use crate::state::{Gap, SignalState};

pub(super) fn check_gap(state: &SignalState, samples: i64) -> Result<(), StoreError> {
    let max = i64::MAX - state.end;
    if samples <= 0 || samples > max {
        return Err(StoreError::InvalidLength {
            signal: (*state.name).into(),
            action: "append a gap of",
            length: samples,
            max,
        });
    }
    Ok(())
}

pub(super) fn gap_behind(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'_>,
    samples: i64,
) -> Result<Gap, StoreError> {
    let expected = expected(state, writer)?;
    let (mut run, began) = live_tail(state, writer)?;
    let (id, start) = (state.id, state.end);
    let end = checked_end(start, samples)?;
    run.end = end;
    change.ops.push(Op::Gap { id, start, end });
    change.ops.push(Op::End { id, end });
    change.ops.push(Op::Run { id, run });
    if began == Some(RunReason::Resumed) {
        // No sample carries a stamp, so the line is stated.
        let clock = take_clock(state, writer, &run)?;
        if let Some(civil) = expected {
            let piece = Piece::nominal(RunId(run.id), start, civil, state.meta.expected_rate());
            change.fit(state, run.id, &[piece], 0)?;
        }
        writer.live = Some(LiveClock::Known(clock));
    }
    Ok(Gap {
        start,
        length: samples,
    })
}

/// Restarts the line at `resumes`, with the same slope, after a gap whose length on the axis is not a duration.
pub(super) fn jump(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'_>,
    gap: Gap,
    resumes: Fixed,
) -> Result<(), StoreError> {
    let (run, _) = live_tail(state, writer)?;
    let mut pieces: Vec<Piece> = state
        .fit
        .of_run(run.id)
        .map(|row| clock::piece(run.id, &row))
        .collect();
    let behind = match pieces.last_mut() {
        Some(last) => {
            let behind = Piece {
                index: gap.end(),
                end: None,
                civil: resumes,
                ..*last
            };
            last.end = Some(gap.start);
            behind
        }
        None => Piece::nominal(
            RunId(run.id),
            gap.end(),
            resumes,
            state.meta.expected_rate(),
        ),
    };
    pieces.retain(|piece| piece.end.is_none_or(|end| end > piece.index));
    pieces.push(behind);
    change.ops.retain(|op| !matches!(op, Op::Fit { .. }));
    change.fit(state, run.id, &pieces, 0)?;
    writer.forget_clock();
    Ok(())
}
