//! Contiguous ranges that begin at a fan-in, announced once, in index order, before their first items.
//!
//! A mark arrives while earlier items are still queued. For any cuts of the inputs, consumers must see a break between
//! the same items.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::{Break, Port, RangeOrigin};

struct RangeStart {
    origin: RangeOrigin,
    why: Option<Break>,
    ports: SmallVec<[Port; 4]>,
}

impl RangeStart {
    /// Whether it already carries a break, if `why` is one.
    fn covers(&self, why: &Option<Break>) -> bool {
        why.is_none() || self.why.is_some()
    }
}

/// A clock step over a gap, a gap over dropped samples, the longer of two gaps.
fn rank(why: &Break) -> (u8, i64, i64) {
    match why {
        Break::ClockStep { old, new } => (3, -i64::from(old.0), -i64::from(new.0)),
        Break::Gap(range) => (2, range.start.saturating_neg(), range.end),
        Break::Dropped(range) => (1, range.start.saturating_neg(), range.end),
        Break::Removed | Break::Rewind => (0, 0, 0),
    }
}

/// Reported but not begun, by first index.
#[derive(Default)]
pub(super) struct RangeStarts {
    starts: VecDeque<RangeStart>,
    /// Announced last; another input may still report it.
    last: Option<RangeStart>,
    /// Latest first sample read.
    first: Option<i64>,
}

impl RangeStarts {
    /// The result does not depend on which input reports first.
    pub(super) fn announce(&mut self, port: Port, origin: RangeOrigin, why: Option<Break>) {
        let anchor = origin.anchor;
        let starts = &mut self.starts;
        let last = self
            .last
            .as_mut()
            .filter(|last| last.origin.anchor == anchor);
        match starts.binary_search_by_key(&anchor, |start| start.origin.anchor) {
            Ok(at) => {
                let start = &mut starts[at];
                start.origin.first = start.origin.first.max(origin.first);
                start.why = start.why.take().into_iter().chain(why).max_by_key(rank);
                start.ports.push(port);
            }
            Err(at) => match last {
                // The same index from the same input is another range: its recording is read in several.
                Some(last) if last.covers(&why) && !last.ports.contains(&port) => {
                    last.ports.push(port);
                }
                _ => {
                    let ports = SmallVec::from_iter([port]);
                    starts.insert(at, RangeStart { origin, why, ports });
                }
            },
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn has_start_up_to(&self, index: i64) -> bool {
        self.starts
            .front()
            .is_some_and(|start| start.origin.anchor <= index)
    }

    pub(super) fn first_start_after(&self, index: i64) -> Option<i64> {
        let anchors = self.starts.iter().map(|start| start.origin.anchor);
        anchors.into_iter().find(|&anchor| anchor > index)
    }

    pub(super) fn next_start(&mut self, index: i64) -> Option<(RangeOrigin, Option<Break>)> {
        if !self.has_start_up_to(index) {
            return None;
        }
        let mut start = self.starts.pop_front()?;
        start.origin.first = start.origin.first.max(self.first.unwrap_or(i64::MIN));
        self.first = Some(start.origin.first);
        let due = (start.origin, start.why.clone());
        self.last = Some(start);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochrony_time::RunId;

    fn step() -> Option<Break> {
        let (old, new) = (RunId(0), RunId(1));
        Some(Break::ClockStep { old, new })
    }

    #[test]
    fn a_late_report_of_an_announced_range_adds_nothing() {
        let mut starts = RangeStarts::default();
        starts.announce(0, RangeOrigin::at(100), step());
        assert_eq!(starts.next_start(99), None);
        assert_eq!(starts.next_start(100), Some((RangeOrigin::at(100), step())));
        starts.announce(1, RangeOrigin::at(100), step());
        assert_eq!(starts.next_start(i64::MAX), None);
        // From the same input: another range.
        starts.announce(0, RangeOrigin::at(100), Some(Break::Removed));
        assert_eq!(
            starts.next_start(100),
            Some((RangeOrigin::at(100), Some(Break::Removed)))
        );
        starts.announce(1, RangeOrigin::at(100), Some(Break::Removed));
        assert_eq!(starts.next_start(i64::MAX), None);
    }

    #[test]
    fn a_break_is_announced_after_a_range_without_one() {
        let mut starts = RangeStarts::default();
        starts.announce(0, RangeOrigin::at(100), None);
        assert_eq!(starts.next_start(100), Some((RangeOrigin::at(100), None)));
        starts.announce(1, RangeOrigin::at(100), step());
        assert_eq!(starts.next_start(100), Some((RangeOrigin::at(100), step())));
    }

    #[test]
    fn the_first_sample_read_is_the_latest_of_all_inputs() {
        let mut starts = RangeStarts::default();
        let read_from = |anchor, first| RangeOrigin { anchor, first };
        starts.announce(0, read_from(0, 500), None);
        starts.announce(1, read_from(200, 200), None);
        assert_eq!(starts.next_start(500), Some((read_from(0, 500), None)));
        assert_eq!(starts.next_start(500), Some((read_from(200, 500), None)));
        starts.announce(0, read_from(800, 800), step());
        starts.announce(1, read_from(800, 900), None);
        assert_eq!(starts.next_start(900), Some((read_from(800, 900), step())));
    }
}
