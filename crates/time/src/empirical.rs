//! [`Empirical`]: the metric of one signal's samples against civil time.

use crate::{Fixed, Piece, RunId, Time, TimeError};

/// How a civil time between two samples becomes an index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Round {
    /// The nearest sample, the default: inverts `time_of`.
    #[default]
    Nearest,
    /// The last sample not after the time.
    Floor,
    /// The first sample not before the time.
    Ceil,
    /// Only a time that `time_of` gives for a sample; else an error.
    Exact,
}

/// Which run to take where two cover one civil time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Prefer {
    /// The run that starts first in civil time.
    First,
    /// The run that starts last in civil time.
    Last,
    /// This run, also outside its span (by extrapolation).
    Run(RunId),
}

/// Options of a lookup by civil time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lookup {
    /// Rounding.
    pub round: Round,
    /// What to do where runs overlap; `None`: an error naming both.
    pub prefer: Option<Prefer>,
}

/// Where a civil time lies on the index axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexAt {
    /// The index, rounded as asked.
    pub index: i64,
    /// The unrounded position, to 2^-32 of a sample.
    pub position: Fixed,
    /// The run.
    pub run: RunId,
    /// Whether no sample was recorded at that time, so that the index is
    /// address space between the ends of a gap.
    pub in_gap: bool,
}

/// Extent of one run on both axes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunSpan {
    /// The run.
    pub run: RunId,
    /// First index.
    pub index: i64,
    /// Index after the last sample; `None` while the run still grows.
    pub end: Option<i64>,
    /// Civil time of the first sample.
    pub civil: Fixed,
    /// Civil time after the last sample; [`Fixed::MAX`] while the run still grows.
    pub civil_end: Fixed,
}

/// Piecewise-linear map from sample index to civil time.
#[derive(Clone, PartialEq, Debug)]
pub struct Empirical {
    pub(crate) pieces: Vec<Piece>,
}

impl Empirical {
    /// From stored pieces, in index order.
    ///
    /// # Errors
    /// [`TimeError::Empty`], [`TimeError::BadPiece`], [`TimeError::ZeroSlope`].
    pub fn from_runs(pieces: Vec<Piece>) -> Result<Self, TimeError> {
        Ok(Self { pieces })
    }
    /// The pieces, in index order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
    /// The runs, by the civil time of their first sample.
    pub fn runs(&self) -> &[RunSpan] {
        &[]
    }
    /// Close the last piece at the committed length.
    ///
    /// # Errors
    /// [`TimeError::BadPiece`].
    pub fn closed_at(self, end: i64) -> Result<Self, TimeError> {
        let _ = end;
        Ok(self)
    }
    /// Civil time of an index.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn time_of(&self, index: impl Into<Fixed>) -> Result<Time, TimeError> {
        let _ = index.into();
        Err(TimeError::Empty)
    }
    /// Index of a civil time.
    ///
    /// # Errors
    /// [`TimeError::Ambiguous`] and others.
    pub fn index_of(&self, civil: Fixed, lookup: Lookup) -> Result<IndexAt, TimeError> {
        let _ = (civil, lookup);
        Err(TimeError::Empty)
    }
    /// Index of a time that may remember its run, which then wins over `lookup.prefer`.
    ///
    /// # Errors
    /// As [`Empirical::index_of`].
    pub fn index_of_time(&self, time: &Time, lookup: Lookup) -> Result<IndexAt, TimeError> {
        let _ = time;
        self.index_of(time.value, lookup)
    }
    /// Civil times of many indices.
    ///
    /// # Errors
    /// As [`Empirical::time_of`].
    pub fn civil_many(&self, indices: &[i64], out: &mut [Fixed]) -> Result<(), TimeError> {
        let _ = (indices, out);
        Ok(())
    }
    /// Civil times of `start, start + step, ...`, as many as `out` holds.
    ///
    /// # Errors
    /// As [`Empirical::time_of`].
    pub fn civil_grid(&self, start: i64, step: i64, out: &mut [Fixed]) -> Result<(), TimeError> {
        let _ = (start, step, out);
        Ok(())
    }
    /// As [`Empirical::civil_grid`], rounded to whole nanoseconds (datetime64\[ns\]).
    ///
    /// # Errors
    /// [`TimeError::Overflow`] outside years 1677 to 2262.
    pub fn civil_ns_grid(&self, start: i64, step: i64, out: &mut [i64]) -> Result<(), TimeError> {
        let _ = (start, step, out);
        Ok(())
    }
    /// Indices of many civil times.
    ///
    /// # Errors
    /// As [`Empirical::index_of`].
    pub fn index_many(
        &self,
        civil: &[Fixed],
        lookup: Lookup,
        out: &mut Vec<IndexAt>,
    ) -> Result<(), TimeError> {
        let _ = (civil, lookup, out);
        Ok(())
    }
}
