//! Pool of reused memory blocks: page faults cost more than filling.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use isochrony_segment::{Buffer, BufferMut, SegmentError};
use isochrony_store::Blocks;

/// Maximum bytes of idle blocks, and of referenced ones.
const MAX_IDLE_BYTES: u64 = 64 << 20;

const REFERENCED_BLOCKS_CHECKED: usize = 4;

/// A pool of blocks, for executions with few lengths.
#[derive(Debug, Default)]
pub struct BlockPool {
    blocks: Mutex<PooledBlocks>,
}

#[derive(Debug, Default)]
struct PooledBlocks {
    idle_by_len: HashMap<usize, Vec<Buffer>>,
    idle_bytes: u64,
    /// Blocks returned while referenced. They wait here to become idle: the allocator would not reuse their memory.
    referenced: VecDeque<Buffer>,
    referenced_bytes: u64,
}

impl PooledBlocks {
    fn add_idle(&mut self, block: Buffer) {
        let bytes = self.idle_bytes + block.len() as u64;
        if bytes <= MAX_IDLE_BYTES {
            self.idle_bytes = bytes;
            let idle = self.idle_by_len.entry(block.len()).or_default();
            idle.push(block);
        }
    }

    fn add_referenced(&mut self, block: Buffer) {
        let bytes = block.len() as u64;
        while self.referenced_bytes + bytes > MAX_IDLE_BYTES {
            let Some(oldest) = self.referenced.pop_front() else {
                return;
            };
            self.referenced_bytes -= oldest.len() as u64;
        }
        self.referenced_bytes += bytes;
        self.referenced.push_back(block);
    }

    fn find(&mut self, len: usize) -> Option<Buffer> {
        for _ in 0..REFERENCED_BLOCKS_CHECKED.min(self.referenced.len()) {
            let Some(mut block) = self.referenced.pop_front() else {
                break;
            };
            if block.get_mut().is_some() {
                self.referenced_bytes -= block.len() as u64;
                self.add_idle(block);
            } else {
                self.referenced.push_back(block);
            }
        }
        let block = self.idle_by_len.get_mut(&len).and_then(Vec::pop)?;
        self.idle_bytes -= len as u64;
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

    /// Takes an unreferenced block with arbitrary content.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn take(&self, len: usize) -> Result<Buffer, SegmentError> {
        match self.find(len) {
            Some(block) => Ok(block),
            None => Ok(BufferMut::zeroed(len)?.freeze()),
        }
    }

    /// Like [`take`](Self::take), filled with zeros.
    pub fn take_zeroed(&self, len: usize) -> Result<Buffer, SegmentError> {
        match self.find(len) {
            Some(mut block) => {
                block.make_mut()?.fill(0);
                Ok(block)
            }
            None => Ok(BufferMut::zeroed(len)?.freeze()),
        }
    }

    /// Like [`take`](Self::take), with a copy of `bytes`.
    pub fn copy_of(&self, bytes: &[u8]) -> Result<Buffer, SegmentError> {
        let mut block = self.take(bytes.len())?;
        block.make_mut()?.copy_from_slice(bytes);
        Ok(block)
    }

    /// Returns a whole block, not reused while referenced.
    pub fn give(&self, mut block: Buffer) {
        if block.is_read_only() || block.is_empty() {
            return;
        }
        let is_idle = block.get_mut().is_some();
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        match is_idle {
            true => blocks.add_idle(block),
            false => blocks.add_referenced(block),
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
        let _first = pool.take(1000).unwrap();
        let again = pool.take(1000).unwrap();
        assert_eq!((again.as_ptr(), again.bytes()[999]), (address, 7));
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
        let half = MAX_IDLE_BYTES as usize / 2;
        let large = [(); 3].map(|()| pool.take(half).unwrap());
        large.into_iter().for_each(|block| pool.give(block));
        let blocks = pool.blocks.lock().unwrap();
        assert_eq!(blocks.idle_bytes, MAX_IDLE_BYTES);
        assert_eq!(blocks.idle_by_len[&half].len(), 2);
    }
}
