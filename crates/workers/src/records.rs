//! Calls of a function with records of a byte stream.
//!
//! Records lie in shared memory; results, of unknown size, in the message.

use crate::connection::Connection;
use crate::error::{ProcessError, RemoteException};
use crate::wire::{InterruptCheck, Request, Response};

/// Records, each given to the function separately.
#[derive(Debug, Clone, Copy)]
pub struct RecordCall<'a> {
    /// Concatenated records.
    pub bytes: &'a [u8],
    /// Bytes of each.
    pub lengths: &'a [u64],
    /// Outputs for which the function may return bytes.
    pub outputs: usize,
}

/// Results of a function of records.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordResult {
    /// Returned pieces, in record order.
    pub pieces: Vec<RecordPiece>,
    /// Concatenated bytes of pieces that are not the record.
    pub bytes: Vec<u8>,
    /// Pickled accumulator, if any.
    pub accumulator: Option<Vec<u8>>,
    /// Why the record after [`completed`](Self::completed) ones failed.
    pub failure: Option<RemoteException>,
    /// Records for which the function has returned.
    pub completed: u64,
}

/// Bytes for one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPiece {
    /// Number of its record.
    pub record: u64,
    /// Output.
    pub output: u64,
    /// Length; None: the record itself.
    pub length: Option<u64>,
}

impl RecordCall<'_> {
    pub(crate) fn call(
        &self,
        connection: &mut Connection,
        function: u64,
        check: InterruptCheck<'_>,
    ) -> Result<Result<RecordResult, RemoteException>, ProcessError> {
        let lengths_at = (self.bytes.len() as u64).next_multiple_of(size_of::<u64>() as u64);
        let lengths: Vec<u8> = (self.lengths.iter())
            .flat_map(|length| length.to_ne_bytes())
            .collect();
        let memory = connection.reserve(lengths_at + lengths.len() as u64)?;
        memory.write(self.bytes, 0)?;
        memory.write(&lengths, lengths_at)?;
        // The layout is `RECORDS_CALL` in `workers/process.py`.
        let numbers = [
            function,
            memory.size(),
            self.bytes.len() as u64,
            lengths_at,
            self.lengths.len() as u64,
            self.outputs as u64,
        ];
        let message: Vec<u8> = numbers.into_iter().flat_map(u64::to_ne_bytes).collect();
        let answer = connection.ask(Request::CallRecords, &[&message], check)?;
        let (keeps_memory, answer) = match answer {
            Response::Raised {
                keeps_memory,
                exception,
            } => (keeps_memory, Err(exception)),
            Response::RecordsDone {
                keeps_memory,
                result,
            } => (keeps_memory, Ok(result)),
            _ => return Err(ProcessError::unexpected_response()),
        };
        if keeps_memory {
            connection.abandon_memory();
        }
        if let Ok(result) = &answer {
            self.check(result)?;
        }
        Ok(answer)
    }

    /// The pieces must be of the records and within the bytes.
    fn check(&self, result: &RecordResult) -> Result<(), ProcessError> {
        let mut bytes = 0_u64;
        let mut last = 0;
        for piece in &result.pieces {
            bytes = bytes.saturating_add(piece.length.unwrap_or(0));
            let is_valid = piece.record >= last
                && piece.record < result.completed
                && piece.output < self.outputs as u64;
            if !is_valid {
                return Err(ProcessError::invalid_message());
            }
            last = piece.record;
        }
        let ended = result.failure.is_some() || result.completed == self.lengths.len() as u64;
        if bytes != result.bytes.len() as u64
            || !ended
            || result.completed > self.lengths.len() as u64
        {
            return Err(ProcessError::invalid_message());
        }
        Ok(())
    }
}
