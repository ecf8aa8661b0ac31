//! Computes blocks of replicated stages on the slots of a cluster, with a thread for each slot.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use isochrony_runtime::start_worker;

use super::pool::StagePool;
use super::remote_blocks::{BLOCKS_PER_SLOT, RemoteBlocks, TakenBlock};
use super::replicated::ReplicatedStage;
use super::replicated_io::BlockResult;
use crate::engine::panic_error;
use crate::engine::report::Report;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::remote::{
    BlockBatch, RemoteSlot, ResultCodec, SlotError, StreamTable, TaskCluster, block_hash,
};
use crate::scheduler::task_output::ExitOutput;
use crate::scheduler::worker::WorkerResult;
use crate::{Cause, OpErrorKind, RunError};

/// How long to wait for a slot before checking for the end.
const SLOT_WAIT: Duration = Duration::from_millis(50);

pub(super) struct RemoteReplicas<'a> {
    cluster: &'a dyn TaskCluster,
    pool: &'a StagePool,
    blocks: Arc<RemoteBlocks>,
    stages: Vec<&'a ReplicatedStage>,
    subgraphs: Vec<ParallelSubgraph>,
    streams: Vec<StreamTable>,
    hash: u64,
    ended: AtomicBool,
    slots: AtomicUsize,
    results: Mutex<Vec<WorkerResult>>,
    error: Mutex<Option<Cause>>,
    /// Why it asks for no further slots.
    note: Mutex<Option<String>>,
}

impl<'a> RemoteReplicas<'a> {
    /// None if slots compute nothing of the plan.
    pub(super) fn new(cluster: Option<&'a dyn TaskCluster>, pool: &'a StagePool) -> Option<Self> {
        let stages = pool.replicated.iter().map(|stage| &**stage);
        let stages: Vec<_> = stages.filter(|stage| stage.remote.is_some()).collect();
        let blocks = Arc::clone(&stages.first()?.remote.as_ref()?.blocks);
        let subgraphs: Vec<_> = stages.iter().map(|one| one.subgraph().clone()).collect();
        Some(Self {
            cluster: cluster?,
            pool,
            blocks,
            stages,
            streams: subgraphs.iter().map(StreamTable::of).collect(),
            hash: block_hash(&subgraphs),
            subgraphs,
            ended: AtomicBool::new(false),
            slots: AtomicUsize::new(0),
            results: Mutex::default(),
            error: Mutex::default(),
            note: Mutex::default(),
        })
    }

    pub(super) fn serve<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        while !self.ended.load(Ordering::Relaxed) {
            let why: Cause = match self.cluster.next_slot(SLOT_WAIT, false) {
                Ok(Some(slot)) => {
                    let number = self.slots.fetch_add(1, Ordering::Relaxed);
                    let name = slot.name().to_owned();
                    // Blocks wait for it from now on, even before its thread begins.
                    self.set_slots(self.blocks.join());
                    match start_worker(scope, number, None, move || self.drive(slot, number)) {
                        Ok(_) => continue,
                        Err(error) => {
                            self.set_slots(self.blocks.leave(std::iter::empty()));
                            format!("no thread can be started for {name}: {error}").into()
                        }
                    }
                }
                Ok(None) => continue,
                Err(why) => why,
            };
            // Once a worker has taken part, this process computes the rest of a feed.
            return match self.slots.load(Ordering::Relaxed) {
                0 => self.fail(why),
                _ => *lock(&self.note) = Some(why.to_string()),
            };
        }
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.blocks.end();
        self.cluster.stop();
    }

    /// The error is that of the cluster.
    pub(super) fn finish(self, report: &mut Report) -> Result<(), RunError> {
        if let Some(why) = lock(&self.error).take() {
            return Err(failed("scan", 0, why));
        }
        let mut results = std::mem::take(&mut *lock(&self.results));
        results.sort_by_key(WorkerResult::number);
        for result in &results {
            for (stage, reports) in self.stages.iter().zip(&result.operators) {
                for (node, one) in stage.operator_reports(reports.iter().flatten()) {
                    report.operators[node].add(one);
                }
            }
        }
        report.workers = results.iter().map(WorkerResult::summary).collect();
        let note = lock(&self.note).take();
        let note = note.map(|why| {
            format!("the cluster was not asked for further workers after this error: {why}")
        });
        report.places.extend(note);
        Ok(())
    }

    fn fail(&self, why: Cause) {
        lock(&self.error).get_or_insert(why);
        self.pool.stop();
    }

    fn notify(&self) {
        self.stages.iter().for_each(|stage| stage.notify());
    }

    fn set_slots(&self, slots: usize) {
        self.stages.iter().for_each(|stage| stage.set_slots(slots));
        self.notify();
    }

    fn drive(&self, slot: Box<dyn RemoteSlot>, number: usize) {
        let drive = AssertUnwindSafe(|| self.drive_slot(slot, number));
        if let Err(panic) = catch_unwind(drive) {
            self.fail(panic_error(&*panic).to_string().into());
        }
    }

    fn drive_slot(&self, mut slot: Box<dyn RemoteSlot>, number: usize) {
        let begun = Instant::now();
        let mut result = WorkerResult::of_slot(number, slot.name(), self.subgraphs.len());
        let mut sent = VecDeque::<TakenBlock>::new();
        let ended = loop {
            if let ControlFlow::Break(error) = self.exchange(&mut *slot, &mut sent, &mut result) {
                break error;
            }
        };
        let mut lost = Vec::new();
        match ended {
            // Nothing of them was given to anybody.
            SlotError::Lost => {
                result.remote_mut().lost = true;
                lost.extend(sent.drain(..));
            }
            SlotError::Failed(why) => {
                let mut why = Some(why);
                for block in sent.drain(..) {
                    // The run ends with the oldest of these errors.
                    let own = why.take().unwrap_or_else(|| "its worker has failed".into());
                    let stage = self.stages[block.placed.stage];
                    let error = stage.in_plan(failed("scan", 0, own));
                    self.complete(&block, Vec::new(), Some(error));
                }
            }
            SlotError::Stopped => {}
        }
        self.set_slots(self.blocks.leave(lost.into_iter()));
        result.end(begun.elapsed());
        lock(&self.results).push(result);
    }

    /// Keeps [`BLOCKS_PER_SLOT`] blocks in flight, and completes the oldest.
    fn exchange(
        &self,
        slot: &mut dyn RemoteSlot,
        sent: &mut VecDeque<TakenBlock>,
        result: &mut WorkerResult,
    ) -> ControlFlow<SlotError> {
        while sent.len() < BLOCKS_PER_SLOT
            && let Some(block) = self.blocks.next(sent.is_empty())
        {
            let request =
                BlockBatch::encode(self.hash, &self.subgraphs, &self.streams, &block.placed);
            let Ok(request) = request else {
                self.keep(block);
                continue;
            };
            result.remote_mut().sent_bytes += request.len() as u64;
            let request = slot.send(&request);
            sent.push_back(block);
            if let Err(error) = request {
                return ControlFlow::Break(error);
            }
        }
        let Some(block) = sent.front() else {
            // Nothing follows.
            return ControlFlow::Break(SlotError::Stopped);
        };
        let task = block
            .placed
            .block
            .task(block.placed.stage, block.placed.number);
        let answer = match slot.receive() {
            Ok(answer) => answer,
            Err(error) => return ControlFlow::Break(error),
        };
        let host = slot.name();
        let codec = ResultCodec {
            subgraphs: &self.subgraphs,
            streams: &self.streams,
            causes: self.cluster.causes(),
        };
        let decoded = match codec.decode(&[&task], &answer, host) {
            Ok(decoded) => decoded,
            Err(error) => {
                let why = format!("the answer of worker {host} cannot be read: {error}");
                return ControlFlow::Break(SlotError::Failed(why.into()));
            }
        };
        result.remote_mut().received_bytes += answer.len() as u64;
        for (stage, reports) in decoded.operators {
            result.operators[stage] = Some(reports);
        }
        let Some(block) = sent.pop_front() else {
            return ControlFlow::Continue(());
        };
        match decoded.results.into_iter().next() {
            Some(Ok(done)) => {
                let elapsed = Duration::from_nanos(done.elapsed_ns);
                result.add(&task, elapsed, done.output.samples);
                let (exits, failure) = done.output.into_parts();
                let stage = self.stages[block.placed.stage];
                let error = failure.map(|failure| stage.in_plan(stage.with_time(*failure.error)));
                self.complete(&block, exits, error);
            }
            // Its worker is short of memory.
            _ => self.keep(block),
        }
        ControlFlow::Continue(())
    }

    fn complete(&self, block: &TakenBlock, exits: Vec<ExitOutput>, error: Option<RunError>) {
        let result = BlockResult::Results {
            exits,
            input: block.input,
            error,
        };
        self.stages[block.placed.stage].complete(block.placed.number, result);
        self.blocks.complete();
        self.notify();
    }

    fn keep(&self, block: TakenBlock) {
        self.blocks.keep(block);
        self.notify();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(operator: &'static str, node: usize, why: Cause) -> RunError {
    RunError::Operator {
        operator,
        node,
        range: None,
        time: None,
        error: OpErrorKind::Failed(why).into(),
    }
}
