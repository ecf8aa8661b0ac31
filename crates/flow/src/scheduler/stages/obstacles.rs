//! Operators that must stay in one stage, since cuts between them would show or could not work. Pure.
//!
//! The rest of a plan, and what is connected with none of them, is cut all the same.

use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{Alignment, Resource};

/// More sources than this take more time in stages: for each item the reader of a link asks all streams that share it.
/// Measured, a low-pass each: 64 gain nothing, 256 take twice as long as one thread, a thousand 30 times.
const MAX_SOURCES: usize = 128;

const LOOP: &str = "it has a loop, and the operators of a loop wait for each other";
const CALLED_TOO_OFTEN: &str =
    "something may end early, and the source's function would be called for more than that needs";
const DEPENDS_ON_ORDER: &str =
    "something may end early, and what it gives depends on the order in which sources are read";
const MANY_SOURCES: &str = "it has more sources than can share a few links at little cost";

/// Operators of one stage.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BoundGroup {
    pub(super) why: &'static str,
    /// Only the caller's thread executes it.
    pub(super) in_caller: bool,
    /// Its sources are read block by block, as in one thread.
    pub(super) by_block: bool,
}

pub(super) struct Obstacles {
    pub(super) groups: Vec<BoundGroup>,
    /// By node.
    pub(super) group_of: Vec<Option<usize>>,
}

/// Sets of nodes.
struct NodeSets(Vec<usize>);

impl NodeSets {
    fn new(nodes: usize) -> Self {
        Self((0..nodes).collect())
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.0[node] != node {
            self.0[node] = self.0[self.0[node]];
            node = self.0[node];
        }
        node
    }

    fn unite(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one.max(other)] = one.min(other);
    }
}

/// What is connected by edges.
struct Component {
    nodes: Vec<usize>,
    sources: usize,
    cost_ns: f64,
}

impl Obstacles {
    /// `least_ns`: of many sources only parts that compute as much are cut.
    pub(super) fn of(graph: &Graph, expected_ns: &[f64], least_ns: f64) -> Self {
        let mut sets = NodeSets::new(graph.nodes.len());
        let mut found: Vec<(usize, BoundGroup)> = Vec::new();
        let mut bind = |nodes: &[usize], group: BoundGroup| {
            if let Some(&first) = nodes.first() {
                nodes.iter().for_each(|&node| sets.unite(first, node));
                found.push((first, group));
            }
        };
        for end in 0..graph.nodes.len() {
            if let Some(begin) = graph.loop_begin(end) {
                let group = BoundGroup {
                    why: LOOP,
                    ..BoundGroup::default()
                };
                bind(&between(graph, begin, end), group);
            }
        }
        let components = components(graph, expected_ns);
        for component in &components {
            if let Some((nodes, group)) = ends_early(graph, &component.nodes) {
                bind(&nodes, group);
            }
        }
        let many = components_of_many_sources(components, least_ns);
        let group = BoundGroup {
            why: MANY_SOURCES,
            in_caller: true,
            by_block: false,
        };
        bind(&many, group);
        let mut groups: Vec<BoundGroup> = Vec::new();
        let mut numbers: Vec<Option<usize>> = vec![None; graph.nodes.len()];
        for (node, group) in found {
            let root = sets.root(node);
            let number = *numbers[root].get_or_insert(groups.len());
            match groups.get_mut(number) {
                None => groups.push(group),
                Some(own) => {
                    own.in_caller |= group.in_caller;
                    own.by_block |= group.by_block;
                }
            }
        }
        let group_of = (0..graph.nodes.len()).map(|node| numbers[sets.root(node)]);
        Self {
            group_of: group_of.collect(),
            groups,
        }
    }
}

fn components(graph: &Graph, expected_ns: &[f64]) -> Vec<Component> {
    let mut sets = NodeSets::new(graph.nodes.len());
    for (at, node) in graph.nodes.iter().enumerate() {
        node.inputs
            .iter()
            .for_each(|&(from, _)| sets.unite(from, at));
    }
    let mut numbers: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    let mut all: Vec<Component> = Vec::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        let number = *numbers[sets.root(at)].get_or_insert(all.len());
        if number == all.len() {
            all.push(Component {
                nodes: Vec::new(),
                sources: 0,
                cost_ns: 0.0,
            });
        }
        let own = &mut all[number];
        own.nodes.push(at);
        own.sources += usize::from(node.inputs.is_empty());
        own.cost_ns += expected_ns[at];
    }
    all
}

/// A loop: what lies between its begin and its end.
fn between(graph: &Graph, begin: usize, end: usize) -> Vec<usize> {
    let upstream = ancestors(graph, &[end]);
    let mut behind = vec![false; graph.nodes.len()];
    behind[begin] = true;
    for at in begin + 1..graph.nodes.len() {
        let mut inputs = graph.nodes[at].inputs.iter();
        behind[at] = inputs.any(|&(from, _)| behind[from]);
    }
    (begin..=end)
        .filter(|&at| behind[at] && upstream[at])
        .collect()
}

fn ancestors(graph: &Graph, of: &[usize]) -> Vec<bool> {
    let mut found = vec![false; graph.nodes.len()];
    let mut open = of.to_vec();
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut found[at], true) {
            open.extend(graph.nodes[at].inputs.iter().map(|&(from, _)| from));
        }
    }
    found
}

/// What must be executed as in one thread, where something may end before its sources.
fn ends_early(graph: &Graph, component: &[usize]) -> Option<(Vec<usize>, BoundGroup)> {
    let node = |at: &usize| &graph.nodes[*at];
    let ends = component
        .iter()
        .filter(|&at| node(at).properties.ends_early);
    let ends: Vec<usize> = ends.copied().collect();
    if ends.is_empty() {
        return None;
    }
    let calls_python = |node: &GraphNode| node.properties.needs == Resource::Interpreter;
    let is_python_source = |at: &usize| node(at).inputs.is_empty() && calls_python(node(at));
    if component.iter().any(is_python_source) {
        let group = BoundGroup {
            why: CALLED_TOO_OFTEN,
            in_caller: true,
            by_block: true,
        };
        return Some((component.to_vec(), group));
    }
    let meets = |at: &usize| node(at).inputs.len() > 1;
    let sources = component.iter().filter(|at| node(at).inputs.is_empty());
    if sources.count() < 2 && !component.iter().any(meets) {
        return None;
    }
    let before = ancestors(graph, &ends);
    // Behind the end streams may meet others, which one thread then reads no further, and user code may see how far
    // that was.
    let shows = |at: &usize| {
        let is_user_code = matches!(node(at).op, Op::Factory(_)) || calls_python(node(at));
        let is_loop = |align| matches!(align, Alignment::Loop { .. } | Alignment::Arrival);
        is_user_code || meets(at) || is_loop(node(at).properties.align)
    };
    let (own, others): (Vec<usize>, Vec<usize>) = component.iter().partition(|&&at| before[at]);
    let nodes = match others.iter().any(shows) {
        true => component.to_vec(),
        false => own,
    };
    let group = BoundGroup {
        why: DEPENDS_ON_ORDER,
        in_caller: false,
        by_block: true,
    };
    Some((nodes, group))
}

/// Those that are not cut if there are too many, the lightest.
fn components_of_many_sources(mut components: Vec<Component>, least_ns: f64) -> Vec<usize> {
    let sources = |all: &[Component]| all.iter().map(|one| one.sources).sum::<usize>();
    if sources(&components) <= MAX_SOURCES {
        return Vec::new();
    }
    components.sort_by(|a, b| b.cost_ns.total_cmp(&a.cost_ns));
    let mut left = MAX_SOURCES;
    components.retain(|one| {
        let is_cut = one.cost_ns >= least_ns && one.sources <= left;
        left -= if is_cut { one.sources } else { 0 };
        !is_cut
    });
    components.into_iter().flat_map(|one| one.nodes).collect()
}
