//! [`choose_cuts`]: where a plan is cut into stages if all its operators were measured. [`advise_cuts`]: where it should
//! have been cut, by what its operators took in a run.
//!
//! The flow model compares the cuts that declared costs give, those that measured costs give, and then repeatedly one
//! stage fewer, with the cheapest neighbours merged.

use std::time::Duration;

use isochrony_store::machine::OperatorCosts;
use isochrony_tune::{MIN_ADVICE_GAIN, MIN_ADVICE_S};

use super::stage_costs::{costs_ns, edge_values, expected_ns};
use super::stage_plan::{Replication, StagePlan};
use crate::engine::advice::{Advice, AdvisedChange, AdvisedValue};
use crate::engine::report::Report;
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
    let model = CutModel::new(graph, options, measured_ns(graph, costs)?);
    let best = model.best()?;
    Some(model.rule(best.plan.stage_of))
}

/// `report`: of a run that was cut so. `keeps_up`: its sources gave no more.
pub(super) fn advise_cuts(
    graph: &Graph,
    now: &StagePlan,
    options: &RunOptions<'_>,
    report: &Report,
    keeps_up: bool,
) -> Advice {
    let unknown = |why: &str| Advice::none(format!("cuts: nothing can be said: {why}"));
    if options.allows_settling() {
        return Advice::none("cuts: as declared, since results depend on them (tolerance=)");
    }
    if options.control.is_some() {
        return Advice::none("cuts: as declared, since a control names stages by number");
    }
    if !options.measure {
        return unknown("the run did not measure its operators (measure=False)");
    }
    if report.elapsed.as_secs_f64() < MIN_ADVICE_S {
        return unknown("the run was too short to tell");
    }
    if keeps_up {
        return Advice::none("cuts: as they are, since the plan keeps up with its sources");
    }
    let Some(costs_ns) = report_ns(graph, now, options, report) else {
        return unknown("its sources gave no samples");
    };
    let options = &RunOptions {
        cut_rule: None,
        ..*options
    };
    let model = CutModel::new(graph, options, costs_ns);
    let found = model.predicted(now.stage_of.clone()).zip(model.best());
    let Some((now, best)) = found else {
        return unknown("they cannot be compared with others");
    };
    let gain = best.rate / now.rate - 1.0;
    if !gain.is_finite() || gain < MIN_ADVICE_GAIN {
        let least = 100.0 * MIN_ADVICE_GAIN;
        return Advice::none(format!(
            "cuts: as they are; by what operators took, none of the others is predicted to gain {least:.0} %"
        ));
    }
    let cuts = best.plan.stage_of;
    Advice {
        text: format!(
            "cuts={cuts:?} instead of {:?}: predicted {:+.1} % by what operators took",
            now.plan.stage_of,
            100.0 * gain
        ),
        change: Some(AdvisedChange {
            value: AdvisedValue::Cuts(cuts),
            gain,
        }),
    }
}

/// By node, per sample of the source that gave most.
fn report_ns(
    graph: &Graph,
    now: &StagePlan,
    options: &RunOptions<'_>,
    report: &Report,
) -> Option<Vec<f64>> {
    let both = graph.nodes.iter().zip(&report.operators);
    let sources = both.filter(|(node, _)| node.inputs.is_empty());
    let samples = sources.map(|(_, one)| one.samples).max()?;
    if samples == 0 {
        return None;
    }
    let of = |time: Duration| time.as_nanos() as f64 / samples as f64;
    let all = report.operators.iter().map(|one| of(one.useful));
    let mut all: Vec<f64> = all.collect();
    // The time of a stage holds that of its helpers: its thread waits for them.
    let expected = costs_ns(graph, options);
    let helpers = (report.stages.iter()).filter(|one| {
        one.replica.is_some_and(|replica| replica > 0)
            && now.replication[one.number] == Replication::Keys
    });
    for helper in helpers {
        let node = now.divided_node(helper.number, graph, &expected);
        all[node] = (all[node] - of(helper.time.busy)).max(0.0);
    }
    Some(all)
}

impl PredictedCuts {
    fn gains_on(&self, other: &Self) -> bool {
        self.rate > other.rate * (1.0 + MIN_GAIN)
    }
}

impl<'a> CutModel<'a> {
    fn new(graph: &'a Graph, options: &'a RunOptions<'a>, costs_ns: Vec<f64>) -> Self {
        Self {
            graph,
            options,
            costs_ns,
            values: edge_values(graph),
        }
    }

    /// None if the plan is not cut.
    fn best(&self) -> Option<PredictedCuts> {
        let by_costs = CutRule {
            stage_of: None,
            costs_ns: Some(self.costs_ns.clone()),
        };
        let found = [None, Some(&by_costs)].map(|cut_rule| {
            let options = RunOptions {
                cut_rule,
                ..*self.options
            };
            let plan = StagePlan::of(self.graph, &options).ok()?;
            self.predicted(plan.stage_of)
        });
        let mut best = match found {
            [Some(declared), Some(measured)] if !measured.gains_on(&declared) => declared,
            [declared, measured] => measured.or(declared)?,
        };
        while let Some(fewer) = self.fewer(&best).filter(|fewer| fewer.gains_on(&best)) {
            best = fewer;
        }
        Some(best)
    }

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
