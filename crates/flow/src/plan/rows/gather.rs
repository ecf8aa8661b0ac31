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
/// Most bytes of all columns reserved before rows arrive.
const MAX_RESERVED_BYTES: u64 = 1 << 30;
/// Of a value of [`PrimitiveColumn`]s.
const VALUE_BYTES: u64 = 8;

#[derive(Debug)]
pub(crate) struct Gatherer {
    fields: Fields,
    columns: Vec<GatheredColumn>,
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
                .map(|field| GatheredColumn::new(field.data_type()))
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
        self.make_room(rows.batch().num_rows())?;
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
            self.reserve_expected(more);
        }
        Ok(())
    }

    /// All columns that are full double at the same time: memory that one has claimed still counts as free, until it is
    /// written to.
    fn make_room(&mut self, more: usize) -> Result<(), OpError> {
        let growth = |column: &GatheredColumn| column.growth(more);
        let growth: u64 = self.columns.iter().map(growth).sum();
        if growth == 0 {
            return Ok(());
        }
        let mut columns = self.columns.iter_mut();
        if has_free_memory(growth) && columns.all(|column| column.try_reserve(more)) {
            return Ok(());
        }
        let primitive = self.columns.iter().filter(|one| one.is_primitive());
        let row_bytes = primitive.count() as u64 * VALUE_BYTES;
        Err(OpErrorKind::ResultTooLarge {
            gathered: row_bytes * self.rows as u64,
            more: row_bytes * more as u64,
        }
        .into())
    }

    /// Without the memory for it, columns grow with the rows.
    fn reserve_expected(&mut self, more: usize) {
        let primitive = self.columns.iter().filter(|one| one.is_primitive());
        let row_bytes = primitive.count() as u64 * VALUE_BYTES;
        let most = (MAX_RESERVED_BYTES / row_bytes.max(1)) as usize;
        let more = more.min(most);
        if has_free_memory(row_bytes * more as u64) {
            let columns = self.columns.iter_mut();
            columns.for_each(|column| column.expect(more));
        }
    }

    pub(crate) fn finish(self) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.into_iter().map(GatheredColumn::finish);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(Arc::clone(self.fields.schema()), columns)
    }
}

#[derive(Debug)]
enum GatheredColumn {
    Integers(PrimitiveColumn<Int64Type>),
    Floats(PrimitiveColumn<Float64Type>),
    Times(PrimitiveColumn<TimestampNanosecondType>),
    Others(ConcatenatedColumn),
}

impl GatheredColumn {
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Int64 => Self::Integers(PrimitiveColumn::new(data_type)),
            DataType::Float64 => Self::Floats(PrimitiveColumn::new(data_type)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                Self::Times(PrimitiveColumn::new(data_type))
            }
            _ => Self::Others(ConcatenatedColumn::new(data_type)),
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

    fn is_primitive(&self) -> bool {
        !matches!(self, Self::Others(_))
    }

    /// Bytes by which it grows for so many rows; 0 if it has room for them.
    fn growth(&self, more: usize) -> u64 {
        match self {
            Self::Integers(values) => values.growth(more),
            Self::Floats(values) => values.growth(more),
            Self::Times(values) => values.growth(more),
            Self::Others(_) => 0,
        }
    }

    fn try_reserve(&mut self, more: usize) -> bool {
        match self {
            Self::Integers(values) => values.try_reserve(more),
            Self::Floats(values) => values.try_reserve(more),
            Self::Times(values) => values.try_reserve(more),
            Self::Others(_) => true,
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
struct PrimitiveColumn<T: ArrowPrimitiveType> {
    data_type: DataType,
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> PrimitiveColumn<T> {
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
        self.values.extend_from_slice(part.values());
        match part.nulls() {
            Some(nulls) => self.nulls.append_buffer(nulls),
            None => self.nulls.append_n_non_nulls(part.len()),
        }
        Ok(())
    }

    /// The vector doubles.
    fn growth(&self, more: usize) -> u64 {
        match self.values.capacity() - self.values.len() >= more {
            true => 0,
            false => self.values.len().max(more) as u64 * VALUE_BYTES,
        }
    }

    /// Memory is allocated only when written to.
    fn try_reserve(&mut self, more: usize) -> bool {
        if self.growth(more) == 0 {
            return true;
        }
        let has_room = self.values.try_reserve(more).is_ok();
        prefer_large_pages(self.values.spare_capacity_mut());
        has_room
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
struct ConcatenatedColumn {
    data_type: DataType,
    large: Vec<ArrayRef>,
    small: Vec<ArrayRef>,
    small_rows: usize,
}

impl ConcatenatedColumn {
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

#[cfg(test)]
mod tests {
    use arrow_array::{
        BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
    };
    use arrow_schema::Field;
    use arrow_select::concat::concat_batches;
    use proptest::prelude::*;

    use super::*;

    fn fields() -> Fields {
        Fields::intern([
            Field::new("start", DataType::Int64, false),
            Field::new("time", Fields::civil(), true),
            Field::new("mean", DataType::Float64, true),
            Field::new("on", DataType::Boolean, true),
            Field::new("name", DataType::Utf8, true),
        ])
    }

    /// Each third value of some columns is null.
    fn batch(first: i64, rows: usize, has_nulls: bool) -> RecordBatch {
        let known = |row: &i64| !(has_nulls && row % 3 == 0);
        let starts: Vec<i64> = (first..first + rows as i64).collect();
        let maybe = || starts.iter().map(|row| known(row).then_some(*row));
        let times = maybe().collect::<TimestampNanosecondArray>();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(starts.clone())),
            Arc::new(times.with_data_type(Fields::civil())),
            Arc::new(
                maybe()
                    .map(|row| row.map(|row| row as f64 / 7.0))
                    .collect::<Float64Array>(),
            ),
            Arc::new(
                maybe()
                    .map(|row| row.map(|row| row % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
            Arc::new(
                maybe()
                    .map(|row| row.map(|row| format!("row {row}")))
                    .collect::<StringArray>(),
            ),
        ];
        RecordBatch::try_new(fields().schema().clone(), columns).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn a_table_has_the_rows_of_its_batches(
            sizes in prop::collection::vec((0usize..5_000, any::<bool>()), 0..8),
            skipped in 0usize..10,
            expected in prop::option::of(0u64..1 << 40),
        ) {
            let (mut batches, mut at) = (Vec::new(), 0);
            for (rows, has_nulls) in sizes {
                // Slices do not begin where their memory does.
                let batch = batch(at, rows + skipped, has_nulls).slice(skipped, rows);
                at += (rows + skipped) as i64;
                batches.push(batch);
            }
            let mut gatherer = Gatherer::new(fields());
            if let Some(samples) = expected {
                gatherer.expect(samples);
            }
            let mut first = 0;
            for batch in &batches {
                let next = first + batch.num_rows() as i64;
                gatherer.push(&Rows::new(batch.clone(), first..next, next)).unwrap();
                first = next;
            }
            let table = gatherer.finish().unwrap();
            prop_assert_eq!(table, concat_batches(fields().schema(), &batches).unwrap());
        }
    }

    #[test]
    fn memory_is_reserved_once_the_first_rows_say_how_many_come() {
        let mut gatherer = Gatherer::new(fields());
        gatherer.expect(80 * 100_000);
        let mut push = |first: i64, rows: usize| {
            let range = first * 80..(first + rows as i64) * 80;
            let next = range.end;
            gatherer
                .push(&Rows::new(batch(first, rows, false), range, next))
                .unwrap();
            match &gatherer.columns[0] {
                GatheredColumn::Integers(starts) => starts.values.capacity(),
                other => panic!("{other:?}"),
            }
        };
        push(0, BLOCK_ROWS - 1);
        assert_eq!(push(BLOCK_ROWS as i64 - 1, 1), 100_000);
        assert_eq!(push(BLOCK_ROWS as i64, 10_000), 100_000);
    }

    #[test]
    fn a_table_that_does_not_fit_says_how_large_all_its_columns_are() {
        let mut gatherer = Gatherer::new(fields());
        let rows = batch(0, 1000, false);
        gatherer.push(&Rows::new(rows, 0..1000, 1000)).unwrap();
        // Each of three columns of 8 bytes would fit in what an address space has.
        let more = 1 << 38;
        let error = gatherer.make_room(more).unwrap_err();
        let OpErrorKind::ResultTooLarge {
            gathered,
            more: asked,
        } = error.kind()
        else {
            panic!("{error}");
        };
        assert_eq!((*gathered, *asked), (3 * 8 * 1000, (3 * 8) << 38));
        assert_eq!(error.code(), "result_too_large");
    }

    #[test]
    fn no_more_is_reserved_for_many_columns_than_for_few() {
        let names = ["a", "b", "c", "d"].map(|name| Field::new(name, DataType::Float64, false));
        let mut gatherer = Gatherer::new(Fields::intern(names));
        gatherer.reserve_expected(usize::MAX);
        let bytes: usize = (gatherer.columns.iter())
            .map(|column| match column {
                GatheredColumn::Floats(values) => values.values.capacity() * 8,
                other => panic!("{other:?}"),
            })
            .sum();
        // Nothing where memory is scarce.
        assert!(bytes == 0 || bytes as u64 == MAX_RESERVED_BYTES, "{bytes}");
    }

    #[test]
    fn rows_of_another_type_are_refused() {
        let mut gatherer = Gatherer::new(Fields::intern([Field::new("x", DataType::Int64, false)]));
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        let wrong = RecordBatch::try_from_iter([("x", floats)]).unwrap();
        let error = gatherer.push(&Rows::new(wrong, 0..1, 1)).unwrap_err();
        assert!(
            error.to_string().contains("a column of Int64 got Float64"),
            "{error}"
        );
    }
}
