//! Output of one buffer, and the state *write*.
//!
//! Output is staged until the buffer is executed, to keep turns short. Above the staging memory, the worker acquires
//! its turns early and holds them, so output of any size passes through bounded memory in the same order.

use std::fmt;
use std::time::{Duration, Instant};

use crate::error::{Cause, NbufError, StoppedError};
use crate::shared_outputs::OutputAccess;
use crate::staging::{StagedOutput, StagingBuffers};
use crate::turns::Turn;

/// The outputs, for a processor during one buffer.
pub struct BufferOutput<'o> {
    shared: &'o dyn OutputAccess,
    staging: &'o mut StagingBuffers,
    /// Held early, of all outputs or none.
    turns: Vec<Option<Turn<'o>>>,
    block: &'o [u8],
    position: BufferPosition,
    /// Limit and amount of staged bytes.
    limit: usize,
    used: usize,
    stopped: bool,
    pub(crate) wait_time: Duration,
    pub(crate) write_time: Duration,
}

/// A buffer's number and stream offset, for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferPosition {
    pub(crate) number: u64,
    pub(crate) offset: u64,
}

impl<'o> BufferOutput<'o> {
    pub(crate) fn new(
        shared: &'o dyn OutputAccess,
        staging: &'o mut StagingBuffers,
        block: &'o [u8],
        position: BufferPosition,
    ) -> Self {
        let limit = staging.limit();
        Self {
            shared,
            staging,
            turns: Vec::new(),
            block,
            position,
            limit,
            used: 0,
            stopped: false,
            wait_time: Duration::ZERO,
            write_time: Duration::ZERO,
        }
    }

    /// Number of outputs. Without any, writes are dropped.
    #[must_use]
    pub fn output_count(&self) -> usize {
        self.shared.count()
    }

    /// Whether so many bytes can be written without waiting.
    #[must_use]
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.shared.count() == 0
            || bytes + self.block.len() * usize::from(self.forwards_block())
                <= self.limit - self.used
    }

    /// Whether the processor was told to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The block may have to be staged first.
    fn forwards_block(&self) -> bool {
        self.staging
            .outputs
            .iter()
            .any(|staged| staged.forwards_block)
    }

    /// Appends bytes to an output.
    ///
    /// # Errors
    /// Nothing more is written. Pass it on.
    pub fn write(&mut self, output: usize, bytes: &[u8]) -> Result<(), StoppedError> {
        if !self.is_open(output)? {
            return Ok(());
        }
        if std::mem::take(&mut self.staging.outputs[output].forwards_block) {
            let forwarded_before_record = self.staging.outputs[output].record_start.0;
            self.stage(output, self.block)?;
            let staged = &mut self.staging.outputs[output];
            let length = if forwarded_before_record {
                staged.bytes.len()
            } else {
                0
            };
            staged.record_start = (false, length);
        }
        self.stage(output, bytes)
    }

    /// Begins a record, whose staged output is discarded if it fails.
    pub fn begin_record(&mut self) {
        for staged in &mut self.staging.outputs {
            staged.record_start = (staged.forwards_block, staged.bytes.len());
        }
    }

    pub(crate) fn discard_record(&mut self) {
        for staged in &mut self.staging.outputs {
            let (forwards_block, length) = staged.record_start;
            staged.forwards_block &= forwards_block;
            self.used -= staged.bytes.len().saturating_sub(length);
            staged.bytes.truncate(length);
        }
    }

    /// Appends the whole block to an output.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn forward(&mut self, output: usize) -> Result<(), StoppedError> {
        if !self.is_open(output)? {
            return Ok(());
        }
        let staged = &mut self.staging.outputs[output];
        if staged.forwards_block || !staged.bytes.is_empty() || !self.turns.is_empty() {
            return self.write(output, self.block);
        }
        staged.forwards_block = true;
        Ok(())
    }

    /// Appends the whole block to every output.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn forward_to_all(&mut self) -> Result<(), StoppedError> {
        (0..self.shared.count()).try_for_each(|output| self.forward(output))
    }

    fn is_open(&mut self, output: usize) -> Result<bool, StoppedError> {
        if self.stopped {
            return Err(StoppedError);
        }
        let outputs = self.shared.count();
        if outputs > 0 && output >= outputs {
            let why: Cause =
                format!("there is no output {output}; give 0 to {}", outputs - 1).into();
            let length = self.block.len() as u64;
            let offset = self.position.offset;
            return Err(self.fail(Some(NbufError::Process {
                offset,
                length,
                why,
            })));
        }
        Ok(outputs > 0)
    }

    fn stage(&mut self, output: usize, bytes: &[u8]) -> Result<(), StoppedError> {
        if self.limit - self.used < bytes.len() {
            self.acquire_turns()?;
            self.write_staged()?;
            if bytes.len() > self.limit {
                return self.timed(|out| out.shared.write(output, bytes));
            }
        }
        if !self.staging.reserve(output, bytes.len()) {
            // Written at once, it needs no memory.
            self.acquire_turns()?;
            self.write_staged()?;
            return self.timed(|out| out.shared.write(output, bytes));
        }
        let staged = &mut self.staging.outputs[output];
        staged.bytes.extend_from_slice(bytes);
        self.used += bytes.len();
        Ok(())
    }

    /// Acquires turns in the order of outputs, so that two workers cannot wait for each other.
    fn acquire_turns(&mut self) -> Result<(), StoppedError> {
        if !self.turns.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let mut turns = Vec::with_capacity(self.shared.count());
        for output in 0..self.shared.count() {
            match self.shared.acquire(output, self.position.number) {
                Some(turn) => turns.push(Some(turn)),
                None => {
                    self.stopped = true;
                    return Err(StoppedError);
                }
            }
        }
        self.wait_time += start.elapsed();
        self.turns = turns;
        Ok(())
    }

    fn write_staged(&mut self) -> Result<(), StoppedError> {
        for output in 0..self.staging.outputs.len() {
            self.write_staged_output(output)?;
        }
        self.used = 0;
        Ok(())
    }

    fn write_staged_output(&mut self, output: usize) -> Result<(), StoppedError> {
        self.timed(|out| {
            let staged = &mut out.staging.outputs[output];
            if std::mem::take(&mut staged.forwards_block) {
                out.shared.write(output, out.block)?;
            }
            out.shared.write(output, &staged.bytes)?;
            out.used -= staged.bytes.len();
            staged.clear();
            Ok(())
        })
    }

    fn timed(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), Option<NbufError>>,
    ) -> Result<(), StoppedError> {
        let start = Instant::now();
        let written = write(self);
        self.write_time += start.elapsed();
        written.map_err(|error| self.fail(error))
    }

    fn fail(&mut self, error: Option<NbufError>) -> StoppedError {
        self.stopped = true;
        if let Some(error) = error {
            self.shared.fail(self.position.number, error);
        }
        StoppedError
    }

    /// Passes on turns drawn on arrival: a worker that holds one must not wait in stream order.
    pub(crate) fn release_unordered_turns(&mut self) -> Result<(), StoppedError> {
        if self.stopped {
            return Err(StoppedError);
        }
        if !self.turns.is_empty() && !self.shared.is_in_order() {
            self.write_staged()?;
            self.turns.clear();
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, trailing: [&[u8]; 2]) -> Result<(), StoppedError> {
        for output in 0..self.shared.count() {
            let trailing = if output == 0 { trailing } else { [&[][..]; 2] };
            let staged = &self.staging.outputs[output];
            let is_empty = !staged.forwards_block
                && staged.bytes.is_empty()
                && trailing.iter().all(|bytes| bytes.is_empty());
            if is_empty && !self.shared.is_in_order() {
                continue;
            }
            let held = self.turns.get_mut(output).and_then(Option::take);
            let turn = match held {
                Some(turn) => Some(turn),
                None => {
                    let start = Instant::now();
                    let turn = self.shared.acquire(output, self.position.number);
                    self.wait_time += start.elapsed();
                    turn
                }
            };
            let Some(_turn) = turn else {
                self.stopped = true;
                return Err(StoppedError);
            };
            self.write_staged_output(output)?;
            self.timed(|out| {
                let mut trailing = trailing.iter();
                trailing.try_for_each(|bytes| out.shared.write(output, bytes))
            })?;
        }
        Ok(())
    }
}

impl Drop for BufferOutput<'_> {
    /// The rest of this buffer must not be written with the next.
    fn drop(&mut self) {
        (self.staging.outputs.iter_mut()).for_each(StagedOutput::clear);
    }
}

impl fmt::Debug for BufferOutput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferOutput")
            .field("outputs", &self.output_count())
            .field("buffer", &self.position.number)
            .finish_non_exhaustive()
    }
}
