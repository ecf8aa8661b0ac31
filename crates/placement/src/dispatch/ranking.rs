//! A priority queue of groups of tasks whose keys may be out of date.
//!
//! Keys change far more often than they are looked at, so they are corrected when they are seen. The invariant that
//! makes this exact: for each group that belongs to a ranking there is an entry with its key or a better one. So
//! whatever makes a key better pushes, and whatever makes it worse does nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use rustc_hash::FxHashSet;

/// The larger the better: bytes that count, then the age of the group's oldest task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) bytes: u64,
    pub(crate) oldest: Reverse<u64>,
}

/// Entries a ranking may have beyond twice those it had after it was last compacted.
const SLACK: usize = 32;

#[derive(Debug, Clone, Default)]
pub(crate) struct Ranking {
    entries: BinaryHeap<(Key, u32)>,
    compact_at: usize,
}

impl Ranking {
    /// Adds a group, or states that its key has become better. `key` gives the present key of a group, or none if it
    /// does not belong here.
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

    /// The best group.
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

    /// Entries, out-of-date ones too.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
