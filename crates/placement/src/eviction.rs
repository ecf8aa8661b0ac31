//! Eviction policies of a cache bounded in bytes.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::PlacementError;

/// Which object not in use is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvictionPolicy {
    /// Any, with equal probability.
    Random,
    /// First inserted.
    Fifo,
    /// Least recently used.
    #[default]
    Lru,
    /// Least frequently used since insertion, then least recently.
    Lfu,
}

#[derive(Debug, Clone)]
struct Entry<K> {
    key: K,
    bytes: u64,
    pins: u32,
    uses: u64,
    rank: (u64, u64),
    at: u32,
}

/// Keys of a cache with their bytes, in eviction order.
///
/// Operations take O(log n), O(1) for random eviction; memory is about 100 bytes per key plus twice the key.
///
/// ```
/// use isochrony_placement::{Eviction, EvictionPolicy};
///
/// let mut cache = Eviction::new(EvictionPolicy::Lru);
/// cache.insert("a", 10)?;
/// cache.insert("b", 10)?;
/// cache.touch(&"a")?;
/// assert_eq!(cache.evict(5)?, [("b", 10)]);
/// # Ok::<(), isochrony_placement::PlacementError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Eviction<K> {
    policy: EvictionPolicy,
    slots: FxHashMap<K, u32>,
    entries: Vec<Option<Entry<K>>>,
    free: Vec<u32>,
    /// Unpinned entries by rank. Unused by random eviction.
    ordered: BTreeSet<((u64, u64), u32)>,
    evictable: Vec<u32>,
    random: fastrand::Rng,
    next: u64,
    bytes: u64,
    pinned_bytes: u64,
}

impl<K: Hash + Eq + Clone + Debug> Eviction<K> {
    /// An empty cache.
    pub fn new(policy: EvictionPolicy) -> Self {
        Self::with_seed(policy, 0)
    }

    /// An empty cache; the seed is for random eviction.
    pub fn with_seed(policy: EvictionPolicy, seed: u64) -> Self {
        Self {
            policy,
            slots: FxHashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            ordered: BTreeSet::new(),
            evictable: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            next: 0,
            bytes: 0,
            pinned_bytes: 0,
        }
    }

    /// The policy.
    pub fn policy(&self) -> EvictionPolicy {
        self.policy
    }

    /// Adds an unpinned key, as its first touch.
    pub fn insert(&mut self, key: K, bytes: u64) -> Result<(), PlacementError> {
        if self.slots.contains_key(&key) {
            return Err(PlacementError::AlreadyCached {
                key: format!("{key:?}"),
            });
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as u32
        });
        let rank = match self.policy {
            EvictionPolicy::Lfu => (1, self.tick()),
            _ => (0, self.tick()),
        };
        self.slots.insert(key.clone(), slot);
        self.entries[slot as usize] = Some(Entry {
            key,
            bytes,
            pins: 0,
            uses: 1,
            rank,
            at: 0,
        });
        self.bytes += bytes;
        self.list(slot);
        Ok(())
    }

    /// Records a use of a key.
    pub fn touch(&mut self, key: &K) -> Result<(), PlacementError> {
        let slot = self.slot(key, "touched")?;
        let now = self.tick();
        let policy = self.policy;
        let entry = self.entry(slot);
        entry.uses += 1;
        let rank = match policy {
            EvictionPolicy::Lru => (0, now),
            EvictionPolicy::Lfu => (entry.uses, now),
            EvictionPolicy::Random | EvictionPolicy::Fifo => return Ok(()),
        };
        let (old, pinned) = (std::mem::replace(&mut entry.rank, rank), entry.pins > 0);
        if !pinned {
            self.ordered.remove(&(old, slot));
            self.ordered.insert((rank, slot));
        }
        Ok(())
    }

    /// Changes the bytes of a key, without a touch.
    pub fn set_bytes(&mut self, key: &K, bytes: u64) -> Result<(), PlacementError> {
        let slot = self.slot(key, "resized")?;
        let entry = self.entry(slot);
        let (before, pinned) = (std::mem::replace(&mut entry.bytes, bytes), entry.pins > 0);
        self.bytes = self.bytes - before + bytes;
        if pinned {
            self.pinned_bytes = self.pinned_bytes - before + bytes;
        }
        Ok(())
    }

    /// Removes a key, pinned or not, and returns its bytes.
    pub fn remove(&mut self, key: &K) -> Result<u64, PlacementError> {
        let slot = self.slot(key, "removed")?;
        let entry = self.entry(slot);
        let (bytes, pinned) = (entry.bytes, entry.pins > 0);
        if pinned {
            self.pinned_bytes -= bytes;
        } else {
            self.unlist(slot);
        }
        Ok(self.take(slot).bytes)
    }

    /// Pins a key until it is unpinned as often. Not a touch.
    pub fn pin(&mut self, key: &K) -> Result<(), PlacementError> {
        let slot = self.slot(key, "pinned")?;
        let entry = self.entry(slot);
        entry.pins += 1;
        if entry.pins == 1 {
            let bytes = entry.bytes;
            self.pinned_bytes += bytes;
            self.unlist(slot);
        }
        Ok(())
    }

    /// Removes a pin.
    pub fn unpin(&mut self, key: &K) -> Result<(), PlacementError> {
        let slot = self.slot(key, "unpinned")?;
        let entry = self.entry(slot);
        if entry.pins == 0 {
            return Err(PlacementError::NotPinned {
                key: format!("{key:?}"),
            });
        }
        entry.pins -= 1;
        if entry.pins == 0 {
            let bytes = entry.bytes;
            self.pinned_bytes -= bytes;
            self.list(slot);
        }
        Ok(())
    }

    /// Removes keys until at least `needed` bytes are free; nothing if pinned keys prevent that.
    pub fn evict(&mut self, needed: u64) -> Result<Vec<(K, u64)>, PlacementError> {
        if needed > self.evictable_bytes() {
            return Err(PlacementError::NotEvictable {
                needed,
                evictable: self.evictable_bytes(),
                bytes: self.bytes,
            });
        }
        let mut evicted = Vec::new();
        let mut freed = 0;
        while freed < needed {
            let slot = self.next_slot().expect("bytes that are evictable");
            self.unlist(slot);
            let entry = self.take(slot);
            freed += entry.bytes;
            evicted.push((entry.key, entry.bytes));
        }
        Ok(evicted)
    }

    /// The next key to evict; None if all are pinned. Remove it, or pin it and call again.
    pub fn next_victim(&mut self) -> Option<K> {
        let slot = self.next_slot()?;
        self.entries[slot as usize]
            .as_ref()
            .map(|entry| entry.key.clone())
    }

    /// Every key, pinned or not, with its insertions and touches; in eviction order, or order of insertion if random.
    pub fn in_order(&self) -> Vec<(K, u64)> {
        let mut entries: Vec<_> = self.entries.iter().flatten().collect();
        entries.sort_unstable_by_key(|entry| entry.rank);
        let keys = entries.into_iter();
        keys.map(|entry| (entry.key.clone(), entry.uses)).collect()
    }

    /// Bytes of a key, if present.
    pub fn get(&self, key: &K) -> Option<u64> {
        let slot = *self.slots.get(key)?;
        self.entries[slot as usize]
            .as_ref()
            .map(|entry| entry.bytes)
    }

    /// Keys and their bytes, unordered.
    pub fn iter(&self) -> impl Iterator<Item = (&K, u64)> {
        let entries = self.entries.iter().flatten();
        entries.map(|entry| (&entry.key, entry.bytes))
    }

    /// Bytes of all keys.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of unpinned keys.
    pub fn evictable_bytes(&self) -> u64 {
        self.bytes - self.pinned_bytes
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn next_slot(&mut self) -> Option<u32> {
        match self.policy {
            EvictionPolicy::Random if self.evictable.is_empty() => None,
            EvictionPolicy::Random => {
                Some(self.evictable[self.random.usize(..self.evictable.len())])
            }
            _ => self.ordered.first().map(|first| first.1),
        }
    }

    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn slot(&self, key: &K, action: &'static str) -> Result<u32, PlacementError> {
        let slot = self.slots.get(key).copied();
        slot.ok_or_else(|| PlacementError::NotCached {
            key: format!("{key:?}"),
            action,
        })
    }

    fn entry(&mut self, slot: u32) -> &mut Entry<K> {
        let entry = self.entries[slot as usize].as_mut();
        entry.expect("slots of keys are taken")
    }

    fn list(&mut self, slot: u32) {
        if matches!(self.policy, EvictionPolicy::Random) {
            let at = self.evictable.len() as u32;
            self.evictable.push(slot);
            self.entry(slot).at = at;
        } else {
            let rank = self.entry(slot).rank;
            self.ordered.insert((rank, slot));
        }
    }

    fn unlist(&mut self, slot: u32) {
        if matches!(self.policy, EvictionPolicy::Random) {
            let at = self.entry(slot).at;
            self.evictable.swap_remove(at as usize);
            if let Some(&moved) = self.evictable.get(at as usize) {
                self.entry(moved).at = at;
            }
        } else {
            let rank = self.entry(slot).rank;
            self.ordered.remove(&(rank, slot));
        }
    }

    fn take(&mut self, slot: u32) -> Entry<K> {
        let entry = self.entries[slot as usize].take();
        let entry = entry.expect("slots of keys are taken");
        self.slots.remove(&entry.key);
        self.free.push(slot);
        self.bytes -= entry.bytes;
        entry
    }
}
