//! Ranks groups of waiting tasks on each host by its bytes of their objects.

use super::groups::Groups;
use super::policy::{DispatchOptions, Policy};
use super::ranking::{Key, Ranking};
use super::tasks::Task;
use crate::index::Effect;
use crate::{CacheIndex, HostId};

#[derive(Debug, Clone, Default)]
struct HostRankings {
    local: Ranking,
    /// Groups with no more bytes on any other host.
    best: Ranking,
}

#[derive(Debug, Clone)]
pub(crate) struct Locality {
    pub(crate) index: CacheIndex,
    pub(crate) groups: Groups,
    hosts: Vec<HostRankings>,
    cold: Ranking,
    /// Groups with bytes on some host that may run on others.
    elsewhere: Ranking,
    ranks_local: bool,
    ranks_best: bool,
    copy_limit: usize,
    /// Hosts with new ranking entries since last taken.
    pub(crate) woken: Vec<HostId>,
    effects: Vec<Effect>,
    scratch: Vec<(HostId, u64)>,
}

impl Locality {
    pub(crate) fn new(options: &DispatchOptions) -> Self {
        let data_aware = options.policy.is_data_aware();
        Self {
            index: if data_aware {
                CacheIndex::with_effects(options.widespread)
            } else {
                CacheIndex::new(options.widespread)
            },
            groups: Groups::default(),
            hosts: Vec::new(),
            cold: Ranking::default(),
            elsewhere: Ranking::default(),
            ranks_local: data_aware && options.policy != Policy::MaxCacheHit,
            ranks_best: data_aware && options.policy != Policy::MaxComputeUtil,
            copy_limit: match options.policy {
                Policy::GoodCacheCompute => options.max_replicas,
                _ => usize::MAX,
            },
            woken: Vec::new(),
            effects: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(crate) fn add_host(&mut self) -> HostId {
        self.hosts.push(HostRankings::default());
        self.index.add_host()
    }

    pub(crate) fn clear_host(&mut self, host: HostId) {
        self.hosts[host.0 as usize] = HostRankings::default();
    }

    pub(crate) fn insert(&mut self, slot: u32, tasks: &[Task]) -> u32 {
        let (group, better) = self.groups.insert(slot, tasks);
        if better {
            self.publish(group);
        }
        group
    }

    pub(crate) fn settle(&mut self) {
        let mut effects = std::mem::take(&mut self.effects);
        self.index.take_effects(&mut effects);
        // The index already reflects all effects.
        for &effect in &effects {
            let (Effect::Gained(object, _) | Effect::Lost(object, _) | Effect::Revalued(object)) =
                effect;
            // Every task may read a widespread object.
            if self.index.is_widespread(object) && !matches!(effect, Effect::Revalued(_)) {
                continue;
            }
            for at in 0..self.groups.waiting_for(object).len() {
                let group = self.groups.waiting_for(object)[at];
                match effect {
                    Effect::Revalued(_) => self.publish(group),
                    Effect::Gained(_, host) => self.gained(group, host),
                    Effect::Lost(..) => self.lost(group),
                }
            }
        }
        self.effects = effects;
    }

    /// Ranks a group everywhere.
    fn publish(&mut self, group: u32) {
        let mut hosts = std::mem::take(&mut self.scratch);
        self.groups.hosts_of(&self.index, group, &mut hosts);
        let best = hosts.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0);
        self.groups.set_best(group, best);
        for &(host, bytes) in &hosts {
            self.rank_on(host, group, bytes);
        }
        self.rank_anywhere(group, best);
        self.scratch = hosts;
    }

    fn gained(&mut self, group: u32, host: HostId) {
        let bytes = self.groups.bytes_on(&self.index, group, host);
        let best = self.groups.best(group);
        if bytes > best {
            self.groups.set_best(group, bytes);
        }
        if bytes > 0 {
            self.rank_on(host, group, bytes);
            if best == 0 {
                self.rank_anywhere(group, bytes);
            }
        }
    }

    fn lost(&mut self, group: u32) {
        let mut hosts = std::mem::take(&mut self.scratch);
        self.groups.hosts_of(&self.index, group, &mut hosts);
        let best = hosts.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0);
        let before = self.groups.best(group);
        self.groups.set_best(group, best);
        if best < before {
            for &(host, bytes) in hosts.iter().filter(|&&(_, bytes)| bytes == best) {
                self.rank_on(host, group, bytes);
            }
        }
        // With a copy less, it may be copied again.
        self.rank_anywhere(group, best);
        self.scratch = hosts;
    }

    fn rank_on(&mut self, host: HostId, group: u32, bytes: u64) {
        let (groups, index) = (&self.groups, &self.index);
        let key = groups.key(group, bytes);
        let rankings = &mut self.hosts[host.0 as usize];
        if self.ranks_local {
            let present = |group| local_key(groups, index, group, host);
            rankings.local.push(group, key, present);
        }
        if self.ranks_best && bytes >= groups.best(group) {
            let present = |group| best_key(groups, index, group, host);
            rankings.best.push(group, key, present);
        }
        self.woken.push(host);
    }

    fn rank_anywhere(&mut self, group: u32, best: u64) {
        let (groups, index, limit) = (&self.groups, &self.index, self.copy_limit);
        let key = groups.key(group, 0);
        if best == 0 {
            self.cold.push(group, key, |group| cold_key(groups, group));
        } else if self.ranks_local {
            let present = |group| elsewhere_key(groups, index, group, limit);
            self.elsewhere.push(group, key, present);
        }
    }

    pub(crate) fn top_local(&mut self, host: HostId) -> Option<(u32, u64)> {
        let (groups, index) = (&self.groups, &self.index);
        let ranking = &mut self.hosts[host.0 as usize].local;
        let top = ranking.top(|group| local_key(groups, index, group, host));
        top.map(|(group, key)| (group, key.bytes))
    }

    /// The group with most bytes on a host, if none has more.
    pub(crate) fn top_best(&mut self, host: HostId) -> Option<u32> {
        let (groups, index) = (&self.groups, &self.index);
        let ranking = &mut self.hosts[host.0 as usize].best;
        let top = ranking.top(|group| best_key(groups, index, group, host));
        top.map(|(group, _)| group)
    }

    pub(crate) fn top_cold(&mut self) -> Option<u32> {
        let groups = &self.groups;
        let top = self.cold.top(|group| cold_key(groups, group));
        top.map(|(group, _)| group)
    }

    /// The oldest group that may be copied to hosts without its bytes.
    pub(crate) fn top_elsewhere(&mut self) -> Option<u32> {
        let (groups, index, limit) = (&self.groups, &self.index, self.copy_limit);
        let top = self
            .elsewhere
            .top(|group| elsewhere_key(groups, index, group, limit));
        top.map(|(group, _)| group)
    }

    pub(crate) fn entries(&self) -> usize {
        let hosts = self.hosts.iter();
        let ranked: usize = hosts.map(|host| host.local.len() + host.best.len()).sum();
        ranked + self.cold.len() + self.elsewhere.len()
    }
}

fn local_key(groups: &Groups, index: &CacheIndex, group: u32, host: HostId) -> Option<Key> {
    let bytes = groups.bytes_on(index, group, host);
    (bytes > 0 && groups.has_tasks(group)).then(|| groups.key(group, bytes))
}

fn best_key(groups: &Groups, index: &CacheIndex, group: u32, host: HostId) -> Option<Key> {
    local_key(groups, index, group, host).filter(|key| key.bytes == groups.best(group))
}

fn cold_key(groups: &Groups, group: u32) -> Option<Key> {
    (groups.best(group) == 0 && groups.has_tasks(group)).then(|| groups.key(group, 0))
}

fn elsewhere_key(groups: &Groups, index: &CacheIndex, group: u32, limit: usize) -> Option<Key> {
    let eligible = groups.best(group) > 0
        && groups.has_tasks(group)
        && (limit == usize::MAX || groups.may_be_copied(index, group, limit));
    eligible.then(|| groups.key(group, 0))
}
