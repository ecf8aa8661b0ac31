//! `PieceRing`: reads of pieces by the kernel while the scan computes.
#![allow(unsafe_code)] // The ring is told which memory the system may write to.

use std::os::fd::AsRawFd;

use isochrony_segment::Buffer;
use isochrony_system::read_ring::{ReadPart, ReadRing, ReadTarget};

use crate::scan::PieceRequest;

pub(crate) type PieceRing = ReadRing<PieceRead>;

#[derive(Debug)]
pub(crate) struct PieceRead {
    pub(crate) request: PieceRequest,
    /// Nobody else may have a view of it.
    pub(crate) buffer: Buffer,
}

// SAFETY: `request` keeps the files open. The memory is that of `buffer`, which does not move with the value; `get_mut`
// gives it only without other views, and only this value's owner could make one.
unsafe impl ReadTarget for PieceRead {
    fn part_count(&self) -> usize {
        self.request.parts.len()
    }

    fn parts(&mut self) -> Option<Vec<ReadPart>> {
        let Self { request, buffer } = self;
        let parts = request.parts.iter();
        let places: Vec<usize> = parts.map(|part| part.place(buffer)).collect();
        let memory = buffer.get_mut()?;
        let (begin, len) = (memory.as_mut_ptr(), memory.len());
        let parts = request.parts.iter().zip(places).map(|(part, from)| {
            let fits = from.checked_add(part.ask)? <= len;
            fits.then(|| ReadPart {
                file: part.file.as_raw_fd(),
                offset: part.offset,
                memory: begin.wrapping_add(from),
                len: part.ask,
            })
        });
        parts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::BufferPool;

    fn read(parts: u64) -> PieceRead {
        let file = tempfile::tempfile().unwrap();
        let part = |k| (file.try_clone().unwrap(), k * 1_000, 100);
        let request = PieceRequest::of((0..parts).map(part));
        let buffer = BufferPool::default().take(request.room()).unwrap();
        PieceRead { request, buffer }
    }

    #[test]
    fn parts_follow_each_other_in_the_buffer() {
        let mut read = read(3);
        let parts = read.parts().unwrap();
        assert_eq!(parts.len(), read.part_count());
        let first = read.request.parts[0].place(&read.buffer);
        for (k, part) in (0..).zip(&parts) {
            assert_eq!((part.offset, part.len), (k as u64 * 1_000, 100));
            let place = part.memory.addr() - read.buffer.as_ptr().addr();
            assert_eq!(place, first + k * 100);
        }
    }

    #[test]
    fn a_buffer_of_which_there_is_another_view_or_that_is_too_short_is_not_read_to() {
        let mut shared = read(2);
        let _view = shared.buffer.clone();
        assert!(shared.parts().is_none());
        let mut short = read(2);
        short.buffer = BufferPool::default().take(1).unwrap();
        short.request.parts[1].ask = short.buffer.len();
        assert!(short.parts().is_none());
    }
}
