//! Executes a plan with worker threads; the sequential part runs in the caller's thread.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use isochrony_runtime::{Interrupt, start_scoped_helper, start_worker};
use isochrony_tune::TuneError;

use super::measured_costs::measured_costs;
use super::remote::{Dispatcher, advise_batch};
use super::running_tasks::RunningTasks;
use super::scan_groups::subgraph_plans;
use super::split::SplitPlan;
use super::stages::{self, StagePlan, choose_cuts, measured_ns};
use super::subgraph::SubgraphPlan;
use super::worker::{Worker, WorkerResult};
use crate::engine::budget::{MemoryHandle, MemoryReclaimer};
use crate::engine::report::{Report, TaskReport};
use crate::engine::time_axis::first_error;
use crate::engine::tuning::{RunningPlan, Tuning};
use crate::engine::{CutOrigin, CutRule, PlanCuts, PlanExecutor, RunOptions};
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
    let rule = cut_rule(graph, options, &subgraph_plans)?;
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
            let last = given.iter().copied().max().unwrap_or(0);
            let refused = |why: &str| TuneError::Cuts {
                stages: last.saturating_add(1),
                why: why.into(),
            };
            Some(StagePlan::of(graph, options).map_err(refused)?)
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
    let dispatcher = options
        .cluster
        .map(|cluster| Dispatcher::new(cluster, &split, options.stages.shuffle));
    let tasks = RunningTasks::new(&split, workers, dispatcher.is_some());
    let (running, local): (Arc<dyn RunningPlan>, _) = match &dispatcher {
        Some(dispatcher) => (Arc::new(dispatcher.running(tasks)), None),
        None => {
            let tasks = Arc::new(tasks);
            (Arc::clone(&tasks) as _, Some(tasks))
        }
    };
    if let Some(tuning) = options.tuning {
        tuning.attach(running)?;
    }
    let mut reports = Vec::new();
    let mut done = None;
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
    let messages = dispatcher.as_ref().map(Dispatcher::message_times);
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
    if let Some(tuning) = options.tuning.filter(|tuning| tuning.recommends()) {
        let size = local.map(|tasks| tasks.advise_size(subgraphs, &report));
        let batch =
            messages.map(|messages| advise_batch(messages, scheduler.consumer_wait(), &report));
        size.into_iter()
            .chain(batch)
            .for_each(|advice| tuning.advise(advice));
    }
    Ok(Some(ParallelExecution {
        executor,
        sequential: Some(split.sequential.graph),
        report,
    }))
}

/// Cuts of the configuration that the run was given, else by measured costs if the run may choose them.
// For the frame of `run`.
#[inline(never)]
fn cut_rule(
    graph: &Graph,
    options: &RunOptions<'_>,
    subgraph_plans: &[SubgraphPlan],
) -> Result<Option<CutRule>, RunError> {
    let given = match cut_choice(options) {
        CutOrigin::Declared => return Ok(None),
        CutOrigin::Measured => {
            let costs = measured_costs();
            return Ok(costs.and_then(|costs| choose_cuts(graph, options, &costs, subgraph_plans)));
        }
        CutOrigin::Given => (options.tuning).and_then(Tuning::given_cuts).unwrap_or(&[]),
    };
    if given.len() != graph.nodes.len() {
        return Err(TuneError::OtherPlan {
            what: "operators",
            has: given.len(),
            needs: graph.nodes.len(),
        }
        .into());
    }
    if let Some(&beyond) = given.iter().find(|&&stage| stage >= given.len()) {
        return Err(TuneError::Cuts {
            stages: beyond.saturating_add(1),
            why: format!("it has {} operators", given.len()),
        }
        .into());
    }
    Ok(Some(CutRule {
        stage_of: Some(given.to_vec()),
        costs_ns: measured_costs().and_then(|costs| measured_ns(graph, &costs)),
    }))
}

/// What decides about cuts between stages of a run with these options.
pub(super) fn cut_choice(options: &RunOptions<'_>) -> CutOrigin {
    // A control names stages by number.
    if options.workers < 2 || options.cluster.is_some() || options.control.is_some() {
        return CutOrigin::Declared;
    }
    let tuning = options.tuning;
    if tuning.is_some_and(|tuning| tuning.given_cuts().is_some()) {
        return CutOrigin::Given;
    }
    match options.auto_workers || tuning.is_some_and(Tuning::chooses_cuts) {
        true => CutOrigin::Measured,
        false => CutOrigin::Declared,
    }
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

#[cfg(test)]
mod tests {
    use isochrony_tune::{Configuration, TuningMode};

    use super::*;
    use crate::GivenSettings;
    use crate::engine::control::Control;

    #[test]
    fn measured_costs_cut_only_runs_that_may_choose() {
        let of = |auto_workers, tuning, control, workers| {
            cut_choice(&RunOptions {
                workers,
                auto_workers,
                tuning,
                control,
                ..RunOptions::default()
            })
        };
        let configuration = Configuration {
            workers: 2,
            replicas: vec![1, 1],
            link_bytes: vec![1 << 20],
            task_bytes: 0,
            batch_tasks: 0,
        };
        let [changes, recommends, applies] = [
            TuningMode::Change,
            TuningMode::Recommend,
            TuningMode::Apply(configuration),
        ]
        .map(|mode| Tuning::new(mode, false));
        let given = Tuning::new(TuningMode::Measure, false).with_settings(GivenSettings {
            cuts: Some(vec![0, 1]),
            ..GivenSettings::default()
        });
        let control = Control::default();
        for (options, expected) in [
            ((false, None, None, 2), CutOrigin::Declared),
            ((true, None, None, 2), CutOrigin::Measured),
            ((true, None, None, 1), CutOrigin::Declared),
            ((true, None, Some(&control), 2), CutOrigin::Declared),
            ((false, Some(&changes), None, 2), CutOrigin::Measured),
            ((false, Some(&recommends), None, 2), CutOrigin::Declared),
            ((false, Some(&applies), None, 2), CutOrigin::Declared),
            ((true, Some(&given), None, 2), CutOrigin::Given),
        ] {
            let (auto_workers, tuning, control, workers) = options;
            assert_eq!(of(auto_workers, tuning, control, workers), expected);
        }
    }
}
