//! A recording at one moment, read in portions by several workers.
//!
//! A [`Snapshot`] cuts a scan into [`Portion`]s of about equal size, in read order. A portion never ends inside or
//! right after a gap, so its separation from the previous one is known without reading that.

use std::ops::Range;
use std::sync::Arc;

use crate::{OpError, RangeOrigin, Source};

/// What a task reads of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portion {
    /// Indices, including gaps, also at the start.
    pub range: Range<i64>,
    /// End and run of the last samples before. The end is the portion's start if samples of the same run continue into
    /// it, or a gap begins there.
    pub before: Option<(i64, u32)>,
    /// Part of the recording, in read order.
    pub part: usize,
}

/// Context samples around a portion; never across a gap or clock step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortionOverlap {
    /// Before the portion.
    pub before: u64,
    /// After it.
    pub after: u64,
}

impl PortionOverlap {
    pub(crate) fn samples(self) -> u64 {
        self.before.saturating_add(self.after)
    }
}

/// Planned reads of an execution's tasks.
pub struct PlannedReads {
    /// Overlap of every portion.
    pub overlap: PortionOverlap,
    /// Maximum samples per segment.
    pub segment: u64,
    /// Tasks in flight.
    pub at_once: usize,
    /// Portion of each task, in order; None: reads nothing here.
    pub portions: Box<dyn Iterator<Item = Option<Portion>> + Send>,
}

/// Opens portions for all workers, possibly with shared read-ahead.
pub trait PortionOpener: Send + Sync {
    /// Opens a task's portion as [`Snapshot::open`] does; None if it reads nothing. Tasks are numbered from 0; one may
    /// be opened repeatedly, or never.
    fn open(
        &self,
        task: u64,
        portion: Option<&Portion>,
    ) -> Result<Option<Box<dyn Source>>, OpError>;
}

/// A recording at one moment.
pub trait Snapshot: Send + Sync {
    /// The portion after another, or the first: about `samples` long, at least one. Inside a contiguous range it ends a
    /// multiple of `grain` samples after the range's first sample read, so segments are cut as in one pass.
    fn portion_after(&self, last: Option<&Portion>, samples: u64, grain: u64) -> Option<Portion>;

    /// A pass over a portion and its overlap, within the contiguous ranges at both ends. It begins with
    /// [`SourceEvent::RangeStart`](crate::SourceEvent::RangeStart), whose `why` separates it from the samples before;
    /// None without such samples, or if the overlap continues in the portion.
    fn open(
        &self,
        portion: &Portion,
        overlap: PortionOverlap,
        segment: u64,
    ) -> Result<Box<dyn Source>, OpError>;

    /// Opens portions of known tasks, so reading overlaps computing; None: use [`open`](Self::open).
    fn portion_opener(
        self: Arc<Self>,
        tasks: PlannedReads,
    ) -> Result<Option<Arc<dyn PortionOpener>>, OpError> {
        let _ = tasks;
        Ok(None)
    }

    /// Total samples.
    fn total(&self) -> u64;

    /// Civil time of an index, for error messages.
    fn time_of(&self, index: i64) -> Option<String> {
        let _ = index;
        None
    }

    /// The snapshot by indices, if they ascend: several recordings can then be cut at the same ones.
    fn indexed(&self) -> Option<&dyn IndexedSnapshot> {
        None
    }
}

/// A snapshot with parts in index order.
pub trait IndexedSnapshot {
    /// First sample at or after an index.
    fn sample_from(&self, index: i64) -> Option<i64>;

    /// Start of the first part after an index; no portion crosses it.
    fn next_part_start(&self, index: i64) -> Option<i64>;

    /// Rounds an index inside a contiguous range up to a multiple of `grain` samples from the first one read.
    fn align_to_grain(&self, index: i64, grain: u64) -> i64;

    /// Contents of an index range with samples of at most one part.
    fn within(&self, range: &Range<i64>) -> RangePortion;
}

/// Contents of an index range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangePortion {
    /// What a task reads; None without samples.
    pub portion: Option<Portion>,
    /// Of the last contiguous range that begins before this range.
    pub origin: Option<RangeOrigin>,
}

/// `start` and `end`: of the contiguous range.
pub(crate) fn align_to_grain(index: i64, start: i64, end: i64, grain: u64) -> i64 {
    let into = index.abs_diff(start.min(index));
    let rest = into % grain.max(1);
    let ahead = if rest == 0 { 0 } else { grain - rest };
    index.saturating_add_unsigned(ahead).min(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_up_to_the_grain_but_not_beyond_the_end() {
        assert_eq!(align_to_grain(100, 0, 1000, 1), 100);
        assert_eq!(align_to_grain(107, 7, 1000, 30), 127);
        assert_eq!(align_to_grain(127, 7, 1000, 30), 127);
        assert_eq!(align_to_grain(999, 7, 1000, 30), 1000);
        assert_eq!(align_to_grain(-42, -50, 1000, 8), -42);
        assert_eq!(align_to_grain(i64::MAX - 1, 0, i64::MAX, 1 << 20), i64::MAX);
    }
}
