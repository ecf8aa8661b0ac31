//! A worker thread: runs its own replica of every subgraph on successive tasks.
//!
//! Operators are built once. A break after each portion makes them flush and reset; the next task reuses the memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use isochrony_runtime::WorkerReport;
use isochrony_store::Reading;
use isochrony_store::shard_cache::ShardCacheCounts;

use super::parallel_subgraph::ParallelSubgraph;
use super::reorder::Registration;
use super::replica::Replica;
use super::scan_input::PortionReader;
use super::stages::{StreamBlock, compute_block};
use super::task_output::{Task, TaskFailure, TaskOutput, TaskScheduler};
use crate::engine::pool::OutputPool;
use crate::engine::report::{OperatorReport, PlanWorkerReport, TaskReport};
use crate::engine::{RunOptions, panic_error};
use crate::{OpError, OpErrorKind, RunError};

pub(super) struct WorkerResult {
    number: usize,
    work: WorkerReport,
    samples: u64,
    pub(super) tasks: Vec<((usize, u64), TaskReport)>,
    pub(super) operators: Vec<Option<Vec<OperatorReport>>>,
    pub(super) reads: Vec<Vec<Option<Reading>>>,
    pub(super) remote: Option<RemoteWork>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RemoteWork {
    pub(super) name: String,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) lost: bool,
    /// Sources of what it read, if its host has a cache.
    pub(super) cache: Option<ShardCacheCounts>,
}

impl RemoteWork {
    pub(super) fn add_cache(&mut self, counts: ShardCacheCounts) {
        self.cache = Some(self.cache.unwrap_or_default().and(counts));
    }
}

impl WorkerResult {
    pub(super) fn of_slot(number: usize, name: &str, subgraphs: usize) -> Self {
        Self {
            number,
            work: WorkerReport::default(),
            samples: 0,
            tasks: Vec::new(),
            operators: vec![None; subgraphs],
            reads: Vec::new(),
            remote: Some(RemoteWork {
                name: name.to_owned(),
                ..RemoteWork::default()
            }),
        }
    }

    pub(super) fn remote_mut(&mut self) -> &mut RemoteWork {
        self.remote.get_or_insert_default()
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn add(&mut self, task: &Task, elapsed: Duration, samples: u64) {
        let report = TaskReport {
            range: task.part.range.clone(),
            worker: self.number,
            elapsed,
        };
        self.tasks.push(((task.subgraph, task.number), report));
        self.samples += samples;
        self.work.items += 1;
        self.work.busy += elapsed;
    }

    pub(super) fn end(&mut self, elapsed: Duration) {
        self.work.waited = elapsed.saturating_sub(self.work.busy);
    }

    pub(super) fn summary(&self) -> PlanWorkerReport {
        PlanWorkerReport {
            number: self.number,
            work: self.work,
            samples: self.samples,
            host: self.remote.as_ref().map(|remote| remote.name.clone()),
            sent_bytes: self.remote.as_ref().map_or(0, |remote| remote.sent_bytes),
            received_bytes: self
                .remote
                .as_ref()
                .map_or(0, |remote| remote.received_bytes),
            lost: self.remote.as_ref().is_some_and(|remote| remote.lost),
            cache: self.remote.as_ref().and_then(|remote| remote.cache),
        }
    }
}

pub(super) struct Worker<'a> {
    number: usize,
    subgraphs: &'a [ParallelSubgraph],
    options: &'a RunOptions<'a>,
    replicas: Vec<Option<Replica>>,
    pools: Vec<Option<OutputPool>>,
    earlier: Vec<Option<Vec<OperatorReport>>>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        number: usize,
        subgraphs: &'a [ParallelSubgraph],
        options: &'a RunOptions<'a>,
    ) -> Self {
        Self {
            number,
            subgraphs,
            options,
            replicas: subgraphs.iter().map(|_| None).collect(),
            pools: subgraphs.iter().map(|_| None).collect(),
            earlier: vec![None; subgraphs.len()],
        }
    }

    pub(super) fn work(mut self, scheduler: &TaskScheduler) -> WorkerResult {
        let loss_guard = LossGuard(scheduler);
        let start = Instant::now();
        let mut registration = Registration::default();
        let mut done = WorkerResult {
            number: self.number,
            work: WorkerReport::default(),
            samples: 0,
            tasks: Vec::new(),
            operators: Vec::new(),
            reads: Vec::new(),
            remote: None,
        };
        while let Some(task) = scheduler.next_task(&mut registration, || self.release_memory()) {
            let begun = Instant::now();
            let ran = self.try_task(&task);
            if ran.as_ref().is_err_and(is_short_of_memory) && scheduler.retry_later(&task) {
                done.work.busy += begun.elapsed();
                self.drop_replica(task.subgraph);
                continue;
            }
            let output = self.task_output(&task, ran.err()).begun_at(begun);
            let elapsed = begun.elapsed();
            done.add(&task, elapsed, 0);
            scheduler.add_busy(elapsed);
            scheduler.complete(&task, output);
        }
        done.work.waited = start.elapsed().saturating_sub(done.work.busy);
        std::mem::forget(loss_guard);
        let all = 0..self.subgraphs.len();
        let busy = done.work.busy;
        done.operators = all.map(|at| self.operator_report(at, busy)).collect();
        for (report, subgraph) in done.operators.iter().zip(self.subgraphs) {
            // A subgraph's first operators are its scans.
            let scans = report
                .iter()
                .flat_map(|one| one.iter().take(subgraph.inputs.len()));
            done.samples += scans.map(|scan| scan.samples).sum::<u64>();
        }
        let replicas = self.replicas.iter().map(Option::as_ref);
        let reads = replicas.map(|replica| replica.map_or_else(Vec::new, Replica::readings));
        done.reads = reads.collect();
        // The consumer may wait for this memory: free it before unregistering.
        (self.replicas, self.pools) = (Vec::new(), Vec::new());
        scheduler.unregister(&registration);
        done
    }

    pub(super) fn operator_report(
        &self,
        subgraph: usize,
        busy: Duration,
    ) -> Option<Vec<OperatorReport>> {
        let earlier = self.earlier[subgraph].as_ref();
        let Some(replica) = &self.replicas[subgraph] else {
            return earlier.cloned();
        };
        let mut report = replica.report(busy).operators;
        for (one, earlier) in report.iter_mut().zip(earlier.into_iter().flatten()) {
            one.add(earlier);
        }
        Some(report)
    }

    pub(super) fn execute(&mut self, task: &Task) -> Result<TaskOutput, RunError> {
        match self.try_task(task) {
            Err(error) if is_short_of_memory(&error) => {
                self.drop_replica(task.subgraph);
                self.release_memory();
                Err(error)
            }
            ran => Ok(self.task_output(task, ran.err())),
        }
    }

    /// Fails if memory was refused or the execution interrupted.
    pub(super) fn execute_block(
        &mut self,
        stage: usize,
        number: u64,
        block: StreamBlock,
    ) -> Result<TaskOutput, RunError> {
        let subgraph = &self.subgraphs[stage];
        let replica = match &mut self.replicas[stage] {
            Some(replica) => replica,
            none => {
                let pool = self.pools[stage].take();
                none.insert(Replica::new(subgraph, self.options, pool)?)
            }
        };
        let (exits, error) = compute_block(replica, subgraph, None, number, block);
        let readers = replica.readers.iter();
        let readers = readers.map(|one| one.lock().unwrap_or_else(PoisonError::into_inner));
        let samples = readers.map(|one| one.samples).sum();
        let failure = match error {
            None => None,
            Some(error) => {
                self.drop_replica(stage);
                if is_short_of_memory(&error) || matches!(error, RunError::Interrupted { .. }) {
                    self.release_memory();
                    return Err(error);
                }
                Some(TaskFailure::new(error, 0.0, Vec::new()))
            }
        };
        Ok(TaskOutput::new(exits, samples, failure))
    }

    fn try_task(&mut self, task: &Task) -> Result<(), RunError> {
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_task(task)));
        ran.unwrap_or_else(|panic| Err(self.scan_error(task, 0, panic_error(&*panic))))
    }

    pub(super) fn release_memory(&mut self) {
        for subgraph in 0..self.replicas.len() {
            match &mut self.replicas[subgraph] {
                // Buffers inside operators are freed with the operators.
                Some(replica) if replica.executor.holds_memory() => self.drop_replica(subgraph),
                Some(replica) => replica.executor.release_memory(),
                None => {}
            }
        }
        for pool in self.pools.iter_mut().flatten() {
            pool.shrink(0);
        }
    }

    fn drop_replica(&mut self, subgraph: usize) {
        let Some(replica) = self.replicas[subgraph].take() else {
            return;
        };
        let did = replica.report(Duration::MAX).operators;
        match &mut self.earlier[subgraph] {
            Some(earlier) => earlier.iter_mut().zip(&did).for_each(|(a, b)| a.add(b)),
            none => *none = Some(did),
        }
        let mut pool = replica.executor.into_pool();
        pool.shrink(0);
        self.pools[subgraph] = Some(pool);
    }

    fn scan_error(&self, task: &Task, recording: usize, error: OpError) -> RunError {
        let read = &self.subgraphs[task.subgraph].inputs[recording];
        let start = task.part.range.start;
        RunError::Operator {
            operator: "scan",
            node: read.node,
            time: read.snapshot.time_of(start),
            range: Some(task.part.range.clone()),
            error,
        }
    }

    /// Whole or up to an error. A failed replica is dropped.
    fn task_output(&mut self, task: &Task, error: Option<RunError>) -> TaskOutput {
        let subgraph = &self.subgraphs[task.subgraph];
        let slot = &mut self.replicas[task.subgraph];
        let (exits, samples) = slot.as_mut().map_or((Vec::new(), 0), |replica| {
            let exits = replica.take_outputs(subgraph, task, error.is_none());
            let readers = replica.readers.iter();
            let readers = readers.map(|one| one.lock().unwrap_or_else(PoisonError::into_inner));
            (exits, readers.map(|one| one.samples).sum())
        });
        let failure = error.map(|error| {
            let exits_affected = slot
                .as_ref()
                .map(|replica| replica.affected_exits(subgraph, &error));
            let time = subgraph.failure_time(&error);
            let time = time.unwrap_or_else(|| subgraph.inputs[0].time(task.part.range.start));
            TaskFailure::new(error, time, exits_affected.unwrap_or_default())
        });
        if failure.is_some() {
            self.drop_replica(task.subgraph);
        }
        TaskOutput::new(exits, samples, failure).with_input(&task.part)
    }

    fn run_task(&mut self, task: &Task) -> Result<(), RunError> {
        let subgraph = &self.subgraphs[task.subgraph];
        if let Some(replica) = &self.replicas[task.subgraph] {
            let done = replica.readers.iter();
            done.for_each(|one| one.lock().unwrap_or_else(PoisonError::into_inner).close());
        }
        let read = subgraph.inputs.iter().zip(&task.part.reads).enumerate();
        let readers = read.map(|(at, (recording, read))| {
            let portion = read.portion.as_ref();
            let source = recording.open(task.number, portion);
            let source = source.map_err(|error| self.scan_error(task, at, error))?;
            let range = portion.map_or(&task.part.range, |portion| &portion.range);
            Ok(PortionReader::new(
                source,
                range.clone(),
                recording.overlap,
                read,
            ))
        });
        let readers: Vec<PortionReader> = readers.collect::<Result<_, RunError>>()?;
        let replica = match &mut self.replicas[task.subgraph] {
            Some(replica) => replica,
            none => {
                let pool = self.pools[task.subgraph].take();
                none.insert(Replica::new(subgraph, self.options, pool)?)
            }
        };
        for (own, reader) in replica.readers.iter().zip(readers) {
            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
            own.switch_to(reader);
        }
        replica.run_task(subgraph, task, self.options)
    }
}

fn is_short_of_memory(error: &RunError) -> bool {
    let RunError::Operator { error, .. } = error else {
        return false;
    };
    matches!(
        error.kind(),
        OpErrorKind::MemoryCap { .. } | OpErrorKind::FanInStarved { .. }
    )
}

/// Reports the worker as lost, except after a regular end.
struct LossGuard<'a>(&'a TaskScheduler);

impl Drop for LossGuard<'_> {
    fn drop(&mut self) {
        self.0.report_lost_worker();
    }
}
