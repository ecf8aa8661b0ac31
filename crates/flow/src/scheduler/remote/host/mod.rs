//! A part of a plan on another host ([`Plan::on`](crate::Plan::on)), and the link that returns its results.
//!
//! ```text
//!  host of the sensor                                            client
//!  HostRun: a thread with all that is before `on`                the rest of the plan
//!    source -> operators -> HostSender                             HostSource -> operators -> sink
//!                              |  message 7, 8, ...                    ^
//!                           SendBuffer  == TCP, by the cluster ==> HostInbox
//!                           7 8 9       <== consumed: 6 ==========
//! ```
//!
//! The host keeps numbered messages until the client acknowledges them, so a broken connection resumes. The client
//! grants a window of bytes in flight ([`HostInbox::window`]).
//!
//! **A slow or broken link** fills the buffer, then blocks the sender and the source. A stored source loses nothing; a
//! live one drops samples and announces a gap.
//!
//! **Same bits.** Items, breaks and marks arrive in the order computed, a feed's clock updates before the items that
//! follow them.
//!
//! **A lost host** is replaced by a new one of the same name, if any. A feed continues there as a new run, at the index
//! that the client has read ([`HostInbox::resumed`]); operators start anew. A stored source ends the run with an error.

mod inbox;
mod message;
mod placement;
mod run;
mod send_buffer;
mod sender;
mod source;

pub use inbox::{HostError, HostInbox};
pub(crate) use placement::{link_bytes, place, replace_with_stand_ins};
pub use run::HostRun;
pub use send_buffer::SendBuffer;

use crate::SentObjects;

#[cfg(feature = "fuzzing")]
pub(super) fn read_message(port: crate::PortType, message: &[u8], causes: &dyn super::CauseCodec) {
    let _ = message::HostCodec::of(port).decode(message, "fuzz", causes, &[]);
}

/// Request to start a plan on a host.
pub struct HostRequest {
    /// Worker name or address.
    pub host: String,
    /// Plan from [`Plan::to_sent`](crate::Plan::to_sent).
    pub form: serde_json::Value,
    /// Objects of the plan.
    pub objects: SentObjects,
    /// Receives the host's messages.
    pub inbox: std::sync::Arc<HostInbox>,
}
