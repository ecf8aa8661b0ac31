//! Which object is evicted first.
//!
//! The queue knows keys and sizes only. Whether an object is in use by another process is found when it is about to be
//! unlinked, so the caller pins what it finds in use and asks again.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

/// An eviction policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Eviction {
    /// Any object, by a fixed pseudo-random order.
    Random,
    /// The object that was added first.
    Fifo,
    /// The object that was used least recently.
    #[default]
    Lru,
    /// The object that was used least often; of those the one used least recently.
    Lfu,
}

/// What an object is sorted by: the lowest goes first.
type Rank = (u64, u64);

#[derive(Debug, Clone)]
struct Entry {
    bytes: u64,
    added: u64,
    used: u64,
    uses: u64,
    pinned: bool,
}

/// Objects in the order in which they are evicted.
#[derive(Debug, Clone)]
pub(crate) struct EvictionQueue {
    policy: Eviction,
    tick: u64,
    entries: HashMap<u64, Entry>,
    order: BTreeSet<(Rank, u64)>,
}

impl EvictionQueue {
    pub(crate) fn new(policy: Eviction) -> Self {
        Self {
            policy,
            tick: 0,
            entries: HashMap::new(),
            order: BTreeSet::new(),
        }
    }

    pub(crate) fn policy(&self) -> Eviction {
        self.policy
    }

    fn rank(&self, key: u64, entry: &Entry) -> Rank {
        match self.policy {
            // A bijection of the key (the finaliser of SplitMix64): a random order that needs no state.
            Eviction::Random => {
                let mixed = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (mixed ^ (mixed >> 31), 0)
            }
            Eviction::Fifo => (entry.added, 0),
            Eviction::Lru => (entry.used, 0),
            Eviction::Lfu => (entry.uses, entry.used),
        }
    }

    fn change(&mut self, key: u64, change: impl FnOnce(&mut Entry)) {
        if let Some(mut entry) = self.entries.remove(&key) {
            self.order.remove(&(self.rank(key, &entry), key));
            change(&mut entry);
            self.add(key, entry);
        }
    }

    fn add(&mut self, key: u64, entry: Entry) {
        if !entry.pinned {
            self.order.insert((self.rank(key, &entry), key));
        }
        self.entries.insert(key, entry);
    }

    /// Adds an object, or changes the size of one that is there.
    pub(crate) fn insert(&mut self, key: u64, bytes: u64) {
        if self.entries.contains_key(&key) {
            self.change(key, |entry| entry.bytes = bytes);
            return;
        }
        self.tick += 1;
        let entry = Entry {
            bytes,
            added: self.tick,
            used: self.tick,
            uses: 1,
            pinned: false,
        };
        self.add(key, entry);
    }

    /// Notes a use.
    pub(crate) fn touch(&mut self, key: u64) {
        self.tick += 1;
        let tick = self.tick;
        self.change(key, |entry| {
            entry.used = tick;
            entry.uses += 1;
        });
    }

    /// Forgets an object.
    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(entry) = self.entries.remove(&key) {
            self.order.remove(&(self.rank(key, &entry), key));
        }
    }

    /// Leaves an object out of [`Self::evict`].
    pub(crate) fn pin(&mut self, key: u64) {
        self.change(key, |entry| entry.pinned = true);
    }

    /// Lets an object be evicted again.
    pub(crate) fn unpin(&mut self, key: u64) {
        self.change(key, |entry| entry.pinned = false);
    }

    /// The first objects whose sizes add up to `needed` bytes, or all that are not pinned.
    pub(crate) fn evict(&self, needed: u64) -> Vec<u64> {
        let mut freed = 0u64;
        let mut keys = Vec::new();
        for (_, key) in &self.order {
            if freed >= needed {
                break;
            }
            freed = freed.saturating_add(self.entries.get(key).map_or(0, |entry| entry.bytes));
            keys.push(*key);
        }
        keys
    }

    /// Every object, first to go first, with how often it was used.
    pub(crate) fn in_order(&self) -> Vec<(u64, u64)> {
        let mut keys: Vec<_> = (self.entries.iter())
            .map(|(key, entry)| (self.rank(*key, entry), *key, entry.uses))
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, key, uses)| (key, uses)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(policy: Eviction) -> EvictionQueue {
        let mut queue = EvictionQueue::new(policy);
        for key in 1..=4 {
            queue.insert(key, 10);
        }
        for key in [1, 1, 2, 3, 3, 4, 4, 1] {
            queue.touch(key);
        }
        queue
    }

    #[test]
    fn each_policy_evicts_in_its_order() {
        assert_eq!(filled(Eviction::Fifo).evict(40), [1, 2, 3, 4]);
        assert_eq!(filled(Eviction::Lru).evict(40), [2, 3, 4, 1]);
        assert_eq!(filled(Eviction::Lfu).evict(40), [2, 3, 4, 1]);
        let mut random = filled(Eviction::Random).evict(40);
        assert_ne!(random, [1, 2, 3, 4]);
        random.sort_unstable();
        assert_eq!(random, [1, 2, 3, 4]);
    }

    #[test]
    fn evicts_no_more_than_needed_and_nothing_pinned() {
        let mut queue = filled(Eviction::Fifo);
        queue.pin(1);
        assert_eq!(queue.evict(11), [2, 3]);
        queue.unpin(1);
        queue.remove(2);
        assert_eq!(queue.evict(11), [1, 3]);
        queue.insert(1, 11);
        assert_eq!(queue.evict(11), [1]);
        assert!(queue.evict(0).is_empty());
    }
}
