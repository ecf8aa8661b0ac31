//! What the placement of tasks knows: tasks that are not finished, hosts, and what their caches have.

use std::collections::{HashMap, VecDeque};

use isochrony_placement::{
    Change, Dispatcher, HostId, Input, Interner, MAX_SOURCES, ObjectId, Policy, TaskId,
};
use isochrony_store::shard_cache::{CacheReport, ObjectName, PeerAddress};

use super::placed_tasks::PlacedTask;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::task_output::Task;

pub(super) struct PlacementState {
    pub(super) dispatcher: Dispatcher,
    pub(super) names: Interner<ObjectName>,
    pub(super) hosts: HashMap<String, PlacedHost>,
    /// Of hosts that are there.
    pub(super) addresses: HashMap<HostId, PeerAddress>,
    /// Hosts that have had some pieces of a shard.
    pub(super) partial: HashMap<ObjectId, Vec<HostId>>,
    /// What was not finished, and whether a slot has it.
    pub(super) tasks: HashMap<TaskId, (Task, bool)>,
    /// Slots that have begun.
    pub(super) joined: usize,
    /// The run ends with an error: nothing is given to slots any more.
    pub(super) has_failed: bool,
}

pub(super) struct PlacedHost {
    pub(super) id: HostId,
    /// Of all its slots.
    pub(super) capacity: u32,
    pub(super) next_delta: u64,
    pub(super) assigned: VecDeque<PlacedTask>,
}

impl PlacementState {
    pub(super) fn apply(&mut self, host: &str, report: &CacheReport) {
        let Some(host) = self.hosts.get_mut(host) else {
            return;
        };
        if let Some(address) = &report.address {
            self.addresses.insert(host.id, address.clone());
        }
        let names = &mut self.names;
        for name in &report.partial {
            let hosts = self.partial.entry(names.intern(*name)).or_default();
            if !hosts.contains(&host.id) {
                hosts.push(host.id);
            }
        }
        let mut added = report
            .added
            .iter()
            .map(|(name, bytes)| (names.intern(*name), *bytes));
        let number = host.next_delta;
        let applied = if report.is_all {
            let objects: Vec<_> = added.collect();
            self.dispatcher.apply_manifest(host.id, number, &objects)
        } else {
            let mut changes: Vec<_> = added
                .by_ref()
                .map(|(object, bytes)| Change::Added { object, bytes })
                .collect();
            let removed = report.removed.iter().filter_map(|name| names.get(name));
            changes.extend(removed.map(|object| Change::Removed { object }));
            if changes.is_empty() {
                return;
            }
            host.next_delta += 1;
            self.dispatcher.apply_delta(host.id, number, &changes)
        };
        // A report that cannot be applied costs locality only.
        drop(applied);
    }

    /// Other hosts than one that have something of what a task reads, for it to ask.
    pub(super) fn sources(
        &self,
        inputs: &[Input],
        host: HostId,
    ) -> Vec<(ObjectName, Vec<PeerAddress>)> {
        if self.dispatcher.options().policy == Policy::FirstAvailable {
            return Vec::new();
        }
        let of = |input: &Input| {
            let some = self.partial.get(&input.object).into_iter().flatten();
            let mut hosts: Vec<HostId> = input.sources.to_vec();
            hosts.extend(some.filter(|one| !input.sources.contains(one)));
            hosts.retain(|one| *one != host);
            let addresses = hosts.iter().filter_map(|one| self.addresses.get(one));
            let addresses: Vec<_> = addresses.take(MAX_SOURCES).cloned().collect();
            let name = *self.names.name(input.object)?;
            (!addresses.is_empty()).then_some((name, addresses))
        };
        inputs.iter().filter_map(of).collect()
    }

    /// All tasks that no slot has, which the dispatcher forgets.
    pub(super) fn take_waiting(&mut self, now: u64) -> Vec<Task> {
        let assigned = self
            .hosts
            .values_mut()
            .flat_map(|host| host.assigned.drain(..));
        let assigned: Vec<TaskId> = assigned.filter_map(|placed| placed.id).collect();
        for id in assigned {
            let _ = self.dispatcher.requeue(id, now);
        }
        let waiting = self.tasks.extract_if(|_, (_, is_with_slot)| !*is_with_slot);
        let mut waiting: Vec<_> = waiting.map(|(id, (task, _))| (id, task)).collect();
        waiting.sort_by_key(|(_, task)| (task.subgraph, task.number));
        for (id, _) in &waiting {
            let _ = self.dispatcher.cancel(*id, now);
        }
        waiting.into_iter().map(|(_, task)| task).collect()
    }
}

/// The cached objects that a task reads, and their lengths.
pub(super) fn objects_of(subgraph: &ParallelSubgraph, task: &Task) -> Vec<(ObjectName, u64)> {
    let mut objects = Vec::new();
    for (input, read) in subgraph.inputs.iter().zip(&task.part.reads) {
        let (Some(portion), Some((signal, _))) = (&read.portion, input.recording.0.stored()) else {
            continue;
        };
        // Where the store does not say, the task goes anywhere.
        let found = signal
            .cached_objects(portion.range.clone())
            .unwrap_or_default();
        let found = found
            .iter()
            .map(|(key, bytes)| (ObjectName::from(key), *bytes));
        objects.extend(found);
    }
    objects
}
