//! Keeps shards pinned between reads, so that each is verified once per process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use isochrony_cache::{Cache, CacheError, Mapping, ObjectKey, PinnedObject};

#[derive(Debug)]
pub(crate) struct Pin {
    pub(crate) object: PinnedObject,
    mapping: OnceLock<Arc<Mapping>>,
}

impl Pin {
    pub(crate) fn mapping(&self) -> Result<Arc<Mapping>, CacheError> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(Arc::clone(mapping));
        }
        let mapping = Arc::new(self.object.map()?);
        Ok(Arc::clone(self.mapping.get_or_init(|| mapping)))
    }
}

/// Recently used shards, bounded in bytes, since pinned ones cannot be evicted.
#[derive(Debug)]
pub(crate) struct Pins {
    cache: Cache,
    limit: u64,
    table: Mutex<PinTable>,
}

#[derive(Debug, Default)]
struct PinTable {
    now: u64,
    bytes: u64,
    by_key: HashMap<ObjectKey, (u64, Arc<Pin>)>,
}

impl Pins {
    pub(crate) fn new(cache: Cache, limit: u64) -> Self {
        Self {
            cache,
            limit,
            table: Mutex::default(),
        }
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn get(&self, key: &ObjectKey, bytes: u64) -> Result<Arc<Pin>, CacheError> {
        {
            let mut table = self.lock();
            table.now += 1;
            let now = table.now;
            if let Some((used, pin)) = table.by_key.get_mut(key)
                && pin.object.bytes() >= bytes
            {
                *used = now;
                return Ok(Arc::clone(pin));
            }
        }
        let object = match self.cache.pin(key, bytes) {
            Err(CacheError::CacheFull { .. } | CacheError::DiskFull { .. }) => {
                self.clear();
                self.cache.pin(key, bytes)?
            }
            object => object?,
        };
        let pin = Arc::new(Pin {
            object,
            mapping: OnceLock::new(),
        });
        self.lock().keep(key, &pin, self.limit);
        Ok(pin)
    }

    pub(crate) fn remove(&self, key: &ObjectKey) {
        let mut table = self.lock();
        if let Some((_, pin)) = table.by_key.remove(key) {
            table.bytes -= pin.object.bytes();
        }
    }

    pub(crate) fn clear(&self) {
        *self.lock() = PinTable::default();
    }

    fn lock(&self) -> MutexGuard<'_, PinTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PinTable {
    fn keep(&mut self, key: &ObjectKey, pin: &Arc<Pin>, limit: u64) {
        let bytes = pin.object.bytes();
        if let Some((_, before)) = self.by_key.remove(key) {
            self.bytes -= before.object.bytes();
        }
        while self.bytes + bytes > limit {
            let oldest = self.by_key.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                // It alone exceeds the limit and stays pinned while it is read.
                return;
            };
            if let Some((_, pin)) = self.by_key.remove(&oldest) {
                self.bytes -= pin.object.bytes();
            }
        }
        self.bytes += bytes;
        self.by_key.insert(key.clone(), (self.now, Arc::clone(pin)));
    }
}
