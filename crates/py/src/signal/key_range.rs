//! The range of a signal that a key names.

use std::ops::Range;

use isochrony_store::{Signal, Span as StoreSpan};
use isochrony_time::Fixed;

#[derive(Clone)]
pub(crate) enum KeyRange {
    /// Indices of this signal.
    Index(Range<i64>),
    Civil(Range<Fixed>),
    /// A range of another signal, whose times select samples.
    OfSignal(Box<Signal>, Range<i64>),
}

impl KeyRange {
    pub(crate) fn span(&self) -> StoreSpan<'_> {
        match self {
            Self::Index(range) => StoreSpan::Index(range.clone()),
            Self::Civil(range) => StoreSpan::Civil(range.clone()),
            Self::OfSignal(signal, range) => StoreSpan::Of(signal, range.clone()),
        }
    }

    /// Clamps indices to the signal's length.
    pub(crate) fn cut(self, length: i64) -> Self {
        match self {
            Self::Index(range) => {
                let start = range.start.clamp(0, length);
                Self::Index(start..range.end.clamp(start, length))
            }
            other => other,
        }
    }
}
