//! What a scheduler of tasks learns of caches: names of objects, which of them a host has, and where bytes came from.

use std::ops::Range;

use isochrony_cache::{Change, ObjectKey, Sequence};
use serde::{Deserialize, Serialize};

use super::{ShardCache, ShardCacheCounts};
use crate::decode::cached::sealed_key;
use crate::error::{SnapshotError, StoreError};
use crate::layout::flat::Flat;
use crate::seal::SHARD_CHUNKS;
use crate::signal::Signal;

/// Address of a process that gives pieces to other hosts: host and port.
pub type PeerAddress = (String, u16);

/// Name of a cached object in messages and indexes: the first half of its key's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectName(pub [u8; 16]);

impl From<&ObjectKey> for ObjectName {
    fn from(key: &ObjectKey) -> Self {
        let mut name = [0; 16];
        name.copy_from_slice(&key.digest()[..16]);
        Self(name)
    }
}

/// What a host's cache has of shards, or what changed in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReport {
    /// Which cache it is: the same for all processes that share one.
    pub host: String,
    /// Where other hosts get pieces from.
    pub address: Option<PeerAddress>,
    /// Whether `added` is all that there is.
    pub is_all: bool,
    /// Shards of which some pieces are present, with the bytes of the whole shard.
    pub added: Vec<(ObjectName, u64)>,
    /// Shards that are gone.
    pub removed: Vec<ObjectName>,
    /// What was read since the last report of the process.
    pub counts: ShardCacheCounts,
}

impl CacheReport {
    /// The report as bytes.
    ///
    /// # Errors
    /// [`SnapshotError::Unreadable`] if it cannot be encoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        postcard::to_stdvec(self).map_err(|_| unreadable())
    }

    /// Reads [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`SnapshotError::Unreadable`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        postcard::from_bytes(bytes).map_err(|_| unreadable())
    }
}

fn unreadable() -> StoreError {
    SnapshotError::Unreadable {
        reason: "it is no report of a cache".into(),
    }
    .into()
}

/// Up to where one reader of reports knows the changes of a cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportCursor(Option<Sequence>);

impl ShardCache {
    /// What changed since the last report with this cursor; all there is with a new one, or where that is not known.
    /// An unreadable cache has nothing.
    pub fn report(&self, cursor: &mut ReportCursor) -> CacheReport {
        let mut report = CacheReport {
            host: self.host.clone(),
            address: self.address.clone(),
            is_all: false,
            added: Vec::new(),
            removed: Vec::new(),
            counts: self.unreported_counts(),
        };
        let cache = self.pins.cache();
        let changes = cursor.0.and_then(|known| cache.changes_since(known).ok()?);
        if let Some((changes, sequence)) = changes {
            cursor.0 = Some(sequence);
            for change in changes {
                match change {
                    Change::Added { key, bytes, .. } if is_shard(&key) => {
                        let name = ObjectName::from(&key);
                        report.removed.retain(|removed| *removed != name);
                        if report.added.last().is_none_or(|(last, _)| *last != name) {
                            report.added.push((name, bytes));
                        }
                    }
                    Change::Removed { key } if is_shard(&key) => {
                        let name = ObjectName::from(&key);
                        report.added.retain(|(added, _)| *added != name);
                        report.removed.push(name);
                    }
                    _ => {}
                }
            }
            return report;
        }
        report.is_all = true;
        if let Ok(manifest) = cache.manifest() {
            cursor.0 = Some(manifest.sequence);
            let present = |one: &&isochrony_cache::ManifestEntry| {
                is_shard(&one.key) && !one.pieces.is_empty()
            };
            let objects = manifest.objects.iter().filter(present);
            report.added = objects
                .map(|one| (ObjectName::from(&one.key), one.bytes))
                .collect();
        }
        report
    }
}

fn is_shard(key: &ObjectKey) -> bool {
    matches!(key, ObjectKey::Shard { .. })
}

impl Signal {
    /// The objects that a cache has for samples of a range, with their lengths; of a sealed signal those before compression.
    ///
    /// # Errors
    /// [`StoreError::Closed`], [`StoreError::Io`].
    pub fn cached_objects(&self, range: Range<i64>) -> Result<Vec<(ObjectKey, u64)>, StoreError> {
        let state = self.state();
        let flat = Flat::data(&state.meta);
        let range = range.start.max(0)..range.end.min(state.end);
        let is_sealed = !state.meta.codec.is_empty();
        if (!is_sealed && flat.marks_at().is_none()) || range.is_empty() {
            return Ok(Vec::new());
        }
        let store = self.shared().backend.uuid()?;
        let size = state.meta.format.size() as u64;
        let length = match is_sealed {
            true => (state.meta.chunk_samples * SHARD_CHUNKS)
                .cast_signed()
                .max(1),
            false => state.meta.shard_samples().max(1),
        };
        let shards = range.start / length..=(range.end - 1) / length;
        Ok(shards
            .filter(|shard| {
                let own = shard * length..((shard + 1) * length).min(state.end);
                state.gaps.missing_within(own.clone()) < own.end - own.start
            })
            .map(|shard| {
                let shard = shard.cast_unsigned();
                if is_sealed {
                    let version = state.data.array();
                    let samples = (state.end - shard.cast_signed() * length).min(length);
                    let key = sealed_key(store, state.id, shard, version);
                    return (key, samples.cast_unsigned() * size);
                }
                let key = ObjectKey::Shard {
                    store: store.into_bytes(),
                    signal: state.id.0,
                    shard,
                    content_version: state.data.content_version(shard),
                };
                (key, crate::engine::full_bytes(state, shard))
            })
            .filter(|(_, bytes)| *bytes > 0)
            .collect())
    }
}
