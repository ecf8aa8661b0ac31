//! Types shared by windows and sessions: rows, places in the aggregates, finished groups.

use super::keys::GroupKey;
use crate::operators::rows::Axis;
use crate::{OpError, OpErrorKind};

/// A row and its place on the axis.
pub(super) struct TimedRow<'a> {
    /// Number in the batch.
    pub(super) row: usize,
    pub(super) key: &'a GroupKey,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) from: i64,
    pub(super) to: i64,
}

pub(super) struct FinishedGroup {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Start of its window on the axis.
    pub(super) begin: i64,
    pub(super) key: GroupKey,
    pub(super) place: usize,
}

/// Places in the aggregates, free once their group was emitted.
pub(super) struct PlacePool {
    pub(super) free: Vec<usize>,
    pub(super) count: usize,
    pub(super) open: u64,
    pub(super) most: u64,
}

impl PlacePool {
    pub(super) fn take(&mut self) -> Result<usize, OpError> {
        let (open, most) = (self.open, self.most);
        if open >= most {
            let groups = open + 1;
            return Err(OpErrorKind::TooManyGroups { groups, most }.into());
        }
        self.open += 1;
        Ok(self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        }))
    }
}

pub(super) struct Run {
    /// First sample of its first contiguous range.
    pub(super) start: i64,
    /// The next range is its first.
    pub(super) begins: bool,
}

impl Run {
    /// First index of the window that begins at an axis position and has a row at `near`.
    pub(super) fn window_start(&self, axis: &Axis, near: i64, begin: i64) -> i64 {
        let start = axis.first_at(near, begin).unwrap_or(near);
        start.max(self.start).min(near)
    }
}
