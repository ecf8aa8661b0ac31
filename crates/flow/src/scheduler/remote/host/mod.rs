//! A part of a plan on another host ([`Plan::on`](crate::Plan::on)), and the link that brings its results.
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
//! Messages are numbered. The client says how far it has read; until then the host keeps them, so a connection that broke goes
//! on where it was. The client grants a window of bytes ([`HostInbox::window`]): no more are under way.
//!
//! **Where the link is slow or gone** the buffer fills, then the sender waits and with it the source, as before a full link
//! between stages. A stored source loses nothing by that. A live one drops what finds no room, and announces it as a gap.
//!
//! **The same bits.** Items, breaks and marks arrive in the order in which the host computed them. What a feed's clock learned
//! travels before the items that follow it, so times are the same, too.
//!
//! **A host that is lost** is replaced by a new one of the same name, if there will be one. A feed goes on there as a new run, at
//! the index that the client has read ([`HostInbox::resumed`]); operators begin anew. A stored source ends the run with an error.

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

/// Reads a message as one that a host sends.
#[cfg(feature = "fuzzing")]
pub(super) fn read_message(port: crate::PortType, message: &[u8], causes: &dyn super::CauseCodec) {
    let _ = message::HostCodec::of(port).decode(message, "fuzz", causes, &[]);
}

/// What a cluster starts on a host.
pub struct HostRequest {
    /// Name or address of the worker.
    pub host: String,
    /// The plan, as [`Plan::to_sent`](crate::Plan::to_sent) gives it.
    pub form: serde_json::Value,
    /// What the plan refers to.
    pub objects: SentObjects,
    /// Takes what the host sends.
    pub inbox: std::sync::Arc<HostInbox>,
}
