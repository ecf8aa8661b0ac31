//! Host reports: numbered deltas, and full manifests after a missing one.

use rustc_hash::FxHashMap;

use super::CacheIndex;
use crate::{HostId, ObjectId, PlacementError};

/// A change of a host's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Complete in the cache and available to peers.
    Added {
        /// The object.
        object: ObjectId,
        /// Its size.
        bytes: u64,
    },
    /// Evicted.
    Removed {
        /// The object.
        object: ObjectId,
    },
}

/// The index's answer to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Applied.
    Applied,
    /// Applied before; nothing changes.
    Repeated,
    /// A delta is missing: deltas are ignored until a manifest.
    SendManifest,
}

impl CacheIndex {
    /// Applies the changes of a host's cache since the previous delta; numbered from 0.
    pub fn apply_delta(
        &mut self,
        host: HostId,
        number: u64,
        changes: &[Change],
    ) -> Result<Reply, PlacementError> {
        self.check(host)?;
        let entry = &mut self.hosts[host.0 as usize];
        if number < entry.next_delta {
            return Ok(Reply::Repeated);
        }
        if entry.awaits_manifest || number > entry.next_delta {
            entry.awaits_manifest = true;
            return Ok(Reply::SendManifest);
        }
        entry.next_delta = number + 1;
        for &change in changes {
            match change {
                Change::Added { object, bytes } => self.set_ready(object, host, bytes),
                Change::Removed { object } => self.set_evicted(object, host),
            }
        }
        Ok(Reply::Applied)
    }

    /// Replaces a host's known content. `next_delta`: first delta not in the manifest.
    pub fn apply_manifest(
        &mut self,
        host: HostId,
        next_delta: u64,
        objects: &[(ObjectId, u64)],
    ) -> Result<Reply, PlacementError> {
        self.check(host)?;
        let entry = &mut self.hosts[host.0 as usize];
        // A manifest overtaken by deltas would undo them.
        if next_delta < entry.next_delta {
            return Ok(Reply::Repeated);
        }
        entry.next_delta = next_delta;
        entry.awaits_manifest = false;
        let listed: FxHashMap<ObjectId, u64> = objects.iter().copied().collect();
        let mut gone: Vec<_> = self
            .held_by(host)
            .filter(|object| !listed.contains_key(object))
            .collect();
        gone.sort_unstable();
        for object in gone {
            self.set_evicted(object, host);
        }
        for &(object, bytes) in objects {
            self.set_ready(object, host, bytes);
        }
        Ok(Reply::Applied)
    }
}
