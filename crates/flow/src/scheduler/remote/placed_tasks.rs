//! Tasks handed out by the scheduler that wait for a slot whose host has their data.
//!
//! ```text
//!  TaskScheduler ── all that its window and memory allow ──▶ PlacedTasks ── placement::Dispatcher ──▶ a queue per host
//!                                                                ▲                                       │ batches
//!                                       finish, changes of caches └──────────────── slots of the host ◀───┘
//! ```
//!
//! Waiting tasks count as in flight, so the scheduler's bounds hold. After `max_wait` the oldest task, which the
//! reorder buffer needs soon, goes to the first free slot, whatever the policy says.
//!
//! A host has two slots per task of a batch of each thread: one batch is computed while the other travels.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use isochrony_placement::{DispatchOptions, Dispatcher, Interner, ObjectId};
use isochrony_store::shard_cache::CacheReport;

use super::placement_state::{PlacedHost, PlacedTask, PlacementState, objects_of};
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::partition::TaskInput;
use crate::scheduler::reorder::Registration;
use crate::scheduler::task_output::{Task, TaskScheduler};

pub(super) const BATCHES_IN_FLIGHT: usize = 2;
/// How long the first slots wait for others: their caches are not known before.
const START_WAIT: Duration = Duration::from_secs(1);
/// How long a slot without tasks waits before asking the policy again.
const PLACED_WAIT: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(super) struct SlotPlace {
    host: String,
    capacity: u32,
}

pub(super) struct PlacedTasks<'a> {
    scheduler: &'a TaskScheduler,
    subgraphs: &'a [ParallelSubgraph],
    begun: Instant,
    expected: usize,
    state: Mutex<PlacementState>,
}

impl<'a> PlacedTasks<'a> {
    /// None: illegal options, so tasks go to slots as without caches.
    pub(super) fn new(
        options: DispatchOptions,
        expected: usize,
        scheduler: &'a TaskScheduler,
        subgraphs: &'a [ParallelSubgraph],
    ) -> Option<Self> {
        Some(Self {
            scheduler,
            subgraphs,
            begun: Instant::now(),
            expected,
            state: Mutex::new(PlacementState {
                dispatcher: Dispatcher::new(options).ok()?,
                names: Interner::default(),
                hosts: HashMap::new(),
                addresses: HashMap::new(),
                readers: HashMap::new(),
                tasks: HashMap::new(),
                joined: 0,
                has_failed: false,
            }),
        })
    }

    /// `name`: of a host without a cache report.
    pub(super) fn join(&self, name: &str, report: Option<&CacheReport>) -> SlotPlace {
        let now = self.now();
        let place = SlotPlace {
            host: report.map_or(name, |report| &report.host).to_owned(),
            capacity: BATCHES_IN_FLIGHT as u32,
        };
        let mut state = self.lock();
        state.joined += 1;
        match state.hosts.get_mut(&place.host) {
            Some(host) => {
                host.capacity += place.capacity;
                let (id, capacity) = (host.id, host.capacity);
                let _ = state.dispatcher.set_slots(id, capacity);
            }
            None => {
                if let Ok(id) = state.dispatcher.add_host(place.capacity, now) {
                    let host = PlacedHost {
                        id,
                        capacity: place.capacity,
                        next_delta: 0,
                        assigned: VecDeque::new(),
                    };
                    state.hosts.insert(place.host.clone(), host);
                }
            }
        }
        if let Some(report) = report {
            state.apply(&place.host, report);
        }
        place
    }

    /// `wait`: maximum wait for the first.
    pub(super) fn next_batch(
        &self,
        place: &mut SlotPlace,
        registration: &mut Registration<TaskInput>,
        size: usize,
        wait: Duration,
    ) -> Option<Vec<PlacedTask>> {
        self.resize(place, size);
        let until = Instant::now() + wait;
        loop {
            if self.lock().has_failed {
                std::thread::sleep(wait.min(PLACED_WAIT));
                return None;
            }
            while let Some(task) = self.scheduler.next_task_now(registration) {
                self.admit(task);
            }
            let batch = self.decide(place, size);
            if !batch.is_empty() {
                return Some(batch);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.scheduler.is_finished() {
                return None;
            }
            let task = (self.scheduler).next_task_within(registration, left.min(PLACED_WAIT));
            match task {
                Some(task) => self.admit(task),
                // There may be no task to wait for, only a policy.
                None => std::thread::sleep(Duration::from_millis(1).min(left)),
            }
        }
    }

    pub(super) fn report(&self, place: &SlotPlace, report: &CacheReport) {
        self.lock().apply(&place.host, report);
    }

    pub(super) fn finish(&self, placed: &PlacedTask) {
        let now = self.now();
        let mut state = self.lock();
        if let Some(id) = placed.id {
            state.tasks.remove(&id);
            let _ = state.dispatcher.finish(id, now);
        }
    }

    /// As [`TaskScheduler::retry_later`], which must see how many are really in flight: tasks without a slot return to
    /// the scheduler first.
    pub(super) fn retry_later(&self, task: &Task) -> bool {
        // Under the lock, so nothing is admitted in between.
        let mut state = self.lock();
        let tasks = state.take_waiting(self.now());
        tasks.iter().for_each(|task| self.scheduler.repeat(task));
        self.scheduler.retry_later(task)
    }

    pub(super) fn close(&self) -> Vec<Task> {
        let mut state = self.lock();
        state.has_failed = true;
        state.take_waiting(self.now())
    }

    pub(super) fn requeue<'t>(&self, placed: impl Iterator<Item = &'t PlacedTask>) {
        let now = self.now();
        let mut state = self.lock();
        for placed in placed {
            let Some(id) = placed.id else { continue };
            if state.has_failed {
                state.tasks.remove(&id);
                let _ = state.dispatcher.finish(id, now);
                self.scheduler.repeat(&placed.task);
                continue;
            }
            if let Some((_, is_with_slot)) = state.tasks.get_mut(&id) {
                *is_with_slot = false;
                let _ = state.dispatcher.requeue(id, now);
            }
        }
    }

    /// Tasks of a host without slots wait for others.
    pub(super) fn leave(&self, place: &SlotPlace) {
        let now = self.now();
        let mut state = self.lock();
        let Some(host) = state.hosts.get_mut(&place.host) else {
            return;
        };
        host.capacity -= place.capacity.min(host.capacity);
        let (id, capacity) = (host.id, host.capacity);
        if capacity > 0 {
            let _ = state.dispatcher.set_slots(id, capacity);
            return;
        }
        // Assigned tasks wait again.
        state.hosts.remove(&place.host);
        state.forget_host(id);
        let _ = state.dispatcher.remove_host(id, now);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, PlacementState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resize(&self, place: &mut SlotPlace, size: usize) {
        let capacity = (size * BATCHES_IN_FLIGHT) as u32;
        let before = std::mem::replace(&mut place.capacity, capacity);
        if before == capacity {
            return;
        }
        let mut state = self.lock();
        if let Some(host) = state.hosts.get_mut(&place.host) {
            host.capacity = host.capacity - before + capacity;
            let (id, capacity) = (host.id, host.capacity);
            let _ = state.dispatcher.set_slots(id, capacity);
        }
    }

    fn admit(&self, task: Task) {
        let objects = objects_of(&self.subgraphs[task.subgraph], &task);
        let now = self.now();
        let mut state = self.lock();
        if state.has_failed {
            self.scheduler.repeat(&task);
            return;
        }
        let state = &mut *state;
        let mut ids: Vec<ObjectId> = Vec::with_capacity(objects.len());
        for (name, bytes) in objects {
            let id = state.names.intern(name);
            // The cache's own report takes precedence.
            if state.dispatcher.index().bytes(id) == 0 {
                state.dispatcher.set_bytes(id, bytes);
            }
            ids.push(id);
        }
        let id = state.dispatcher.admit(&ids, now);
        state.tasks.insert(id, (task, false));
    }

    fn decide(&self, place: &SlotPlace, size: usize) -> Vec<PlacedTask> {
        let now = self.now();
        let mut state = self.lock();
        let waits = state.joined < self.expected && self.begun.elapsed() < START_WAIT;
        if state.has_failed || waits {
            return Vec::new();
        }
        let state = &mut *state;
        while let Some(decision) = state.dispatcher.next(now) {
            let Some((task, _)) = state.tasks.get(&decision.task) else {
                let _ = state.dispatcher.finish(decision.task, now);
                continue;
            };
            let placed = PlacedTask {
                task: task.clone(),
                id: Some(decision.task),
                sources: state.take_sources(&decision.inputs, decision.host),
            };
            let mut hosts = state.hosts.values_mut();
            if let Some(host) = hosts.find(|host| host.id == decision.host) {
                host.assigned.push_back(placed);
            }
        }
        let Some(host) = state.hosts.get_mut(&place.host) else {
            return Vec::new();
        };
        let count = size.min(host.assigned.len());
        let batch: Vec<_> = host.assigned.drain(..count).collect();
        for placed in &batch {
            if let Some((_, is_with_slot)) = placed.id.and_then(|id| state.tasks.get_mut(&id)) {
                *is_with_slot = true;
            }
        }
        batch
    }
}
