//! Frames' samples, copied into segments whose memory is used again when their readers are gone.

use std::time::Duration;

use isochrony_flow::{Item, OpError, Pulled};
use isochrony_segment::{Buffer, BufferMut, SigSeg};

use super::Live;
use crate::counts::add;
use crate::listener::session::Frame;
use crate::receive::Framing;

/// Most bytes of segments that are kept to be used again.
const REUSABLE_BYTES: usize = 64 << 20;

/// Samples of a segment that is being filled.
pub(super) struct Filling {
    memory: Buffer,
    start: i64,
    samples: u64,
    /// When its first frame arrived.
    came: Duration,
}

impl Live {
    /// Copies a frame's samples behind those of the segment, and as many segments as it needs.
    pub(super) fn fill(&mut self, mut from: i64, frame: &Frame, skip: u64) -> Result<(), OpError> {
        let options = &self.listener.0.options;
        let size = options.dtype.size();
        let swap = (options.framing != Framing::Isochrony && !options.order.is_native())
            .then_some(options.dtype.component_size());
        let bytes = frame.packet.bytes.get(frame.at + skip as usize * size..);
        let mut bytes = bytes.unwrap_or_default();
        while !bytes.is_empty() {
            let mut filling = match self.filling.take() {
                Some(filling) => filling,
                None => Filling {
                    memory: self.memory()?,
                    start: from,
                    samples: 0,
                    came: frame.packet.when.came,
                },
            };
            let room = self.segment - filling.samples;
            let take = (room as usize * size).min(bytes.len());
            let at = filling.samples as usize * size;
            // Nobody else has a reference to it yet.
            let memory = filling.memory.get_mut().unwrap_or_default();
            if let Some(memory) = memory.get_mut(at..at + take) {
                memory.copy_from_slice(&bytes[..take]);
                if let Some(component) = swap {
                    memory.chunks_exact_mut(component).for_each(<[u8]>::reverse);
                }
            }
            let samples = (take / size) as u64;
            filling.samples += samples;
            from = from.wrapping_add_unsigned(samples);
            bytes = &bytes[take..];
            self.filling = Some(filling);
            if room == samples {
                self.flush();
            }
        }
        Ok(())
    }

    /// Memory for a segment: some whose readers are gone, or new.
    fn memory(&mut self) -> Result<Buffer, OpError> {
        let free = self
            .memory
            .iter_mut()
            .position(|memory| memory.get_mut().is_some());
        if let Some(free) = free {
            return Ok(self.memory.swap_remove(free));
        }
        let bytes = self.segment as usize * self.listener.0.options.dtype.size();
        Ok(BufferMut::zeroed(bytes)?.freeze())
    }

    /// The segment goes out as it is.
    pub(super) fn flush(&mut self) {
        let Some(filling) = self.filling.take() else {
            return;
        };
        let inner = &self.listener.0;
        let bytes = filling.samples as usize * inner.options.dtype.size();
        // A few samples must not keep the memory of many.
        let values = match BufferMut::zeroed(bytes) {
            Ok(mut exact) if bytes < filling.memory.len() / 4 => {
                exact
                    .bytes_mut()
                    .copy_from_slice(&filling.memory.bytes()[..bytes]);
                Some(exact.freeze())
            }
            _ => filling.memory.slice(0..bytes),
        };
        let segment = values.and_then(|values| {
            SigSeg::new(values, filling.start, inner.options.dtype, inner.stream).ok()
        });
        let kept: usize = self.memory.iter().map(Buffer::len).sum();
        if self.memory.is_empty() || kept + filling.memory.len() <= REUSABLE_BYTES {
            self.memory.push(filling.memory);
        }
        if let Some(segment) = segment {
            add(&inner.counters.samples, filling.samples);
            self.given = Some(
                self.given
                    .map_or(filling.came, |came| came.min(filling.came)),
            );
            self.ready.push_back(Pulled::Item(Item::from(segment)));
        }
    }
}
