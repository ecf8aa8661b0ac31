//! Calls of a function with a block of windows or samples.

use isochrony_segment::DType;

use crate::connection::Connection;
use crate::error::{ProcessError, RemoteException};
use crate::wire::{InterruptCheck, Request, Response};

const PAGE: u64 = 4096;
const DTYPE_LEN: usize = 16;

/// A block, and the expected result.
#[derive(Debug, Clone, Copy)]
pub struct BlockCall<'a> {
    /// The values.
    pub input: &'a [u8],
    /// Their type.
    pub dtype: DType,
    /// Rows, also of the result.
    pub rows: usize,
    /// Values per row; None: single values.
    pub columns: Option<usize>,
    /// Values between row starts.
    pub stride: usize,
    /// Dtype that the result must have.
    pub result_dtype: DType,
    /// Values per result row; None: single values.
    pub result_columns: Option<usize>,
}

/// Result of a function for a block.
#[allow(missing_docs)] // The variant documents its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockResult {
    /// As expected, copied to the caller's buffer.
    Copied,
    /// Unexpected type or shape.
    UnexpectedResult { dtype: String, shape: Vec<usize> },
}

impl BlockCall<'_> {
    pub(crate) fn call(
        &self,
        connection: &mut Connection,
        function: u64,
        out: &mut [u8],
        check: InterruptCheck<'_>,
    ) -> Result<Result<BlockResult, RemoteException>, ProcessError> {
        let result_at = (self.input.len() as u64).next_multiple_of(PAGE);
        let memory = connection.reserve(result_at + out.len() as u64)?;
        memory.write(self.input, 0)?;
        let message = self.encode(function, result_at, memory.size());
        let (keeps_memory, answer) = match connection.ask(Request::CallBlock, &[&message], check)? {
            Response::UnexpectedResult { dtype, shape } => {
                (false, Ok(BlockResult::UnexpectedResult { dtype, shape }))
            }
            Response::Raised {
                keeps_memory,
                exception,
            } => (keeps_memory, Err(exception)),
            Response::BlockDone { keeps_memory } => {
                connection.read(out, result_at)?;
                (keeps_memory, Ok(BlockResult::Copied))
            }
            _ => return Err(ProcessError::unexpected_response()),
        };
        if keeps_memory {
            connection.abandon_memory();
        }
        Ok(answer)
    }

    /// The layout is `BLOCK_CALL` in `workers/process.py`.
    fn encode(&self, function: u64, result_at: u64, memory_size: u64) -> Vec<u8> {
        let columns = |columns: Option<usize>| columns.map_or(-1, |columns| columns as i64);
        let mut bytes = Vec::with_capacity(7 * 8 + 2 * DTYPE_LEN);
        bytes.extend(function.to_ne_bytes());
        bytes.extend((self.rows as u64).to_ne_bytes());
        bytes.extend(columns(self.columns).to_ne_bytes());
        bytes.extend((self.stride as u64).to_ne_bytes());
        bytes.extend(result_at.to_ne_bytes());
        bytes.extend(memory_size.to_ne_bytes());
        bytes.extend(columns(self.result_columns).to_ne_bytes());
        for dtype in [self.dtype, self.result_dtype] {
            let mut name = [0; DTYPE_LEN];
            let text = dtype.name().as_bytes();
            let len = text.len().min(name.len());
            name[..len].copy_from_slice(&text[..len]);
            bytes.extend(name);
        }
        bytes
    }
}
