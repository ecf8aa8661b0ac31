//! Records: rows with named fields, as Arrow.
//!
//! A block of [`Rows`] is an Arrow record batch and the range of indices that its rows were made of; what fields they
//! have is part of the type of a port ([`Fields`], interned, so that types stay copies).
//!
//! Conventions of columns:
//! - rows that were made of windows begin with `start` and `end`, indices of the first sample and after the last
//!   (int64), and, where the signal knows civil time, `time`, that of the first sample (timestamp in ns, UTC; null
//!   where the clock of its run is not known); then come the fields, in the order in which they were asked for;
//! - numbers have the dtype that NumPy would give; a complex number is a fixed-size list of its two parts, several
//!   values a window are a fixed-size list; `unit` in a field's metadata is its unit;
//! - civil times are the recording's own, exact to the nearest ns, looked up for many windows at once ([`Clock`]).
//!
//! Invariants: the batch of a block has the fields of its port; rows are in the order of their starts within a run;
//! what a block covers reaches from its first to the end of its last row, also where rows in between were removed.

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

pub(crate) use crate::operators::rows::aggregate::{
    Aggregate, AggregateFunction, ColumnValues, GroupState,
};
pub(crate) use crate::operators::rows::builder::{RowBuilder, float, integer, times};
pub(crate) use crate::operators::rows::matcher::{Axis, Matcher};
pub use clock::Clock;
pub(crate) use clock::{clock_of, register};
pub(crate) use columns::RowExpression;
pub use fields::Fields;
pub(crate) use fields::{END, START, TIME};
pub(crate) use gather::Gatherer;
pub(crate) use regrid::on_grid;

/// Rows with named fields, in one block.
#[derive(Debug, Clone)]
pub struct Rows {
    batch: RecordBatch,
    /// Indices that the rows were made of; None if they belong to none, as groups.
    covers: Option<Range<i64>>,
    /// Index at which what continues them begins.
    next: i64,
}

impl Rows {
    /// Rows that were made of the samples with indices `covers`; what continues them begins at `next`.
    #[must_use]
    pub fn new(batch: RecordBatch, covers: Range<i64>, next: i64) -> Self {
        Self {
            batch,
            covers: Some(covers),
            next,
        }
    }

    /// Rows that belong to no range of indices.
    #[must_use]
    pub fn without_index(batch: RecordBatch) -> Self {
        Self {
            batch,
            covers: None,
            next: i64::MIN,
        }
    }

    /// Other rows that were made of the same samples.
    #[must_use]
    pub fn with_batch(&self, batch: RecordBatch) -> Self {
        Self {
            batch,
            ..self.clone()
        }
    }

    /// The rows.
    #[must_use]
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// The rows, taken out.
    #[must_use]
    pub fn into_batch(self) -> RecordBatch {
        self.batch
    }

    /// Number of rows.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.batch.num_rows() as u64
    }

    /// Indices that the rows were made of.
    #[must_use]
    pub fn covers(&self) -> Option<Range<i64>> {
        self.covers.clone()
    }

    /// Index of the first sample, and the index at which what continues the rows begins.
    #[inline]
    #[must_use]
    pub fn extent(&self) -> Option<(i64, i64)> {
        self.covers.as_ref().map(|covers| (covers.start, self.next))
    }

    /// Bytes of memory that they keep.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.batch.get_array_memory_size() as u64
    }

    /// Index of the first sample of each row, if they were made of windows.
    fn starts(&self) -> Option<&[i64]> {
        let starts = self.batch.column_by_name(START)?;
        let starts = starts.as_primitive_opt::<Int64Type>()?;
        self.covers.as_ref().map(|_| &starts.values()[..])
    }

    /// How many rows begin before an index; all where rows have none.
    #[must_use]
    pub fn begin_before(&self, limit: i64) -> u64 {
        let before = |starts: &[i64]| starts.iter().take_while(|&&at| at < limit).count() as u64;
        self.starts().map_or(self.count(), before)
    }

    /// The first `count` rows, and the others.
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

    /// The rows for which a flag is set; None if there are none.
    ///
    /// # Errors
    /// If there are not as many flags as rows.
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
