//! Executes stages, a burst at a time, in the caller's thread and in helpers.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Wake;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use isochrony_runtime::{Progress, Watch};

use super::active_threads::ActiveThreads;
use super::drain::Drain;
use super::link_writer::{RoomMaker, StageFailure, StageLink, lock};
use super::replicated::{ReplicatedStage, StageReplica};
use super::stage_graph::StageGraph;
use super::stage_helpers::StageHelpers;
use super::stage_queue::{Notice, StageOutcome, StageQueue, StageSet, ThreadRole};
use super::thread_use::cpu_time;
use crate::RunError;
use crate::engine::budget::{ExecutionMemory, MemoryReclaimer};
use crate::engine::report::{LinkReport, StageReport};
use crate::engine::tuning::RunningPlan;
use crate::engine::{Burst, PlanExecutor, RunOptions, panic_error};
use crate::plan::graph::Graph;

pub(super) struct Stage {
    work: Mutex<StageWork>,
    /// Number of the stage and of the replica; None if it does nothing.
    name: Option<(usize, Option<usize>)>,
    /// The stages it depends on, itself included.
    ancestors: StageSet,
    /// Stages that its thread must not execute meanwhile.
    excluded: AtomicU64,
    counts: StageCounts,
}

#[derive(Default)]
struct StageCounts {
    bursts: AtomicU64,
    items: AtomicU64,
    bytes: AtomicU64,
    /// Of measured bursts.
    cpu_ns: AtomicU64,
    elapsed_ns: AtomicU64,
}

/// Reading it is slow: one burst in so many is measured.
const CPU_TIME_EVERY: u64 = 8;

impl StageCounts {
    fn count<T>(&self, measures: bool, burst: impl FnOnce() -> T) -> T {
        let nth = self.bursts.fetch_add(1, Ordering::Relaxed);
        if !measures || !nth.is_multiple_of(CPU_TIME_EVERY) {
            return burst();
        }
        let (begun, before) = (Instant::now(), cpu_time());
        let ran = burst();
        let cpu = cpu_time()
            .zip(before)
            .map_or(Duration::ZERO, |(now, before)| now.saturating_sub(before));
        let add = |to: &AtomicU64, time: Duration| {
            to.fetch_add(time.as_nanos() as u64, Ordering::Relaxed)
        };
        add(&self.cpu_ns, cpu);
        add(&self.elapsed_ns, begun.elapsed());
        ran
    }

    fn cpu(&self, busy: Duration) -> Duration {
        let elapsed = self.elapsed_ns.load(Ordering::Relaxed).max(1);
        let part = self.cpu_ns.load(Ordering::Relaxed) as f64 / elapsed as f64;
        busy.mul_f64(part.min(1.0))
    }
}

/// Between two looks at whether all is delivered after an interrupt.
const DRAIN_WAIT: Duration = Duration::from_micros(200);

pub(super) enum StageWork {
    Whole(Box<WholeStage>),
    Replica(Box<StageReplica>),
    /// Helps a whole stage; its number from 0.
    Helper(Arc<StageHelpers>, usize),
    Unused,
}

impl StageWork {
    /// Items and bytes so far.
    fn given(&self) -> (u64, u64) {
        match self {
            Self::Whole(stage) => stage.executor.given(),
            Self::Replica(replica) => replica.given(),
            // What it gets are parts of calls.
            Self::Helper(helpers, number) => (helpers.parts(*number), 0),
            Self::Unused => (0, 0),
        }
    }
}

pub(super) struct WholeStage {
    pub(super) number: usize,
    pub(super) graph: StageGraph,
    pub(super) executor: PlanExecutor,
    pub(super) delivered: Arc<Progress>,
    pub(super) has_helpers: bool,
    pub(super) error: Option<RunError>,
}

impl Stage {
    pub(super) fn new(work: StageWork, ancestors: StageSet) -> Self {
        let name = match &work {
            StageWork::Whole(stage) => Some((stage.number, stage.has_helpers.then_some(0))),
            StageWork::Replica(replica) => Some((replica.stage().number, Some(replica.number()))),
            StageWork::Helper(helpers, number) => Some((helpers.stage, Some(number + 1))),
            StageWork::Unused => None,
        };
        Self {
            work: Mutex::new(work),
            name,
            ancestors,
            excluded: AtomicU64::new(0),
            counts: StageCounts::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, StageWork> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn into_work(self) -> StageWork {
        let work = self.work.into_inner();
        work.unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct StagePool {
    pub(super) stages: Vec<Stage>,
    pub(super) queue: Arc<StageQueue>,
    /// By thread, the caller's first: preferred stages; see `homes`.
    pub(super) homes: Vec<StageSet>,
    pub(super) links: Vec<Arc<StageLink>>,
    pub(super) replicated: Vec<Arc<ReplicatedStage>>,
    pub(super) helpers: Vec<Arc<StageHelpers>>,
    pub(super) memory: Arc<ExecutionMemory>,
    pub(super) plan: Graph,
    pub(super) operators: Vec<Vec<usize>>,
    pub(super) threads: ActiveThreads,
    pub(super) max_link_bytes: u64,
    pub(super) begun: Instant,
    pub(super) measures: bool,
    pub(super) drain: Arc<Drain>,
    /// Does nothing in other threads than the caller's.
    pub(super) watch: Option<Watch>,
    pub(super) caller: ThreadId,
    /// Samples that have reached the last stage, and all expected.
    pub(super) delivered: Arc<Progress>,
    pub(super) total: Option<u64>,
}

impl StagePool {
    pub(super) fn stage_reports(&self) -> Vec<StageReport> {
        let stages = self.stages.iter().enumerate();
        let reports = stages.filter_map(|(entry, stage)| {
            let (number, replica) = stage.name?;
            let time = self.queue.time(entry);
            Some(StageReport {
                number,
                replica,
                operators: self.operators[number].clone(),
                items: stage.counts.items.load(Ordering::Relaxed),
                bytes: stage.counts.bytes.load(Ordering::Relaxed),
                time,
                cpu: stage.counts.cpu(time.busy),
            })
        });
        reports.collect()
    }

    pub(super) fn link_reports(&self, stages: &[StageReport]) -> Vec<LinkReport> {
        let got = |number: usize| {
            let stages = stages.iter().filter(|stage| stage.number == number);
            stages.map(|stage| stage.bytes).sum()
        };
        let links = self.links.iter();
        links.map(|link| link.report(got(link.from))).collect()
    }

    /// `after_burst` is given since when this thread has not waited.
    pub(super) fn run_caller(&self, mut after_burst: impl FnMut(Instant)) {
        let mut watch = self.watch.as_ref().map(Watch::start);
        let last = self.stages.len() - 1;
        let home = self.home(0);
        let mut busy_since = Instant::now();
        while !self.queue.is_stopped() {
            self.queue.leave_to_helpers();
            match self.queue.take(ThreadRole::Caller, 0, home) {
                Some(stage) => self.execute(stage, 0),
                None => {
                    if let Some(watch) = watch.as_mut().filter(|watch| watch.is_due()) {
                        // It asks for the end.
                        let _ = watch.poll();
                    }
                    match self.drain.is_asked() {
                        true => self.wait_drained(last),
                        false => self.queue.wait(ThreadRole::Caller),
                    }
                    busy_since = Instant::now();
                }
            }
            after_burst(busy_since);
        }
    }

    /// Interrupted: waits a moment for the others, and ends the execution once they have nothing left, or time is up.
    fn wait_drained(&self, last: usize) {
        if !self.drain.poll() || self.queue.is_quiet() {
            self.drain.ends.request();
            // It ends the execution.
            self.queue.notify(last, Notice::Input);
        }
        std::thread::sleep(DRAIN_WAIT);
    }

    pub(super) fn run_helper(&self, thread: usize) {
        let home = self.home(thread);
        self.queue.add_helper();
        let ends = StopOnPanic(self);
        while !self.queue.is_stopped() {
            if !self.threads.is_active(thread) {
                // A notice that it was woken for is for another thread.
                self.queue.remove_helper();
                self.queue.wake_all();
                self.threads.wait_until_active(thread);
                self.queue.add_helper();
                continue;
            }
            match self.queue.take(ThreadRole::Helper, 0, home) {
                Some(stage) => self.execute(stage, 0),
                None => self.queue.wait(ThreadRole::Helper),
            }
        }
        drop(ends);
        self.queue.remove_helper();
    }

    fn home(&self, thread: usize) -> StageSet {
        self.homes.get(thread).copied().unwrap_or(0)
    }

    pub(super) fn shuffle(&self, state: &mut u64) {
        // Linear congruential generator; upper bits are better.
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let random = (*state >> 33) as usize;
        if let Some(link) = self.links.get(random % self.links.len().max(1)) {
            link.set_capacity(1 << (random / 7 % 21));
        }
        if let Some(stage) = self
            .replicated
            .get(random / 3 % self.replicated.len().max(1))
        {
            stage.set_replicas(random / 11 + 1);
        }
        if let Some(one) = (self.helpers).get(random / 5 % self.helpers.len().max(1)) {
            one.set_replicas(random / 17 % one.max_replicas() + 1);
        }
        self.set_workers(random / 13 % self.threads.most() + 1);
    }

    pub(super) fn stop(&self) {
        self.drain.ends.request();
        self.queue.stop();
        self.threads.stop();
    }

    fn execute(&self, number: usize, excluded: StageSet) {
        let stage = &self.stages[number];
        stage.excluded.store(excluded, Ordering::Relaxed);
        let mut work = stage.lock();
        let outcome = stage.counts.count(self.measures, || match &mut *work {
            StageWork::Whole(stage) => self.burst(stage),
            StageWork::Replica(replica) => {
                let (outcome, interrupted) = replica.burst();
                if interrupted {
                    self.drain.ends.request();
                }
                outcome
            }
            StageWork::Helper(helpers, number) => helpers.help(*number),
            StageWork::Unused => StageOutcome::Ended,
        });
        let (items, bytes) = work.given();
        drop(work);
        stage.counts.items.store(items, Ordering::Relaxed);
        stage.counts.bytes.store(bytes, Ordering::Relaxed);
        if outcome == StageOutcome::Ended && number + 1 == self.stages.len() {
            self.stop();
        }
        self.queue.put_back(number, outcome);
    }

    fn burst(&self, stage: &mut WholeStage) -> StageOutcome {
        if !stage.has_room() {
            return StageOutcome::Full;
        }
        let options = RunOptions {
            progress: Some(&stage.delivered),
            ..RunOptions::default()
        };
        let executor = &mut stage.executor;
        // Operators' panics are errors already.
        let ran = catch_unwind(AssertUnwindSafe(|| executor.run_burst(&options)));
        let ran = ran.unwrap_or_else(|panic| Err(stage.panic_error(&*panic)));
        stage.send_all();
        match ran {
            Ok(Burst::Ran) if stage.has_room() => StageOutcome::Ran,
            Ok(Burst::Ran) => StageOutcome::Full,
            Ok(Burst::Idle) => StageOutcome::Idle,
            Ok(Burst::Ended) => {
                stage.end_all(None);
                StageOutcome::Ended
            }
            Err(error) => {
                match error {
                    // It must not take this for the end of its input.
                    RunError::Interrupted { .. } => self.drain.ends.request(),
                    _ => stage.end_all(Some(StageFailure::of(&self.plan, stage.number, &error))),
                }
                stage.error = Some(error);
                StageOutcome::Ended
            }
        }
    }

    /// Executes other stages, in the middle of a burst, until a link has room.
    fn make_room(&self, link: &StageLink) {
        let worker = self.this_worker();
        // Replicas send whole blocks, so they are never in the middle of a burst.
        let number = link.writers.start;
        let stage = &self.stages[number];
        // What it depends on would wait for room in vain.
        let excluded = stage.excluded.load(Ordering::Relaxed) | stage.ancestors;
        let has_room = || !link.link.is_full() || self.drain.ends.is_requested();
        self.queue.suspend(number);
        while !has_room() && self.queue.wait_suspended(worker, excluded, has_room) {
            if let Some(next) = self.queue.take(worker, excluded, 0) {
                self.execute(next, excluded);
            } else if self.queue.is_stopped() {
                break;
            } else if worker == ThreadRole::Caller
                && self.watch.as_ref().is_some_and(|watch| !watch.poll())
            {
                self.drain.ends.request();
            }
        }
        self.queue.resume(number);
    }

    fn this_worker(&self) -> ThreadRole {
        match std::thread::current().id() == self.caller {
            true => ThreadRole::Caller,
            false => ThreadRole::Helper,
        }
    }
}

/// Ends the execution: nobody waits for a stage that is not put back.
struct StopOnPanic<'a>(&'a StagePool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

impl WholeStage {
    fn has_room(&self) -> bool {
        let mut writers = self.graph.writers.iter();
        let links = writers.all(|writer| !lock(writer).link.link.is_full());
        links && self.executor.taps_have_room()
    }

    fn send_all(&mut self) {
        for writer in &self.graph.writers {
            let mut writer = lock(writer);
            writer.arrived = self.executor.arrived();
            writer.send();
            let nodes = (0..).zip(&writer.nodes);
            let closed = nodes.filter(|&(port, _)| writer.link.is_closed(port));
            self.executor.end_nodes(closed.map(|(_, &node)| node));
        }
    }

    /// It has ended, with or without error.
    fn end_all(&self, failure: Option<StageFailure>) {
        for writer in &self.graph.writers {
            lock(writer).end(failure.clone());
        }
    }

    fn panic_error(&self, panic: &(dyn std::any::Any + Send)) -> RunError {
        let (operator, node) = self.graph.graph.plan_node(0);
        RunError::Operator {
            operator,
            node,
            range: None,
            time: None,
            error: panic_error(panic),
        }
    }
}

/// Set once, for what exists before the pool.
#[derive(Clone, Default)]
pub(super) struct PoolRef(Arc<OnceLock<Weak<StagePool>>>);

impl PoolRef {
    pub(super) fn set(&self, pool: &Arc<StagePool>) {
        let _ = self.0.set(Arc::downgrade(pool));
    }

    fn get(&self) -> Option<Arc<StagePool>> {
        self.0.get()?.upgrade()
    }
}

impl RoomMaker for PoolRef {
    fn make_room(&self, link: &StageLink) {
        if let Some(pool) = self.get() {
            pool.make_room(link);
        }
    }
}

/// Gives one thread the memory of all: the others stop, and links count no more.
impl MemoryReclaimer for PoolRef {
    fn reclaim(&self) {
        let Some(pool) = self.get() else {
            return;
        };
        pool.queue.pause();
        for stage in &pool.stages {
            // Others are in the middle of a burst.
            match stage.work.try_lock().as_deref_mut() {
                Ok(StageWork::Whole(stage)) => stage.executor.release_memory(),
                Ok(StageWork::Replica(replica)) => replica.release_memory(),
                Ok(StageWork::Helper(..) | StageWork::Unused) | Err(_) => {}
            }
        }
        // One thread would hold none of it.
        let links = pool.links.iter().map(|link| link.bytes());
        let blocks = pool.replicated.iter().map(|stage| stage.bytes());
        pool.memory.set_overdraft(links.chain(blocks).sum());
    }

    fn resume(&self) {
        if let Some(pool) = self.get() {
            pool.memory.set_overdraft(0);
            pool.queue.end_pause();
        }
    }
}

/// Wakes a stage whose source has something, or whose branches have room.
pub(super) struct StageWaker {
    pub(super) queue: Arc<StageQueue>,
    pub(super) stage: usize,
    pub(super) notice: Notice,
}

impl Wake for StageWaker {
    fn wake(self: Arc<Self>) {
        self.queue.notify(self.stage, self.notice);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.notify(self.stage, self.notice);
    }
}

/// By queue entry: those it depends on, itself included.
pub(super) fn ancestors(links: &[Arc<StageLink>], entries: &[Range<usize>]) -> Vec<StageSet> {
    let bits = |entries: &Range<usize>| entries.clone().fold(0, |all, entry| all | 1 << entry);
    let mut all: Vec<StageSet> = entries.iter().map(bits).collect();
    // Links lead to later stages only.
    for stage in 0..all.len() {
        for link in links.iter().filter(|link| link.to == stage) {
            all[stage] |= all[link.from];
        }
    }
    let of_entries = all.iter().zip(entries);
    let of_entries = of_entries.flat_map(|(&all, entries)| entries.clone().map(move |_| all));
    of_entries.collect()
}
