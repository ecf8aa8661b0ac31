//! Matches rows of two streams by time.
//!
//! The fan-in orders blocks by start across both inputs, so nothing that begins before the latest block follows on
//! either: the *watermark*. A left row is complete once no match can follow, and is emitted with its matches; a right
//! row is dropped once no left row can match it.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_select::interleave::interleave;
use isochrony_segment::StreamId;
use isochrony_time::{Rate, SampleCount};

use crate::plan::rows::{Clock, END, Fields, Rows, START};
use crate::{Length, OpError, OpErrorKind};

/// Where rows are compared: indices, or civil time in ns.
pub(crate) struct Axis {
    clock: Option<Arc<dyn Clock>>,
    /// Axis units per second, and per sample.
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

    fn units_in(&self, seconds: f64) -> i64 {
        let units = self
            .second
            .and_then(|rate| rate.samples_in_seconds(seconds).ok());
        let units = units.and_then(SampleCount::floor);
        units
            .and_then(|units| i64::try_from(units).ok())
            .unwrap_or(i64::MAX)
    }

    /// The nearest number of whole axis units; None beyond 63 bits.
    pub(crate) fn units(&self, length: Length) -> Option<i64> {
        let units = length.samples(self.second?)?;
        i64::try_from(units).ok()
    }

    /// Positions of indices on the axis; `i64::MIN` if unknown.
    pub(crate) fn positions(&self, indices: &[i64]) -> Result<Vec<i64>, OpError> {
        let Some(clock) = &self.clock else {
            return Ok(indices.to_vec());
        };
        let mut times = vec![0; indices.len()];
        clock.times(indices, &mut times)?;
        Ok(times)
    }

    /// First index at a position or later, in the run of index `near`. None if unknown.
    pub(crate) fn first_at(&self, near: i64, position: i64) -> Option<i64> {
        match &self.clock {
            Some(clock) => clock.first_at(near, position),
            None => Some(position),
        }
    }

    pub(crate) fn is_civil(&self) -> bool {
        self.clock.is_some()
    }

    /// Unit of distances.
    pub(crate) fn unit(&self) -> &'static str {
        match self.clock {
            Some(_) => "ns",
            None => "samples",
        }
    }

    /// Starts and ends on the axis; `i64::MIN` if unknown.
    pub(crate) fn ranges(&self, starts: &[i64], ends: &[i64]) -> Result<Vec<(i64, i64)>, OpError> {
        let pairs = starts.iter().zip(ends);
        let Some(clock) = &self.clock else {
            return Ok(pairs.map(|(&start, &end)| (start, end)).collect());
        };
        let from = self.positions(starts)?;
        // A row ends one period after its last sample, because the next index may belong to another clock.
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
    /// Number of its block, counted from the input's first, and its row there.
    block: u64,
    row: usize,
}

struct MatcherInput {
    axis: Axis,
    /// Columns of start and end.
    range: (usize, usize),
    rows: VecDeque<PendingRow>,
    /// Blocks with waiting rows, from number `first` on.
    blocks: VecDeque<RecordBatch>,
    first: u64,
    bytes: u64,
    /// Start of the last block.
    last: i64,
}

impl MatcherInput {
    /// Inserts a row in order of start; rows of merged streams may arrive out of order.
    fn push(&mut self, row: PendingRow) {
        if self.rows.back().is_none_or(|last| last.start <= row.start) {
            return self.rows.push_back(row);
        }
        let at = self.rows.partition_point(|other| other.start <= row.start);
        self.rows.insert(at, row);
    }

    fn drop_blocks(&mut self) {
        let oldest = self.rows.iter().map(|row| row.block).min();
        while self.first < oldest.unwrap_or(u64::MAX)
            && let Some(block) = self.blocks.pop_front()
        {
            self.first += 1;
            self.bytes -= block.get_array_memory_size() as u64;
        }
    }
}

pub(crate) struct Matcher {
    fields: Fields,
    inputs: [MatcherInput; 2],
    tolerance: Option<i64>,
    /// Begin of the last block of both inputs.
    watermark: i64,
    /// As the engine states it.
    bound: i64,
    /// Number of right rows at which to prune.
    prune_at: usize,
}

const MIN_PRUNE_ROWS: usize = 1024;

impl Matcher {
    pub(crate) fn new(fields: Fields, inputs: [(Fields, Axis); 2], tolerance: Option<f64>) -> Self {
        let tolerance = tolerance.map(|seconds| inputs[0].1.units_in(seconds));
        let input = |(fields, axis): (Fields, Axis)| MatcherInput {
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
            inputs: inputs.map(input),
            tolerance,
            watermark: i64::MIN,
            bound: i64::MIN,
            prune_at: MIN_PRUNE_ROWS,
        }
    }

    pub(crate) fn add(&mut self, port: usize, rows: Rows) -> Result<(), OpError> {
        let input = &mut self.inputs[port];
        let covers = rows.covers();
        let batch = rows.into_batch();
        let index = |at: usize| batch.column(at).as_primitive::<Int64Type>().values();
        let (starts, ends) = (index(input.range.0), index(input.range.1));
        let ranges = input.axis.ranges(starts, ends)?;
        if let Some(covers) = covers {
            input.last = covers.start;
            let begins = input.axis.ranges(&[covers.start], &[covers.end])?[0].0;
            if begins != i64::MIN {
                if begins < self.watermark {
                    return Err(OpErrorKind::BackInTime {
                        port,
                        at: covers.start,
                        by: self.watermark - begins,
                        unit: input.axis.unit(),
                    }
                    .into());
                }
                self.watermark = begins;
            }
        }
        let block = input.first + input.blocks.len() as u64;
        for (row, &(start, end)) in ranges.iter().enumerate() {
            if start != i64::MIN && end != i64::MIN {
                input.push(PendingRow {
                    start,
                    end,
                    block,
                    row,
                });
            }
        }
        input.bytes += batch.get_array_memory_size() as u64;
        input.blocks.push_back(batch);
        Ok(())
    }

    /// Nothing that begins before a position on the axis follows.
    pub(crate) fn advance(&mut self, position: i64) {
        self.bound = self.bound.max(position);
    }

    /// No match can follow.
    fn is_complete(&self, left: &PendingRow) -> bool {
        let bound = self.bound.max(self.watermark);
        match self.tolerance {
            None => left.end <= bound,
            Some(tolerance) => left.start.saturating_add(tolerance) < bound,
        }
    }

    fn find_matches(&self, left: &PendingRow, matches: &mut Vec<usize>) {
        let right = &self.inputs[1].rows;
        match self.tolerance {
            None => {
                let begun = right
                    .iter()
                    .enumerate()
                    .take_while(|(_, row)| row.start < left.end);
                matches.extend(
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
                // The earlier of two equally near rows wins, and the first of several with the same start.
                if let Some((_, at)) = near.min() {
                    let start = right[at].start;
                    matches.push(right.partition_point(|row| row.start < start));
                }
            }
        }
    }

    /// Joins all complete left rows; at the end, all.
    pub(crate) fn take_matches(&mut self, end: bool) -> Result<Option<Rows>, OpError> {
        let mut pairs: Vec<[PendingRow; 2]> = Vec::new();
        let mut matches = Vec::new();
        while let Some(&left) = self.inputs[0].rows.front()
            && (end || self.is_complete(&left))
        {
            self.inputs[0].rows.pop_front();
            matches.clear();
            self.find_matches(&left, &mut matches);
            pairs.extend(matches.iter().map(|&at| [left, self.inputs[1].rows[at]]));
        }
        let rows = self.join_pairs(&pairs)?;
        self.prune();
        self.inputs.iter_mut().for_each(MatcherInput::drop_blocks);
        Ok(rows)
    }

    fn prune(&mut self) {
        let oldest = self.inputs[0]
            .rows
            .front()
            .map_or(i64::MAX, |left| left.start);
        let from = oldest.min(self.watermark);
        let tolerance = self.tolerance;
        let unmatchable = |row: &PendingRow| match tolerance {
            None => row.end <= from,
            Some(tolerance) => row.start.saturating_add(tolerance) < from,
        };
        let right = &mut self.inputs[1].rows;
        while right.front().is_some_and(unmatchable) {
            right.pop_front();
        }
        // Rows behind a long one may already be unneeded.
        if right.len() >= self.prune_at {
            right.retain(|row| !unmatchable(row));
            self.prune_at = (2 * right.len()).max(MIN_PRUNE_ROWS);
        }
    }

    fn join_pairs(&self, pairs: &[[PendingRow; 2]]) -> Result<Option<Rows>, OpError> {
        let (Some([first, _]), Some([last, _])) = (pairs.first(), pairs.last()) else {
            return Ok(None);
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.fields.schema().fields().len());
        for (port, input) in self.inputs.iter().enumerate() {
            let places: Vec<(usize, usize)> = pairs
                .iter()
                .map(|pair| ((pair[port].block - input.first) as usize, pair[port].row))
                .collect();
            let width = input.blocks.front().map_or(0, RecordBatch::num_columns);
            for at in 0..width {
                let parts: Vec<&dyn Array> = input
                    .blocks
                    .iter()
                    .map(|block| block.column(at).as_ref())
                    .collect();
                columns.push(interleave(&parts, &places).map_err(OpErrorKind::from)?);
            }
        }
        let left = &self.inputs[0];
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

    pub(crate) fn bytes(&self) -> u64 {
        let of = |input: &MatcherInput| {
            input.bytes + (input.rows.len() * size_of::<PendingRow>()) as u64
        };
        self.inputs.iter().map(of).sum()
    }

    /// Index before which no output follows.
    pub(crate) fn progress(&self) -> i64 {
        let left = &self.inputs[0];
        let waiting = left.rows.front().and_then(|row| {
            let block = left.blocks.get((row.block - left.first) as usize)?;
            Some(
                block
                    .column(left.range.0)
                    .as_primitive::<Int64Type>()
                    .value(row.row),
            )
        });
        waiting.unwrap_or(match left.axis.is_civil() {
            true => left.last,
            false => left.last.max(self.bound),
        })
    }
}
