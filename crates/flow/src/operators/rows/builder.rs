//! Builds record batches, one row per window or range.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};

use crate::plan::rows::{Clock, END, Fields, Rows, START, TIME, clock_of};
use crate::{Frames, Item, OpError, OpErrorKind, Out, PlanError, PortType};

/// Most rows of a batch: enough to make its cost small.
const MAX_ROWS: usize = 1024;
/// Most samples of a batch: few enough not to hold back rows of long windows.
const MAX_SAMPLES: u64 = 1 << 20;

/// Starts, ends and times of waiting rows. The operator keeps the other columns.
pub(crate) struct RowBuilder {
    fields: Fields,
    clock: Option<Arc<dyn Clock>>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    next: i64,
    samples: u64,
}

impl RowBuilder {
    /// `own` fields follow the common ones. Also returns the output type.
    pub(crate) fn bind(
        operator: &'static str,
        port: &PortType,
        own: impl IntoIterator<Item = Field>,
    ) -> Result<(Self, PortType), PlanError> {
        let stream = port.stream_id();
        let clock = stream.and_then(clock_of);
        let mut fields = vec![
            Field::new(START, DataType::Int64, false),
            Field::new(END, DataType::Int64, false),
        ];
        if clock.is_some() {
            fields.push(Field::new(TIME, Fields::civil(), true));
        }
        for field in own {
            if let Some(duplicate) = fields.iter().find(|known| known.name() == field.name()) {
                return Err(PlanError::FieldTwice {
                    operator,
                    field: duplicate.name().clone(),
                });
            }
            fields.push(field);
        }
        let fields = Fields::intern(fields);
        let builder = Self {
            fields,
            clock,
            starts: Vec::new(),
            ends: Vec::new(),
            next: i64::MIN,
            samples: 0,
        };
        Ok((builder, PortType::Rows { fields, stream }))
    }

    pub(crate) fn add(&mut self, frames: &Frames) {
        let starts = (0..frames.count()).map(|k| frames.window_start(k));
        self.ends.extend(
            starts
                .clone()
                .map(|start| start.saturating_add_unsigned(frames.window())),
        );
        self.starts.extend(starts);
        self.next = frames.next_start();
        self.samples += frames.count() * frames.hop().min(frames.window());
    }

    pub(crate) fn add_range(&mut self, range: &std::ops::Range<i64>) {
        self.starts.push(range.start);
        self.ends.push(range.end);
        self.next = range.end;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.starts.len() >= MAX_ROWS || self.samples >= MAX_SAMPLES
    }

    pub(crate) fn first(&self) -> Option<i64> {
        self.starts.first().copied()
    }

    /// Limits a progress mark to the first waiting row.
    pub(crate) fn progress(&self, upto: i64) -> i64 {
        self.first().map_or(upto, |first| first.min(upto))
    }

    pub(crate) fn emit(
        &mut self,
        columns: impl IntoIterator<Item = Result<ArrayRef, OpError>>,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        if self.starts.is_empty() {
            return Ok(());
        }
        let columns = columns.into_iter().collect::<Result<Vec<_>, _>>()?;
        match self.take(columns)? {
            Some(rows) => out.emit(0, &mut Item::Rows(rows)),
            None => Ok(()),
        }
    }

    pub(crate) fn take(
        &mut self,
        columns: impl IntoIterator<Item = ArrayRef>,
    ) -> Result<Option<Rows>, OpError> {
        let room = self.starts.len().min(MAX_ROWS);
        let starts = std::mem::replace(&mut self.starts, Vec::with_capacity(room));
        let ends = std::mem::replace(&mut self.ends, Vec::with_capacity(room));
        self.samples = 0;
        let (Some(&first), Some(&last)) = (starts.first(), ends.last()) else {
            return Ok(None);
        };
        let mut all: Vec<ArrayRef> = Vec::with_capacity(self.fields.schema().fields().len());
        let times = self.clock.as_deref().map(|clock| times(clock, &starts));
        all.push(integer(starts));
        all.push(integer(ends));
        if let Some(times) = times {
            all.push(Arc::new(times?));
        }
        all.extend(columns);
        let batch =
            RecordBatch::try_new(self.fields.schema().clone(), all).map_err(OpErrorKind::from)?;
        Ok(Some(Rows::new(batch, first..last, self.next)))
    }
}

pub(crate) fn times(
    clock: &dyn Clock,
    indices: &[i64],
) -> Result<TimestampNanosecondArray, OpError> {
    let mut ns = vec![0; indices.len()];
    clock.times(indices, &mut ns)?;
    Ok(timestamps(ns))
}

/// `i64::MIN` if unknown.
pub(crate) fn timestamps(ns: Vec<i64>) -> TimestampNanosecondArray {
    let known = ns
        .contains(&i64::MIN)
        .then(|| NullBuffer::from_iter(ns.iter().map(|&t| t != i64::MIN)));
    TimestampNanosecondArray::new(ScalarBuffer::from(ns), known).with_timezone("UTC")
}

pub(crate) fn integer(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::new(ScalarBuffer::from(values), None))
}

pub(crate) fn float(values: Vec<f64>) -> ArrayRef {
    Arc::new(Float64Array::new(ScalarBuffer::from(values), None))
}

/// Methods of an operator that buffers rows in `self.bound.rows`. `self.flush` emits them when the next row does not
/// continue them, when sources are idle, and at the end; not at removed samples, since rows need not be contiguous.
/// `reset`: what else a break does to `bound`.
macro_rules! flush_rows {
    () => {
        flush_rows!(|_bound| {});
    };
    (|$bound:ident| $reset:block) => {
        fn on_break(
            &mut self,
            _: crate::Port,
            why: &crate::Break,
            out: &mut crate::Out<'_>,
        ) -> Result<(), crate::OpError> {
            if let Some($bound) = &mut self.bound $reset
            match why {
                crate::Break::Removed => Ok(()),
                _ => self.flush(out),
            }
        }

        fn idle(&mut self, out: &mut crate::Out<'_>) -> Result<(), crate::OpError> {
            self.flush(out)
        }

        fn finish(
            &mut self,
            _: crate::Port,
            out: &mut crate::Out<'_>,
        ) -> Result<(), crate::OpError> {
            self.flush(out)
        }

        fn progress(&mut self, _: crate::Port, upto: i64) -> i64 {
            let bound = self.bound.as_ref();
            bound.map_or(upto, |bound| bound.rows.progress(upto))
        }
    };
}
pub(crate) use flush_rows;
