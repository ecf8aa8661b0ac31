//! What a tasklet's function works with: its inputs, memory for its outputs, what it stages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use isochrony_segment::{Buffer, DType, Sample};
use isochrony_store::{Lease, Selection};

use crate::error::{Cause, TaskletError};
use crate::pool::Pool;
use crate::tasklet::{Part, Tasklet};

/// Bytes that wait to become samples.
pub type Bytes = Box<dyn AsRef<[u8]> + Send>;

/// What waits to become samples of an output.
pub(crate) enum Staged {
    Bytes(Bytes),
    /// Of the run's pool; whether it is all of a block.
    Block(Buffer, bool),
}

impl Staged {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => (**bytes).as_ref(),
            Self::Block(block, _) => block.bytes(),
        }
    }
}

/// What a tasklet's function works with.
pub struct Context<'a> {
    tasklet: &'a Tasklet,
    worker: usize,
    stop: &'a Arc<AtomicBool>,
    pool: &'a Arc<Pool>,
    pub(crate) journaled: bool,
    pub(crate) staged: Vec<Vec<(i64, Staged)>>,
    /// For how long inputs that are scratch may be read.
    lease: Option<Leased>,
}

/// Ends when the function has, be it by a panic.
struct Leased(Arc<Lease>);

impl Drop for Leased {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        tasklet: &'a Tasklet,
        worker: usize,
        stop: &'a Arc<AtomicBool>,
        pool: &'a Arc<Pool>,
    ) -> Self {
        let staged = tasklet.outputs.iter().map(|_| Vec::new()).collect();
        let has_scratch = tasklet.inputs.iter().any(Part::is_scratch);
        Self {
            tasklet,
            worker,
            stop,
            pool,
            journaled: false,
            staged,
            lease: has_scratch.then(|| Leased(Lease::new(tasklet.name.as_str()))),
        }
    }

    /// The tasklet's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.tasklet.name
    }

    /// How many inputs it has.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.tasklet.inputs.len()
    }

    /// How many outputs it has.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.tasklet.outputs.len()
    }

    /// Whether a journal keeps what it returns.
    #[must_use]
    pub fn is_journaled(&self) -> bool {
        self.journaled
    }

    /// Which worker runs it.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// True once the run should end: long work should then end with any error.
    #[must_use]
    pub fn stop(&self) -> &Arc<AtomicBool> {
        self.stop
    }

    /// Whether the run should end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The samples of an input. What is read of them lasts as long as somebody refers to it; but scratch can be read by the
    /// tasklet's function only, and not when that has returned.
    ///
    /// # Errors
    /// There is no such input; or as [`Signal::select`].
    pub fn input(&self, input: usize) -> Result<Selection, Cause> {
        let part = self.tasklet.inputs.get(input);
        let part = part.ok_or_else(|| format!("there is no input {input}"))?;
        let mut signal = part.signal()?;
        if let Some(Leased(lease)) = &self.lease
            && part.is_scratch()
        {
            signal = signal.leased(lease);
        }
        Ok(signal.select(part.range.clone())?)
    }

    /// Number of samples of an output, and their type.
    ///
    /// # Errors
    /// There is no such output; or its signal was removed.
    pub fn output(&self, output: usize) -> Result<(i64, DType), Cause> {
        let part = self.tasklet.outputs.get(output);
        let part = part.ok_or_else(|| format!("there is no output {output}"))?;
        Ok((part.len(), part.dtype()?))
    }

    /// Name of the signal that an output is a range of.
    ///
    /// # Errors
    /// There is no such output; or its signal was removed.
    pub fn output_name(&self, output: usize) -> Result<String, Cause> {
        let part = self.tasklet.outputs.get(output);
        let part = part.ok_or_else(|| format!("there is no output {output}"))?;
        Ok(part.as_given()?.name().to_owned())
    }

    /// Writes samples of an output, `offset` behind its beginning. They are seen when the function has ended well, all of
    /// the tasklet's at once.
    ///
    /// # Errors
    /// [`TaskletError::WrongOutput`]: another type, or beyond what was declared.
    pub fn write<T: Sample>(
        &mut self,
        output: usize,
        offset: i64,
        samples: &[T],
    ) -> Result<(), Cause> {
        let (_, dtype) = self.output(output)?;
        if dtype != T::DTYPE {
            return Err(self.wrong(
                output,
                format!("{} samples", T::DTYPE),
                format!("of {dtype} samples"),
            ));
        }
        let bytes: &[u8] = bytemuck::cast_slice(samples);
        self.write_bytes(output, offset, Box::new(bytes.to_vec()))
    }

    /// As [`write`](Self::write), of bytes in this machine's order, without a copy.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_bytes(&mut self, output: usize, offset: i64, bytes: Bytes) -> Result<(), Cause> {
        self.stage(output, offset, Staged::Bytes(bytes))
    }

    /// As [`write_bytes`](Self::write_bytes), of a block that the [`pool`](Self::pool) gave, or a part of one (`whole` false).
    /// What goes to scratch in memory stays there without a copy; other blocks are used again.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_block(
        &mut self,
        output: usize,
        offset: i64,
        block: Buffer,
        whole: bool,
    ) -> Result<(), Cause> {
        self.stage(output, offset, Staged::Block(block, whole))
    }

    /// Memory to fill, which is warm after the first few tasklets.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        self.pool
    }

    fn stage(&mut self, output: usize, offset: i64, bytes: Staged) -> Result<(), Cause> {
        let (len, dtype) = self.output(output)?;
        let got = bytes.bytes().len();
        let samples = (got / dtype.size()).cast_signed() as i64;
        let whole = got.is_multiple_of(dtype.size());
        if !whole || offset < 0 || offset.checked_add(samples).is_none_or(|end| end > len) {
            let got = format!("{got} bytes at sample {offset}");
            return Err(self.wrong(
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

    fn wrong(&self, output: usize, got: String, expected: String) -> Cause {
        let name = self.tasklet.name.clone();
        TaskletError::WrongOutput {
            name,
            output,
            got,
            expected,
        }
        .into()
    }
}
