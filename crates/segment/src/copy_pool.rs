//! `CopyPool`: copies bytes into buffers that nobody refers to any more, instead of allocating.

use std::collections::VecDeque;

use crate::{Buffer, SegmentError};

/// Smaller copies are allocated: an allocator has such memory at hand.
const MIN_BYTES: usize = 64 << 10;
/// Most copies that are remembered, in use or free, and their bytes.
const MAX_BLOCKS: usize = 16;
const MAX_BYTES: usize = 64 << 20;

/// Remembers copies, and overwrites one that nobody else refers to with the next. New memory would cost a page
/// fault for every 4 KiB, as much as the copy itself.
#[derive(Debug, Default)]
pub struct CopyPool {
    /// Those that were not probed for longest first.
    blocks: VecDeque<Buffer>,
}

impl CopyPool {
    /// A copy of the bytes.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn copy(&mut self, bytes: &[u8]) -> Result<Buffer, SegmentError> {
        if bytes.len() < MIN_BYTES {
            return Buffer::concat([bytes]);
        }
        for _ in 0..self.blocks.len() {
            let Some(mut block) = self.blocks.pop_front() else {
                break;
            };
            match block.get_mut() {
                Some(memory) if memory.len() == bytes.len() => {
                    memory.copy_from_slice(bytes);
                    self.blocks.push_back(block.clone());
                    return Ok(block);
                }
                // Dropped: of another length.
                Some(_) => {}
                None => self.blocks.push_back(block),
            }
        }
        let copied = Buffer::concat([bytes])?;
        self.blocks.push_back(copied.clone());
        while self.blocks.len() > MAX_BLOCKS || self.blocks.len() * bytes.len() > MAX_BYTES {
            self.blocks.pop_front();
        }
        Ok(copied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwrites_only_what_nobody_refers_to() -> Result<(), SegmentError> {
        let mut pool = CopyPool::default();
        let bytes = |value| vec![value; MIN_BYTES];
        let first = pool.copy(&bytes(1))?;
        let second = pool.copy(&bytes(2))?;
        assert_ne!(first.as_ptr(), second.as_ptr());
        let part = first.slice(10..20).map(|part| part.bytes().to_vec());
        let address = second.as_ptr();
        drop(second);
        let third = pool.copy(&bytes(3))?;
        assert_eq!(third.as_ptr(), address);
        assert_eq!(first.bytes(), bytes(1));
        assert_eq!(part, Some(vec![1; 10]));
        assert_eq!(third.bytes(), bytes(3));
        Ok(())
    }

    #[test]
    fn remembers_few_copies_and_none_of_another_length() -> Result<(), SegmentError> {
        let mut pool = CopyPool::default();
        let held = (0..40).map(|value| pool.copy(&[value; MIN_BYTES]));
        let held = held.collect::<Result<Vec<Buffer>, SegmentError>>()?;
        assert_eq!(pool.blocks.len(), MAX_BLOCKS);
        assert!(
            held.iter()
                .zip(0..)
                .all(|(copy, value)| copy.bytes()[7] == value)
        );
        drop(held);
        pool.copy(&[0; 2 * MIN_BYTES])?;
        assert_eq!(pool.blocks.len(), 1);
        let large = vec![0; MAX_BYTES / 2 + 1];
        let _held = [pool.copy(&large)?, pool.copy(&large)?];
        assert_eq!(pool.blocks.len(), 1);
        pool.copy(&vec![0; MAX_BYTES + 1])?;
        assert_eq!(pool.blocks.len(), 0);
        Ok(())
    }
}
