//! What an interrupt does to stages: sources stop, and what they gave before is still delivered.
//!
//! One thread would have delivered it before it asked the source again. So stages go on until nothing is left in links
//! and reorder buffers, but not for long.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use isochrony_runtime::Interrupt;

/// An execution ends within 100 ms: the caller's thread polls every 25 ms, and then needs some time to end.
const MAX_DRAIN: Duration = Duration::from_millis(40);

pub(super) struct Drain {
    /// Sources stop.
    pub(super) asked: Interrupt,
    /// All operators stop.
    pub(super) ends: Interrupt,
    begun: OnceLock<Instant>,
}

impl Drain {
    pub(super) fn new(parent: Option<&Interrupt>) -> Self {
        Self {
            asked: parent.map_or_else(Interrupt::default, Interrupt::child),
            ends: Interrupt::default(),
            begun: OnceLock::new(),
        }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_requested()
    }

    /// A second call ends it at once.
    pub(super) fn ask(&self) {
        if self.is_asked() {
            self.ends.request();
        }
        self.asked.request();
    }

    /// Returns whether operators go on.
    pub(super) fn poll(&self) -> bool {
        if self.is_asked() && self.begun.get_or_init(Instant::now).elapsed() >= MAX_DRAIN {
            self.ends.request();
        }
        !self.ends.is_requested()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_takes_a_moment_and_a_second_request_ends_it() {
        let parent = Interrupt::default();
        let drain = Drain::new(Some(&parent));
        assert!(drain.poll() && !drain.is_asked());
        parent.request();
        assert!(drain.is_asked() && drain.poll());
        let begun = Instant::now();
        while drain.poll() {
            assert!(begun.elapsed() < Duration::from_secs(20));
        }
        assert!(begun.elapsed() >= MAX_DRAIN / 2 && drain.ends.is_requested());
        let drain = Drain::new(None);
        drain.ask();
        assert!(drain.poll());
        drain.ask();
        assert!(!drain.poll());
    }
}
