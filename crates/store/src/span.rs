//! Ranges of a signal in any timebase.

use std::ops::Range;

use isochrony_time::{Fixed, Graph, TimebaseId};

use crate::error::StoreError;
use crate::signal::Signal;

/// A half-open range in a timebase.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Span<'a> {
    /// Indices of the signal.
    Index(Range<i64>),
    /// Civil time, UTC nanoseconds since 1970.
    Civil(Range<Fixed>),
    /// Indices of another signal; both need civil time.
    Of(&'a Signal, Range<i64>),
    /// A range of any timebase that `graph` joins to civil time.
    In(&'a Graph, isochrony_time::Range),
}

impl From<Range<i64>> for Span<'_> {
    fn from(range: Range<i64>) -> Self {
        Self::Index(range)
    }
}

impl From<Range<Fixed>> for Span<'_> {
    fn from(range: Range<Fixed>) -> Self {
        Self::Civil(range)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResolvedSpan {
    Index(Range<i64>),
    Civil(Range<Fixed>),
}

impl Span<'_> {
    pub(crate) fn resolve(self, signal: &Signal) -> Result<ResolvedSpan, StoreError> {
        let resolved = match self {
            Span::Index(range) => ResolvedSpan::Index(range),
            Span::Of(other, range) if other.is_same(signal) => ResolvedSpan::Index(range),
            Span::Civil(range) => ResolvedSpan::Civil(range),
            Span::Of(other, range) => {
                let start = other.time_of(range.start)?.value;
                // The last sample's end, not the start of the next, which may be in another run.
                let end = match range.end.checked_sub(1) {
                    Some(last) if range.start < range.end => other.end_of_sample(last)?,
                    _ => start,
                };
                ResolvedSpan::Civil(start..end)
            }
            Span::In(graph, range) => {
                let civil = range.convert(graph, TimebaseId::CIVIL)?;
                ResolvedSpan::Civil(civil.start.value..civil.end.value)
            }
        };
        match &resolved {
            ResolvedSpan::Index(range) if range.start > range.end => {
                Err(reversed(signal, &range.start, &range.end))
            }
            ResolvedSpan::Civil(range) if range.start > range.end => {
                let text = |time| isochrony_time::civil::format(time);
                Err(reversed(signal, &text(range.start), &text(range.end)))
            }
            _ => Ok(resolved),
        }
    }
}

fn reversed(signal: &Signal, start: &dyn ToString, end: &dyn ToString) -> StoreError {
    StoreError::InvalidRange {
        signal: signal.name().into(),
        start: start.to_string(),
        end: end.to_string(),
    }
}

/// What a selection by civil time takes where runs overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overlap {
    /// The run stored first; later ones fill what it lacks.
    #[default]
    First,
    /// The run stored last; earlier ones fill what it lacks.
    Last,
    /// All, run by run.
    All,
}
