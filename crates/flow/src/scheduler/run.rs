//! [`Plan::collect`] and [`Plan::run`]: prepare a graph, then execute it with workers or in the caller's thread.

use super::auto_workers::{self, WorkerChoice};
use super::function_places;
use super::notes::notes;
use super::parallel::{self, ParallelExecution};
use super::remote::host;
use super::task_contract::placements;
use crate::engine::control::Control;
use crate::engine::{PlanExecutor, ReusableParts, RunOptions};
use crate::optimiser::{optimise, skip_unmatched};
use crate::plan::graph::Graph;
use isochrony_runtime::{Pinning, Progress};

use crate::{Plan, PlanOutput, Report, RunError};

pub(crate) fn prepare(plans: &[Plan], options: &RunOptions<'_>) -> Result<Graph, RunError> {
    let mut graph = Graph::of(plans);
    graph.check_loops()?;
    host::place(&mut graph, options)?;
    for (at, node) in graph.nodes.iter().enumerate() {
        if let Some(workspace) = node.properties.workspace {
            workspace.check_against(options.memory, node.op.name(), at)?;
        }
    }
    if let Some(control) = options.control {
        let chosen = auto_workers::choose_if_auto(&graph, options)?;
        let is_parallel = options.workers > 1 && !matches!(chosen, Some(WorkerChoice::One(_)));
        return Ok(control.begin(&graph, options, is_parallel)?);
    }
    if options.optimise {
        optimise(&mut graph);
        skip_unmatched(&mut graph);
    }
    // Workers of a cluster choose their own.
    if let Some(tuning) = options.tuning.filter(|_| options.cluster.is_none()) {
        tuning.choose_settings(&mut graph, options.pin)?;
        function_places::place(&mut graph, tuning, options)?;
    }
    Ok(graph)
}

struct ControlUse<'a>(Option<&'a Control>);

impl Drop for ControlUse<'_> {
    fn drop(&mut self) {
        self.0.map(Control::end);
    }
}

/// `reused`: parts of an earlier execution with the same graph and options, if the caller's thread executes all.
pub(crate) fn run(
    graph: &Graph,
    options: &RunOptions<'_>,
    reused: Option<ReusableParts>,
) -> Result<ParallelExecution, RunError> {
    let control = ControlUse(options.control);
    let pin = (options.tuning).map_or(options.pin, |tuning| tuning.pins(options.pin));
    let pinning = pin.then(Pinning::of_current_thread).flatten();
    let options = RunOptions {
        pin,
        pinning: pinning.as_ref(),
        link_bytes: host::link_bytes(graph),
        ..*options
    };
    let pinned = pinning.as_ref().map(|pinning| pinning.pin(0));
    let own_progress;
    let options = match options.tuning {
        None => options,
        Some(_) => {
            own_progress = Progress::default();
            RunOptions {
                progress: Some(options.progress.unwrap_or(&own_progress)),
                ..options
            }
        }
    };
    let ran = match (options.tuning, options.progress) {
        (Some(tuning), Some(progress)) => tuning.during(progress, options.latency, || {
            execute(graph, &options, reused)
        }),
        _ => execute(graph, &options, reused),
    };
    drop(pinned);
    let mut ran = ran?;
    ran.report.tuning = options.tuning.map(|tuning| tuning.report()).transpose()?;
    ran.report.pinned_cpus = pinning.map_or_else(Vec::new, Pinning::into_cpus);
    (ran.report.changes, ran.report.branches) =
        control.0.map_or_else(Default::default, Control::end);
    Ok(ran)
}

fn execute(
    graph: &Graph,
    options: &RunOptions<'_>,
    reused: Option<ReusableParts>,
) -> Result<ParallelExecution, RunError> {
    let (mut options, mut taps) = (options, None);
    let chosen = match auto_workers::choose_if_auto(graph, options)? {
        None => *options,
        Some(WorkerChoice::One(_)) => RunOptions {
            workers: 1,
            ..*options
        },
        Some(WorkerChoice::Several(cuts)) => RunOptions { cuts, ..*options },
    };
    options = &chosen;
    if let Some(mut ran) = parallel::run(graph, options)? {
        ran.report.notes = notes(graph, &ran.report);
        ran.report.cut_origin = parallel::cut_choice(options);
        return Ok(ran);
    }
    let memory = options.memory_handle();
    let with_branches;
    if let Some(control) = options.control {
        // Branches share the memory.
        with_branches = RunOptions {
            shared_memory: Some(&memory),
            ..*options
        };
        options = &with_branches;
        taps = Some(control.taps_of(graph.all_edges(), None));
        control.open_taps()?;
    }
    let executor = PlanExecutor::with_reused(graph, options, reused)?;
    let mut executor = executor.with_taps(taps);
    let mut report = executor.run(options)?;
    if options.workers > 1 {
        report.places = placements(graph, options, &[]);
    }
    report.notes = notes(graph, &report);
    Ok(ParallelExecution {
        executor,
        sequential: None,
        report,
    })
}

impl Plan {
    /// Runs the plan and gathers its results: samples and windows as an array, rows as a table, a count as a number.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn collect(&self) -> Result<PlanOutput, RunError> {
        self.collect_with(&RunOptions::default())
            .map(|(gathered, _)| gathered)
    }

    /// As [`collect`](Self::collect), with options; also returns the report.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn collect_with(&self, options: &RunOptions<'_>) -> Result<(PlanOutput, Report), RunError> {
        let (mut gathered, report) = Self::collect_all(std::slice::from_ref(self), options)?;
        Ok((gathered.swap_remove(0), report))
    }

    /// Runs several plans as one and gathers each result. Common parts run once.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn collect_all(
        plans: &[Self],
        options: &RunOptions<'_>,
    ) -> Result<(Vec<PlanOutput>, Report), RunError> {
        let graph = prepare(&super::remote::collecting(plans), options)?;
        let ParallelExecution {
            mut executor,
            sequential,
            report,
        } = run(&graph, options, None)?;
        let graph = sequential.unwrap_or(graph);
        let mut gathered: Vec<PlanOutput> = Vec::with_capacity(plans.len());
        for (at, &(node, _)) in graph.outputs.iter().enumerate() {
            // Equal plans share a node, whose result can be taken once.
            let same = graph.outputs[..at].iter().position(|&(n, _)| n == node);
            let result = match same {
                Some(same) => Some(gathered[same].clone()),
                None => executor.result(node),
            };
            gathered.push(result.ok_or_else(|| RunError::NoResult {
                operator: graph.nodes[node].op.name(),
                node,
            })?);
        }
        Ok((gathered, report))
    }

    /// Runs the plan for its effects.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(&self) -> Result<Report, RunError> {
        self.run_with(&RunOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_with(&self, options: &RunOptions<'_>) -> Result<Report, RunError> {
        Self::run_all(std::slice::from_ref(self), options)
    }

    /// Runs several plans as one for their effects. Common parts run once.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_all(plans: &[Self], options: &RunOptions<'_>) -> Result<Report, RunError> {
        let graph = prepare(plans, options)?;
        run(&graph, options, None).map(|ran| ran.report)
    }
}
