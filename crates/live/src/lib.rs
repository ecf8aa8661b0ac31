//! Live feeds as recordings that plans scan, and their sender.
//!
//! ```text
//!  sender ─▶ socket ─▶ receiver thread ─▶ PacketQueue ─▶ run's thread: FeedSource::pull ─▶ operators, sinks
//!            (kernel)  reads, stamps      ≤ `buffer`     decode, screen, reorder,
//!                      the arrival        bytes          build segments
//! ```
//!
//! Waits and backpressure:
//!
//! ```text
//!  receiver of TCP, stdin   for room in the queue; its sender then for the socket or pipe
//!  receiver of UDP          for nobody: a datagram without room is dropped and counted
//!  driver's threads         Pusher::push for room, Pusher::try_push for nobody
//!  run                      pull returns Idle; a push or 20 ms wake the run
//!  end of the run           wakes a waiting receiver and joins it, but not stdin's
//! ```
//!
//! Memory bounds outside the execution's memory budget (buffer pools):
//!
//! ```text
//!  PacketQueue              `buffer` bytes, or one larger packet; 64 spare packets of 64 KiB
//!  FrameScreen              a quarter of `buffer`
//!  ReorderBuffer            `reorder` plus one second of samples
//!  TCP connections          64 × a frame of `max_frame` bytes and a read of 64 KiB
//!  late samples             `keep_late` bytes, and a frame that a plan has taken
//!  SegmentBuilder           the segment being filled, those the plan keeps, 64 MiB or one spare
//! ```
//!
//! **Every loss is counted** by cause in [`FeedCounts`]. Frames state their first index, so a loss becomes a gap of
//! known length, unless nothing follows.

mod address;
mod error;
mod feed_counts;
mod follow;
pub mod frame;
mod lateness;
mod listener;
mod receive;
pub mod reorder;
pub mod screen;
pub mod send;
pub mod timing;
mod to_wire;

pub use address::{Address, FeedFraming};
pub use error::LiveError;
pub use feed_counts::FeedCounts;
pub use follow::{FollowCounts, FollowOptions, FollowedSignal};
pub use isochrony_flow::Latency;
pub use listener::{LateRecording, LateSamples, ListenOptions, Listener, SamplingClock};
pub use receive::{Driver, PushPosition, Pusher};
pub use to_wire::ToWire;
