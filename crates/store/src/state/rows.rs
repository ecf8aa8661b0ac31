//! Sorted tables of runs, stamps, fitted pieces and events.

use std::ops::Range;
use std::sync::Arc;

use super::seq::{Row, Seq};
use crate::op::{EventRow, PieceRow, PointRow, RunRow};

impl Row for RunRow {}
impl Row for PointRow {}

/// Runs, sorted by id and start: a new run begins at the end of the index axis.
#[derive(Debug, Clone, Default)]
pub struct RunTable {
    rows: Seq<RunRow>,
}

impl RunTable {
    /// Number of runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing was appended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The run at `position`.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<RunRow> {
        self.rows.get(position).copied()
    }

    /// All runs by index.
    pub fn iter(&self) -> impl Iterator<Item = RunRow> + '_ {
        self.rows.iter().copied()
    }

    /// The latest run, which appends extend.
    #[must_use]
    pub fn last(&self) -> Option<RunRow> {
        self.rows.last().copied()
    }

    /// The run `id`.
    #[must_use]
    pub fn by_id(&self, id: u32) -> Option<RunRow> {
        let position = self.rows.partition_point(|run| run.id < id);
        self.rows.get(position).copied().filter(|run| run.id == id)
    }

    /// The run with `index`, else the nearest.
    #[must_use]
    pub fn at(&self, index: i64) -> Option<RunRow> {
        let after = self.rows.partition_point(|run| run.start <= index);
        self.get(after.saturating_sub(1))
    }

    /// Runs with an index in `range`, uncut.
    pub fn overlapping(&self, range: Range<i64>) -> impl Iterator<Item = RunRow> + '_ {
        let first = self.rows.partition_point(|run| run.end <= range.start);
        let end = self.rows.partition_point(|run| run.start < range.end);
        self.rows.range(first..end.max(first)).copied()
    }

    /// Id of the next run.
    #[must_use]
    pub fn next_id(&self) -> u32 {
        self.last().map_or(0, |run| run.id.saturating_add(1))
    }

    pub(super) fn set(&mut self, run: RunRow) {
        let position = self.rows.partition_point(|have| have.id < run.id);
        let same = self.get(position).is_some_and(|have| have.id == run.id);
        self.rows
            .splice(position..position + usize::from(same), [run]);
    }

    pub(super) fn from_sorted(rows: impl IntoIterator<Item = RunRow>) -> Self {
        Self {
            rows: rows.into_iter().collect(),
        }
    }
}

/// Stamps as given, sorted by run and index.
#[derive(Debug, Clone, Default)]
pub struct PointTable {
    rows: Seq<PointRow>,
}

impl PointTable {
    /// Number of stamps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All stamps, sorted.
    pub fn iter(&self) -> impl Iterator<Item = PointRow> + '_ {
        self.rows.iter().copied()
    }

    /// Stamps of a run, sorted.
    pub fn of_run(&self, run: u32) -> impl DoubleEndedIterator<Item = PointRow> + '_ {
        let first = self.rows.partition_point(|row| row.run < run);
        let end = self.rows.partition_point(|row| row.run <= run);
        (first..end).filter_map(|position| self.rows.get(position).copied())
    }

    /// The stamp of this run and index.
    #[must_use]
    pub fn at(&self, run: u32, index: i64) -> Option<PointRow> {
        let position = self.position(run, index);
        self.rows
            .get(position)
            .copied()
            .filter(|row| (row.run, row.index) == (run, index))
    }

    /// A run's last stamp up to an index. O(log n).
    #[must_use]
    pub fn last_until(&self, run: u32, index: i64) -> Option<PointRow> {
        let behind = self
            .rows
            .partition_point(|row| (row.run, row.index) <= (run, index));
        let row = self.rows.get(behind.checked_sub(1)?)?;
        (row.run == run).then_some(*row)
    }

    fn position(&self, run: u32, index: i64) -> usize {
        self.rows
            .partition_point(|row| (row.run, row.index) < (run, index))
    }

    pub(super) fn set(&mut self, point: PointRow) {
        let key = |row: &PointRow| (row.run, row.index);
        // Nearly all come in order.
        let is_last = self.rows.last().is_none_or(|last| key(last) < key(&point));
        let position = match is_last {
            true => self.rows.len(),
            false => self.position(point.run, point.index),
        };
        let same = !is_last
            && self
                .rows
                .get(position)
                .is_some_and(|row| key(row) == key(&point));
        self.rows
            .splice(position..position + usize::from(same), [point]);
    }

    pub(super) fn from_sorted(rows: impl IntoIterator<Item = PointRow>) -> Self {
        Self {
            rows: rows.into_iter().collect(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct RunPiece {
    run: u32,
    piece: PieceRow,
}

impl Row for RunPiece {}

/// Fitted pieces, sorted by run and index.
#[derive(Debug, Clone, Default)]
pub struct FitTable {
    rows: Seq<RunPiece>,
}

impl FitTable {
    /// Number of pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the signal has no civil time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All pieces with their runs.
    pub fn iter(&self) -> impl Iterator<Item = (u32, PieceRow)> + '_ {
        self.rows.iter().map(|row| (row.run, row.piece))
    }

    /// Pieces of a run, sorted.
    pub fn of_run(&self, run: u32) -> impl Iterator<Item = PieceRow> + '_ {
        let first = self.rows.partition_point(|row| row.run < run);
        let end = self.rows.partition_point(|row| row.run <= run);
        self.rows.range(first..end.max(first)).map(|row| row.piece)
    }

    /// Number of a run's pieces.
    #[must_use]
    pub fn count_of_run(&self, run: u32) -> usize {
        let first = self.rows.partition_point(|row| row.run < run);
        self.rows.partition_point(|row| row.run <= run) - first
    }

    /// A run's piece at `position`. O(log n).
    #[must_use]
    pub fn nth_of_run(&self, run: u32, position: usize) -> Option<PieceRow> {
        let first = self.rows.partition_point(|row| row.run < run);
        let row = self.rows.get(first.checked_add(position)?)?;
        (row.run == run).then_some(row.piece)
    }

    /// A run's last piece. O(log n).
    #[must_use]
    pub fn last_of_run(&self, run: u32) -> Option<PieceRow> {
        let end = self.rows.partition_point(|row| row.run <= run);
        let row = self.rows.get(end.checked_sub(1)?)?;
        (row.run == run).then_some(row.piece)
    }

    pub(super) fn set(&mut self, run: u32, from: i64, pieces: &[PieceRow]) {
        let first = self
            .rows
            .partition_point(|row| (row.run, row.piece.index) < (run, from));
        let end = self.rows.partition_point(|row| row.run <= run);
        let new = pieces.iter().map(|&piece| RunPiece { run, piece });
        self.rows.splice(first..end.max(first), new);
    }

    pub(super) fn from_sorted(rows: impl IntoIterator<Item = (u32, PieceRow)>) -> Self {
        let rows = rows.into_iter().map(|(run, piece)| RunPiece { run, piece });
        Self {
            rows: rows.collect(),
        }
    }
}

impl Row for Arc<EventRow> {
    const NONE: i64 = i64::MIN;

    /// The largest end so far bounds the starts of events that reach into a range.
    fn measure(&self) -> i64 {
        // An instant touches its own index.
        self.end.max(self.start.saturating_add(1))
    }

    fn join(a: i64, b: i64) -> i64 {
        a.max(b)
    }
}

#[derive(Debug, Clone, Copy)]
struct EventKey {
    id: u64,
    start: i64,
}

impl Row for EventKey {}

/// Events, sorted by start and id, also by id.
#[derive(Debug, Clone, Default)]
pub struct EventTable {
    rows: Seq<Arc<EventRow>>,
    keys: Seq<EventKey>,
    next: u64,
}

impl EventTable {
    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All events by start.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<EventRow>> + '_ {
        self.rows.iter()
    }

    /// Events with an index in `range`, by start. An instant is at its index; an empty range has none.
    pub fn within(&self, range: Range<i64>) -> impl Iterator<Item = &Arc<EventRow>> + '_ {
        let first = self.rows.first_above(range.start);
        let end = match range.is_empty() {
            true => first,
            false => self.rows.partition_point(|event| event.start < range.end),
        };
        self.rows
            .range(first..end.max(first))
            .filter(move |event| event.measure() > range.start)
    }

    /// The event `id`.
    #[must_use]
    pub fn by_id(&self, id: u64) -> Option<&Arc<EventRow>> {
        self.rows.get(self.position_of(id)?)
    }

    /// Id of the next event.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.next
    }

    pub(super) fn set(&mut self, event: EventRow) {
        self.remove(event.id);
        self.reserve(event.id);
        let (id, start) = (event.id, event.start);
        let key = self.keys.partition_point(|key| key.id < id);
        self.keys.splice(key..key, [EventKey { id, start }]);
        let position = self
            .rows
            .partition_point(|have| (have.start, have.id) < (start, id));
        self.rows.splice(position..position, [Arc::new(event)]);
    }

    pub(super) fn remove(&mut self, id: u64) {
        let Some(position) = self.position_of(id) else {
            return;
        };
        self.rows.splice(position..position + 1, []);
        let key = self.keys.partition_point(|key| key.id < id);
        self.keys.splice(key..key + 1, []);
    }

    pub(super) fn reserve(&mut self, id: u64) {
        self.next = self.next.max(id.saturating_add(1));
    }

    fn position_of(&self, id: u64) -> Option<usize> {
        let key = self.keys.partition_point(|key| key.id < id);
        let start = self.keys.get(key).filter(|key| key.id == id)?.start;
        let position = self
            .rows
            .partition_point(|have| (have.start, have.id) < (start, id));
        self.rows
            .get(position)
            .is_some_and(|event| event.id == id)
            .then_some(position)
    }
}
