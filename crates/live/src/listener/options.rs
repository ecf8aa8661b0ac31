//! What is listened to, and how.

use std::time::Duration;

use isochrony_segment::{ByteOrder, DType, free_memory, has_free_memory};
use isochrony_time::Rate;

use super::Listener;
use crate::LiveError;
use crate::frame::MAX_FRAME;
use crate::receive::{Address, Feed, Framing};

/// What is listened to, and how.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Type of the samples.
    pub dtype: DType,
    /// Order of their bytes, where samples come without frames of ours.
    pub order: ByteOrder,
    /// Samples a second, nominally.
    pub rate: Rate,
    /// Name of the stream; the address if empty.
    pub name: String,
    /// Unit of the values; empty if unknown.
    pub unit: String,
    /// What comes.
    pub framing: Framing,
    /// How long a frame that came early waits for those before it.
    pub reorder: Duration,
    /// Most bytes that wait for the plan.
    pub buffer: usize,
    /// Largest frame in bytes; what is larger is none.
    pub max_frame: usize,
    /// A sender's stamp further off than this means that its clock was set.
    pub step: Duration,
    /// The feed ends when nothing came for so long; None: never.
    pub silence: Option<Duration>,
    /// Whether other machines may reach it.
    pub anyone: bool,
    /// Another feed that is sampled by the same clock: an index of one is then the same time as that of the other, and
    /// both are the sender's own. None: the two meet by civil time.
    pub clock: Option<Listener>,
}

impl Options {
    /// The stream's name.
    pub(super) fn name_at(&self, bound: Address) -> String {
        match self.name.as_str() {
            "" => bound.to_string(),
            name => name.to_owned(),
        }
    }

    /// Frames of ours, put in order within 50 ms; 32 MiB wait for a plan that falls behind; only this machine.
    #[must_use]
    pub fn new(dtype: DType, rate: Rate) -> Self {
        Self {
            dtype,
            order: ByteOrder::Little,
            rate,
            name: String::new(),
            unit: String::new(),
            framing: Framing::Isochrony,
            reorder: Duration::from_millis(50),
            buffer: 32 << 20,
            max_frame: MAX_FRAME,
            step: Duration::from_millis(10),
            silence: None,
            anyone: false,
            clock: None,
        }
    }

    pub(super) fn check(&self, address: &Address) -> Result<(), LiveError> {
        let refused = |option, got: String, legal: &str| {
            Err(LiveError::Option {
                option,
                got,
                legal: legal.into(),
            })
        };
        if self.buffer == 0 {
            return refused("buffer", "0".into(), "bytes from 1");
        }
        if !has_free_memory(self.buffer as u64) {
            let legal = format!(
                "bytes from 1 to {}, the memory that is free on this machine",
                free_memory()
            );
            return refused("buffer", self.buffer.to_string(), &legal);
        }
        if !(64..=1 << 28).contains(&self.max_frame) {
            let legal = "bytes from 64 to 268435456";
            return refused("max_frame", self.max_frame.to_string(), legal);
        }
        if self.reorder > Duration::from_secs(3600) {
            let legal = "seconds from 0 to 3600";
            return refused("reorder", self.reorder.as_secs_f64().to_string(), legal);
        }
        if matches!(self.framing, Framing::Counter { .. }) && !matches!(address, Address::Udp(_)) {
            let legal = "isochrony or raw: counters number datagrams, which only udp:// has";
            return refused("framing", self.framing.name().into(), legal);
        }
        if let Some(other) = &self.clock {
            let got = || other.0.options.name_at(other.0.address);
            if other.0.options.rate != self.rate {
                let legal = format!("a feed of {} Hz, which this one has", self.rate);
                return refused("clock", got(), &legal);
            }
            if matches!(other.0.feed, Feed::Driven(_)) || *address == Address::Driven {
                return refused(
                    "clock",
                    got(),
                    "none: only feeds of senders have a common clock",
                );
            }
            if !other.0.axis.share() {
                return refused("clock", got(), "a feed that no plan reads yet");
            }
        }
        if !address.is_local() && !self.anyone {
            return Err(LiveError::Exposed {
                address: address.to_string(),
            });
        }
        Ok(())
    }
}
