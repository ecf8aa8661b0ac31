//! Blocks of objects in memory: for tables, indexes and what is decoded, which are read in small parts, often next to each
//! other. Bounded; those used longest ago go first.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use isochrony_runtime::{POLL_INTERVAL, is_stop_requested};

use crate::driver;
use crate::error::CloudError;
use crate::listing::Place;
use crate::requests::{Pin, Version};

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 256 << 10;
/// Bytes that are kept, with those that are on their way. Readers hold on to at most one block each beyond that.
pub(crate) const KEPT: u64 = 32 << 20;
/// Blocks of one request.
const RUN: u64 = 16;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct BlockKey {
    name: Arc<str>,
    /// Of the version of the object, so that blocks of different ones are never mixed.
    version: u64,
    block: u64,
}

/// A block that is there or on its way.
#[derive(Debug, Default)]
struct Slot {
    content: Mutex<Option<Result<Bytes, CloudError>>>,
    arrived: Condvar,
}

impl Slot {
    fn fill(&self, content: Result<Bytes, CloudError>) {
        *lock(&self.content) = Some(content);
        self.arrived.notify_all();
    }

    fn wait(&self) -> Result<Bytes, CloudError> {
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

#[derive(Debug, Default)]
struct Kept {
    now: u64,
    slots: HashMap<BlockKey, (u64, Arc<Slot>)>,
    by_use: BTreeMap<u64, BlockKey>,
}

impl Kept {
    fn use_again(&mut self, key: &BlockKey) -> Option<Arc<Slot>> {
        let now = self.now + 1;
        let (used, slot) = self.slots.get_mut(key)?;
        self.by_use.remove(used);
        *used = now;
        self.now = now;
        self.by_use.insert(now, key.clone());
        Some(slot.clone())
    }

    fn put(&mut self, key: BlockKey, slot: Arc<Slot>) {
        while self.slots.len() as u64 * BLOCK >= KEPT
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.slots.remove(&oldest);
        }
        self.now += 1;
        self.by_use.insert(self.now, key.clone());
        self.slots.insert(key, (self.now, slot));
    }

    fn remove(&mut self, key: &BlockKey, slot: &Arc<Slot>) {
        if let Some((used, found)) = self.slots.get(key)
            && Arc::ptr_eq(found, slot)
        {
            let used = *used;
            self.by_use.remove(&used);
            self.slots.remove(key);
        }
    }
}

/// The blocks of one store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Blocks(Arc<Mutex<Kept>>);

/// An object in one version.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) name: Arc<str>,
    pub(crate) pin: Arc<Pin>,
}

impl Object {
    pub(crate) fn new(name: &str, version: Version) -> Self {
        Self {
            name: name.into(),
            pin: Arc::new(Pin::new(version)),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.pin.listed.size
    }

    fn block(&self, block: u64) -> BlockKey {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.pin.listed.hash(&mut hasher);
        BlockKey {
            name: self.name.clone(),
            version: hasher.finish(),
            block,
        }
    }
}

impl Blocks {
    /// Fills `bytes` from `offset` on, within the object's length, and begins to read `ahead` bytes behind them.
    pub(crate) fn read(
        &self,
        place: &Place,
        object: &Object,
        offset: u64,
        bytes: &mut [u8],
        ahead: u64,
    ) -> Result<(), CloudError> {
        let end = offset + bytes.len() as u64;
        let last = (end + ahead).min(object.size());
        let slots = self.request(place, object, offset / BLOCK..last.div_ceil(BLOCK))?;
        let mut at = offset;
        for slot in slots {
            if at >= end {
                break;
            }
            let block = slot.wait()?;
            let within = (at % BLOCK) as usize;
            let count = (block.len() - within).min((end - at) as usize);
            let to = (at - offset) as usize;
            bytes[to..to + count].copy_from_slice(&block[within..within + count]);
            at += count as u64;
        }
        Ok(())
    }

    /// Forgets all blocks.
    pub(crate) fn forget(&self) {
        *lock(&self.0) = Kept::default();
    }

    /// Begins to read a whole small object.
    pub(crate) fn prefetch(&self, place: &Place, object: &Object) -> Result<(), CloudError> {
        let blocks = 0..object.size().div_ceil(BLOCK);
        self.request(place, object, blocks).map(drop)
    }

    /// Begins to read the first and the last block of an object.
    pub(crate) fn prefetch_ends(&self, place: &Place, object: &Object) -> Result<(), CloudError> {
        let count = object.size().div_ceil(BLOCK);
        self.request(place, object, 0..count.min(1))?;
        self.request(place, object, count.saturating_sub(1)..count)
            .map(drop)
    }

    /// The slots of blocks; requests are begun for those that are not there.
    fn request(
        &self,
        place: &Place,
        object: &Object,
        blocks: Range<u64>,
    ) -> Result<Vec<Arc<Slot>>, CloudError> {
        let mut slots = Vec::new();
        let mut missing: Vec<Vec<(BlockKey, Arc<Slot>)>> = Vec::new();
        let mut kept = lock(&self.0);
        for block in blocks {
            let key = object.block(block);
            if let Some(slot) = kept.use_again(&key) {
                slots.push(slot);
                continue;
            }
            let slot = Arc::new(Slot::default());
            kept.put(key.clone(), slot.clone());
            slots.push(slot.clone());
            let joins = |run: &&mut Vec<(BlockKey, Arc<Slot>)>| {
                let next = run.last().map(|(key, _)| key.block + 1);
                next == Some(block) && (run.len() as u64) < RUN
            };
            match missing.last_mut().filter(joins) {
                Some(run) => run.push((key, slot)),
                None => missing.push(vec![(key, slot)]),
            }
        }
        drop(kept);
        for run in missing {
            self.begin(place, object, run)?;
        }
        Ok(slots)
    }

    fn begin(
        &self,
        place: &Place,
        object: &Object,
        run: Vec<(BlockKey, Arc<Slot>)>,
    ) -> Result<(), CloudError> {
        let (requests, key) = (place.requests.clone(), place.key(&object.name)?);
        let (pin, kept) = (object.pin.clone(), self.0.clone());
        let first = run[0].0.block;
        let end = ((first + run.len() as u64) * BLOCK).min(pin.listed.size);
        driver::spawn(async move {
            let range = first * BLOCK..end;
            let mut bytes = Vec::with_capacity((end - range.start) as usize);
            let take = |part: Bytes| bytes.extend_from_slice(&part);
            let read = requests.range(&key, Some(&pin), range, take).await;
            let bytes = Bytes::from(bytes);
            for (number, (key, slot)) in run.into_iter().enumerate() {
                match &read {
                    Ok(()) => {
                        let from = number * BLOCK as usize;
                        let until = (from + BLOCK as usize).min(bytes.len());
                        // A copy of its own, so that one block that is kept keeps no others.
                        slot.fill(Ok(Bytes::copy_from_slice(&bytes[from..until])));
                    }
                    Err(error) => {
                        lock(&kept).remove(&key, &slot);
                        slot.fill(Err(error.clone()));
                    }
                }
            }
        })?;
        Ok(())
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        lock(&self.0).slots.len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
