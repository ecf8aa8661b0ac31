//! What a recording has beside its samples, their times and the gaps between them; a copy of it is to have that, too.

use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::Calibration;
use isochrony_store::Signal;
use serde_json::{Map, Value};

use crate::{Clock, OpError, PortType, Recording, Resource, Source};

/// What a recording says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalDescription {
    /// From samples to values, and the unit of these.
    pub calibration: Calibration,
    /// The user's attributes.
    pub attributes: Map<String, Value>,
}

impl SignalDescription {
    /// That of a stored signal.
    #[must_use]
    pub fn of(signal: &Signal) -> Self {
        Self {
            calibration: signal.calibration().clone(),
            attributes: signal.attributes(),
        }
    }
}

/// Gaps at the ends of what is read of a recording, as index ranges. Of a recording without samples all of it is `before`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OuterGaps {
    /// Before the first sample.
    pub before: Range<i64>,
    /// Behind the last sample.
    pub after: Range<i64>,
}

impl OuterGaps {
    /// Those of a stored signal, of which a range is read.
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

    /// Samples of a gap that ends at an index, before the first sample.
    #[must_use]
    pub fn until(&self, index: i64) -> u64 {
        let matches = self.before.end == index;
        if matches { length(&self.before) } else { 0 }
    }

    /// Samples of a gap that begins at an index, behind the last sample; None: there was no sample.
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

/// A recording for an operator that gets what others made of its samples: its clock counts there, its description does not.
pub(crate) struct ProcessedRecording(pub(crate) Arc<dyn Recording>);

impl Recording for ProcessedRecording {
    fn port(&self) -> PortType {
        self.0.port()
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        self.0.open(range, segment)
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.clock()
    }

    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        self.0.stored()
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        self.0.saved()
    }

    fn needs(&self) -> Resource {
        self.0.needs()
    }

    fn knows_all_times(&self) -> bool {
        self.0.knows_all_times()
    }

    fn gives_own_samples(&self) -> bool {
        false
    }
}
