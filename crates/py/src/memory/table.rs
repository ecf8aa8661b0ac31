//! Columns of Arrow tables as NumPy arrays, and whole tables by Arrow's stream interface.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Schema};
use isochrony_flow::Fields;
use isochrony_segment::{Buffer, BufferMut, DType, Owner};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::array::{own, view};
use crate::errors::{Error, PackageError, Result};

struct ArrowOwner {
    _buffer: arrow_buffer::Buffer,
}

impl Owner for ArrowOwner {}

fn shared(buffer: arrow_buffer::Buffer) -> Result<Buffer> {
    let len = buffer.len();
    let Some(data) = NonNull::new(buffer.as_ptr().cast_mut()).filter(|_| len > 0) else {
        return Ok(Buffer::concat([])?);
    };
    let owner = Arc::new(ArrowOwner { _buffer: buffer });
    // SAFETY: `data` and `len` are the Arrow buffer's own, whose memory neither moves nor changes while `owner` holds a
    // reference.
    Ok(unsafe { Buffer::from_owner(owner, data, len) })
}

fn arrow_error(error: &ArrowError) -> Error {
    PackageError::new(
        "PlanError",
        "arrow",
        format!("the table cannot be exported: {error}"),
    )
    .into()
}

fn numbers(column: &dyn Array, dtype: DType) -> Result<Buffer> {
    let data = column.to_data();
    let size = dtype.size();
    let Some(values) = data.buffers().first() else {
        return Ok(Buffer::concat([])?);
    };
    shared(values.slice_with_length(data.offset() * size, data.len() * size))
}

/// A column without a copy, except bools, which become bytes; lists become matrix rows. Missing times are NaT, other
/// missing numbers NaN.
pub(crate) fn column<'py>(py: Python<'py>, column: &dyn Array) -> Result<Bound<'py, PyAny>> {
    let nulls = column
        .logical_nulls()
        .filter(|nulls| nulls.null_count() > 0);
    match column.data_type() {
        DataType::Boolean => {
            let mut bytes = BufferMut::zeroed(column.len())?;
            let bools = column.as_boolean().values();
            for (byte, bit) in bytes.bytes_mut().iter_mut().zip(bools) {
                *byte = u8::from(bit);
            }
            let bools = own(py, bytes, DType::Bool, None)?;
            match nulls {
                None => Ok(bools),
                Some(nulls) => or_nan(py, &nulls, bools, &[column.len()]),
            }
        }
        DataType::Timestamp(..) => {
            let mut ns = view(py, numbers(column, DType::I64)?, DType::I64)?;
            if let Some(nulls) = nulls {
                let known = array_of(py, nulls.iter().map(u8::from))?;
                let numpy = py.import("numpy")?;
                ns = numpy.call_method1("where", (known, ns, i64::MIN))?;
            }
            Ok(ns.call_method1("view", ("datetime64[ns]",))?)
        }
        DataType::FixedSizeList(item, width) => {
            let list = column.as_fixed_size_list();
            let rows = column.len();
            let values = list.values().slice(0, rows * *width as usize);
            let flat = self::column(py, values.as_ref())?;
            let (values, shape) = match Fields::dtype(item.data_type()) {
                Some(part) if item.name() == Fields::COMPLEX => {
                    let complex = if part == DType::F32 { "c8" } else { "c16" };
                    (flat.call_method1("view", (complex,))?, vec![rows])
                }
                _ => (flat.call_method1("reshape", (rows, *width))?, vec![rows, 1]),
            };
            match nulls {
                None => Ok(values),
                Some(nulls) => or_nan(py, &nulls, values, &shape),
            }
        }
        other => {
            let Some(dtype) = Fields::dtype(other) else {
                let message = format!("a column of {other} has no NumPy array; convert the table");
                return Err(PackageError::new("PlanError", "arrow", message).into());
            };
            let values = view(py, numbers(column, dtype)?, dtype)?;
            match nulls {
                None => Ok(values),
                Some(nulls) => or_nan(py, &nulls, values, &[column.len()]),
            }
        }
    }
}

/// NaN for nulls. `shape`: from flags to `values`.
fn or_nan<'py>(
    py: Python<'py>,
    nulls: &NullBuffer,
    values: Bound<'py, PyAny>,
    shape: &[usize],
) -> Result<Bound<'py, PyAny>> {
    let known = array_of(py, nulls.iter().map(u8::from))?;
    let known = known.call_method1("reshape", (shape.to_vec(),))?;
    let numpy = py.import("numpy")?;
    Ok(numpy.call_method1("where", (known, values, f64::NAN))?)
}

fn array_of<'py>(
    py: Python<'py>,
    flags: impl ExactSizeIterator<Item = u8>,
) -> Result<Bound<'py, PyAny>> {
    let mut bytes = BufferMut::zeroed(flags.len())?;
    for (byte, flag) in bytes.bytes_mut().iter_mut().zip(flags) {
        *byte = flag;
    }
    Ok(own(py, bytes, DType::Bool, None)?)
}

pub(crate) fn schema_capsule<'py>(
    py: Python<'py>,
    schema: &Schema,
) -> Result<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| arrow_error(&error))?;
    Ok(PyCapsule::new_with_value(py, schema, c"arrow_schema")?)
}

pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
) -> Result<Bound<'py, PyCapsule>> {
    let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    let stream = FFI_ArrowArrayStream::new(Box::new(reader));
    Ok(PyCapsule::new_with_value(
        py,
        stream,
        c"arrow_array_stream",
    )?)
}
