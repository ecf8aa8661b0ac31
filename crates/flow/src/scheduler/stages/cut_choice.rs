//! [`choose_cuts`]: where a plan is cut into stages if all its operators were measured.
//!
//! The flow model compares the cuts that declared costs give, those that measured costs give, and then repeatedly one
//! stage fewer, with the cheapest neighbours merged.

use isochrony_store::machine::OperatorCosts;

use super::stage_costs::{edge_values, expected_ns};
use super::stage_plan::StagePlan;
use crate::engine::{CutRule, RunOptions};
use crate::plan::graph::Graph;
use crate::scheduler::measured_costs::{node_costs, predicted_rate};
use crate::scheduler::subgraph::SubgraphPlan;

/// What another cut must gain: predictions of similar ones are no better.
const MIN_GAIN: f64 = 0.01;
/// Of passing a sample from one stage to another, half in each.
const PASSING_NS: f64 = 0.4;
/// Pairs of neighbours that are tried, the cheapest first: not all may be merged.
const MAX_PAIRS: usize = 4;

struct PredictedCuts {
    plan: StagePlan,
    rate: f64,
}

struct CutModel<'a> {
    graph: &'a Graph,
    options: &'a RunOptions<'a>,
    /// By node.
    costs_ns: Vec<f64>,
    /// By node: values of an output, per sample of the fastest source.
    values: Vec<f64>,
}

/// None if an operator was not measured, or the plan is not cut.
pub(in crate::scheduler) fn choose_cuts(
    graph: &Graph,
    options: &RunOptions<'_>,
    costs: &OperatorCosts,
    subgraph_plans: &[SubgraphPlan],
) -> Option<CutRule> {
    // First, since comparing cuts of a large plan takes time.
    if StagePlan::is_excluded_by_tasks(graph, options, subgraph_plans) {
        return None;
    }
    let options = &RunOptions {
        cut_rule: None,
        ..*options
    };
    let model = CutModel {
        graph,
        options,
        costs_ns: measured_ns(graph, costs)?,
        values: edge_values(graph),
    };
    let by_costs = CutRule {
        stage_of: None,
        costs_ns: Some(model.costs_ns.clone()),
    };
    let found = [None, Some(&by_costs)].map(|cut_rule| {
        let options = RunOptions {
            cut_rule,
            ..*options
        };
        let plan = StagePlan::of(graph, &options).ok()?;
        model.predicted(plan.stage_of)
    });
    let mut best = match found {
        [Some(declared), Some(measured)] if !measured.gains_on(&declared) => declared,
        [declared, measured] => measured.or(declared)?,
    };
    while let Some(fewer) = model.fewer(&best).filter(|fewer| fewer.gains_on(&best)) {
        best = fewer;
    }
    Some(model.rule(best.plan.stage_of))
}

impl PredictedCuts {
    fn gains_on(&self, other: &Self) -> bool {
        self.rate > other.rate * (1.0 + MIN_GAIN)
    }
}

impl CutModel<'_> {
    fn rule(&self, stage_of: Vec<usize>) -> CutRule {
        CutRule {
            stage_of: Some(stage_of),
            costs_ns: Some(self.costs_ns.clone()),
        }
    }

    /// None if the plan cannot be cut so.
    fn predicted(&self, stage_of: Vec<usize>) -> Option<PredictedCuts> {
        let rule = self.rule(stage_of);
        let options = RunOptions {
            cut_rule: Some(&rule),
            ..*self.options
        };
        let plan = StagePlan::of(self.graph, &options).ok()?;
        Some(PredictedCuts {
            rate: self.rate(&plan),
            plan,
        })
    }

    fn rate(&self, plan: &StagePlan) -> f64 {
        let mut costs_ns = self.stage_costs(plan);
        for (from, to, (node, _)) in plan.cut_edges(self.graph) {
            for stage in [from, to] {
                costs_ns[stage] += PASSING_NS / 2.0 * self.values[node];
            }
        }
        let workers = self.options.workers;
        let cores = std::thread::available_parallelism().map_or(workers, usize::from);
        let entries = plan.computing(&plan.entries(workers));
        let replicas = entries.iter().map(ExactSizeIterator::len);
        let servers = costs_ns.iter().map(|ns| 1e-9 * ns).zip(replicas);
        predicted_rate(servers, workers, cores)
    }

    fn stage_costs(&self, plan: &StagePlan) -> Vec<f64> {
        let stages = plan.stages.iter();
        let costs = stages.map(|nodes| nodes.iter().map(|&node| self.costs_ns[node]).sum());
        costs.collect()
    }

    /// The cheapest neighbours merged.
    fn fewer(&self, best: &PredictedCuts) -> Option<PredictedCuts> {
        let costs_ns = self.stage_costs(&best.plan);
        let edges = best.plan.cut_edges(self.graph).into_iter();
        let mut pairs: Vec<(usize, usize)> = edges.map(|(from, to, _)| (from, to)).collect();
        pairs.dedup();
        let cost = |&(from, to): &(usize, usize)| costs_ns[from] + costs_ns[to];
        pairs.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
        let mut pairs = pairs.into_iter().take(MAX_PAIRS);
        pairs.find_map(|(from, to)| {
            let stages = best.plan.stage_of.iter();
            let merged = stages.map(|&stage| if stage == from { to } else { stage });
            self.predicted(merged.collect())
        })
    }
}

/// By node; None if an operator was not measured. Reading, decoding and receiving are not measured: as declared.
pub(in crate::scheduler) fn measured_ns(graph: &Graph, costs: &OperatorCosts) -> Option<Vec<f64>> {
    let mut all = expected_ns(graph);
    let measured = node_costs(graph, costs).ok()?;
    for (at, node) in graph.nodes.iter().enumerate() {
        if !node.inputs.is_empty() {
            all[at] = 1e9 * measured[at];
        }
    }
    Some(all)
}
