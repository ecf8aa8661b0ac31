//! Predicts a plan's throughput from measured operator costs ([`Plan::characterise`]).
//!
//! Each stage, or all tasks together, is a server of the flow model; threads are shared. Reading stored signals takes
//! what the machine's profile says: a strategy that waits for the disk takes the time of its stage, one that reads ahead
//! limits the throughput beside the operators. Reading takes no time without a profile, and beside live or generated
//! sources.

use std::time::Duration;

use isochrony_store::Strategy;
use isochrony_store::machine::{CheckedPrediction, OperatorCosts, Quartiles};

use super::measured_costs::{node_costs, predicted_rate};
use super::scan_groups::subgraph_plans;
use super::stages::{StagePlan, choose_cuts};
use crate::StoredRecording;
use crate::engine::{CutOrigin, RunOptions};
use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{Plan, Report};

/// Predicted throughput of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ThroughputPrediction {
    /// Threads.
    pub workers: usize,
    /// Samples of the fastest source per second.
    pub rate: f64,
    /// Limiting stage, in words.
    pub bottleneck: String,
}

impl Plan {
    /// Throughput predicted from operator costs for a number of threads, cut as a run may choose.
    ///
    /// # Errors
    /// Names of operators not measured on this machine.
    pub fn predict_throughput(
        &self,
        workers: usize,
        costs: &OperatorCosts,
    ) -> Result<ThroughputPrediction, Vec<&'static str>> {
        self.predict_cut(workers, costs, CutOrigin::Measured)
    }

    fn predict_cut(
        &self,
        workers: usize,
        costs: &OperatorCosts,
        cuts: CutOrigin,
    ) -> Result<ThroughputPrediction, Vec<&'static str>> {
        let mut graph = Graph::new(self);
        crate::optimiser::optimise(&mut graph);
        predict(&graph, workers, costs, cuts)
    }

    /// Records how well an execution's throughput was predicted, if all operators were measured on this machine and it
    /// took at least half a second. The prediction has the cuts that the run had. Not if it read a disk or a server: what
    /// was in the page cache before is not known any more; nor if a configuration stated the cuts. Ignores storage
    /// errors.
    pub fn check_prediction(&self, report: &Report) {
        let is_remote = report.workers.iter().any(|one| one.host.is_some());
        let has_given_cuts = report.cut_origin == CutOrigin::Given && !report.stages.is_empty();
        if report.elapsed < MIN_CHECKED || is_remote || has_given_cuts {
            return;
        }
        let Some(path) = OperatorCosts::path().filter(|path| path.exists()) else {
            return;
        };
        let Ok(mut costs) = OperatorCosts::load(&path) else {
            // `explain` reports a bad file.
            return;
        };
        let graph = Graph::new(self);
        if reads_remotely(&graph) || !Reading::all(&graph).is_empty() {
            return;
        }
        let workers = report.threads.len().max(report.workers.len()).max(1);
        let predicted = self.predict_cut(workers, &costs, report.cut_origin);
        let (Ok(prediction), Some(total)) = (predicted, total_samples(&graph)) else {
            return;
        };
        if prediction.rate.is_finite() && total > 0 {
            costs.check(CheckedPrediction {
                predicted: prediction.rate,
                measured: total as f64 / report.elapsed.as_secs_f64(),
            });
            // A full disk must not fail a successful run.
            let _unused = costs.save(&path);
        }
    }
}

/// Longer than samples in the page cache take by this factor: the disk takes the time, and what is read ahead hides the
/// rest.
const DISK_BOUND: f64 = 1.05;

/// What reading a stored signal adds to operators that find their samples in memory.
struct Reading {
    /// Of the scan.
    node: usize,
    strategy: Strategy,
    /// In all; 0 if it is in the page cache.
    seconds: f64,
}

impl Reading {
    /// Of each stored signal of which the machine's profile says something, in the present state of the page cache.
    fn all(graph: &Graph) -> Vec<Self> {
        let nodes = graph.nodes.iter().enumerate();
        let of_node = |(node, one): (usize, &GraphNode)| {
            let Op::Scan {
                recording, range, ..
            } = &one.op
            else {
                return None;
            };
            let (strategy, estimate) =
                (recording.0.as_stored()?).reading_estimate(range.clone())?;
            let mut estimates = estimate.estimates.iter();
            let found = estimates.find(|one| one.strategy == strategy)?;
            let now = found.now?.median;
            let cached = found.cached.map_or(0.0, |cached| cached.median);
            let reading = Self {
                node,
                strategy,
                seconds: now,
            };
            // Both estimates are of summarised samples, which operators of plans do not do.
            let seconds = match reading.waits() {
                true => (now - cached).max(0.0),
                false if strategy.bypasses_page_cache() || now > DISK_BOUND * cached => now,
                false => 0.0,
            };
            Some(Self { seconds, ..reading })
        };
        nodes.filter_map(of_node).collect()
    }

    /// The thread that scans waits for the disk.
    fn waits(&self) -> bool {
        matches!(self.strategy, Strategy::Mmap | Strategy::Read)
    }
}

/// Seconds that the measured operators take in one thread, and in `workers`, reading included; None without operators,
/// where some were not measured, or where the number of samples is unknown.
pub(super) fn operator_seconds(
    graph: &Graph,
    workers: usize,
    costs: &OperatorCosts,
) -> Option<(f64, f64)> {
    graph.nodes.iter().find(|node| !node.inputs.is_empty())?;
    let samples = total_samples(graph)? as f64;
    let cuts = CutOrigin::Measured;
    let seconds = |workers| Some(samples / predict(graph, workers, costs, cuts).ok()?.rate);
    Some((seconds(1)?, seconds(workers)?))
}

fn predict(
    graph: &Graph,
    workers: usize,
    costs: &OperatorCosts,
    cuts: CutOrigin,
) -> Result<ThroughputPrediction, Vec<&'static str>> {
    let measured = costs;
    let mut costs = node_costs(graph, measured)?;
    let mut disk_s = 0.0;
    let mut ahead = Vec::new();
    // Beside a live or generated source reading takes an unknown part of the time.
    let samples = total_samples(graph).filter(|&samples| samples > 0);
    let readings = samples.map_or_else(Vec::new, |_| Reading::all(graph));
    for reading in readings {
        let per_sample = reading.seconds / samples.unwrap_or(1) as f64;
        match reading.waits() {
            true => costs[reading.node] += per_sample,
            false if per_sample > 0.0 => {
                disk_s += per_sample;
                ahead.push(reading.strategy.name());
            }
            false => {}
        }
    }
    let options = RunOptions {
        workers,
        ..RunOptions::default()
    };
    let subgraphs = subgraph_plans(graph, &options);
    let rule = (workers > 1 && cuts == CutOrigin::Measured)
        .then(|| choose_cuts(graph, &options, measured, &subgraphs));
    let rule = rule.flatten();
    let options = RunOptions {
        cut_rule: rule.as_ref(),
        ..options
    };
    let sum = |nodes: &[usize]| nodes.iter().map(|&node| costs[node]).sum::<f64>();
    let name = |nodes: &[usize]| {
        let names = nodes.iter().map(|&node| graph.nodes[node].op.name());
        super::explain::joined(names)
    };
    let all: Vec<usize> = (0..graph.nodes.len()).collect();
    let mut servers: Vec<(f64, usize, String)> = Vec::new();
    let stages = match workers > 1 {
        true => StagePlan::instead_of_tasks(graph, &options, &subgraphs),
        false => None,
    };
    let in_tasks = subgraphs
        .iter()
        .filter(|plan| plan.task_size(graph, &options).is_some());
    let in_tasks: Vec<usize> = in_tasks
        .flat_map(|plan| plan.nodes.iter().map(|one| one.node))
        .collect();
    let stages = match stages {
        None if workers > 1 && in_tasks.is_empty() => StagePlan::of(graph, &options).ok(),
        stages => stages,
    };
    if let Some(stages) = stages {
        for (number, (nodes, replicas)) in stages.operators_and_replicas(workers).enumerate() {
            let name = format!("stage {number} ({})", name(nodes));
            servers.push((sum(nodes), replicas, name));
        }
    } else if workers > 1 && !in_tasks.is_empty() {
        let rest: Vec<usize> = all
            .into_iter()
            .filter(|at| !in_tasks.contains(at))
            .collect();
        servers.push((
            sum(&in_tasks),
            workers,
            format!("tasks ({})", name(&in_tasks)),
        ));
        servers.push((
            sum(&rest),
            1,
            format!("the part in order ({})", name(&rest)),
        ));
    } else {
        servers.push((sum(&all), 1, format!("one thread ({})", name(&all))));
    }
    let replicas = servers.iter().map(|server| (server.0, server.1));
    let rate = predicted_rate(replicas, workers, workers);
    let busiest = servers
        .iter()
        .max_by(|one, other| (one.0 / one.1 as f64).total_cmp(&(other.0 / other.1 as f64)));
    // All threads are busy before the busiest server is.
    let total: f64 = servers.iter().map(|server| server.0).sum();
    let bottleneck = match busiest {
        Some((seconds, replicas, name)) if seconds / *replicas as f64 >= total / workers as f64 => {
            name.clone()
        }
        _ => format!("{workers} threads, all busy"),
    };
    if disk_s * rate > 1.0 {
        ahead.dedup();
        return Ok(ThroughputPrediction {
            workers,
            rate: 1.0 / disk_s,
            bottleneck: format!("reading ({})", ahead.join(", ")),
        });
    }
    Ok(ThroughputPrediction {
        workers,
        rate,
        bottleneck,
    })
}

/// Shorter executions measure start-up more than operators.
const MIN_CHECKED: Duration = Duration::from_millis(500);

/// No profile says how fast a server answers.
pub(super) fn reads_remotely(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| match &node.op {
        Op::Scan { recording, .. } => recording
            .0
            .as_stored()
            .is_some_and(StoredRecording::is_remote),
        _ => false,
    })
}

pub(super) fn lines(graph: &Graph) -> Vec<String> {
    if reads_remotely(graph) {
        return vec![
            "no prediction of throughput: how fast a server answers is not measured".into(),
        ];
    }
    let known = OperatorCosts::path().map(|path| OperatorCosts::load(&path));
    let costs = match known {
        Some(Ok(costs)) => costs,
        Some(Err(error)) => return vec![format!("no prediction of throughput: {error}")],
        None => OperatorCosts::none(),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut predictions = Vec::new();
    for workers in [1, threads] {
        match predict(graph, workers, &costs, CutOrigin::Measured) {
            Ok(prediction) => predictions.push(prediction),
            Err(mut missing) => {
                missing.dedup();
                let names = super::explain::joined(missing.into_iter());
                return vec![format!(
                    "no prediction of throughput: not measured: {names}; plan.characterise() measures each operator"
                )];
            }
        }
    }
    predictions.dedup_by_key(|one| one.workers);
    let mut lines: Vec<String> = predictions
        .iter()
        .map(|one| {
            let time = total_samples(graph).map_or(String::new(), |total| {
                format!(", {:.3} s in all", total as f64 / one.rate)
            });
            let threads = if one.workers == 1 {
                "thread"
            } else {
                "threads"
            };
            format!(
                "{} {threads}: {} samples/s{time}; limited by {}",
                one.workers,
                rounded(one.rate),
                one.bottleneck
            )
        })
        .collect();
    lines.push(match costs.prediction_error() {
        None => "error so far: no prediction was checked yet".into(),
        Some(Quartiles { median, high, .. }) => format!(
            "error so far: median {:.0} %, upper quartile {:.0} %, of {} predictions",
            100.0 * median,
            100.0 * high,
            costs.predictions.len()
        ),
    });
    lines
}

fn rounded(rate: f64) -> String {
    match rate {
        rate if !rate.is_finite() => "any number of".into(),
        rate if rate >= 1e6 => format!("{:.3} million", rate / 1e6),
        rate => format!("{rate:.0}"),
    }
}

/// Of the largest source; None if one is unknown.
pub(super) fn total_samples(graph: &Graph) -> Option<u64> {
    let mut most = 0;
    for node in &graph.nodes {
        if let Op::Scan {
            recording, range, ..
        } = &node.op
        {
            let snapshot = recording.0.snapshot(range.clone()).ok()??;
            most = most.max(snapshot.total());
        }
    }
    Some(most)
}

#[cfg(test)]
mod tests {
    use isochrony_segment::{SigSeg, Stream};
    use isochrony_store::machine::MeasuredOperator;
    use isochrony_time::{Rate, TimebaseId};

    use super::super::operator_key::key;
    use super::*;
    use crate::{Catalog, Segments};

    #[test]
    fn declared_cuts_are_predicted_as_such() {
        let stream = Stream::new("made", TimebaseId(0), Rate::new(1000, 1).unwrap()).intern();
        let segment = SigSeg::from_slice(&vec![1.0_f64; 1 << 20], 0, stream).unwrap();
        let scan = Plan::scan(Segments::new([segment]).unwrap());
        let operator = *Catalog::standard().get("iir").unwrap();
        let filtered = (0..4).fold(scan, |plan, number| {
            let params = serde_json::json!({
                "band": "lowpass", "cutoff_hz": 40.0 + f64::from(number), "order": 4
            });
            let params = params.as_object().unwrap().clone();
            plan.apply(&operator, params, &[]).unwrap()
        });
        // Filters that take next to nothing are worth no stages of their own.
        let mut graph = Graph::new(&filtered);
        crate::optimiser::optimise(&mut graph);
        let mut costs = OperatorCosts::none();
        for (node, ns) in [(1, 0.01), (2, 3.0), (3, 0.01), (4, 3.0)] {
            costs.note(MeasuredOperator {
                key: key(&graph, node),
                seconds_per_sample: Quartiles::exact(1e-9 * ns),
            });
        }
        let rate_of = |cuts| filtered.predict_cut(2, &costs, cuts).unwrap().rate;
        let [declared, measured] = [CutOrigin::Declared, CutOrigin::Measured].map(rate_of);
        // Two threads share all, or wait for the stage of 3.02 ns.
        assert!((1e9 / declared - 3.01).abs() < 1e-3, "{declared}");
        assert!((1e9 / measured - 3.02).abs() < 1e-3, "{measured}");
    }
}
