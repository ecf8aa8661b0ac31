//! A pool of aligned buffers, reused when unreferenced.

use isochrony_segment::{Buffer, BufferMut};

use crate::error::IoError;

/// More while samples are held downstream.
const MIN_KEPT: usize = 16;

/// Enough for `O_DIRECT` on any disk.
pub(crate) const ALIGNMENT: usize = 4096;

#[derive(Debug)]
pub(crate) struct BufferPool {
    buffers: Vec<Buffer>,
    most: usize,
}

impl Default for BufferPool {
    fn default() -> Self {
        Self::keeping(MIN_KEPT)
    }
}

impl BufferPool {
    pub(crate) fn keeping(buffers: usize) -> Self {
        Self {
            buffers: Vec::new(),
            most: buffers.max(MIN_KEPT),
        }
    }

    /// A buffer with `len` bytes after its first multiple of [`ALIGNMENT`].
    pub(crate) fn take(&mut self, len: usize) -> Result<Buffer, IoError> {
        let free = |buffer: &mut Buffer| buffer.get_mut().is_some();
        if let Some(at) = self.buffers.iter_mut().position(free) {
            let buffer = self.buffers.swap_remove(at);
            if buffer.len() >= len + ALIGNMENT {
                return Ok(buffer);
            }
        }
        let room = len.max(64 << 10).next_multiple_of(ALIGNMENT) + ALIGNMENT;
        Ok(BufferMut::zeroed(room)?.freeze())
    }

    pub(crate) fn release(&mut self, buffer: Buffer) {
        if self.buffers.len() < self.most {
            self.buffers.push(buffer);
        }
    }
}

pub(crate) fn skip(buffer: &Buffer) -> usize {
    buffer.as_ptr().addr().wrapping_neg() % ALIGNMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_reused_once_unreferenced() {
        let mut pool = BufferPool::default();
        let first = pool.take(100_000).unwrap();
        let (address, view) = (first.as_ptr(), first.slice(0..10).unwrap());
        pool.release(first);
        let second = pool.take(100_000).unwrap();
        assert_ne!(second.as_ptr(), address, "somebody looks at it");
        pool.release(second);
        drop(view);
        assert_eq!(pool.take(100_000).unwrap().as_ptr(), address);
    }

    #[test]
    fn aligned_memory_has_the_requested_length() {
        let mut pool = BufferPool::default();
        for len in [1, 4096, 65_537, 3 << 20] {
            let mut buffer = pool.take(len).unwrap();
            let from = skip(&buffer);
            assert!(buffer.len() - from >= len.next_multiple_of(ALIGNMENT));
            let address = buffer.get_mut().unwrap()[from..].as_ptr().addr();
            assert_eq!(address % ALIGNMENT, 0);
            pool.release(buffer);
        }
    }
}
