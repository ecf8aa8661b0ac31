//! Feeds whose samples come from elsewhere than a socket: a sound card, another protocol.
//!
//! A [`Driver`] is told when a run begins and gets a [`Pusher`], through which its own threads hand samples on, each time
//! with the index of the first. From there on they are frames like those of a socket: what comes late is put in order,
//! what is missing is a gap, what finds no room is counted, and times are estimated in the same way.

use std::fmt;

use isochrony_flow::Cause;
use isochrony_segment::DType;
use isochrony_time::Fixed;
use serde_json::{Map, Value};

use super::context::ReceiveContext;
use crate::feed_counts::add;
use crate::frame::{FrameHeader, HEADER_LEN};

/// Samples of a frame, at most; larger pushes become several.
const MAX_FRAME_SAMPLES: usize = 1 << 16;

/// What makes samples for a feed, in threads of its own.
pub trait Driver: Send + Sync + fmt::Debug {
    /// A run begins: push from now on.
    ///
    /// # Errors
    /// Whatever keeps it from beginning, as a device that is not there; it ends the run.
    fn begin(&self, to: Pusher) -> Result<(), Cause>;

    /// The run has ended: what is pushed arrives nowhere any more. Called once for each [`begin`](Self::begin).
    fn stop(&self);

    /// How a saved plan names it; None if it exists in this process only.
    fn saved(&self) -> Option<Map<String, Value>> {
        None
    }
}

/// Where samples belong that are pushed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushPosition {
    /// Index of the first, in a count of the driver's own, below 2^62. What is left out between pushes is missing.
    pub first: u64,
    /// When the first was taken, ns since 1970, by a clock that is believed as it is.
    pub time: Option<i64>,
    /// The same by this machine's clock, more or less late: a line is fitted through many of these. Neither: they were
    /// taken when they are pushed.
    pub taken: Option<i64>,
    /// FeedCounts the times that the driver began to count anew; what follows is then in a run of its own.
    pub session: u32,
}

/// Hands samples to the run of a feed. Clones push to the same run.
#[derive(Debug, Clone)]
pub struct Pusher {
    pub(super) context: ReceiveContext,
}

impl Pusher {
    /// Hands on samples in native byte order, if there is room; else they are dropped and counted, and are missing.
    /// Whether there was room. Never waits, so a device's own thread may call it.
    pub fn try_push(&self, samples: &[u8], position: PushPosition) -> bool {
        self.queue_frames(samples, position, false)
    }

    /// Hands on samples in native byte order, and waits for room; false if the run has ended.
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
                // Later pieces have no stamp of their own: the line through those of others says their time.
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
            // A session of its own is another sender's, which may begin at once.
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

    /// A time so many samples later.
    fn time_after(&self, time: i64, samples: u64) -> Option<i64> {
        time.checked_add((samples as f64 * 1e9 / self.context.rate_hz) as i64)
    }

    /// Type of the samples.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.context.dtype
    }

    /// FeedCounts something that came and was no samples.
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
