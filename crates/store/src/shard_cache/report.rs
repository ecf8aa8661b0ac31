//! What a scheduler of tasks learns of caches: names of objects, which of them a host has, and where bytes came from.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use isochrony_cache::{Change, Manifest, ObjectKey, Sequence};
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
    /// Shards of which at least half of the pieces are present, with the bytes of the whole shard.
    pub added: Vec<(ObjectName, u64)>,
    /// Shards of which fewer are.
    pub removed: Vec<ObjectName>,
    /// Shards of which some pieces are present, for others to ask for.
    pub partial: Vec<ObjectName>,
    /// Shards of which none is present any more.
    pub absent: Vec<ObjectName>,
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

/// Up to where one reader of reports knows the changes of a cache, and how much of each shard is present.
///
/// Memory: about 60 bytes for each shard of the cache.
#[derive(Debug, Default)]
pub struct ReportCursor {
    known: Option<Sequence>,
    shards: HashMap<ObjectName, Presence>,
}

/// What is present of a shard.
#[derive(Debug, Clone, Copy, Default)]
struct Presence {
    pieces: u64,
    of: u64,
    bytes: u64,
    is_told: bool,
    is_partial: bool,
}

impl Presence {
    /// A host has a shard if it has half of it: tasks at the borders of shards leave some pieces of their neighbours.
    fn counts(self) -> bool {
        self.pieces > 0 && 2 * self.pieces >= self.of
    }
}

impl ShardCache {
    /// What changed since the last report with this cursor; all there is with a new one, or where that is not known. A
    /// shard is there once half of its pieces are. An unreadable cache has nothing.
    pub fn report(&self, cursor: &mut ReportCursor) -> CacheReport {
        let mut report = CacheReport {
            host: self.host.clone(),
            address: self.address.clone(),
            is_all: false,
            added: Vec::new(),
            removed: Vec::new(),
            partial: Vec::new(),
            absent: Vec::new(),
            counts: self.unreported_counts(),
        };
        let cache = self.pins.cache();
        let changes = cursor
            .known
            .and_then(|known| cache.changes_since(known).ok()?);
        match changes {
            Some((changes, sequence)) => {
                cursor.known = Some(sequence);
                let touched: BTreeSet<_> = changes
                    .iter()
                    .filter_map(|change| cursor.take_in(change))
                    .collect();
                touched
                    .into_iter()
                    .for_each(|name| cursor.tell(name, &mut report));
            }
            None => {
                report.is_all = true;
                cursor.shards.clear();
                if let Ok(manifest) = cache.manifest() {
                    cursor.known = Some(manifest.sequence);
                    cursor.take_in_all(&manifest);
                }
                let names: Vec<_> = cursor.shards.keys().copied().collect();
                names
                    .into_iter()
                    .for_each(|name| cursor.tell(name, &mut report));
            }
        }
        report
    }
}

impl ReportCursor {
    fn take_in_all(&mut self, manifest: &Manifest) {
        for one in manifest.objects.iter().filter(|one| is_shard(&one.key)) {
            let pieces = one.pieces.iter().map(|run| u64::from(run.end - run.start));
            let presence = Presence {
                pieces: pieces.sum(),
                of: one.bytes.div_ceil(one.piece_bytes.max(1)),
                bytes: one.bytes,
                ..Presence::default()
            };
            self.shards.insert(ObjectName::from(&one.key), presence);
        }
    }

    /// The shard that a change is about.
    fn take_in(&mut self, change: &Change) -> Option<ObjectName> {
        let (Change::Added { key, .. } | Change::Dropped { key, .. } | Change::Removed { key }) =
            change
        else {
            return None;
        };
        if !is_shard(key) {
            return None;
        }
        let name = ObjectName::from(key);
        let known = self.shards.entry(name).or_default();
        match change {
            Change::Added {
                bytes,
                piece_bytes,
                pieces,
                ..
            } => {
                known.pieces += u64::from(pieces.end - pieces.start);
                (known.of, known.bytes) = (bytes.div_ceil((*piece_bytes).max(1)), *bytes);
            }
            Change::Dropped { .. } => known.pieces = known.pieces.saturating_sub(1),
            _ => known.pieces = 0,
        }
        Some(name)
    }

    /// Tells of a shard if it is there since the last report, or is not any more.
    fn tell(&mut self, name: ObjectName, report: &mut CacheReport) {
        let Some(known) = self.shards.get_mut(&name) else {
            return;
        };
        match (known.is_told, known.counts()) {
            (false, true) => report.added.push((name, known.bytes)),
            (true, false) => report.removed.push(name),
            _ => {}
        }
        known.is_told = known.counts();
        if known.pieces > 0 && !std::mem::replace(&mut known.is_partial, true) {
            report.partial.push(name);
        }
        if known.pieces == 0 {
            if known.is_partial {
                report.absent.push(name);
            }
            self.shards.remove(&name);
        }
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
