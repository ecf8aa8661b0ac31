//! The stages of a plan. Pure; takes time in proportion to the operators, times at most [`MAX_ENTRIES`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::stage_costs::{computes_much, costs_ns};
use crate::KeyReplicas;
use crate::engine::RunOptions;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::scheduler::task_contract::placements;

/// Part of the memory budget for all links.
const LINK_MEMORY_FRACTION: u64 = 16;
/// Stages and replicas, together.
pub(super) const MAX_ENTRIES: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StagePlan {
    /// Nodes of each stage, in plan order. The last stage is executed in the caller's thread.
    pub(super) stages: Vec<Vec<usize>>,
    pub(super) stage_of: Vec<usize>,
    /// Stages without inputs that each depends on, as bits.
    pub(super) roots: Vec<u64>,
    /// Sources that call Python: the caller's thread executes them when otherwise idle.
    pub(super) caller_sources: Option<usize>,
    pub(super) replication: Vec<Replication>,
    /// Of the cells of a feed, as tasks would have them; None: as its operators need.
    pub(super) cell_samples: Vec<Option<u64>>,
    /// Stages whose sources are read block by block.
    pub(super) by_block: Vec<bool>,
    /// Stages whose operators cannot be cut apart, and why.
    pub(super) uncut: Vec<(usize, &'static str)>,
}

/// How the input of a stage is cut for replicas, if it can have any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replication {
    None,
    /// Anywhere: the bits do not depend on cuts.
    Blocks,
    /// In cells of fixed length: it settles, within the granted tolerance. One replica also computes cells.
    Cells,
    /// Not at all: one replica reads it, and others help with operators that keep something for each key
    /// ([`stage_helpers`](super::stage_helpers)).
    Keys,
}

/// Whether it is worth sharing a node's work by key.
pub(super) fn divides_much(node: &GraphNode, expected_ns: f64) -> bool {
    node.properties.by_key == KeyReplicas::Possible && computes_much(expected_ns)
}

/// Why work of some operators is not shared by key.
fn not_by_key(graph: &Graph, stage: &[usize], expected: &[f64]) -> String {
    let reasons = stage.iter().filter_map(|&node| {
        let why = match graph.nodes[node].properties.by_key {
            KeyReplicas::NoKeys => return None,
            KeyReplicas::Possible if computes_much(expected[node]) => return None,
            KeyReplicas::Possible => "it has few rows",
            KeyReplicas::Useless(why) => why,
        };
        let name = graph.nodes[node].op.name();
        Some(format!("; one replica of {name}: {why}"))
    });
    reasons.collect()
}

/// Whether a plan reads live or generated samples: only then blocks are worth sending to another host.
pub(super) fn reads_feed(graph: &Graph) -> bool {
    graph.nodes.iter().any(GraphNode::is_feed)
}

/// Sources between which stages wait for one alone.
struct WaitGroup {
    roots: u64,
    readers: BTreeSet<usize>,
    /// What each of these stages reads: a stage and edges.
    links: Vec<(usize, Vec<Edge>)>,
    is_cyclic: bool,
}

impl StagePlan {
    pub(super) fn link_capacity(options: &RunOptions<'_>, links: usize) -> u64 {
        Self::max_link_capacity(options, links).min(options.stages.link_bytes)
    }

    pub(super) fn max_link_capacity(options: &RunOptions<'_>, links: usize) -> u64 {
        options.memory / LINK_MEMORY_FRACTION / links.max(1) as u64
    }

    /// Both stages and the edge, in plan order.
    pub(super) fn cut_edges(&self, graph: &Graph) -> BTreeSet<(usize, usize, Edge)> {
        let mut edges = BTreeSet::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            for &edge in &node.inputs {
                let (from, to) = (self.stage_of[edge.0], self.stage_of[at]);
                if from != to {
                    edges.insert((from, to, edge));
                }
            }
        }
        edges
    }

    pub(super) fn inputs_of_last(&self, graph: &Graph) -> usize {
        let (last, edges) = (self.stages.len() - 1, self.cut_edges(graph));
        let into = edges.iter().filter(|&&(_, to, _)| to == last);
        into.map(|&(from, ..)| from).collect::<BTreeSet<_>>().len()
    }

    pub(super) fn share_roots(&self, one: usize, other: usize) -> bool {
        self.roots[one] & self.roots[other] != 0
    }

    /// Stages that depend on the same source and from which a stage with a fan-in reads: it may wait for none alone, so
    /// queues could pile up.
    pub(super) fn piling_up(&self, graph: &Graph) -> Option<BTreeSet<usize>> {
        let mut entering: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.stages.len()];
        for (from, to, _) in self.cut_edges(graph) {
            entering[to].insert(from);
        }
        let meets = |nodes: &Vec<usize>| nodes.iter().any(|&at| graph.nodes[at].inputs.len() > 1);
        let mut stages = self.stages.iter().zip(&entering);
        stages.find_map(|(nodes, from)| {
            from.iter().find_map(|&one| {
                let shares = |&&other: &&usize| self.share_roots(one, other);
                let sharing: BTreeSet<usize> = from.iter().filter(shares).copied().collect();
                (sharing.len() > 1 && meets(nodes)).then_some(sharing)
            })
        })
    }

    /// Stages that could wait for each other in a cycle: one waits for a source alone while a link from another source
    /// is full, a second the other way round. That takes two paths between the same sources through such stages. Stages
    /// that all read the same edges agree on which source lags behind.
    pub(super) fn waiting_in_a_cycle(&self, graph: &Graph) -> Option<BTreeSet<usize>> {
        let mut entering: Vec<BTreeMap<usize, Vec<Edge>>> =
            vec![BTreeMap::new(); self.stages.len()];
        for (from, to, edge) in self.cut_edges(graph) {
            entering[to].entry(from).or_default().push(edge);
        }
        let mut all: Vec<WaitGroup> = Vec::new();
        for (to, links) in entering.into_iter().enumerate() {
            let is_alone = |from: usize| {
                let mut others = links.keys().filter(|&&other| other != from);
                !others.any(|&other| self.share_roots(other, from))
            };
            let (alone, together): (Vec<usize>, Vec<usize>) =
                links.keys().partition(|&&from| is_alone(from));
            if links.len() < 2 || alone.is_empty() {
                continue;
            }
            let mut parts: Vec<u64> = alone.iter().map(|&from| self.roots[from]).collect();
            parts.push(
                together
                    .iter()
                    .fold(0, |roots, &from| roots | self.roots[from]),
            );
            let mut group = WaitGroup {
                roots: parts.iter().fold(0, |roots, part| roots | part),
                readers: BTreeSet::from([to]),
                links: links.into_iter().collect(),
                is_cyclic: false,
            };
            let (connected, others) = all
                .into_iter()
                .partition(|other: &WaitGroup| other.roots & group.roots != 0);
            all = others;
            for other in connected {
                let parts = parts.iter().filter(|&part| part & other.roots != 0);
                group.is_cyclic |= other.is_cyclic || parts.count() > 1;
                group.roots |= other.roots;
                group.readers.extend(other.readers);
                group.links.extend(other.links);
            }
            all.push(group);
        }
        let mut all = all.into_iter();
        let group = all.find(|group| group.is_cyclic && !self.agree(&group.links))?;
        Some(group.readers)
    }

    /// With all that lies on paths between them.
    pub(super) fn with_between(&self, graph: &Graph, stages: &BTreeSet<usize>) -> BTreeSet<usize> {
        let edges = self.cut_edges(graph);
        let reaches = |is_next: &dyn Fn(usize, usize) -> (usize, usize)| {
            let mut found = stages.clone();
            loop {
                let next = edges.iter().find_map(|&(from, to, _)| {
                    let (near, far) = is_next(from, to);
                    (found.contains(&near) && !found.contains(&far)).then_some(far)
                });
                match next {
                    Some(next) => found.insert(next),
                    None => return found,
                };
            }
        };
        let behind = reaches(&|from, to| (from, to));
        let before = reaches(&|from, to| (to, from));
        behind.intersection(&before).copied().collect()
    }

    fn agree(&self, links: &[(usize, Vec<Edge>)]) -> bool {
        let mut links = links.iter().enumerate();
        let all = links.clone();
        links.all(|(at, (from, edges))| {
            let mut later = all.clone().skip(at + 1);
            edges.len() == 1
                && later
                    .all(|(_, (other, others))| !self.share_roots(*from, *other) || edges == others)
        })
    }

    /// By stage, its replicas in the queue.
    pub(super) fn entries(&self, workers: usize) -> Vec<Range<usize>> {
        let mut spare = MAX_ENTRIES.saturating_sub(self.stages.len());
        let mut next = 0;
        let entries = self.replication.iter().map(|&replication| {
            let more = if replication != Replication::None {
                workers.saturating_sub(1).min(spare)
            } else {
                0
            };
            spare -= more;
            let first = next;
            next += 1 + more;
            first..next
        });
        entries.collect()
    }

    /// The entries that read and write a stage's links; those of its helpers come before.
    pub(super) fn computing(&self, entries: &[Range<usize>]) -> Vec<Range<usize>> {
        let both = self.replication.iter().zip(entries);
        let own = both.map(|(replication, entries)| match replication {
            Replication::Keys => entries.end - 1..entries.end,
            _ => entries.clone(),
        });
        own.collect()
    }

    /// By stage: operators, and how many of its replicas compute all of them.
    pub(crate) fn operators_and_replicas(
        &self,
        workers: usize,
    ) -> impl Iterator<Item = (&[usize], usize)> {
        let entries = self.computing(&self.entries(workers));
        let stages = self.stages.iter().zip(entries);
        stages.map(|(operators, entries)| (&operators[..], entries.len()))
    }

    /// The operator of a stage whose work replicas share by key, and that has most of it.
    pub(super) fn divided_node(&self, stage: usize, graph: &Graph, expected: &[f64]) -> usize {
        let nodes = self.stages[stage].iter().copied();
        let nodes = nodes.filter(|&node| divides_much(&graph.nodes[node], expected[node]));
        let most = nodes.max_by(|&one, &other| expected[one].total_cmp(&expected[other]));
        most.unwrap_or(self.stages[stage][0])
    }

    /// What slots of a cluster compute of a plan that reads a feed; None without a feed.
    pub(crate) fn cluster_line(&self, graph: &Graph, workers: usize) -> Option<String> {
        if !reads_feed(graph) {
            return None;
        }
        let entries = self.entries(workers);
        let mut stages = self.replication.iter().zip(&entries).enumerate();
        let stages = stages.by_ref().filter(|(_, (replication, entries))| {
            **replication == Replication::Blocks && entries.len() > 1
        });
        let stages: Vec<String> = stages.map(|(at, _)| at.to_string()).collect();
        Some(match &stages[..] {
            [] => "on a cluster: all in this process, since no stage has replicas".to_owned(),
            stages => format!(
                "on a cluster: its workers compute blocks of stage {}",
                stages.join(", ")
            ),
        })
    }

    /// Where factory operators work: those that the user chose workers for, in other threads.
    pub(crate) fn placements(&self, graph: &Graph, options: &RunOptions<'_>) -> Vec<String> {
        let (_, others) = self.stages.split_last().unwrap_or((&self.stages[0], &[]));
        placements(graph, options, &others.concat())
    }

    pub(crate) fn lines(&self, graph: &Graph, options: &RunOptions<'_>) -> Vec<String> {
        let entries = self.entries(options.workers);
        let expected = costs_ns(graph, options);
        let how = match options.cut_rule.is_some_and(|rule| rule.costs_ns.is_some()) {
            true => "measured",
            false => "expected",
        };
        let all: f64 = expected.iter().sum();
        let last = self.stages.len() - 1;
        let stages = self.stages.iter().enumerate();
        let lines = stages.map(|(at, stage)| {
            let names = stage.iter().map(|&node| graph.nodes[node].op.name());
            let names = super::super::explain::joined(names);
            let place = match at == last || Some(at) == self.caller_sources {
                true => ", in the caller's thread",
                false => "",
            };
            let how_many = match (entries[at].len(), self.replication[at]) {
                (1, _) => String::new(),
                (replicas, Replication::Keys) => {
                    let node = self.divided_node(at, graph, &expected);
                    format!(
                        ", {replicas} replicas by key of {}",
                        graph.nodes[node].op.name()
                    )
                }
                (replicas, _) => format!(", {replicas} replicas"),
            };
            let own: f64 = stage.iter().map(|&node| expected[node]).sum();
            let share = (100.0 * own / all.max(f64::MIN_POSITIVE)).round();
            let mut uncut = self.uncut.iter().filter(|&&(stage, _)| stage == at);
            let why = uncut.next().map(|(_, why)| format!("; not cut: {why}"));
            let why = why.unwrap_or_default();
            let in_one = match options.workers {
                0 | 1 => String::new(),
                _ => not_by_key(graph, stage, &expected),
            };
            format!(
                "stage {at}: {names}{place}{how_many}, {how} to take {share}% of the time{why}{in_one}"
            )
        });
        lines.collect()
    }
}
