//! Renders a plan for [`Plan::explain`]: as written, its rewrites, operators in tasks and their sizes, and why others
//! are not. The length is bounded.

use super::auto_workers::{self, WorkerChoice};
use super::measured_costs::measured_costs;
use super::remote::collecting;
use super::scan_groups::{self, subgraph_plans};
use super::stages::{StagePlan, choose_cuts};
use super::subgraph::SubgraphPlan;
use super::task_contract::placements;
use super::task_sizes::TaskSize;
use crate::engine::{PlanCuts, RunOptions};
use crate::optimiser::{SkipOutcome, optimise, skip_unmatched};
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::{Contract, Plan, PortType, PortionOverlap};

const MIN_COLLAPSED: usize = 8;
const MAX_LISTED: usize = 100;
const LISTED_PER_END: usize = 40;
const MAX_ENTRY_CHARS: usize = 4000;

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn truncate(text: String) -> String {
    match text.char_indices().nth(MAX_ENTRY_CHARS) {
        None => text,
        Some((at, _)) => format!("{} ... ({} bytes in all)", &text[..at], text.len()),
    }
}

/// `times` writes a repeated entry, `what` names omitted ones.
fn abridge(
    entries: impl Iterator<Item = String>,
    times: impl Fn(&str, usize) -> String,
    what: &str,
) -> Vec<String> {
    let mut runs: Vec<(String, usize)> = Vec::new();
    for entry in entries {
        match runs.last_mut() {
            Some((last, count)) if *last == entry => *count += 1,
            _ => runs.push((entry, 1)),
        }
    }
    let mut omitted = 0;
    if runs.len() > MAX_LISTED {
        let middle = runs.drain(LISTED_PER_END..runs.len() - LISTED_PER_END);
        omitted = middle.map(|(_, count)| count).sum();
    }
    let mut written = Vec::with_capacity(runs.len());
    for (at, (entry, count)) in runs.into_iter().enumerate() {
        if at == LISTED_PER_END && omitted > 0 {
            written.push(format!("... {omitted} more {what} ..."));
        }
        let entry = truncate(entry);
        if count < MIN_COLLAPSED {
            written.extend(std::iter::repeat_n(entry, count));
        } else {
            written.push(times(&entry, count));
        }
    }
    written
}

fn render_graph(graph: &Graph) -> String {
    let times = |entry: &str, count: usize| format!("{entry} ({count} times)");
    match graph.as_chain() {
        Some(labels) => abridge(labels, times, "operators").join(" -> "),
        None => abridge(graph.lines(), times, "operators").join("\n"),
    }
}

/// What an operator needs around a portion of its input. `unit`: what its counts are in.
fn describe_contract(contract: Contract, unit: &str) -> String {
    match contract {
        Contract::Stateless => "stateless".into(),
        Contract::Overlap { before, after } => {
            format!("overlap of {before} {unit} before and {after} after")
        }
        Contract::Lookahead { after } => format!("lookahead of {after} {unit}"),
        Contract::Settling { before, rel_err } => {
            format!("settles after {before} {unit} (relative error {rel_err:e})")
        }
        Contract::Reducible => "reducible".into(),
        Contract::Sequential => "sequential".into(),
    }
}

fn render_nodes(graph: &Graph) -> String {
    let line = |at: usize| {
        let node = &graph.nodes[at];
        let types: Vec<String> = node
            .properties
            .outputs
            .iter()
            .map(ToString::to_string)
            .collect();
        let input = node.inputs.first();
        let input =
            input.map(|&(from, port)| &graph.nodes[from].properties.outputs[usize::from(port)]);
        let unit = match input {
            Some(PortType::Frames { .. }) => "windows",
            _ => "samples",
        };
        let (name, contract) = (node.op.name(), node.properties.contract);
        let contract = describe_contract(contract, unit);
        format!("{name}: {}; {contract}", types.join(", "))
    };
    let mut text = String::new();
    let mut at = 0;
    let mut lines = Vec::new();
    while at < graph.nodes.len() {
        let first = line(at);
        let alike = (at + 1..graph.nodes.len()).take_while(|&next| line(next) == first);
        let count = 1 + alike.count();
        if count < MIN_COLLAPSED {
            lines.push(format!("{at} {first}"));
            at += 1;
        } else {
            lines.push(format!("{at} to {} {first}", at + count - 1));
            at += count;
        }
    }
    for line in abridge(lines.into_iter(), |line, _| line.into(), "operators") {
        text += &format!("  {line}\n");
    }
    text
}

/// `collected`: as for [`explain_tasks`].
fn explain_workers(collected: &Graph) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = RunOptions {
        workers: cores.max(2),
        ..RunOptions::default()
    };
    // An unreadable recording is an error of the run, not of `explain`.
    let choice = auto_workers::choose(collected, &options);
    let why = match choice.unwrap_or(WorkerChoice::Several(PlanCuts::Any)) {
        WorkerChoice::One(why) => why,
        WorkerChoice::Several(PlanCuts::Any) => {
            return "by default a worker for each core\n".to_owned();
        }
        WorkerChoice::Several(cuts) => {
            let options = RunOptions { cuts, ..options };
            match StagePlan::of(collected, &options) {
                Err(why) if !options.allows_settling() => why.to_owned(),
                _ => {
                    return "by default a worker for each core, once the caller's thread is busy\n"
                        .to_owned();
                }
            }
        }
    };
    format!("by default one worker: {why}\n")
}

/// `collected`: the plan with what gathers its results, which stages contain.
fn explain_tasks(graph: &Graph, collected: &Graph, options: &RunOptions<'_>) -> String {
    let of_collected = scan_groups::subgraph_plans(collected, options);
    let costs = measured_costs();
    let rule = costs.and_then(|costs| choose_cuts(collected, options, &costs, &of_collected));
    let declared = options;
    let options = &RunOptions {
        cut_rule: rule.as_ref(),
        ..*options
    };
    let subgraph_plans = subgraph_plans(graph, options);
    if let Some(stages) = StagePlan::instead_of_tasks(collected, options, &of_collected) {
        let lines = stages.lines(collected, options);
        let placements = stages.placements(collected, options);
        let as_declared = StagePlan::instead_of_tasks(collected, declared, &of_collected);
        let other = other_cuts(&stages, as_declared.as_ref(), collected);
        let all = lines.into_iter().chain(other).chain(placements);
        return all.map(|line| line + "\n").collect();
    }
    let lines = subgraph_plans.iter().map(|plan| describe(plan, graph));
    let spread = subgraph_plans
        .iter()
        .filter(|plan| plan.task_size(graph, options).is_some());
    let spread = spread.flat_map(|plan| plan.nodes.iter().map(|one| one.node));
    let spread: Vec<usize> = spread.collect();
    let (stages, placements) = match spread.is_empty() {
        true => explain_stages(collected, options, declared),
        false => (String::new(), placements(graph, options, &spread)),
    };
    let placements = placements.into_iter().map(|placement| placement + "\n");
    lines.chain([stages]).chain(placements).collect()
}

/// Cuts of runs that keep the declared ones, if these are others.
fn other_cuts(
    measured: &StagePlan,
    as_declared: Option<&StagePlan>,
    graph: &Graph,
) -> Option<String> {
    let cuts = |plan: &StagePlan| -> Vec<String> {
        let stages = plan.operators_and_replicas(1);
        let names =
            stages.map(|(nodes, _)| joined(nodes.iter().map(|&node| graph.nodes[node].op.name())));
        names.collect()
    };
    let declared = as_declared.map(cuts).unwrap_or_default();
    let times = |stage: &str, count: usize| format!("{stage} ({count} times)");
    (declared != cuts(measured)).then(|| {
        let stages = match declared.is_empty() {
            true => "not in these stages".into(),
            false => abridge(declared.into_iter(), times, "stages").join(" | "),
        };
        format!("as declared, with control=, or with a stated workers= and no tune=: {stages}")
    })
}

fn explain_stages(
    graph: &Graph,
    options: &RunOptions<'_>,
    declared: &RunOptions<'_>,
) -> (String, Vec<String>) {
    match StagePlan::of(graph, options) {
        Ok(plan) => {
            let mut lines = plan.lines(graph, options);
            if options.cut_rule.is_some() {
                let as_declared = StagePlan::of(graph, declared).ok();
                lines.extend(other_cuts(&plan, as_declared.as_ref(), graph));
            }
            let on_cluster = RunOptions {
                has_slots: true,
                cut_rule: None,
                ..*options
            };
            let on_cluster = StagePlan::of(graph, &on_cluster).ok();
            lines.extend(on_cluster.and_then(|plan| plan.cluster_line(graph, options.workers)));
            (lines.join("\n") + "\n", plan.placements(graph, options))
        }
        Err(why) => (
            format!("in one stage: {why}\n"),
            placements(graph, options, &[]),
        ),
    }
}

fn describe(plan: &SubgraphPlan, graph: &Graph) -> String {
    let names = operator_names(plan, graph);
    let PortionOverlap { before, after } = plan.overlap;
    let more = match plan.trims.is_empty() {
        true => String::new(),
        false => format!(", read with {before} before and {after} after them"),
    };
    let why = plan.reasons.join("; ");
    let each = match (plan.scans.len() > 1, plan.decodes(graph)) {
        (true, true) => " of each scan, decoded there",
        (true, false) => " of each scan",
        (false, true) => ", decoded there",
        (false, false) => "",
    };
    match plan.task_size(graph, &RunOptions::default()) {
        None if plan.reduces() => {
            format!("{names} in order: it takes less time than passing its results\n")
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

pub(super) fn joined(names: impl Iterator<Item = &'static str>) -> String {
    let times = |name: &str, count: usize| format!("{name} ({count} times)");
    abridge(names.map(str::to_owned), times, "operators").join(" -> ")
}

/// A branching subgraph becomes several chains with node numbers.
fn operator_names(plan: &SubgraphPlan, graph: &Graph) -> String {
    let mut consumers = vec![Vec::new(); plan.nodes.len()];
    for (position, one) in plan.nodes.iter().enumerate() {
        for &(from, _) in &one.inputs {
            consumers[from].push(position);
        }
    }
    let name = |position: usize| graph.nodes[plan.nodes[position].node].op.name();
    let follows = |position: usize, from: usize| plan.nodes[position].inputs == [(from, 0)];
    let is_chain = (1..plan.nodes.len()).all(|position| follows(position, position - 1));
    if is_chain {
        return joined((0..plan.nodes.len()).map(name));
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
    let times = |chain: &str, count: usize| format!("{chain} ({count} times)");
    abridge(chains.into_iter(), times, "chains").join(", ")
}

impl Plan {
    /// The plan as written, its rewrites, and how it will run. Reads nothing; shortens very large plans.
    #[must_use]
    pub fn explain(&self) -> String {
        self.explain_for(2)
    }

    /// As [`explain`](Self::explain), with so many workers, at least 2, where it runs on several.
    #[must_use]
    pub fn explain_for(&self, workers: usize) -> String {
        let options = RunOptions {
            workers: workers.max(2),
            ..RunOptions::default()
        };
        let mut graph = Graph::new(self);
        let mut text = format!("plan\n{}\n", indent(&render_graph(&graph)));
        let times = |what: &str, count: usize| format!("{what} ({count} times)");
        let mut done = optimise(&mut graph);
        let mut not_done = Vec::new();
        for skipping in skip_unmatched(&mut graph) {
            match skipping {
                SkipOutcome::Done(what) => done.push(what),
                SkipOutcome::NotDone(why) => not_done.push(why),
            }
        }
        for what in abridge(done.into_iter(), times, "rewrites") {
            text += &format!("rewrite\n{}\n", indent(&what));
        }
        for why in abridge(not_done.into_iter(), times, "filters") {
            text += &format!("no skipping\n{}\n", indent(&why));
        }
        text += &format!("runs as\n{}\n", indent(&render_graph(&graph)));
        text += &render_nodes(&graph);
        let collected = self.collected(&graph);
        text += &explain_workers(&collected);
        let tasks = explain_tasks(&graph, &collected, &options);
        text += &format!("on several workers\n{}\n", indent(&tasks));
        let predicted = super::prediction::lines(&graph);
        text += &format!("predicted\n{}\n", indent(&predicted.join("\n")));
        let reads = graph.nodes.iter().filter_map(|node| match &node.op {
            Op::Scan {
                recording, range, ..
            } => recording.0.reads(range.clone()),
            _ => None,
        });
        let reads = abridge(reads, times, "recordings");
        if !reads.is_empty() {
            text += &format!("reads\n{}\n", indent(&reads.join("\n")));
        }
        text
    }
}

impl Plan {
    /// What `collect` executes. A plan that ends in user code of the caller's thread is run for its effects.
    fn collected(&self, graph: &Graph) -> Graph {
        let output = graph
            .outputs
            .first()
            .map(|&(node, _)| &graph.nodes[node].op);
        if matches!(output, Some(Op::Factory(factory)) if !factory.0.prefers_workers()) {
            return graph.clone();
        }
        let mut collected = Graph::of(&collecting(std::slice::from_ref(self)));
        optimise(&mut collected);
        skip_unmatched(&mut collected);
        collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(entries: impl Iterator<Item = String>) -> Vec<String> {
        abridge(entries, |one, count| format!("{one} x {count}"), "things")
    }

    #[test]
    fn few_entries_are_written_as_they_are() {
        let few = ["a", "a", "b"].map(String::from);
        assert_eq!(shortened(few.clone().into_iter()), few);
    }

    #[test]
    fn repeated_entries_are_counted_and_long_lists_have_two_ends() {
        let same = (0..5000).map(|_| "map".to_owned());
        assert_eq!(shortened(same), ["map x 5000"]);
        let all = shortened((0..5000).map(|at| at.to_string()));
        assert_eq!(all.len(), 81);
        assert_eq!((&*all[0], &*all[39]), ("0", "39"));
        assert_eq!(all[40], "... 4920 more things ...");
        assert_eq!((&*all[41], &*all[80]), ("4960", "4999"));
    }

    #[test]
    fn contracts_are_described_in_words() {
        let settling = Contract::Settling {
            before: 132,
            rel_err: 1e-9,
        };
        let overlap = Contract::Overlap {
            before: 3,
            after: 2,
        };
        for (contract, text) in [
            (Contract::Stateless, "stateless"),
            (overlap, "overlap of 3 windows before and 2 after"),
            (Contract::Lookahead { after: 9 }, "lookahead of 9 windows"),
            (settling, "settles after 132 windows (relative error 1e-9)"),
            (Contract::Reducible, "reducible"),
            (Contract::Sequential, "sequential"),
        ] {
            assert_eq!(describe_contract(contract, "windows"), text);
        }
    }

    #[test]
    fn long_entries_are_cut_between_characters() {
        let long = shortened(std::iter::once("µ".repeat(10_000)));
        assert!(long[0].ends_with(" ... (20000 bytes in all)"));
        assert!(long[0].len() < 9000);
    }
}
