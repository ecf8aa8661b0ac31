//! Bounded LRU table of blocks in memory or in flight.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use isochrony_runtime::{POLL_INTERVAL, is_stop_requested};

use crate::error::CloudError;

pub(crate) const BLOCK_BYTES: u64 = 256 << 10;
/// Bytes kept or in flight; each reader holds at most one block more.
pub(crate) const CACHE_BYTES: u64 = 32 << 20;
/// Least bytes counted per block: its entry.
const MIN_ENTRY_BYTES: u64 = 4 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BlockKey {
    pub(super) name: Arc<str>,
    /// Hash of the object's version, so that versions never mix.
    pub(super) version: u64,
    pub(super) block: u64,
}

#[derive(Debug, Default)]
pub(super) struct PendingBlock {
    content: Mutex<Option<Result<Bytes, CloudError>>>,
    arrived: Condvar,
}

impl PendingBlock {
    fn fill(&self, content: Result<Bytes, CloudError>) {
        *lock(&self.content) = Some(content);
        self.arrived.notify_all();
    }

    pub(super) fn wait(&self) -> Result<Bytes, CloudError> {
        let mut content = lock(&self.content);
        loop {
            if let Some(content) = &*content {
                return content.clone();
            }
            if is_stop_requested() {
                return Err(CloudError::Interrupted);
            }
            let waited = self.arrived.wait_timeout(content, POLL_INTERVAL);
            content = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[derive(Debug)]
struct TableEntry {
    last_use: u64,
    bytes: u64,
    block: Arc<PendingBlock>,
}

#[derive(Debug, Default)]
pub(super) struct BlockTable {
    now: u64,
    bytes: u64,
    entries: HashMap<BlockKey, TableEntry>,
    by_use: BTreeMap<u64, BlockKey>,
}

impl BlockTable {
    pub(super) fn get(&mut self, key: &BlockKey) -> Option<Arc<PendingBlock>> {
        let now = self.now + 1;
        let entry = self.entries.get_mut(key)?;
        self.by_use.remove(&entry.last_use);
        entry.last_use = now;
        self.now = now;
        self.by_use.insert(now, key.clone());
        Some(entry.block.clone())
    }

    /// `bytes`: its future size.
    pub(super) fn insert(&mut self, key: BlockKey, bytes: u64, block: Arc<PendingBlock>) {
        let bytes = bytes.max(MIN_ENTRY_BYTES);
        while self.bytes + bytes > CACHE_BYTES
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= entry.bytes;
            }
        }
        self.now += 1;
        self.bytes += bytes;
        self.by_use.insert(self.now, key.clone());
        let last_use = self.now;
        let entry = TableEntry {
            last_use,
            bytes,
            block,
        };
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &BlockKey, block: &Arc<PendingBlock>) {
        if let Some(entry) = self.entries.get(key)
            && Arc::ptr_eq(&entry.block, block)
        {
            self.bytes -= entry.bytes;
            self.by_use.remove(&entry.last_use);
            self.entries.remove(key);
        }
    }

    #[cfg(test)]
    pub(super) fn contains(&self, key: &BlockKey) -> bool {
        self.entries.contains_key(key)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        assert_eq!(self.by_use.len(), self.entries.len());
        let bytes: u64 = self.entries.values().map(|entry| entry.bytes).sum();
        assert_eq!(bytes, self.bytes);
        assert!(bytes <= CACHE_BYTES);
        self.entries.len()
    }
}

/// Unfilled blocks fail on drop, so that nobody waits for ever.
#[derive(Debug)]
pub(super) struct BlockFetch {
    table: Arc<Mutex<BlockTable>>,
    blocks: Vec<(BlockKey, Arc<PendingBlock>)>,
}

impl BlockFetch {
    pub(super) fn new(table: Arc<Mutex<BlockTable>>) -> Self {
        let blocks = Vec::new();
        Self { table, blocks }
    }

    pub(super) fn push(&mut self, key: BlockKey, block: Arc<PendingBlock>) {
        self.blocks.push((key, block));
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.blocks.last().map(|(key, _)| key.block + 1)
    }

    pub(super) fn first(&self) -> u64 {
        self.blocks.first().map_or(0, |(key, _)| key.block)
    }

    pub(super) fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub(super) fn fill(mut self, content: &Bytes) {
        for (number, (_, block)) in self.blocks.drain(..).enumerate() {
            let from = (number * BLOCK_BYTES as usize).min(content.len());
            let until = (from + BLOCK_BYTES as usize).min(content.len());
            // A copy, so that a block keeps no others.
            block.fill(Ok(Bytes::copy_from_slice(&content[from..until])));
        }
    }

    pub(super) fn fail(mut self, error: &CloudError) {
        self.end(error);
    }

    fn end(&mut self, error: &CloudError) {
        for (key, block) in self.blocks.drain(..) {
            lock(&self.table).remove(&key, &block);
            block.fill(Err(error.clone()));
        }
    }
}

impl Drop for BlockFetch {
    fn drop(&mut self) {
        self.end(&CloudError::unanswered());
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
