//! Client side: a thread per slot takes tasks from the scheduler and returns their results.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use isochrony_runtime::start_worker;

use isochrony_store::shard_cache::CacheReport;

use super::events::StreamTable;
use super::placed_tasks::{BATCHES_IN_FLIGHT, PlacedTasks, SlotPlace};
use super::placement_state::PlacedTask;
use super::results::ResultCodec;
use super::runner::task_hash;
use super::tasks::TaskBatch;
use super::{RemoteSlot, SlotError, TaskCluster};
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::partition::TaskInput;
use crate::scheduler::reorder::Registration;
use crate::scheduler::split::SplitPlan;
use crate::scheduler::task_output::{ExitOutput, Task, TaskFailure, TaskOutput, TaskScheduler};
use crate::scheduler::worker::WorkerResult;
use crate::{Cause, OpErrorKind};

const MAX_BATCH: usize = 32;
/// Small message overhead, little lost with a worker.
const BATCH_TIME: Duration = Duration::from_millis(20);
/// How long to wait for a slot before checking for the end.
const SLOT_WAIT: Duration = Duration::from_millis(50);
/// How often a slot without tasks checks whether to leave.
const TASK_WAIT: Duration = Duration::from_millis(50);

pub(crate) struct Dispatcher<'a> {
    cluster: &'a dyn TaskCluster,
    split: &'a SplitPlan,
    placed: Option<PlacedTasks<'a>>,
    streams: Vec<StreamTable>,
    hash: u64,
    ended: AtomicBool,
    slots: AtomicUsize,
    results: Mutex<Vec<WorkerResult>>,
    expected_tasks: u64,
    completed_tasks: AtomicU64,
    busy_ns: AtomicU64,
}

impl<'a> Dispatcher<'a> {
    pub(crate) fn new(cluster: &'a dyn TaskCluster, split: &'a SplitPlan) -> Self {
        Self {
            cluster,
            split,
            placed: cluster.placement().and_then(|options| {
                PlacedTasks::new(
                    options,
                    cluster.present_slots(),
                    &split.scheduler,
                    &split.subgraphs,
                )
            }),
            streams: split.subgraphs.iter().map(StreamTable::of).collect(),
            hash: task_hash(&split.subgraphs),
            ended: AtomicBool::new(false),
            slots: AtomicUsize::new(0),
            results: Mutex::default(),
            expected_tasks: split
                .subgraphs
                .iter()
                .map(ParallelSubgraph::task_count)
                .sum(),
            completed_tasks: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn serve<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let _loss_guard = PanicGuard(&self.split.scheduler);
        let mut registration = Registration::default();
        let fail = |registration: &mut Registration<TaskInput>, why: &Cause| {
            self.fail(registration, why);
            self.split.scheduler.unregister(registration);
        };
        while !self.ended.load(Ordering::Relaxed) {
            self.announce_demand();
            match self.cluster.next_slot(SLOT_WAIT, true) {
                Ok(Some(slot)) => {
                    let number = self.slots.fetch_add(1, Ordering::Relaxed);
                    let name = slot.name().to_owned();
                    let drive = move || self.drive(slot, number);
                    let begun = start_worker(scope, number, None, drive);
                    if let Err(error) = begun {
                        let why = format!("no thread can be started for {name}: {error}");
                        return fail(&mut registration, &why.into());
                    }
                }
                Ok(None) => {}
                Err(why) => return fail(&mut registration, &why),
            }
        }
    }

    fn announce_demand(&self) {
        let completed = self.completed_tasks.load(Ordering::Relaxed);
        let busy = Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed)).as_secs_f64();
        // Gaps make more tasks than expected.
        let left = match self.split.scheduler.is_finished() {
            true => 0,
            false => self.expected_tasks.saturating_sub(completed).max(1),
        };
        let each = (completed > 0).then(|| busy / completed as f64);
        let slot_seconds = each.map(|each| each * left as f64);
        self.cluster.set_demand(left, slot_seconds);
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.split.scheduler.stop();
        self.cluster.stop();
    }

    pub(crate) fn into_results(self) -> Vec<WorkerResult> {
        let results = self.results.into_inner();
        let mut results = results.unwrap_or_else(std::sync::PoisonError::into_inner);
        results.sort_by_key(WorkerResult::number);
        results
    }

    fn drive(&self, mut slot: Box<dyn RemoteSlot>, number: usize) {
        let scheduler = &self.split.scheduler;
        let _loss_guard = PanicGuard(scheduler);
        let begun = Instant::now();
        let mut registration = Registration::default();
        let mut result = WorkerResult::of_slot(number, slot.name(), self.split.subgraphs.len());
        let (mut sent, mut batch_size) = (VecDeque::<(Instant, Vec<PlacedTask>)>::new(), 1);
        let mut place = self.join(&mut *slot);
        let mut leaves = false;
        let ended = 'sent: loop {
            leaves |= slot.is_draining();
            while !leaves
                && sent.len() < BATCHES_IN_FLIGHT
                && let Some(tasks) =
                    self.next_batch(&mut place, &mut registration, batch_size, sent.is_empty())
            {
                leaves = slot.is_draining();
                if leaves {
                    self.repeat(tasks.iter());
                    break;
                }
                let begun = Instant::now();
                let request = self.send(&mut *slot, &tasks, &mut result);
                sent.push_back((begun, tasks));
                if let Err(error) = request {
                    break 'sent error;
                }
            }
            let Some(batch) = sent.front() else {
                if leaves || scheduler.is_finished() {
                    break SlotError::Stopped;
                }
                continue;
            };
            match self.receive(&mut *slot, batch, &place, &mut result) {
                Ok(took) => {
                    batch_size = next_batch_size(batch_size, batch.1.len(), took);
                    sent.pop_front();
                }
                Err(error) => break error,
            }
        };
        match ended {
            SlotError::Lost => {
                // No part of their results was delivered.
                self.repeat(sent.iter().flat_map(|(_, tasks)| tasks));
                result.remote_mut().lost = true;
            }
            SlotError::Failed(why) => {
                let text = why.to_string();
                for placed in sent.iter().flat_map(|(_, tasks)| tasks) {
                    self.finish(placed);
                    self.complete_with(&placed.task, &text);
                }
                self.fail(&mut registration, &why);
            }
            SlotError::Stopped if leaves => slot.leave(),
            SlotError::Stopped => {}
        }
        if let (Some(placed), Some(place)) = (&self.placed, &place) {
            placed.leave(place);
        }
        scheduler.unregister(&registration);
        result.end(begun.elapsed());
        let results = self.results.lock();
        results
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(result);
    }

    fn next_batch(
        &self,
        place: &mut Option<SlotPlace>,
        registration: &mut Registration<TaskInput>,
        size: usize,
        waits: bool,
    ) -> Option<Vec<PlacedTask>> {
        let scheduler = &self.split.scheduler;
        if let (Some(placed), Some(place)) = (&self.placed, place) {
            let wait = if waits { TASK_WAIT } else { Duration::ZERO };
            return placed.next_batch(place, registration, size, wait);
        }
        let first = match waits {
            true => scheduler.next_task_within(registration, TASK_WAIT),
            false => scheduler.next_task_now(registration),
        };
        let mut tasks = vec![first?];
        while tasks.len() < size
            && let Some(task) = scheduler.next_task_now(registration)
        {
            tasks.push(task);
        }
        Some(tasks.into_iter().map(PlacedTask::unplaced).collect())
    }

    fn join(&self, slot: &mut dyn RemoteSlot) -> Option<SlotPlace> {
        let placed = self.placed.as_ref()?;
        let report = slot.cache_report();
        let report = report.and_then(|report| CacheReport::from_bytes(&report).ok());
        Some(placed.join(slot.name(), report.as_ref()))
    }

    fn repeat<'t>(&self, tasks: impl Iterator<Item = &'t PlacedTask>) {
        match &self.placed {
            Some(placed) => placed.requeue(tasks),
            None => tasks.for_each(|placed| self.split.scheduler.repeat(&placed.task)),
        }
    }

    /// After a memory refusal; false if it was retried alone too often.
    fn retry_later(&self, task: &Task) -> bool {
        match &self.placed {
            Some(placed) => placed.retry_later(task),
            None => self.split.scheduler.retry_later(task),
        }
    }

    fn finish(&self, task: &PlacedTask) {
        self.placed.iter().for_each(|placed| placed.finish(task));
    }

    fn send(
        &self,
        slot: &mut dyn RemoteSlot,
        tasks: &[PlacedTask],
        result: &mut WorkerResult,
    ) -> Result<(), SlotError> {
        let request = TaskBatch::encode(self.hash, &self.split.subgraphs, tasks);
        let request = request.map_err(|error| SlotError::Failed(error.to_string().into()))?;
        result.remote_mut().sent_bytes += request.len() as u64;
        slot.send(&request)
    }

    fn receive(
        &self,
        slot: &mut dyn RemoteSlot,
        (begun, tasks): &(Instant, Vec<PlacedTask>),
        place: &Option<SlotPlace>,
        result: &mut WorkerResult,
    ) -> Result<Duration, SlotError> {
        let answer = slot.receive()?;
        let host = slot.name();
        let codec = ResultCodec {
            subgraphs: &self.split.subgraphs,
            streams: &self.streams,
            causes: self.cluster.causes(),
        };
        let sent: Vec<&Task> = tasks.iter().map(|placed| &placed.task).collect();
        let decoded = codec.decode(&sent, &answer, host).map_err(|error| {
            let why = format!("the answer of worker {host} cannot be read: {error}");
            SlotError::Failed(why.into())
        })?;
        result.remote_mut().received_bytes += answer.len() as u64;
        for (subgraph, reports) in decoded.operators {
            result.operators[subgraph] = Some(reports);
        }
        if let Some(report) = &decoded.cache {
            result.remote_mut().add_cache(report.counts);
            // Fetched data count before the tasks that fetched them end.
            if let (Some(placed), Some(place)) = (&self.placed, place) {
                placed.report(place, report);
            }
        }
        let mut took = Duration::ZERO;
        let mut refused = None;
        for (placed, done) in tasks.iter().zip(decoded.results) {
            let task = &placed.task;
            self.finish(placed);
            match done {
                Ok(done) => {
                    let elapsed = Duration::from_nanos(done.elapsed_ns);
                    took += elapsed;
                    self.completed_tasks.fetch_add(1, Ordering::Relaxed);
                    self.busy_ns.fetch_add(done.elapsed_ns, Ordering::Relaxed);
                    result.add(task, elapsed, done.output.samples);
                    let output = done.output.begun_at(*begun);
                    self.split.scheduler.complete(task, output);
                }
                Err(why) if !self.retry_later(task) => refused = Some((task, why)),
                Err(_) => {}
            }
        }
        if let Some((task, why)) = refused {
            self.complete_with(task, &format!("worker {host}: {why}"));
        }
        Ok(took)
    }

    /// All further tasks fail, of each subgraph: earlier results still reach the sinks.
    fn fail(&self, registration: &mut Registration<TaskInput>, why: &Cause) {
        let text = why.to_string();
        for task in self.placed.iter().flat_map(PlacedTasks::close) {
            self.complete_with(&task, &text);
        }
        while let Some(task) = self.split.scheduler.next_task(registration, || ()) {
            self.complete_with(&task, &text);
        }
    }

    fn complete_with(&self, task: &Task, why: &str) {
        let subgraph = &self.split.subgraphs[task.subgraph];
        let error = subgraph.task_error(task, OpErrorKind::Failed(why.into()).into());
        let begins = subgraph.inputs[0].time(task.part.range.start);
        let failure = TaskFailure::new(error, begins, Vec::new());
        let exits = subgraph.plan.exits.iter().map(|_| ExitOutput::default());
        let output = TaskOutput::new(exits.collect(), 0, Some(failure));
        let output = output.with_input(&task.part);
        self.split.scheduler.complete(task, output);
    }
}

/// Reports the worker as lost.
struct PanicGuard<'a>(&'a TaskScheduler);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.report_lost_worker();
        }
    }
}

/// Grows while full batches take less than [`BATCH_TIME`].
fn next_batch_size(size: usize, tasks: usize, took: Duration) -> usize {
    match took {
        took if took > BATCH_TIME * 2 => (size / 2).max(1),
        took if took < BATCH_TIME && tasks == size => (size * 2).min(MAX_BATCH),
        _ => size,
    }
}
