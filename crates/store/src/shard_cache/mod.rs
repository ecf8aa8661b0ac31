//! Reads shards of remote stores through the cache of this host.
//!
//! A store open for reading gets a [`ShardCache`] ([`Store::set_shard_cache`](crate::Store::set_shard_cache)). Samples
//! come from it, other hosts ([`PieceSource`]) or the store, in this order.
//!
//! ```text
//!  Sources ── CachedFile ──┬── head, tail without a checksum ───────────────▶ file of the store
//!                          └── chunks with checksums ── ShardCache ── pieces ──▶ isochrony_cache::Cache
//!                                                          │ missing: PieceSource, then the file; both checked
//! ```
//!
//! **All bytes are verified** per inner chunk against the store's checksums before they are cached. Samples in gaps are
//! zeros, so that an object's key determines its bytes.
//!
//! **Content version.** An object holds the full chunks of one shard and grows with appends. Its version changes with a
//! fill, an overwrite and a seal ([`DataVersion::content_version`](crate::version::DataVersion::content_version)).
//!
//! **A cache never causes a failure.** Without space, or if a checksum differs because the writer is ahead, bytes are
//! read from the store.
//!
//! **Memory.** 8 MiB and two chunks per fetching thread; address space for pinned shards, at most half the quota.

mod content;
mod file;
mod fill;
pub(crate) mod key;
mod names;
mod pins;
mod report;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

pub use isochrony_cache::{Cache, CacheError, ObjectKey};

pub(crate) use content::{CachedContent, FlatContent};
pub(crate) use file::{CachedFile, Origin};
pub use names::{ObjectName, PeerAddress};
use pins::Pins;
pub use report::{CacheReport, ReportCursor};

/// Most objects with known sources, which are hints.
const MAX_SOURCES: usize = 1 << 16;
const MAX_SOURCES_OF_OBJECT: usize = 8;

/// Access to other hosts' pieces of an object.
pub trait PieceSource: fmt::Debug + Send + Sync {
    /// Requests missing bytes of an object from `sources`: ranges of whole pieces. `take` gets an offset and bytes of
    /// whole pieces within one range; `false`: they are wrong, and this source should not be asked again.
    fn fetch(
        &self,
        object: &ObjectKey,
        object_bytes: u64,
        missing: &[Range<u64>],
        sources: &[PeerAddress],
        take: &mut (dyn FnMut(u64, &[u8]) -> bool + Send),
    );
}

/// Where bytes of signals came from since the cache was opened by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShardCacheCounts {
    /// Bytes read that were in the cache.
    pub local_bytes: u64,
    /// Bytes from other hosts.
    pub peer_bytes: u64,
    /// Bytes read from stores, cacheable or not.
    pub storage_bytes: u64,
    /// Reads that fetched nothing.
    pub hits: u64,
    /// Reads that fetched something.
    pub misses: u64,
    /// Pieces whose checksum differed from the store's.
    pub rejected: u64,
}

impl ShardCacheCounts {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn since(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        Self {
            local_bytes: join(self.local_bytes, other.local_bytes),
            peer_bytes: join(self.peer_bytes, other.peer_bytes),
            storage_bytes: join(self.storage_bytes, other.storage_bytes),
            hits: join(self.hits, other.hits),
            misses: join(self.misses, other.misses),
            rejected: join(self.rejected, other.rejected),
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    local: AtomicU64,
    peer: AtomicU64,
    storage: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    rejected: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// A host's cache. One per process, shared by its stores.
#[derive(Debug)]
pub struct ShardCache {
    pins: Pins,
    peers: Option<Arc<dyn PieceSource>>,
    host: String,
    address: Option<PeerAddress>,
    sources: Mutex<HashMap<ObjectName, Vec<PeerAddress>>>,
    counters: Counters,
    reported: Mutex<ShardCacheCounts>,
}

impl ShardCache {
    /// Uses `cache` for shards.
    ///
    /// # Errors
    /// Reading the cache's quota fails.
    pub fn new(cache: Cache, peers: Option<Arc<dyn PieceSource>>) -> Result<Self, CacheError> {
        let quota = cache.info()?.quota_bytes;
        Ok(Self {
            host: cache.folder().display().to_string(),
            pins: Pins::new(cache, quota / 2),
            peers,
            address: None,
            sources: Mutex::default(),
            counters: Counters::default(),
            reported: Mutex::default(),
        })
    }

    /// Sets host name (distinguishes caches in reports) and address at which others request pieces.
    #[must_use]
    pub fn named(mut self, host: String, address: Option<PeerAddress>) -> Self {
        (self.host, self.address) = (host, address);
        self
    }

    /// Records hosts that have, or will soon fetch, pieces of an object; these are asked first.
    pub fn add_sources(&self, object: ObjectName, mut sources: Vec<PeerAddress>) {
        let mut known = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_SOURCES {
            known.clear();
        }
        let of_object = known.entry(object).or_default();
        of_object.retain(|one| !sources.contains(one));
        sources.append(of_object);
        sources.truncate(MAX_SOURCES_OF_OBJECT);
        *of_object = sources;
    }

    fn sources(&self, object: &ObjectKey) -> Vec<PeerAddress> {
        let known = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return Vec::new();
        }
        let sources = known.get(&ObjectName::from(object)).into_iter().flatten();
        let is_other = |one: &&PeerAddress| Some(*one) != self.address.as_ref();
        sources.filter(is_other).cloned().collect()
    }

    fn unreported_counts(&self) -> ShardCacheCounts {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.counts();
        now.since(std::mem::replace(&mut *reported, now))
    }

    #[must_use]
    /// Counts so far.
    pub fn counts(&self) -> ShardCacheCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        ShardCacheCounts {
            local_bytes: get(&counters.local),
            peer_bytes: get(&counters.peer),
            storage_bytes: get(&counters.storage),
            hits: get(&counters.hits),
            misses: get(&counters.misses),
            rejected: get(&counters.rejected),
        }
    }

    /// Makes shards evictable that no read uses.
    pub fn release(&self) {
        self.pins.clear();
    }
}
