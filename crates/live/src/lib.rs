//! Feeds that arrive now: samples from UDP, TCP and standard input as recordings that plans scan, and the sender.
//!
//! ```text
//!   socket ── receiver thread ── bounded queue ── Source::pull ── the plan, depth first
//!             stamps arrival     (bytes)          parse, put in order,
//!                                                 mark what is lost
//! ```
//!
//! - [`frame`]: what is on the wire. A frame says the index of its first sample, so loss is known to the sample.
//! - [`screen`]: which frames belong to the feed, and which nothing confirms; pure, too.
//! - [`order`]: puts frames in order within a stated window; pure, no clock and no socket.
//! - [`arrivals`]: the civil time of each sample, from the sender's stamps or from when frames arrived.
//! - [`receive`]: the threads that read sockets. They do nothing else, so that a slow plan does not lose what the
//!   kernel's small buffer cannot hold.
//! - [`Listener`]: all of this as a [`Recording`](isochrony_flow::Recording).
//! - [`Driver`] and [`Pusher`]: feeds whose samples come from elsewhere than a socket.
//! - [`FollowedSignal`]: a stored signal that another process still appends to, as a recording, too.
//! - [`send`]: samples onto the wire, with faults on request; [`ToWire`] sends what a plan gives.
//!
//! **Nothing is lost in silence.** Whatever does not reach the plan is counted by its cause in [`FeedCounts`], and every
//! sample whose index is known is within a gap that the plan is told of, unless nothing follows it. Where the source can
//! wait (TCP, standard input) a full queue holds it back; where it cannot (UDP) what does not fit is dropped, counted and
//! a gap.
//!
//! **Memory** is bounded by `buffer` bytes of packets that wait (and some hundred bytes beside each), the samples of
//! `reorder` and a second more that wait for those before them, twice the largest frame, and the segments that the plan
//! keeps.

mod address;
mod error;
mod feed_counts;
mod follow;
pub mod frame;
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
pub use listener::{Latency, ListenOptions, Listener, SamplingClock};
pub use receive::{Driver, PushPosition, Pusher};
pub use to_wire::ToWire;
