//! Arguments of a tasklet's function: inputs, memory for outputs, written samples.

use std::sync::Arc;

use isochrony_runtime::Interrupt;
use isochrony_segment::{Buffer, DType, Sample};
use isochrony_store::{Lease, Selection};

use crate::block_pool::BlockPool;
use crate::error::{Cause, TaskletError};
use crate::signal_range::SignalRange;

/// Samples written by a function.
pub type OutputBytes = Box<dyn AsRef<[u8]> + Send>;

/// Samples that become visible when the function succeeds.
pub(crate) enum StagedBytes {
    Bytes(OutputBytes),
    /// From the block pool; true: a whole block.
    Block(Buffer, bool),
}

impl StagedBytes {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => (**bytes).as_ref(),
            Self::Block(block, _) => block.bytes(),
        }
    }
}

/// Arguments of a tasklet's function.
pub struct TaskletContext<'a> {
    name: &'a str,
    inputs: &'a [SignalRange],
    outputs: &'a [SignalRange],
    worker: usize,
    interrupt: &'a Interrupt,
    pool: &'a Arc<BlockPool>,
    is_journaled: bool,
    /// Offset and samples, by output.
    pub(crate) staged: Vec<Vec<(i64, StagedBytes)>>,
    /// Scratch inputs may be read until it ends.
    scratch_lease: Option<LeaseGuard>,
}

struct LeaseGuard(Arc<Lease>);

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<'a> TaskletContext<'a> {
    pub(crate) fn new(
        name: &'a str,
        (inputs, outputs): (&'a [SignalRange], &'a [SignalRange]),
        worker: usize,
        interrupt: &'a Interrupt,
        pool: &'a Arc<BlockPool>,
        is_journaled: bool,
    ) -> Self {
        let reads_scratch = inputs.iter().any(SignalRange::is_scratch);
        Self {
            name,
            inputs,
            outputs,
            worker,
            interrupt,
            pool,
            is_journaled,
            staged: outputs.iter().map(|_| Vec::new()).collect(),
            scratch_lease: reads_scratch.then(|| LeaseGuard(Lease::new(name))),
        }
    }

    /// The tasklet's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// Number of inputs.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Whether a journal keeps the return value.
    #[must_use]
    pub fn is_journaled(&self) -> bool {
        self.is_journaled
    }

    /// Worker number.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Requested when the execution should end; a long function should then return any error.
    #[must_use]
    pub fn interrupt(&self) -> &Interrupt {
        self.interrupt
    }

    /// The samples of an input. Scratch can be read only until the function returns.
    ///
    /// # Errors
    /// No such input; or as [`Signal::select`](isochrony_store::Signal::select).
    pub fn input(&self, input: usize) -> Result<Selection, Cause> {
        let range = self.inputs.get(input);
        let range = range.ok_or_else(|| format!("there is no input {input}"))?;
        let mut signal = range.signal()?;
        if let Some(LeaseGuard(lease)) = &self.scratch_lease
            && range.is_scratch()
        {
            signal = signal.leased(lease);
        }
        Ok(signal.select(range.range.clone())?)
    }

    fn output_range(&self, output: usize) -> Result<&SignalRange, Cause> {
        let range = self.outputs.get(output);
        Ok(range.ok_or_else(|| format!("there is no output {output}"))?)
    }

    /// Number and type of samples of an output.
    ///
    /// # Errors
    /// No such output, or its signal was removed.
    pub fn output(&self, output: usize) -> Result<(i64, DType), Cause> {
        let range = self.output_range(output)?;
        Ok((range.len(), range.dtype()?))
    }

    /// Name of an output's signal.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn output_name(&self, output: usize) -> Result<String, Cause> {
        let range = self.output_range(output)?;
        Ok(range.cached_signal()?.name().to_owned())
    }

    /// Writes samples at `offset` from the output's start. All outputs become visible at once, if the function
    /// succeeds.
    ///
    /// # Errors
    /// [`TaskletError::WrongOutput`]: wrong type, or samples outside the output.
    pub fn write<T: Sample>(
        &mut self,
        output: usize,
        offset: i64,
        samples: &[T],
    ) -> Result<(), Cause> {
        let (_, dtype) = self.output(output)?;
        if dtype != T::DTYPE {
            return Err(self.wrong_output(
                output,
                format!("{} samples", T::DTYPE),
                format!("of {dtype} samples"),
            ));
        }
        let bytes: &[u8] = bytemuck::cast_slice(samples);
        self.write_bytes(output, offset, Box::new(bytes.to_vec()))
    }

    /// Like [`write`](Self::write), with bytes in native byte order and no copy.
    pub fn write_bytes(
        &mut self,
        output: usize,
        offset: i64,
        bytes: OutputBytes,
    ) -> Result<(), Cause> {
        self.stage(output, offset, StagedBytes::Bytes(bytes))
    }

    /// Like [`write_bytes`](Self::write_bytes), with a block of the [`pool`](Self::pool), or a part (`whole` is false).
    /// Scratch in memory keeps it; otherwise a whole block returns to the pool.
    pub fn write_block(
        &mut self,
        output: usize,
        offset: i64,
        block: Buffer,
        whole: bool,
    ) -> Result<(), Cause> {
        self.stage(output, offset, StagedBytes::Block(block, whole))
    }

    /// Block pool for output.
    #[must_use]
    pub fn pool(&self) -> &Arc<BlockPool> {
        self.pool
    }

    fn stage(&mut self, output: usize, offset: i64, bytes: StagedBytes) -> Result<(), Cause> {
        let (len, dtype) = self.output(output)?;
        let got = bytes.bytes().len();
        let samples = (got / dtype.size()).cast_signed() as i64;
        let is_whole = got.is_multiple_of(dtype.size());
        if !is_whole || offset < 0 || offset.checked_add(samples).is_none_or(|end| end > len) {
            let got = format!("{got} bytes at sample {offset}");
            return Err(self.wrong_output(
                output,
                got,
                format!("{len} samples of {} bytes", dtype.size()),
            ));
        }
        if samples > 0 {
            self.staged[output].push((offset, bytes));
        }
        Ok(())
    }

    fn wrong_output(&self, output: usize, got: String, expected: String) -> Cause {
        TaskletError::WrongOutput {
            name: self.name.to_owned(),
            output,
            got,
            expected,
        }
        .into()
    }
}
