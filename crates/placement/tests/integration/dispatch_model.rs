//! Every decision of every policy equals a slow model's.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Model, State};
use isochrony_placement::{
    Change, DispatchOptions, Dispatcher, HostId, MAX_SOURCES, ObjectId, Policy, Reply, TaskId,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Admit(Vec<u32>),
    Next(usize),
    Finish(usize, bool),
    Requeue(usize),
    Cancel(usize),
    Report(usize, u32, Option<u64>),
    SetBytes(u32, u64),
    AddHost(u32),
    RemoveHost(usize),
    Drain(usize, bool),
    SetSlots(usize, u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![Just(0), Just(7), 1..20u64];
    prop_oneof![
        6 => prop::collection::vec(0..10u32, 0..4).prop_map(Step::Admit),
        6 => (1..6usize).prop_map(Step::Next),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(at, fetched)| Step::Finish(at, fetched)),
        1 => any::<usize>().prop_map(Step::Requeue),
        1 => any::<usize>().prop_map(Step::Cancel),
        4 => (any::<usize>(), 0..10u32, prop::option::weighted(0.7, bytes.clone()))
            .prop_map(|(host, object, bytes)| Step::Report(host, object, bytes)),
        1 => (0..10u32, bytes).prop_map(|(object, bytes)| Step::SetBytes(object, bytes)),
        1 => (1..4u32).prop_map(Step::AddHost),
        1 => any::<usize>().prop_map(Step::RemoveHost),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(host, on)| Step::Drain(host, on)),
        1 => (any::<usize>(), 1..5u32).prop_map(|(host, slots)| Step::SetSlots(host, slots)),
        2 => (0..30u64).prop_map(Step::Wait),
    ]
}

fn options() -> impl Strategy<Value = DispatchOptions> {
    let limits = (1..4usize).prop_flat_map(|max| (Just(max), max..max + 3));
    (
        prop::sample::select(Policy::ALL.to_vec()),
        prop_oneof![1..6usize, Just(1000)],
        prop_oneof![0..40u64, Just(u64::MAX)],
        0.0..=1.0f64,
        limits,
    )
        .prop_map(
            |(policy, window, max_wait, utilization, (max_replicas, widespread))| DispatchOptions {
                policy,
                window,
                max_wait,
                utilization,
                max_replicas,
                widespread,
            },
        )
}

struct Pair {
    real: Dispatcher,
    model: Model,
    options: DispatchOptions,
    ids: Vec<TaskId>,
    deltas: BTreeMap<usize, u64>,
    now: u64,
}

impl Pair {
    fn new(options: DispatchOptions) -> Self {
        Self {
            real: Dispatcher::new(options).unwrap(),
            model: Model::new(options),
            options,
            ids: Vec::new(),
            deltas: BTreeMap::new(),
            now: 0,
        }
    }

    fn report(&mut self, host: usize, object: u32, bytes: Option<u64>) {
        let id = ObjectId(object);
        let change = match bytes {
            Some(bytes) => Change::Added { object: id, bytes },
            None => Change::Removed { object: id },
        };
        let number = self.deltas.entry(host).or_default();
        let reply = self
            .real
            .apply_delta(HostId(host as u32), *number, &[change]);
        assert_eq!(reply, Ok(Reply::Applied));
        *number += 1;
        self.model.report(host, object, bytes);
    }

    fn host(&self, pick: usize) -> Option<usize> {
        let hosts = 0..self.model.hosts.len();
        let there: Vec<_> = hosts
            .filter(|&host| !self.model.hosts[host].removed)
            .collect();
        (!there.is_empty()).then(|| there[pick % there.len()])
    }

    fn task(&self, pick: usize, which: impl Fn(State) -> bool) -> Option<usize> {
        let tasks = 0..self.model.tasks.len();
        let fit: Vec<_> = tasks
            .filter(|&task| which(self.model.tasks[task].state))
            .collect();
        (!fit.is_empty()).then(|| fit[pick % fit.len()])
    }

    fn next(&mut self) -> Option<(usize, usize)> {
        let decision = self.real.next(self.now);
        let expected = self.model.next(self.now);
        let found = decision.as_ref().map(|decision| {
            let task = self.ids.iter().position(|&id| id == decision.task);
            (task.unwrap(), decision.host.0 as usize)
        });
        assert_eq!(found, expected, "{:?}", self.options);
        if let Some(decision) = decision {
            let (task, host) = expected.unwrap();
            let objects: BTreeSet<_> = decision.inputs.iter().map(|of| of.object.0).collect();
            assert_eq!(objects, self.model.tasks[task].objects);
            for input in &decision.inputs {
                let says = self.options.policy != Policy::FirstAvailable;
                let here = self.model.is_ready(input.object.0, host);
                assert_eq!(input.is_local, here && says);
                let hosts = 0..self.model.hosts.len();
                let there: BTreeSet<_> = hosts
                    .filter(|&host| self.model.is_ready(input.object.0, host))
                    .collect();
                let named: BTreeSet<_> = input.sources.iter().map(|of| of.0 as usize).collect();
                assert_eq!(named.len(), input.sources.len());
                assert!(named.is_subset(&there) && !named.contains(&host));
                let due = if here || !says {
                    0
                } else {
                    there.len().min(MAX_SOURCES)
                };
                assert_eq!(named.len(), due);
            }
        } else if let Some(deadline) = self.real.next_deadline() {
            assert!(deadline > self.now);
        }
        expected
    }

    fn apply(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Admit(objects) => {
                let ids: Vec<_> = objects.iter().map(|&object| ObjectId(object)).collect();
                self.ids.push(self.real.admit(&ids, now));
                self.model.admit(&objects, now);
            }
            Step::Next(times) => {
                for _ in 0..times {
                    if self.next().is_none() {
                        break;
                    }
                }
            }
            Step::Finish(pick, fetched) => {
                if let Some(task) = self.task(pick, |state| matches!(state, State::Running(_))) {
                    let State::Running(host) = self.model.tasks[task].state else {
                        unreachable!()
                    };
                    if fetched {
                        for object in self.model.tasks[task].objects.clone() {
                            self.report(host, object, Some(7));
                        }
                    }
                    self.real.finish(self.ids[task], now).unwrap();
                    self.model.stop(task, false, now);
                    assert!(self.real.finish(self.ids[task], now).is_err());
                }
            }
            Step::Requeue(pick) => {
                if let Some(task) = self.task(pick, |state| matches!(state, State::Running(_))) {
                    self.real.requeue(self.ids[task], now).unwrap();
                    self.model.stop(task, true, now);
                }
            }
            Step::Cancel(pick) => {
                let waits = |state| matches!(state, State::Waiting | State::Backlog);
                if let Some(task) = self.task(pick, waits) {
                    self.real.cancel(self.ids[task], now).unwrap();
                    self.model.cancel(task, now);
                    assert!(self.real.cancel(self.ids[task], now).is_err());
                }
            }
            Step::Report(pick, object, bytes) => {
                if let Some(host) = self.host(pick) {
                    self.report(host, object, bytes);
                }
            }
            Step::SetBytes(object, bytes) => {
                self.real.set_bytes(ObjectId(object), bytes);
                self.model.set_bytes(object, bytes);
            }
            Step::AddHost(slots) => {
                if self.model.hosts.len() < 12 {
                    self.real.add_host(slots, now).unwrap();
                    self.model.add_host(slots);
                }
            }
            Step::RemoveHost(pick) => {
                if let Some(host) = self.host(pick) {
                    let lost = self.real.remove_host(HostId(host as u32), now).unwrap();
                    let lost: BTreeSet<_> = lost.into_iter().collect();
                    let expected = self.model.remove_host(host, now);
                    let expected: BTreeSet<_> =
                        expected.into_iter().map(|task| self.ids[task]).collect();
                    assert_eq!(lost, expected);
                }
            }
            Step::Drain(pick, on) => {
                if let Some(host) = self.host(pick) {
                    self.real.set_draining(HostId(host as u32), on).unwrap();
                    self.model.set_draining(host, on);
                }
            }
            Step::SetSlots(pick, slots) => {
                if let Some(host) = self.host(pick) {
                    let id = HostId(host as u32);
                    self.real.set_slots(id, slots).unwrap();
                    self.model.set_slots(host, slots);
                    let busy = self.model.hosts[host].busy;
                    assert_eq!(self.real.slots(id), Ok((busy, slots)));
                }
            }
            Step::Wait(time) => self.now += time,
        }
        self.check();
    }

    fn check(&mut self) {
        let counts = self.real.counts();
        let running = |state| matches!(state, State::Running(_));
        assert_eq!(counts.window, self.model.waiting().count());
        assert_eq!(counts.backlog, self.model.count(|s| s == State::Backlog));
        assert_eq!(counts.running, self.model.count(running));
        self.model.note_pairs();
        if !matches!(
            self.options.policy,
            Policy::FirstAvailable | Policy::FirstCacheAvailable
        ) {
            for object in 0..10 {
                let found: BTreeSet<_> = self.real.waiting_for(ObjectId(object)).collect();
                let tasks = self.model.waiting();
                let expected: BTreeSet<_> = tasks
                    .filter(|&task| self.model.tasks[task].objects.contains(&object))
                    .map(|task| self.ids[task])
                    .collect();
                assert_eq!(found, expected);
                assert_eq!(
                    self.real.index().replicas(ObjectId(object)),
                    self.model.replicas(object)
                );
            }
        }
        // Rankings are compacted before more than half of the entries, and 32, are outdated.
        let rankings = 2 * self.model.hosts.len() + 2;
        let bound = 2 * self.model.most_pairs + 33 * rankings;
        assert!(self.real.ranking_entries() <= bound);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_decision_equals_the_slow_model(
        options in options(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut pair = Pair::new(options);
        pair.apply(Step::AddHost(2));
        pair.apply(Step::AddHost(1));
        for step in steps {
            pair.apply(step);
        }
        while pair.next().is_some() {}
    }

    /// Capped copies, widespread objects and mostly free hosts are rare above.
    #[test]
    fn decisions_with_capped_copies_equal_the_slow_model(
        max_replicas in 1..3usize,
        more in 0..2usize,
        utilization in prop_oneof![Just(1.0), 0.2..0.8f64],
        copies in prop::collection::vec((0..5usize, 0..4u32, 1..9u64), 4..16),
        steps in prop::collection::vec(
            prop_oneof![
                3 => prop::collection::vec(0..4u32, 1..4).prop_map(Step::Admit),
                3 => (1..4usize).prop_map(Step::Next),
                3 => (any::<usize>(), any::<bool>()).prop_map(|(at, on)| Step::Finish(at, on)),
                1 => (0..5usize, 0..4u32, prop::option::of(1..9u64))
                    .prop_map(|(host, object, bytes)| Step::Report(host, object, bytes)),
            ],
            1..60,
        ),
    ) {
        let mut pair = Pair::new(DispatchOptions {
            policy: Policy::GoodCacheCompute,
            window: 1000,
            max_wait: u64::MAX,
            utilization,
            max_replicas,
            widespread: max_replicas + more,
        });
        for _ in 0..5 {
            pair.apply(Step::AddHost(1));
        }
        for (host, object, bytes) in copies {
            pair.apply(Step::Report(host, object, Some(bytes)));
        }
        for step in steps {
            pair.apply(step);
        }
        while pair.next().is_some() {}
    }
}
