//! Where what a front reads is cut into tasks.
//!
//! One recording is cut as it says itself ([`Snapshot::portion_after`]). Several that are read together are cut at the same
//! indices: from the first sample that any of them has on, so many samples further, and where a part of any of them begins,
//! since a task reads of each recording one part at most. A recording may have a gap where a task begins, or nothing in all
//! of it: the task is told in which stretch that recording was last, as what is behind a fan-in counts from the last stretch
//! that any of its inputs has told of.

use std::ops::Range;
use std::sync::Arc;

use super::queue::Cut;
use crate::{Indexed, Snapshot, Within};

/// What a task reads.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// Indices that are the task's.
    pub(super) range: Range<i64>,
    /// What each of the front's recordings has in them, in the order of their scans.
    pub(super) reads: Vec<Within>,
}

/// What a front reads, and in which portions.
#[derive(Clone)]
pub(super) struct Cutting {
    /// The recordings, and of how many samples a segment of each is.
    pub(super) reads: Vec<(Arc<dyn Snapshot>, u64)>,
    pub(super) samples: u64,
    /// What comes out of a portion, about.
    pub(super) bytes: u64,
}

impl Cut for Cutting {
    type Part = Cell;

    fn after(&self, last: Option<&Cell>) -> Option<Cell> {
        let [(snapshot, grain)] = &self.reads[..] else {
            return self.together(last);
        };
        let last = last.and_then(|last| last.reads.first()?.portion.as_ref());
        let portion = snapshot.portion_after(last, self.samples, *grain)?;
        Some(Cell {
            range: portion.range.clone(),
            reads: vec![Within {
                portion: Some(portion),
                anchor: None,
            }],
        })
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Cutting {
    /// What each recording is by its indices.
    fn indexed(&self) -> impl Iterator<Item = (&dyn Indexed, u64)> {
        let reads = self.reads.iter();
        reads.filter_map(|(snapshot, grain)| Some((snapshot.indexed()?, *grain)))
    }

    /// The next indices of several recordings.
    fn together(&self, last: Option<&Cell>) -> Option<Cell> {
        let from = last.map_or(i64::MIN, |last| last.range.end);
        let firsts = self.indexed().filter_map(|(one, _)| one.sample_from(from));
        let first = firsts.min()?;
        let wanted = first.saturating_add_unsigned(self.samples.max(1));
        // Segments of the first recording that goes on there are cut as in one pass.
        let mut grains = self
            .indexed()
            .filter(|(one, _)| one.sample_from(wanted - 1) == Some(wanted - 1));
        let end = grains.next();
        let end = end.map_or(wanted, |(one, grain)| one.on_grain(wanted, grain));
        let parts = self.indexed().filter_map(|(one, _)| one.part_behind(first));
        let end = parts.fold(end, i64::min).max(first + 1);
        let range = last.map_or(first, |last| last.range.end)..end;
        Some(Cell {
            reads: self.indexed().map(|(one, _)| one.within(&range)).collect(),
            range,
        })
    }
}
