//! In-memory blocks of objects, for data that is read in small, often adjacent parts.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::Semaphore;

use self::table::{BLOCK_BYTES, BlockFetch, BlockKey, BlockTable, PendingBlock, lock};
use crate::driver;
use crate::error::CloudError;
use crate::listing::StoreLocation;
use crate::read_ahead::ActiveReaders;
use crate::requests::{Version, VersionPin};

pub(crate) mod table;

const REQUEST_BLOCKS: u64 = 16;
/// Maximum requests in flight for read-ahead.
const MAX_PREFETCHES: usize = 16;

#[derive(Debug, Clone)]
pub(crate) struct BlockCache {
    table: Arc<Mutex<BlockTable>>,
    prefetches: Arc<Semaphore>,
    pub(crate) readers: Arc<ActiveReaders>,
}

impl Default for BlockCache {
    fn default() -> Self {
        Self {
            table: Arc::default(),
            prefetches: Arc::new(Semaphore::new(MAX_PREFETCHES)),
            readers: Arc::default(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) name: Arc<str>,
    pub(crate) pin: Arc<VersionPin>,
}

impl Object {
    pub(crate) fn new(name: &str, version: Version) -> Self {
        Self {
            name: name.into(),
            pin: Arc::new(VersionPin::new(version)),
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

impl BlockCache {
    pub(crate) fn read(
        &self,
        location: &StoreLocation,
        object: &Object,
        offset: u64,
        bytes: &mut [u8],
        ahead: u64,
    ) -> Result<(), CloudError> {
        let end = offset + bytes.len() as u64;
        let last = (end + ahead).min(object.size());
        let blocks = offset / BLOCK_BYTES..last.div_ceil(BLOCK_BYTES);
        let blocks = self.request(location, object, blocks, None)?;
        let mut at = offset;
        for block in blocks {
            if at >= end {
                break;
            }
            let block = block.wait()?;
            let within = (at % BLOCK_BYTES) as usize;
            let count = (block.len() - within).min((end - at) as usize);
            let to = (at - offset) as usize;
            bytes[to..to + count].copy_from_slice(&block[within..within + count]);
            at += count as u64;
        }
        Ok(())
    }

    pub(crate) fn forget(&self) {
        *lock(&self.table) = BlockTable::default();
    }

    pub(crate) fn prefetch(
        &self,
        location: &StoreLocation,
        object: &Object,
    ) -> Result<(), CloudError> {
        let blocks = 0..object.size().div_ceil(BLOCK_BYTES);
        let permits = Some(&self.prefetches);
        self.request(location, object, blocks, permits).map(drop)
    }

    pub(crate) fn prefetch_ends(
        &self,
        location: &StoreLocation,
        object: &Object,
    ) -> Result<(), CloudError> {
        let count = object.size().div_ceil(BLOCK_BYTES);
        let permits = Some(&self.prefetches);
        for blocks in [0..count.min(1), count.saturating_sub(1)..count] {
            self.request(location, object, blocks, permits)?;
        }
        Ok(())
    }

    fn request(
        &self,
        location: &StoreLocation,
        object: &Object,
        blocks: Range<u64>,
        permits: Option<&Arc<Semaphore>>,
    ) -> Result<Vec<Arc<PendingBlock>>, CloudError> {
        let mut found = Vec::new();
        let mut missing: Vec<BlockFetch> = Vec::new();
        let mut table = lock(&self.table);
        for number in blocks {
            let key = object.block(number);
            if let Some(block) = table.get(&key) {
                found.push(block);
                continue;
            }
            let block = Arc::new(PendingBlock::default());
            let bytes = object.size().saturating_sub(number * BLOCK_BYTES);
            table.insert(key.clone(), bytes.min(BLOCK_BYTES), block.clone());
            found.push(block.clone());
            let joins =
                |run: &&mut BlockFetch| run.next() == Some(number) && run.count() < REQUEST_BLOCKS;
            match missing.last_mut().filter(joins) {
                Some(run) => run.push(key, block),
                None => {
                    let mut run = BlockFetch::new(self.table.clone());
                    run.push(key, block);
                    missing.push(run);
                }
            }
        }
        drop(table);
        for run in missing {
            begin(location, object, run, permits.cloned())?;
        }
        Ok(found)
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        lock(&self.table).count()
    }
}

fn begin(
    location: &StoreLocation,
    object: &Object,
    run: BlockFetch,
    permits: Option<Arc<Semaphore>>,
) -> Result<(), CloudError> {
    let key = match location.key(&object.name) {
        Ok(key) => key,
        Err(error) => {
            run.fail(&error);
            return Err(error);
        }
    };
    let (requests, pin) = (location.requests.clone(), object.pin.clone());
    let start = run.first() * BLOCK_BYTES;
    let end = (start + run.count() * BLOCK_BYTES).min(pin.listed.size);
    driver::spawn_detached(async move {
        let _permit = match &permits {
            Some(permits) => permits.acquire().await.ok(),
            None => None,
        };
        let mut bytes = Vec::with_capacity((end - start) as usize);
        let take = |part: Bytes| bytes.extend_from_slice(&part);
        match requests.range(&key, Some(&pin), start..end, take).await {
            Ok(()) => run.fill(&Bytes::from(bytes)),
            Err(error) => run.fail(&error),
        }
    })
}

#[cfg(test)]
mod tests;
