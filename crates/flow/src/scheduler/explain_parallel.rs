//! Renders the parallel execution plan for `Plan::explain`: which operators run in tasks, in tasks of what size, and why the
//! others do not.

use super::explain::abridged;
use super::scan_groups::subgraph_plans;
use super::subgraph::SubgraphPlan;
use super::task_size::TaskSize;
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::{Parallelism, PortionOverlap, Resource};

/// Says which operators would run in tasks, and why not more.
pub(crate) fn explain(graph: &Graph) -> String {
    let options = RunOptions {
        workers: 2,
        ..RunOptions::default()
    };
    let subgraph_plans = subgraph_plans(graph, &options);
    let lines = subgraph_plans.iter().map(|plan| describe(plan, graph));
    let spread = subgraph_plans
        .iter()
        .filter(|plan| plan.task_size(graph, &options).is_some());
    let spread = spread.flat_map(|plan| plan.nodes.iter().map(|one| one.node));
    let placements = placements(graph, &options, &spread.collect::<Vec<_>>()).into_iter();
    lines
        .chain(placements.map(|position| position + "\n"))
        .collect()
}

fn describe(plan: &SubgraphPlan, graph: &Graph) -> String {
    let names = operator_names(plan, graph);
    let PortionOverlap { before, after } = plan.reach;
    let more = match plan.trims.is_empty() {
        true => String::new(),
        false => format!(", read with {before} before and {after} behind them"),
    };
    let why = plan.reasons.join("; ");
    let each = if plan.scans.len() > 1 {
        " of each scan"
    } else {
        ""
    };
    match plan.task_size(graph, &RunOptions::default()) {
        None if plan.reduces() => {
            format!("{names} in order: it is done sooner than handed over\n")
        }
        None => format!("{names} in order: {why}\n"),
        Some(TaskSize { samples, .. }) if plan.reduces() => format!(
            "{names} in tasks of up to {samples} samples{each}{more}, whose partial results are combined in order\n"
        ),
        Some(TaskSize { samples, .. }) => {
            format!(
                "{names} in tasks of up to {samples} samples{each}{more}, then in order: {why}\n"
            )
        }
    }
}

/// A chain is written by operator names; a branching subgraph as several chains, with the operators' numbers.
fn operator_names(plan: &SubgraphPlan, graph: &Graph) -> String {
    let mut consumers = vec![Vec::new(); plan.nodes.len()];
    for (position, one) in plan.nodes.iter().enumerate() {
        for &(from, _) in &one.inputs {
            consumers[from].push(position);
        }
    }
    let times = |name: &str, count: usize| format!("{name} ({count} times)");
    let name = |position: usize| graph.nodes[plan.nodes[position].node].op.name();
    let follows = |position: usize, from: usize| plan.nodes[position].inputs == [(from, 0)];
    let is_chain = (1..plan.nodes.len()).all(|position| follows(position, position - 1));
    if is_chain {
        let names = (0..plan.nodes.len()).map(|position| name(position).to_owned());
        return abridged(names, times, "operators").join(" -> ");
    }
    let numbered = |position: usize| format!("{} {}", plan.nodes[position].node, name(position));
    let mut chains: Vec<String> = Vec::new();
    let mut written = vec![false; plan.nodes.len()];
    for first in 0..plan.nodes.len() {
        if std::mem::replace(&mut written[first], true) {
            continue;
        }
        let from = plan.nodes[first].inputs.iter();
        let from: Vec<String> = from
            .map(|&(from, _)| plan.nodes[from].node.to_string())
            .collect();
        let mut chain = match from.is_empty() {
            true => numbered(first),
            false => format!("{} -> {}", from.join(" and "), numbered(first)),
        };
        let mut last = first;
        while let [next] = consumers[last][..]
            && follows(next, last)
        {
            written[next] = true;
            chain += &format!(" -> {}", numbered(next));
            last = next;
        }
        chains.push(chain);
    }
    abridged(chains.into_iter(), times, "chains").join(", ")
}

/// Where each operator works that holds code of this process, and why. `spread`: the nodes that run in tasks.
pub(crate) fn placements(graph: &Graph, options: &RunOptions<'_>, spread: &[usize]) -> Vec<String> {
    let place = |at: usize| {
        let node = &graph.nodes[at];
        let Op::Factory(kept) = &node.op else {
            return None;
        };
        let label = kept.0.label();
        match kept.0.parallelism(options) {
            Parallelism::Workers(how) if spread.contains(&at) => Some(format!("{label} {how}")),
            Parallelism::Workers(_) => Some(format!(
                "{label} in the caller's thread: it is in no chain that is done in tasks"
            )),
            Parallelism::CallingThread(why) if node.bound.needs == Resource::Interpreter => {
                Some(format!("{label} in the caller's thread: it {why}"))
            }
            Parallelism::CallingThread(_) => None,
        }
    };
    (0..graph.nodes.len()).filter_map(place).collect()
}
