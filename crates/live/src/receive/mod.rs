//! The threads that read sockets and standard input, one a feed, and the queue between them and the run; and feeds whose
//! samples threads of others make.
//!
//! A thread does nothing but read, stamp and queue, so that what the kernel cannot hold is here. The queue is bounded in
//! bytes. What can wait (TCP, standard input) waits for room; a datagram that finds none is dropped and counted.

mod connections;
mod context;
mod driver;
mod packet_queue;
mod stream;
mod thread;
mod udp;

pub(crate) use context::ReceiveContext;
pub use driver::{Driver, PushPosition, Pusher};
pub(crate) use packet_queue::{Packet, PacketQueue};
pub(crate) use thread::{FeedInput, ReceiverThread};
