//! Memory for operators' outputs: blocks that are used again once nobody refers to them any more.
//!
//! The pool keeps a reference to every block it gave away. A block whose other references are gone is free; the rest
//! are queued somewhere or were kept by somebody ("escaped"), and all of them together stay below one cap.
//!
//! A task's results wait until it ends, so that many thousand blocks may be in use: finding a free one looks at few of them.

use std::array::from_fn;
use std::collections::VecDeque;

use isochrony_segment::{Buffer, BufferMut, Sample, give_pages_back};

use super::budget::{MemoryHandle, PoolReservation};
use crate::{OpError, OpErrorKind};

/// Memory that an operator fills; [`Out::seal`](crate::Out::seal) makes it shareable.
#[derive(Debug)]
pub struct Block {
    /// The whole allocation, with no other reference.
    memory: Buffer,
    bytes: usize,
}

impl Block {
    /// The memory for writing: old bytes, until they are overwritten.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // Nobody else has a reference.
        &mut self.memory.get_mut().unwrap_or_default()[..self.bytes]
    }

    /// The memory as samples for writing: old values, until they are overwritten.
    #[must_use]
    pub fn samples_mut<T: Sample>(&mut self) -> &mut [T] {
        let bytes = self.bytes / size_of::<T>() * size_of::<T>();
        // Nobody else has a reference, and owned memory is aligned for every sample.
        let memory = self.memory.get_mut().unwrap_or_default();
        bytemuck::try_cast_slice_mut(&mut memory[..bytes]).unwrap_or_default()
    }
}

/// Blocks that are looked at from the oldest on for one that is free.
const LOOKS: usize = 4;

#[derive(Debug)]
pub(crate) struct Pool {
    /// Of each power of two, those that were given away.
    blocks: [VecDeque<Buffer>; usize::BITS as usize],
    bytes: u64,
    reservation: PoolReservation,
}

impl Pool {
    pub(crate) fn new(memory: MemoryHandle) -> Self {
        Self {
            blocks: from_fn(|_| VecDeque::new()),
            bytes: 0,
            reservation: PoolReservation::new(memory),
        }
    }

    /// Most that was taken at once, by all that share the memory.
    pub(crate) fn peak(&self) -> u64 {
        self.reservation.peak()
    }

    /// A block of `bytes`, used before or new.
    pub(crate) fn take(&mut self, bytes: usize, queued: u64) -> Result<Block, OpError> {
        // Sizes in powers of two, so that blocks fit again.
        let size = bytes
            .max(64)
            .checked_next_power_of_two()
            .unwrap_or(usize::MAX);
        if let Some(memory) = free(&mut self.blocks[size.ilog2() as usize]) {
            return Ok(Block { memory, bytes });
        }
        self.count(queued, size as u64)?;
        self.bytes += size as u64;
        Ok(Block {
            memory: BufferMut::zeroed(size)?.freeze(),
            bytes,
        })
    }

    /// Counts bytes more beside those in use to the cap; blocks that nobody uses make room for them.
    pub(crate) fn count(&mut self, queued: u64, more: u64) -> Result<(), OpError> {
        if self.holds(queued.saturating_add(more)) {
            return Ok(());
        }
        self.reservation.try_resize(self.bytes + queued);
        Err(OpErrorKind::MemoryCap {
            asked: more,
            used: self.reservation.reserved_by_all(),
            cap: self.reservation.limit(),
        }
        .into())
    }

    /// Most bytes that may be in use and wait.
    pub(crate) fn cap(&self) -> u64 {
        self.reservation.limit()
    }

    /// Counts what is queued; whether there is memory for it. Bytes in queues and in all blocks, and the cap, if not.
    pub(crate) fn queue(&mut self, queued: u64) -> Result<(), (u64, u64)> {
        if self.holds(queued) {
            return Ok(());
        }
        Err((queued, self.reservation.limit()))
    }

    /// Takes bytes beside those of blocks, if there is memory for them.
    fn holds(&mut self, others: u64) -> bool {
        if self
            .reservation
            .try_resize(self.bytes.saturating_add(others))
        {
            return true;
        }
        self.tidy();
        self.reservation.sweep();
        let bytes = self.bytes.saturating_add(others);
        self.reservation.try_resize(bytes) || self.reservation.reclaim_and_resize(bytes)
    }

    /// Drops blocks that nobody uses. Their pages go back to the system: who is short of memory may be another thread, and
    /// allocators keep what a thread has freed for that thread, so that each could come to hold as much as all may.
    fn tidy(&mut self) {
        let bytes = &mut self.bytes;
        for blocks in &mut self.blocks {
            blocks.retain_mut(|block| {
                let Some(free) = block.get_mut() else {
                    return true;
                };
                *bytes -= free.len() as u64;
                give_pages_back(free);
                false
            });
        }
    }

    /// Lets go of what it does not need where others may need it.
    pub(crate) fn yield_rest(&mut self, queued: u64) {
        if self.reservation.should_release() {
            self.shrink(queued);
        }
    }

    /// Lets go of what it does not need beside what is queued.
    pub(crate) fn shrink(&mut self, queued: u64) {
        self.tidy();
        self.reservation.try_resize(self.bytes + queued);
    }

    /// Keeps what nobody uses for another run, if all of it is no more than `most` bytes.
    pub(crate) fn rest(mut self, most: u64) -> Self {
        if self.bytes > most {
            self.tidy();
            // Nor does it hold on to what others do until they let go.
            self.blocks.iter_mut().for_each(VecDeque::clear);
            self.bytes = 0;
        }
        self
    }

    /// Goes on in another run, with what nobody uses: what somebody keeps is his, and counts no longer.
    pub(crate) fn into_next(mut self, memory: MemoryHandle) -> Self {
        for blocks in &mut self.blocks {
            blocks.retain_mut(|block| block.get_mut().is_some());
        }
        let blocks = self.blocks.iter().flatten();
        self.bytes = blocks.map(|block| block.len() as u64).sum();
        self.reservation = PoolReservation::new(memory);
        self.reservation.try_resize(self.bytes);
        self
    }

    /// Shares a block's first bytes.
    pub(crate) fn seal(&mut self, block: Block) -> Buffer {
        // A block is at least as long as was asked for.
        let shared = block
            .memory
            .slice(0..block.bytes)
            .unwrap_or_else(|| block.memory.clone());
        self.blocks[block.memory.len().ilog2() as usize].push_back(block.memory);
        shared
    }
}

/// A block that nobody uses: the last one that was given away, which the processor's cache may still hold, or one of the
/// oldest. Those in use are put behind, so that in the end each is looked at.
fn free(blocks: &mut VecDeque<Buffer>) -> Option<Buffer> {
    if blocks.back_mut()?.get_mut().is_some() {
        return blocks.pop_back();
    }
    for _ in 0..LOOKS.min(blocks.len()) {
        let mut block = blocks.pop_front()?;
        if block.get_mut().is_some() {
            return Some(block);
        }
        blocks.push_back(block);
    }
    None
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Other threads of the run may go on, with what this one made.
        self.tidy();
        let blocks = self.blocks.iter_mut().flat_map(std::mem::take);
        self.reservation.abandon(blocks);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::budget::ExecutionMemory;

    fn block(address: &Buffer) -> *const u8 {
        address.as_ptr()
    }

    #[test]
    fn what_rests_holds_no_block_that_somebody_has() {
        let memory = MemoryHandle {
            memory: Arc::new(ExecutionMemory::new(1 << 20)),
            reclaimer: None,
        };
        let mut pool = Pool::new(memory);
        let block = pool.take(1024, 0).unwrap();
        let mut kept = pool.seal(block);
        assert!(kept.get_mut().is_none());
        let _resting = pool.rest(0);
        assert!(kept.get_mut().is_some());
    }

    #[test]
    fn of_many_blocks_in_use_few_are_looked_at_and_free_ones_are_found() {
        let many = 1 << 18;
        let mut used: VecDeque<Buffer> = VecDeque::new();
        let new = || BufferMut::zeroed(64).unwrap().freeze();
        // Looking at all of them each time would take minutes.
        let mut held = Vec::with_capacity(many);
        for _ in 0..many {
            assert!(free(&mut used).is_none());
            let made = new();
            held.push(made.clone());
            used.push_back(made);
        }
        // The last.
        let last = held.pop().unwrap();
        let address = block(&last);
        // Others were put behind it meanwhile: it is found when its turn comes.
        drop(last);
        let looks = (0..=many / LOOKS).find_map(|_| free(&mut used));
        assert_eq!(looks.map(|found| block(&found)), Some(address));
        // One that is given back at once is the next, as long as nothing comes between.
        let made = new();
        let address = block(&made);
        used.push_back(made);
        assert_eq!(free(&mut used).map(|found| block(&found)), Some(address));
        assert_eq!(used.len(), many - 1);
    }
}
