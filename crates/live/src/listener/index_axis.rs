//! The indices of a feed: their timebase, and what feeds of one clock have in common.
//!
//! Each feed has a timebase of its own, so that two feeds meet by civil time and never by index. Where the caller says
//! that they are sampled by one clock, they share an [`IndexAxis`]: then an index is the sender's own count, which one
//! converter counts alike for all of its channels, wherever each feed was joined. When the senders begin to count anew,
//! the feed that notices first says where on the axis that lies, behind all that any of them had before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_time::{Rate, TimeError, TimebaseId};

/// The index axis of one feed, or of several that share a clock.
#[derive(Debug)]
pub(super) struct IndexAxis {
    pub(super) timebase: TimebaseId,
    state: Mutex<AxisState>,
}

/// The clock that samples a feed, for another feed of the same converter; see [`Listener::sampling_clock`].
///
/// [`Listener::sampling_clock`]: crate::Listener::sampling_clock
#[derive(Debug, Clone)]
pub struct SamplingClock {
    pub(super) axis: Arc<IndexAxis>,
    pub(super) rate: Rate,
    /// Name of the feed, for messages.
    pub(super) feed: String,
    pub(super) is_driven: bool,
}

#[derive(Debug, Default)]
struct AxisState {
    shared: bool,
    /// Runs that read one of the feeds now.
    scans: usize,
    /// Behind the last index of all of them.
    end: i64,
    /// Where the senders' index 0 lies, each time that they began to count anew.
    session_bases: Vec<i64>,
}

impl IndexAxis {
    pub(super) fn new() -> Result<Self, TimeError> {
        Ok(Self {
            timebase: TimebaseId::unique()?,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, AxisState> {
        // Each change leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on several feeds have it; false if a run reads one, whose indices are given out already.
    pub(super) fn share(&self) -> bool {
        let mut state = self.lock();
        state.shared |= state.scans == 0;
        state.shared && state.scans == 0
    }

    pub(super) fn is_shared(&self) -> bool {
        self.lock().shared
    }

    /// A run begins to read one of the feeds. The first of them begins the axis anew.
    pub(super) fn begin_scan(&self) {
        let mut state = self.lock();
        if state.scans == 0 {
            (state.end, state.session_bases) = (0, Vec::new());
        }
        state.scans += 1;
    }

    /// A run ends.
    pub(super) fn end_scan(&self) {
        let mut state = self.lock();
        state.scans = state.scans.saturating_sub(1);
    }

    /// Where index 0 lies of a feed's n-th session, whose first frame has an index, and before which the feed had come
    /// to `next`.
    pub(super) fn session_base(&self, session: usize, first: u64, next: i64) -> i64 {
        let mut state = self.lock();
        if !state.shared {
            return next.wrapping_sub_unsigned(first);
        }
        while state.session_bases.len() <= session {
            let end = state.end.max(next);
            let base = match state.session_bases.len() {
                // Of the first one the index is the sender's own.
                0 => 0,
                _ => end.wrapping_sub_unsigned(first),
            };
            state.session_bases.push(base);
        }
        state.session_bases[session]
    }

    /// A feed has come to an index.
    pub(super) fn advance_to(&self, next: i64) {
        let mut state = self.lock();
        state.end = state.end.max(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_of_its_own_begins_where_it_was_joined() {
        let axis = IndexAxis::new().unwrap();
        axis.begin_scan();
        assert_eq!(axis.session_base(0, 500, 0), -500);
        assert_eq!(axis.session_base(1, 3, 900), 897);
        assert_ne!(axis.timebase, IndexAxis::new().unwrap().timebase);
    }

    #[test]
    fn feeds_of_one_clock_have_the_senders_indices_and_agree_on_where_it_counts_anew() {
        let axis = IndexAxis::new().unwrap();
        assert!(axis.share());
        axis.begin_scan();
        axis.begin_scan();
        assert!(!axis.share());
        assert_eq!(
            (axis.session_base(0, 500, 0), axis.session_base(0, 700, 0)),
            (0, 0)
        );
        axis.advance_to(900);
        axis.advance_to(950);
        // One of them has come to 900 only.
        assert_eq!(axis.session_base(1, 10, 900), 940);
        assert_eq!(axis.session_base(1, 30, 950), 940);
        axis.end_scan();
        axis.end_scan();
        axis.begin_scan();
        assert_eq!(axis.session_base(0, 5, 0), 0);
    }
}
