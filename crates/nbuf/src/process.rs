//! What is done to a buffer: the seam that processors are written against.

use crate::error::{Cause, Located};
use crate::framing::{Framing, Records};
use crate::out::Out;

/// Whole records, as they lie in a buffer or in the memory of the input.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The number of the buffer, in the order of reading, from 0.
    pub number: u64,
    /// The records.
    pub bytes: &'a [u8],
    /// Where they begin in the stream: all inputs as they were merged.
    pub offset: u64,
    /// Which input they are of.
    pub input: usize,
    /// Where they begin in that input.
    pub input_offset: u64,
    pub(crate) framing: &'a Framing,
}

impl<'a> Block<'a> {
    /// The records, in order. The last one of an input may be short.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records::new(self.framing, self.bytes)
    }
}

/// A processor: shared by all workers, each of which has scratch memory of its own.
///
/// A buffer is executed by one worker, at the same time as others unless the run's order forbids it. What must come in
/// stream order whatever the order is (a checksum, the sum over buffers) is done in a *join*: one buffer at a time, in
/// stream order, while the buffer is still there. Several joins that do not need one another are lanes of their own, so
/// that two workers can be in two of them.
pub trait Process: Sync {
    /// What a worker keeps from buffer to buffer: accumulators of the buffer, scratch, output.
    type Worker: Send;

    /// The scratch of one worker.
    fn worker(&self) -> Self::Worker;

    /// Processes one buffer.
    ///
    /// # Errors
    /// Whatever the processor finds wrong; the run ends with it.
    fn execute(
        &self,
        worker: &mut Self::Worker,
        block: &Block<'_>,
        out: &mut Out<'_>,
    ) -> Result<(), Cause>;

    /// How many lanes of joins there are.
    fn lanes(&self) -> usize {
        0
    }

    /// Adds to the stream's result what the worker has of this buffer. Called once for each lane and buffer, in stream
    /// order within a lane.
    ///
    /// # Errors
    /// Whatever the processor finds wrong; the run ends with it.
    fn join(
        &self,
        lane: usize,
        worker: &mut Self::Worker,
        block: &Block<'_>,
        out: &mut Out<'_>,
    ) -> Result<(), Cause> {
        let _ = (lane, worker, block, out);
        Ok(())
    }

    /// Output for this buffer that lies in the worker's scratch after the joins; written to output 0 behind what was put
    /// there, without a copy.
    fn output<'w>(&self, worker: &'w Self::Worker) -> [&'w [u8]; 2] {
        let _ = worker;
        [&[], &[]]
    }

    /// After the last buffer of a stream that came to its end: writes to output 0 what is still to be written.
    ///
    /// # Errors
    /// Whatever the processor finds wrong.
    fn finish(&self, write: &mut dyn FnMut(&[u8])) -> Result<(), Cause> {
        let _ = write;
        Ok(())
    }

    /// Upper bound of the bytes that one worker's scratch holds for buffers of so many bytes.
    fn worker_bytes(&self, buffer: usize) -> usize {
        let _ = buffer;
        0
    }

    /// Upper bound of the bytes that all workers share.
    fn shared_bytes(&self) -> usize {
        0
    }

    /// Whether `execute` puts bytes of its own to outputs, so that memory must be kept for them.
    fn stages(&self) -> bool {
        true
    }

    /// Whether it makes one stream, which several outputs could not share.
    fn makes_one_stream(&self) -> bool {
        false
    }

    /// Whether most of the work is done in joins, so that workers wait for one another: buffers are larger then, for at each
    /// one a worker has to wake up.
    fn works_in_joins(&self) -> bool {
        false
    }

    /// Whether `execute` may run for several buffers at once even where the run asks for ordered execution, since nobody
    /// could see a difference.
    fn order_does_not_show(&self) -> bool {
        false
    }
}

/// Hands every buffer to each output as it is: what a run does without a processor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Copy;

impl Process for Copy {
    type Worker = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), _: &Block<'_>, out: &mut Out<'_>) -> Result<(), Cause> {
        Ok(out.forward_to_all()?)
    }

    fn stages(&self) -> bool {
        false
    }

    fn order_does_not_show(&self) -> bool {
        true
    }
}

/// A function of one record, for processors without accumulators.
#[derive(Debug, Clone, Copy)]
pub struct PerRecord<F>(pub F);

impl<F> Process for PerRecord<F>
where
    F: Fn(&[u8], &mut Out<'_>) -> Result<(), Cause> + Sync,
{
    type Worker = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), block: &Block<'_>, out: &mut Out<'_>) -> Result<(), Cause> {
        let mut offset = block.offset;
        for record in block.records() {
            let length = record.len() as u64;
            out.mark();
            (self.0)(record, out).map_err(|why| Located {
                offset,
                length,
                why,
            })?;
            offset += length;
        }
        Ok(())
    }
}
