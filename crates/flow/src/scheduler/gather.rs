//! Feeds workers' results to the sequential part: a source per exit, and an operator that combines partial results.
//!
//! Exits of a subgraph are emptied task by task, in order: at most one task's results wait here, and the order does not
//! depend on which source is asked first.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use isochrony_store::Signal;
use serde_json::{Map, Value};

use super::boundary::RangeAnnouncer;
use super::parallel_subgraph::ParallelSubgraph;
use super::task_output::{
    ExitOutput, ExitState, NextOutput, TaskFailure, TaskOutput, TaskScheduler,
};
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::{
    Clock, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory, OperatorProperties, Out,
    OuterGaps, PlanError, Port, PortType, Recording, RunError, SharedRecording, SignalDescription,
    Snapshot, Source, SourceEvent,
};

#[derive(Clone)]
pub(super) struct ExitQueues {
    scheduler: Arc<TaskScheduler>,
    subgraph: usize,
    exits: Arc<Mutex<Vec<ExitQueue>>>,
    end: Arc<AtomicI64>,
    /// With a `limit` sources are asked block by block, and exits are not emptied in order.
    by_block: bool,
    failed: Arc<AtomicBool>,
}

struct ExitQueue {
    ready: VecDeque<SourceEvent>,
    state: ExitState,
    /// Events of a failed task that were delivered; a retry skips them.
    delivered: usize,
    ranges: RangeAnnouncer,
    abandoned: bool,
    /// When the task began whose results are the first ones here.
    begun: Option<Instant>,
}

impl ExitQueues {
    pub(super) fn new(
        scheduler: &Arc<TaskScheduler>,
        at: usize,
        subgraph: &ParallelSubgraph,
    ) -> Self {
        let exits = subgraph.exit_states.iter().map(|state| ExitQueue {
            ready: VecDeque::new(),
            state: state.clone(),
            delivered: 0,
            ranges: RangeAnnouncer::default(),
            abandoned: false,
            begun: None,
        });
        let exits = exits.collect();
        Self {
            scheduler: scheduler.clone(),
            subgraph: at,
            exits: Arc::new(Mutex::new(exits)),
            end: Arc::new(AtomicI64::new(i64::MIN)),
            by_block: subgraph.by_block,
            failed: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ExitQueue>> {
        self.exits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task's samples count for the source that fetches its output.
    fn pull(&self, exit: usize, given: &mut u64) -> Result<SourceEvent, Option<TaskFailure>> {
        loop {
            let mut exits = self.lock();
            // The first exit with events: the order does not depend on the caller.
            let first = exits.iter().position(|exit| !exit.ready.is_empty());
            if (self.by_block || first == Some(exit))
                && let Some(ready) = exits[exit].ready.pop_front()
            {
                return Ok(ready);
            }
            if first.is_some() {
                // That source may have had nothing when asked: make the engine ask again.
                self.scheduler.wake_consumer();
                return Ok(SourceEvent::Idle);
            }
            drop(exits);
            match self.scheduler.next_result(self.subgraph) {
                NextOutput::Ready(task_output) => {
                    if !task_output.failed {
                        *given += task_output.samples;
                        self.scheduler.add_consumed(task_output.samples);
                    }
                    self.put(task_output);
                }
                NextOutput::Pending => return Ok(SourceEvent::Idle),
                NextOutput::Failed(failure) => return Err(failure),
                NextOutput::End => return Ok(SourceEvent::End),
            }
        }
    }

    /// Also counts a failed task's output, since a retry gives it again.
    fn put(&self, task_output: TaskOutput) {
        let failed = task_output.failed;
        let mut exits = self.lock();
        let end = match failed {
            true => task_output.range.start,
            false => task_output.range.end,
        };
        let rewinds = task_output.range.start < self.end.swap(end, Ordering::Relaxed);
        for (exit, ExitOutput { events, upto }) in exits.iter_mut().zip(task_output.exits) {
            let before = std::mem::take(&mut exit.delivered);
            if failed {
                exit.delivered = before.max(events.len());
            }
            if exit.state.is_closed() || exit.abandoned {
                continue;
            }
            if exit.ready.is_empty() {
                exit.begun = task_output.begun;
            }
            if rewinds {
                exit.ranges = RangeAnnouncer::default();
                exit.ready.push_back(SourceEvent::Rewind);
            }
            let ready = &mut exit.ready;
            let give = |event| ready.push_back(event);
            exit.ranges.announce(events, before, give);
            exit.ready.extend(upto.map(SourceEvent::ProgressMark));
        }
    }
}

pub(super) struct ExitRecording {
    pub(super) queues: ExitQueues,
    pub(super) exit: usize,
    pub(super) port: PortType,
    pub(super) reads: SharedRecording,
    pub(super) snapshot: Arc<dyn Snapshot>,
    pub(super) total: u64,
    pub(super) expects: Option<u64>,
    /// Samples were changed, or only a range is read.
    pub(super) is_processed: bool,
}

impl Recording for ExitRecording {
    fn port(&self) -> PortType {
        self.port
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(ExitSource {
            queues: self.queues.clone(),
            exit: self.exit,
            snapshot: self.snapshot.clone(),
            total: self.total,
            expects: self.expects,
            given: 0,
            failure: None,
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.reads.clock()
    }

    fn registers_clock(&self) -> bool {
        false
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        self.reads.saved()
    }

    fn description(&self) -> Option<SignalDescription> {
        let own = (!self.is_processed).then_some(&self.reads);
        own.and_then(SharedRecording::description)
    }

    fn outer_gaps(&self) -> OuterGaps {
        let own = (!self.is_processed).then_some(&self.reads);
        own.map_or_else(OuterGaps::default, SharedRecording::outer_gaps)
    }

    fn knows_all_times(&self) -> bool {
        self.reads.knows_all_times()
    }

    fn gives_own_samples(&self) -> bool {
        !self.is_processed && self.reads.0.gives_own_samples()
    }

    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        self.reads.0.stored()
    }
}

struct ExitSource {
    queues: ExitQueues,
    exit: usize,
    snapshot: Arc<dyn Snapshot>,
    total: u64,
    expects: Option<u64>,
    given: u64,
    /// Replaces the error of pulling.
    failure: Option<TaskFailure>,
}

impl Source for ExitSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let pulled = self.queues.pull(self.exit, &mut self.given);
        pulled.map_err(|failure| {
            self.failure = failure;
            OpErrorKind::Interrupted.into()
        })
    }

    fn arrival(&self, _: Instant) -> Option<Instant> {
        self.queues.lock()[self.exit].begun
    }

    fn close(&mut self) {
        let mut exits = self.queues.lock();
        // All sources are closed; other tasks' errors must stay relevant.
        if !self.queues.failed.load(Ordering::Relaxed) {
            exits[self.exit].state.close();
        }
        exits[self.exit].abandoned = true;
        exits[self.exit].ready.clear();
    }

    fn continues_after_failure(&mut self) -> bool {
        self.queues.failed.store(true, Ordering::Relaxed);
        true
    }

    fn is_awaited(&self) -> bool {
        let exits = self.queues.lock();
        let first = exits.iter().position(|exit| !exit.ready.is_empty());
        // In order, only the first exit may fetch output for another.
        first.is_none_or(|first| !self.queues.by_block && first == self.exit)
    }

    fn failure(&mut self) -> Option<(f64, RunError)> {
        let failure = self.failure.take()?;
        Some((failure.time, *failure.error))
    }

    fn time_of(&self, index: i64) -> Option<String> {
        self.snapshot.time_of(index)
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.queues.scheduler.set_consumer(waker);
    }

    fn total(&self) -> Option<u64> {
        // Counted once for all exits.
        Some(if self.exit == 0 { self.total } else { 0 })
    }

    fn delivered(&self) -> Option<u64> {
        Some(self.given)
    }

    fn expected_samples(&self) -> Option<u64> {
        self.expects
    }

    fn overlaps(&self) -> bool {
        true
    }
}

/// Replaces a reducing operator: combines partial results in read order.
pub(super) struct PartialCombinerFactory(pub(super) Op);

impl OperatorFactory for PartialCombinerFactory {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn make(&self, reads: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        self.make_for(reads, &RunOptions::default())
    }

    fn make_for(
        &self,
        reads: Option<&SharedRecording>,
        run: &RunOptions<'_>,
    ) -> Result<Box<dyn Operator>, PlanError> {
        match self.0.make(reads, run) {
            Some(made) => Ok(Box::new(PartialCombiner(made?))),
            None => Err(PlanError::Inputs {
                operator: self.0.name(),
                expected: "1".into(),
                got: 0,
            }),
        }
    }
}

struct PartialCombiner(Box<dyn Operator>);

impl Operator for PartialCombiner {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        self.0.bind(inputs)
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let Item::Partial(partial) = item else {
            return Err(OpErrorKind::WrongItem {
                expected: "a partial result",
                got: item.kind(),
            }
            .into());
        };
        self.0.combine(partial)?;
        Ok(Next::Consumed)
    }

    fn finish(&mut self, port: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.0.finish(port, out)
    }

    fn progress(&mut self, port: Port, upto: i64) -> i64 {
        self.0.progress(port, upto)
    }

    fn result(&mut self) -> Option<crate::PlanOutput> {
        self.0.result()
    }
}
