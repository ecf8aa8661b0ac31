//! What a frame says of itself, what is plausible, and why a frame is rejected.

use std::time::Duration;

use isochrony_time::{Fixed, Rate};

/// Seconds of samples by which a frame may be ahead of what came before.
pub const MAX_AHEAD_SECONDS: f64 = 10.0;
/// Frames that agree and are believed, whatever they contradict.
pub const CONFIRMING_FRAMES: usize = 3;
/// Packets whose counts follow on one another and are believed to be a count that began anew.
pub const CONFIRMING_FRAMES_BACKWARD: usize = 8;
/// A sender that sent nothing for so long may be followed by another.
pub const SENDER_SILENCE: Duration = Duration::from_secs(1);
/// A jump over more seconds of samples is never believed: a hundred years.
pub(super) const MAX_JUMP_SECONDS: f64 = 3.2e9;
/// Clusters that wait at most.
pub(super) const MAX_CANDIDATES: usize = 32;
/// Largest rate at which stamps and samples drift apart.
pub(super) const MAX_DRIFT: f64 = 1e-3;
/// FeedCounts of a feed stay below, so that sums of them fit.
pub(super) const MAX_COUNT: u64 = 1 << 62;

/// How frames number themselves, and what is plausible.
#[derive(Debug, Clone, Copy)]
pub struct ScreenLimits {
    /// Nominal rate of the samples.
    pub rate: Rate,
    /// A stamp further off than this is a clock step, in ns.
    pub step_ns: f64,
    /// How long a frame that came early waits for those before it.
    pub reorder: Duration,
    /// Whether frames have one sender and come in order.
    pub is_connection: bool,
    /// Bits of a frame's number; it wraps if there are fewer than 64.
    pub number_bits: u32,
    /// Most bytes that wait to be confirmed.
    pub max_pending_bytes: usize,
    /// Frames are packets that are counted, and may be counted starts_session: the count of a session's first one, whose
    /// predecessors may be late. None: frames have the indices of a session.
    pub counter_origin: Option<u64>,
    /// FeedCounts are numbers as they come, whichever packet was the first.
    pub absolute_counts: bool,
}

/// What a frame says of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameClaim {
    /// Its sender, as far as it says who that is.
    pub session: u32,
    /// Its number: the index of its first sample, or a count of packets.
    pub number: u64,
    /// By how much the next number is higher: its samples, or one packet.
    pub length: u64,
    /// Samples of one number: 1, or those of a packet.
    pub samples_per_number: u64,
    /// Numbers right before it that stand for nothing: a gap of the recording.
    pub gap: u64,
    /// Stamp of the first sample, ns since 1970.
    pub time: Option<Fixed>,
    /// The sender says that its clock was set before it.
    pub step: bool,
    /// The sender says that nothing follows.
    pub end: bool,
}

/// Why a frame is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// Its number or stamp contradicts the others of its sender.
    Malformed,
    /// It is from long ago.
    Late,
    /// It is another sender's.
    Foreign,
}

/// What a frame looks like beside what came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plausibility {
    Plausible,
    Doubtful,
    Rejected(RejectReason),
}
