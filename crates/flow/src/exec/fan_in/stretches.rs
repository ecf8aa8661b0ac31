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

/// Stretches to come, by their first index.
#[derive(Default)]
pub(super) struct Stretches(VecDeque<Begin>);

impl Stretches {
    /// An input's next stretch begins at `anchor`.
    pub(super) fn announce(&mut self, anchor: i64, why: Option<Break>) {
        match self.0.binary_search_by_key(&anchor, |begin| begin.anchor) {
            Ok(at) => self.0[at].why = self.0[at].why.take().or(why),
            Err(at) => self.0.insert(at, Begin { anchor, why }),
        }
    }

    /// Whether one begins at or before an index.
    pub(super) fn begins_by(&self, index: i64) -> bool {
        self.0.front().is_some_and(|begin| begin.anchor <= index)
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
