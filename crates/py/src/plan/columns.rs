//! Converts tables, columns and breaks between plans and Python functions of rows.

use std::sync::Arc;

use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeListArray, PrimitiveArray, RecordBatch,
};
use arrow_schema::{DataType, Field};
use isochrony_flow::{Break, Cause, Fields, OpError, OpErrorKind, PlanError};
use isochrony_segment::{Bool8, Buffer, DType, Sample};
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::operator_error::failed;
use crate::errors::{Error, PackageError, Result};
use crate::memory::ReturnedArray;
use crate::table::NativeTable;

/// Name, dtype, and width of lists.
pub(super) type FieldDescription = (String, String, Option<usize>);

/// Kept from the input unless a function returns them.
const INDEX_FIELDS: [&str; 3] = ["start", "end", "time"];

const TIME_DTYPE: &str = "datetime64[ns]";

pub(super) fn describe_fields(fields: Fields) -> Vec<FieldDescription> {
    let fields = fields.schema().fields().iter();
    let described = fields.map(|field| {
        let dtype = |data: &DataType| match data {
            DataType::Timestamp(..) => TIME_DTYPE.to_owned(),
            other => Fields::dtype(other).map_or("object".into(), |dtype| dtype.name().into()),
        };
        let (dtype, width) = match field.data_type() {
            DataType::FixedSizeList(item, _) if item.name() == Fields::COMPLEX => {
                let single = *item.data_type() == DataType::Float32;
                let name = if single { "complex64" } else { "complex128" };
                (name.to_owned(), None)
            }
            DataType::FixedSizeList(item, width) => {
                (dtype(item.data_type()), Some(*width as usize))
            }
            other => (dtype(other), None),
        };
        (field.name().clone(), dtype, width)
    });
    described.collect()
}

pub(super) fn intern_fields(fields: &[FieldDescription]) -> Result<Fields> {
    let fields = fields.iter().map(|(name, dtype, width)| {
        let values = match &**dtype {
            TIME_DTYPE => Fields::civil(),
            other => {
                let (dtype, _) = DType::parse(other)?;
                if dtype.is_complex() {
                    let message = format!(
                        "field {name:?} is of {dtype}, which rows from Python cannot have; give its real and its imaginary \
                         part"
                    );
                    return Err(PackageError::new("PlanError", "input_type", message).into());
                }
                Fields::arrow_type(dtype)
            }
        };
        let data = match width {
            None => values,
            Some(width) => list(values, *width),
        };
        Ok(Field::new(name, data, true))
    });
    Ok(Fields::intern(fields.collect::<Result<Vec<_>>>()?))
}

fn list(values: DataType, width: usize) -> DataType {
    let item = Field::new("item", values, true);
    DataType::FixedSizeList(Arc::new(item), i32::try_from(width).unwrap_or(i32::MAX))
}

pub(super) fn fields_to_json(fields: Fields) -> Value {
    json!(describe_fields(fields))
}

pub(super) fn fields_from_json(saved: Option<&Value>) -> std::result::Result<Fields, PlanError> {
    let unreadable = |why: String| PlanError::Unreadable { why };
    let saved = saved.cloned().unwrap_or_default();
    let described: Vec<FieldDescription> =
        serde_json::from_value(saved).map_err(|why| unreadable(format!("fields: {why}")))?;
    intern_fields(&described).map_err(|error| match error {
        Error::Package(raised) => unreadable(raised.message().to_owned()),
        Error::Python(error) => unreadable(error.to_string()),
    })
}

pub(super) fn table<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyAny>> {
    let native = Bound::new(py, NativeTable::from(batch.clone()))?;
    let class = py.import("isochrony.tables.table")?.getattr("Table")?;
    class.call_method1("_of", (native,))
}

pub(super) fn break_notice<'py>(
    py: Python<'py>,
    why: &Break,
    input: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let (kind, range) = match why {
        Break::Gap(range) => ("gap", Some(range)),
        Break::Dropped(range) => ("dropped", Some(range)),
        Break::ClockStep { .. } => ("clock", None),
        Break::Rewind => ("back", None),
        _ => ("removed", None),
    };
    let (start, end) = (range.map(|range| range.start), range.map(|range| range.end));
    let class = py
        .import("isochrony.functions.operators")?
        .getattr("Break")?;
    class.call1((kind, start, end, input))
}

fn refused(message: String) -> OpError {
    OpErrorKind::Failed(Cause::from(message)).into()
}

pub(super) fn bool_per_row(
    result: Bound<'_, PyAny>,
    rows: usize,
    shown: &str,
) -> std::result::Result<Vec<bool>, OpError> {
    let returned = ReturnedArray::of(result).map_err(failed)?;
    if returned.dtype != DType::Bool || returned.rows != rows || returned.columns.is_some() {
        let message = format!(
            "{shown} returned {} values of {} for {rows} rows; return one bool per row",
            returned.rows, returned.dtype
        );
        return Err(refused(message));
    }
    let values = returned.adopt().map_err(failed)?;
    Ok(bools(&values))
}

fn bools(values: &Buffer) -> Vec<bool> {
    let flags = values.samples::<Bool8>().unwrap_or_default();
    flags.iter().map(|flag| flag.get()).collect()
}

/// Adds missing index fields of the input.
pub(super) fn batch_from_result(
    py: Python<'_>,
    result: &Bound<'_, PyAny>,
    fields: Fields,
    input: &RecordBatch,
    shown: &str,
) -> std::result::Result<RecordBatch, OpError> {
    let raised = |error: PyErr| failed(Error::Python(error));
    let columns = fields.schema().fields().iter().map(|field| {
        let name = field.name();
        let returned = result.get_item(name).ok();
        match (returned, input.column_by_name(name)) {
            (None, Some(column)) if INDEX_FIELDS.contains(&&**name) => Ok(Arc::clone(column)),
            (Some(values), _) => column(py, values, field, input.num_rows(), shown),
            (None, _) => Err(refused(format!(
                "{shown} returned no column {name:?}, which it returned in the trial call; return the same columns each time"
            ))),
        }
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    // A table's length is its number of rows.
    let names = result.call_method0("keys").map_err(raised)?;
    let count = names.try_iter().map_err(raised)?.count();
    if count > columns.len() {
        return Err(refused(format!(
            "{shown} returned {count} columns, expected {}; return the same columns each time",
            fields.names()
        )));
    }
    Ok(RecordBatch::try_new(fields.schema().clone(), columns)?)
}

/// A NumPy array as the Arrow column of `field`.
pub(super) fn column(
    py: Python<'_>,
    values: Bound<'_, PyAny>,
    field: &Field,
    rows: usize,
    shown: &str,
) -> std::result::Result<ArrayRef, OpError> {
    let raised = |error: PyErr| failed(Error::Python(error));
    let is_time = matches!(field.data_type(), DataType::Timestamp(..));
    let values = match is_time {
        false => values,
        true => (py.import("numpy"))
            .and_then(|numpy| numpy.call_method1("asarray", (values, TIME_DTYPE)))
            .and_then(|times| times.call_method1("view", ("int64",)))
            .map_err(raised)?,
    };
    let returned = ReturnedArray::of(values).map_err(failed)?;
    let (dtype, width) = (returned.dtype, returned.columns);
    let (item, wanted) = match field.data_type() {
        DataType::FixedSizeList(item, width) => (item.data_type(), Some(*width as usize)),
        other => (other, None),
    };
    if Fields::dtype(item) != Some(dtype) || returned.rows != rows || width != wanted {
        let shape = match width {
            Some(width) => format!("({}, {width})", returned.rows),
            None => format!("({},)", returned.rows),
        };
        return Err(refused(format!(
            "{shown} returned {dtype} of shape {shape} as {:?} of {rows} rows; return one value a row, always of the same \
             dtype",
            field.name()
        )));
    }
    let values = returned.adopt().map_err(failed)?;
    let values = primitive_array(dtype, &values, is_time);
    let Some(width) = width else {
        return Ok(values);
    };
    let item = Arc::new(Field::new("item", item.clone(), true));
    let lists = FixedSizeListArray::try_new(item, i32::try_from(width).unwrap_or(0), values, None)?;
    Ok(Arc::new(lists))
}

fn numbers<T: ArrowPrimitiveType>(values: &Buffer) -> PrimitiveArray<T>
where
    T::Native: Sample,
{
    let values = values.samples::<T::Native>().unwrap_or_default();
    PrimitiveArray::from_iter_values(values.iter().copied())
}

/// `is_time`: int64 values are UTC nanoseconds.
fn primitive_array(dtype: DType, values: &Buffer, is_time: bool) -> ArrayRef {
    match dtype {
        DType::Bool => Arc::new(BooleanArray::from(bools(values))),
        DType::I8 => Arc::new(numbers::<Int8Type>(values)),
        DType::I16 => Arc::new(numbers::<Int16Type>(values)),
        DType::I32 => Arc::new(numbers::<Int32Type>(values)),
        DType::I64 if is_time => {
            let times = values.samples::<i64>().unwrap_or_default().iter();
            // NumPy's NaT is null.
            let times = times.map(|&time| (time != i64::MIN).then_some(time));
            let times: arrow_array::TimestampNanosecondArray = times.collect();
            Arc::new(times.with_timezone("UTC"))
        }
        DType::I64 => Arc::new(numbers::<Int64Type>(values)),
        DType::U8 => Arc::new(numbers::<UInt8Type>(values)),
        DType::U16 => Arc::new(numbers::<UInt16Type>(values)),
        DType::U32 => Arc::new(numbers::<UInt32Type>(values)),
        DType::F32 => Arc::new(numbers::<Float32Type>(values)),
        // `intern_fields` refused complex numbers before.
        DType::F64 | DType::C64 | DType::C128 => Arc::new(numbers::<Float64Type>(values)),
    }
}
