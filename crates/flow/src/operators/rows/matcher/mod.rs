//! Matches rows of two streams by time.
//!
//! The fan-in orders blocks by start across both inputs, so nothing before the latest block follows: the *watermark*,
//! which silent sources raise, too. A left row is emitted with its matches once no other can follow; a right row is
//! dropped once no left row can match it.
//!
//! The clock of a restarted feed may begin anew before the time expected of its next sample, and so before the
//! watermark. Such late rows match rows of the other input that end after that time, which surely still wait, and are
//! placed there: how far the watermark was does not show.

mod axis;
mod input;
mod joined;

use arrow_array::{ArrayRef, RecordBatch};

pub(crate) use axis::Axis;
use input::{MatcherInput, PendingRow, RowOrder};
use joined::{JoinedRow, JoinedRows, UndecidedRows};

use crate::plan::rows::{Fields, Rows};
use crate::{OpError, OpErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Outer,
}

pub(crate) struct Matcher {
    kind: JoinKind,
    fields: Fields,
    inputs: [MatcherInput; 2],
    joined: JoinedRows,
    tolerance: Option<i64>,
    /// Latest start of a block.
    latest_block: i64,
    /// The same at the last rewind: an earlier block is an error.
    rewound_at: i64,
    watermark: i64,
    /// All left rows before this index have arrived.
    left_index: i64,
    /// Prunes from this number of right rows on.
    prune_at: usize,
}

const MIN_PRUNE_ROWS: usize = 1024;

/// No left row from an axis place on can match.
fn is_unmatchable(tolerance: Option<i64>, right: &PendingRow, from: i64) -> bool {
    !right.is_timed
        || match tolerance {
            None => right.end <= from,
            Some(tolerance) => right.start.saturating_add(tolerance) < from,
        }
}

impl Matcher {
    pub(crate) fn new(
        kind: JoinKind,
        fields: Fields,
        [left, right]: [(Fields, Axis); 2],
        tolerance: Option<f64>,
    ) -> Self {
        let tolerance = tolerance.map(|seconds| left.1.units_in(seconds));
        Self {
            kind,
            fields,
            inputs: [
                MatcherInput::new(left, RowOrder::Index, kind != JoinKind::Inner),
                MatcherInput::new(right, RowOrder::Time, kind == JoinKind::Outer),
            ],
            joined: JoinedRows::default(),
            tolerance,
            latest_block: i64::MIN,
            rewound_at: i64::MIN,
            watermark: i64::MIN,
            left_index: i64::MIN,
            prune_at: MIN_PRUNE_ROWS,
        }
    }

    pub(crate) fn add(&mut self, port: usize, rows: Rows) -> Result<(), OpError> {
        let input = &mut self.inputs[port];
        if let Some(covers) = rows.covers() {
            if port == 0 {
                self.left_index = self.left_index.max(covers.start);
            }
            let last = input.last_block.unwrap_or(covers.start);
            let announced = |index: i64| input.axis.announced_before(index);
            // Rows of two runs need not ascend, and where blocks begin depends on cuts.
            let last = match announced(covers.start) > i64::MIN {
                true => input.last_row.unwrap_or(last),
                false => last,
            };
            // Estimated times change a little: take both as known now.
            let known = input.axis.positions(&[last, covers.start])?;
            let (last, begins) = (known[0], known[1]);
            if begins != i64::MIN {
                let earliest = match input.axis.is_civil() {
                    true => last.max(self.rewound_at),
                    false => self.latest_block,
                };
                if begins < earliest {
                    return Err(OpErrorKind::BackInTime {
                        port,
                        at: covers.start,
                        by: earliest - begins,
                        unit: input.axis.unit(),
                    }
                    .into());
                }
                input.last_block = Some(covers.start);
                self.latest_block = self.latest_block.max(begins);
                self.raise_watermark(begins);
            }
        }
        self.inputs[port].add(rows.into_batch())
    }

    /// No row before an axis place follows. Returns whether that is new.
    pub(crate) fn raise_watermark(&mut self, upto: i64) -> bool {
        let raised = upto > self.watermark;
        self.watermark = self.watermark.max(upto);
        raised
    }

    pub(crate) fn raise_left_index(&mut self, upto: i64) {
        self.left_index = self.left_index.max(upto);
    }

    pub(crate) fn rewind(&mut self) {
        (self.watermark, self.left_index) = (self.latest_block, i64::MIN);
        self.rewound_at = self.latest_block;
    }

    fn is_complete(&self, left: &PendingRow) -> bool {
        !left.is_timed
            || match self.tolerance {
                None => left.end <= self.watermark,
                Some(tolerance) => left.start.saturating_add(tolerance) < self.watermark,
            }
    }

    /// Whether each row still waited when the clock of the other had started anew, however far the watermark was then.
    fn may_meet(&self, left: &PendingRow, right: &PendingRow) -> bool {
        let waits = |row: &PendingRow, other: &PendingRow| match self.tolerance {
            None => row.end > other.announced,
            Some(tolerance) => row.start.saturating_add(tolerance) >= other.announced,
        };
        waits(left, right) && waits(right, left)
    }

    fn find_matches(&self, left: &PendingRow, matches: &mut Vec<usize>) {
        if !left.is_timed {
            return;
        }
        let right = &self.inputs[1].rows;
        match self.tolerance {
            None => {
                // Those that are late are behind rows that begin before the place where they are.
                let begun = right.iter().enumerate();
                let begun = begun.take_while(|(_, row)| row.start < left.end);
                let overlapping = begun.filter(|(_, row)| row.end > left.start && row.is_timed);
                let overlapping = overlapping.filter(|(_, row)| self.may_meet(left, row));
                matches.extend(overlapping.map(|(at, _)| at));
            }
            Some(tolerance) if left.announced > i64::MIN || self.inputs[1].has_displaced() => {
                let near = right.iter().enumerate();
                let near = near.filter(|(_, row)| row.is_timed && self.may_meet(left, row));
                let near = near.map(|(at, row)| (row.start.abs_diff(left.start), row.start, at));
                let near = near.filter(|&(away, ..)| away <= tolerance.unsigned_abs());
                matches.extend(near.min().map(|(.., at)| at));
            }
            Some(tolerance) => {
                let first_timed = |from: usize| (from..right.len()).find(|&at| right[at].is_timed);
                let after = right.partition_point(|row| row.start < left.start);
                let before = (0..after).rev().find(|&at| right[at].is_timed);
                let near = [before, first_timed(after)].into_iter().flatten();
                let near = near.filter_map(|at| {
                    let away = right.get(at)?.start.abs_diff(left.start);
                    (away <= tolerance.unsigned_abs()).then_some((away, at))
                });
                // The earlier of equally near rows wins, and the first of one start.
                if let Some((_, at)) = near.min() {
                    let start = right[at].start;
                    let first = right.partition_point(|row| row.start < start);
                    matches.extend(first_timed(first));
                }
            }
        }
    }

    /// Joins complete left rows; all at the end.
    pub(crate) fn take_matches(&mut self, end: bool) -> Result<Option<Rows>, OpError> {
        let mut matches = Vec::new();
        while let Some(&left) = self.inputs[0].rows.front()
            && (end || self.is_complete(&left))
        {
            self.inputs[0].pop();
            matches.clear();
            self.find_matches(&left, &mut matches);
            if matches.is_empty() && self.kind != JoinKind::Inner {
                self.joined.push(left, None);
            }
            for &at in &matches {
                let right = &mut self.inputs[1].rows[at];
                right.is_decided = true;
                self.joined.push(left, Some(*right));
            }
        }
        let undecided = self.decide_right_rows(end);
        let mut ready = Vec::new();
        self.joined.take_ready(undecided, &mut ready);
        let rows = self.join_rows(&ready)?;
        self.prune();
        let [left, right] = &mut self.inputs;
        left.drop_blocks(self.joined.left_rows());
        right.drop_blocks(self.joined.right_rows());
        Ok(rows)
    }

    /// Joins all rows before the clock was set: later ones match none.
    pub(crate) fn end_clock(&mut self) -> Result<Option<Rows>, OpError> {
        let rows = self.take_matches(true)?;
        let right = &mut self.inputs[1];
        right.retain(|_| false);
        right.drop_blocks(self.joined.right_rows());
        Ok(rows)
    }

    fn first_left(&self) -> i64 {
        let waiting = self.inputs[0].earliest_start();
        waiting.unwrap_or(i64::MAX).min(self.watermark)
    }

    /// Emits unmatchable right rows, up to the first that may match.
    fn decide_right_rows(&mut self, end: bool) -> UndecidedRows {
        let mut undecided = UndecidedRows {
            left: self.inputs[0].rows.front().map(|row| row.place),
            right: None,
            watermark: self.watermark,
            ended: end,
        };
        if self.kind != JoinKind::Outer {
            return undecided;
        }
        // A left row without a time is complete before right rows that begin earlier have come.
        undecided.right = (!end).then_some(self.watermark);
        let from = self.first_left();
        for at in 0..self.inputs[1].rows.len() {
            let row = self.inputs[1].rows[at];
            if row.is_decided {
                continue;
            }
            if !end && !is_unmatchable(self.tolerance, &row, from) {
                undecided.right = Some(row.start.min(self.watermark));
                break;
            }
            self.inputs[1].rows[at].is_decided = true;
            self.joined.push_unmatched(row);
        }
        undecided
    }

    fn prune(&mut self) {
        let from = self.first_left();
        let keeps_undecided = self.kind == JoinKind::Outer;
        let tolerance = self.tolerance;
        let is_unneeded = |row: &PendingRow| {
            is_unmatchable(tolerance, row, from) && (row.is_decided || !keeps_undecided)
        };
        let right = &mut self.inputs[1];
        while right.rows.front().is_some_and(is_unneeded) {
            right.pop();
        }
        // Rows after a long one may already be unneeded.
        if right.rows.len() >= self.prune_at {
            right.retain(|row| !is_unneeded(row));
            self.prune_at = (2 * right.rows.len()).max(MIN_PRUNE_ROWS);
        }
    }

    fn join_rows(&self, rows: &[JoinedRow]) -> Result<Option<Rows>, OpError> {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Ok(None);
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.fields.schema().fields().len());
        let [left, right] = &self.inputs;
        left.gather(rows.iter().map(|row| row.left), &mut columns)?;
        right.gather(rows.iter().map(|row| row.right), &mut columns)?;
        let batch = RecordBatch::try_new(self.fields.schema().clone(), columns);
        let batch = batch.map_err(OpErrorKind::from)?;
        let index = |row: &JoinedRow| row.left.map(|row| left.index_of(&row));
        Ok(Some(match (self.kind, index(first), index(last)) {
            (JoinKind::Inner | JoinKind::Left, Some(first), Some(last)) => {
                Rows::new(batch, first..last, last)
            }
            _ => Rows::without_index(batch),
        }))
    }

    pub(crate) fn bytes(&self) -> u64 {
        let inputs = self.inputs.iter().map(MatcherInput::bytes);
        inputs.sum::<u64>() + self.joined.bytes()
    }

    pub(crate) fn progress(&self) -> i64 {
        let left = &self.inputs[0];
        let waiting = left.rows.front().map(|row| left.index_of(row));
        waiting.unwrap_or(i64::MAX).min(self.left_index)
    }
}
