//! Reports of caches to a task scheduler.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use isochrony_cache::{Change, Manifest, ObjectKey, Sequence};
use serde::{Deserialize, Serialize};

use super::key::{flat_key, full_bytes, sealed_key};
use super::names::{ObjectName, PeerAddress};
use super::{ShardCache, ShardCacheCounts};
use crate::error::{SnapshotError, StoreError};
use crate::layout::flat::Flat;
use crate::layout::shard::SEALED_SHARD_CHUNKS;
use crate::signal::Signal;

/// Shards in a host's cache, or changes of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReport {
    /// The cache's id, shared by all its processes.
    pub host: String,
    /// Where other hosts request pieces.
    pub address: Option<PeerAddress>,
    /// `added` is complete, not a change.
    pub is_all: bool,
    /// Shards now at least half present, with full length.
    pub added: Vec<(ObjectName, u64)>,
    /// Shards no longer half present.
    pub removed: Vec<ObjectName>,
    /// Shards partly present, for requests by others.
    pub partial: Vec<ObjectName>,
    /// Shards no longer present.
    pub absent: Vec<ObjectName>,
    /// Reads since this process's last report.
    pub counts: ShardCacheCounts,
}

impl CacheReport {
    /// Encodes the report.
    ///
    /// # Errors
    /// [`SnapshotError::Unreadable`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        postcard::to_stdvec(self).map_err(|_| unreadable())
    }

    /// Decodes [`to_bytes`](Self::to_bytes).
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

/// Position in a cache's changes, with what is present of each shard.
///
/// Memory: about 60 bytes per shard.
#[derive(Debug, Default)]
pub struct ReportCursor {
    sequence: Option<Sequence>,
    shards: HashMap<ObjectName, Presence>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Presence {
    pieces: u64,
    of: u64,
    bytes: u64,
    is_told: bool,
    is_partial: bool,
}

impl Presence {
    /// Half a shard counts: tasks at shard borders leave some pieces of neighbours.
    fn counts(self) -> bool {
        self.pieces > 0 && 2 * self.pieces >= self.of
    }
}

impl ShardCache {
    /// Changes since the last report with this cursor, or all if it is new or changes are unknown. A shard counts once
    /// half of its pieces are present.
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
            .sequence
            .and_then(|sequence| cache.changes_since(sequence).ok()?);
        match changes {
            Some((changes, sequence)) => {
                cursor.sequence = Some(sequence);
                let touched: BTreeSet<_> = changes
                    .iter()
                    .filter_map(|change| cursor.apply(change))
                    .collect();
                touched
                    .into_iter()
                    .for_each(|name| cursor.tell(name, &mut report));
            }
            None => {
                report.is_all = true;
                // Also if the cache is unreadable: later changes would refer to unknown shards.
                *cursor = ReportCursor::default();
                if let Ok(manifest) = cache.manifest() {
                    cursor.sequence = Some(manifest.sequence);
                    cursor.apply_manifest(&manifest);
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
    fn apply_manifest(&mut self, manifest: &Manifest) {
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

    fn apply(&mut self, change: &Change) -> Option<ObjectName> {
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
    /// Cached objects with samples of a range, and their lengths (uncompressed).
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
            true => (state.meta.chunk_samples * SEALED_SHARD_CHUNKS)
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
                let key = flat_key(store, state, shard);
                (key, full_bytes(state, shard))
            })
            .filter(|(_, bytes)| *bytes > 0)
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(key: &ObjectKey, pieces: Range<u32>) -> Change {
        Change::Added {
            key: key.clone(),
            bytes: 4 << 20,
            piece_bytes: 1 << 20,
            pieces,
        }
    }

    fn report(cursor: &mut ReportCursor, changes: &[Change]) -> CacheReport {
        let mut report = CacheReport {
            host: String::new(),
            address: None,
            is_all: false,
            added: Vec::new(),
            removed: Vec::new(),
            partial: Vec::new(),
            absent: Vec::new(),
            counts: ShardCacheCounts::default(),
        };
        let touched: BTreeSet<_> = (changes.iter())
            .filter_map(|change| cursor.apply(change))
            .collect();
        (touched.into_iter()).for_each(|name| cursor.tell(name, &mut report));
        report
    }

    #[test]
    fn reports_a_partial_shard_as_absent_without_pieces() {
        let key = ObjectKey::Shard {
            store: [1; 16],
            signal: 2,
            shard: 3,
            content_version: 4,
        };
        let name = ObjectName::from(&key);
        let dropped = Change::Dropped {
            key: key.clone(),
            piece: 0,
        };
        let mut cursor = ReportCursor::default();
        let some = report(&mut cursor, &[added(&key, 0..1)]);
        assert_eq!((some.partial, some.added), (vec![name], Vec::new()));
        let none = report(&mut cursor, std::slice::from_ref(&dropped));
        assert_eq!((none.absent, none.removed), (vec![name], Vec::new()));
        let most = report(&mut cursor, &[added(&key, 0..3)]);
        assert_eq!((most.partial, most.added.len()), (vec![name], 1));
        let gone = report(&mut cursor, &[Change::Removed { key: key.clone() }]);
        assert_eq!((gone.absent, gone.removed), (vec![name], vec![name]));
        let nothing = report(&mut cursor, &[added(&key, 0..1), dropped]);
        assert!(nothing.partial.is_empty() && nothing.absent.is_empty());
    }
}
