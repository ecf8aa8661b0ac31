//! Rows with named fields, in Arrow's layout: a block of [`Rows`] is a record batch and the index range it covers. The
//! fields are part of the port type ([`Fields`]).
//!
//! Columns:
//! - Rows of windows begin with `start` and `end`, indices of the first sample and after the last (int64), and, if the
//!   signal has civil time, `time` of the first sample (timestamp in ns, UTC; null if its run's clock is unknown). The
//!   requested fields follow.
//! - Numbers have NumPy's dtype; complex numbers are fixed-size lists of two parts, as are several values per window. A
//!   field's metadata has its `unit`.
//! - Civil times come from the recording's clock, to the nearest ns ([`Clock`]).
//!
//! Rows are ordered by start within a run; a block has its port's fields and covers from the start of its first row to
//! the end of its last, even if rows between were removed.

mod clock;
pub(crate) mod columns;
mod fields;
mod gather;
mod regrid;

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;

use crate::OpError;

pub use clock::Clock;
pub(crate) use clock::register;
pub(crate) use columns::RowExpression;
pub use fields::Fields;
pub(crate) use fields::{END, START, TIME};
pub(crate) use gather::Gatherer;
pub(crate) use regrid::{clock_of, on_grid};

/// A block of rows with named fields.
#[derive(Debug, Clone)]
pub struct Rows {
    batch: RecordBatch,
    /// None for groups, which have no indices.
    covers: Option<Range<i64>>,
    /// Start of a continuing next row.
    next: i64,
}

impl Rows {
    /// Rows of the samples `covers`; a continuing next row starts at `next`.
    #[must_use]
    pub fn new(batch: RecordBatch, covers: Range<i64>, next: i64) -> Self {
        Self {
            batch,
            covers: Some(covers),
            next,
        }
    }

    /// Rows without indices.
    #[must_use]
    pub fn without_index(batch: RecordBatch) -> Self {
        Self {
            batch,
            covers: None,
            next: i64::MIN,
        }
    }

    /// Reverses [`covers`](Self::covers) and [`next_start`](Self::next_start).
    pub(crate) fn of_parts(batch: RecordBatch, covers: Option<Range<i64>>, next: i64) -> Self {
        Self {
            batch,
            covers,
            next,
        }
    }

    pub(crate) fn next_start(&self) -> i64 {
        self.next
    }

    /// Other rows of the same samples.
    #[must_use]
    pub fn with_batch(&self, batch: RecordBatch) -> Self {
        Self {
            batch,
            ..self.clone()
        }
    }

    /// The record batch.
    #[must_use]
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Unwraps the record batch.
    #[must_use]
    pub fn into_batch(self) -> RecordBatch {
        self.batch
    }

    /// Number of rows.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.batch.num_rows() as u64
    }

    /// Covered indices.
    #[must_use]
    pub fn covers(&self) -> Option<Range<i64>> {
        self.covers.clone()
    }

    /// First index, and start of a continuing next row.
    #[inline]
    #[must_use]
    pub fn extent(&self) -> Option<(i64, i64)> {
        self.covers.as_ref().map(|covers| (covers.start, self.next))
    }

    /// Memory in use.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.batch.get_array_memory_size() as u64
    }

    fn starts(&self) -> Option<&[i64]> {
        let starts = self.batch.column_by_name(START)?;
        let starts = starts.as_primitive_opt::<Int64Type>()?;
        self.covers.as_ref().map(|_| &starts.values()[..])
    }

    pub(crate) fn first_and_last_start(&self) -> Option<(i64, i64)> {
        let starts = self.starts()?;
        Some((*starts.first()?, *starts.last()?))
    }

    /// Number of rows before an index; all without indices.
    #[must_use]
    pub fn begin_before(&self, limit: i64) -> u64 {
        let before = |starts: &[i64]| starts.iter().take_while(|&&at| at < limit).count() as u64;
        self.starts().map_or(self.count(), before)
    }

    pub(crate) fn split(self, count: u64) -> (Self, Self) {
        let at = usize::try_from(count)
            .map_or(self.batch.num_rows(), |at| at.min(self.batch.num_rows()));
        let cut = self.starts().and_then(|starts| starts.get(at).copied());
        let (first, rest) = (
            self.batch.slice(0, at),
            self.batch.slice(at, self.batch.num_rows() - at),
        );
        let covers = self.covers.clone();
        let next = cut.unwrap_or(self.next);
        let part = |batch, covers, next| Self {
            batch,
            covers,
            next,
        };
        let (before, after) = (
            covers
                .clone()
                .map(|covers| covers.start..next.max(covers.start)),
            covers.map(|covers| next..covers.end.max(next)),
        );
        (part(first, before, next), part(rest, after, self.next))
    }

    /// Keeps rows with a true flag; None if there are none.
    ///
    /// # Errors
    /// Numbers of flags and rows differ.
    pub fn filtered(&self, flags: &[bool]) -> Result<Option<Self>, OpError> {
        let flags = BooleanArray::from(flags.to_vec());
        let passed = filter_record_batch(&self.batch, &flags)?;
        Ok((passed.num_rows() > 0).then(|| self.with_batch(passed)))
    }

    /// The first `count` rows.
    #[must_use]
    pub fn first(&self, count: u64) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.with_batch(self.batch.slice(0, count.min(self.batch.num_rows())))
    }
}
