//! Streams of bytes: frames, or samples, one behind the other; and standard input.

use std::io::{self, Read};

use super::{Framing, Reading};
use crate::counts::add;
use crate::frame::{HEADER, Header, MAX_DESCRIPTION, SenderDescription};

/// Bytes that are read at once.
pub(super) const PIECE: usize = 64 << 10;

/// How a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamState {
    Reading,
    /// The sender said that nothing follows.
    Ended,
    /// What came is no frame, or nobody listens.
    Stop,
}

/// What the bytes of a stream begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamStart {
    /// So many bytes that belong together, and whether they are the last.
    Whole(usize, bool),
    /// Too few bytes came to say.
    Part,
    /// No frame.
    Malformed,
}

/// Bytes of a stream that were not handed over yet.
#[derive(Debug)]
pub(super) struct Parts {
    bytes: Vec<u8>,
    /// Nothing of it was handed over since it is listened to.
    fresh: bool,
}

impl Parts {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            fresh: true,
        }
    }

    pub(super) fn push(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
    }

    /// What comes next is the first of a stream that takes another's place.
    pub(super) fn begin(&mut self) {
        self.fresh = true;
    }

    fn front(&self, from: usize, to: &Reading) -> StreamStart {
        let rest = &self.bytes[from..];
        if to.framing != Framing::Isochrony {
            let size = to.dtype.size();
            let most = to.max_frame / size * size;
            return match most.min(rest.len() / size * size) {
                0 => StreamStart::Part,
                len => StreamStart::Whole(len, false),
            };
        }
        match Header::frame_len(rest) {
            Ok(Some(len)) if len > to.max_frame && !is_description(rest, len, to) => {
                StreamStart::Malformed
            }
            Ok(Some(len)) if len <= rest.len() => {
                StreamStart::Whole(len, Header::read(rest).is_ok_and(|header| header.end))
            }
            Ok(_) => StreamStart::Part,
            Err(_) => StreamStart::Malformed,
        }
    }

    /// What it begins with, looked at to the last bit.
    pub(super) fn checked_front(&self, to: &Reading) -> StreamStart {
        match self.front(0, to) {
            StreamStart::Whole(len, _) if to.framing == Framing::Isochrony => {
                match Header::parse(&self.bytes[..len]) {
                    Ok((header, _)) if header.dtype == to.dtype => {
                        StreamStart::Whole(len, header.end)
                    }
                    _ => StreamStart::Malformed,
                }
            }
            other => other,
        }
    }

    /// Queues what is whole, and says how many frames that were.
    pub(super) fn hand_over(&mut self, to: &Reading) -> (StreamState, usize) {
        let (mut from, mut frames) = (0, 0);
        let mut on = StreamState::Reading;
        while on == StreamState::Reading {
            match self.front(from, to) {
                StreamStart::Part => break,
                StreamStart::Malformed => {
                    add(&to.counters.frames, 1);
                    add(&to.counters.malformed_frames, 1);
                    from = self.bytes.len();
                    on = StreamState::Stop;
                }
                StreamStart::Whole(len, ends) => {
                    add(&to.counters.frames, 1);
                    let fresh = std::mem::take(&mut self.fresh);
                    if !to.queue.put(&self.bytes[from..from + len], to.now(), fresh) {
                        on = StreamState::Stop;
                    } else if ends {
                        on = StreamState::Ended;
                    }
                    from += len;
                    frames += 1;
                }
            }
        }
        self.bytes.drain(..from);
        (on, frames)
    }

    /// Nothing follows. Half a frame, or half a sample, is malformed.
    pub(super) fn finish(self, to: &Reading) {
        if !self.bytes.is_empty() && !to.queue.is_stopped() {
            add(&to.counters.malformed_frames, 1);
        }
    }
}

/// Whether a frame of so many bytes may describe the recording: then it is taken whatever the largest frame of samples.
fn is_description(bytes: &[u8], len: usize, to: &Reading) -> bool {
    let carries = |header: Header| header.dtype == SenderDescription::carrier(to.dtype);
    len <= HEADER + MAX_DESCRIPTION && Header::read(bytes).is_ok_and(carries)
}

/// Reads standard input to its end.
pub(super) fn read_stdin(to: &Reading) {
    let mut parts = Parts::new();
    let mut piece = vec![0; PIECE];
    let mut input = io::stdin().lock();
    let mut on = StreamState::Reading;
    while on == StreamState::Reading {
        match input.read(&mut piece) {
            Ok(len) if len > 0 => {
                parts.push(&piece[..len]);
                on = parts.hand_over(to).0;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    // What is left of it is counted before the run is told.
    parts.finish(to);
    if to.framing == Framing::Isochrony && on != StreamState::Ended && !to.queue.is_stopped() {
        // Who sends frames says when all was sent.
        add(&to.counters.truncated_feeds, 1);
    }
    to.queue.end();
}
