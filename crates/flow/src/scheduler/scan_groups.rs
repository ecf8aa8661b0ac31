//! Groups scans that are read together, so their streams can meet in tasks. Pure.
//!
//! Scans are grouped if their streams meet, by equal indices or in turn, at an operator that can run in tasks. A
//! factory operator does not group scans whose results depend on cuts: one worker runs it sequentially and must cut in
//! the same places.

use std::collections::{HashMap, HashSet};

use super::subgraph::{SubgraphNode, SubgraphPlan};
use super::subgraph_builder::{Consumers, SubgraphBuilder};
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::Graph;

pub(super) fn subgraph_plans(graph: &Graph, options: &RunOptions<'_>) -> Vec<SubgraphPlan> {
    let scans = (0..graph.nodes.len()).filter(|&node| graph.nodes[node].op.recording().is_some());
    let scans: Vec<usize> = scans.collect();
    let mut planner = GroupPlanner {
        graph,
        options,
        consumers: consumers(graph),
        positions: vec![None; graph.nodes.len()],
        excluded: HashMap::new(),
    };
    let mut subgraph_plans = Vec::new();
    for group in planner.groups(&scans) {
        let plan = planner.plan(&group);
        if all_scans_meet(&plan) {
            subgraph_plans.push(plan);
            continue;
        }
        // The operator at which they meet exceeds memory.
        for scan in group {
            let mut alone = planner.plan(&[scan]);
            let more = plan
                .reasons
                .iter()
                .filter(|why| !alone.reasons.contains(why));
            let more: Vec<String> = more.cloned().collect();
            alone.reasons.extend(more);
            subgraph_plans.push(alone);
        }
    }
    subgraph_plans
}

fn consumers(graph: &Graph) -> Consumers {
    let mut consumers = vec![Vec::new(); graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for &(from, _) in &node.inputs {
            consumers[from].push(at);
        }
    }
    consumers
}

/// Where cuts change bits, factory operators do not count.
fn all_scans_meet(plan: &SubgraphPlan) -> bool {
    let exposes = plan.settles();
    let scans = plan.scans.iter().map(|scan| plan.nodes[scan.position].node);
    let mut groups = ScanGroups::of(scans);
    for one in plan
        .nodes
        .iter()
        .filter(|one| !exposes || !one.uses_factory)
    {
        groups.merge(&one.scans);
    }
    groups.0.len() <= 1
}

struct GroupPlanner<'a> {
    graph: &'a Graph,
    options: &'a RunOptions<'a>,
    consumers: Consumers,
    positions: Vec<Option<usize>>,
    excluded: HashMap<usize, String>,
}

impl GroupPlanner<'_> {
    fn builder<'b>(&'b mut self, scans: &[usize]) -> SubgraphBuilder<'b> {
        SubgraphBuilder::new(
            self.graph,
            &self.consumers,
            self.options,
            &mut self.positions,
            scans,
            &self.excluded,
        )
    }

    fn plan(&mut self, scans: &[usize]) -> SubgraphPlan {
        self.builder(scans).grow().fit_to_memory()
    }

    /// What could run in tasks with unlimited memory, if all scans were read together.
    fn reachable(&mut self, scans: &[usize], without_factories: bool) -> Vec<SubgraphNode> {
        let mut builder = self.builder(scans);
        builder.without_factories = without_factories;
        let SubgraphBuilder {
            nodes, rejected, ..
        } = builder.grow();
        self.excluded = rejected;
        for one in &nodes {
            self.positions[one.node] = None;
        }
        nodes
    }

    fn groups(&mut self, scans: &[usize]) -> Vec<Vec<usize>> {
        let mut groups = ScanGroups::of(scans.iter().copied());
        let rereadable = |&scan: &usize| {
            let recording = self.graph.nodes[scan].op.recording();
            recording.is_some_and(|recording| recording.0.is_splittable())
        };
        let several: Vec<usize> = scans.iter().copied().filter(rereadable).collect();
        if several.len() < 2 {
            return groups.0;
        }
        let nodes = self.reachable(&several, true);
        for one in &nodes {
            groups.merge(&one.scans);
        }
        let cut_sensitive = nodes.iter().filter(|one| one.settles());
        let cut_sensitive: HashSet<usize> =
            cut_sensitive.flat_map(|one| &one.scans).copied().collect();
        let is_factory = |node: &crate::plan::graph::GraphNode| matches!(node.op, Op::Factory(_));
        if self.options.workers > 1 && self.graph.nodes.iter().any(is_factory) {
            for one in self.reachable(&several, false) {
                let exposes = groups
                    .members_with(&one.scans)
                    .any(|scan| cut_sensitive.contains(&scan));
                match exposes && one.scans.len() > 1 {
                    false => groups.merge(&one.scans),
                    true => {
                        let name = self.graph.nodes[one.node].op.name();
                        let why = "would bring scans together that show where they are cut, behind what one worker does not do in tasks";
                        self.excluded.insert(one.node, format!("{name} {why}"));
                    }
                }
            }
        }
        groups.0
    }
}

struct ScanGroups(Vec<Vec<usize>>);

impl ScanGroups {
    fn of(all: impl Iterator<Item = usize>) -> Self {
        Self(all.map(|one| vec![one]).collect())
    }

    fn merge(&mut self, some: &[usize]) {
        if some.len() < 2 {
            return;
        }
        let some: HashSet<usize> = some.iter().copied().collect();
        let has = |group: &Vec<usize>| group.iter().any(|one| some.contains(one));
        let Some(first) = self.0.iter().position(has) else {
            return;
        };
        let (mut joined, mut others) = (Vec::new(), Vec::new());
        for group in std::mem::take(&mut self.0) {
            match has(&group) {
                true => joined.extend(group),
                false => others.push(group),
            }
        }
        joined.sort_unstable();
        others.insert(first, joined);
        self.0 = others;
    }

    fn members_with(&self, some: &[usize]) -> impl Iterator<Item = usize> {
        let some: HashSet<usize> = some.iter().copied().collect();
        let has = move |group: &&Vec<usize>| group.iter().any(|one| some.contains(one));
        self.0.iter().filter(has).flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_share_a_scan_merge() {
        let mut groups = ScanGroups::of([1, 4, 5, 7, 9].into_iter());
        groups.merge(&[4, 9]);
        groups.merge(&[7]);
        groups.merge(&[1, 7]);
        assert_eq!(groups.0, [vec![1, 7], vec![4, 9], vec![5]]);
        assert_eq!(groups.members_with(&[9, 5]).collect::<Vec<_>>(), [4, 9, 5]);
        groups.merge(&[9, 7]);
        assert_eq!(groups.0, [vec![1, 4, 7, 9], vec![5]]);
    }
}
