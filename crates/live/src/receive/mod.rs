//! Receiver threads, one per feed, and the queue between them and the run.
//!
//! A receiver only reads, stamps and queues, so a slow plan does not overflow the kernel's buffer.
//!
//! ```text
//!  udp          one socket            try_push ─┐
//!  connections  64 peers, one is read     push ─┤
//!  stream       standard input            push ─┼─▶ PacketQueue ─▶ the run: pop, recycle
//!  driver       threads of others     try_push ─┤       │
//!                                      or push ─┘       └ a pop wakes a waiting push; a push unparks the run
//! ```

mod connections;
mod context;
mod driver;
mod packet_queue;
mod run_clock;
mod stream;
mod thread;
mod udp;

pub(crate) use context::ReceiveContext;
pub use driver::{Driver, PushPosition, Pusher};
#[cfg(test)]
pub(crate) use packet_queue::ArrivalTime;
pub(crate) use packet_queue::{Packet, PacketQueue};
pub(crate) use run_clock::RunClock;
pub(crate) use thread::{FeedInput, ReceiverThread};
