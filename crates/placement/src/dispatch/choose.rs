//! One dispatch decision: a waiting task and a free host.

use smallvec::SmallVec;

use super::hosts::HostQueue;
use super::policy::Policy;
use super::tasks::State;
use super::{Decision, Dispatcher, Input, MAX_SOURCES};
use crate::HostId;

impl Dispatcher {
    /// The next task, its host, and the places of its objects; None if no task may go to a free slot. Call until None.
    ///
    /// Tries free hosts round-robin; the first for which the policy has a task gets it, and others wait for a change.
    pub fn next(&mut self, now: u64) -> Option<Decision> {
        let oldest = self.tasks.oldest()?;
        let (_, first) = self.hosts.first_free()?;
        if !self.options.policy.is_data_aware() {
            return Some(self.assign(oldest, first, now));
        }
        if now.saturating_sub(self.tasks.oldest_since) >= self.options.max_wait {
            return Some(self.assign_best(oldest, first, now));
        }
        let computes = match self.options.policy {
            Policy::MaxCacheHit => false,
            Policy::MaxComputeUtil => true,
            _ => self.hosts.is_below(self.options.utilization),
        };
        while let Some(host) = self.next_free_host(computes) {
            if let Some((slot, host)) = self.choose(host, computes) {
                return Some(self.assign(slot, host, now));
            }
            let second_best = !computes && self.locality.top_local(host).is_some();
            let queue = if second_best {
                HostQueue::SecondBest
            } else {
                HostQueue::NoLocalTask
            };
            self.hosts.move_to(host, queue);
        }
        let entered = self.tasks.tasks[oldest as usize].entered;
        if now.saturating_sub(entered) >= self.options.max_wait {
            return Some(self.assign_best(oldest, first, now));
        }
        None
    }

    fn next_free_host(&mut self, computes: bool) -> Option<HostId> {
        let anywhere = self.locality.top_cold().is_some()
            || (computes && self.locality.top_elsewhere().is_some());
        let ready = self.hosts.first(HostQueue::Ready);
        let second_best = self.hosts.first(HostQueue::SecondBest);
        let without_local = self.hosts.first(HostQueue::NoLocalTask);
        let turns = [
            ready,
            second_best.filter(|_| computes || anywhere),
            without_local.filter(|_| anywhere),
        ];
        turns.into_iter().flatten().min().map(|(_, host)| host)
    }

    fn choose(&mut self, host: HostId, computes: bool) -> Option<(u32, HostId)> {
        if computes {
            if let Some((group, bytes)) = self.locality.top_local(host) {
                let mut to = host;
                if bytes < self.locality.groups.best(group) {
                    match self.best_free(group) {
                        Some((other, most)) if most > bytes => to = other,
                        _ => (),
                    }
                }
                return Some((self.locality.groups.oldest(group), to));
            }
        } else if let Some(group) = self.locality.top_best(host) {
            return Some((self.locality.groups.oldest(group), host));
        }
        if let Some(group) = self.locality.top_cold() {
            return Some((self.locality.groups.oldest(group), host));
        }
        if !computes {
            return None;
        }
        let group = self.locality.top_elsewhere()?;
        let to = self.best_free(group).map_or(host, |(other, _)| other);
        Some((self.locality.groups.oldest(group), to))
    }

    fn best_free(&mut self, group: u32) -> Option<(HostId, u64)> {
        let mut found = std::mem::take(&mut self.scratch);
        let locality = &self.locality;
        locality.groups.hosts_of(&locality.index, group, &mut found);
        let free = found.iter().filter(|(host, _)| self.hosts.is_free(*host));
        let turn = |host| std::cmp::Reverse(self.hosts.turn(host));
        let best = free.max_by_key(|&&(host, bytes)| (bytes, turn(host)));
        let best = best.copied();
        self.scratch = found;
        best
    }

    fn assign_best(&mut self, slot: u32, first: HostId, now: u64) -> Decision {
        let group = self.tasks.tasks[slot as usize].group;
        let host = self.best_free(group).map_or(first, |(host, _)| host);
        self.assign(slot, host, now)
    }

    fn assign(&mut self, slot: u32, host: HostId, now: u64) -> Decision {
        self.tasks.leave(slot, now);
        self.tasks.running += 1;
        let data_aware = self.options.policy.is_data_aware();
        if data_aware {
            self.locality.groups.remove(slot, &self.tasks.tasks);
        }
        let id = self.tasks.id(slot);
        let task = &mut self.tasks.tasks[slot as usize];
        task.state = State::Running(host);
        let mut inputs = SmallVec::new();
        for &object in &task.objects {
            if let Some(last) = self.last_read.get_mut(object.0 as usize) {
                *last = now;
            } else {
                self.last_read.resize(object.0 as usize + 1, u64::MAX);
                self.last_read[object.0 as usize] = now;
            }
            let index = &mut self.locality.index;
            let mut input = Input {
                object,
                bytes: index.bytes(object),
                is_local: false,
                sources: SmallVec::new(),
            };
            if self.options.policy != Policy::FirstAvailable {
                input.is_local = index.is_ready(object, host);
                if !input.is_local {
                    input.sources = sources(index, object, self.next_source);
                    self.next_source = self.next_source.wrapping_add(1);
                }
            }
            if data_aware {
                index.claim(object, host);
            }
            inputs.push(input);
        }
        self.hosts.take_slot(host);
        if data_aware {
            self.settle();
        }
        self.fill_window(now);
        Decision {
            task: id,
            host,
            inputs,
        }
    }
}

fn sources(
    index: &crate::CacheIndex,
    object: crate::ObjectId,
    from: usize,
) -> SmallVec<[HostId; MAX_SOURCES]> {
    let copies = index.replicas(object).max(1);
    let at = from % copies;
    let from_there = index.holders(object).skip(at);
    let mut sources: SmallVec<[HostId; MAX_SOURCES]> = from_there.take(MAX_SOURCES).collect();
    let missing = MAX_SOURCES - sources.len();
    sources.extend(index.holders(object).take(at.min(missing)));
    sources
}
