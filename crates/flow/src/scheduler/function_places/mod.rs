//! [`place`]: where a tuned run calls Python functions that the user lets it place (`on_workers="any"`).
//!
//! Each function is measured before the start, with blocks of its own input: in one thread, in two at the same time,
//! and in a worker process ([`measure`]). [`FunctionCosts`](isochrony_tune::FunctionCosts) predicts the run for each
//! place. The chosen one is stated in a copy of the operator, so that the rest of the scheduler sees a function whose
//! place is given.

mod measure;
mod placed;

use isochrony_tune::{FunctionPlace, PlaceDecision, PlaceOutcome, TuneError};

use self::measure::{Measurement, MeasurementBudget, PlaceChoice, measure};
use self::placed::set_place;
use super::auto_workers::{self, WorkerChoice};
use super::characterise::replay::upstream;
use super::prediction::{reads_remotely, total_samples};
use super::scan_groups::subgraph_plans;
use super::stages::StagePlan;
use crate::engine::tuning::Tuning;
use crate::engine::{PlanCuts, RunOptions};
use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{Parallelism, Resource, RunError};

/// Share of the expected run that all measurements may take, and their most seconds if blocks take less.
const BUDGET: MeasurementBudget = MeasurementBudget {
    share: 0.02,
    seconds: 0.3,
};

/// Places the functions that are left to the run: as a configuration states, else by measurement.
///
/// # Errors
/// [`TuneError::OtherPlan`] for a configuration with another number of functions; [`RunError::Interrupted`].
pub(super) fn place(
    graph: &mut Graph,
    tuning: &Tuning,
    options: &RunOptions<'_>,
) -> Result<(), RunError> {
    if !tuning.chooses_workers() {
        return Ok(());
    }
    let nodes = 0..graph.nodes.len();
    let functions: Vec<(usize, FunctionPlace)> = nodes
        .filter_map(|node| Some((node, function_place(&graph.nodes[node])?)))
        .collect();
    let is_free = |place: FunctionPlace| place == FunctionPlace::Any;
    let mut places: Vec<FunctionPlace> = functions
        .iter()
        .map(|&(_, stated)| match is_free(stated) {
            true => FunctionPlace::Auto,
            false => stated,
        })
        .collect();
    let free: Vec<(usize, usize)> = (functions.iter().enumerate())
        .filter(|(_, (_, stated))| is_free(*stated))
        .map(|(at, &(node, _))| (at, node))
        .collect();
    if let Some(given) = tuning.given_places() {
        if given.len() != functions.len() {
            return Err(TuneError::OtherPlan {
                what: "Python functions",
                has: given.len(),
                needs: functions.len(),
            }
            .into());
        }
        for &(at, node) in free.iter().filter(|&&(at, _)| !is_free(given[at])) {
            places[at] = given[at];
            set_place(graph, node, given[at]);
        }
        tuning.note_places(places, Vec::new(), options.workers);
        return Ok(());
    }
    let mut decisions = Vec::new();
    if tuning.measures_functions() && options.workers > 1 {
        let budget = BUDGET.shared_by(free.len());
        let mut chosen = Vec::new();
        for &(at, node) in &free {
            let found = find(graph, &free, node, options, budget)?;
            let from = places.clone();
            places[at] = found.place;
            if found.outcome == PlaceOutcome::Chosen {
                chosen.push((node, found.place));
            }
            decisions.push(PlaceDecision {
                function: graph.label(node),
                position: at,
                outcome: found.outcome,
                from,
                to: places.clone(),
                place: found.place,
                reason: found.reason,
                predicted_gain: found.gain,
                alternatives: found.alternatives,
            });
        }
        if !tuning.recommends() {
            for (node, place) in chosen {
                set_place(graph, node, place);
            }
        }
    }
    tuning.note_places(places, decisions, options.workers);
    Ok(())
}

fn function_place(node: &GraphNode) -> Option<FunctionPlace> {
    match &node.op {
        Op::Factory(factory) => factory.0.function_place(),
        _ => None,
    }
}

/// `free`: positions and nodes of all functions that the run may place.
fn find(
    graph: &Graph,
    free: &[(usize, usize)],
    node: usize,
    options: &RunOptions<'_>,
    budget: MeasurementBudget,
) -> Result<PlaceChoice, RunError> {
    let samples = match known_samples(graph) {
        Ok(samples) => samples,
        Err(why) => return Ok(PlaceChoice::not_measured(why)),
    };
    let user_code = upstream(graph, node).find(|&at| !may_call(&graph.nodes[at], options));
    if let Some(before) = user_code {
        let why = format!(
            "it follows {}, which is called in the run alone",
            graph.label(before)
        );
        return Ok(PlaceChoice::not_measured(why));
    }
    let before_is_parallel = match concurrency(graph, free, node, options)? {
        Concurrency::None(why) => return Ok(PlaceChoice::not_measured(why)),
        Concurrency::Tasks => true,
        Concurrency::Replicas => false,
    };
    let measurement = Measurement {
        graph,
        node,
        samples,
        threads: options.workers,
        before_is_parallel,
        budget,
    };
    measure(&measurement, options)
}

/// Samples of the longest source; the error says why they are not known, or not read twice.
fn known_samples(graph: &Graph) -> Result<u64, String> {
    if reads_remotely(graph) {
        return Err("its signal is on a server: reading it twice may take long".into());
    }
    let nodes = graph.nodes.iter();
    if nodes.clone().any(|node| node.properties.ends_early) {
        return Err("something may end the run early: it is not known how long it takes".into());
    }
    if nodes.clone().any(GraphNode::is_feed) {
        return Err("samples of a live or generated source can be read once only".into());
    }
    let total = total_samples(graph).filter(|&total| total > 0);
    total.ok_or_else(|| "its sources have no known samples".into())
}

/// Whether an operator may be executed for a measurement, beside its calls in the run.
fn may_call(node: &GraphNode, options: &RunOptions<'_>) -> bool {
    let Op::Factory(factory) = &node.op else {
        return true;
    };
    let is_free = factory.0.function_place() == Some(FunctionPlace::Any);
    let is_compiled = node.properties.needs != Resource::Interpreter
        && matches!(factory.0.parallelism(options), Parallelism::Workers(_));
    is_free || is_compiled && !factory.0.is_writer()
}

enum Concurrency {
    /// With the reason.
    None(String),
    /// With all before the function.
    Tasks,
    /// Behind an input in order.
    Replicas,
}

/// Whether other threads would call the function for several blocks at a time.
fn concurrency(
    graph: &Graph,
    free: &[(usize, usize)],
    node: usize,
    options: &RunOptions<'_>,
) -> Result<Concurrency, RunError> {
    let mut graph = graph.clone();
    for &(_, other) in free {
        set_place(&mut graph, other, FunctionPlace::Threads);
    }
    let graph = &graph;
    let cuts = match auto_workers::choose_if_auto(graph, options)? {
        None => options.cuts,
        Some(WorkerChoice::One(why)) => return Ok(Concurrency::None(why)),
        Some(WorkerChoice::Several(PlanCuts::WholeItems)) => {
            let why = "another function of the plan must be given the blocks of one thread";
            return Ok(Concurrency::None(why.into()));
        }
        Some(WorkerChoice::Several(cuts)) => cuts,
    };
    let options = &RunOptions {
        cuts,
        tuning: None,
        ..*options
    };
    let subgraphs = subgraph_plans(graph, options);
    let stages = match StagePlan::instead_of_tasks(graph, options, &subgraphs) {
        None => {
            let mut in_tasks = subgraphs
                .iter()
                .filter(|plan| cuts == PlanCuts::Any && plan.task_size(graph, options).is_some());
            let has_function = |plan: &super::subgraph::SubgraphPlan| {
                plan.nodes.iter().any(|one| one.node == node)
            };
            let is_split = in_tasks.clone().next().is_some();
            if in_tasks.any(has_function) {
                return Ok(Concurrency::Tasks);
            }
            StagePlan::of(graph, options).ok().filter(|_| !is_split)
        }
        stages => stages,
    };
    let replicated = stages.is_some_and(|stages| {
        let mut stages = stages.operators_and_replicas(options.workers);
        stages.any(|(nodes, replicas)| replicas > 1 && nodes.contains(&node))
    });
    Ok(match replicated {
        true => Concurrency::Replicas,
        false => {
            Concurrency::None("no part of the plan calls it for several blocks at a time".into())
        }
    })
}
