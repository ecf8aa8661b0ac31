//! Ours: the product's segments over reused blocks.

use std::sync::OnceLock;

use isochrony::SigSeg;
use isochrony::segment::{Buffer, Sample, Stream, StreamId};
use isochrony::time::{Rate, TimebaseId};

use super::Segment;

/// Blocks of one size, reused once unreferenced.
#[derive(Default)]
pub struct Pool {
    blocks: Vec<Buffer>,
    next: usize,
}

impl Pool {
    /// Memory that `fill` has written, shared.
    pub fn block(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Buffer {
        // Blocks come back in order, so the next one is free or hardly any is.
        let count = self.blocks.len();
        let tried = (0..count.min(4)).map(|k| (self.next + k) % count);
        let free = tried.into_iter().find(|&at| {
            let block = &mut self.blocks[at];
            block.len() >= bytes && block.get_mut().is_some()
        });
        let at = free.unwrap_or_else(|| {
            self.blocks
                .push(Buffer::copy_of(&vec![0u8; bytes.next_power_of_two()]).expect("memory"));
            count
        });
        self.next = at + 1;
        let block = &mut self.blocks[at];
        fill(&mut block.get_mut().expect("nobody else has it")[..bytes]);
        block.slice(0..bytes).expect("in the block")
    }

    /// A segment with a copy of samples.
    pub fn segment<T: Sample>(&mut self, start: i64, samples: &[T], stream: StreamId) -> SigSeg {
        let bytes: &[u8] = bytemuck::cast_slice(samples);
        let buffer = self.block(bytes.len(), |memory| memory.copy_from_slice(bytes));
        SigSeg::new(buffer, start, T::DTYPE, stream).expect("whole samples")
    }
}

/// The stream of all samples made here.
pub fn stream() -> StreamId {
    // Interning takes a lock and a look-up.
    static MADE: OnceLock<StreamId> = OnceLock::new();
    *MADE.get_or_init(|| {
        let rate = Rate::from_hz(48_000).expect("a rate");
        Stream::new("made", TimebaseId(0), rate).intern()
    })
}

/// The product's segment.
pub struct Pooled(SigSeg);

/// A pool, and the stream's id.
pub struct Memory(Pool, StreamId);

impl Default for Memory {
    fn default() -> Self {
        Self(Pool::default(), stream())
    }
}

impl<T: Sample> Segment<T> for Pooled {
    type Memory = Memory;

    fn make(memory: &mut Memory, start: i64, samples: &[T]) -> Self {
        Self(memory.0.segment(start, samples, memory.1))
    }

    fn pass(&self) -> Self {
        Self(self.0.clone())
    }

    fn append(mut self, next: Self) -> Self {
        self.0.append(next.0).expect("adjacent");
        self
    }

    fn cut(&self, start: i64, end: i64) -> Self {
        Self(self.0.subseg(start..end).expect("within"))
    }

    fn start(&self) -> i64 {
        self.0.start()
    }

    fn len(&self) -> usize {
        self.0.len() as usize
    }

    fn visit(&self, each: &mut dyn FnMut(&[T])) {
        self.0.visit::<T>(each).expect("samples of this type");
    }
}
