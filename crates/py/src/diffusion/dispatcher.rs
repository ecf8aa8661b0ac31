//! Data-aware task dispatcher for Python: objects have names, tasks and hosts numbers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_placement::{
    Change, DispatchOptions, Dispatcher, HostId, Interner, ObjectId, PlacementError, Reply, TaskId,
};
use pyo3::prelude::*;

use crate::errors::{Error, PackageError, Result};

impl From<PlacementError> for Error {
    fn from(error: PlacementError) -> Self {
        PackageError::new("OptionError", error.code(), error.to_string()).into()
    }
}

/// Name, length (0: unknown), whether the task's host has it, and other holders.
type TaskInput = (String, u64, bool, Vec<u32>);

/// Waiting tasks, free slots and cache contents.
#[pyclass(frozen)]
pub(crate) struct NativeDispatcher(Mutex<DispatcherState>);

struct DispatcherState {
    dispatcher: Dispatcher,
    names: Interner<Arc<str>>,
    tasks: HashMap<u64, TaskId>,
    numbers: HashMap<TaskId, u64>,
    next: u64,
}

impl DispatcherState {
    fn object(&mut self, name: &str) -> ObjectId {
        match self.names.get(name) {
            Some(known) => known,
            None => self.names.intern(Arc::from(name)),
        }
    }

    fn task(&self, number: u64) -> Result<TaskId> {
        self.tasks.get(&number).copied().ok_or_else(|| {
            let message = format!("task {number} is not known; it was finished before");
            PackageError::new("OptionError", "unknown_task", message).into()
        })
    }
}

impl NativeDispatcher {
    fn lock(&self) -> MutexGuard<'_, DispatcherState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl NativeDispatcher {
    #[new]
    fn new(policy: &str, window: usize, max_wait: f64, max_replicas: usize) -> Result<Self> {
        let defaults = DispatchOptions::default();
        let options = DispatchOptions {
            policy: policy.parse()?,
            window,
            max_wait: nanoseconds(max_wait),
            max_replicas,
            widespread: defaults.widespread.max(max_replicas),
            ..defaults
        };
        Ok(Self(Mutex::new(DispatcherState {
            dispatcher: Dispatcher::new(options)?,
            names: Interner::default(),
            tasks: HashMap::new(),
            numbers: HashMap::new(),
            next: 0,
        })))
    }

    /// Adds a host with an empty cache; returns its number.
    fn add_host(&self, slots: u32, now: f64) -> Result<u32> {
        Ok(self.lock().dispatcher.add_host(slots, nanoseconds(now))?.0)
    }

    /// Removes a host; returns its tasks, which wait again.
    fn remove_host(&self, host: u32, now: f64) -> Result<Vec<u64>> {
        let mut state = self.lock();
        let tasks = state
            .dispatcher
            .remove_host(HostId(host), nanoseconds(now))?;
        let numbers = tasks.iter().filter_map(|task| state.numbers.get(task));
        Ok(numbers.copied().collect())
    }

    /// Whether the host gets no further tasks.
    fn set_draining(&self, host: u32, is_draining: bool) -> Result<()> {
        let mut state = self.lock();
        Ok(state.dispatcher.set_draining(HostId(host), is_draining)?)
    }

    /// Applies changes of a host's cache. False if an earlier change is missing: send a manifest.
    fn apply_changes(
        &self,
        host: u32,
        number: u64,
        added: Vec<(String, u64)>,
        removed: Vec<String>,
    ) -> Result<bool> {
        let mut state = self.lock();
        let mut changes = Vec::with_capacity(added.len() + removed.len());
        for (name, bytes) in added {
            let object = state.object(&name);
            changes.push(Change::Added { object, bytes });
        }
        for name in removed {
            let object = state.object(&name);
            changes.push(Change::Removed { object });
        }
        let reply = state
            .dispatcher
            .apply_delta(HostId(host), number, &changes)?;
        Ok(reply != Reply::SendManifest)
    }

    /// Applies a manifest, the whole content of a host's cache; `number`: of the next change.
    fn apply_manifest(&self, host: u32, number: u64, objects: Vec<(String, u64)>) -> Result<()> {
        let mut state = self.lock();
        let objects: Vec<_> = objects
            .iter()
            .map(|(name, bytes)| (state.object(name), *bytes))
            .collect();
        state
            .dispatcher
            .apply_manifest(HostId(host), number, &objects)?;
        Ok(())
    }

    /// Sets the length of an object before any cache has it.
    fn set_bytes(&self, name: &str, bytes: u64) {
        let mut state = self.lock();
        let object = state.object(name);
        state.dispatcher.set_bytes(object, bytes);
    }

    /// Adds waiting tasks, each with its objects; returns their numbers.
    fn admit(&self, tasks: Vec<Vec<String>>, now: f64) -> Vec<u64> {
        let mut state = self.lock();
        let mut admit = |objects: &Vec<String>| {
            let objects: Vec<_> = objects.iter().map(|name| state.object(name)).collect();
            let task = state.dispatcher.admit(&objects, nanoseconds(now));
            let number = state.next;
            state.next += 1;
            state.tasks.insert(number, task);
            state.numbers.insert(task, number);
            number
        };
        tasks.iter().map(&mut admit).collect()
    }

    /// Assigns up to `most` tasks to free slots: number, host, objects.
    fn decide(&self, most: usize, now: f64) -> Vec<(u64, u32, Vec<TaskInput>)> {
        let mut state = self.lock();
        let mut decisions = Vec::new();
        while decisions.len() < most
            && let Some(decision) = state.dispatcher.next(nanoseconds(now))
        {
            let name = |object| {
                state
                    .names
                    .name(object)
                    .map_or("", |name| &**name)
                    .to_owned()
            };
            let inputs = decision.inputs.iter().map(|input| {
                let sources = input.sources.iter().map(|host| host.0).collect();
                (name(input.object), input.bytes, input.is_local, sources)
            });
            let number = state.numbers.get(&decision.task).copied();
            decisions.push((
                number.unwrap_or(u64::MAX),
                decision.host.0,
                inputs.collect(),
            ));
        }
        decisions
    }

    /// Finishes tasks and frees their slots.
    fn finish(&self, tasks: Vec<u64>, now: f64) -> Result<()> {
        let mut state = self.lock();
        for number in tasks {
            let task = state.task(number)?;
            state.dispatcher.finish(task, nanoseconds(now))?;
            state.tasks.remove(&number);
            state.numbers.remove(&task);
        }
        Ok(())
    }

    /// Puts a task back into the queue.
    fn requeue(&self, task: u64, now: f64) -> Result<()> {
        let mut state = self.lock();
        let task = state.task(task)?;
        Ok(state.dispatcher.requeue(task, nanoseconds(now))?)
    }

    /// When the oldest task stops waiting for a host with its data; None if none waits.
    fn next_deadline(&self) -> Option<f64> {
        let deadline = self.lock().dispatcher.next_deadline();
        deadline.map(|deadline| deadline as f64 / 1e9)
    }

    /// Numbers of waiting tasks, running tasks and copies of objects.
    fn counts(&self) -> (usize, usize, usize) {
        let state = self.lock();
        let counts = state.dispatcher.counts();
        let copies = state.dispatcher.index().copies();
        (counts.window + counts.backlog, counts.running, copies)
    }

    /// Hosts with an object.
    fn holders(&self, name: &str) -> Vec<u32> {
        let state = self.lock();
        let Some(object) = state.names.get(name) else {
            return Vec::new();
        };
        let holders = state.dispatcher.index().holders(object);
        holders.map(|host| host.0).collect()
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}
