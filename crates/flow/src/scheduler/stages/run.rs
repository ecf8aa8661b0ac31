//! Executes a plan in stages.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_runtime::{Progress, Watch, start_scoped_helper, start_worker};

use super::active_threads::ActiveThreads;
use super::cut_choice::advise_cuts;
use super::drain::Drain;
use super::link_writer::SharedRoomMaker;
use super::pool::{PoolRef, Stage, StagePool, StageWaker, StageWork, WholeStage, ancestors};
use super::remote_blocks::RemoteBlocks;
use super::remote_replicas::RemoteReplicas;
use super::replicated::{RemoteStage, ReplicatedStage, StageReplica, StageToReplicate};
use super::stage_costs::costs_ns;
use super::stage_graph::{StageGraph, links};
use super::stage_helpers::StageHelpers;
use super::stage_plan::{Replication, StagePlan, reads_feed};
use super::stage_queue::{Notice, StageQueue, StageSet};
use super::thread_use::{ThreadUse, cpu_time};
use crate::engine::branches::TapWakers;
use crate::engine::budget::{MemoryHandle, MemoryReclaimer};
use crate::engine::report::{OperatorReport, Report, StageReport};
use crate::engine::tuning::RunningPlan;
use crate::engine::{PartExecutor, PlanCuts, PlanExecutor, RunOptions};
use crate::plan::graph::Graph;
use crate::scheduler::parallel::{ParallelExecution, no_thread};
use crate::{OpErrorKind, RunError};

const SPIN: Duration = Duration::from_micros(50);

/// A plan that chose its workers itself, and may have little to do at a time, keeps the caller's thread alone until it
/// has computed without a wait for so many times [`helpers_after_us`](crate::StageOptions::helpers_after_us).
const BUSY_FACTOR: u32 = 10;

/// How long a thread has computed since it last waited for work. Waiting in the code of a source does not count, nor
/// does time that other threads had its core.
struct BusyTime {
    since: Instant,
    cpu: Option<Duration>,
}

impl BusyTime {
    fn begin(since: Instant) -> Self {
        Self {
            since,
            cpu: cpu_time(),
        }
    }

    /// At least `least`, if it has not waited since `since`.
    fn reaches(&mut self, least: Duration, since: Instant) -> bool {
        if self.since != since {
            *self = Self::begin(since);
        }
        // Less often than the time of the thread, which takes a system call.
        since.elapsed() >= least
            && match (cpu_time(), self.cpu) {
                (Some(now), Some(before)) => now.saturating_sub(before) >= least,
                _ => true,
            }
    }
}

/// For how long others may still read the pool after `detach`.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// The tuning thread and [`Control`](crate::engine::control::Control) may be in the middle of reading it.
fn sole_owner<T>(mut pool: Arc<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        pool = match Arc::try_unwrap(pool) {
            Ok(pool) => return Some(pool),
            Err(shared) => shared,
        };
        if begun.elapsed() > RELEASE_TIMEOUT {
            return None;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Executes a plan in stages: in the caller's thread and, if it takes longer, in up to `workers - 1` others.
pub(crate) fn run(
    plan: &Graph,
    stages: &StagePlan,
    options: &RunOptions<'_>,
) -> Result<ParallelExecution, RunError> {
    let pool = pool(plan, stages, options)?;
    let begun = pool.begun;
    let memory = MemoryHandle {
        memory: Arc::clone(&pool.memory),
        reclaimer: None,
    };
    let of_branches = RunOptions {
        shared_memory: Some(&memory),
        ..*options
    };
    let run_branches = |ended| {
        let control = options.control;
        control.map_or(Ok(()), |control| control.run_branches(&of_branches, ended))
    };
    let mut branch_error = None;
    if let Some(control) = options.control {
        control.open_taps()?;
        control.attach(Arc::clone(&pool) as Arc<dyn RunningPlan>);
    }
    let remote = RemoteReplicas::new(options.cluster, &pool);
    // Where slots compute blocks, it is not known what limits them.
    let is_remote = remote.is_some();
    if let Some(tuning) = options.tuning.filter(|_| !is_remote) {
        tuning.note_cuts(&stages.stage_of);
        tuning.attach(Arc::clone(&pool) as Arc<dyn RunningPlan>)?;
    }
    let delivered = Arc::clone(&pool.delivered);
    if let Some(progress) = options.progress {
        progress.set_total(pool.total);
    }
    let mut reported = 0;
    let entries = pool.stages.len();
    let helpers_after = Duration::from_micros(options.stages.helpers_after_us);
    let mut shuffle = options.stages.shuffle;
    let mut threads = Vec::new();
    std::thread::scope(|scope| {
        if let Some(remote) = &remote {
            // Without it this process computes all blocks.
            drop(start_scoped_helper(scope, "cluster", move || {
                remote.serve(scope)
            }));
        }
        let mut wanted = options.workers.min(entries).saturating_sub(1);
        let (mut own, mut helpers) = (None, Vec::new());
        let mut busy = BusyTime::begin(begun);
        let mut after_burst = |busy_since: Instant| {
            if let Some(progress) = options.progress {
                let done = delivered.done();
                progress.advance(done - std::mem::replace(&mut reported, done));
            }
            if let Err(error) = run_branches(false) {
                branch_error.get_or_insert(error);
                pool.stop();
            }
            if let Some(state) = &mut shuffle {
                pool.shuffle(state);
            }
            let needs_helpers = match options.cuts {
                _ if wanted == 0 => false,
                PlanCuts::Any => begun.elapsed() >= helpers_after,
                _ => busy.reaches(helpers_after * BUSY_FACTOR, busy_since),
            };
            if !needs_helpers {
                return;
            }
            // If fewer threads start than wanted, the caller's has more to do.
            own = Some(ThreadUse::begin());
            for number in 1..=std::mem::take(&mut wanted) {
                let pool = &pool;
                let helper = move || {
                    let used = ThreadUse::begin();
                    pool.run_helper(number);
                    used.end()
                };
                helpers.extend(start_worker(scope, number, options.pinning, helper));
            }
        };
        let ran = catch_unwind(AssertUnwindSafe(|| pool.run_caller(&mut after_burst)));
        pool.stop();
        pool.links.iter().for_each(|link| link.close_all());
        if let Some(remote) = &remote {
            remote.end();
        }
        threads.extend(own.map(|own| own.end()));
        for helper in helpers {
            threads.push(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        ran.unwrap_or_else(|panic| resume_unwind(panic));
    });
    if let Some(control) = options.control {
        control.detach();
    }
    if let Some(tuning) = options.tuning {
        tuning.detach();
    }
    if let Some(error) = branch_error {
        return Err(error);
    }
    let mut of_slots = Report {
        operators: plan
            .nodes
            .iter()
            .map(|node| OperatorReport::none(node.op.name()))
            .collect(),
        ..Report::default()
    };
    if let Some(remote) = remote {
        remote.finish(&mut of_slots)?;
    }
    let Some(pool) = sole_owner(pool) else {
        return Err(no_thread());
    };
    let reports = pool.stage_reports();
    let links = pool.link_reports(&reports);
    let mut all: Vec<StageWork> = pool.stages.into_iter().map(Stage::into_work).collect();
    let mut report = merged_report(plan, &all, reports);
    report.threads = threads;
    report.links = links;
    let Some(StageWork::Whole(own)) = all.pop() else {
        return Err(no_thread());
    };
    if let Some(error) = own.error {
        return Err(original(error, &mut all));
    }
    run_branches(true)?;
    report.elapsed = begun.elapsed();
    report.peak_bytes = pool.memory.peak();
    report.places = stages.placements(plan, options);
    report.places.extend(of_slots.places);
    report.workers = of_slots.workers;
    let operators = report.operators.iter_mut().zip(&of_slots.operators);
    operators.for_each(|(one, of_slots)| one.add(of_slots));
    if let Some(tuning) = (options.tuning).filter(|tuning| tuning.recommends() && !is_remote) {
        tuning.advise(advise_cuts(
            plan,
            stages,
            options,
            &report,
            tuning.keeps_up(),
        ));
    }
    Ok(ParallelExecution {
        executor: own.executor,
        sequential: Some(own.graph.graph),
        report,
    })
}

fn pool(
    plan: &Graph,
    stages: &StagePlan,
    options: &RunOptions<'_>,
) -> Result<Arc<StagePool>, RunError> {
    let begun = Instant::now();
    let entries = stages.entries(options.workers);
    let computing = stages.computing(&entries);
    let bit = |stage: usize| 1 << computing[stage].start;
    let last = stages.stages.len() - 1;
    let callers: StageSet = bit(last) | stages.caller_sources.map_or(0, bit);
    let count = entries[last].end;
    let queue = Arc::new(StageQueue::new(
        count,
        callers,
        SPIN,
        Duration::from_micros(options.stages.poll_us),
        options.measure,
    ));
    let drain = Arc::new(Drain::new(options.interrupt));
    let memory = options.execution_memory();
    let links = links(plan, stages, options, &queue, &entries);
    let caller = std::thread::current().id();
    let is_watched = options.interrupt.is_some() || options.watch.is_some();
    let watch = is_watched.then(|| {
        let (watch, drain) = (options.watch.cloned(), Arc::clone(&drain));
        Watch::new(move || {
            let is_caller = std::thread::current().id() == caller;
            if let Some(watch) = watch.as_ref().filter(|_| is_caller) {
                drain.callback_returned(watch.poll());
            }
            drain.poll()
        })
    });
    let reference = PoolRef::default();
    let room_maker: SharedRoomMaker = Arc::new(reference.clone());
    let reclaimer: Arc<dyn MemoryReclaimer> = Arc::new(reference.clone());
    let handle = MemoryHandle {
        memory: Arc::clone(&memory),
        reclaimer: Some(reclaimer),
    };
    let own = RunOptions {
        progress: None,
        interrupt: Some(&drain.ends),
        watch: watch.as_ref(),
        shared_memory: Some(&handle),
        // At worst each stage holds results back in turn.
        latency: options
            .latency
            .map(|latency| latency / stages.stages.len() as f64),
        ..*options
    };
    let mut all: Vec<StageWork> = Vec::with_capacity(count);
    let mut replicated: Vec<Arc<ReplicatedStage>> = Vec::new();
    let mut stage_helpers: Vec<Arc<StageHelpers>> = Vec::new();
    let expected = costs_ns(plan, options);
    let remote = options.cluster.filter(|_| reads_feed(plan));
    let remote = remote.map(|_| Arc::new(RemoteBlocks::default()));
    let (mut delivered, mut total) = (Arc::default(), None);
    for (number, entries) in entries.iter().enumerate() {
        delivered = Arc::new(Progress::default());
        let mut graph = StageGraph::of(plan, stages, number, &links, &room_maker, &delivered);
        let replication = stages.replication[number];
        let helpers = (replication == Replication::Keys && entries.len() > 1).then(|| {
            let node = stages.divided_node(number, plan, &expected);
            let entries = entries.start..entries.end - 1;
            let sizes = &options.stages;
            Arc::new(StageHelpers::new(number, node, entries, &queue, sizes))
        });
        let in_blocks = entries.len() > 1 && helpers.is_none();
        if in_blocks || replication == Replication::Cells {
            let is_remote = replication == Replication::Blocks;
            let blocks = remote.as_ref().filter(|_| is_remote);
            let position = replicated.iter().filter(|stage| stage.remote.is_some());
            let remote = blocks.map(|blocks| RemoteStage {
                blocks: Arc::clone(blocks),
                position: position.count(),
            });
            let stage = StageToReplicate {
                number,
                graph,
                links: &links,
                plan,
                queue: &queue,
                entries,
                delivered: &delivered,
                replication,
                cell_samples: stages.cell_samples[number],
                remote,
            };
            match stage.replicate(&own)? {
                Ok(stage) => {
                    for replica in 0..entries.len() {
                        let replica = StageReplica::new(replica, &stage, &own)?;
                        all.push(StageWork::Replica(Box::new(replica)));
                    }
                    replicated.push(stage);
                    continue;
                }
                Err(whole) => graph = whole,
            }
        }
        let entry = computing[number].start;
        let own = RunOptions {
            worker: (number != last).then_some(entry),
            ..own
        };
        if let Some(helpers) = &helpers {
            let numbers = 0..entries.len() - 1;
            all.extend(numbers.map(|one| StageWork::Helper(Arc::clone(helpers), one)));
            stage_helpers.push(Arc::clone(helpers));
        }
        let mut executor = PlanExecutor::new(&graph.graph, &own)?
            .by_block(stages.by_block[number])
            .awaiting_sources()
            .with_helpers(helpers.clone().map(|one| one as Arc<dyn PartExecutor>))
            .with_bursts_of(match stages.caller_sources == Some(number) {
                // The code that makes samples may wait: each item is passed on before the next.
                true => 1,
                false => options.stages.burst_bytes,
            })
            .ordered_by(&graph.source_order)
            .stopping(&drain.asked, |node| graph.plan_node[node].is_some())
            .with_taps(options.control.map(|control| {
                let waker = |stage: usize, notice| {
                    let queue = Arc::clone(&queue);
                    Arc::new(StageWaker {
                        queue,
                        stage,
                        notice,
                    })
                };
                let wakers = TapWakers {
                    input: waker(count - 1, Notice::Input).into(),
                    room: waker(entry, Notice::Room).into(),
                };
                control.taps_of(graph.edges.clone(), Some(wakers))
            }));
        if number == last {
            executor = executor.with_latencies();
        }
        total = executor.total();
        for link in links.iter().filter(|link| link.from == number) {
            link.set_total(total);
        }
        let waker = StageWaker {
            queue: Arc::clone(&queue),
            stage: entry,
            notice: Notice::Input,
        };
        executor.set_waker(&Arc::new(waker).into());
        all.push(StageWork::Whole(Box::new(WholeStage {
            number,
            graph,
            executor,
            delivered: Arc::clone(&delivered),
            has_helpers: helpers.is_some(),
            error: None,
        })));
        // Entries of the replicas that it does not get.
        all.extend((all.len()..entries.end).map(|_| StageWork::Unused));
    }
    let ancestors = ancestors(&links, &entries);
    let max_link_bytes = StagePlan::max_link_capacity(options, links.len());
    let threads = options.workers.min(count).max(1);
    let operators = stages.stages.clone();
    let homes = stages.homes(plan, options, &entries);
    let stages = all.into_iter().zip(ancestors);
    let pool = Arc::new(StagePool {
        stages: stages
            .map(|(work, ancestors)| Stage::new(work, ancestors))
            .collect(),
        queue,
        homes,
        links,
        replicated,
        helpers: stage_helpers,
        memory,
        plan: plan.clone(),
        operators,
        threads: ActiveThreads::new(threads),
        max_link_bytes,
        begun,
        measures: options.measure,
        drain,
        watch,
        caller,
        delivered,
        total,
    });
    reference.set(&pool);
    Ok(pool)
}

/// The error that `StageFailed` stands for.
fn original(error: RunError, all: &mut [StageWork]) -> RunError {
    let RunError::Operator { error: why, .. } = &error else {
        return error;
    };
    let &OpErrorKind::StageFailed { stage, .. } = why.kind() else {
        return error;
    };
    let mut all = all.iter_mut();
    let own = all.find_map(|work| match work {
        StageWork::Whole(one) if one.number == stage => Some(one.error.take()),
        StageWork::Replica(one) if one.stage().number == stage => Some(one.stage().take_error()),
        _ => None,
    });
    own.flatten().unwrap_or(error)
}

/// By operator of the plan. `reports`: without unused entries.
fn merged_report(plan: &Graph, all: &[StageWork], reports: Vec<StageReport>) -> Report {
    let names = plan.nodes.iter().map(|node| node.op.name());
    let mut report = Report {
        operators: names.map(OperatorReport::none).collect(),
        ..Report::default()
    };
    let works = all.iter().filter(|work| !matches!(work, StageWork::Unused));
    for (work, StageReport { time, .. }) in works.zip(&reports) {
        match work {
            StageWork::Whole(stage) => {
                let own = stage.executor.report(time.busy);
                for (one, node) in own.operators.iter().zip(&stage.graph.plan_node) {
                    if let Some(node) = node {
                        report.operators[*node].add(one);
                    }
                }
                report.bursts += own.bursts;
                report.latency = report.latency.or(own.latency);
                report.reads.extend(own.reads);
            }
            StageWork::Replica(replica) => {
                for (node, one) in replica.reports(time.busy) {
                    report.operators[node].add(&one);
                }
            }
            StageWork::Helper(stage_helpers, _) => {
                let operator = &mut report.operators[stage_helpers.node];
                operator.useful += time.busy;
                operator.threads += 1;
            }
            StageWork::Unused => {}
        }
    }
    report.stages = reports;
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_thread_reads_for_a_moment_is_waited_for() {
        let shared = Arc::new(7);
        let reader = Arc::clone(&shared);
        let reading = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            *reader
        });
        assert_eq!(sole_owner(shared), Some(7));
        assert_eq!(reading.join().ok(), Some(7));
    }
}
