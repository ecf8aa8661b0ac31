//! Copies frames into segments, whose memory is reused.

use std::time::Duration;

use isochrony_flow::OpError;
use isochrony_segment::{Buffer, BufferMut, DType, SigSeg, StreamId};

use crate::address::FeedFraming;
use crate::listener::options::ListenOptions;

const MAX_REUSABLE_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct SegmentBuilder {
    dtype: DType,
    stream: StreamId,
    capacity: u64,
    /// Bytes to reverse in samples of the other byte order.
    swap: Option<usize>,
    partial: Option<PartialSegment>,
    spare: Vec<Buffer>,
}

#[derive(Debug)]
struct PartialSegment {
    memory: Buffer,
    start: i64,
    samples: u64,
    arrived: Duration,
}

#[derive(Debug)]
pub(super) struct BuiltSegment {
    pub(super) segment: SigSeg,
    pub(super) arrived: Duration,
}

impl SegmentBuilder {
    pub(super) fn new(options: &ListenOptions, stream: StreamId, capacity: u64) -> Self {
        let foreign = options.framing != FeedFraming::Isochrony && !options.order.is_native();
        Self {
            dtype: options.dtype,
            stream,
            capacity,
            swap: foreign.then_some(options.dtype.component_size()),
            partial: None,
            spare: Vec::new(),
        }
    }

    /// Appends as many samples as fit. Returns their bytes, and the segment if full.
    pub(super) fn append(
        &mut self,
        from: i64,
        bytes: &[u8],
        arrived: Duration,
    ) -> Result<(usize, Option<BuiltSegment>), OpError> {
        let size = self.dtype.size();
        let mut partial = match self.partial.take() {
            Some(partial) => partial,
            None => PartialSegment {
                memory: self.take_memory()?,
                start: from,
                samples: 0,
                arrived,
            },
        };
        let room = self.capacity - partial.samples;
        let take = (room as usize * size).min(bytes.len());
        let at = partial.samples as usize * size;
        let memory = partial.memory.get_mut().unwrap_or_default();
        if let Some(memory) = memory.get_mut(at..at + take) {
            memory.copy_from_slice(&bytes[..take]);
            if let Some(component) = self.swap {
                memory.chunks_exact_mut(component).for_each(<[u8]>::reverse);
            }
        }
        let samples = (take / size) as u64;
        partial.samples += samples;
        self.partial = Some(partial);
        let full = if room == samples { self.flush() } else { None };
        Ok((take, full))
    }

    fn take_memory(&mut self) -> Result<Buffer, OpError> {
        let free = self
            .spare
            .iter_mut()
            .position(|memory| memory.get_mut().is_some());
        if let Some(free) = free {
            return Ok(self.spare.swap_remove(free));
        }
        let bytes = self.capacity as usize * self.dtype.size();
        Ok(BufferMut::zeroed(bytes)?.freeze())
    }

    pub(super) fn flush(&mut self) -> Option<BuiltSegment> {
        let partial = self.partial.take()?;
        let bytes = partial.samples as usize * self.dtype.size();
        // A few samples must not pin the memory of many.
        let values = match BufferMut::zeroed(bytes) {
            Ok(mut exact) if bytes < partial.memory.len() / 4 => {
                exact
                    .bytes_mut()
                    .copy_from_slice(&partial.memory.bytes()[..bytes]);
                Some(exact.freeze())
            }
            _ => partial.memory.slice(0..bytes),
        };
        let segment = values
            .and_then(|values| SigSeg::new(values, partial.start, self.dtype, self.stream).ok());
        let kept: usize = self.spare.iter().map(Buffer::len).sum();
        if self.spare.is_empty() || kept + partial.memory.len() <= MAX_REUSABLE_BYTES {
            self.spare.push(partial.memory);
        }
        segment.map(|segment| BuiltSegment {
            segment,
            arrived: partial.arrived,
        })
    }
}
