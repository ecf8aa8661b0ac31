//! Describes a plan for [`Plan::explain`]: as written, how it is rewritten, and how it will run.
//!
//! The text stays readable, and its length bounded, however many operators a plan has: repeated entries are counted,
//! long lists show their beginning and end, and long entries are cut.

use crate::Plan;
use crate::optimiser::optimise;
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::scheduler;

/// Entries alike in a row from which on they are written once, with their number.
const REPEATED: usize = 8;
/// Entries of a list that are all written.
const LISTED: usize = 100;
/// Of a longer list, those that are written at either end.
const AT_ENDS: usize = 40;
/// Characters of an entry.
const ENTRY: usize = 4000;

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Cuts a long text; says how long it is.
fn cut(text: String) -> String {
    match text.char_indices().nth(ENTRY) {
        None => text,
        Some((at, _)) => format!("{} ... ({} bytes in all)", &text[..at], text.len()),
    }
}

/// Entries in bounded length: `times` writes one that comes so many times in a row, `what` names them where some are left
/// out.
pub(crate) fn abridged(
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
    let mut left_out = 0;
    if runs.len() > LISTED {
        let middle = runs.drain(AT_ENDS..runs.len() - AT_ENDS);
        left_out = middle.map(|(_, count)| count).sum();
    }
    let mut written = Vec::with_capacity(runs.len());
    for (at, (entry, count)) in runs.into_iter().enumerate() {
        if at == AT_ENDS && left_out > 0 {
            written.push(format!("... {left_out} more {what} ..."));
        }
        let entry = cut(entry);
        if count < REPEATED {
            written.extend(std::iter::repeat_n(entry, count));
        } else {
            written.push(times(&entry, count));
        }
    }
    written
}

/// A graph as it prints, in bounded length.
fn shown(graph: &Graph) -> String {
    let times = |entry: &str, count: usize| format!("{entry} ({count} times)");
    match graph.as_chain() {
        Some(labels) => abridged(labels, times, "operators").join(" -> "),
        None => abridged(graph.lines(), times, "operators").join("\n"),
    }
}

/// What comes out of each node and how it may be run, a line each; nodes alike in a row on one.
fn nodes(graph: &Graph) -> String {
    let line = |at: usize| {
        let node = &graph.nodes[at];
        let types: Vec<String> = node.bound.outputs.iter().map(ToString::to_string).collect();
        let (name, contract) = (node.op.name(), node.bound.contract);
        format!("{name}: {}; {contract:?}", types.join(", "))
    };
    let mut text = String::new();
    let mut at = 0;
    let mut lines = Vec::new();
    while at < graph.nodes.len() {
        let first = line(at);
        let alike = (at + 1..graph.nodes.len()).take_while(|&next| line(next) == first);
        let count = 1 + alike.count();
        if count < REPEATED {
            lines.push(format!("{at} {first}"));
            at += 1;
        } else {
            lines.push(format!("{at} to {} {first}", at + count - 1));
            at += count;
        }
    }
    for line in abridged(lines.into_iter(), |line, _| line.into(), "operators") {
        text += &format!("  {line}\n");
    }
    text
}

impl Plan {
    /// The plan as written and as it will run, and which rewrites lie between; reads nothing. Of plans of very many
    /// operators some are left out.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut graph = Graph::new(self);
        let mut text = format!("plan\n{}\n", indent(&shown(&graph)));
        let times = |what: &str, count: usize| format!("{what} ({count} times)");
        for what in abridged(optimise(&mut graph).into_iter(), times, "rewrites") {
            text += &format!("rewrite\n{}\n", indent(&what));
        }
        text += &format!("runs as\n{}\n", indent(&shown(&graph)));
        text += &nodes(&graph);
        text += &format!(
            "on several workers\n{}\n",
            indent(&scheduler::explain(&graph))
        );
        let reads = graph.nodes.iter().filter_map(|node| match &node.op {
            Op::Scan {
                recording, range, ..
            } => recording.0.reads(range.clone()),
            _ => None,
        });
        let reads = abridged(reads, times, "recordings");
        if !reads.is_empty() {
            text += &format!("reads\n{}\n", indent(&reads.join("\n")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(entries: impl Iterator<Item = String>) -> Vec<String> {
        abridged(entries, |one, count| format!("{one} x {count}"), "things")
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
    fn long_entries_are_cut_between_characters() {
        let long = shortened(std::iter::once("µ".repeat(10_000)));
        assert!(long[0].ends_with(" ... (20000 bytes in all)"));
        assert!(long[0].len() < 9000);
    }
}
