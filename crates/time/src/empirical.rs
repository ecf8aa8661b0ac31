//! [`Empirical`]: from a signal's samples to civil time.
//!
//! `pieces` are in index order; `order` groups them by run, with its inverse `rank`; `runs` are by civil start, with
//! `latest[k]` the one of `runs[..=k]` that ends last.
//!
//! Invariants, checked by [`Empirical::from_pieces`]:
//! - index ranges are disjoint and ascending; only the last is open;
//! - within a run civil time ascends with index, gaps included, by at least 2^-16 ns per sample, so that rounding to
//!   nearest inverts `time_of`.
//!
//! `lookup.rs` maps civil time back to an index; `grid.rs` converts in bulk.

use serde::{Deserialize, Serialize};

use crate::line::Line;
use crate::{Exact, Fixed, Piece, RunId, Time, TimeError, TimebaseId};

/// Extent of a run on both axes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunSpan {
    /// The run.
    pub run: RunId,
    /// First index.
    pub index: i64,
    /// Index after the last sample; `None` while the run grows.
    pub end: Option<i64>,
    /// Civil time of the first sample.
    pub civil: Fixed,
    /// Civil time after the last sample; [`Fixed::MAX`] while the run grows.
    pub civil_end: Fixed,
}

/// The pieces of a run: `order[first..first + count]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct RunPieces {
    pub(crate) run: RunId,
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// Piecewise-linear map from sample index to civil time.
///
/// ```
/// use isochrony_time::{Empirical, Fixed, Lookup, Piece, Rate, RunId};
/// let start = Fixed::from_int(1_267_401_600_000_000_000);
/// let piece = Piece::nominal(RunId(0), 0, start, "100.0000042".parse()?);
/// let metric = Empirical::from_pieces(vec![piece])?;
/// let time = metric.time_of(123_456_789)?;
/// assert_eq!(metric.index_of_time(&time, Lookup::default())?.index, 123_456_789);
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Empirical {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) order: Vec<u32>,
    pub(crate) rank: Vec<u32>,
    pub(crate) by_run: Vec<RunPieces>,
    pub(crate) runs: Vec<RunSpan>,
    pub(crate) latest: Vec<u32>,
    pub(crate) timebase: Option<TimebaseId>,
}

/// Serialised form; the rest is derived.
#[derive(Serialize, Deserialize)]
struct Parts {
    pieces: Vec<Piece>,
    timebase: Option<TimebaseId>,
}

impl TryFrom<Parts> for Empirical {
    type Error = TimeError;
    fn try_from(p: Parts) -> Result<Self, TimeError> {
        Ok(Self {
            timebase: p.timebase,
            ..Self::from_pieces(p.pieces)?
        })
    }
}

impl From<Empirical> for Parts {
    fn from(e: Empirical) -> Self {
        Self {
            pieces: e.pieces,
            timebase: e.timebase,
        }
    }
}

/// Indices on which one line holds: a piece, or the gap after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexSpan {
    pub(crate) line: Line,
    pub(crate) run: RunId,
    pub(crate) in_gap: bool,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Empirical {
    /// Builds a metric from pieces in index order.
    ///
    /// # Errors
    /// [`TimeError::Empty`], [`TimeError::ZeroSlope`], [`TimeError::BadPiece`] if pieces overlap or are unordered,
    /// civil time runs backwards, a slope is outside 2^-16..2^62 ns per sample, a gap is shorter than 2^-16 ns per
    /// index, or an uncertainty or a residual is NaN or negative; [`TimeError::Overflow`].
    pub fn from_pieces(pieces: Vec<Piece>) -> Result<Self, TimeError> {
        if pieces.is_empty() {
            return Err(TimeError::Empty);
        }
        for (at, piece) in pieces.iter().enumerate() {
            check(at, piece, pieces.get(at + 1))?;
        }
        let mut order: Vec<u32> = (0..pieces.len() as u32).collect();
        order.sort_by_key(|&p| pieces[p as usize].run);
        let mut rank = vec![0; pieces.len()];
        for (r, &p) in order.iter().enumerate() {
            rank[p as usize] = r as u32;
        }
        let mut by_run: Vec<RunPieces> = Vec::new();
        for (r, &p) in order.iter().enumerate() {
            let run = pieces[p as usize].run;
            match by_run.last_mut() {
                Some(last) if last.run == run => last.count += 1,
                _ => by_run.push(RunPieces {
                    run,
                    first: r,
                    count: 1,
                }),
            }
        }
        let mut runs = Vec::with_capacity(by_run.len());
        for group in &by_run {
            let of_run = &order[group.first..group.first + group.count];
            for pair in of_run.windows(2) {
                check_order(
                    pair[1] as usize,
                    &pieces[pair[0] as usize],
                    &pieces[pair[1] as usize],
                )?;
            }
            let (first, last) = (
                &pieces[of_run[0] as usize],
                &pieces[of_run[of_run.len() - 1] as usize],
            );
            runs.push(RunSpan {
                run: group.run,
                index: first.index,
                end: last.end,
                civil: first.civil,
                civil_end: civil_end(last)?,
            });
        }
        runs.sort_by_key(|r| (r.civil, r.index));
        let mut latest: Vec<u32> = Vec::with_capacity(runs.len());
        for (k, run) in runs.iter().enumerate() {
            let before = latest
                .last()
                .copied()
                .filter(|&l| runs[l as usize].civil_end > run.civil_end);
            latest.push(before.unwrap_or(k as u32));
        }
        Ok(Self {
            pieces,
            order,
            rank,
            by_run,
            runs,
            latest,
            timebase: None,
        })
    }

    /// The pieces, in index order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The runs, by civil start.
    pub fn runs(&self) -> &[RunSpan] {
        &self.runs
    }

    /// Closes the last piece at the committed length.
    ///
    /// An open piece claims all later civil time; close it before lookups if runs may overlap.
    ///
    /// # Errors
    /// [`TimeError::BadPiece`] unless `end` is after the last piece's start.
    pub fn closed_at(mut self, end: i64) -> Result<Self, TimeError> {
        if let Some(last) = self.pieces.last_mut() {
            last.end = Some(end);
        }
        Ok(Self {
            timebase: self.timebase,
            ..Self::from_pieces(self.pieces)?
        })
    }

    /// Sets the signal's timebase. Times carry it as `origin`, so that run 3 of one signal is not taken for run 3 of
    /// another.
    pub fn with_timebase(self, timebase: TimebaseId) -> Self {
        Self {
            timebase: Some(timebase),
            ..self
        }
    }

    /// Civil time of an index, to the nearest 2^-32 ns.
    ///
    /// Inside a gap: interpolated, flagged. Outside all runs: extrapolated from the preceding piece (or the first), not
    /// flagged.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn time_of(&self, index: impl Into<Fixed>) -> Result<Time, TimeError> {
        let index = index.into();
        self.time_on(self.span_at(index)?, index)
    }

    /// Civil time of the exclusive end of an index range: as [`Empirical::time_of`], by the clock of the samples before
    /// it.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn end_of(&self, index: impl Into<Fixed>) -> Result<Time, TimeError> {
        let index = index.into();
        let last = index.ceil_i64().and_then(|end| end.checked_sub(1));
        let last = last.ok_or(TimeError::Overflow { what: "index" })?;
        self.time_on(self.span_at(Fixed::from_int(last))?, index)
    }

    pub(crate) fn time_of_exact(&self, index: &Exact) -> Result<Time<Exact>, TimeError> {
        self.time_on_exact(self.span_at(index.floor_fixed()?)?, index)
    }

    pub(crate) fn end_of_exact(&self, index: &Exact) -> Result<Time<Exact>, TimeError> {
        let last = index.ceil_i64().and_then(|end| end.checked_sub(1));
        let last = last.ok_or(TimeError::Overflow { what: "index" })?;
        self.time_on_exact(self.span_at(Fixed::from_int(last))?, index)
    }

    fn time_on_exact(&self, span: IndexSpan, index: &Exact) -> Result<Time<Exact>, TimeError> {
        Ok(Time {
            run: Some(span.run),
            in_gap: span.in_gap,
            origin: self.timebase,
            ..Time::exact(span.line.civil_at_exact(index)?, TimebaseId::CIVIL)
        })
    }

    fn time_on(&self, span: IndexSpan, index: Fixed) -> Result<Time, TimeError> {
        Ok(Time {
            value: span.line.civil_at(index)?,
            timebase: TimebaseId::CIVIL,
            run: Some(span.run),
            in_gap: span.in_gap,
            origin: self.timebase,
        })
    }

    /// Half-width around [`Empirical::time_of`], ns.
    pub fn uncertainty_ns(&self, index: i64) -> f64 {
        self.pieces[self.piece_before(index)].uncertainty_ns
    }

    /// Largest uncertainty of a run, ns; `None` for an unknown run.
    #[must_use]
    pub fn run_uncertainty_ns(&self, run: RunId) -> Option<f64> {
        self.pieces_of(run)
            .map(|piece| piece.uncertainty_ns)
            .reduce(f64::max)
    }

    /// Half-width in ns, and ns per sample. Inside a gap the slope is the gap's, the uncertainty that of the piece
    /// before.
    pub(crate) fn uncertainty_and_slope(&self, index: i64) -> Result<(f64, f64), TimeError> {
        let line = self.span_at(Fixed::from_int(index))?.line;
        Ok((self.uncertainty_ns(index), 1.0 / line.samples_per_ns()))
    }

    /// The last piece that starts at or before `index`, else the first.
    fn piece_before(&self, index: i64) -> usize {
        self.pieces
            .partition_point(|p| p.index <= index)
            .saturating_sub(1)
    }

    pub(crate) fn span_at(&self, index: Fixed) -> Result<IndexSpan, TimeError> {
        let whole = index
            .floor_i64()
            .ok_or(TimeError::Overflow { what: "index" })?;
        let at = self.piece_before(whole);
        let piece = &self.pieces[at];
        let line = Line::of(piece);
        let next_start = self.pieces.get(at + 1).map_or(i64::MAX, |p| p.index);
        let from = if at == 0 { i64::MIN } else { piece.index };
        let data = IndexSpan {
            line,
            run: piece.run,
            in_gap: false,
            from,
            to: next_start,
        };
        let Some(end) = piece.end.filter(|&e| e < next_start) else {
            return Ok(data);
        };
        let Some(after) = self.next_in_run(at) else {
            return Ok(data);
        };
        if whole < end {
            return Ok(IndexSpan { to: end, ..data });
        }
        let after = &self.pieces[after];
        let line = Line::between(end, civil_end(piece)?, after.index, after.civil);
        Ok(IndexSpan {
            line,
            run: piece.run,
            in_gap: true,
            from: end,
            to: next_start,
        })
    }

    pub(crate) fn pieces_of(&self, run: RunId) -> impl Iterator<Item = &Piece> {
        let at = self.by_run.binary_search_by_key(&run, |known| known.run);
        let (first, count) = at.map_or((0, 0), |at| (self.by_run[at].first, self.by_run[at].count));
        let order = &self.order[first..first + count];
        order.iter().map(|&piece| &self.pieces[piece as usize])
    }

    pub(crate) fn next_in_run(&self, piece: usize) -> Option<usize> {
        let next = *self.order.get(self.rank[piece] as usize + 1)? as usize;
        (self.pieces[next].run == self.pieces[piece].run).then_some(next)
    }
}

pub(crate) fn civil_end(piece: &Piece) -> Result<Fixed, TimeError> {
    piece
        .end
        .map_or(Ok(Fixed::MAX), |end| piece.civil_at(Fixed::from_int(end)))
}

fn check(position: usize, piece: &Piece, next: Option<&Piece>) -> Result<(), TimeError> {
    let bad = |reason| TimeError::BadPiece {
        position,
        run: piece.run,
        index: piece.index,
        reason,
    };
    let (num, den) = (i128::from(piece.num), i128::from(piece.den));
    if num == 0 || den == 0 {
        let what = format!(
            "piece {position} (run {}, index {})",
            piece.run.0, piece.index
        );
        return Err(TimeError::ZeroSlope {
            what,
            num,
            den: piece.den.into(),
        });
    }
    if num << 16 < den || num >> 62 > den {
        return Err(bad("nanoseconds per sample outside 2^-16 to 2^62"));
    }
    if piece.uncertainty_ns.is_nan() || piece.uncertainty_ns < 0.0 {
        return Err(bad("uncertainty is negative or not a number"));
    }
    if piece.residual_ns.is_nan() || piece.residual_ns < 0.0 {
        return Err(bad("residual is negative or not a number"));
    }
    if piece.end.is_some_and(|end| end <= piece.index) {
        return Err(bad("it has no samples: its end is not after its start"));
    }
    match (piece.end, next) {
        (None, Some(_)) => Err(bad("only the last piece may be open")),
        (Some(end), Some(next)) if next.index < end => Err(bad("it overlaps the next piece")),
        _ => Ok(()),
    }
}

fn check_order(position: usize, piece: &Piece, next: &Piece) -> Result<(), TimeError> {
    let bad = |reason| TimeError::BadPiece {
        position,
        run: next.run,
        index: next.index,
        reason,
    };
    let end = piece
        .end
        .ok_or_else(|| bad("an earlier piece of its run is open"))?;
    let last = piece.civil_at(Fixed::from_int(end - 1))?;
    if next.civil <= last {
        return Err(bad(
            "it starts before the last sample of the piece before it",
        ));
    }
    if next.index > end {
        let least = (i128::from(next.index) - i128::from(end)) << 16;
        let gap = next.civil.checked_sub(civil_end(piece)?);
        if gap.is_none_or(|g| g.to_bits() < least) {
            return Err(bad(
                "the gap before it covers indices but lasts less than 2^-16 ns per index",
            ));
        }
    }
    Ok(())
}
