//! Checks a signal's tables against each other and its end, after replay: before, one table may be newer than another.
//! What is refused cannot result from appends, gaps, fills and stamps.

mod stamps;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::clock;
use crate::corrections::corrected_clock;
use crate::error::StoreError;
use crate::state::{CORRECTIONS, FIT, GAPS, POINTS, RUNS, SignalState};

/// Highest use of a stamp.
const LAST_USE: u8 = 3;

/// An inconsistency that only verification looks for: it costs a pass over all stamps.
pub(crate) struct Contradiction {
    pub(crate) table: &'static str,
    pub(crate) what: String,
    pub(crate) range: Range<i64>,
}

/// Checks tables against end and each other, and each fitted piece against its first and last stamp.
///
/// # Errors
/// [`StoreError::DamagedTable`].
pub(crate) fn check(state: &SignalState) -> Result<(), StoreError> {
    gaps(state)?;
    runs(state)?;
    points(state)?;
    fit(state)?;
    stamps::check_ends(state)
}

/// As [`check`], without stamps.
///
/// # Errors
/// [`StoreError::DamagedTable`].
pub(crate) fn check_without_stamps(state: &SignalState) -> Result<(), StoreError> {
    gaps(state)?;
    runs(state)?;
    fit(state)
}

pub(crate) fn contradiction(state: &SignalState) -> Option<Contradiction> {
    without_run(state)
        .or_else(|| stamps::far_from_fit(state))
        .or_else(|| impossible_correction(state))
}

/// Ignores corrections of newer versions.
fn impossible_correction(state: &SignalState) -> Option<Contradiction> {
    match corrected_clock::empirical(state) {
        Err(StoreError::Time(error)) => Some(Contradiction {
            table: CORRECTIONS,
            what: format!("its points make no correction: {error}"),
            range: 0..state.end,
        }),
        _ => None,
    }
}

fn without_run(state: &SignalState) -> Option<Contradiction> {
    let samples = state.end - state.gaps.missing_within(0..state.end);
    (state.runs.is_empty() && samples > 0).then(|| Contradiction {
        table: RUNS,
        what: format!("{samples} samples in 0..{} lie in no run", state.end),
        range: 0..state.end,
    })
}

fn damaged(
    state: &SignalState,
    table: &'static str,
    row: usize,
    reason: &'static str,
) -> StoreError {
    StoreError::DamagedTable {
        signal: state.name.to_string(),
        table,
        row,
        reason,
    }
}

fn gaps(state: &SignalState) -> Result<(), StoreError> {
    let last = state.gaps.len().checked_sub(1);
    let beyond = last.filter(|last| {
        let gap = state.gaps.get(*last);
        gap.is_some_and(|gap| gap.end() > state.end)
    });
    match beyond {
        Some(row) => {
            let reason = "the gap reaches beyond the end of the signal";
            Err(damaged(state, GAPS, row, reason))
        }
        None => Ok(()),
    }
}

fn runs(state: &SignalState) -> Result<(), StoreError> {
    if state.runs.is_empty() {
        return Ok(());
    }
    let has_samples =
        |range: Range<i64>| state.gaps.missing_within(range.clone()) < range.end - range.start;
    let mut at = 0;
    for (row, run) in state.runs.iter().enumerate() {
        if run.end > state.end {
            let reason = "the run reaches beyond the end of the signal";
            return Err(damaged(state, RUNS, row, reason));
        }
        if at < run.start && has_samples(at..run.start) {
            let reason = "samples before the run belong to no run";
            return Err(damaged(state, RUNS, row, reason));
        }
        at = run.end;
    }
    if at < state.end && has_samples(at..state.end) {
        let reason = "samples behind the run belong to no run";
        return Err(damaged(state, RUNS, state.runs.len() - 1, reason));
    }
    Ok(())
}

fn points(state: &SignalState) -> Result<(), StoreError> {
    let mut run = None;
    for (row, point) in state.points.iter().enumerate() {
        let wrong = |reason| Err(damaged(state, POINTS, row, reason));
        if run.is_none_or(|run: crate::op::RunRow| run.id != point.run) {
            run = state.runs.by_id(point.run);
        }
        let Some(run) = run else {
            return wrong("the stamp belongs to a run that there is not");
        };
        if point.index < run.start || point.index > run.end {
            return wrong("the stamp lies outside its run");
        }
        if point.resolution_ns < 0 {
            return wrong("the resolution is negative");
        }
        if point.usage > LAST_USE {
            return wrong("the use is unknown");
        }
    }
    Ok(())
}

fn fit(state: &SignalState) -> Result<(), StoreError> {
    for (row, (id, piece)) in state.fit.iter().enumerate() {
        let wrong = |reason| Err(damaged(state, FIT, row, reason));
        let Some(run) = state.runs.by_id(id) else {
            return wrong("the piece belongs to a run that there is not");
        };
        let is_open = piece.end == -1;
        if piece.index < run.start || piece.index > run.end || piece.end > run.end {
            return wrong("the piece lies outside its run");
        }
        if !is_open && piece.end <= piece.index {
            return wrong("the piece ends before it starts");
        }
    }
    // Order, overlap, slopes, and non-decreasing time within a run.
    match clock::empirical(state) {
        Ok(_) => Ok(()),
        Err(_) => Err(damaged(
            state,
            FIT,
            0,
            "the pieces make no clock: they overlap, time runs backwards, or a slope is impossible",
        )),
    }
}
