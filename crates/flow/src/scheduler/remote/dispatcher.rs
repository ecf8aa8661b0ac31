//! Client side: a thread per slot takes tasks from the scheduler and returns their results.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use isochrony_runtime::start_worker;

use isochrony_store::shard_cache::CacheReport;
use isochrony_tune::MessageTimes;

use super::active_slots::ActiveSlots;
use super::events::StreamTable;
use super::placed_tasks::{BATCHES_IN_FLIGHT, PlacedTasks, SlotPlace};
use super::placement_state::PlacedTask;
use super::results::ResultCodec;
use super::runner::task_hash;
use super::running_cluster::RunningCluster;
use super::task_counts::TaskCounts;
use super::tasks::TaskBatch;
use super::{RemoteSlot, SlotError, TaskCluster};
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::partition::TaskInput;
use crate::scheduler::reorder::Registration;
use crate::scheduler::running_tasks::RunningTasks;
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
    joined: AtomicUsize,
    slots: Arc<ActiveSlots>,
    results: Mutex<Vec<WorkerResult>>,
    counts: Mutex<TaskCounts>,
    times: Mutex<MessageTimes>,
    /// For tests: seed of random changes of slots and batches.
    shuffle: Option<u64>,
}

struct SentBatch {
    begun: Instant,
    tasks: Vec<PlacedTask>,
    /// Tuning did not state the size.
    has_own_size: bool,
}

/// The answer to a batch.
struct BatchAnswer {
    /// When it was first waited for.
    awaited: Instant,
    arrived: Instant,
    /// What its tasks took, but those that are repeated.
    took: Duration,
    is_complete: bool,
}

impl BatchAnswer {
    /// It is awaited after the one before it was taken in.
    fn add_to(&self, times: &mut MessageTimes, batch: &SentBatch) {
        let seconds = |since: Instant| (self.arrived - since).as_secs_f64();
        let busy_s = self.took.as_secs_f64();
        let (wait_s, travel_s) = (
            seconds(self.awaited) - busy_s,
            seconds(batch.begun) - busy_s,
        );
        times.add(batch.tasks.len(), busy_s, wait_s, travel_s);
    }
}

impl<'a> Dispatcher<'a> {
    pub(crate) fn new(
        cluster: &'a dyn TaskCluster,
        split: &'a SplitPlan,
        shuffle: Option<u64>,
    ) -> Self {
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
            joined: AtomicUsize::new(0),
            slots: Arc::new(ActiveSlots::new(cluster.present_slots())),
            results: Mutex::default(),
            counts: Mutex::new(TaskCounts::expecting(
                split
                    .subgraphs
                    .iter()
                    .map(ParallelSubgraph::task_count)
                    .sum(),
            )),
            times: Mutex::default(),
            shuffle,
        }
    }

    /// For tuning.
    pub(crate) fn running(&self, tasks: RunningTasks) -> RunningCluster {
        RunningCluster::new(tasks, &self.slots, self.placed.is_some(), MAX_BATCH)
    }

    /// What messages took so far.
    pub(crate) fn message_times(&self) -> MessageTimes {
        MessageTimes {
            in_flight: BATCHES_IN_FLIGHT,
            most_tasks: MAX_BATCH,
            ..*self.times()
        }
    }

    fn times(&self) -> MutexGuard<'_, MessageTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, TaskCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a task is of one with the size at the start.
    fn share(&self, task: &Task) -> f64 {
        let range = &task.part.range;
        let size = self.split.subgraphs[task.subgraph].size.samples;
        (range.end - range.start) as f64 / size.max(1) as f64
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
                    let number = self.joined.fetch_add(1, Ordering::Relaxed);
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
        let scheduler = &self.split.scheduler;
        let (left, ratio) = match scheduler.is_finished() {
            true => (0, Some(0.0)),
            false => self.counts().left(),
        };
        let slot_seconds = ratio.map(|ratio| ratio * scheduler.busy().as_secs_f64());
        self.cluster
            .set_demand(left, slot_seconds, self.slots.enough());
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.split.scheduler.stop();
        // Wakes those that wait.
        self.slots.set_limit(usize::MAX);
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
        let (mut sent, mut own_size) = (VecDeque::<SentBatch>::new(), 1);
        let mut place = self.join(&mut *slot);
        self.slots.join();
        let (mut leaves, mut was_active) = (false, true);
        let ended = 'sent: loop {
            leaves |= slot.is_draining();
            let is_active = self.placed.is_some() || self.slots.is_active(number);
            if was_active && !is_active {
                // What was reserved for it goes to others.
                scheduler.unregister(&std::mem::take(&mut registration));
            }
            was_active = is_active;
            while is_active
                && !leaves
                && sent.len() < BATCHES_IN_FLIGHT
                && let Some(batch) =
                    self.next_batch(&mut place, &mut registration, own_size, sent.is_empty())
            {
                leaves = slot.is_draining();
                if leaves {
                    self.repeat(batch.tasks.iter());
                    break;
                }
                let request = self.send(&mut *slot, &batch.tasks, &mut result);
                sent.push_back(batch);
                if let Err(error) = request {
                    break 'sent error;
                }
            }
            let Some(batch) = sent.front() else {
                if leaves || scheduler.is_finished() {
                    break SlotError::Stopped;
                }
                if !is_active {
                    self.slots.wait(number, TASK_WAIT);
                }
                continue;
            };
            match self.receive(&mut *slot, batch, &place, &mut result) {
                Ok(answer) => {
                    if batch.has_own_size {
                        own_size = next_batch_size(own_size, batch.tasks.len(), answer.took);
                    }
                    if answer.is_complete {
                        answer.add_to(&mut self.times(), batch);
                    }
                    sent.pop_front();
                }
                Err(error) => break error,
            }
        };
        match ended {
            SlotError::Lost => {
                // No part of their results was delivered.
                self.repeat(sent.iter().flat_map(|batch| &batch.tasks));
                result.remote_mut().lost = true;
            }
            SlotError::Failed(why) => {
                let text = why.to_string();
                for placed in sent.iter().flat_map(|batch| &batch.tasks) {
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
        self.slots.leave(number);
        result.end(begun.elapsed());
        let results = self.results.lock();
        results
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(result);
    }

    /// The number of tasks that tuning states; less near the end, so that all slots end together.
    fn stated_size(&self) -> Option<usize> {
        let stated = Some(self.slots.batch_tasks()).filter(|&tasks| tasks > 0)?;
        let (_, used) = self.slots.counts();
        let messages = (BATCHES_IN_FLIGHT * used) as u64;
        let share = self.counts().unsent().div_ceil(messages);
        Some(stated.min(usize::try_from(share).unwrap_or(usize::MAX)))
    }

    /// `own_size`: of the slot, by the time of its tasks.
    fn next_batch(
        &self,
        place: &mut Option<SlotPlace>,
        registration: &mut Registration<TaskInput>,
        own_size: usize,
        waits: bool,
    ) -> Option<SentBatch> {
        let stated = self.stated_size();
        let size = stated.unwrap_or(own_size);
        let tasks = self.next_tasks(place, registration, size, waits)?;
        let mut counts = self.counts();
        let shares = tasks.iter().map(|placed| self.share(&placed.task));
        shares.for_each(|share| counts.send(share));
        drop(counts);
        Some(SentBatch {
            begun: Instant::now(),
            tasks,
            has_own_size: stated.is_none(),
        })
    }

    fn next_tasks(
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

    fn repeat<'t>(&self, tasks: impl Iterator<Item = &'t PlacedTask> + Clone) {
        let mut counts = self.counts();
        for placed in tasks.clone() {
            counts.repeat(self.share(&placed.task));
        }
        drop(counts);
        match &self.placed {
            Some(placed) => placed.requeue(tasks),
            None => tasks.for_each(|placed| self.split.scheduler.repeat(&placed.task)),
        }
    }

    /// After a memory refusal; false if it was retried alone too often.
    fn retry_later(&self, task: &Task) -> bool {
        self.counts().repeat(self.share(task));
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
        SentBatch { begun, tasks, .. }: &SentBatch,
        place: &Option<SlotPlace>,
        result: &mut WorkerResult,
    ) -> Result<BatchAnswer, SlotError> {
        let awaited = Instant::now();
        let answer = slot.receive()?;
        let arrived = Instant::now();
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
        let (mut took, mut is_complete) = (Duration::ZERO, true);
        let mut refused = None;
        for (placed, done) in tasks.iter().zip(decoded.results) {
            let task = &placed.task;
            self.finish(placed);
            match done {
                Ok(done) => {
                    let elapsed = Duration::from_nanos(done.elapsed_ns);
                    took += elapsed;
                    self.counts().complete(self.share(task));
                    self.split.scheduler.add_busy(elapsed);
                    result.add(task, elapsed, done.output.samples);
                    let output = done.output.begun_at(*begun);
                    self.split.scheduler.complete(task, output);
                }
                Err(why) => {
                    is_complete = false;
                    if !self.retry_later(task) {
                        refused = Some((task, why));
                    }
                }
            }
        }
        if let Some((task, why)) = refused {
            self.complete_with(task, &format!("worker {host}: {why}"));
        }
        self.slots.add_message(tasks.len());
        self.shuffle
            .iter()
            .for_each(|&seed| self.slots.shuffle(seed));
        Ok(BatchAnswer {
            awaited,
            arrived,
            took,
            is_complete,
        })
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
