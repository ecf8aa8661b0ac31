//! One input of a join: rows that wait for partners, and their columns.

use std::collections::VecDeque;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_select::interleave::interleave;

use super::axis::Axis;
use crate::plan::rows::{END, Fields, START};
use crate::{OpError, OpErrorKind};

#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRow {
    /// On the axis. A row of unknown start has the place of the row before, and matches none.
    pub(super) start: i64,
    pub(super) end: i64,
    /// Orders the input: its start, or that of a row before it that begins later, of another run; at least `announced`.
    pub(super) place: i64,
    /// It begins before this place, which its feed had reached when its clock started anew; else `i64::MIN`.
    pub(super) announced: i64,
    pub(super) is_timed: bool,
    /// It has a match, or was emitted without one.
    pub(super) is_decided: bool,
    /// Number of its block, and row in it.
    pub(super) block: u64,
    row: usize,
}

pub(super) struct MatcherInput {
    pub(super) axis: Axis,
    fields: Fields,
    /// Columns of start and end.
    range: (usize, usize),
    order: RowOrder,
    /// By place.
    pub(super) rows: VecDeque<PendingRow>,
    /// Rows that begin before their place.
    displaced: usize,
    /// Blocks with waiting rows, from number `first` on.
    blocks: VecDeque<RecordBatch>,
    first: u64,
    bytes: u64,
    keeps_untimed: bool,
    last_start: i64,
    /// Latest row, and its place.
    last_index: i64,
    last_place: i64,
    /// First index of the last block of known time.
    pub(super) last_block: Option<i64>,
    /// First index of the last row of known time.
    pub(super) last_row: Option<i64>,
}

/// Order where a clock starts anew and times decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// By index: rows leave as they came.
    Index,
    /// By time, for a search.
    Time,
}

impl MatcherInput {
    pub(super) fn new(
        (fields, axis): (Fields, Axis),
        order: RowOrder,
        keeps_untimed: bool,
    ) -> Self {
        let column = |name| fields.find(name).map_or(0, |(at, _)| at);
        Self {
            axis,
            fields,
            range: (column(START), column(END)),
            order,
            rows: VecDeque::new(),
            displaced: 0,
            blocks: VecDeque::new(),
            first: 0,
            bytes: 0,
            keeps_untimed,
            last_start: i64::MIN,
            last_index: i64::MIN,
            last_place: i64::MIN,
            last_block: None,
            last_row: None,
        }
    }

    pub(super) fn add(&mut self, batch: RecordBatch) -> Result<(), OpError> {
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values();
        let indices = column(self.range.0);
        let ranges = self.axis.ranges(indices, column(self.range.1))?;
        let block = self.first + self.blocks.len() as u64;
        for (row, ((start, end), &index)) in ranges.into_iter().zip(indices).enumerate() {
            let is_timed = start != i64::MIN && end != i64::MIN;
            if !is_timed && !self.keeps_untimed {
                continue;
            }
            if start != i64::MIN {
                self.last_start = start;
            }
            let (start, end) = match is_timed {
                true => (start, end),
                false => (self.last_start, self.last_start),
            };
            let announced = self.axis.announced_before(index);
            let is_late = is_timed && start < announced;
            let announced = if is_late { announced } else { i64::MIN };
            if is_timed {
                self.last_row = Some(index);
            }
            let place = self.place(index, start.max(announced));
            self.push(PendingRow {
                start,
                end,
                place,
                announced,
                is_timed,
                is_decided: false,
                block,
                row,
            });
        }
        self.bytes += batch.get_array_memory_size() as u64;
        self.blocks.push_back(batch);
        Ok(())
    }

    fn place(&mut self, index: i64, start: i64) -> i64 {
        // Rows of merged streams may be out of order.
        if self.order == RowOrder::Time || index < self.last_index {
            return start;
        }
        self.last_index = index;
        self.last_place = self.last_place.max(start);
        self.last_place
    }

    fn push(&mut self, row: PendingRow) {
        self.displaced += usize::from(row.start < row.place);
        if self.rows.back().is_none_or(|last| last.place <= row.place) {
            return self.rows.push_back(row);
        }
        let at = self.rows.partition_point(|other| other.place <= row.place);
        self.rows.insert(at, row);
    }

    pub(super) fn pop(&mut self) {
        if let Some(row) = self.rows.pop_front() {
            self.displaced -= usize::from(row.start < row.place);
        }
    }

    pub(super) fn retain(&mut self, is_needed: impl Fn(&PendingRow) -> bool) {
        self.rows.retain(is_needed);
        let displaced = self.rows.iter().filter(|row| row.start < row.place);
        self.displaced = displaced.count();
    }

    /// Whether starts may not ascend.
    pub(super) fn has_displaced(&self) -> bool {
        self.displaced > 0
    }

    pub(super) fn earliest_start(&self) -> Option<i64> {
        match self.displaced {
            0 => self.rows.front().map(|row| row.start),
            _ => self.rows.iter().map(|row| row.start).min(),
        }
    }

    /// Drops blocks that neither `rows` nor `others` need.
    pub(super) fn drop_blocks(&mut self, others: impl Iterator<Item = PendingRow>) {
        let rows = self.rows.iter().map(|row| row.block);
        let oldest = rows.chain(others.map(|row| row.block)).min();
        while self.first < oldest.unwrap_or(u64::MAX)
            && let Some(block) = self.blocks.pop_front()
        {
            self.first += 1;
            self.bytes -= block.get_array_memory_size() as u64;
        }
    }

    pub(super) fn index_of(&self, row: &PendingRow) -> i64 {
        let block = self.blocks.get((row.block - self.first) as usize);
        block.map_or(i64::MIN, |block| {
            let starts = block.column(self.range.0).as_primitive::<Int64Type>();
            starts.value(row.row)
        })
    }

    /// Appends the columns of rows, nulls for None.
    pub(super) fn gather(
        &self,
        rows: impl Iterator<Item = Option<PendingRow>>,
        columns: &mut Vec<ArrayRef>,
    ) -> Result<(), OpError> {
        let of_null = (self.blocks.len(), 0);
        let place = |row: PendingRow| ((row.block - self.first) as usize, row.row);
        let places: Vec<(usize, usize)> = rows.map(|row| row.map_or(of_null, place)).collect();
        let has_null = places.contains(&of_null);
        for (at, field) in self.fields.schema().fields().iter().enumerate() {
            let null = has_null.then(|| new_null_array(field.data_type(), 1));
            let blocks = self.blocks.iter().map(|block| block.column(at).as_ref());
            let parts: Vec<&dyn Array> = blocks.chain(null.as_deref()).collect();
            columns.push(interleave(&parts, &places).map_err(OpErrorKind::from)?);
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes + (self.rows.len() * size_of::<PendingRow>()) as u64
    }
}
