//! Buffer pool for operators' outputs. It references every block; one without other references is free. All count
//! against the memory budget. A search probes only a few of the many thousand blocks that a task's results may keep.

use std::array::from_fn;
use std::collections::VecDeque;

use isochrony_segment::{Buffer, BufferMut, Sample, give_pages_back};

use super::budget::{MemoryHandle, PoolReservation};
use crate::{OpError, OpErrorKind};

/// Memory to fill. [`Out::seal`](crate::Out::seal) makes it shareable.
#[derive(Debug)]
pub struct Block {
    memory: Buffer,
    bytes: usize,
}

impl Block {
    /// Writable memory, with old bytes.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory.get_mut().unwrap_or_default()[..self.bytes]
    }

    /// Writable samples, with old values.
    #[must_use]
    pub fn samples_mut<T: Sample>(&mut self) -> &mut [T] {
        let bytes = self.bytes / size_of::<T>() * size_of::<T>();
        // Owned memory is aligned for every sample.
        let memory = self.memory.get_mut().unwrap_or_default();
        bytemuck::try_cast_slice_mut(&mut memory[..bytes]).unwrap_or_default()
    }
}

/// Oldest blocks probed per search.
const MAX_PROBES: usize = 4;

#[derive(Debug)]
pub(crate) struct OutputPool {
    /// By power of two.
    blocks: [VecDeque<Buffer>; usize::BITS as usize],
    bytes: u64,
    reservation: PoolReservation,
}

impl OutputPool {
    pub(crate) fn new(memory: MemoryHandle) -> Self {
        Self {
            blocks: from_fn(|_| VecDeque::new()),
            bytes: 0,
            reservation: PoolReservation::new(memory),
        }
    }

    pub(crate) fn peak(&self) -> u64 {
        self.reservation.peak()
    }

    pub(crate) fn take(&mut self, bytes: usize, queued: u64) -> Result<Block, OpError> {
        // Powers of two, so that later requests fit.
        let size = bytes
            .max(64)
            .checked_next_power_of_two()
            .unwrap_or(usize::MAX);
        if let Some(memory) = find_free(&mut self.blocks[size.ilog2() as usize]) {
            return Ok(Block { memory, bytes });
        }
        self.charge(queued, size as u64)?;
        self.bytes += size as u64;
        Ok(Block {
            memory: BufferMut::zeroed(size)?.freeze(),
            bytes,
        })
    }

    /// `more`: bytes beside `queued`. Drops free blocks if that makes room.
    pub(crate) fn charge(&mut self, queued: u64, more: u64) -> Result<(), OpError> {
        if self.reserve(queued.saturating_add(more)) {
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

    pub(crate) fn cap(&self) -> u64 {
        self.reservation.limit()
    }

    /// On failure returns queued bytes and budget.
    pub(crate) fn set_queued(&mut self, queued: u64) -> Result<(), (u64, u64)> {
        if self.reserve(queued) {
            return Ok(());
        }
        Err((queued, self.reservation.limit()))
    }

    /// `others`: bytes besides blocks.
    fn reserve(&mut self, others: u64) -> bool {
        if self
            .reservation
            .try_resize(self.bytes.saturating_add(others))
        {
            return true;
        }
        self.drop_free_blocks();
        self.reservation.sweep();
        let bytes = self.bytes.saturating_add(others);
        self.reservation.try_resize(bytes) || self.reservation.reclaim_and_resize(bytes)
    }

    /// Returns pages to the system: an allocator would keep them for this thread while another is short.
    fn drop_free_blocks(&mut self) {
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

    pub(crate) fn shrink_if_short(&mut self, queued: u64) {
        if self.reservation.should_release() {
            self.shrink(queued);
        }
    }

    pub(crate) fn shrink(&mut self, queued: u64) {
        self.drop_free_blocks();
        self.reservation.try_resize(self.bytes + queued);
    }

    /// For a later execution; emptied above `max_bytes`.
    pub(crate) fn kept_up_to(mut self, max_bytes: u64) -> Self {
        if self.bytes > max_bytes {
            self.drop_free_blocks();
            // Also drops references to blocks in use.
            self.blocks.iter_mut().for_each(VecDeque::clear);
            self.bytes = 0;
        }
        self
    }

    /// Moves free blocks to another execution; those in use are no longer counted.
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

    pub(crate) fn seal(&mut self, block: Block) -> Buffer {
        let shared = block
            .memory
            .slice(0..block.bytes)
            .unwrap_or_else(|| block.memory.clone());
        self.blocks[block.memory.len().ilog2() as usize].push_back(block.memory);
        shared
    }
}

/// The latest block, if free (perhaps cached); else one of the oldest. Probed blocks in use move to the end, so all are
/// probed in time.
fn find_free(blocks: &mut VecDeque<Buffer>) -> Option<Buffer> {
    if blocks.back_mut()?.get_mut().is_some() {
        return blocks.pop_back();
    }
    for _ in 0..MAX_PROBES.min(blocks.len()) {
        let mut block = blocks.pop_front()?;
        if block.get_mut().is_some() {
            return Some(block);
        }
        blocks.push_back(block);
    }
    None
}

impl Drop for OutputPool {
    fn drop(&mut self) {
        // Other threads may still use them.
        self.drop_free_blocks();
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
    fn a_kept_pool_holds_no_block_that_is_still_used() {
        let memory = MemoryHandle {
            memory: Arc::new(ExecutionMemory::new(1 << 20)),
            reclaimer: None,
        };
        let mut pool = OutputPool::new(memory);
        let block = pool.take(1024, 0).unwrap();
        let mut kept = pool.seal(block);
        assert!(kept.get_mut().is_none());
        let _kept_pool = pool.kept_up_to(0);
        assert!(kept.get_mut().is_some());
    }

    #[test]
    fn few_of_many_used_blocks_are_probed_and_free_ones_are_found() {
        let many = 1 << 18;
        let mut used: VecDeque<Buffer> = VecDeque::new();
        let new = || BufferMut::zeroed(64).unwrap().freeze();
        // Probing all each time would take minutes.
        let mut held = Vec::with_capacity(many);
        for _ in 0..many {
            assert!(find_free(&mut used).is_none());
            let made = new();
            held.push(made.clone());
            used.push_back(made);
        }
        let last = held.pop().unwrap();
        let address = block(&last);
        drop(last);
        let found = (0..=many / MAX_PROBES).find_map(|_| find_free(&mut used));
        assert_eq!(found.map(|found| block(&found)), Some(address));
        let made = new();
        let address = block(&made);
        used.push_back(made);
        assert_eq!(
            find_free(&mut used).map(|found| block(&found)),
            Some(address)
        );
        assert_eq!(used.len(), many - 1);
    }
}
