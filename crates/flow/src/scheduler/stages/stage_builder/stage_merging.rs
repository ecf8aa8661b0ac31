//! Makes a plan of the stages that were found: merges those that gain nothing, or that could wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use super::{CALLER, StageBuilder};
use crate::engine::PlanCuts;
use crate::scheduler::stages::stage_costs::computes_much;
use crate::scheduler::stages::stage_plan::{MAX_ENTRIES, Replication, StagePlan, divides_much};

const PILES_UP: &str =
    "its branches come from one source and meet again, and one could pile up while another waits";
const WAITS_IN_A_CYCLE: &str = "several of its parts combine the same sources, and could wait for each other where one \
     holds back what another needs";

const OTHER_CUTS: &str = "it cannot be cut as the configuration says";

/// Whether both cut between the same nodes, whatever the numbers of stages are.
fn is_same_partition(one: &[usize], other: &[usize]) -> bool {
    let pairs: BTreeSet<(usize, usize)> = one.iter().copied().zip(other.iter().copied()).collect();
    let count = |all: &[usize]| all.iter().collect::<BTreeSet<_>>().len();
    one.len() == other.len() && pairs.len() == count(one) && pairs.len() == count(other)
}

impl StageBuilder<'_> {
    /// Merges a stage that computes little into its only reader, and the only stage before the caller's into the
    /// caller's if that would merely wait.
    fn absorb(&self, stages: &mut [usize]) {
        loop {
            let mut readers: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
            for (at, node) in self.graph.nodes.iter().enumerate() {
                for &(from, _) in &node.inputs {
                    if stages[from] != stages[at] {
                        readers.entry(stages[from]).or_default().insert(stages[at]);
                    }
                }
            }
            let only_reader = |stage: &usize| match readers[stage].iter().collect::<Vec<_>>()[..] {
                [&reader] => Some(reader),
                _ => None,
            };
            let light = readers.keys().find(|&stage| {
                let own = &self.stages[*stage];
                let reader = only_reader(stage);
                let keeps = reader.is_some_and(|reader| {
                    let reader = self.stages.get(reader);
                    reader.is_some_and(|reader| reader.has_replicas())
                });
                // Passing samples within one thread gains nothing.
                let is_light = !computes_much(own.cost_ns) && own.cells.is_none();
                is_light && !own.in_caller && reader.is_some() && !keeps
                    || own.in_caller && reader == Some(CALLER)
            });
            let mut before_callers = readers
                .iter()
                .filter(|(_, readers)| readers.contains(&CALLER));
            let last = before_callers.next().map(|(stage, _)| stage);
            let waits = before_callers.next().is_none() && !self.caller_computes(stages);
            let last = last.filter(|&stage| {
                waits && only_reader(stage).is_some() && !self.stages[*stage].has_replicas()
            });
            let Some((&from, into)) = light
                .or(last)
                .and_then(|stage| Some((stage, only_reader(stage)?)))
            else {
                return;
            };
            stages
                .iter_mut()
                .filter(|stage| **stage == from)
                .for_each(|stage| *stage = into);
        }
    }

    fn caller_computes(&self, stages: &[usize]) -> bool {
        let mut nodes = 0..self.graph.nodes.len();
        nodes.any(|at| stages[at] == CALLER && computes_much(self.expected_ns[at]))
    }

    /// Chooses the stage of each node. The error says why the plan is not cut.
    pub(in super::super) fn build(mut self) -> Result<StagePlan, &'static str> {
        for node in 0..self.graph.nodes.len() {
            self.place(node);
        }
        for (number, group) in self.obstacles.groups.iter().enumerate() {
            let mut nodes = 0..self.graph.nodes.len();
            let first = nodes.find(|&node| self.obstacles.group_of[node] == Some(number));
            self.uncut.extend(first.map(|node| (node, group.why)));
        }
        let given = self.given_stage_of();
        if let Some(given) = given {
            self.unite_given(given);
        }
        let stages = self.stage_of.iter().map(|&stage| match stage {
            CALLER => CALLER,
            stage => self.stage(stage),
        });
        let mut stages: Vec<usize> = stages.collect();
        match given {
            None => self.absorb(&mut stages),
            Some(given) => {
                self.leave_to_caller(given, &mut stages);
                let distinct: BTreeSet<usize> = stages.iter().copied().collect();
                if self.in_order(&stages).len() < distinct.len() {
                    return Err(OTHER_CUTS);
                }
            }
        }
        loop {
            let (plan, order) = self.assemble(&stages);
            if plan.stages.len() < 2 {
                let why = self.uncut.first().map(|&(_, why)| why);
                return Err(why.unwrap_or(
                    "too few of its operators compute much and can work at the same time",
                ));
            }
            if plan.stages.len() > MAX_ENTRIES {
                return Err("it has more parts than can be stages");
            }
            if self.options.cuts == PlanCuts::WholeItems && plan.inputs_of_last(self.graph) > 1 {
                return Err(
                    "functions are called in the order of one thread, and get items of several parts",
                );
            }
            let piling_up = plan.piling_up(self.graph).map(|stages| (stages, PILES_UP));
            let waiting = || Some((plan.waiting_in_a_cycle(self.graph)?, WAITS_IN_A_CYCLE));
            let Some((found, why)) = piling_up.or_else(waiting) else {
                return match given.is_none_or(|given| is_same_partition(given, &plan.stage_of)) {
                    true => Ok(plan),
                    false => Err(OTHER_CUTS),
                };
            };
            let all = plan.with_between(self.graph, &found);
            self.uncut
                .extend(all.first().map(|&stage| (plan.stages[stage][0], why)));
            let all: BTreeSet<usize> = all.into_iter().map(|stage| order[stage]).collect();
            let into = match all.contains(&CALLER) {
                true => CALLER,
                false => all.first().copied().unwrap_or(CALLER),
            };
            stages
                .iter_mut()
                .filter(|stage| all.contains(stage))
                .for_each(|stage| *stage = into);
            if into != CALLER {
                self.merge(all);
            }
            if given.is_none() {
                self.absorb(&mut stages);
            }
        }
    }

    /// Stages with the same given number.
    fn unite_given(&mut self, given: &[usize]) {
        let mut found: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (node, &number) in given.iter().enumerate() {
            if let Some(&stage) = self.stage_of.get(node).filter(|&&stage| stage != CALLER) {
                let stage = self.stage(stage);
                found.entry(number).or_default().insert(stage);
            }
        }
        for stages in found.into_values() {
            let stages: BTreeSet<usize> = stages.iter().map(|&stage| self.stage(stage)).collect();
            if stages.len() > 1 {
                self.merge(stages);
            }
        }
    }

    /// What has a given number in common with nodes of the caller's thread.
    fn leave_to_caller(&self, given: &[usize], stages: &mut [usize]) {
        let callers = (given.iter().zip(&self.callers)).filter(|(_, is_caller)| **is_caller);
        let callers: BTreeSet<usize> = callers.map(|(&number, _)| number).collect();
        for (stage, number) in stages.iter_mut().zip(given) {
            if callers.contains(number) {
                *stage = CALLER;
            }
        }
    }

    /// Stages and their numbers here, the caller's last.
    fn assemble(&self, stage_of: &[usize]) -> (StagePlan, Vec<usize>) {
        let order = self.in_order(stage_of);
        let numbers: BTreeMap<usize, usize> = (order.iter().copied()).zip(0..).collect();
        let stage_of: Vec<usize> = stage_of.iter().map(|stage| numbers[stage]).collect();
        let mut stages = vec![Vec::new(); order.len()];
        let mut by_block = vec![false; order.len()];
        let mut roots = vec![0; order.len()];
        for (at, &stage) in stage_of.iter().enumerate() {
            stages[stage].push(at);
            let group = self.obstacles.group_of[at];
            by_block[stage] |= group.is_some_and(|group| self.obstacles.groups[group].by_block);
            roots[stage] |= self.root_of[at];
        }
        for (at, stage) in order.iter().enumerate() {
            let inputs = stages[at]
                .iter()
                .flat_map(|&node| &self.graph.nodes[node].inputs);
            // Stages before it are complete.
            roots[at] = match *stage {
                CALLER => u64::MAX,
                _ => inputs.fold(roots[at], |all, &(from, _)| all | roots[stage_of[from]]),
            };
        }
        let replication = order.iter().zip(&stages).map(|(&stage, nodes)| {
            let own = self.stages.get(stage).filter(|own| own.has_replicas());
            let mut nodes = nodes.iter();
            let divides =
                |&node: &usize| divides_much(&self.graph.nodes[node], self.expected_ns[node]);
            match own {
                Some(own) => own.replication,
                None if nodes.any(divides) => Replication::Keys,
                None => Replication::None,
            }
        });
        let replication: Vec<Replication> = replication.collect();
        let mut numbered = order.iter().enumerate();
        let caller_sources =
            numbered.find(|&(_, &stage)| stage != CALLER && self.stages[stage].in_caller);
        let plan = StagePlan {
            caller_sources: caller_sources.map(|(at, _)| at),
            cell_samples: (order.iter())
                .map(|&stage| {
                    let own = self.stages.get(stage)?;
                    let cells = own
                        .cells
                        .filter(|_| own.replication == Replication::Cells)?;
                    Some(self.cells.samples[cells])
                })
                .collect(),
            replication,
            uncut: (self.uncut.iter())
                .map(|&(node, why)| (stage_of[node], why))
                .collect(),
            stages,
            stage_of,
            roots,
            by_block,
        };
        (plan, order)
    }

    /// The caller's last. Without stages that need each other's results.
    fn in_order(&self, roots: &[usize]) -> Vec<usize> {
        let mut open: BTreeSet<usize> = roots.iter().copied().collect();
        let mut reads: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (at, node) in self.graph.nodes.iter().enumerate() {
            let inputs = node
                .inputs
                .iter()
                .map(|&(from, _)| (roots[at], roots[from]));
            reads.extend(inputs.filter(|&(to, from)| to != from));
        }
        let mut order: Vec<usize> = Vec::new();
        let is_ready = |stage: usize, open: &BTreeSet<usize>| {
            let mut inputs = reads.range((stage, 0)..=(stage, usize::MAX));
            inputs.all(|(_, from)| !open.contains(from))
        };
        // The caller's has the largest number.
        while let Some(next) = open.iter().copied().find(|&stage| is_ready(stage, &open)) {
            open.remove(&next);
            order.push(next);
        }
        order
    }
}
