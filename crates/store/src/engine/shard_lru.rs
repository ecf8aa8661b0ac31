//! A bounded LRU cache keyed by shard.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::op::SignalId;
use crate::version::FileVersion;

pub(crate) type ShardKey = (SignalId, u64, FileVersion);

/// Limit for reading and for writing each: a small part of `ulimit -n`, which others share.
pub(crate) fn open_file_limit() -> usize {
    let limit = isochrony_system::process::open_file_limit();
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    (limit / 8).clamp(16, 256)
}

#[derive(Debug)]
pub(crate) struct ShardLru<T> {
    limit: usize,
    entries: Mutex<Entries<T>>,
}

#[derive(Debug)]
struct Entries<T> {
    now: u64,
    by_key: HashMap<ShardKey, (u64, Arc<T>)>,
}

impl<T> ShardLru<T> {
    pub(crate) fn new(limit: usize) -> Self {
        let entries = Entries {
            now: 0,
            by_key: HashMap::new(),
        };
        Self {
            limit,
            entries: Mutex::new(entries),
        }
    }

    pub(crate) fn get(&self, key: ShardKey) -> Option<Arc<T>> {
        let mut entries = self.lock();
        entries.now += 1;
        let now = entries.now;
        let (used, item) = entries.by_key.get_mut(&key)?;
        *used = now;
        Some(item.clone())
    }

    pub(crate) fn put(&self, key: ShardKey, item: &Arc<T>) {
        let mut entries = self.lock();
        if entries.by_key.len() >= self.limit {
            let oldest = entries.by_key.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                entries.by_key.remove(&key);
            }
        }
        let now = entries.now;
        entries.by_key.insert(key, (now, item.clone()));
    }

    pub(crate) fn remove(&self, key: ShardKey) {
        self.lock().by_key.remove(&key);
    }

    pub(crate) fn clear(&self) {
        self.lock().by_key.clear();
    }

    pub(crate) fn remove_signal(&self, id: SignalId) {
        self.lock().by_key.retain(|(signal, ..), _| *signal != id);
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
