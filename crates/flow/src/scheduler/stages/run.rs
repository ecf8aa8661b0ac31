//! Executes a plan in stages: a thread for each but the last, which the caller's thread executes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use isochrony_runtime::{CoreLimit, CoreUser, Interrupt, Progress};

use super::link_writer::{SharedWriter, StageFailure, StageLink, lock};
use super::stage_graph::{StageGraph, links};
use super::stage_plan::StagePlan;
use crate::engine::budget::{ExecutionMemory, MemoryHandle, MemoryReclaimer};
use crate::engine::report::{OperatorReport, Report, StageReport};
use crate::engine::time_axis::ErrorRank;
use crate::engine::{IdleWork, PlanExecutor, RunOptions, is_operator_error, panic_error};
use crate::plan::graph::Graph;
use crate::scheduler::parallel::{ParallelExecution, no_thread};
use crate::scheduler::task_contract::placements;
use crate::{OpErrorKind, RunError};

/// Lets one thread of the execution have the memory of all: the others stop, and what is in links counts no more.
struct StageReclaimer {
    core: Arc<CoreUser>,
    memory: Arc<ExecutionMemory>,
    links: Vec<Arc<StageLink>>,
}

impl MemoryReclaimer for StageReclaimer {
    fn reclaim(&self) {
        self.core.pause();
        // One thread would hold none of it.
        let links = self.links.iter().map(|link| link.link.bytes());
        self.memory.set_overdraft(links.sum());
    }

    fn resume(&self) {
        self.memory.set_overdraft(0);
        self.core.resume();
    }
}

/// One stage, ready to run.
struct StageThread {
    number: usize,
    graph: StageGraph,
    executor: PlanExecutor,
    core: Arc<CoreUser>,
    delivered: Arc<Progress>,
    memory: MemoryHandle,
}

/// What a stage leaves.
struct StageResult {
    executor: PlanExecutor,
    graph: StageGraph,
    report: Report,
    core: Arc<CoreUser>,
    error: Option<RunError>,
}

impl StageThread {
    fn run(mut self, plan: &Graph, options: &RunOptions<'_>) -> StageResult {
        let begun = Instant::now();
        let is_last = self.graph.writers.is_empty();
        let options = RunOptions {
            shared_memory: Some(&self.memory),
            core: Some(&self.core),
            progress: match is_last {
                true => options.progress,
                false => Some(&self.delivered),
            },
            ..*options
        };
        let (core, writers) = (Arc::clone(&self.core), &self.graph.writers);
        let executor = &mut self.executor;
        let ran = catch_unwind(AssertUnwindSafe(|| {
            core.inside(|| {
                let ran = executor.run_with(&options, |executor| {
                    send_all(writers, executor);
                    core.checkpoint(|| executor.release_memory());
                });
                end_all(writers, plan, self.number, ran.as_ref().err());
                ran
            })
        }));
        let ran = ran.unwrap_or_else(|panic| match is_last {
            true => resume_unwind(panic),
            false => Err(self.lost(&*panic)),
        });
        let report = self.executor.report(begun.elapsed());
        StageResult {
            report,
            error: ran.err(),
            executor: self.executor,
            graph: self.graph,
            core: self.core,
        }
    }

    /// The error of a stage whose thread panicked outside of operators.
    fn lost(&self, panic: &(dyn std::any::Any + Send)) -> RunError {
        let (operator, node) = self.graph.graph.plan_node(0);
        let failure = StageFailure {
            stage: self.number,
            time: f64::INFINITY,
            node,
            is_operator_error: true,
        };
        for writer in &self.graph.writers {
            lock(writer).end(Some(failure.clone()));
        }
        RunError::Operator {
            operator,
            node,
            range: None,
            time: None,
            error: panic_error(panic),
        }
    }
}

/// Sends what a burst gave, and ends what nobody reads any more.
fn send_all(writers: &[SharedWriter], executor: &mut PlanExecutor) {
    for writer in writers {
        let mut writer = lock(writer);
        writer.send();
        let nodes = (0..).zip(&writer.nodes);
        let closed = nodes.filter(|&(port, _)| writer.link.is_closed(port));
        executor.end_nodes(closed.map(|(_, &node)| node));
    }
}

/// Ends the links of a stage that has ended, with an error or without.
fn end_all(writers: &[SharedWriter], plan: &Graph, stage: usize, error: Option<&RunError>) {
    let failure = error.and_then(|error| stage_failure(plan, stage, error));
    for writer in writers {
        lock(writer).end(failure.clone());
    }
}

/// The stage of sources that call Python: the caller's thread executes a burst of it when it would have to wait.
struct CallerSources<'a> {
    stage: Mutex<StageThread>,
    error: Mutex<Option<RunError>>,
    has_ended: AtomicBool,
    core: Arc<CoreUser>,
    plan: &'a Graph,
    options: RunOptions<'a>,
}

impl<'a> CallerSources<'a> {
    fn new(
        mut stage: StageThread,
        core: &Arc<CoreUser>,
        plan: &'a Graph,
        options: &RunOptions<'a>,
    ) -> Self {
        let caller = std::thread::current();
        for writer in &stage.graph.writers {
            let caller = caller.clone();
            let link = &lock(writer).link.link;
            link.trust_writer(Arc::new(move || caller.unpark()));
        }
        stage.executor.set_wakers();
        Self {
            stage: Mutex::new(stage),
            error: Mutex::new(None),
            has_ended: AtomicBool::new(false),
            core: Arc::clone(core),
            plan,
            options: *options,
        }
    }

    /// Executes a burst if there is room for what it gives; false if there is not, or nothing is left.
    fn burst(&self) -> bool {
        if self.has_ended.load(Ordering::Relaxed) {
            return false;
        }
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let writers = &stage.graph.writers;
        if !writers
            .iter()
            .all(|writer| lock(writer).link.link.has_room())
        {
            return false;
        }
        let own = Arc::clone(&stage.core);
        self.core.lend(&own, || self.run(&mut stage));
        true
    }

    fn run(&self, stage: &mut StageThread) {
        let StageThread {
            executor,
            graph,
            memory,
            delivered,
            number,
            ..
        } = stage;
        let options = RunOptions {
            shared_memory: Some(memory),
            progress: Some(delivered),
            ..self.options
        };
        let ran = executor.run_burst(&options);
        send_all(&graph.writers, executor);
        if !matches!(ran, Ok(true)) {
            self.has_ended.store(true, Ordering::Relaxed);
            end_all(&graph.writers, self.plan, *number, ran.as_ref().err());
        }
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = ran.err();
    }

    fn into_result(self, begun: Instant) -> StageResult {
        let stage = self.stage.into_inner();
        let stage = stage.unwrap_or_else(PoisonError::into_inner);
        let error = self.error.into_inner();
        StageResult {
            report: stage.executor.report(begun.elapsed()),
            error: error.unwrap_or_else(PoisonError::into_inner),
            executor: stage.executor,
            graph: stage.graph,
            core: stage.core,
        }
    }
}

/// What stands for an error in the next stages; None if the stage was interrupted because the execution ends.
fn stage_failure(plan: &Graph, stage: usize, error: &RunError) -> Option<StageFailure> {
    let RunError::Operator {
        node, error: why, ..
    } = error
    else {
        return None;
    };
    // A stand-in for the error of an earlier stage is passed on.
    let origin = match why.kind() {
        OpErrorKind::StageFailed { stage, .. } => *stage,
        _ => stage,
    };
    let rank = ErrorRank::of_error(plan, error);
    Some(StageFailure {
        stage: origin,
        time: rank.map_or(f64::INFINITY, |rank| rank.time),
        node: *node,
        is_operator_error: is_operator_error(why),
    })
}

/// Executes a plan in stages.
pub(crate) fn run(
    plan: &Graph,
    stages: &StagePlan,
    options: &RunOptions<'_>,
) -> Result<ParallelExecution, RunError> {
    let begun = Instant::now();
    let interrupt = Interrupt::default();
    let memory = Arc::new(ExecutionMemory::new(options.memory));
    let limit = Arc::new(CoreLimit::new(options.workers));
    let links = links(plan, stages, options.memory);
    let theirs = RunOptions {
        progress: None,
        interrupt: Some(&interrupt),
        watch: None,
        ..*options
    };
    let last = stages.stages.len() - 1;
    let mut threads = Vec::with_capacity(stages.stages.len());
    for number in 0..=last {
        let core = Arc::new(CoreUser::new(&limit));
        let delivered = Arc::new(Progress::default());
        let graph = StageGraph::of(plan, stages, number, &links, &core, &delivered);
        let reclaimer: Arc<dyn MemoryReclaimer> = Arc::new(StageReclaimer {
            core: Arc::clone(&core),
            memory: Arc::clone(&memory),
            links: links.clone(),
        });
        let handle = MemoryHandle {
            memory: Arc::clone(&memory),
            reclaimer: Some(reclaimer),
        };
        let own = RunOptions {
            shared_memory: Some(&handle),
            core: Some(&core),
            ..if number == last { *options } else { theirs }
        };
        let executor = PlanExecutor::new(&graph.graph, &own)?
            .by_block(false)
            .awaiting_sources()
            .ordered_by(&graph.source_order);
        for link in links.iter().filter(|link| link.from == number) {
            *link.total.lock().unwrap_or_else(PoisonError::into_inner) = executor.total();
        }
        threads.push(StageThread {
            number,
            graph,
            executor,
            core,
            delivered,
            memory: handle,
        });
    }
    let own = threads.pop();
    let sources = stages.caller_sources.map(|at| {
        let core = own.as_ref().map_or_else(
            || Arc::clone(&threads[at].core),
            |own| Arc::clone(&own.core),
        );
        let stage = threads.remove(at);
        CallerSources::new(
            stage,
            &core,
            plan,
            &RunOptions {
                interrupt: options.interrupt,
                ..theirs
            },
        )
    });
    let mut results: Vec<StageResult> = Vec::with_capacity(last + 1);
    let mut ran = None;
    std::thread::scope(|scope| {
        let (count, mut started) = (threads.len(), Vec::with_capacity(last));
        for stage in threads {
            let thread =
                std::thread::Builder::new().name(format!("isochrony-stage-{}", stage.number));
            let theirs = &theirs;
            match thread.spawn_scoped(scope, move || stage.run(plan, theirs)) {
                Ok(thread) => started.push(thread),
                Err(_) => break,
            }
        }
        let idle_work = IdleWork(Box::new(|| {
            sources.as_ref().is_some_and(CallerSources::burst)
        }));
        let options = RunOptions {
            idle_work: Some(&idle_work),
            ..*options
        };
        let own = own.filter(|_| started.len() == count);
        ran = own.map(|own| catch_unwind(AssertUnwindSafe(|| own.run(plan, &options))));
        // Threads check it between operator calls, and when they wake.
        interrupt.request();
        links.iter().for_each(|link| link.link.close());
        for thread in &started {
            thread.thread().unpark();
        }
        results.extend(started.into_iter().filter_map(|thread| thread.join().ok()));
    });
    let own = match ran {
        Some(Ok(own)) => own,
        Some(Err(panic)) => resume_unwind(panic),
        None => return Err(no_thread()),
    };
    results.push(own);
    if let (Some(at), Some(sources)) = (stages.caller_sources, sources) {
        results.insert(at, sources.into_result(begun));
    }
    let mut report = merged_report(plan, stages, &results);
    let Some(own) = results.pop() else {
        return Err(no_thread());
    };
    if let Some(error) = own.error {
        return Err(original(error, &mut results));
    }
    report.elapsed = begun.elapsed();
    report.peak_bytes = memory.peak();
    report.places = placements(plan, options, &[]);
    Ok(ParallelExecution {
        executor: own.executor,
        sequential: Some(own.graph.graph),
        report,
    })
}

/// The error that a stand-in stands for.
fn original(error: RunError, results: &mut [StageResult]) -> RunError {
    let RunError::Operator { error: why, .. } = &error else {
        return error;
    };
    let OpErrorKind::StageFailed { stage, .. } = why.kind() else {
        return error;
    };
    let result = results.get_mut(*stage);
    result
        .and_then(|result| result.error.take())
        .unwrap_or(error)
}

/// What all stages did, by operator of the plan.
fn merged_report(plan: &Graph, stages: &StagePlan, results: &[StageResult]) -> Report {
    let names = plan.nodes.iter().map(|node| node.op.name());
    let mut operators: Vec<OperatorReport> = names.map(OperatorReport::none).collect();
    let mut merged: Option<Report> = None;
    for (number, result) in results.iter().enumerate() {
        let own = &result.report;
        for (one, node) in own.operators.iter().zip(&result.graph.plan_node) {
            if let Some(node) = node {
                operators[*node].add(one);
            }
        }
        let stage = StageReport {
            number,
            operators: stages.stages[number].clone(),
            time: result.core.time(),
        };
        let merged = merged.get_or_insert_with(|| Report {
            operators: Vec::new(),
            reads: Vec::new(),
            bursts: 0,
            ..own.clone()
        });
        merged.bursts += own.bursts;
        merged.reads.extend(own.reads.iter().cloned());
        merged.stages.push(stage);
    }
    let mut report = merged.unwrap_or_default();
    report.operators = operators;
    report
}
