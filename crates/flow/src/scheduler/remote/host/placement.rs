//! Moves what is before `on` to its host, and puts a source in its place.

use std::sync::Arc;

use super::HostRequest;
use super::inbox::HostInbox;
use super::source::HostRecording;
use crate::engine::RunOptions;
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::plan::register_clock;
use crate::plan::sent::sent;
use crate::scheduler::task_contract::interleaves;
use crate::{PlanError, RunError, SEGMENT_SAMPLES, SharedRecording};

/// Share of the run's memory that messages of one host may take, within these bounds.
const WINDOW_SHARE: u64 = 64;
const MIN_WINDOW: u64 = 64 << 10;
const MAX_WINDOW: u64 = 4 << 20;

/// Whether a part of the plan is on another host.
pub(crate) fn has_hosts(graph: &Graph) -> bool {
    let mut recordings = graph.nodes.iter().filter_map(|node| node.op.recording());
    recordings.any(|recording| recording.0.is_on_host())
}

/// Starts what is before each `on` on its host.
pub(crate) fn place(graph: &mut Graph, options: &RunOptions<'_>) -> Result<(), RunError> {
    let placed: Vec<(usize, Arc<str>)> = graph
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(at, node)| Some((at, Arc::clone(node.properties.host.as_ref()?))))
        .collect();
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
        let upstream = graph.upto(graph.nodes[at].inputs[0]);
        let port = graph.nodes[at].properties.outputs[0];
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
        let descends = |node: &GraphNode| {
            let mut recording = node.op.recording().into_iter();
            interleaves(node) || recording.any(|recording| recording.0.skips_samples())
        };
        let node = &mut graph.nodes[at];
        node.op = Op::Scan {
            recording: SharedRecording::new(HostRecording {
                reads: upstream.recording_of_edge(upstream.outputs[0]),
                inbox,
                port,
                sources,
                descends: upstream.nodes.iter().any(descends),
            }),
            range: None,
            segment: SEGMENT_SAMPLES,
        };
        node.inputs.clear();
        node.properties.host = None;
    }
    graph.drop_unused();
    Ok(())
}

/// The scans that a node depends on and their numbers, in an order that depends on the plan alone, not on numbers.
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
