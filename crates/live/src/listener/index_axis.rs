//! The index axis of a feed, alone or shared by feeds of one sampling clock.
//!
//! Feeds of one sampling clock share an [`IndexAxis`]: an index is the sender's count, equal for all channels of a
//! converter. After a restart the first feed that notices places the new session after all indices so far. Other feeds
//! are aligned by civil time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_time::{Rate, TimeError, TimebaseId};

#[derive(Debug)]
pub(super) struct IndexAxis {
    pub(super) timebase: TimebaseId,
    state: Mutex<AxisState>,
}

/// A feed's sampling clock, for feeds of the same converter.
#[derive(Debug, Clone)]
pub struct SamplingClock {
    pub(super) axis: Arc<IndexAxis>,
    pub(super) rate: Rate,
    pub(super) feed: String,
    pub(super) is_driven: bool,
}

#[derive(Debug, Default)]
struct AxisState {
    shared: bool,
    scans: usize,
    end: i64,
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
        // Each change is atomic, so a poisoned state is valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the axis as shared; false if a run has used indices already.
    pub(super) fn share(&self) -> bool {
        let mut state = self.lock();
        state.shared |= state.scans == 0;
        state.shared && state.scans == 0
    }

    pub(super) fn is_shared(&self) -> bool {
        self.lock().shared
    }

    /// The first run resets the axis.
    pub(super) fn begin_scan(&self) {
        let mut state = self.lock();
        if state.scans == 0 {
            (state.end, state.session_bases) = (0, Vec::new());
        }
        state.scans += 1;
    }

    pub(super) fn end_scan(&self) {
        let mut state = self.lock();
        state.scans = state.scans.saturating_sub(1);
    }

    /// Position of index 0 of the n-th session. `first`: of its first frame; `next`: the feed's next index.
    pub(super) fn session_base(&self, session: usize, first: u64, next: i64) -> i64 {
        let mut state = self.lock();
        if !state.shared {
            return next.wrapping_sub_unsigned(first);
        }
        while state.session_bases.len() <= session {
            let end = state.end.max(next);
            let base = match state.session_bases.len() {
                // The first session keeps the sender's indices.
                0 => 0,
                _ => end.wrapping_sub_unsigned(first),
            };
            state.session_bases.push(base);
        }
        state.session_bases[session]
    }

    pub(super) fn advance_to(&self, next: i64) {
        let mut state = self.lock();
        state.end = state.end.max(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separate_feed_begins_where_it_was_joined() {
        let axis = IndexAxis::new().unwrap();
        axis.begin_scan();
        assert_eq!(axis.session_base(0, 500, 0), -500);
        assert_eq!(axis.session_base(1, 3, 900), 897);
        assert_ne!(axis.timebase, IndexAxis::new().unwrap().timebase);
    }

    #[test]
    fn feeds_of_one_clock_share_indices_also_after_a_restart() {
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
        assert_eq!(axis.session_base(1, 10, 900), 940);
        assert_eq!(axis.session_base(1, 30, 950), 940);
        axis.end_scan();
        axis.end_scan();
        axis.begin_scan();
        assert_eq!(axis.session_base(0, 5, 0), 0);
    }
}
