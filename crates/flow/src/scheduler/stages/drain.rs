//! What an interrupt does to stages: sources stop, and what they gave before is still delivered.
//!
//! One thread would have delivered it before it asked the source again. So stages go on until nothing is left in links
//! and reorder buffers, but not for long.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// The user's callback asked before, and whether it does so now.
    was_asked: AtomicBool,
    is_asking: AtomicBool,
}

impl Drain {
    pub(super) fn new(parent: Option<&Interrupt>) -> Self {
        Self {
            asked: parent.map_or_else(Interrupt::default, Interrupt::child),
            ends: Interrupt::default(),
            begun: OnceLock::new(),
            was_asked: AtomicBool::new(false),
            is_asking: AtomicBool::new(false),
        }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_requested()
    }

    /// Takes in what the user's callback returned, which several executors of a thread call. A second request ends it
    /// at once; a callback that still returns false makes none.
    pub(super) fn callback_returned(&self, goes_on: bool) {
        if self.is_asking.swap(!goes_on, Ordering::AcqRel) || goes_on {
            return;
        }
        if self.was_asked.swap(true, Ordering::AcqRel) {
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
        let parent = Interrupt::default();
        parent.request();
        for drain in [Drain::new(None), Drain::new(Some(&parent))] {
            let returned = |goes_on| {
                drain.callback_returned(goes_on);
                drain.poll()
            };
            assert!(returned(true) && returned(false) && drain.is_asked());
            assert!(returned(false), "the same request");
            assert!(returned(true) && !returned(false));
        }
    }
}
