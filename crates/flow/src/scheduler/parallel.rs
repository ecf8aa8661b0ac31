//! Executes a plan with worker threads; the sequential part runs in the caller's thread.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use isochrony_runtime::{Interrupt, start_scoped_helper, start_worker};
use isochrony_tune::TuneError;

use super::measured_costs::measured_costs;
use super::remote::Dispatcher;
use super::running_tasks::RunningTasks;
use super::scan_groups::subgraph_plans;
use super::split::SplitPlan;
use super::stages::{self, StagePlan, choose_cuts, measured_ns};
use super::worker::{Worker, WorkerResult};
use crate::engine::budget::{MemoryHandle, MemoryReclaimer};
use crate::engine::report::{Report, TaskReport};
use crate::engine::time_axis::first_error;
use crate::engine::tuning::Tuning;
use crate::engine::{CutRule, PlanCuts, PlanExecutor, RunOptions};
use crate::plan::graph::Graph;
use crate::{OpErrorKind, RunError};

pub(crate) struct ParallelExecution {
    pub(crate) executor: PlanExecutor,
    /// What the caller's thread executed; None: the whole plan.
    pub(crate) sequential: Option<Graph>,
    pub(crate) report: Report,
}

/// None if no part of the plan can be replicated.
// Its frame is large: inlined, runs inside of runs in one thread would keep it.
#[inline(never)]
pub(crate) fn run(
    graph: &Graph,
    options: &RunOptions<'_>,
) -> Result<Option<ParallelExecution>, RunError> {
    // Parameters in other processes cannot change: with a control no slots are used.
    let cluster = options.cluster.filter(|_| options.control.is_none());
    let options = &RunOptions {
        cluster,
        has_slots: cluster.is_some(),
        ..*options
    };
    let workers = options.workers.max(1);
    // One worker uses tasks only where cuts change bits. First, since splitting a large plan takes time.
    if workers < 2 && options.cluster.is_none() && !options.allows_settling() {
        return Ok(None);
    }
    let interrupt = Interrupt::default();
    let subgraph_plans = subgraph_plans(graph, options);
    let rule = cut_rule(graph, options)?;
    // Where cuts of tasks show, stages would give other bits.
    let given = options.tuning.and_then(Tuning::given_cuts);
    let given = given.filter(|_| rule.is_some() && !options.allows_settling());
    let options = &RunOptions {
        cut_rule: rule.as_ref(),
        ..*options
    };
    // Cells have other bits than one pass.
    if let Some(stages) = StagePlan::with_cells(graph, options, &subgraph_plans)? {
        return stages::run(graph, &stages, options).map(Some);
    }
    let in_stages = match (options.cluster, given) {
        (Some(_), _) => None,
        (None, Some(given)) => {
            let stages = StagePlan::of(graph, options);
            Some(stages.map_err(|_| TuneError::OtherPlan {
                what: "stages",
                has: given.iter().max().map_or(0, |last| last + 1),
                needs: 1,
            })?)
        }
        (None, None) => StagePlan::instead_of_tasks(graph, options, &subgraph_plans),
    };
    // One worker uses the same tasks.
    let may_have_tasks = options.cuts == PlanCuts::Any || options.allows_settling();
    let split = match in_stages {
        None if may_have_tasks => SplitPlan::of(graph, options, subgraph_plans)?,
        _ => None,
    };
    let Some(split) = split else {
        let stages = in_stages.or_else(|| StagePlan::of(graph, options).ok());
        let stages = stages.filter(|_| workers > 1);
        let ran = stages.map(|stages| stages::run(graph, &stages, options));
        return ran.transpose();
    };
    let SplitPlan {
        subgraphs,
        sequential,
        ..
    } = &split;
    let scheduler = &split.scheduler;
    let memory = options.execution_memory();
    let reclaimers = [
        Some(Arc::clone(scheduler) as Arc<dyn MemoryReclaimer>),
        None,
    ];
    let [first, others] = reclaimers.map(|reclaimer| MemoryHandle {
        memory: Arc::clone(&memory),
        reclaimer,
    });
    let own = RunOptions {
        shared_memory: Some(&first),
        ..*options
    };
    let theirs = RunOptions {
        shared_memory: Some(&others),
        progress: None,
        interrupt: Some(&interrupt),
        watch: None,
        control: None,
        ..*options
    };
    if let Some(tuning) = options.tuning.filter(|_| options.cluster.is_none()) {
        tuning.attach(Arc::new(RunningTasks::new(&split, workers)))?;
    }
    let mut reports = Vec::new();
    let mut done = None;
    let dispatcher = options
        .cluster
        .map(|cluster| Dispatcher::new(cluster, &split));
    std::thread::scope(|scope| {
        let dispatching = dispatcher.as_ref().map(|dispatcher| {
            start_scoped_helper(scope, "cluster", move || dispatcher.serve(scope))
        });
        let begin = |number: usize| {
            let theirs = RunOptions {
                worker: Some(number),
                ..theirs
            };
            let work = move || Worker::new(number, subgraphs, &theirs).work(scheduler);
            start_worker(scope, number + 1, options.pinning, work)
        };
        let threads = if dispatching.is_some() { 0 } else { workers };
        let begun: Vec<_> = (0..threads)
            .map_while(|number| begin(number).ok())
            .collect();
        let has_no_thread = match dispatching {
            Some(dispatching) => dispatching.is_err(),
            None => begun.is_empty(),
        };
        let ran = match has_no_thread {
            true => Ok(Err(no_thread())),
            false => catch_unwind(AssertUnwindSafe(|| {
                let mut executor = PlanExecutor::new(&sequential.graph, &own)?
                    .by_block(graph.ends_before_sources())
                    .ordered_by(&sequential.source_order)
                    .with_taps(
                        own.control
                            .map(|control| control.taps_of(sequential.edges.clone(), None)),
                    );
                if let Some(control) = own.control {
                    control.open_taps()?;
                }
                let report = executor.run(&own)?;
                Ok((executor, report))
            })),
        };
        if let Some(tuning) = options.tuning {
            tuning.detach();
        }
        interrupt.request();
        scheduler.stop();
        if let Some(dispatcher) = &dispatcher {
            dispatcher.end();
        }
        reports.extend(begun.into_iter().filter_map(|worker| worker.join().ok()));
        done = Some(ran);
    });
    reports.extend(dispatcher.into_iter().flat_map(Dispatcher::into_results));
    let ran = match done {
        Some(Ok(ran)) => ran,
        Some(Err(panic)) => resume_unwind(panic),
        None => Err(no_thread()),
    };
    let (executor, mut report) = ran.map_err(|error| {
        // A task's error may precede that of the sequential part.
        let failed = scheduler.take_failures().into_iter();
        let failed = failed.map(|failure| *failure.error);
        failed.fold(error, |one, other| first_error(graph, one, other))
    })?;
    report.operators = split.operator_reports(&reports, report.operators);
    let read = |subgraph: usize, recording: usize| {
        let theirs = |one: &WorkerResult| one.reads.get(subgraph)?.get(recording)?.clone();
        reports.iter().find_map(theirs)
    };
    for (at, subgraph) in subgraphs.iter().enumerate() {
        let recordings = 0..subgraph.inputs.len();
        let reads = recordings.filter_map(|recording| read(at, recording));
        report.reads.extend(reads);
    }
    report.tasks = task_reports(&mut reports);
    if workers > 1 {
        report.places = split.placements(graph, options);
    }
    report.workers = reports.iter().map(|one| one.summary()).collect();
    report.idle += scheduler.consumer_wait();
    report.peak_bytes = memory.peak();
    Ok(Some(ParallelExecution {
        executor,
        sequential: Some(split.sequential.graph),
        report,
    }))
}

/// Cuts of the configuration that the run was given, else by measured costs if the run may choose them.
// For the frame of `run`.
#[inline(never)]
fn cut_rule(graph: &Graph, options: &RunOptions<'_>) -> Result<Option<CutRule>, RunError> {
    // A control names stages by number.
    if options.workers < 2 || options.cluster.is_some() || options.control.is_some() {
        return Ok(None);
    }
    let given = options.tuning.and_then(Tuning::given_cuts);
    if let Some(given) = given
        && given.len() != graph.nodes.len()
    {
        return Err(TuneError::OtherPlan {
            what: "operators",
            has: given.len(),
            needs: graph.nodes.len(),
        }
        .into());
    }
    let may_choose = options.auto_workers || options.tuning.is_some_and(Tuning::chooses_cuts);
    if given.is_none() && !may_choose {
        return Ok(None);
    }
    let costs = measured_costs();
    Ok(match given {
        Some(given) => Some(CutRule {
            stage_of: Some(given.to_vec()),
            costs_ns: costs.and_then(|costs| measured_ns(graph, &costs)),
        }),
        None => costs.and_then(|costs| choose_cuts(graph, options, &costs)),
    })
}

pub(super) fn no_thread() -> RunError {
    RunError::Operator {
        operator: "scan",
        node: 0,
        range: None,
        time: None,
        error: OpErrorKind::NoThread.into(),
    }
}

fn task_reports(reports: &mut [WorkerResult]) -> Vec<TaskReport> {
    let all = reports
        .iter_mut()
        .flat_map(|one| std::mem::take(&mut one.tasks));
    let mut all: Vec<_> = all.collect();
    // A retried task is reported once.
    all.sort_by_key(|(order, _)| *order);
    all.dedup_by_key(|(order, _)| *order);
    all.into_iter().map(|(_, task)| task).collect()
}
