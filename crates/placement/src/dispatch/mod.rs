//! Dispatcher: assigns waiting tasks to free slots by a policy.

mod choose;
mod groups;
mod hosts;
mod locality;
mod policy;
mod ranking;
mod tasks;

use smallvec::SmallVec;

use hosts::HostPool;
use locality::Locality;
pub use policy::{DispatchOptions, Policy};
use tasks::{State, TaskTable};

use crate::{CacheIndex, Change, HostId, ObjectId, PlacementError, Reply, TaskId};

/// Maximum holders per object in a decision.
pub const MAX_SOURCES: usize = 4;

/// An object read by a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Object.
    pub object: ObjectId,
    /// Size; 0 if unknown.
    pub bytes: u64,
    /// Whether reported by the task's host.
    pub is_local: bool,
    /// Other hosts that reported it, in request order; they may have evicted it.
    pub sources: SmallVec<[HostId; MAX_SOURCES]>,
}

/// A task and its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Task.
    pub task: TaskId,
    /// Host with a slot taken.
    pub host: HostId,
    /// Its objects, by identifier.
    pub inputs: SmallVec<[Input; 2]>,
}

/// Task counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueCounts {
    /// Waiting in the window of decisions.
    pub window: usize,
    /// Waiting behind the window.
    pub backlog: usize,
    /// Running.
    pub running: usize,
}

/// Waiting tasks, free slots, and the cache index.
///
/// Memory: about 100 bytes per task and, in the window, a 24-byte ranking entry per host that holds objects of its
/// group; rankings are compacted before half of them is outdated.
///
/// ```
/// use isochrony_placement::{Change, DispatchOptions, Dispatcher, ObjectId};
///
/// let mut dispatcher = Dispatcher::new(DispatchOptions::default())?;
/// let (a, b) = (dispatcher.add_host(2, 0)?, dispatcher.add_host(2, 0)?);
/// let object = ObjectId(0);
/// dispatcher.apply_delta(b, 0, &[Change::Added { object, bytes: 1 << 20 }])?;
/// let task = dispatcher.admit(&[object], 0);
/// let decision = dispatcher.next(0).unwrap();
/// assert_eq!((decision.task, decision.host), (task, b));
/// assert!(decision.inputs[0].is_local);
/// dispatcher.finish(task, 1_000)?;
/// # let _ = a;
/// # Ok::<(), isochrony_placement::PlacementError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dispatcher {
    options: DispatchOptions,
    tasks: TaskTable,
    hosts: HostPool,
    locality: Locality,
    last_read: Vec<u64>,
    next_source: usize,
    scratch: Vec<(HostId, u64)>,
}

impl Dispatcher {
    /// A dispatcher without hosts and tasks.
    pub fn new(options: DispatchOptions) -> Result<Self, PlacementError> {
        options.check()?;
        Ok(Self {
            options,
            tasks: TaskTable::new(),
            hosts: HostPool::default(),
            locality: Locality::new(&options),
            last_read: Vec::new(),
            next_source: 0,
            scratch: Vec::new(),
        })
    }

    /// The options.
    pub fn options(&self) -> &DispatchOptions {
        &self.options
    }

    /// The cache index.
    pub fn index(&self) -> &CacheIndex {
        &self.locality.index
    }

    /// Adds a host with an empty cache.
    pub fn add_host(&mut self, slots: u32, now: u64) -> Result<HostId, PlacementError> {
        HostPool::check_slots(slots)?;
        self.hosts.add(slots, now);
        Ok(self.locality.add_host())
    }

    /// Changes a host's slots. Surplus running tasks continue.
    pub fn set_slots(&mut self, host: HostId, slots: u32) -> Result<(), PlacementError> {
        self.index().check(host)?;
        HostPool::check_slots(slots)?;
        self.hosts.set_total(host, slots);
        Ok(())
    }

    /// Stops or resumes giving tasks to a host.
    ///
    /// Its cache still serves as a source and counts as copies: a policy may wait for it, at most `max_wait`. Its slots
    /// do not count for `utilization`, nor its copies in [`Provisioner::plan`](crate::Provisioner::plan).
    pub fn set_draining(&mut self, host: HostId, draining: bool) -> Result<(), PlacementError> {
        self.index().check(host)?;
        self.hosts.set_draining(host, draining);
        Ok(())
    }

    /// Removes a host. Returns its running tasks, which wait again at their old positions.
    pub fn remove_host(&mut self, host: HostId, now: u64) -> Result<Vec<TaskId>, PlacementError> {
        self.locality.index.remove_host(host)?;
        self.settle();
        self.locality.clear_host(host);
        self.hosts.remove(host);
        let slots = 0..self.tasks.tasks.len() as u32;
        let running = |slot: &u32| self.tasks.tasks[*slot as usize].state == State::Running(host);
        let lost: Vec<u32> = slots.filter(running).collect();
        for &slot in &lost {
            self.tasks.running -= 1;
            self.wait(slot, now);
        }
        Ok(lost.iter().map(|&slot| self.tasks.id(slot)).collect())
    }

    /// Sets the size of an object before a host reports it.
    pub fn set_bytes(&mut self, object: ObjectId, bytes: u64) {
        self.locality.index.set_bytes(object, bytes);
        self.settle();
    }

    /// See [`CacheIndex::apply_delta`].
    pub fn apply_delta(
        &mut self,
        host: HostId,
        number: u64,
        changes: &[Change],
    ) -> Result<Reply, PlacementError> {
        let reply = self.locality.index.apply_delta(host, number, changes)?;
        self.settle();
        Ok(reply)
    }

    /// Replaces a host's known content: see [`CacheIndex::apply_manifest`].
    pub fn apply_manifest(
        &mut self,
        host: HostId,
        next_delta: u64,
        objects: &[(ObjectId, u64)],
    ) -> Result<Reply, PlacementError> {
        let index = &mut self.locality.index;
        let reply = index.apply_manifest(host, next_delta, objects)?;
        self.settle();
        Ok(reply)
    }

    /// Adds a task. Its age is the order of admission.
    pub fn admit(&mut self, objects: &[ObjectId], now: u64) -> TaskId {
        let task = self.tasks.admit(objects);
        self.fill_window(now);
        task
    }

    /// Ends a running task. Apply the delta of its fetches first: the rest counts as not fetched.
    pub fn finish(&mut self, task: TaskId, now: u64) -> Result<(), PlacementError> {
        self.stop(task, now)?;
        self.tasks.end(task.slot);
        Ok(())
    }

    /// Returns a running task to its old position.
    pub fn requeue(&mut self, task: TaskId, now: u64) -> Result<(), PlacementError> {
        self.stop(task, now)?;
        self.wait(task.slot, now);
        Ok(())
    }

    /// Cancels a waiting task.
    pub fn cancel(&mut self, task: TaskId, now: u64) -> Result<(), PlacementError> {
        let waits = |state| matches!(state, State::Backlog | State::Waiting);
        match self.tasks.state(task, "waiting", waits)? {
            State::Waiting => {
                self.tasks.leave(task.slot, now);
                if self.options.policy.is_data_aware() {
                    self.locality.groups.remove(task.slot, &self.tasks.tasks);
                }
                self.tasks.end(task.slot);
                self.fill_window(now);
            }
            _ => self.tasks.cancel_backlog(task.slot),
        }
        Ok(())
    }

    /// When [`Dispatcher::next`], after none, may return a task that was passed over for long enough.
    pub fn next_deadline(&self) -> Option<u64> {
        self.hosts.first_free()?;
        let oldest = &self.tasks.tasks[self.tasks.oldest()? as usize];
        Some(oldest.entered.saturating_add(self.options.max_wait))
    }

    /// Task counts.
    pub fn counts(&self) -> QueueCounts {
        QueueCounts {
            window: self.tasks.waiting,
            backlog: self.tasks.backlog(),
            running: self.tasks.running,
        }
    }

    /// Waiting tasks in the window that read an object; none under policies that ignore data.
    pub fn waiting_for(&self, object: ObjectId) -> impl Iterator<Item = TaskId> {
        let groups = self.locality.groups.waiting_for(object).iter();
        let tasks = groups.flat_map(|&group| self.locality.groups.tasks(group));
        tasks.map(|slot| self.tasks.id(slot))
    }

    /// Start of the last task that read an object.
    pub fn last_read(&self, object: ObjectId) -> Option<u64> {
        let last = self.last_read.get(object.0 as usize).copied();
        last.filter(|&at| at < u64::MAX)
    }

    /// Total ranking entries, a measure of memory.
    pub fn ranking_entries(&self) -> usize {
        self.locality.entries()
    }

    /// Busy and total slots of a host.
    pub fn slots(&self, host: HostId) -> Result<(u32, u32), PlacementError> {
        self.index().check(host)?;
        let slots = self.hosts.get(host);
        Ok((slots.busy, slots.total))
    }

    /// Whether a host gets no further tasks.
    pub fn is_draining(&self, host: HostId) -> bool {
        self.index().check(host).is_ok() && self.hosts.get(host).draining
    }

    /// Hosts that accept tasks, and since when they are idle; None while a slot is busy.
    pub fn open_hosts(&self) -> impl Iterator<Item = (HostId, Option<u64>)> {
        let hosts = self.hosts.open_hosts();
        hosts.map(|(host, slots)| (host, (slots.busy == 0).then_some(slots.idle_since)))
    }

    fn stop(&mut self, task: TaskId, now: u64) -> Result<(), PlacementError> {
        let runs = |state| matches!(state, State::Running(_));
        let State::Running(host) = self.tasks.state(task, "running", runs)? else {
            unreachable!("the state was checked");
        };
        if self.options.policy.is_data_aware() {
            for &object in &self.tasks.tasks[task.slot as usize].objects {
                self.locality.index.release(object, host);
            }
            self.settle();
        }
        self.hosts.give_slot(host, now);
        self.tasks.running -= 1;
        Ok(())
    }

    fn settle(&mut self) {
        self.locality.settle();
        self.wake();
    }

    fn wake(&mut self) {
        for host in self.locality.woken.drain(..) {
            self.hosts.wake(host);
        }
    }

    fn fill_window(&mut self, now: u64) {
        while let Some(slot) = self.tasks.enter(self.options.window, now) {
            self.rank(slot);
        }
    }

    fn wait(&mut self, slot: u32, now: u64) {
        self.tasks.wait(slot, now);
        self.rank(slot);
    }

    fn rank(&mut self, slot: u32) {
        if self.options.policy.is_data_aware() {
            let group = self.locality.insert(slot, &self.tasks.tasks);
            self.tasks.tasks[slot as usize].group = group;
            self.wake();
        }
    }
}
