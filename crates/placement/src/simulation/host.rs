//! A simulated host.

use std::collections::{BTreeMap, VecDeque};

use super::ClusterModel;
use super::rate::SharedRate;
use crate::{Change, Eviction, ObjectId};

pub(crate) struct Host {
    pub(crate) cache: Eviction<ObjectId>,
    pub(crate) disk: SharedRate,
    pub(crate) link: SharedRate,
    pub(crate) fetching: BTreeMap<ObjectId, Vec<u32>>,
    /// Computing runs, and runs that wait for a processor.
    pub(crate) computing: u32,
    pub(crate) ready: VecDeque<u32>,
    /// Unreported cache changes, and the number of the next delta.
    pub(crate) changes: Vec<Change>,
    pub(crate) next_delta: u64,
    pub(crate) started: u64,
    pub(crate) removed: bool,
}

impl Host {
    pub(crate) fn new(cluster: &ClusterModel, now: u64) -> Self {
        Self {
            cache: Eviction::new(cluster.eviction),
            disk: SharedRate::new(cluster.disk_rate, cluster.disk_rate),
            link: SharedRate::new(cluster.link_rate, cluster.link_rate),
            fetching: BTreeMap::new(),
            computing: 0,
            ready: VecDeque::new(),
            changes: Vec::new(),
            next_delta: 0,
            started: now,
            removed: false,
        }
    }

    /// Returns the number of evictions; None if objects in use leave no room.
    pub(crate) fn store(&mut self, object: ObjectId, bytes: u64, capacity: u64) -> Option<u64> {
        if bytes > capacity {
            return None;
        }
        let needed = (self.cache.bytes() + bytes).saturating_sub(capacity);
        let evicted = self.cache.evict(needed).ok()?;
        let count = evicted.len() as u64;
        for (object, _) in evicted {
            self.changes.push(Change::Removed { object });
        }
        self.cache.insert(object, bytes).ok()?;
        self.changes.push(Change::Added { object, bytes });
        Some(count)
    }
}
