//! Calls a function with a block in a worker process; checks and converts what functions return.

use isochrony_flow::{OpError, OpErrorKind, Out};
use isochrony_segment::{Buffer, DType};
use isochrony_workers::{BlockCall, BlockResult, RemoteFunction};

use super::declaration::{FunctionRole, PythonOperator};
use crate::memory::{Block, ReturnedArray};
use crate::plan::operator_error::{failed, refused};
use crate::workers::operator_error;

#[derive(Clone, Copy)]
pub(super) struct ReturnType {
    pub(super) dtype: DType,
    pub(super) rows: usize,
    /// Values per row of a 2-D result; 1 also allows a 1-D result. None: the result must be 1-D.
    pub(super) columns: Option<usize>,
    /// If the block is a short last window: its length, and that of a whole window.
    pub(super) short: Option<(usize, usize)>,
}

pub(super) fn call_in_worker_process(
    of: &PythonOperator,
    remote: &RemoteFunction,
    block: &Block<'_>,
    wanted: ReturnType,
    out: &mut Out<'_>,
) -> Result<Buffer, OpError> {
    let values = block.rows.saturating_sub(1) * block.stride + block.columns.unwrap_or(1);
    let bytes = if block.rows == 0 {
        0
    } else {
        values * block.dtype.size()
    };
    let Some(input) = block.buffer.bytes().get(..bytes) else {
        let message = format!(
            "{}: the block has {} bytes, but {} rows of {} values need {bytes}; report this as a bug of Isochrony",
            of.function.shown,
            block.buffer.bytes().len(),
            block.rows,
            block.columns.unwrap_or(1),
        );
        return Err(refused(message));
    };
    let call = BlockCall {
        input,
        dtype: block.dtype,
        rows: block.rows,
        columns: block.columns,
        stride: block.stride,
        result_dtype: wanted.dtype,
        result_columns: wanted.columns,
    };
    let mut result = out.alloc(wanted.dtype, wanted.rows * wanted.columns.unwrap_or(1))?;
    let answer = remote.call_block(&call, result.bytes_mut());
    match answer.map_err(operator_error)? {
        BlockResult::Copied => Ok(out.seal(result)),
        BlockResult::UnexpectedResult { dtype, shape } => {
            let got = ReturnedArray::dtype_named(&dtype).map_err(failed)?;
            let (rows, columns) = ReturnedArray::shape(&shape).map_err(failed)?;
            check(of, got, rows, columns, wanted)?;
            let message = format!("{} returned {dtype} of another shape", of.function.shown);
            Err(refused(message))
        }
    }
}

/// Takes the returned array as a buffer: as a part of the input's memory, as a copy if short, else without a copy.
pub(super) fn into_buffer(
    returned: ReturnedArray<'_>,
    memory: &Buffer,
    out: &mut Out<'_>,
) -> Result<Buffer, OpError> {
    if let Some(part) = returned.part_of(memory) {
        return Ok(part);
    }
    if let Some(short) = returned.short_bytes() {
        let mut block = out.alloc(DType::U8, short.len())?;
        block.bytes_mut().copy_from_slice(short);
        return Ok(out.seal(block));
    }
    returned.adopt().map_err(failed)
}

pub(super) fn check(
    of: &PythonOperator,
    got: DType,
    got_rows: usize,
    got_columns: Option<usize>,
    wanted: ReturnType,
) -> Result<(), OpError> {
    let ReturnType {
        dtype,
        rows,
        columns,
        short,
    } = wanted;
    let flat = got_columns.is_none() && columns == Some(1);
    if got == dtype && got_rows == rows && (flat || got_columns == columns) {
        return Ok(());
    }
    if let (Some((got, width)), FunctionRole::Map(..)) = (short, of.role)
        && got_rows == rows
    {
        return Err(OpErrorKind::ShortWindow { got, width }.into());
    }
    let shape = |rows: usize, columns: Option<usize>| match columns {
        Some(columns) => format!("({rows}, {columns})"),
        None => format!("({rows},)"),
    };
    let either = if columns == Some(1) {
        format!("{} or ", shape(rows, None))
    } else {
        String::new()
    };
    let message = format!(
        "{} returned {} of shape {} for {rows} rows, where {dtype} of shape {either}{} was expected; {}",
        of.function.shown,
        got,
        shape(got_rows, got_columns),
        shape(rows, columns),
        if of.role == FunctionRole::Filter {
            "return one bool per window"
        } else if got_rows != rows {
            "return one result per row"
        } else {
            "return that, or state what it returns: isochrony.py(function, dtype=..., width=...)"
        }
    );
    Err(refused(message))
}
