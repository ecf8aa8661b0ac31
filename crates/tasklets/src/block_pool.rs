//! A pool of memory blocks that are used again: to fault in the pages of a new block costs more than to fill it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use isochrony_segment::{Buffer, BufferMut, SegmentError};
use isochrony_store::Blocks;

/// Most bytes of idle blocks that the pool keeps, and most bytes of blocks that it waits for.
const MAX_IDLE_BYTES: usize = 64 << 20;

/// Number of blocks in use elsewhere that are checked whenever a block is taken.
const REFERENCED_BLOCKS_CHECKED: usize = 4;

/// A pool of blocks of any length. An execution uses few different lengths.
#[derive(Debug, Default)]
pub struct BlockPool {
    blocks: Mutex<PooledBlocks>,
}

#[derive(Debug, Default)]
struct PooledBlocks {
    idle_by_len: HashMap<usize, Vec<Buffer>>,
    idle_bytes: usize,
    /// Blocks that were given back while something still refers to them. They become idle when nothing does: the allocator
    /// would not reuse their memory.
    referenced: VecDeque<Buffer>,
    referenced_bytes: usize,
}

impl PooledBlocks {
    fn add(&mut self, block: Buffer) {
        if self.idle_bytes + block.len() <= MAX_IDLE_BYTES {
            self.idle_bytes += block.len();
            let idle = self.idle_by_len.entry(block.len()).or_default();
            idle.push(block);
        }
    }

    /// Takes an idle block, after it has moved blocks that nothing refers to any longer to the idle ones.
    fn find(&mut self, len: usize) -> Option<Buffer> {
        for _ in 0..REFERENCED_BLOCKS_CHECKED.min(self.referenced.len()) {
            let Some(mut block) = self.referenced.pop_front() else {
                break;
            };
            if block.get_mut().is_some() {
                self.referenced_bytes -= block.len();
                self.add(block);
            } else {
                self.referenced.push_back(block);
            }
        }
        let block = self.idle_by_len.get_mut(&len).and_then(Vec::pop)?;
        self.idle_bytes -= len;
        Some(block)
    }
}

impl Blocks for BlockPool {
    fn take(&self, len: usize) -> Result<Buffer, SegmentError> {
        Self::take(self, len)
    }

    fn give(&self, block: Buffer) {
        Self::give(self, block);
    }
}

impl BlockPool {
    fn find(&self, len: usize) -> Option<Buffer> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.find(len)
    }

    /// Takes a block that nothing else refers to. Its content is arbitrary.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn take(&self, len: usize) -> Result<Buffer, SegmentError> {
        match self.find(len) {
            Some(block) => Ok(block),
            None => Ok(BufferMut::zeroed(len)?.freeze()),
        }
    }

    /// As [`take`](Self::take), but the block is filled with zeros.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_zeroed(&self, len: usize) -> Result<Buffer, SegmentError> {
        match self.find(len) {
            Some(mut block) => {
                block.make_mut()?.fill(0);
                Ok(block)
            }
            None => Ok(BufferMut::zeroed(len)?.freeze()),
        }
    }

    /// As [`take`](Self::take), but the block holds a copy of `bytes`.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn copy_of(&self, bytes: &[u8]) -> Result<Buffer, SegmentError> {
        let mut block = self.take(bytes.len())?;
        block.make_mut()?.copy_from_slice(bytes);
        Ok(block)
    }

    /// Gives back a whole block that was taken. While something still refers to the block, the pool does not hand it out.
    pub fn give(&self, mut block: Buffer) {
        if block.is_read_only() || block.is_empty() {
            return;
        }
        let is_idle = block.get_mut().is_some();
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if is_idle {
            blocks.add(block);
            return;
        }
        blocks.referenced_bytes += block.len();
        blocks.referenced.push_back(block);
        while blocks.referenced_bytes > MAX_IDLE_BYTES
            && let Some(oldest) = blocks.referenced.pop_front()
        {
            blocks.referenced_bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuses_a_block_once_nothing_refers_to_it_and_keeps_no_more_than_the_limit() {
        let pool = BlockPool::default();
        let block = pool.take(1000).unwrap();
        let (address, slice) = (block.as_ptr(), block.slice(10..20).unwrap());
        pool.give(block);
        let mut other = pool.take(1000).unwrap();
        assert_ne!(other.as_ptr(), address, "a slice refers to it");
        drop(slice);
        other.get_mut().unwrap().fill(7);
        let address = other.as_ptr();
        pool.give(other);
        assert_eq!(pool.take(500).unwrap().len(), 500);
        // The first block has become idle, too.
        let _first = pool.take(1000).unwrap();
        let again = pool.take(1000).unwrap();
        assert_eq!((again.as_ptr(), again.bytes()[999]), (address, 7));
        // A clone of the whole block counts as a reference, too.
        let block = pool.take(2000).unwrap();
        let (address, clone) = (block.as_ptr(), block.clone());
        pool.give(block);
        assert_ne!(pool.take(2000).unwrap().as_ptr(), address);
        drop(clone);
        let again = pool.take_zeroed(2000).unwrap();
        assert_eq!(again.as_ptr(), address);
        let copy = pool.copy_of(&[9; 3000]).unwrap();
        assert_eq!(copy.bytes(), [9; 3000]);
        pool.give(copy);
        assert_eq!(pool.take_zeroed(3000).unwrap().bytes(), [0; 3000]);
        let large = [(); 3].map(|()| pool.take(MAX_IDLE_BYTES / 2).unwrap());
        large.into_iter().for_each(|block| pool.give(block));
        let blocks = pool.blocks.lock().unwrap();
        assert_eq!(blocks.idle_bytes, MAX_IDLE_BYTES);
        assert_eq!(blocks.idle_by_len[&(MAX_IDLE_BYTES / 2)].len(), 2);
    }
}
