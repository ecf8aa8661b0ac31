//! Decides which operators after one or several scans run in tasks. Pure.
//!
//! An operator is added if all its inputs are in the subgraph and its declaration allows portions
//! ([`task_contract`](super::task_contract)). So a subgraph is a chain, a tree, or branches that meet again; each edge
//! that leaves it is an exit. Stateful operators, and those after a reduction, stay outside, and so do factory
//! operators that do not allow it ([`Parallelism`](crate::Parallelism)). Operators that exceed the memory are removed
//! ([`task_size`](super::task_size)).

use std::collections::{BTreeSet, HashMap};

use super::output_estimate::output_bytes_per_sample;
use super::overlap::{OverlapPlan, plan_overlap, union_overlap};
use super::subgraph::{RatioChain, Scan, SubgraphExit, SubgraphNode, SubgraphPlan};
use super::task_contract::{TaskContract, interleaves, reduces, task_contract};
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph};
use crate::{PortType, PortionOverlap};

pub(super) type Consumers = Vec<Vec<usize>>;

pub(super) struct SubgraphBuilder<'a> {
    pub(super) graph: &'a Graph,
    consumers: &'a Consumers,
    pub(super) options: &'a RunOptions<'a>,
    /// By node; all None between builds.
    pub(super) positions: &'a mut Vec<Option<usize>>,
    pub(super) nodes: Vec<SubgraphNode>,
    pub(super) reasons: Vec<String>,
    pub(super) rejected: HashMap<usize, String>,
    pub(super) without_factories: bool,
    /// When all scans were tried together, and why.
    pub(super) excluded: &'a HashMap<usize, String>,
}

impl<'a> SubgraphBuilder<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        consumers: &'a Consumers,
        options: &'a RunOptions<'a>,
        positions: &'a mut Vec<Option<usize>>,
        scans: &[usize],
        excluded: &'a HashMap<usize, String>,
    ) -> Self {
        let mut growing = Self {
            graph,
            consumers,
            options,
            positions,
            nodes: Vec::new(),
            reasons: Vec::new(),
            rejected: HashMap::new(),
            without_factories: false,
            excluded,
        };
        for &scan in scans {
            let recording = graph.nodes[scan].op.recording();
            growing.positions[scan] = Some(growing.nodes.len());
            growing.nodes.push(SubgraphNode {
                node: scan,
                inputs: Vec::new(),
                contract: TaskContract::stateless(),
                ratios: RatioChain::default(),
                rel_err: 0.0,
                uses_factory: false,
                interleaved: false,
                scans: vec![scan],
                leaves_out: recording.is_some_and(|recording| recording.0.skips_samples()),
            });
        }
        growing
    }

    pub(super) fn grow(mut self) -> Self {
        let recordings = self
            .nodes
            .iter()
            .map(|one| self.graph.nodes[one.node].op.recording());
        let whole = recordings.flatten().find(|one| !one.0.is_splittable());
        match whole {
            None => self.add_reachable(),
            Some(one) if one.0.stored().is_some() => {
                self.reasons =
                    vec!["it is read from the stored pyramid, which takes little time".into()];
            }
            Some(_) => self.reasons = vec!["it can be read only once".into()],
        }
        self
    }

    fn add_reachable(&mut self) {
        // In plan order, so a node's inputs are decided before it.
        let scans = self.nodes.iter().flat_map(|one| &self.consumers[one.node]);
        let mut open: BTreeSet<usize> = scans.copied().collect();
        while let Some(at) = open.pop_first() {
            match self.check_node(at) {
                Ok(nodes) => {
                    self.positions[at] = Some(self.nodes.len());
                    self.nodes.push(nodes);
                    open.extend(&self.consumers[at]);
                }
                Err(why) => {
                    self.rejected.insert(at, why.clone());
                    self.add_reason(why);
                }
            }
        }
        if self.reasons.is_empty() {
            self.reasons.push("it has no consumer".into());
        }
    }

    pub(super) fn add_reason(&mut self, why: String) {
        if !self.reasons.contains(&why) {
            self.reasons.push(why);
        }
    }

    fn check_node(&self, at: usize) -> Result<SubgraphNode, String> {
        let node = &self.graph.nodes[at];
        let name = node.op.name();
        if self.without_factories && matches!(node.op, Op::Factory(_)) {
            return Err("is called in the caller's thread".into());
        }
        let inputs = node.inputs.iter();
        let inputs = inputs.map(|&(from, output)| Some((self.positions[from]?, output)));
        let Some(inputs) = inputs.collect::<Option<Vec<Edge>>>() else {
            let why = || format!("{name} has an input that is not computed in tasks of this scan");
            return Err(self.excluded.get(&at).cloned().unwrap_or_else(why));
        };
        let before = || inputs.iter().map(|&(position, _)| &self.nodes[position]);
        let gatherer = before().find(|one| reduces(&self.graph.nodes[one.node]));
        if let Some(one) = gatherer {
            let first = self.graph.nodes[one.node].op.name();
            return Err(format!("{first} has its result only at the end"));
        }
        let ports = inputs.iter().map(|&(position, output)| {
            let from = &self.graph.nodes[self.nodes[position].node];
            from.properties.outputs[usize::from(output)]
        });
        let ports: Vec<PortType> = ports.collect();
        let contract =
            task_contract(node, &ports, self.options).map_err(|why| format!("{name} {why}"))?;
        let leaves_out = before().any(|one| one.leaves_out);
        if !contract.ratio.is_one() && leaves_out {
            let why = "must know what it emitted before the samples that the selection leaves out";
            return Err(format!("{name} {why}"));
        }
        let meets = inputs.len() > 1;
        if meets && leaves_out {
            return Err(format!("{name} matches streams of ranges that may rewind"));
        }
        let interleaved = before().any(|one| one.interleaved);
        if interleaved && (meets || contract.needs_continuity) {
            return Err(format!("{name} gets streams that are interleaved"));
        }
        let ratios = self.nodes[inputs.first().map_or(0, |&(position, _)| position)]
            .ratios
            .clone();
        if before().any(|one| one.ratios != ratios) {
            return Err(format!(
                "{name} matches streams whose indices were rescaled differently"
            ));
        }
        let uses_factory =
            before().any(|one| one.uses_factory) || matches!(node.op, Op::Factory(_));
        if uses_factory && contract.rel_err > 0.0 {
            // One worker calls it sequentially, so its cuts would lie elsewhere.
            return Err(format!(
                "{name} has results that depend on where the recording is cut, and one worker does not run its input in tasks"
            ));
        }
        let rel_err = before().map(|one| one.rel_err).sum::<f64>() + contract.rel_err;
        if rel_err > self.options.tolerance.max(0.0) {
            return Err(format!(
                "{name} settles: in tasks it would be within {rel_err:.0e} of one pass; allow that by tolerance="
            ));
        }
        let mut scans: Vec<usize> = before().flat_map(|one| &one.scans).copied().collect();
        scans.sort_unstable();
        scans.dedup();
        Ok(SubgraphNode {
            node: at,
            inputs: inputs.clone(),
            contract,
            ratios: ratios.then(contract.ratio),
            rel_err,
            uses_factory,
            interleaved: interleaved || interleaves(node),
            scans,
            leaves_out,
        })
    }

    pub(super) fn build(&self, reproducible_samples: Option<u64>) -> SubgraphPlan {
        let exits = self.exits();
        let OverlapPlan { needs, trims } = plan_overlap(&self.nodes, &exits);
        let scans = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, one)| one.is_scan());
        let scans = scans.map(|(position, _)| Scan {
            position,
            overlap: needs[position],
        });
        let scans: Vec<Scan> = scans.collect();
        let given = self.bytes_per_sample();
        let bytes = exits.iter().map(|exit| given[exit.edge.0]).sum::<f64>();
        SubgraphPlan {
            nodes: self.nodes.clone(),
            exits,
            overlap: scans.iter().fold(PortionOverlap::default(), |all, scan| {
                union_overlap(all, scan.overlap)
            }),
            scans,
            trims,
            reasons: self.reasons.clone(),
            bytes_per_sample: bytes.max(1e-9),
            reproducible_samples,
        }
    }

    pub(super) fn bytes_per_sample(&self) -> Vec<f64> {
        let nodes = self.nodes.iter();
        output_bytes_per_sample(
            nodes.map(|one| (&one.inputs[..], &self.graph.nodes[one.node].properties)),
        )
    }

    /// Edges read by an outside node, or by none.
    pub(super) fn exits(&self) -> Vec<SubgraphExit> {
        let mut exits = Vec::new();
        for (position, one) in self.nodes.iter().enumerate() {
            let node = &self.graph.nodes[one.node];
            let reduces = reduces(node);
            let outside = |output: u16| {
                let edge = (one.node, output);
                let takes = |&at: &usize| self.graph.nodes[at].inputs.contains(&edge);
                let mut consumers = self.consumers[one.node].iter().filter(|at| takes(at));
                consumers.any(|&at| self.positions[at].is_none())
                    || self.graph.outputs.contains(&edge)
            };
            let outputs = 0..node.properties.outputs.len().max(1) as u16;
            let leaf = reduces || self.consumers[one.node].is_empty();
            for output in outputs.filter(|&output| outside(output) || leaf && output == 0) {
                let edge = (position, output);
                exits.push(SubgraphExit { edge, reduces });
            }
        }
        exits
    }
}
