//! State of task placement: unfinished tasks, hosts, and their caches.

use std::collections::{HashMap, VecDeque};

use isochrony_placement::{
    Change, Dispatcher, HostId, Input, Interner, MAX_SOURCES, ObjectId, Policy, TaskId,
};
use isochrony_store::shard_cache::{CacheReport, ObjectName, PeerAddress};

use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::task_output::Task;

#[derive(Clone)]
pub(super) struct PlacedTask {
    pub(super) task: Task,
    /// None: not placed by data.
    pub(super) id: Option<TaskId>,
    /// Other hosts that have what it reads.
    pub(super) sources: Vec<(ObjectName, Vec<PeerAddress>)>,
}

impl PlacedTask {
    pub(super) fn unplaced(task: Task) -> Self {
        Self {
            task,
            id: None,
            sources: Vec::new(),
        }
    }
}

pub(super) struct PlacementState {
    pub(super) dispatcher: Dispatcher,
    pub(super) names: Interner<ObjectName>,
    pub(super) hosts: HashMap<String, PlacedHost>,
    /// Of present hosts.
    pub(super) addresses: HashMap<HostId, PeerAddress>,
    /// Hosts that have pieces of a shard, or were given tasks that fetch them.
    pub(super) readers: HashMap<ObjectId, Vec<HostId>>,
    /// Unfinished, and whether a slot has them.
    pub(super) tasks: HashMap<TaskId, (Task, bool)>,
    pub(super) joined: usize,
    pub(super) has_failed: bool,
}

pub(super) struct PlacedHost {
    pub(super) id: HostId,
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
        if report.is_all {
            forget_reader(&mut self.readers, host.id);
        }
        for name in &report.absent {
            if let Some(object) = names.get(name)
                && let Some(hosts) = self.readers.get_mut(&object)
            {
                hosts.retain(|one| *one != host.id);
            }
        }
        for name in &report.partial {
            add_reader(&mut self.readers, names.intern(*name), host.id);
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

    /// Other hosts that have, or will fetch, what a task reads. This host becomes a peer of others.
    pub(super) fn take_sources(
        &mut self,
        inputs: &[Input],
        host: HostId,
    ) -> Vec<(ObjectName, Vec<PeerAddress>)> {
        if self.dispatcher.options().policy == Policy::FirstAvailable {
            return Vec::new();
        }
        let sources = self.sources(inputs, host);
        for input in inputs {
            add_reader(&mut self.readers, input.object, host);
        }
        sources
    }

    fn sources(&self, inputs: &[Input], host: HostId) -> Vec<(ObjectName, Vec<PeerAddress>)> {
        let of = |input: &Input| {
            let some = self.readers.get(&input.object).into_iter().flatten().rev();
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

    pub(super) fn forget_host(&mut self, host: HostId) {
        self.addresses.remove(&host);
        forget_reader(&mut self.readers, host);
    }

    /// The dispatcher forgets them.
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

fn add_reader(readers: &mut HashMap<ObjectId, Vec<HostId>>, object: ObjectId, host: HostId) {
    // Asked first: it has the neighbours of tasks handed out in order.
    let hosts = readers.entry(object).or_default();
    hosts.retain(|one| *one != host);
    hosts.push(host);
}

fn forget_reader(readers: &mut HashMap<ObjectId, Vec<HostId>>, host: HostId) {
    readers.retain(|_, hosts| {
        hosts.retain(|one| *one != host);
        !hosts.is_empty()
    });
}

pub(super) fn objects_of(subgraph: &ParallelSubgraph, task: &Task) -> Vec<(ObjectName, u64)> {
    let mut objects = Vec::new();
    for (input, read) in subgraph.inputs.iter().zip(&task.part.reads) {
        let (Some(portion), Some((signal, _))) = (&read.portion, input.recording.0.stored()) else {
            continue;
        };
        // If unknown, the task goes anywhere.
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

#[cfg(test)]
mod tests {
    use isochrony_placement::DispatchOptions;
    use isochrony_store::shard_cache::ShardCacheCounts;

    use super::*;

    fn report(host: u8, partial: &[u8], absent: &[u8]) -> CacheReport {
        let named = |shards: &[u8]| {
            shards
                .iter()
                .map(|shard| ObjectName([*shard; 16]))
                .collect()
        };
        CacheReport {
            host: host.to_string(),
            address: Some((format!("10.0.0.{host}"), 1)),
            is_all: false,
            added: Vec::new(),
            removed: Vec::new(),
            partial: named(partial),
            absent: named(absent),
            counts: ShardCacheCounts::default(),
        }
    }

    fn state() -> (PlacementState, [HostId; 2], Input) {
        let options = DispatchOptions {
            policy: Policy::FirstCacheAvailable,
            ..DispatchOptions::default()
        };
        let mut state = PlacementState {
            dispatcher: Dispatcher::new(options).unwrap(),
            names: Interner::default(),
            hosts: HashMap::new(),
            addresses: HashMap::new(),
            readers: HashMap::new(),
            tasks: HashMap::new(),
            joined: 0,
            has_failed: false,
        };
        let ids = [1, 2].map(|host: u8| {
            let id = state.dispatcher.add_host(1, 0).unwrap();
            let placed = PlacedHost {
                id,
                capacity: 1,
                next_delta: 0,
                assigned: VecDeque::new(),
            };
            state.hosts.insert(host.to_string(), placed);
            state.apply(&host.to_string(), &report(host, &[], &[]));
            id
        });
        let object = state.names.intern(ObjectName([7; 16]));
        state.dispatcher.set_bytes(object, 100);
        state.dispatcher.admit(&[object], 0);
        let decision = state.dispatcher.next(0).unwrap();
        (state, ids, decision.inputs[0].clone())
    }

    fn named(state: &PlacementState, input: &Input, host: HostId) -> Vec<PeerAddress> {
        let sources = state.sources(std::slice::from_ref(input), host);
        sources.into_iter().flat_map(|(_, hosts)| hosts).collect()
    }

    #[test]
    fn a_host_is_named_as_long_as_it_has_pieces() {
        let (mut state, [one, two], input) = state();
        assert!(named(&state, &input, two).is_empty());
        state.apply("1", &report(1, &[7], &[]));
        assert_eq!(named(&state, &input, two), [("10.0.0.1".to_owned(), 1)]);
        assert!(named(&state, &input, one).is_empty(), "itself");
        state.apply("1", &report(1, &[], &[7]));
        assert!(named(&state, &input, two).is_empty());
        state.apply("1", &report(1, &[7], &[]));
        state.forget_host(one);
        assert!(named(&state, &input, two).is_empty());
    }

    #[test]
    fn who_was_given_a_task_is_named_to_the_next_one() {
        let (mut state, [one, two], input) = state();
        let inputs = [input];
        assert!(state.take_sources(&inputs, one).is_empty());
        let sources = state.take_sources(&inputs, two);
        assert_eq!(
            sources,
            [(ObjectName([7; 16]), vec![("10.0.0.1".to_owned(), 1)])]
        );
        assert_eq!(
            named(&state, &inputs[0], one),
            [("10.0.0.2".to_owned(), 1)],
            "it fetches some by now"
        );
    }
}
