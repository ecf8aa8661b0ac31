//! Restores a clock from stored points and pieces.

use super::{Clock, ClockConfig, Placement, Point, PointUse, Stamp};
use crate::{Piece, RunId, TimeError};

impl Clock {
    /// The clock after the last of these points.
    ///
    /// `points` and `pieces` are those of all runs of a signal, in index order; `run` is to be continued, and ends
    /// before `end`. Points are replayed, so an incremental import continues as if uninterrupted. Points out of index
    /// order (a late file in an old gap) are skipped, as at first.
    ///
    /// # Errors
    /// [`TimeError::BadConfig`], [`TimeError::BadResolution`],
    /// [`TimeError::Overflow`].
    pub fn resume(
        config: ClockConfig,
        run: RunId,
        points: &[Point],
        pieces: &[Piece],
        end: i64,
    ) -> Result<Self, TimeError> {
        let first = pieces.first().map_or(run, |p| p.run);
        let mut clock = Self::new(config, first)?;
        for (k, point) in points.iter().enumerate() {
            let at = pieces.partition_point(|p| p.index <= point.index);
            let piece = at.checked_sub(1).map(|p| &pieces[p]);
            if let Some(piece) = piece
                && piece.run != clock.run
            {
                clock = clock.next_run(piece.run);
            }
            let after = points.get(k + 1).map_or(end, |p| p.index);
            // Samples extend to the next point, or to the gap or run before it.
            let stop = piece
                .and_then(|p| gap_after(&pieces[at - 1..], p.run, after))
                .map_or(after, |stop| stop.min(after));
            clock.replay(point, piece, stop)?;
        }
        if run != clock.run {
            clock = clock.next_run(run);
        }
        if let Some(state) = &mut clock.state {
            state.end = state.end.max(end);
        }
        Ok(clock)
    }

    fn replay(&mut self, point: &Point, piece: Option<&Piece>, stop: i64) -> Result<(), TimeError> {
        let stamp = Stamp {
            civil: point.civil,
            resolution: point.resolution,
            leap: point.use_ == PointUse::LeapSecond,
        };
        let Ok(samples) = u64::try_from(i128::from(stop) - i128::from(point.index)) else {
            return Ok(());
        };
        if samples == 0 || self.end().is_some_and(|end| point.index < end) {
            return Ok(());
        }
        let used = matches!(point.use_, PointUse::Used | PointUse::LeapSecond);
        match (&self.state, used) {
            // A lock extends back to the start of its run.
            (None, false) => {}
            (None, true) => {
                self.accept(point.index, &stamp, samples, &Placement::First)?;
                if let (Some(state), Some(piece)) = (&mut self.state, piece) {
                    let start = piece.index.min(point.index);
                    state.start = start;
                    state.open_span.reach_back(start);
                }
            }
            (Some(state), true) if point.index > state.end => {
                let duration_ns = crate::Fixed::ZERO;
                let gap = Placement::Gap {
                    samples: None,
                    duration_ns,
                };
                self.accept(point.index, &stamp, samples, &gap)?;
            }
            (Some(_), true) => {
                self.accept(point.index, &stamp, samples, &Placement::Contiguous)?;
            }
            (Some(_), false) => {
                if let Some(state) = &mut self.state {
                    state.end = stop;
                }
            }
        }
        Ok(())
    }
}

/// End of the samples that continue `pieces[0]`, if before `until`.
fn gap_after(pieces: &[Piece], run: RunId, until: i64) -> Option<i64> {
    for (k, piece) in pieces.iter().enumerate() {
        let end = piece.end?;
        match pieces.get(k + 1) {
            Some(next) if next.run == run && next.index == end => {
                if end >= until {
                    return None;
                }
            }
            _ => return Some(end),
        }
    }
    None
}
