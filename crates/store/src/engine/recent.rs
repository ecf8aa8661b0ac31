//! The most recently used shards of a store, up to a number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::op::SignalId;

/// A signal and the number of its shard.
pub(crate) type ShardKey = (SignalId, u64);

/// Something kept per shard, for those used last.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    limit: usize,
    held: Mutex<Held<T>>,
}

#[derive(Debug)]
struct Held<T> {
    /// Counts uses.
    now: u64,
    /// With the count at the last use.
    by_key: HashMap<ShardKey, (u64, Arc<T>)>,
}

impl<T> Recent<T> {
    /// Keeps up to `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        let held = Held {
            now: 0,
            by_key: HashMap::new(),
        };
        Self {
            limit,
            held: Mutex::new(held),
        }
    }

    pub(crate) fn get(&self, key: ShardKey) -> Option<Arc<T>> {
        let mut held = self.lock();
        held.now += 1;
        let now = held.now;
        let (used, item) = held.by_key.get_mut(&key)?;
        *used = now;
        Some(item.clone())
    }

    /// Keeps `item`; the one used longest ago goes if there are too many.
    pub(crate) fn put(&self, key: ShardKey, item: &Arc<T>) {
        let mut held = self.lock();
        if held.by_key.len() >= self.limit {
            let oldest = held.by_key.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                held.by_key.remove(&key);
            }
        }
        let now = held.now;
        held.by_key.insert(key, (now, item.clone()));
    }

    /// Lets go of a signal's shards: their files were replaced or moved.
    pub(crate) fn forget(&self, id: SignalId) {
        self.lock().by_key.retain(|(signal, _), _| *signal != id);
    }

    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
