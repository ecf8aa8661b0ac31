//! Where stretches begin at a fan-in: announced in the order of indices, once, before the first items of the stretch.
//!
//! Inputs tell of a break when they meet it, which is before the items that wait in the queues have gone on, and each
//! tells of it by itself. What is behind the fan-in must see it between the same items however the inputs were cut.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::{Break, Port};

/// A stretch that was told of and has not begun.
struct Begin {
    anchor: i64,
    why: Option<Break>,
    /// Inputs that told of it.
    told: SmallVec<[Port; 4]>,
}

impl Begin {
    /// Whether a break is told with it, if there is one.
    fn tells_of(&self, why: &Option<Break>) -> bool {
        why.is_none() || self.why.is_some()
    }
}

/// What counts more of two reasons for one stretch: a clock that is set over a gap, that over what is only left out; of two
/// gaps the longer.
fn rank(why: &Break) -> (u8, i64, i64) {
    match why {
        Break::ClockStep { old, new } => (3, -i64::from(old.0), -i64::from(new.0)),
        Break::Gap(range) => (2, range.start.saturating_neg(), range.end),
        Break::Dropped(range) => (1, range.start.saturating_neg(), range.end),
        Break::Removed | Break::Rewind => (0, 0, 0),
    }
}

/// Stretches to come, by their first index.
#[derive(Default)]
pub(super) struct Stretches {
    begins: VecDeque<Begin>,
    /// What was announced last: an input that was so far and did not tell of it yet means the same.
    last: Option<Begin>,
}

impl Stretches {
    /// An input's next stretch begins at `anchor`. Of what several tell of one place, the same is told whoever was first.
    pub(super) fn announce(&mut self, port: Port, anchor: i64, why: Option<Break>) {
        let begins = &mut self.begins;
        let last = self.last.as_mut().filter(|last| last.anchor == anchor);
        match begins.binary_search_by_key(&anchor, |begin| begin.anchor) {
            Ok(at) => {
                let begin = &mut begins[at];
                begin.why = begin.why.take().into_iter().chain(why).max_by_key(rank);
                begin.told.push(port);
            }
            Err(at) => match last {
                // An input tells of what begins at one place again where only some of it is read.
                Some(last) if last.tells_of(&why) && !last.told.contains(&port) => {
                    last.told.push(port);
                }
                _ => {
                    let told = SmallVec::from_iter([port]);
                    begins.insert(at, Begin { anchor, why, told });
                }
            },
        }
    }

    /// Nothing was told yet.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether one begins at or before an index.
    pub(super) fn begins_by(&self, index: i64) -> bool {
        self.begins
            .front()
            .is_some_and(|begin| begin.anchor <= index)
    }

    /// Where the first begins that begins behind an index.
    pub(super) fn begins_behind(&self, index: i64) -> Option<i64> {
        let anchors = self.begins.iter().map(|begin| begin.anchor);
        anchors.into_iter().find(|&anchor| anchor > index)
    }

    /// The next one that begins at or before an index.
    pub(super) fn due(&mut self, index: i64) -> Option<(i64, Option<Break>)> {
        if !self.begins_by(index) {
            return None;
        }
        let begin = self.begins.pop_front()?;
        let due = (begin.anchor, begin.why.clone());
        self.last = Some(begin);
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
    fn an_input_that_tells_of_a_stretch_when_it_was_announced_already_tells_nothing_new() {
        let mut stretches = Stretches::default();
        stretches.announce(0, 100, step());
        assert_eq!(stretches.due(99), None);
        assert_eq!(stretches.due(100), Some((100, step())));
        stretches.announce(1, 100, step());
        assert_eq!(stretches.due(i64::MAX), None);
        // The same input means another, as one whose stretch is asked for in several ranges.
        stretches.announce(0, 100, Some(Break::Removed));
        assert_eq!(stretches.due(100), Some((100, Some(Break::Removed))));
        stretches.announce(1, 100, Some(Break::Removed));
        assert_eq!(stretches.due(i64::MAX), None);
    }

    #[test]
    fn a_break_is_told_of_where_a_stretch_was_only_said_to_be_under_way() {
        let mut stretches = Stretches::default();
        stretches.announce(0, 100, None);
        assert_eq!(stretches.due(100), Some((100, None)));
        stretches.announce(1, 100, step());
        assert_eq!(stretches.due(100), Some((100, step())));
    }
}
