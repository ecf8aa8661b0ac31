//! What stages compute and pass to each other, estimated for their homes.

use std::ops::Range;

use isochrony_runtime::CpuLocation;

use super::homes::{StagesToPlace, Transfer};
use super::stage_costs::costs_ns;
use super::stage_plan::StagePlan;
use super::stage_queue::StageSet;
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::scheduler::output_estimate::output_bytes_per_sample;

const UNKNOWN_SAMPLES: u64 = 1 << 20;

impl StagePlan {
    /// By thread, the caller's first; none without pinning. `entries`: by stage.
    pub(super) fn homes(
        &self,
        graph: &Graph,
        options: &RunOptions<'_>,
        entries: &[Range<usize>],
    ) -> Vec<StageSet> {
        let count = entries.last().map_or(0, |last| last.end);
        let location = |thread: usize| match options.stages.threads_per_cache {
            0 => options.pinning.map(|pinning| pinning.location(thread)),
            threads => Some(CpuLocation {
                package: 0,
                node: 0,
                cache: thread / threads,
                core: thread,
            }),
        };
        let threads: Option<Vec<CpuLocation>> =
            (0..options.workers.min(count)).map(location).collect();
        let Some(threads) = threads else {
            return Vec::new();
        };
        let caller_stages = self
            .caller_sources
            .into_iter()
            .chain([self.stages.len() - 1]);
        let computing = self.computing(entries);
        let callers = caller_stages.fold(0, |set, stage| set | 1 << computing[stage].start);
        let stages = StagesToPlace {
            weights: &self.weights(&costs_ns(graph, options), entries),
            transfers: &self.transfers(graph, entries),
            callers,
        };
        stages.homes(&threads)
    }

    /// By entry: expected time in 64ths of an entry's share, divided among replicas.
    fn weights(&self, expected: &[f64], entries: &[Range<usize>]) -> Vec<u64> {
        let unit = expected.iter().sum::<f64>() / (64 * self.stages.len()) as f64;
        let stages = self.stages.iter().zip(entries);
        let weights = stages.flat_map(|(nodes, entries)| {
            let own: f64 = nodes.iter().map(|&node| expected[node]).sum();
            let weight = own / unit.max(f64::MIN_POSITIVE) / entries.len() as f64;
            entries.clone().map(move |_| (weight as u64).max(1))
        });
        weights.collect()
    }

    /// Estimated bytes of the whole run. Replicas have equal parts.
    fn transfers(&self, graph: &Graph, entries: &[Range<usize>]) -> Vec<Transfer> {
        let nodes = graph.nodes.iter();
        let nodes = nodes.map(|node| (&node.inputs[..], &node.properties));
        let bytes_per_sample = output_bytes_per_sample(nodes);
        let mut samples: Vec<u64> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let before = node.inputs.first().map(|&(from, _)| samples[from]);
            samples.push(before.unwrap_or_else(|| source_samples(node)));
        }
        let mut transfers = Vec::new();
        for (from, to, (node, _)) in self.cut_edges(graph) {
            let (writers, readers) = (&entries[from], &entries[to]);
            let bytes = bytes_per_sample[node] * samples[node] as f64;
            let each = bytes / (writers.len() * readers.len()) as f64;
            for from in writers.clone() {
                let bytes = (each as u64).max(1);
                transfers.extend(readers.clone().map(|to| Transfer { from, to, bytes }));
            }
        }
        transfers
    }
}

fn source_samples(node: &GraphNode) -> u64 {
    let Op::Scan {
        recording, range, ..
    } = &node.op
    else {
        return UNKNOWN_SAMPLES;
    };
    let snapshot = recording.0.snapshot(range.clone()).ok().flatten();
    snapshot.map_or(UNKNOWN_SAMPLES, |snapshot| snapshot.total())
}
