//! Processors of buffers.

use crate::buffer_output::BufferOutput;
use crate::error::{Cause, LocatedError};
use crate::framing::{Framing, Records};

/// Whole records, in a worker's buffer or an input's memory.
#[derive(Debug, Clone, Copy)]
pub struct RecordBlock<'a> {
    /// Buffer number in read order, from 0.
    pub number: u64,
    /// The records.
    pub bytes: &'a [u8],
    /// Offset in the stream of all inputs.
    pub offset: u64,
    /// Input number.
    pub input: usize,
    /// Offset in the input.
    pub input_offset: u64,
    pub(crate) framing: &'a Framing,
}

impl<'a> RecordBlock<'a> {
    /// The records, in order. The last one of an input may be short.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records::new(self.framing, self.bytes)
    }
}

/// A processor of blocks of records, shared by all workers.
///
/// Workers *execute* blocks in parallel unless the options order execution. What needs stream order, such as a
/// checksum, is *joined*, one block at a time. Independent joins are separate lanes, in which workers join at once.
pub trait BlockProcessor: Sync {
    /// Worker state between blocks.
    type Scratch: Send;

    /// Called once by each worker, in its thread, before its first block.
    fn new_scratch(&self) -> Self::Scratch;

    /// Processes one block.
    ///
    /// # Errors
    /// Any error ends the execution.
    fn execute(
        &self,
        scratch: &mut Self::Scratch,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause>;

    /// Number of join lanes.
    fn lanes(&self) -> usize {
        0
    }

    /// Adds the block's result to the stream's: once per lane and block, in stream order within a lane.
    ///
    /// # Errors
    /// Any error ends the execution.
    fn join(
        &self,
        lane: usize,
        scratch: &mut Self::Scratch,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        let _ = (lane, scratch, block, out);
        Ok(())
    }

    /// Output for this block in the scratch after the joins. Follows the staged output at output 0, without a copy.
    fn trailing_output<'w>(&self, scratch: &'w Self::Scratch) -> [&'w [u8]; 2] {
        let _ = scratch;
        [&[], &[]]
    }

    /// Writes the end of output 0, after a completely read stream.
    ///
    /// # Errors
    /// Any error ends the execution.
    fn finish(&self, write: &mut dyn FnMut(&[u8])) -> Result<(), Cause> {
        let _ = write;
        Ok(())
    }

    /// Upper bound of a worker's scratch for buffers of `buffer` bytes.
    fn scratch_bytes(&self, buffer: usize) -> usize {
        let _ = buffer;
        0
    }

    /// Upper bound of bytes shared by workers.
    fn shared_bytes(&self) -> usize {
        0
    }

    /// Whether it writes bytes of its own, which need staging memory.
    fn needs_staging(&self) -> bool {
        true
    }

    /// Whether its output is one stream, so that several outputs are refused.
    fn needs_single_output(&self) -> bool {
        false
    }

    /// Whether most work is in joins. Buffers are then larger, since each costs a wake-up.
    fn is_join_bound(&self) -> bool {
        false
    }

    /// Whether neither results nor output depend on buffer cuts.
    fn is_cut_invariant(&self) -> bool {
        false
    }

    /// Whether results do not depend on execution order. Blocks are then executed in parallel whatever the options say.
    fn is_order_invariant(&self) -> bool {
        false
    }
}

/// Copies the input to every output.
#[derive(Debug, Clone, Copy, Default)]
pub struct Identity;

impl BlockProcessor for Identity {
    type Scratch = ();

    fn new_scratch(&self) {}

    fn execute(
        &self,
        (): &mut (),
        _: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        Ok(out.forward_to_all()?)
    }

    fn needs_staging(&self) -> bool {
        false
    }

    fn is_cut_invariant(&self) -> bool {
        true
    }

    fn is_order_invariant(&self) -> bool {
        true
    }
}

/// Calls a function with each record, without accumulators.
#[derive(Debug, Clone, Copy)]
pub struct PerRecord<F>(pub F);

impl<F> BlockProcessor for PerRecord<F>
where
    F: Fn(&[u8], &mut BufferOutput<'_>) -> Result<(), Cause> + Sync,
{
    type Scratch = ();

    fn new_scratch(&self) {}

    fn execute(
        &self,
        (): &mut (),
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        let mut offset = block.offset;
        for record in block.records() {
            let length = record.len() as u64;
            out.begin_record();
            (self.0)(record, out).map_err(|why| LocatedError {
                offset,
                length,
                why,
            })?;
            offset += length;
        }
        Ok(())
    }

    fn is_cut_invariant(&self) -> bool {
        true
    }
}
