//! Cache index: which hosts hold an object.
//!
//! Hosts report changes as numbered deltas, and a full manifest after a missing one. Fetches must handle evicted
//! objects.

mod reports;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

pub use reports::{Change, Reply};

use crate::{HostId, ObjectId, PlacementError};

#[derive(Debug, Clone, Copy)]
struct Holder {
    host: u32,
    /// Running tasks of the host that read the object: unless ready, it is being fetched.
    claims: u16,
    ready: bool,
}

#[derive(Debug, Clone, Default)]
struct Object {
    bytes: u64,
    /// Sorted by host.
    holders: SmallVec<[Holder; 2]>,
    widespread: bool,
}

#[derive(Debug, Clone)]
struct Host {
    objects: FxHashSet<ObjectId>,
    ready_bytes: u64,
    next_delta: u64,
    /// Only a manifest is accepted, as a delta was missed.
    awaits_manifest: bool,
    removed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Gained(ObjectId, HostId),
    Lost(ObjectId, HostId),
    /// The size changed, or whether the object is widespread.
    Revalued(ObjectId),
}

/// Maps objects to size and holders, and hosts to their content.
///
/// Memory: 40 bytes per object, and per copy 8 bytes (none for the first two holders) and a hash table entry of 5 to 9
/// bytes.
#[derive(Debug, Clone)]
pub struct CacheIndex {
    objects: Vec<Object>,
    hosts: Vec<Host>,
    widespread: usize,
    /// Only recorded for a dispatcher, which takes them.
    effects: Option<Vec<Effect>>,
}

impl CacheIndex {
    /// An empty index. An object on more than `widespread` hosts does not affect where tasks run, until at most half as
    /// many hold it.
    pub fn new(widespread: usize) -> Self {
        Self {
            objects: Vec::new(),
            hosts: Vec::new(),
            widespread,
            effects: None,
        }
    }

    /// Records effects of changes until they are taken.
    pub(crate) fn with_effects(widespread: usize) -> Self {
        Self {
            effects: Some(Vec::new()),
            ..Self::new(widespread)
        }
    }

    /// Adds a host with an empty cache.
    pub fn add_host(&mut self) -> HostId {
        self.hosts.push(Host {
            objects: FxHashSet::default(),
            ready_bytes: 0,
            next_delta: 0,
            awaits_manifest: false,
            removed: false,
        });
        HostId((self.hosts.len() - 1) as u32)
    }

    /// Removes a host with its content. A restarted host is a new host.
    pub fn remove_host(&mut self, host: HostId) -> Result<(), PlacementError> {
        self.check(host)?;
        let entry = &mut self.hosts[host.0 as usize];
        let held = std::mem::take(&mut entry.objects);
        entry.removed = true;
        entry.ready_bytes = 0;
        // Effects must not depend on a hash table's layout.
        let mut held: Vec<_> = held.into_iter().collect();
        held.sort_unstable();
        for object in held {
            self.drop_holder(object, host);
        }
        Ok(())
    }

    /// Sets the size of an object, until a host reports it.
    pub fn set_bytes(&mut self, object: ObjectId, bytes: u64) {
        let entry = self.entry(object);
        if entry.bytes != bytes {
            let (old, copies) = (entry.bytes, entry.holders.clone());
            entry.bytes = bytes;
            for holder in copies.iter().filter(|holder| holder.ready) {
                let host = &mut self.hosts[holder.host as usize];
                host.ready_bytes = host.ready_bytes - old + bytes;
            }
            self.note(Effect::Revalued(object));
        }
    }

    /// Bytes of an object; 0 if unknown.
    pub fn bytes(&self, object: ObjectId) -> u64 {
        self.get(object).map_or(0, |entry| entry.bytes)
    }

    /// Hosts that have reported an object, in numerical order.
    pub fn holders(&self, object: ObjectId) -> impl Iterator<Item = HostId> {
        let holders = self.get(object).map_or(&[][..], |entry| &entry.holders[..]);
        let ready = holders.iter().filter(|holder| holder.ready);
        ready.map(|holder| HostId(holder.host))
    }

    /// Whether a host has reported an object.
    pub fn is_ready(&self, object: ObjectId, host: HostId) -> bool {
        let entry = self.get(object);
        entry.is_some_and(|entry| find(entry, host).is_ok_and(|at| entry.holders[at].ready))
    }

    /// Number of hosts that hold or fetch an object.
    pub fn replicas(&self, object: ObjectId) -> usize {
        self.get(object).map_or(0, |entry| entry.holders.len())
    }

    /// Whether the object is on too many hosts to affect where tasks run.
    pub fn is_widespread(&self, object: ObjectId) -> bool {
        self.get(object).is_some_and(|entry| entry.widespread)
    }

    /// Objects reported by a host, unordered.
    pub fn held_by(&self, host: HostId) -> impl Iterator<Item = ObjectId> {
        let objects = self.hosts.get(host.0 as usize).map(|host| &host.objects);
        let held = objects.into_iter().flat_map(|held| held.iter().copied());
        held.filter(move |&object| self.is_ready(object, host))
    }

    /// Bytes reported by a host.
    pub fn bytes_of(&self, host: HostId) -> u64 {
        self.hosts
            .get(host.0 as usize)
            .map_or(0, |host| host.ready_bytes)
    }

    /// Number of all copies, including those being fetched.
    pub fn copies(&self) -> usize {
        self.hosts.iter().map(|host| host.objects.len()).sum()
    }

    /// Weight for locality: bytes, at least 1; 0 if widespread.
    pub(crate) fn weight(&self, object: ObjectId) -> u64 {
        match self.get(object) {
            Some(entry) if !entry.widespread => entry.bytes.max(1),
            _ => 0,
        }
    }

    /// 0 unless the host holds or fetches the object.
    pub(crate) fn weight_on(&self, object: ObjectId, host: HostId) -> u64 {
        match self.get(object) {
            Some(entry) if !entry.widespread && find(entry, host).is_ok() => entry.bytes.max(1),
            _ => 0,
        }
    }

    /// None if widespread.
    pub(crate) fn located(&self, object: ObjectId) -> impl Iterator<Item = HostId> {
        let holders = self.get(object).filter(|entry| !entry.widespread);
        let holders = holders.map_or(&[][..], |entry| &entry.holders[..]);
        holders.iter().map(|holder| HostId(holder.host))
    }

    /// A task that reads the object begins.
    pub(crate) fn claim(&mut self, object: ObjectId, host: HostId) {
        let holder = self.holder(object, host);
        holder.claims = holder.claims.saturating_add(1);
    }

    /// A task that reads the object ended. Unreported, it was not fetched.
    pub(crate) fn release(&mut self, object: ObjectId, host: HostId) {
        let entry = self.entry(object);
        if let Ok(at) = find(entry, host) {
            let holder = &mut entry.holders[at];
            holder.claims = holder.claims.saturating_sub(1);
            if holder.claims == 0 && !holder.ready {
                self.hosts[host.0 as usize].objects.remove(&object);
                self.drop_holder(object, host);
            }
        }
    }

    pub(crate) fn take_effects(&mut self, into: &mut Vec<Effect>) {
        into.clear();
        if let Some(effects) = &mut self.effects {
            std::mem::swap(into, effects);
        }
    }

    fn note(&mut self, effect: Effect) {
        if let Some(effects) = &mut self.effects {
            effects.push(effect);
        }
    }

    pub(crate) fn check(&self, host: HostId) -> Result<(), PlacementError> {
        match self.hosts.get(host.0 as usize) {
            Some(entry) if !entry.removed => Ok(()),
            _ => Err(PlacementError::UnknownHost {
                host: host.0,
                hosts: self.hosts.len(),
            }),
        }
    }

    fn get(&self, object: ObjectId) -> Option<&Object> {
        self.objects.get(object.0 as usize)
    }

    fn entry(&mut self, object: ObjectId) -> &mut Object {
        let at = object.0 as usize;
        if at >= self.objects.len() {
            self.objects.resize_with(at + 1, Object::default);
        }
        &mut self.objects[at]
    }

    fn set_ready(&mut self, object: ObjectId, host: HostId, bytes: u64) {
        self.set_bytes(object, bytes);
        let holder = self.holder(object, host);
        if !std::mem::replace(&mut holder.ready, true) {
            self.hosts[host.0 as usize].ready_bytes += bytes;
        }
    }

    fn set_evicted(&mut self, object: ObjectId, host: HostId) {
        let entry = self.entry(object);
        let bytes = entry.bytes;
        let Ok(at) = find(entry, host) else { return };
        let holder = &mut entry.holders[at];
        let was_ready = std::mem::replace(&mut holder.ready, false);
        let claimed = holder.claims > 0;
        if was_ready {
            self.hosts[host.0 as usize].ready_bytes -= bytes;
        }
        if !claimed {
            self.hosts[host.0 as usize].objects.remove(&object);
            self.drop_holder(object, host);
        }
    }

    fn holder(&mut self, object: ObjectId, host: HostId) -> &mut Holder {
        let limit = self.widespread;
        let entry = self.entry(object);
        let at = match find(entry, host) {
            Ok(at) => at,
            Err(at) => {
                let new = Holder {
                    host: host.0,
                    claims: 0,
                    ready: false,
                };
                entry.holders.insert(at, new);
                let spread = !entry.widespread && entry.holders.len() > limit;
                entry.widespread |= spread;
                self.hosts[host.0 as usize].objects.insert(object);
                self.note(Effect::Gained(object, host));
                if spread {
                    self.note(Effect::Revalued(object));
                }
                at
            }
        };
        &mut self.objects[object.0 as usize].holders[at]
    }

    fn drop_holder(&mut self, object: ObjectId, host: HostId) {
        let limit = self.widespread;
        let entry = self.entry(object);
        if let Ok(at) = find(entry, host) {
            entry.holders.remove(at);
            let located = entry.widespread && entry.holders.len() <= limit / 2;
            entry.widespread &= !located;
            self.note(Effect::Lost(object, host));
            if located {
                self.note(Effect::Revalued(object));
            }
        }
    }
}

fn find(entry: &Object, host: HostId) -> Result<usize, usize> {
    entry
        .holders
        .binary_search_by_key(&host.0, |holder| holder.host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_memory_is_as_documented() {
        assert_eq!(std::mem::size_of::<Object>(), 40);
        assert_eq!(std::mem::size_of::<Holder>(), 8);
    }

    #[test]
    fn effects_are_recorded_only_for_a_dispatcher() {
        let mut index = CacheIndex::new(4);
        let host = index.add_host();
        index.claim(ObjectId(0), host);
        let mut effects = vec![Effect::Revalued(ObjectId(9))];
        index.take_effects(&mut effects);
        assert!(effects.is_empty());
        let mut index = CacheIndex::with_effects(4);
        let host = index.add_host();
        index.claim(ObjectId(0), host);
        index.take_effects(&mut effects);
        assert_eq!(effects, [Effect::Gained(ObjectId(0), host)]);
    }
}
