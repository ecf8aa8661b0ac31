//! Calls of a function with records of a byte stream.
//!
//! Records lie in shared memory. What the function returns comes back in the message: its size is not known before.

use crate::connection::Connection;
use crate::error::{ProcessError, RemoteException};
use crate::wire::{InterruptCheck, Request, Response};

/// Records, each given to the function by itself.
#[derive(Debug, Clone, Copy)]
pub struct RecordCall<'a> {
    /// The records, one after another.
    pub bytes: &'a [u8],
    /// Bytes of each.
    pub lengths: &'a [u64],
    /// Outputs for which the function may return bytes.
    pub outputs: usize,
}

/// What a function returned for records.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordResult {
    /// What it returned, in the order of records.
    pub pieces: Vec<RecordPiece>,
    /// The bytes of the pieces, one after another; without those that are records.
    pub bytes: Vec<u8>,
    /// The accumulator, pickled; None without.
    pub accumulator: Option<Vec<u8>>,
    /// Why the record after [`completed`](Self::completed) ones failed.
    pub failure: Option<RemoteException>,
    /// Records for which the function has returned.
    pub completed: u64,
}

/// Bytes for one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPiece {
    /// Number of the record for which they were returned.
    pub record: u64,
    /// The output.
    pub output: u64,
    /// Number of bytes; None: they are the record.
    pub length: Option<u64>,
}

impl RecordCall<'_> {
    pub(crate) fn send(
        &self,
        connection: &mut Connection,
        function: u64,
        check: InterruptCheck<'_>,
    ) -> Result<Result<RecordResult, RemoteException>, ProcessError> {
        let lengths_at = (self.bytes.len() as u64).next_multiple_of(size_of::<u64>() as u64);
        let lengths: Vec<u8> = (self.lengths.iter())
            .flat_map(|length| length.to_ne_bytes())
            .collect();
        // An empty file cannot be mapped.
        let size = (lengths_at + lengths.len() as u64).max(1);
        let memory = connection.reserve(size)?;
        memory.write(self.bytes, 0)?;
        memory.write(&lengths, lengths_at)?;
        // The layout is `RECORDS_CALL` in `_worker.py`.
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
            // It has no memory.
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

    /// Checks that the pieces are of the records and within the bytes.
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
