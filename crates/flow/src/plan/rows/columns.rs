//! Arrow columns to and from raw bytes for expressions.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeListArray, PrimitiveArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field};
use isochrony_expr::{Expr, RowField, RowProgram};
use isochrony_segment::DType;

use super::Fields;
use crate::{OpError, OpErrorKind, PlanError};

/// From native byte order, bools in a byte.
pub(crate) fn column_from_bytes(
    dtype: DType,
    values: MutableBuffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    fn numbers<T: ArrowPrimitiveType>(
        values: MutableBuffer,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let count = values.len() / size_of::<T::Native>();
        let values = ScalarBuffer::new(values.into(), 0, count);
        Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?))
    }
    let parts = |part: DType, values: MutableBuffer| {
        let DataType::FixedSizeList(item, width) = Fields::arrow_type(dtype) else {
            return Err(ArrowError::SchemaError(
                "a complex number is stored as a list of two parts".into(),
            ));
        };
        let values = column_from_bytes(part, values, None)?;
        let list = FixedSizeListArray::try_new(item, width, values, nulls.clone())?;
        Ok(Arc::new(list) as ArrayRef)
    };
    match dtype {
        DType::Bool => {
            let bits = BooleanBuffer::from_iter(values.as_slice().iter().map(|&byte| byte != 0));
            Ok(Arc::new(BooleanArray::new(bits, nulls)))
        }
        DType::I8 => numbers::<Int8Type>(values, nulls),
        DType::I16 => numbers::<Int16Type>(values, nulls),
        DType::I32 => numbers::<Int32Type>(values, nulls),
        DType::I64 => numbers::<Int64Type>(values, nulls),
        DType::U8 => numbers::<UInt8Type>(values, nulls),
        DType::U16 => numbers::<UInt16Type>(values, nulls),
        DType::U32 => numbers::<UInt32Type>(values, nulls),
        DType::F32 => numbers::<Float32Type>(values, nulls),
        DType::F64 => numbers::<Float64Type>(values, nulls),
        DType::C64 => parts(DType::F32, values),
        DType::C128 => parts(DType::F64, values),
    }
}

/// A column of samples, in native byte order.
///
/// # Errors
/// Bytes of no whole number of samples.
pub fn samples_column(dtype: DType, samples: &[u8]) -> Result<ArrayRef, OpError> {
    if !samples.len().is_multiple_of(dtype.size()) {
        let message = format!("{} bytes are no whole number of {dtype}", samples.len());
        return Err(OpErrorKind::from(ArrowError::InvalidArgumentError(message)).into());
    }
    let mut values = MutableBuffer::with_capacity(samples.len());
    values.extend_from_slice(samples);
    Ok(column_from_bytes(dtype, values, None).map_err(OpErrorKind::from)?)
}

pub(crate) fn list_column(
    dtype: DType,
    width: i32,
    values: MutableBuffer,
) -> Result<ArrayRef, ArrowError> {
    let values = column_from_bytes(dtype, values, None)?;
    let item = Arc::new(Field::new("item", values.data_type().clone(), false));
    Ok(Arc::new(FixedSizeListArray::try_new(
        item, width, values, None,
    )?))
}

/// Copies only bools, to a byte each.
pub(crate) fn column_bytes(column: &dyn Array) -> Cow<'_, [u8]> {
    fn numbers<T: ArrowPrimitiveType>(column: &dyn Array) -> Cow<'_, [u8]> {
        let values = column.as_primitive::<T>().values().inner();
        Cow::Borrowed(values.as_slice())
    }
    match column.data_type() {
        DataType::Boolean => {
            Cow::Owned(column.as_boolean().values().iter().map(u8::from).collect())
        }
        DataType::Int8 => numbers::<Int8Type>(column),
        DataType::Int16 => numbers::<Int16Type>(column),
        DataType::Int32 => numbers::<Int32Type>(column),
        DataType::Int64 => numbers::<Int64Type>(column),
        DataType::Timestamp(..) => numbers::<arrow_array::types::TimestampNanosecondType>(column),
        DataType::UInt8 => numbers::<UInt8Type>(column),
        DataType::UInt16 => numbers::<UInt16Type>(column),
        DataType::UInt32 => numbers::<UInt32Type>(column),
        DataType::Float32 => numbers::<Float32Type>(column),
        DataType::Float64 => numbers::<Float64Type>(column),
        _ => Cow::Borrowed(&[]),
    }
}

pub(crate) struct RowExpression(RowProgram);

impl RowExpression {
    pub(crate) fn bind(
        operator: &'static str,
        expr: &Expr,
        fields: Fields,
    ) -> Result<Self, PlanError> {
        let known: Vec<RowField> = fields
            .schema()
            .fields()
            .iter()
            .map(|field| RowField {
                name: field.name().clone(),
                dtype: Fields::dtype(field.data_type()),
            })
            .collect();
        let program = RowProgram::compile(expr, &known);
        let program = program.map_err(|error| PlanError::Expression { operator, error })?;
        Ok(Self(program))
    }

    pub(crate) fn output(&self) -> DType {
        self.0.output()
    }

    /// Also gives the null mask: a row is null if a field that the expression reads is.
    pub(crate) fn run(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<(MutableBuffer, Option<NullBuffer>), OpError> {
        let columns: Vec<&ArrayRef> = self
            .0
            .columns()
            .iter()
            .map(|&at| batch.column(at))
            .collect();
        let bytes: Vec<Cow<'_, [u8]>> = columns
            .iter()
            .map(|column| column_bytes(column.as_ref()))
            .collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(AsRef::as_ref).collect();
        let nulls = columns.iter().fold(None, |nulls, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        });
        let rows = batch.num_rows();
        let mut out = MutableBuffer::from_len_zeroed(rows * self.output().size());
        self.0
            .run(&bytes, rows, out.as_slice_mut())
            .map_err(OpErrorKind::from)?;
        Ok((out, nulls))
    }

    pub(crate) fn column(&mut self, batch: &RecordBatch) -> Result<ArrayRef, OpError> {
        let (out, nulls) = self.run(batch)?;
        Ok(column_from_bytes(self.output(), out, nulls).map_err(OpErrorKind::from)?)
    }
}
