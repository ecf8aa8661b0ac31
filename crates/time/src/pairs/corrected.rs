//! Correction of a signal's metric by a better clock.

use super::PointMetric;
use crate::clock::COVERAGE_SIGMAS;
use crate::line::Line;
use crate::wide::best_u64_ratio;
use crate::{Empirical, Exact, Fixed, Piece, RunId, TimeError};

impl Empirical {
    /// Applies to each run its `correction`, if any, from recorded to true civil time.
    ///
    /// The correction measures what stamps leave uncertain, such as the rate. Their scatter and bridged steps remain.
    ///
    /// Between a knot and the next sample, where a piece begins, the line is off by less than the rate changes in a
    /// sample; the uncertainty includes it.
    ///
    /// # Errors
    /// [`TimeError::BadPiece`] if a correction runs backwards, or so steeply that samples coincide;
    /// [`TimeError::Overflow`].
    pub fn corrected<'a>(
        &self,
        correction: impl Fn(RunId) -> Option<&'a PointMetric>,
    ) -> Result<Self, TimeError> {
        let mut pieces = Vec::with_capacity(self.pieces.len());
        let mut ends: Option<(RunId, f64)> = None;
        for (position, piece) in self.pieces.iter().enumerate() {
            let Some(metric) = correction(piece.run) else {
                pieces.push(*piece);
                continue;
            };
            if !metric.rises() {
                return Err(TimeError::BadPiece {
                    position,
                    run: piece.run,
                    index: piece.index,
                    reason: "the correction of its clock runs backwards",
                });
            }
            if ends.is_none_or(|(run, _)| run != piece.run) {
                ends = Some((piece.run, self.end_uncertainty_ns(piece.run)));
            }
            let of_ends = ends.map_or(0.0, |(_, of_ends)| of_ends);
            // A bridged step may be anywhere on its piece.
            let bridged = (piece.uncertainty_ns - of_ends).max(0.0);
            let off_line = piece
                .uncertainty_ns
                .min(COVERAGE_SIGMAS * piece.residual_ns)
                + bridged;
            correct(piece, off_line, metric, &mut pieces)?;
        }
        Ok(Self {
            timebase: self.timebase,
            ..Self::from_pieces(pieces)?
        })
    }
}

impl Empirical {
    fn end_uncertainty_ns(&self, run: RunId) -> f64 {
        let mut pieces = self.pieces_of(run).map(|piece| piece.uncertainty_ns);
        let first = pieces.next().unwrap_or(0.0);
        first.max(pieces.last().unwrap_or(0.0))
    }
}

/// Samples from which the slope of an open piece is computed.
const OPEN_REACH: i64 = 1 << 20;

fn correct(
    piece: &Piece,
    off_line_ns: f64,
    metric: &PointMetric,
    out: &mut Vec<Piece>,
) -> Result<(), TimeError> {
    let line = Line::of(piece);
    let true_time = |index: i64| -> Result<Exact, TimeError> {
        metric.forward_exact(&line.civil_at_exact(&index.into())?)
    };
    let end = piece
        .end
        .unwrap_or_else(|| piece.index.saturating_add(OPEN_REACH));
    let recorded_end = line.civil_at(Fixed::from_int(end))?;
    let mut borders = vec![piece.index];
    for at in metric.breaks(piece.civil, recorded_end) {
        let index = line.position(at)?.ceil_i64();
        let index = index.ok_or(TimeError::Overflow { what: "index" })?;
        if borders.last().is_some_and(|last| *last < index) && index < end {
            borders.push(index);
        }
    }
    borders.push(end);
    let mut start = true_time(piece.index)?.to_fixed()?;
    for pair in borders.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let stop = true_time(to)?.to_fixed()?;
        let samples = i128::from(to) - i128::from(from);
        let took = stop.to_bits().saturating_sub(start.to_bits());
        let ratio = best_u64_ratio(took.max(0).unsigned_abs(), samples.unsigned_abs() << 32);
        let (num, den) = ratio.ok_or(TimeError::Overflow { what: "slope" })?;
        let mut corrected = Piece {
            index: from,
            end: (to < end).then_some(to).or(piece.end),
            civil: start,
            num,
            den,
            ..*piece
        };
        // Distance of the chord from the correction at a knot before its last sample.
        let last = corrected.civil_at(Fixed::from_int(to - 1))?;
        let bend = true_time(to - 1)?.minus(&last.into()).magnitude();
        let recorded = [from, to].map(|index| line.civil_at(Fixed::from_int(index)));
        let [recorded_from, recorded_to] = recorded;
        let (recorded_from, recorded_to) = (recorded_from?, recorded_to?);
        corrected.uncertainty_ns = metric.most_uncertain(recorded_from, recorded_to)
            + off_line_ns * metric.rate(recorded_from)
            + bend.to_fixed()?.to_f64();
        out.push(corrected);
        start = stop;
    }
    Ok(())
}
