//! Blocks of memory that are used again and again: the pages of a new one cost more than what is written to it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use isochrony_segment::{Buffer, BufferMut, SegmentError};
use isochrony_store::Blocks;

/// Most bytes of blocks that wait to be used again.
const IDLE: usize = 64 << 20;

/// Blocks of any sizes, of which a run has few.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    by_len: HashMap<usize, Vec<Buffer>>,
    bytes: usize,
    /// Blocks that somebody kept, until they let go of them: the allocator does not find their memory again.
    kept: VecDeque<Buffer>,
    kept_bytes: usize,
}

/// Kept blocks that are looked at when a block is wanted.
const LOOKS: usize = 4;

impl Idle {
    fn add(&mut self, block: Buffer) {
        if self.bytes + block.len() <= IDLE {
            self.bytes += block.len();
            self.by_len.entry(block.len()).or_default().push(block);
        }
    }

    /// A block that is waiting, or was kept and is not any more.
    fn find(&mut self, len: usize) -> Option<Buffer> {
        for _ in 0..LOOKS.min(self.kept.len()) {
            let Some(mut block) = self.kept.pop_front() else {
                break;
            };
            if block.get_mut().is_some() {
                self.kept_bytes -= block.len();
                self.add(block);
            } else {
                self.kept.push_back(block);
            }
        }
        let block = self.by_len.get_mut(&len).and_then(Vec::pop)?;
        self.bytes -= len;
        Some(block)
    }
}

impl Blocks for Pool {
    fn take(&self, len: usize) -> Result<Buffer, SegmentError> {
        Self::take(self, len)
    }

    fn give(&self, block: Buffer) {
        Self::give(self, block);
    }
}

impl Pool {
    fn find(&self, len: usize) -> Option<Buffer> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.find(len)
    }

    /// A block that nobody else refers to; what it holds is left over from before.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn take(&self, len: usize) -> Result<Buffer, SegmentError> {
        match self.find(len) {
            Some(block) => Ok(block),
            None => Ok(BufferMut::zeroed(len)?.freeze()),
        }
    }

    /// As [`take`](Self::take), but all of it is zero.
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

    /// As [`take`](Self::take), holding a copy of these bytes.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn copy_of(&self, bytes: &[u8]) -> Result<Buffer, SegmentError> {
        let mut block = self.take(bytes.len())?;
        block.make_mut()?.copy_from_slice(bytes);
        Ok(block)
    }

    /// Takes a block back that `take` gave, as a whole. If somebody still refers to it, it is theirs until they do not.
    pub fn give(&self, mut block: Buffer) {
        if block.is_read_only() || block.is_empty() {
            return;
        }
        let is_free = block.get_mut().is_some();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if is_free {
            idle.add(block);
            return;
        }
        idle.kept_bytes += block.len();
        idle.kept.push_back(block);
        while idle.kept_bytes > IDLE
            && let Some(oldest) = idle.kept.pop_front()
        {
            idle.kept_bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_back_once_nobody_looks_into_it_and_none_is_kept_beyond_the_bound() {
        let pool = Pool::default();
        let block = pool.take(1000).unwrap();
        let (address, view) = (block.as_ptr(), block.slice(10..20).unwrap());
        pool.give(block);
        let mut other = pool.take(1000).unwrap();
        assert_ne!(other.as_ptr(), address, "a view looks into it");
        drop(view);
        other.get_mut().unwrap().fill(7);
        let address = other.as_ptr();
        pool.give(other);
        assert_eq!(pool.take(500).unwrap().len(), 500);
        // The one whose view is gone came back meanwhile, too.
        let _first = pool.take(1000).unwrap();
        let again = pool.take(1000).unwrap();
        assert_eq!((again.as_ptr(), again.bytes()[999]), (address, 7));
        // Who kept a block and lets go of it gives it back, too.
        let kept = pool.take(2000).unwrap();
        let (address, view) = (kept.as_ptr(), kept.clone());
        pool.give(kept);
        assert_ne!(pool.take(2000).unwrap().as_ptr(), address);
        drop(view);
        let again = pool.take_zeroed(2000).unwrap();
        assert_eq!(again.as_ptr(), address);
        let copy = pool.copy_of(&[9; 3000]).unwrap();
        assert_eq!(copy.bytes(), [9; 3000]);
        pool.give(copy);
        assert_eq!(pool.take_zeroed(3000).unwrap().bytes(), [0; 3000]);
        let large = [(); 3].map(|()| pool.take(IDLE / 2).unwrap());
        large.into_iter().for_each(|block| pool.give(block));
        let idle = pool.idle.lock().unwrap();
        assert_eq!(idle.bytes, IDLE);
        assert_eq!(idle.by_len[&(IDLE / 2)].len(), 2);
    }
}
