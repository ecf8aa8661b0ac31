//! Blocks of memory that are used again and again: the pages of a new one cost more than what is written to it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use isochrony_segment::{Buffer, BufferMut, SegmentError};

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
}

impl Pool {
    /// A block that nobody else refers to; what it holds is left over from before.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn take(&self, len: usize) -> Result<Buffer, SegmentError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = idle.by_len.get_mut(&len).and_then(Vec::pop) {
            idle.bytes -= len;
            return Ok(block);
        }
        drop(idle);
        Ok(BufferMut::zeroed(len)?.freeze())
    }

    /// Takes a block back that `take` gave, as a whole. If somebody still refers to it, it is theirs.
    pub fn give(&self, mut block: Buffer) {
        if block.get_mut().is_none() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.bytes + block.len() <= IDLE {
            idle.bytes += block.len();
            idle.by_len.entry(block.len()).or_default().push(block);
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
        let again = pool.take(1000).unwrap();
        assert_eq!((again.as_ptr(), again.bytes()[999]), (address, 7));
        let large = [(); 3].map(|()| pool.take(IDLE / 2).unwrap());
        large.into_iter().for_each(|block| pool.give(block));
        let idle = pool.idle.lock().unwrap();
        assert_eq!(idle.bytes, IDLE);
        assert_eq!(idle.by_len[&(IDLE / 2)].len(), 2);
    }
}
