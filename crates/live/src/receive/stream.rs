//! Splits byte streams into frames or samples, and reads standard input.

use std::io::{self, Read};

use super::context::ReceiveContext;
use crate::address::FeedFraming;
use crate::feed_counts::add;
use crate::frame::{FrameHeader, HEADER_LEN, MAX_DESCRIPTION_BYTES, SenderDescription};

pub(super) const READ_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamState {
    Reading,
    /// The sender's end frame arrived.
    Ended,
    /// Bytes are malformed, or the run has ended.
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamFront {
    /// Length, and whether it is the last.
    Complete(usize, bool),
    Incomplete,
    Malformed,
}

#[derive(Debug)]
pub(super) struct StreamBuffer {
    bytes: Vec<u8>,
    /// Nothing was queued since it became current.
    is_first: bool,
}

impl StreamBuffer {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            is_first: true,
        }
    }

    pub(super) fn push(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
    }

    pub(super) fn mark_first(&mut self) {
        self.is_first = true;
    }

    fn front(&self, from: usize, context: &ReceiveContext) -> StreamFront {
        let rest = &self.bytes[from..];
        if context.framing != FeedFraming::Isochrony {
            let size = context.dtype.size();
            let most = context.max_frame / size * size;
            return match most.min(rest.len() / size * size) {
                0 => StreamFront::Incomplete,
                len => StreamFront::Complete(len, false),
            };
        }
        match FrameHeader::frame_len(rest) {
            Ok(Some(len)) if len > context.max_frame && !is_description(rest, len, context) => {
                StreamFront::Malformed
            }
            Ok(Some(len)) if len <= rest.len() => {
                StreamFront::Complete(len, FrameHeader::read(rest).is_ok_and(|header| header.end))
            }
            Ok(_) => StreamFront::Incomplete,
            Err(_) => StreamFront::Malformed,
        }
    }

    /// Verified by checksum.
    pub(super) fn verified_front(&self, context: &ReceiveContext) -> StreamFront {
        match self.front(0, context) {
            StreamFront::Complete(len, _) if context.framing == FeedFraming::Isochrony => {
                match FrameHeader::parse(&self.bytes[..len]) {
                    Ok((header, _)) if header.dtype == context.dtype => {
                        StreamFront::Complete(len, header.end)
                    }
                    _ => StreamFront::Malformed,
                }
            }
            other => other,
        }
    }

    pub(super) fn queue_complete(&mut self, context: &ReceiveContext) -> (StreamState, usize) {
        let (mut from, mut frames) = (0, 0);
        let mut state = StreamState::Reading;
        while state == StreamState::Reading {
            match self.front(from, context) {
                StreamFront::Incomplete => break,
                StreamFront::Malformed => {
                    add(&context.counters.frames, 1);
                    add(&context.counters.malformed_frames, 1);
                    from = self.bytes.len();
                    state = StreamState::Stopped;
                }
                StreamFront::Complete(len, ends) => {
                    add(&context.counters.frames, 1);
                    let is_first = std::mem::take(&mut self.is_first);
                    if !context
                        .queue
                        .push(&self.bytes[from..from + len], context.now(), is_first)
                    {
                        state = StreamState::Stopped;
                    } else if ends {
                        state = StreamState::Ended;
                    }
                    from += len;
                    frames += 1;
                }
            }
        }
        self.bytes.drain(..from);
        (state, frames)
    }

    /// A partial frame or sample is malformed.
    pub(super) fn finish(self, context: &ReceiveContext) {
        if !self.bytes.is_empty() && !context.queue.is_stopped() {
            add(&context.counters.malformed_frames, 1);
        }
    }
}

/// Descriptions are exempt from `max_frame`.
fn is_description(bytes: &[u8], len: usize, context: &ReceiveContext) -> bool {
    let carries =
        |header: FrameHeader| header.dtype == SenderDescription::carrier_dtype(context.dtype);
    len <= HEADER_LEN + MAX_DESCRIPTION_BYTES && FrameHeader::read(bytes).is_ok_and(carries)
}

pub(super) fn read_stdin(context: &ReceiveContext) {
    let mut buffer = StreamBuffer::new();
    let mut piece = vec![0; READ_BYTES];
    let mut input = io::stdin().lock();
    let mut state = StreamState::Reading;
    while state == StreamState::Reading {
        match input.read(&mut piece) {
            Ok(len) if len > 0 => {
                buffer.push(&piece[..len]);
                state = buffer.queue_complete(context).0;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    // Counted before the run learns of the end.
    buffer.finish(context);
    if context.framing == FeedFraming::Isochrony
        && state != StreamState::Ended
        && !context.queue.is_stopped()
    {
        // A sender of frames marks its end.
        add(&context.counters.truncated_feeds, 1);
    }
    context.queue.end();
}
