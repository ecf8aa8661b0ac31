//! [`CacheInfo`]: state and counters of a cache.

use serde::{Deserialize, Serialize};

use crate::error::CacheError;
use crate::locks::{is_alive, is_unlocked};
use crate::state::StateGuard;
use isochrony_placement::EvictionPolicy;

/// State of a cache, or of the handle where a field says so, and counters since its creation; counts that a process had
/// not recorded when it was killed are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CacheInfo {
    /// The folder.
    pub folder: String,
    /// Quota of this handle.
    pub quota_bytes: u64,
    /// Policy of this handle.
    pub eviction: EvictionPolicy,
    /// Piece length of new objects.
    pub piece_bytes: u64,
    /// Number of objects.
    pub objects: u64,
    /// Objects pinned by any process.
    pub pinned_objects: u64,
    /// Bytes of present pieces.
    pub present_bytes: u64,
    /// Bytes of pieces being fetched.
    pub reserved_bytes: u64,
    /// Bytes counted against the quota.
    pub allocated_bytes: u64,
    /// Length of the journal, outside the quota.
    pub journal_bytes: u64,
    /// Open handles of live processes.
    pub handles: u64,
    /// Requested pieces that were present.
    pub hits: u64,
    /// Requested pieces that were not present.
    pub misses: u64,
    /// Evicted objects.
    pub evictions: u64,
    /// Creation time of the oldest object, seconds since 1970.
    pub oldest: Option<u64>,
    /// How often this handle found the journal unusable.
    pub resets: u64,
}

impl StateGuard<'_> {
    pub(crate) fn info(&self) -> Result<CacheInfo, CacheError> {
        let index = &self.index;
        let is_pinned = |digest| {
            let file = std::fs::File::open(self.inner.folder.object(digest));
            file.is_ok_and(|file| matches!(is_unlocked(&file), Ok(false)))
        };
        let pinned = index.objects.values().filter(|o| is_pinned(&o.digest));
        let folder = &self.inner.folder;
        let mut handles = 0;
        for owner in folder.owner_ids()? {
            handles += u64::from(is_alive(folder, owner)?);
        }
        let settings = &self.inner.settings;
        Ok(CacheInfo {
            folder: folder.root.display().to_string(),
            quota_bytes: settings.quota_bytes,
            eviction: index.queue.policy(),
            piece_bytes: settings.piece_bytes,
            objects: index.objects.len() as u64,
            pinned_objects: pinned.count() as u64,
            present_bytes: index.usage.present,
            reserved_bytes: index.usage.reserved,
            allocated_bytes: index.usage.allocated,
            journal_bytes: self.journal.bytes(),
            handles,
            hits: index.counters.hits,
            misses: index.counters.misses,
            evictions: index.counters.evictions,
            oldest: index.objects.values().map(|object| object.created).min(),
            resets: self.resets,
        })
    }
}
