//! Claims of frames, limits of plausibility, reasons for rejection.

use std::time::Duration;

use isochrony_time::{Fixed, Rate};

/// How far ahead a plausible frame may be.
pub const MAX_AHEAD_SECONDS: f64 = 10.0;
/// Frames that confirm a candidate sequence.
pub const CONFIRMING_FRAMES: usize = 3;
/// Packets that confirm a restarted counter.
pub const CONFIRMING_FRAMES_BACKWARD: usize = 8;
/// Silence after which another sender may follow.
pub const SENDER_SILENCE: Duration = Duration::from_secs(1);
/// Longest admissible jump: a hundred years.
pub(super) const MAX_JUMP_SECONDS: f64 = 3.2e9;
pub(super) const MAX_CANDIDATES: usize = 32;
/// Largest relative drift between stamps and samples.
pub(super) const MAX_DRIFT: f64 = 1e-3;
/// Upper bound of counts, so that sums do not overflow.
pub(super) const MAX_COUNT: u64 = 1 << 62;

/// Numbering of frames, and limits of plausibility.
#[derive(Debug, Clone, Copy)]
pub struct ScreenLimits {
    /// Nominal sample rate.
    pub rate: Rate,
    /// Stamp deviation that is a clock step.
    pub step_ns: f64,
    /// How long the reorder buffer waits.
    pub reorder: Duration,
    /// Frames have one sender and keep their order.
    pub is_connection: bool,
    /// Bits of a number; fewer than 64 wrap.
    pub number_bits: u32,
    /// Maximum bytes of held frames.
    pub max_pending_bytes: usize,
    /// For packet counters, which may restart: count of a session's first packet, with room for late ones. None:
    /// numbers are sample indices.
    pub counter_origin: Option<u64>,
    /// Counters are taken as they are, without an origin.
    pub absolute_counts: bool,
}

/// A frame's claims about itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameClaim {
    /// Session; 0: not stated.
    pub session: u32,
    /// Index of the first sample, or packet counter.
    pub number: u64,
    /// Difference to the next number: its samples, or 1.
    pub length: u64,
    /// 1, or samples of a packet.
    pub samples_per_number: u64,
    /// Unrecorded numbers right before it.
    pub gap: u64,
    /// Stamp of the first sample, ns since 1970.
    pub time: Option<Fixed>,
    /// The sender's clock was set.
    pub step: bool,
    /// Nothing follows.
    pub end: bool,
}

/// Why a frame is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// Contradicts the sender's other frames.
    Malformed,
    /// Too old.
    Late,
    /// From another sender.
    Foreign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plausibility {
    Plausible,
    Doubtful,
    Rejected(RejectReason),
}
