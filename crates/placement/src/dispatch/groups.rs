//! Groups of waiting tasks that read the same objects, and the inverted index from objects to groups.
//!
//! Hosts rank groups, not tasks: an index change costs the same for one task as for thousands.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::ranking::Key;
use super::tasks::{self, Links, NONE, Objects, Task, TaskList};
use crate::{CacheIndex, HostId, ObjectId};

#[derive(Debug, Clone)]
pub(crate) struct Group {
    objects: SmallVec<[(ObjectId, u32); 2]>,
    tasks: TaskList,
    oldest: u64,
    pub(crate) best: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    free: Vec<u32>,
    by_objects: FxHashMap<Objects, u32>,
    by_object: Vec<SmallVec<[u32; 2]>>,
    links: Links,
}

impl Groups {
    /// Returns the task's group, and whether that group's key has become better.
    pub(crate) fn insert(&mut self, slot: u32, tasks: &[Task]) -> (u32, bool) {
        let task = &tasks[slot as usize];
        let group = match self.by_objects.get(&task.objects) {
            Some(&group) => group,
            None => self.make(&task.objects),
        };
        if self.links.len() < tasks.len() {
            self.links.resize(tasks.len(), [NONE; 2]);
        }
        let entry = &mut self.groups[group as usize];
        let number = |slot: u32| tasks[slot as usize].number;
        tasks::link(&mut entry.tasks, &mut self.links, number, slot);
        let first = entry.tasks.first == slot;
        if first {
            entry.oldest = task.number;
        }
        (group, first)
    }

    pub(crate) fn remove(&mut self, slot: u32, tasks: &[Task]) {
        let task = &tasks[slot as usize];
        let group = task.group;
        let entry = &mut self.groups[group as usize];
        tasks::unlink(&mut entry.tasks, &mut self.links, slot);
        if entry.tasks.first != NONE {
            entry.oldest = tasks[entry.tasks.first as usize].number;
            return;
        }
        entry.best = 0;
        for (object, at) in std::mem::take(&mut entry.objects) {
            let list = &mut self.by_object[object.0 as usize];
            list.swap_remove(at as usize);
            if let Some(&moved) = list.get(at as usize) {
                let moved = &mut self.groups[moved as usize].objects;
                let position = moved.iter_mut().find(|(of, _)| *of == object);
                position.expect("a group in an object's list has it").1 = at;
            }
        }
        self.by_objects.remove(&task.objects);
        self.free.push(group);
    }

    fn make(&mut self, objects: &Objects) -> u32 {
        let group = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group {
                objects: SmallVec::new(),
                tasks: TaskList::EMPTY,
                oldest: 0,
                best: 0,
            });
            (self.groups.len() - 1) as u32
        });
        let entry = &mut self.groups[group as usize];
        for &object in objects {
            let at = object.0 as usize;
            if self.by_object.len() <= at {
                self.by_object.resize_with(at + 1, SmallVec::new);
            }
            entry
                .objects
                .push((object, self.by_object[at].len() as u32));
            self.by_object[at].push(group);
        }
        self.by_objects.insert(objects.clone(), group);
        group
    }

    pub(crate) fn waiting_for(&self, object: ObjectId) -> &[u32] {
        self.by_object
            .get(object.0 as usize)
            .map_or(&[], |list| list)
    }

    pub(crate) fn tasks(&self, group: u32) -> impl Iterator<Item = u32> {
        let mut next = self.groups[group as usize].tasks.first;
        std::iter::from_fn(move || {
            let slot = (next != NONE).then_some(next)?;
            next = self.links[slot as usize][1];
            Some(slot)
        })
    }

    pub(crate) fn oldest(&self, group: u32) -> u32 {
        self.groups[group as usize].tasks.first
    }

    pub(crate) fn best(&self, group: u32) -> u64 {
        self.groups[group as usize].best
    }

    pub(crate) fn set_best(&mut self, group: u32, best: u64) {
        self.groups[group as usize].best = best;
    }

    pub(crate) fn key(&self, group: u32, bytes: u64) -> Key {
        Key {
            bytes,
            oldest: Reverse(self.groups[group as usize].oldest),
        }
    }

    pub(crate) fn has_tasks(&self, group: u32) -> bool {
        self.groups[group as usize].tasks.first != NONE
    }

    pub(crate) fn bytes_on(&self, index: &CacheIndex, group: u32, host: HostId) -> u64 {
        let objects = &self.groups[group as usize].objects;
        let weights = objects
            .iter()
            .map(|&(object, _)| index.weight_on(object, host));
        weights.sum()
    }

    /// Whether all objects of a group, except widespread ones, have fewer copies than `limit`.
    pub(crate) fn may_be_copied(&self, index: &CacheIndex, group: u32, limit: usize) -> bool {
        let mut objects = self.groups[group as usize].objects.iter();
        objects.all(|&(object, _)| index.is_widespread(object) || index.replicas(object) < limit)
    }

    pub(crate) fn hosts_of(&self, index: &CacheIndex, group: u32, into: &mut Vec<(HostId, u64)>) {
        into.clear();
        let objects = &self.groups[group as usize].objects;
        for &(object, _) in objects {
            let weight = index.weight(object);
            into.extend(index.located(object).map(|host| (host, weight)));
        }
        if objects.len() > 1 {
            into.sort_unstable();
            into.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                if same {
                    kept.1 += next.1;
                }
                same
            });
        }
    }
}
