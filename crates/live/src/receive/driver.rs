//! Feeds without a socket: a sound card, another protocol.
//!
//! A run gives a [`Driver`] a [`Pusher`], through which its threads push samples like frames from a socket.

use std::fmt;

use isochrony_flow::Cause;
use isochrony_segment::DType;
use isochrony_time::Fixed;
use serde_json::{Map, Value};

use super::context::ReceiveContext;
use crate::feed_counts::add;
use crate::frame::{FrameHeader, HEADER_LEN};

/// Larger pushes become several frames.
const MAX_FRAME_SAMPLES: usize = 1 << 16;

/// Produces the samples of a feed in its own threads.
pub trait Driver: Send + Sync + fmt::Debug {
    /// A run starts: push from now on.
    ///
    /// # Errors
    /// Why it cannot start; ends the run.
    fn begin(&self, to: Pusher) -> Result<(), Cause>;

    /// The run has ended, once per [`begin`](Self::begin).
    fn stop(&self);

    /// Form in saved plans, if any.
    fn saved(&self) -> Option<Map<String, Value>> {
        None
    }
}

/// Index and time of pushed samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushPosition {
    /// Index in the driver's count, below 2^62. Missing indices are lost.
    pub first: u64,
    /// Exact time of the first sample, ns since 1970.
    pub time: Option<i64>,
    /// Time by this machine's clock, with jitter: a line is fitted. Without either, the time of the push counts.
    pub taken: Option<i64>,
    /// Restarts of the count, each of which starts a run.
    pub session: u32,
}

/// Pushes samples into a run. Clones push to the same run.
#[derive(Debug, Clone)]
pub struct Pusher {
    pub(super) context: ReceiveContext,
}

impl Pusher {
    /// Pushes samples (native byte order) if there is room, else drops and counts them; returns which. Never waits,
    /// so a device's callback may call it.
    pub fn try_push(&self, samples: &[u8], position: PushPosition) -> bool {
        self.queue_frames(samples, position, false)
    }

    /// As [`try_push`](Self::try_push), but waits for room. False if the run has ended.
    pub fn push(&self, samples: &[u8], position: PushPosition) -> bool {
        self.queue_frames(samples, position, true)
    }

    fn queue_frames(&self, samples: &[u8], position: PushPosition, wait: bool) -> bool {
        let size = self.context.dtype.size();
        let most = ((self.context.max_frame.saturating_sub(HEADER_LEN)) / size)
            .clamp(1, MAX_FRAME_SAMPLES);
        let mut frame = Vec::with_capacity(HEADER_LEN + samples.len().min(most * size));
        let mut all = true;
        for (piece, samples) in samples.chunks(most * size).enumerate() {
            let before = (piece * most) as u64;
            let of_first_piece = |time: Option<i64>| time.filter(|_| piece == 0);
            let header = FrameHeader {
                // The fitted line gives the times of later pieces.
                time: of_first_piece(position.time)
                    .or_else(|| self.time_after(position.time?, before))
                    .map(Fixed::from_int),
                ..FrameHeader::new(
                    self.context.dtype,
                    position.session,
                    position.first.saturating_add(before),
                )
            };
            frame.clear();
            header.write(samples, &mut frame);
            let mut arrival = self.context.now();
            arrival.sampled_ns =
                of_first_piece(position.taken).or_else(|| self.time_after(position.taken?, before));
            add(&self.context.counters.frames, 1);
            let queue = &self.context.queue;
            // A new session is trusted at once.
            let room = if wait {
                queue.push(&frame, arrival, true)
            } else {
                !queue.is_stopped() && queue.try_push(&frame, arrival, true)
            };
            if !room {
                all = false;
                if !wait {
                    add(&self.context.counters.overrun_frames, 1);
                }
            }
        }
        all
    }

    fn time_after(&self, time: i64, samples: u64) -> Option<i64> {
        time.checked_add((samples as f64 * 1e9 / self.context.rate_hz) as i64)
    }

    /// Dtype of the samples.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.context.dtype
    }

    /// Counts malformed input.
    pub fn malformed(&self) {
        add(&self.context.counters.frames, 1);
        add(&self.context.counters.malformed_frames, 1);
    }

    /// Nothing follows.
    pub fn end(&self) {
        self.context.queue.end();
    }

    /// Whether the run has ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.context.queue.is_stopped()
    }
}
