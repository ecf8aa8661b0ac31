//! The most recently used shards of a store, up to a number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::op::SignalId;
use crate::version::FileVersion;

/// A signal, the number of its shard, and which version of it.
pub(crate) type ShardKey = (SignalId, u64, FileVersion);

/// Most files of shards that one opening of a store keeps open, for reading and for writing each: a small part of what the
/// process may have (`ulimit -n`), which also needs some for other stores, connections and workers.
pub(crate) fn open_file_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    (limit / 8).clamp(16, 256)
}

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

    /// Lets go of one shard.
    pub(crate) fn remove(&self, key: ShardKey) {
        self.lock().by_key.remove(&key);
    }

    /// Lets go of all shards.
    pub(crate) fn clear(&self) {
        self.lock().by_key.clear();
    }

    /// Lets go of a signal's shards: their files were replaced or moved.
    pub(crate) fn forget(&self, id: SignalId) {
        self.lock().by_key.retain(|(signal, ..), _| *signal != id);
    }

    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
