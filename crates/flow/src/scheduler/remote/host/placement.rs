//! Moves everything upstream of `on` to its host, replaced by a source.

use std::sync::Arc;

use super::HostRequest;
use super::inbox::HostInbox;
use super::source::HostRecording;
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::plan::sent::sent;
use crate::plan::{AbsentRecording, register_clock};
use crate::scheduler::task_contract::interleaves;
use crate::{PlanError, PortType, Recording, RunError, SEGMENT_SAMPLES, SharedRecording};

/// Fraction of memory for messages of one host, within these bounds.
const WINDOW_SHARE: u64 = 64;
const MIN_WINDOW: u64 = 64 << 10;
const MAX_WINDOW: u64 = 4 << 20;

fn host_nodes(graph: &Graph) -> Vec<(usize, Arc<str>)> {
    let nodes = graph.nodes.iter().enumerate();
    nodes
        .filter_map(|(at, node)| Some((at, Arc::clone(node.properties.host.as_ref()?))))
        .collect()
}

struct HostOutput {
    upstream: Graph,
    port: PortType,
    /// Gives indices and times.
    reads: Option<SharedRecording>,
    /// Items need not be contiguous or in order.
    descends: bool,
}

impl HostOutput {
    fn of(graph: &Graph, at: usize) -> Self {
        let upstream = graph.upto(graph.nodes[at].inputs[0]);
        let descends = |node: &GraphNode| {
            let mut recording = node.op.recording().into_iter();
            interleaves(node) || recording.any(|recording| recording.0.skips_samples())
        };
        Self {
            port: graph.nodes[at].properties.outputs[0],
            reads: upstream.recording_of_edge(upstream.outputs[0]),
            descends: upstream.nodes.iter().any(descends),
            upstream,
        }
    }
}

fn replace(node: &mut GraphNode, recording: impl Recording + 'static) {
    node.op = Op::Scan {
        recording: SharedRecording::new(recording),
        range: None,
        segment: SEGMENT_SAMPLES,
    };
    node.inputs.clear();
    node.properties.host = None;
}

pub(crate) fn link_bytes(graph: &Graph) -> u64 {
    let recordings = graph.nodes.iter().filter_map(|node| node.op.recording());
    recordings
        .filter_map(|recording| recording.0.host_window())
        .sum()
}

/// For slots, which compute only what follows `on`.
pub(crate) fn replace_with_stand_ins(graph: &mut Graph) {
    for (at, _) in host_nodes(graph) {
        let output = HostOutput::of(graph, at);
        let clock = output.reads.and_then(|recording| recording.clock());
        let recording = AbsentRecording::on_host(at, output.port, clock, output.descends);
        replace(&mut graph.nodes[at], recording);
    }
    graph.drop_unused();
}

pub(crate) fn place(graph: &mut Graph, options: &RunOptions<'_>) -> Result<(), RunError> {
    let placed = host_nodes(graph);
    if placed.is_empty() {
        return Ok(());
    }
    let mut feeds: Vec<(String, Arc<str>)> = Vec::new();
    for (at, host) in &placed {
        let upstream = graph.upto(graph.nodes[*at].inputs[0]);
        if let Some(inner) = upstream
            .nodes
            .iter()
            .find_map(|node| node.properties.host.as_ref())
        {
            return Err(PlanError::HostWithinHost {
                host: host.to_string(),
                inner: inner.to_string(),
            }
            .into());
        }
        for (_, recording) in scans(&upstream, upstream.outputs[0].0) {
            if recording.0.is_splittable() {
                continue;
            }
            let key = recording.key();
            if let Some((_, other)) = feeds.iter().find(|(one, _)| *one == key) {
                return Err(PlanError::FeedOnTwoHosts {
                    feed: recording.0.port().to_string(),
                    hosts: format!("{other}, {host}"),
                }
                .into());
            }
            feeds.push((key, Arc::clone(host)));
        }
    }
    let Some(cluster) = options.cluster else {
        let host = placed[0].1.to_string();
        return Err(PlanError::NoCluster { host }.into());
    };
    for (at, host) in placed {
        let HostOutput {
            upstream,
            port,
            reads,
            descends,
        } = HostOutput::of(graph, at);
        let (form, objects) = sent(&upstream, false, |_| false)?;
        let sources = scans(&upstream, upstream.outputs[0].0);
        let operators = upstream.nodes.iter().map(|node| node.op.name());
        let window = (options.memory / WINDOW_SHARE).clamp(MIN_WINDOW, MAX_WINDOW);
        let inbox = Arc::new(HostInbox::new(
            host.to_string(),
            port,
            operators.collect(),
            sources.iter().map(|(node, _)| *node).collect(),
            window,
        ));
        let opened = cluster.open_host(HostRequest {
            host: host.to_string(),
            form,
            objects,
            inbox: Arc::clone(&inbox),
        });
        opened.map_err(|why| RunError::Operator {
            operator: "on",
            node: at,
            range: None,
            time: None,
            error: crate::OpErrorKind::Failed(why).into(),
        })?;
        let sources: Vec<SharedRecording> = sources.into_iter().map(|(_, one)| one).collect();
        sources.iter().for_each(register_clock);
        let recording = HostRecording {
            inbox,
            port,
            sources,
            reads,
            descends,
        };
        replace(&mut graph.nodes[at], recording);
    }
    graph.drop_unused();
    Ok(())
}

/// In an order that depends on the plan alone, not on numbers.
pub(super) fn scans(graph: &Graph, node: usize) -> Vec<(usize, SharedRecording)> {
    let mut seen = vec![false; graph.nodes.len()];
    let (mut found, mut pending) = (Vec::new(), vec![node]);
    while let Some(at) = pending.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let one = &graph.nodes[at];
        found.extend(one.op.recording().map(|recording| (at, recording.clone())));
        let inputs = one.inputs.iter().rev();
        pending.extend(inputs.map(|&(from, _): &Edge| from));
    }
    found
}
