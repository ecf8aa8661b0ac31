//! When a sender sends its recording's description.

use std::time::{Duration, Instant};

/// A receiver needs three, and some may be lost.
const DATAGRAM_COPIES: u32 = 5;
/// For late listeners.
const DATAGRAM_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct DescriptionSchedule {
    pub(super) frame: Vec<u8>,
    is_datagram: bool,
    transmissions: u32,
    last: Instant,
}

impl DescriptionSchedule {
    pub(super) fn new(frame: Vec<u8>, is_datagram: bool) -> Self {
        Self {
            frame,
            is_datagram,
            transmissions: 0,
            last: Instant::now(),
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.transmissions == 0 || self.is_datagram && self.last.elapsed() >= DATAGRAM_INTERVAL
    }

    pub(super) fn is_useful_at_end(&self) -> bool {
        self.transmissions == 0 || self.is_datagram
    }

    pub(super) fn copies(&self) -> u32 {
        if self.is_datagram { DATAGRAM_COPIES } else { 1 }
    }

    pub(super) fn mark_sent(&mut self) {
        self.transmissions = self.transmissions.saturating_add(1);
        self.last = Instant::now();
    }
}
