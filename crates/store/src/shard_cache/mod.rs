//! Reading shards through the cache of a host, for stores whose files are another machine's.
//!
//! A [`ShardCache`] is given to a store that is open for reading ([`Store::set_shard_cache`](crate::Store::set_shard_cache)).
//! From then on the samples of its signals come from the host's cache; what is missing there is asked of other hosts
//! ([`PieceSource`]), then read from the store.
//!
//! ```text
//!  Sources ── CachedFile ──┬── head, tail without a checksum ───────────────▶ file of the store
//!                          └── chunks with checksums ── ShardCache ── pieces ──▶ isochrony_cache::Cache
//!                                                          │ missing: PieceSource, then the file; both checked
//! ```
//!
//! **No unchecked bytes.** Whatever comes from another host or from the store is compared, inner chunk by inner chunk, with
//! the checksums that the store states, before it is stored. Samples in gaps are stored as zeros, so that the bytes of an
//! object follow from its key.
//!
//! **Content version.** An object is the chunks of one shard that are full, under a number that changes with a fill, an
//! overwrite and a seal ([`DataVersion::content_version`](crate::version::DataVersion::content_version)), and grows with
//! appends.
//!
//! **A cache is never a reason to fail.** Where it cannot take a piece, or a checksum is not right (the writer was faster
//! than this reader), the bytes are read from the store as without a cache.
//!
//! **Memory.** 8 MiB and two chunks for each thread that fetches, and a mapping of the address space for each shard that is
//! kept pinned, at most half the quota.

mod content;
mod file;
mod fill;
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
use pins::Pins;
pub use report::{CacheReport, ObjectName, PeerAddress, ReportCursor};

/// Objects of which it is kept which hosts have them; they are hints.
const MAX_SOURCES: usize = 1 << 16;
/// Hosts that are kept of an object.
const MAX_SOURCES_OF_OBJECT: usize = 8;

/// Other hosts that may have pieces of an object.
pub trait PieceSource: fmt::Debug + Send + Sync {
    /// Asks `sources` for bytes of an object that are missing here: ranges of whole pieces. `take` is called with an offset and the bytes
    /// of whole pieces that lie in one of the ranges; false: they are not the object's, and this source should be asked no
    /// more. What was not taken is read from the store.
    fn fetch(
        &self,
        object: &ObjectKey,
        object_bytes: u64,
        missing: &[Range<u64>],
        sources: &[PeerAddress],
        take: &mut (dyn FnMut(u64, &[u8]) -> bool + Send),
    );
}

/// Where bytes of signals came from since the cache was opened, in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShardCacheCounts {
    /// Bytes that were read and had been in the cache.
    pub local_bytes: u64,
    /// Bytes that other hosts gave.
    pub peer_bytes: u64,
    /// Bytes that were read from stores: what was cached then, and what cannot be cached.
    pub storage_bytes: u64,
    /// Reads that were served without fetching anything, and those that were not.
    pub hits: u64,
    /// See `hits`.
    pub misses: u64,
    /// Times that bytes did not have the checksum that the store states.
    pub rejected: u64,
}

impl ShardCacheCounts {
    /// These and others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What was counted since others.
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

/// A host's cache as stores use it. One for each process, shared by its stores.
#[derive(Debug)]
pub struct ShardCache {
    pins: Pins,
    peers: Option<Arc<dyn PieceSource>>,
    host: String,
    address: Option<PeerAddress>,
    /// Hosts that have an object, as a scheduler said.
    sources: Mutex<HashMap<ObjectName, Vec<PeerAddress>>>,
    counters: Counters,
    /// What was counted up to the last report.
    reported: Mutex<ShardCacheCounts>,
}

impl ShardCache {
    /// Shards in a cache.
    ///
    /// # Errors
    /// What the cache says when it is asked for its quota.
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

    /// Under this name in reports, which tells caches of different hosts from each other, with the address at which other
    /// hosts get pieces.
    #[must_use]
    pub fn named(mut self, host: String, address: Option<PeerAddress>) -> Self {
        (self.host, self.address) = (host, address);
        self
    }

    /// Takes note of hosts that have pieces of an object, or are about to fetch some, for when pieces of it are missing. They
    /// are asked before those that were known.
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

    /// What was counted since the last call.
    fn unreported_counts(&self) -> ShardCacheCounts {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.counts();
        now.since(std::mem::replace(&mut *reported, now))
    }

    /// Where bytes came from.
    #[must_use]
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

    /// Lets every shard be evicted that nobody reads at this moment.
    pub fn release(&self) {
        self.pins.clear();
    }
}
