//! What workers would do of a graph, in words.

use super::forest::trees;
use super::places::places;
use super::size::TaskSize;
use super::tree::Tree;
use crate::Reach;
use crate::exec::RunOptions;
use crate::graph::Graph;

/// What workers would do of a graph, and why not more.
pub(crate) fn explain(graph: &Graph) -> String {
    let options = RunOptions {
        workers: 2,
        ..RunOptions::default()
    };
    let trees = trees(graph, &options);
    let lines = trees.iter().map(|tree| line(tree, graph));
    let spread = trees
        .iter()
        .filter(|tree| tree.task(graph, &options).is_some());
    let spread = spread.flat_map(|tree| tree.taken.iter().map(|one| one.node));
    let places = places(graph, &options, &spread.collect::<Vec<_>>()).into_iter();
    lines.chain(places.map(|place| place + "\n")).collect()
}

fn line(tree: &Tree, graph: &Graph) -> String {
    let names = names(tree, graph);
    let Reach { before, after } = tree.reach;
    let more = match tree.cutoffs.is_empty() {
        true => String::new(),
        false => format!(", read with {before} before and {after} behind them"),
    };
    let why = tree.why.join("; ");
    let each = if tree.scans.len() > 1 {
        " of each scan"
    } else {
        ""
    };
    match tree.task(graph, &RunOptions::default()) {
        None if tree.gathers() => {
            format!("{names} in order: it is done sooner than handed over\n")
        }
        None => format!("{names} in order: {why}\n"),
        Some(TaskSize { samples, .. }) if tree.gathers() => format!(
            "{names} in tasks of up to {samples} samples{each}{more}, whose partial results are combined in order\n"
        ),
        Some(TaskSize { samples, .. }) => {
            format!(
                "{names} in tasks of up to {samples} samples{each}{more}, then in order: {why}\n"
            )
        }
    }
}

/// A chain by its names; what branches as chains, by names and the numbers that operators have in the graph.
fn names(tree: &Tree, graph: &Graph) -> String {
    let mut takers = vec![Vec::new(); tree.taken.len()];
    for (place, one) in tree.taken.iter().enumerate() {
        for &(from, _) in &one.inputs {
            takers[from].push(place);
        }
    }
    let name = |place: usize| graph.nodes[tree.taken[place].node].op.name();
    let follows = |place: usize, from: usize| tree.taken[place].inputs == [(from, 0)];
    let is_chain = (1..tree.taken.len()).all(|place| follows(place, place - 1));
    if is_chain {
        let names: Vec<_> = (0..tree.taken.len()).map(name).collect();
        return names.join(" -> ");
    }
    let numbered = |place: usize| format!("{} {}", tree.taken[place].node, name(place));
    let mut chains: Vec<String> = Vec::new();
    let mut written = vec![false; tree.taken.len()];
    for first in 0..tree.taken.len() {
        if std::mem::replace(&mut written[first], true) {
            continue;
        }
        let from = tree.taken[first].inputs.iter();
        let from: Vec<String> = from
            .map(|&(from, _)| tree.taken[from].node.to_string())
            .collect();
        let mut chain = match from.is_empty() {
            true => numbered(first),
            false => format!("{} -> {}", from.join(" and "), numbered(first)),
        };
        let mut last = first;
        while let [next] = takers[last][..]
            && follows(next, last)
        {
            written[next] = true;
            chain += &format!(" -> {}", numbered(next));
            last = next;
        }
        chains.push(chain);
    }
    chains.join(", ")
}
