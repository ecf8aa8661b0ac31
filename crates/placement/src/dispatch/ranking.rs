//! A priority queue of task groups with lazily corrected keys.
//!
//! Keys change more often than they are read. Invariant: each group has an entry with its key or a better one. So
//! improving a key pushes an entry, and worsening it does nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use rustc_hash::FxHashSet;

/// Ordered by bytes, then by age of the oldest task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) bytes: u64,
    pub(crate) oldest: Reverse<u64>,
}

/// Entries allowed beyond twice the number after compaction.
const SLACK: usize = 32;

#[derive(Debug, Clone, Default)]
pub(crate) struct Ranking {
    entries: BinaryHeap<(Key, u32)>,
    compact_at: usize,
}

impl Ranking {
    /// Adds a group or improves its key. `present` returns a group's current key; None: not here.
    pub(crate) fn push(&mut self, group: u32, key: Key, present: impl Fn(u32) -> Option<Key>) {
        self.entries.push((key, group));
        if self.entries.len() > self.compact_at.max(SLACK) {
            let mut seen = FxHashSet::default();
            let entries = std::mem::take(&mut self.entries).into_vec();
            let present = entries.into_iter().filter_map(|(_, group)| {
                let key = present(group)?;
                seen.insert(group).then_some((key, group))
            });
            self.entries = present.collect();
            self.compact_at = 2 * self.entries.len() + SLACK;
        }
    }

    pub(crate) fn top(&mut self, present: impl Fn(u32) -> Option<Key>) -> Option<(u32, Key)> {
        while let Some(mut top) = self.entries.peek_mut() {
            let (key, group) = *top;
            match present(group) {
                Some(now) if now == key => return Some((group, key)),
                Some(now) => top.0 = now,
                None => {
                    PeekMut::pop(top);
                }
            }
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn key(bytes: u64, oldest: u64) -> Key {
        Key {
            bytes,
            oldest: Reverse(oldest),
        }
    }

    #[test]
    fn keys_are_corrected_on_access() {
        let mut ranking = Ranking::default();
        let first = Cell::new(Some(key(9, 0)));
        let present = |group| {
            if group == 1 {
                first.get()
            } else {
                Some(key(5, 1))
            }
        };
        ranking.push(1, key(9, 0), present);
        ranking.push(2, key(5, 1), present);
        assert_eq!(ranking.top(present), Some((1, key(9, 0))));
        first.set(Some(key(5, 2)));
        assert_eq!(ranking.top(present), Some((2, key(5, 1))));
        first.set(None);
        assert_eq!(ranking.top(present), Some((2, key(5, 1))));
    }

    #[test]
    fn entries_are_bounded_by_the_groups_for_any_pushes() {
        assert_eq!(std::mem::size_of::<(Key, u32)>(), 24);
        let mut ranking = Ranking::default();
        for time in 0..100_000 {
            ranking.push(time % 50, key(1, 1), |_| Some(key(1, 1)));
            assert!(ranking.len() <= 2 * 50 + SLACK + 1);
        }
    }
}
