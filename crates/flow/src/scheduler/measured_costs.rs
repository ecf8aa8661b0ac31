//! Operator costs that [`Plan::characterise`](crate::Plan::characterise) measured on this machine.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use isochrony_store::machine::OperatorCosts;
use isochrony_tune::Configuration;
use isochrony_tune::controller::StageCosts;

use super::operator_key::key;
use crate::plan::graph::Graph;

/// Gathers results.
const COLLECT: &str = "collect";

type FileStamp = (SystemTime, u64);

static LOADED: Mutex<Option<(FileStamp, Arc<OperatorCosts>)>> = Mutex::new(None);

/// This user's, read again after a change; None without a readable file.
pub(super) fn measured_costs() -> Option<Arc<OperatorCosts>> {
    let path = OperatorCosts::path()?;
    let stamp = stamp(&path)?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, costs)) = &*loaded
        && *known == stamp
    {
        return Some(Arc::clone(costs));
    }
    let costs = Arc::new(OperatorCosts::load(&path).ok()?);
    *loaded = Some((stamp, Arc::clone(&costs)));
    Some(costs)
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Seconds by node, per sample of the fastest source; 0 for sources.
///
/// # Errors
/// Names of operators that were not measured.
pub(super) fn node_costs(
    graph: &Graph,
    costs: &OperatorCosts,
) -> Result<Vec<f64>, Vec<&'static str>> {
    let rate_of = |node: usize, output: u16| {
        let port = graph.nodes[node]
            .properties
            .outputs
            .get(usize::from(output));
        port.and_then(|port| port.rate()).map(|rate| rate.to_f64())
    };
    let sources = (0..graph.nodes.len()).filter(|&at| graph.nodes[at].inputs.is_empty());
    let fastest = sources.filter_map(|at| rate_of(at, 0)).fold(0.0, f64::max);
    let mut missing = Vec::new();
    let mut all = Vec::with_capacity(graph.nodes.len());
    for (at, node) in graph.nodes.iter().enumerate() {
        // What gathers results copies them, which is not measured.
        if node.inputs.is_empty() || node.op.name() == COLLECT {
            all.push(0.0);
            continue;
        }
        let inputs = node.inputs.iter();
        let samples = inputs.map(|&(from, output)| match rate_of(from, output) {
            Some(rate) if fastest > 0.0 => Some(rate / fastest),
            _ => None,
        });
        let samples: Option<f64> = samples.sum();
        match costs.of(&key(graph, at)) {
            Some(seconds) => all.push(seconds.median * samples.unwrap_or(1.0)),
            None => {
                missing.push(node.op.name());
                all.push(0.0);
            }
        }
    }
    match missing.is_empty() {
        true => Ok(all),
        false => Err(missing),
    }
}

/// Samples per second of a chain of servers, with seconds per sample and replicas each; infinite if nothing takes time.
pub(super) fn predicted_rate(
    servers: impl Iterator<Item = (f64, usize)>,
    workers: usize,
    cores: usize,
) -> f64 {
    let (seconds_per_sample, replicas) = servers.unzip();
    let configuration = Configuration {
        workers,
        replicas,
        link_bytes: Vec::new(),
        task_bytes: 0,
        batch_tasks: 0,
    };
    let model = StageCosts {
        seconds_per_sample,
        rate: 0.0,
        keeps_up: false,
        output_wait: Vec::new(),
        core_wait: 0.0,
        links: Vec::new(),
        link_item_bytes: Vec::new(),
        link_bytes_per_s: Vec::new(),
        batch_tasks: 0.0,
    };
    let rate = model.predict(&configuration, cores);
    rate.unwrap_or(f64::INFINITY)
}
