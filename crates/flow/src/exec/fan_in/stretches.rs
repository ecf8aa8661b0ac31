//! Where stretches begin at a fan-in: announced in the order of indices, once, before the first items of the stretch.
//!
//! Inputs tell of a break when they meet it, which is before the items that wait in the queues have gone on, and each
//! tells of it by itself. What is behind the fan-in must see it between the same items however the inputs were cut.

use std::collections::VecDeque;

use crate::Break;

/// A stretch that was told of and has not begun.
struct Begin {
    anchor: i64,
    why: Option<Break>,
}

/// What counts more of two reasons for one stretch: a clock that is set over a gap, that over what is only left out; of two
/// gaps the longer.
fn rank(why: &Break) -> (u8, i64, i64) {
    match why {
        Break::Clock { old, new } => (3, -i64::from(old.0), -i64::from(new.0)),
        Break::Gap(range) => (2, range.start.saturating_neg(), range.end),
        Break::Dropped(range) => (1, range.start.saturating_neg(), range.end),
        Break::Removed => (0, 0, 0),
    }
}

/// Stretches to come, by their first index.
#[derive(Default)]
pub(super) struct Stretches(VecDeque<Begin>);

impl Stretches {
    /// An input's next stretch begins at `anchor`. Of what several tell of one place, the same is told whoever was first.
    pub(super) fn announce(&mut self, anchor: i64, why: Option<Break>) {
        match self.0.binary_search_by_key(&anchor, |begin| begin.anchor) {
            Ok(at) => {
                let known = self.0[at].why.take();
                self.0[at].why = known.into_iter().chain(why).max_by_key(rank);
            }
            Err(at) => self.0.insert(at, Begin { anchor, why }),
        }
    }

    /// Whether one begins at or before an index.
    pub(super) fn begins_by(&self, index: i64) -> bool {
        self.0.front().is_some_and(|begin| begin.anchor <= index)
    }

    /// Where the first begins that begins behind an index.
    pub(super) fn begins_behind(&self, index: i64) -> Option<i64> {
        let anchors = self.0.iter().map(|begin| begin.anchor);
        anchors.into_iter().find(|&anchor| anchor > index)
    }

    /// The next one that begins at or before an index.
    pub(super) fn due(&mut self, index: i64) -> Option<(i64, Option<Break>)> {
        let due = if self.begins_by(index) {
            self.0.pop_front()
        } else {
            None
        };
        due.map(|begin| (begin.anchor, begin.why))
    }
}
