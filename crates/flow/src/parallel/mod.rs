//! Plans on many cores.
//!
//! What an operator declares of itself is all that is needed. A graph is cut into *fronts* and the rest ([`split`]): a
//! front is a scan and the operators behind it, as far as they make what belongs to a portion of the recording of the
//! samples in and around it: a chain, or branches, which may meet again ([`tree`], [`step`]). Where a branch ends there is an
//! exit. Scans whose streams meet in tasks are one front ([`forest`]), and cut at the same indices ([`cells`]).
//! The recording is cut into portions ([`Snapshot`](crate::Snapshot)), smaller ones where memory is short or much comes of
//! a sample, and each portion is a *task*: a worker drives it depth first through its own
//! copy of the front ([`worker`], [`line`]) and hands over what comes out by each exit, with the breaks in between ([`log`]).
//! The rest of the plan runs in the caller's thread, as any plan does; its sources are what workers handed over, in the order
//! of reading ([`gathering`]). So operators that remember, sinks and Python functions see what they would see in one thread, item by
//! item, while the next tasks are under way.
//!
//! A window belongs to the task in whose portion it begins, a sample to that in whose portion it, or the place that it was
//! computed for, lies. A task reads as many samples around its portion as operators need, never across a break, and what
//! they give too much is cut off before it matters ([`reach`], [`trim`]); they know nothing of it. What waits at a fan-in when
//! a task ends meets nobody any more, and is forgotten. Windows are counted from the run's own beginning. So nothing is made twice and nothing left out, and nothing is made of other samples than in one
//! pass: results are the same bits for any number of workers, one included. What only settles (a recursive filter) is in a
//! front where a tolerance is granted. It shows where the recording was cut, so that one worker then works in tasks, too.
//!
//! Order and memory are one rule ([`order`]): a task is handed out only while fewer than a few for each worker wait or are
//! under way, and while what waits takes less than an eighth of the run's memory; the oldest is always handed out. All
//! threads share the run's memory; a task that gets none is given back, and done again when fewer are under way. An error
//! is reported where it would have been met first.

mod cells;
mod combine;
mod dispatch;
mod fit;
mod forest;
mod gathering;
mod indices;
mod line;
mod log;
mod order;
mod pin;
mod places;
mod portions;
mod queue;
mod reach;
mod recorded;
mod rest;
mod size;
mod split;
mod step;
mod sync;
mod tree;
mod trim;
mod walk;
mod weight;
mod words;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::exec::axis::met_first;
use crate::exec::budget::{Budget, Room, Share};
use crate::exec::{Run, RunOptions};
use crate::graph::Graph;
use crate::report::{Report, TaskReport};
use crate::{OpErrorKind, RunError};

pub(crate) use places::places;
pub(crate) use words::explain;

use split::Split;
use worker::Worker;

/// What a run leaves: the plan with its results, or what of it was not done in tasks.
pub(crate) struct Ran {
    pub(crate) run: Run,
    /// The graph of that, if it is not the whole one.
    pub(crate) rest: Option<Graph>,
    pub(crate) report: Report,
}

/// Runs a graph on as many workers as the options say; None if no part of it can be spread over them.
pub(crate) fn run(graph: &Graph, options: &RunOptions<'_>) -> Result<Option<Ran>, RunError> {
    let workers = options.workers.max(1);
    // Nothing else shows where a recording is cut, and looking takes time in a plan of many operators.
    let shows = || options.tolerance > 0.0 || graph.nodes.iter().any(step::combines_inexactly);
    if options.control.is_some() || workers < 2 && !shows() {
        return Ok(None);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let Some(split) = Split::of(graph, options)? else {
        return Ok(None);
    };
    let Split { fronts, rest, .. } = &split;
    let dispatch = &split.dispatch;
    let budget = Arc::new(Budget::new(options.memory));
    let [first, others] = [Some(Arc::clone(dispatch) as Arc<dyn Room>), None].map(|room| Share {
        budget: Arc::clone(&budget),
        room,
    });
    let own = RunOptions {
        share: Some(&first),
        ..*options
    };
    let theirs = RunOptions {
        share: Some(&others),
        progress: None,
        interrupt: Some(&stop),
        watch: None,
        control: None,
        ..*options
    };
    let mut reports = Vec::new();
    let mut done = None;
    std::thread::scope(|scope| {
        let begin = |number: usize| {
            let theirs = RunOptions {
                worker: Some(number),
                ..theirs
            };
            let work = move || {
                if options.pin {
                    pin::pin(number);
                }
                Worker::new(number, fronts, &theirs).work(dispatch)
            };
            let thread = std::thread::Builder::new().name(format!("isochrony-{number}"));
            thread.spawn_scoped(scope, work)
        };
        let begun: Vec<_> = (0..workers)
            .map_while(|number| begin(number).ok())
            .collect();
        let ran = match begun.is_empty() {
            true => Ok(Err(no_thread())),
            false => catch_unwind(AssertUnwindSafe(|| {
                let mut run = Run::new(&rest.graph, &own)?
                    .by_block(graph.ends_before_sources())
                    .asks_by(&rest.asked);
                let report = run.run(&own)?;
                Ok((run, report))
            })),
        };
        // Those that are at work look at it between operator calls.
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        dispatch.stop();
        reports.extend(begun.into_iter().filter_map(|worker| worker.join().ok()));
        done = Some(ran);
    });
    let ran = match done {
        Some(Ok(ran)) => ran,
        Some(Err(panic)) => resume_unwind(panic),
        None => Err(no_thread()),
    };
    let (run, mut report) = ran.map_err(|error| {
        // What a task failed with may come before what the rest failed with, of what that task gave.
        let failed = dispatch.take_failed().into_iter();
        let failed = failed.map(|failure| *failure.error);
        failed.fold(error, |one, other| met_first(graph, one, other))
    })?;
    report.operators = split.operators(&reports, report.operators);
    let read = |front: usize, recording: usize| {
        let theirs = |one: &worker::Done| one.reads.get(front)?.get(recording)?.clone();
        reports.iter().find_map(theirs)
    };
    for (at, front) in fronts.iter().enumerate() {
        let recordings = 0..front.recordings.len();
        let reads = recordings.filter_map(|recording| read(at, recording));
        report.reads.extend(reads);
    }
    report.tasks = tasks(&mut reports);
    if workers > 1 {
        report.places = split.places(graph, options);
    }
    report.workers = reports.iter().map(|one| one.summary()).collect();
    report.peak_bytes = budget.peak();
    Ok(Some(Ran {
        run,
        rest: Some(split.rest.graph),
        report,
    }))
}

/// Not one worker could begin.
fn no_thread() -> RunError {
    RunError::Operator {
        operator: "scan",
        node: 0,
        range: None,
        time: None,
        error: OpErrorKind::NoThread.into(),
    }
}

/// All tasks, in the order of reading.
fn tasks(reports: &mut [worker::Done]) -> Vec<TaskReport> {
    let all = reports
        .iter_mut()
        .flat_map(|one| std::mem::take(&mut one.tasks));
    let mut all: Vec<_> = all.collect();
    // Of what was done again, once.
    all.sort_by_key(|(order, _)| *order);
    all.dedup_by_key(|(order, _)| *order);
    all.into_iter().map(|(_, task)| task).collect()
}
