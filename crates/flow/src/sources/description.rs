//! Calibration, attributes and outer gaps of a recording, for copies.

use std::ops::Range;

use isochrony_segment::Calibration;
use isochrony_store::Signal;
use serde_json::{Map, Value};

/// Calibration and attributes of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalDescription {
    /// Converts samples to values of its unit.
    pub calibration: Calibration,
    /// The user's attributes.
    pub attributes: Map<String, Value>,
}

impl SignalDescription {
    /// The description of a stored signal.
    #[must_use]
    pub fn of(signal: &Signal) -> Self {
        Self {
            calibration: signal.calibration().clone(),
            attributes: signal.attributes(),
        }
    }
}

/// Gaps at both ends of what is read. Without samples, all is `before`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OuterGaps {
    /// Before the first sample.
    pub before: Range<i64>,
    /// After the last sample.
    pub after: Range<i64>,
}

impl OuterGaps {
    /// Outer gaps of a range of a stored signal.
    #[must_use]
    pub fn within(signal: &Signal, range: Range<i64>) -> Self {
        let start = range.start.max(signal.start_index());
        let end = range.end.min(signal.end_index()).max(start);
        let (mut first, mut last) = (start, end);
        while let Some(gap) = signal.gaps().at(first).filter(|_| first < end) {
            first = gap.end().min(end);
        }
        while let Some(gap) = signal.gaps().at(last - 1).filter(|_| last > first) {
            last = gap.start.max(first);
        }
        Self {
            before: start..first,
            after: last..end,
        }
    }

    /// Length of the gap before the first sample, if it ends at `index`.
    #[must_use]
    pub fn until(&self, index: i64) -> u64 {
        let matches = self.before.end == index;
        if matches { length(&self.before) } else { 0 }
    }

    /// Length of the gap after the last sample, if it begins at `index` (None: no sample).
    #[must_use]
    pub fn from(&self, index: Option<i64>) -> u64 {
        match index {
            None => length(&self.before),
            Some(index) if self.after.start == index => length(&self.after),
            Some(_) => 0,
        }
    }
}

fn length(range: &Range<i64>) -> u64 {
    if range.is_empty() {
        return 0;
    }
    range.start.abs_diff(range.end)
}
