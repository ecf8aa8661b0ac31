//! Groups in windows of time. Rows come in order of start, so a row or progress mark closes every window that ends
//! before it. A clock step or a rewind closes all.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field};

use super::aggregates::{GroupAggregates, SharedExecutor};
use super::keys::{GroupKey, KeyColumns, push_key};
use super::open_groups::{FinishedGroup, PlacePool, Run, TimedRow};
use super::sessions::Sessions;
use super::windows::Windows;
use crate::operators::rows::{Axis, ColumnValues, integer, times, timestamps};
use crate::plan::rows::{Clock, END, Fields, Rows, START, TIME};
use crate::{OpError, OpErrorKind, RangeOrigin};

const MAX_ROWS: usize = 8192;
/// Exceeded only by one row in many windows.
const MAX_PAIRS: usize = 1 << 14;

pub(super) enum Span {
    Windows(Windows),
    Sessions(Sessions),
}

pub(super) struct TimedGroups {
    axis: Axis,
    span: Span,
    /// Columns of start and end.
    range: (usize, usize),
    /// Gives the column `time`.
    clock: Option<Arc<dyn Clock>>,
    run: Run,
    places: PlacePool,
    /// Rows of a batch, and their groups.
    pairs: Vec<(usize, usize)>,
    finished: Vec<FinishedGroup>,
    last: i64,
    /// Nothing begins before this index.
    upto: i64,
    /// Windows are closed up to here on the axis.
    position: i64,
}

impl TimedGroups {
    pub(super) fn new(
        axis: Axis,
        span: Span,
        range: (usize, usize),
        clock: Option<Arc<dyn Clock>>,
        most: u64,
    ) -> Self {
        Self {
            axis,
            span,
            range,
            clock,
            run: Run {
                start: i64::MIN,
                begins: true,
            },
            places: PlacePool {
                free: Vec::new(),
                count: 0,
                open: 0,
                most,
            },
            pairs: Vec::new(),
            finished: Vec::new(),
            last: i64::MIN,
            upto: i64::MIN,
            position: i64::MIN,
        }
    }

    /// Columns before keys and aggregates.
    pub(super) fn own_fields(&self) -> impl Iterator<Item = Field> {
        let index = |name| Field::new(name, DataType::Int64, false);
        let time = (self.clock.as_ref()).map(|_| Field::new(TIME, Fields::civil(), true));
        [index(START), index(END)].into_iter().chain(time)
    }

    /// Finds the groups of rows from number `first` on, and closes those before. Returns the row at which it stopped,
    /// because much is to be emitted or added.
    pub(super) fn add(
        &mut self,
        batch: &RecordBatch,
        keys: &[GroupKey],
        first: usize,
    ) -> Result<usize, OpError> {
        self.pairs.clear();
        let index = |at: usize| batch.column(at).as_primitive::<Int64Type>().values();
        let (starts, ends) = (index(self.range.0), index(self.range.1));
        let ranges = match self.span {
            Span::Windows(_) => {
                let positions = self.axis.positions(starts)?.into_iter();
                positions.map(|from| (from, from)).collect()
            }
            Span::Sessions(_) => self.axis.ranges(starts, ends)?,
        };
        let rows = starts.iter().zip(ends).zip(ranges).zip(keys).enumerate();
        for (row, (((&start, &end), (from, to)), key)) in rows.skip(first) {
            if self.pairs.len() >= MAX_PAIRS || self.finished.len() >= MAX_ROWS {
                return Ok(row);
            }
            let earliest = self.last.max(self.upto);
            if start < earliest {
                return Err(OpErrorKind::BackInTime {
                    port: 0,
                    at: start,
                    by: earliest - start,
                    unit: "samples",
                }
                .into());
            }
            self.last = start;
            if from == i64::MIN || to == i64::MIN {
                return Err(OpErrorKind::RowWithoutTime { at: start }.into());
            }
            // Estimated clocks may go back a little.
            let from = from.max(self.position);
            self.close(from, start);
            let row = TimedRow {
                row,
                key,
                start,
                end,
                from,
                to: to.max(from),
            };
            match &mut self.span {
                Span::Windows(windows) => {
                    let place = (&self.axis, &self.run);
                    windows.add(&row, place, &mut self.places, &mut self.pairs)?;
                }
                Span::Sessions(sessions) => {
                    sessions.add(&row, &mut self.places, &mut self.pairs)?;
                }
            }
        }
        Ok(starts.len())
    }

    pub(super) fn advance(&mut self, upto: i64) {
        if upto <= self.upto {
            return;
        }
        self.upto = upto;
        if let Some(position) = self.position_of(upto) {
            self.close(position, upto);
        }
    }

    fn position_of(&self, index: i64) -> Option<i64> {
        let position = self.axis.positions(&[index]).ok()?;
        position.first().copied().filter(|&at| at != i64::MIN)
    }

    fn close(&mut self, position: i64, limit: i64) {
        if position > self.position {
            self.position = position;
            self.close_spans(Some(position), limit);
        }
    }

    fn close_spans(&mut self, position: Option<i64>, limit: i64) {
        let before = self.finished.len();
        match &mut self.span {
            Span::Windows(windows) => {
                windows.close(position, limit, &self.axis, &mut self.finished);
            }
            Span::Sessions(sessions) => sessions.close(position, &mut self.finished),
        }
        self.places.open -= (self.finished.len() - before) as u64;
    }

    pub(super) fn finish(&mut self) {
        self.close_spans(None, i64::MAX);
    }

    /// Indices continue in the next run, times need not.
    pub(super) fn end_run(&mut self) {
        // The clock step's index.
        self.close_spans(None, self.upto);
        self.position = i64::MIN;
        self.run.begins = true;
    }

    pub(super) fn rewind(&mut self) {
        self.finish();
        (self.position, self.last, self.upto) = (i64::MIN, i64::MIN, i64::MIN);
        self.run.begins = true;
    }

    pub(super) fn begin_range(&mut self, origin: RangeOrigin) {
        if self.run.begins {
            (self.run.start, self.run.begins) = (origin.anchor, false);
        }
    }

    /// No waiting row starts before this index.
    pub(super) fn progress(&self, upto: i64) -> i64 {
        match &self.span {
            Span::Sessions(sessions) => sessions.progress(upto),
            Span::Windows(windows) => match self.position_of(upto) {
                Some(position) => {
                    let position = position.max(self.position);
                    windows.progress(upto, position, &self.axis, &self.run)
                }
                None => i64::MIN,
            },
        }
    }

    pub(super) fn add_to(
        &self,
        aggregates: &mut GroupAggregates,
        batch: &RecordBatch,
        helpers: &SharedExecutor,
    ) {
        aggregates.add(batch, &self.pairs, self.places.count, helpers);
    }

    pub(super) fn take_rows(
        &mut self,
        fields: Fields,
        keys: &KeyColumns,
        (aggregates, helpers): (&mut GroupAggregates, &SharedExecutor),
    ) -> Result<Option<Rows>, OpError> {
        let count = self.finished.len().min(MAX_ROWS);
        let groups: Vec<FinishedGroup> = self.finished.drain(..count).collect();
        let (Some(first), Some(last)) = (groups.first(), groups.last()) else {
            return Ok(None);
        };
        let starts: Vec<i64> = groups.iter().map(|group| group.start).collect();
        let ends = groups.iter().map(|group| group.end).collect();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(fields.schema().fields().len());
        let time = match &self.clock {
            None => None,
            Some(_) if self.axis.is_civil() && matches!(self.span, Span::Windows(_)) => {
                Some(timestamps(groups.iter().map(|group| group.begin).collect()))
            }
            Some(clock) => Some(times(&**clock, &starts)?),
        };
        columns.extend([integer(starts), integer(ends)]);
        columns.extend(time.map(|time| Arc::new(time) as ArrayRef));
        let mut cells: Vec<ColumnValues> = keys.iter().map(|(_, cells)| cells.empty()).collect();
        groups
            .iter()
            .for_each(|group| push_key(&mut cells, &group.key));
        let places: Vec<usize> = groups.iter().map(|group| group.place).collect();
        cells.extend(aggregates.finish(&places, helpers));
        let own = fields.schema().fields().iter().skip(columns.len());
        for (field, cells) in own.zip(cells) {
            columns.push(cells.column(field).map_err(OpErrorKind::from)?);
        }
        self.places.free.extend(places);
        let batch = RecordBatch::try_new(fields.schema().clone(), columns);
        // The next row may start with the last one.
        let (covers, next) = (first.start..last.end.max(last.start), last.start);
        let rows = Rows::new(batch.map_err(OpErrorKind::from)?, covers, next);
        Ok(Some(rows))
    }

    /// Memory of waiting groups, with that of their states.
    pub(super) fn bytes(&self, keys: usize, states: usize) -> u64 {
        let spilled = if keys > 2 { keys * size_of::<u64>() } else { 0 };
        // A table of a session or window and its entry, at half load.
        let entry = 4 * size_of::<(GroupKey, (usize, usize))>() + spilled;
        let pairs = self.pairs.capacity() * size_of::<(usize, usize)>();
        self.places.open * entry as u64 + (states + pairs) as u64
    }
}
