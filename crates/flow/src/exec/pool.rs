//! Memory for operators' outputs: blocks that are used again once nobody refers to them any more.
//!
//! The pool keeps a reference to every block it gave away. A block whose other references are gone is free; the rest
//! are queued somewhere or were kept by somebody ("escaped"), and all of them together stay below one cap.

use isochrony_segment::{Buffer, BufferMut, Sample, give_pages_back};

use super::budget::{Share, Taken};
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

#[derive(Debug)]
pub(crate) struct Pool {
    blocks: Vec<Buffer>,
    bytes: u64,
    taken: Taken,
}

impl Pool {
    pub(crate) fn new(share: Share) -> Self {
        Self {
            blocks: Vec::new(),
            bytes: 0,
            taken: Taken::new(share),
        }
    }

    /// Most that was taken at once, by all that share the memory.
    pub(crate) fn peak(&self) -> u64 {
        self.taken.peak()
    }

    /// A block of `bytes`, used before or new.
    pub(crate) fn take(&mut self, bytes: usize, queued: u64) -> Result<Block, OpError> {
        // Sizes in powers of two, so that blocks fit again.
        let size = bytes
            .max(64)
            .checked_next_power_of_two()
            .unwrap_or(usize::MAX);
        let free = self
            .blocks
            .iter_mut()
            .position(|b| b.len() == size && b.get_mut().is_some());
        if let Some(at) = free {
            return Ok(Block {
                memory: self.blocks.swap_remove(at),
                bytes,
            });
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
        self.taken.set(self.bytes + queued);
        Err(OpErrorKind::MemoryCap {
            asked: more,
            used: self.taken.used(),
            cap: self.taken.cap(),
        }
        .into())
    }

    /// Counts what is queued; whether there is memory for it. Bytes in queues and in all blocks, and the cap, if not.
    pub(crate) fn queue(&mut self, queued: u64) -> Result<(), (u64, u64)> {
        if self.holds(queued) {
            return Ok(());
        }
        Err((queued, self.taken.cap()))
    }

    /// Takes bytes beside those of blocks, if there is memory for them.
    fn holds(&mut self, others: u64) -> bool {
        if self.taken.set(self.bytes.saturating_add(others)) {
            return true;
        }
        self.tidy();
        let bytes = self.bytes.saturating_add(others);
        self.taken.set(bytes) || self.taken.set_first(bytes)
    }

    /// Drops blocks that nobody uses. Their pages go back to the system: who is short of memory may be another thread, and
    /// allocators keep what a thread has freed for that thread, so that each could come to hold as much as all may.
    fn tidy(&mut self) {
        let bytes = &mut self.bytes;
        self.blocks.retain_mut(|block| {
            let Some(free) = block.get_mut() else {
                return true;
            };
            *bytes -= free.len() as u64;
            give_pages_back(free);
            false
        });
    }

    /// Lets go of what it does not need where others may need it.
    pub(crate) fn yield_rest(&mut self, queued: u64) {
        if self.taken.is_short() {
            self.shrink(queued);
        }
    }

    /// Lets go of what it does not need beside what is queued.
    pub(crate) fn shrink(&mut self, queued: u64) {
        self.tidy();
        self.taken.set(self.bytes + queued);
    }

    /// Shares a block's first bytes.
    pub(crate) fn seal(&mut self, block: Block) -> Buffer {
        // A block is at least as long as was asked for.
        let shared = block
            .memory
            .slice(0..block.bytes)
            .unwrap_or_else(|| block.memory.clone());
        self.blocks.push(block.memory);
        shared
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Other threads of the run may go on.
        self.tidy();
    }
}
