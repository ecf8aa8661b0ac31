//! Gathers all rows of an execution in one table.
//!
//! Columns of 8 bytes a value, which are most, are appended to as rows arrive: their blocks are free again at once, and
//! new pages are touched once. Where the number of samples is known, the first rows say how many there will be.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, new_empty_array,
};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::concat::concat;
use isochrony_segment::{has_free_memory, prefer_large_pages};

use super::{Fields, Rows};
use crate::{OpError, OpErrorKind};

/// Smaller blocks are concatenated: a block costs more memory than its rows.
const BLOCK_ROWS: usize = 8192;
/// Most rows for which memory is reserved before they arrive.
const MAX_RESERVED_ROWS: usize = 1 << 27;

#[derive(Debug)]
pub(crate) struct Gatherer {
    fields: Fields,
    columns: Vec<Column>,
    rows: usize,
    /// Samples to come in all, until memory is reserved by it.
    expected: Option<u64>,
    first: Option<i64>,
}

impl Gatherer {
    pub(crate) fn new(fields: Fields) -> Self {
        let columns = fields.schema().fields().iter();
        Self {
            fields,
            columns: columns
                .map(|field| Column::new(field.data_type()))
                .collect(),
            rows: 0,
            expected: None,
            first: None,
        }
    }

    /// Number of samples of the rows' stream.
    pub(crate) fn expect(&mut self, samples: u64) {
        self.expected = Some(samples);
    }

    pub(crate) fn push(&mut self, rows: &Rows) -> Result<(), OpError> {
        self.rows += rows.batch().num_rows();
        for (column, part) in self.columns.iter_mut().zip(rows.batch().columns()) {
            column.push(part)?;
        }
        let Some((start, next)) = rows.extent() else {
            return Ok(());
        };
        let first = *self.first.get_or_insert(start);
        if let Some(samples) = self.expected.take_if(|_| self.rows >= BLOCK_ROWS) {
            let seen = next.abs_diff(first).max(1);
            let all = self.rows as f64 * (samples as f64 / seen as f64);
            let more = (all.ceil() as usize).saturating_sub(self.rows);
            let more = more.min(MAX_RESERVED_ROWS);
            self.columns
                .iter_mut()
                .for_each(|column| column.expect(more));
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.into_iter().map(Column::finish);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(Arc::clone(self.fields.schema()), columns)
    }
}

#[derive(Debug)]
enum Column {
    Integers(Values<Int64Type>),
    Floats(Values<Float64Type>),
    Times(Values<TimestampNanosecondType>),
    Others(Parts),
}

impl Column {
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Int64 => Self::Integers(Values::new(data_type)),
            DataType::Float64 => Self::Floats(Values::new(data_type)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Self::Times(Values::new(data_type)),
            _ => Self::Others(Parts::new(data_type)),
        }
    }

    fn push(&mut self, part: &ArrayRef) -> Result<(), OpError> {
        match self {
            Self::Integers(values) => values.push(part),
            Self::Floats(values) => values.push(part),
            Self::Times(values) => values.push(part),
            Self::Others(parts) => Ok(parts.push(part)?),
        }
    }

    fn expect(&mut self, more: usize) {
        match self {
            Self::Integers(values) => values.expect(more),
            Self::Floats(values) => values.expect(more),
            Self::Times(values) => values.expect(more),
            Self::Others(_) => {}
        }
    }

    fn finish(self) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Integers(values) => values.finish(),
            Self::Floats(values) => values.finish(),
            Self::Times(values) => values.finish(),
            Self::Others(parts) => parts.finish(),
        }
    }
}

#[derive(Debug)]
struct Values<T: ArrowPrimitiveType> {
    data_type: DataType,
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Values<T> {
    fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            values: Vec::new(),
            nulls: NullBufferBuilder::new(0),
        }
    }

    fn push(&mut self, part: &ArrayRef) -> Result<(), OpError> {
        let part = part.as_primitive_opt::<T>().ok_or_else(|| {
            ArrowError::SchemaError(format!(
                "a column of {} got {}",
                self.data_type,
                part.data_type()
            ))
        })?;
        self.make_room(part.len())?;
        self.values.extend_from_slice(part.values());
        match part.nulls() {
            Some(nulls) => self.nulls.append_buffer(nulls),
            None => self.nulls.append_n_non_nulls(part.len()),
        }
        Ok(())
    }

    /// The vector doubles; memory is allocated only when written to.
    fn make_room(&mut self, more: usize) -> Result<(), OpError> {
        if self.values.capacity() - self.values.len() >= more {
            return Ok(());
        }
        let bytes = |values: usize| (values * size_of::<T::Native>()) as u64;
        let room = has_free_memory(bytes(self.values.len().max(more)));
        if !room || self.values.try_reserve(more).is_err() {
            return Err(OpErrorKind::ResultTooLarge {
                gathered: bytes(self.values.len()),
                more: bytes(more),
            }
            .into());
        }
        prefer_large_pages(self.values.spare_capacity_mut());
        Ok(())
    }

    /// If this fails, the vector grows with the rows.
    fn expect(&mut self, more: usize) {
        if self.values.try_reserve_exact(more).is_ok() {
            prefer_large_pages(self.values.spare_capacity_mut());
        }
    }

    fn finish(mut self) -> Result<ArrayRef, ArrowError> {
        self.values.shrink_to_fit();
        let array = PrimitiveArray::<T>::try_new(self.values.into(), self.nulls.finish())?;
        Ok(Arc::new(array.with_data_type(self.data_type)))
    }
}

#[derive(Debug)]
struct Parts {
    data_type: DataType,
    large: Vec<ArrayRef>,
    small: Vec<ArrayRef>,
    small_rows: usize,
}

impl Parts {
    fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            large: Vec::new(),
            small: Vec::new(),
            small_rows: 0,
        }
    }

    fn push(&mut self, part: &ArrayRef) -> Result<(), ArrowError> {
        self.small_rows += part.len();
        self.small.push(Arc::clone(part));
        if self.small_rows >= BLOCK_ROWS {
            self.small_rows = 0;
            self.large.push(joined(&self.small)?);
            self.small.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ArrayRef, ArrowError> {
        self.large.append(&mut self.small);
        match &self.large[..] {
            [] => Ok(new_empty_array(&self.data_type)),
            [only] => Ok(Arc::clone(only)),
            parts => joined(parts),
        }
    }
}

fn joined(parts: &[ArrayRef]) -> Result<ArrayRef, ArrowError> {
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    concat(&parts)
}
