//! Makes a plan of the stages that were found: merges those that gain nothing, or that could wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use super::{CALLER, StageBuilder};
use crate::engine::PlanCuts;
use crate::scheduler::stages::stage_costs::computes_much;
use crate::scheduler::stages::stage_plan::{MAX_ENTRIES, Replication, StagePlan};

const PILES_UP: &str =
    "its branches come from one source and meet again, and one could pile up while another waits";
const WAITS_IN_A_CYCLE: &str = "several of its parts combine the same sources, and could wait for each other where one \
     holds back what another needs";

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
        let stages = self.stage_of.iter().map(|&stage| match stage {
            CALLER => CALLER,
            stage => self.stage(stage),
        });
        let mut stages: Vec<usize> = stages.collect();
        loop {
            self.absorb(&mut stages);
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
                return Ok(plan);
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
        let replication = order.iter().map(|&stage| {
            let own = self.stages.get(stage).filter(|own| own.has_replicas());
            own.map_or(Replication::None, |own| own.replication)
        });
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
            replication: replication.collect(),
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

    /// The caller's last.
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
