//! Pairs of rows of two streams that belong to the same time.
//!
//! Blocks come in the order of their beginnings whichever side they are of (the fan-in sees to that), so when one has
//! come, nothing that begins before it follows on either side: the *watermark*. A left row is complete once no partner
//! of it can follow, and goes out with its partners; a right row is forgotten once no left row can meet it.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_select::interleave::interleave;
use isochrony_segment::StreamId;
use isochrony_time::{Rate, SampleCount};

use crate::plan::rows::{Clock, END, Fields, Rows, START};
use crate::{OpError, OpErrorKind};

/// What rows of a side are compared by: indices, or civil time in ns.
pub(crate) struct Axis {
    clock: Option<Arc<dyn Clock>>,
    /// Units of the axis in a second, and in a sample.
    second: Option<Rate>,
    sample: f64,
}

impl Axis {
    pub(crate) fn index(stream: StreamId) -> Self {
        Self {
            clock: None,
            second: Some(stream.get().rate),
            sample: 1.0,
        }
    }

    pub(crate) fn civil(stream: StreamId, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock: Some(clock),
            second: Rate::from_hz(1_000_000_000).ok(),
            sample: 1e9 / stream.get().rate.to_f64(),
        }
    }

    /// Whole units of the axis in a duration.
    fn units_in(&self, seconds: f64) -> i64 {
        let units = self
            .second
            .and_then(|rate| rate.samples_in_seconds(seconds).ok());
        let units = units.and_then(SampleCount::floor);
        units
            .and_then(|units| i64::try_from(units).ok())
            .unwrap_or(i64::MAX)
    }

    /// Starts and ends on the axis; `i64::MIN` where they are not known.
    fn ranges(&self, starts: &[i64], ends: &[i64]) -> Result<Vec<(i64, i64)>, OpError> {
        let pairs = starts.iter().zip(ends);
        let Some(clock) = &self.clock else {
            return Ok(pairs.map(|(&start, &end)| (start, end)).collect());
        };
        let mut from = vec![0; starts.len()];
        clock.times(starts, &mut from)?;
        // A row ends a period after its last sample: the index behind it may belong to another clock.
        let last: Vec<i64> = pairs.map(|(&start, &end)| (end - 1).max(start)).collect();
        let mut to = vec![0; last.len()];
        clock.times(&last, &mut to)?;
        let period = self.sample.round() as i64;
        let one = |(((&from, &to), &start), &end): (((&i64, &i64), &i64), &i64)| match end > start {
            true if to == i64::MIN => (from, to),
            true => (from, to.saturating_add(period)),
            false => (from, from),
        };
        Ok(from
            .iter()
            .zip(&to)
            .zip(starts)
            .zip(ends)
            .map(one)
            .collect())
    }
}

#[derive(Debug, Clone, Copy)]
struct PendingRow {
    start: i64,
    end: i64,
    /// Number of its block among all of its side, and its place there.
    block: u64,
    row: usize,
}

struct MatcherInput {
    axis: Axis,
    /// Places of the columns of start and end.
    range: (usize, usize),
    rows: VecDeque<PendingRow>,
    /// Blocks that rows wait of, from number `first` on.
    blocks: VecDeque<RecordBatch>,
    first: u64,
    /// Bytes of the blocks.
    bytes: u64,
    /// Index at which the last block began.
    last: i64,
}

impl MatcherInput {
    /// Rows wait in the order of their starts, also where streams were merged.
    fn push(&mut self, row: PendingRow) {
        if self.rows.back().is_none_or(|last| last.start <= row.start) {
            return self.rows.push_back(row);
        }
        let at = self.rows.partition_point(|other| other.start <= row.start);
        self.rows.insert(at, row);
    }

    /// Lets go of blocks of which no row waits.
    fn forget(&mut self) {
        let oldest = self.rows.iter().map(|row| row.block).min();
        while self.first < oldest.unwrap_or(u64::MAX)
            && let Some(block) = self.blocks.pop_front()
        {
            self.first += 1;
            self.bytes -= block.get_array_memory_size() as u64;
        }
    }
}

/// Rows of both sides that wait, and the pairs that they make.
pub(crate) struct Matcher {
    fields: Fields,
    sides: [MatcherInput; 2],
    tolerance: Option<i64>,
    watermark: i64,
    /// Right rows at which it is worth looking for those that nobody can meet.
    prune_at: usize,
}

/// Right rows that may wait before it is looked which of them are needed.
const MIN_PRUNE_ROWS: usize = 1024;

impl Matcher {
    pub(crate) fn new(fields: Fields, sides: [(Fields, Axis); 2], tolerance: Option<f64>) -> Self {
        let tolerance = tolerance.map(|seconds| sides[0].1.units_in(seconds));
        let side = |(fields, axis): (Fields, Axis)| MatcherInput {
            axis,
            range: (
                fields.find(START).map_or(0, |(at, _)| at),
                fields.find(END).map_or(0, |(at, _)| at),
            ),
            rows: VecDeque::new(),
            blocks: VecDeque::new(),
            first: 0,
            bytes: 0,
            last: i64::MIN,
        };
        Self {
            fields,
            sides: sides.map(side),
            tolerance,
            watermark: i64::MIN,
            prune_at: MIN_PRUNE_ROWS,
        }
    }

    /// Takes a block of a side.
    pub(crate) fn add(&mut self, port: usize, rows: Rows) -> Result<(), OpError> {
        let side = &mut self.sides[port];
        let covers = rows.covers();
        let batch = rows.into_batch();
        let index = |at: usize| batch.column(at).as_primitive::<Int64Type>().values();
        let (starts, ends) = (index(side.range.0), index(side.range.1));
        let ranges = side.axis.ranges(starts, ends)?;
        if let Some(covers) = covers {
            side.last = covers.start;
            let begins = side.axis.ranges(&[covers.start], &[covers.end])?[0].0;
            if begins != i64::MIN {
                if begins < self.watermark {
                    return Err(OpErrorKind::BackInTime {
                        port,
                        at: covers.start,
                        by: self.watermark - begins,
                        unit: if side.axis.clock.is_some() {
                            "ns"
                        } else {
                            "samples"
                        },
                    }
                    .into());
                }
                self.watermark = begins;
            }
        }
        let block = side.first + side.blocks.len() as u64;
        for (row, &(start, end)) in ranges.iter().enumerate() {
            if start != i64::MIN && end != i64::MIN {
                side.push(PendingRow {
                    start,
                    end,
                    block,
                    row,
                });
            }
        }
        side.bytes += batch.get_array_memory_size() as u64;
        side.blocks.push_back(batch);
        Ok(())
    }

    /// Whether no partner of a left row can follow.
    fn is_complete(&self, left: &PendingRow) -> bool {
        match self.tolerance {
            None => left.end <= self.watermark,
            Some(tolerance) => left.start.saturating_add(tolerance) < self.watermark,
        }
    }

    /// Places of the right rows that a left row meets.
    fn partners(&self, left: &PendingRow, found: &mut Vec<usize>) {
        let right = &self.sides[1].rows;
        match self.tolerance {
            None => {
                let begun = right
                    .iter()
                    .enumerate()
                    .take_while(|(_, row)| row.start < left.end);
                found.extend(
                    begun
                        .filter(|(_, row)| row.end > left.start)
                        .map(|(at, _)| at),
                );
            }
            Some(tolerance) => {
                let after = right.partition_point(|row| row.start < left.start);
                let near = [after.checked_sub(1), Some(after)].into_iter().flatten();
                let near = near.filter_map(|at| {
                    let away = right.get(at)?.start.abs_diff(left.start);
                    (away <= tolerance.unsigned_abs()).then_some((away, at))
                });
                // The earlier of equals comes first; of several that begin together the first is meant.
                if let Some((_, at)) = near.min() {
                    let start = right[at].start;
                    found.push(right.partition_point(|row| row.start < start));
                }
            }
        }
    }

    /// The pairs of all left rows that are complete, or of all at the end.
    pub(crate) fn matched(&mut self, end: bool) -> Result<Option<Rows>, OpError> {
        let mut pairs: Vec<[PendingRow; 2]> = Vec::new();
        let mut found = Vec::new();
        while let Some(&left) = self.sides[0].rows.front()
            && (end || self.is_complete(&left))
        {
            self.sides[0].rows.pop_front();
            found.clear();
            self.partners(&left, &mut found);
            pairs.extend(found.iter().map(|&at| [left, self.sides[1].rows[at]]));
        }
        let rows = self.joined(&pairs)?;
        self.prune();
        self.sides.iter_mut().for_each(MatcherInput::forget);
        Ok(rows)
    }

    /// Forgets right rows that nobody can meet any more.
    fn prune(&mut self) {
        let oldest = self.sides[0]
            .rows
            .front()
            .map_or(i64::MAX, |left| left.start);
        let from = oldest.min(self.watermark);
        let tolerance = self.tolerance;
        let gone = |row: &PendingRow| match tolerance {
            None => row.end <= from,
            Some(tolerance) => row.start.saturating_add(tolerance) < from,
        };
        let right = &mut self.sides[1].rows;
        while right.front().is_some_and(gone) {
            right.pop_front();
        }
        // Behind one that lasts long there may be others that do not.
        if right.len() >= self.prune_at {
            right.retain(|row| !gone(row));
            self.prune_at = (2 * right.len()).max(MIN_PRUNE_ROWS);
        }
    }

    /// A row for each pair.
    fn joined(&self, pairs: &[[PendingRow; 2]]) -> Result<Option<Rows>, OpError> {
        let (Some([first, _]), Some([last, _])) = (pairs.first(), pairs.last()) else {
            return Ok(None);
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.fields.schema().fields().len());
        for (port, side) in self.sides.iter().enumerate() {
            // Number of the block among those that wait.
            let places: Vec<(usize, usize)> = pairs
                .iter()
                .map(|pair| ((pair[port].block - side.first) as usize, pair[port].row))
                .collect();
            let width = side.blocks.front().map_or(0, RecordBatch::num_columns);
            for at in 0..width {
                let parts: Vec<&dyn Array> = side
                    .blocks
                    .iter()
                    .map(|block| block.column(at).as_ref())
                    .collect();
                columns.push(interleave(&parts, &places).map_err(OpErrorKind::from)?);
            }
        }
        let left = &self.sides[0];
        let index = |row: &PendingRow, at: usize| {
            let block = &left.blocks[(row.block - left.first) as usize];
            block.column(at).as_primitive::<Int64Type>().value(row.row)
        };
        let covers = index(first, left.range.0)..index(last, left.range.1);
        let batch = RecordBatch::try_new(self.fields.schema().clone(), columns);
        let next = covers.end;
        Ok(Some(Rows::new(
            batch.map_err(OpErrorKind::from)?,
            covers,
            next,
        )))
    }

    /// Bytes of what waits.
    pub(crate) fn bytes(&self) -> u64 {
        let of =
            |side: &MatcherInput| side.bytes + (side.rows.len() * size_of::<PendingRow>()) as u64;
        self.sides.iter().map(of).sum()
    }

    /// Index before which no row follows.
    pub(crate) fn progress(&self) -> i64 {
        let left = &self.sides[0];
        let waiting = left.rows.front().and_then(|row| {
            let block = left.blocks.get((row.block - left.first) as usize)?;
            Some(
                block
                    .column(left.range.0)
                    .as_primitive::<Int64Type>()
                    .value(row.row),
            )
        });
        waiting.unwrap_or(left.last)
    }
}
