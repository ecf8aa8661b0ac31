//! Lays the operators of a graph out for a run.

use std::collections::VecDeque;
use std::time::Instant;

use isochrony_runtime::Watch;
use isochrony_time::Ratio;

use super::axis::Axis;
use super::drive::Out;
use super::fan_in::FanIn;
use super::feed::{Burst, Feed};
use super::pool::Pool;
use super::shared::{NOWHERE, Shared};
use super::slot::{self, Cold, FRESH, MANY, Slot, To};
use super::{Remains, Run, RunOptions};
use crate::plan;
use crate::plan::graph::{Graph, LOOP};
use crate::{Alignment, OpError, OpErrorKind, RunError};

impl Run {
    /// Opens what the graph reads and makes its operators.
    pub(crate) fn new(graph: &Graph, options: &RunOptions<'_>) -> Result<Self, RunError> {
        Self::after(graph, options, None)
    }

    /// The same with what a run of the same graph and options has left.
    pub(crate) fn after(
        graph: &Graph,
        options: &RunOptions<'_>,
        remains: Option<Remains>,
    ) -> Result<Self, RunError> {
        let (mut made, pool) = match remains {
            Some(Remains { operators, pool }) => (operators, Some(pool)),
            None => (Vec::new(), None),
        };
        let failed = |node: usize, error: OpError| RunError::Operator {
            operator: graph.called(node).0,
            node: graph.called(node).1,
            range: None,
            time: None,
            error,
        };
        let mut edges: Vec<Vec<Vec<To>>> = graph
            .nodes
            .iter()
            .map(|node| vec![Vec::new(); node.bound.outputs.len().max(1)])
            .collect();
        for (at, node) in graph.nodes.iter().enumerate() {
            for (port, &(from, output)) in node.inputs.iter().enumerate() {
                if graph.loop_begin(at) == Some(from) && port == LOOP {
                    // Says which loop it ends, and takes nothing.
                    continue;
                }
                edges[from][usize::from(output)].push(To {
                    node: at as u32,
                    port: port as u16,
                });
            }
        }
        let (mut slots, mut cold, mut feeds) = (Vec::new(), Vec::new(), Vec::new());
        for (at, node) in graph.nodes.iter().enumerate() {
            if let Some(source) = plan::open(&node.op) {
                let recording = node.op.recording();
                feeds.push(Feed {
                    source: source.map_err(|error| failed(at, error))?,
                    node: at,
                    upto: i64::MIN,
                    kept: None,
                    backs: 0,
                    time: f64::NEG_INFINITY,
                    axis: Axis::given(graph, at),
                    ended: false,
                    idle: false,
                    stored: recording.is_some_and(|recording| recording.0.is_splittable()),
                    counted: 0,
                });
            }
            let op = match made.get_mut(at).and_then(Option::take) {
                Some(op) => op,
                None => fresh(graph, at, options).map_err(|error| failed(at, error))?,
            };
            let fan_in = node.bound.align != Alignment::Single;
            let from = node.inputs.iter().map(|&(n, o)| {
                let stream = graph.nodes[n].bound.outputs[usize::from(o)].stream_id();
                let (name, number) = graph.called(n);
                let name = format!("{name} (node {number})");
                (name, stream.and_then(crate::plan::rows::clock_of))
            });
            // What is fed back comes without an edge.
            let looped = matches!(node.bound.align, Alignment::Loop { .. });
            let from = from.chain(looped.then(|| ("what is fed back".into(), None)));
            let mut queues = fan_in.then(|| Box::new(FanIn::new(node.bound.align, from)));
            let loop_begins = graph.loop_begin(at).is_some();
            if let Some(queues) = queues.as_mut().filter(|_| loop_begins) {
                queues.silence(LOOP);
            }
            // Along a chain items are counted once: sources and fan-ins begin one.
            let chained = !fan_in && !node.inputs.is_empty();
            let next = match edges[at].first().map(Vec::as_slice) {
                Some(&[To { node, .. }]) if chained && single(graph, node) => node,
                _ => MANY,
            };
            slots.push(Slot {
                op,
                expected: FRESH,
                next,
                followers: 0,
                ended: false,
                fan_in,
            });
            let edges = std::mem::take(&mut edges[at]);
            let begin = graph.loop_begin(at);
            let inputs = node.inputs.len() - usize::from(begin.is_some());
            let in_step = node.bound.in_step && chained;
            let mut one = Cold::new(node.op.name(), in_step, edges, inputs, queues);
            one.loop_begin = begin.map(|begin| begin as u32);
            one.ratio = ratio(graph, at).unwrap_or(Ratio::ONE);
            cold.push(one);
        }
        slot::fall_in(&mut slots, &cold);
        for (node, slot) in slots.iter_mut().enumerate() {
            let ends = cold[node].edges.iter().all(Vec::is_empty);
            if let Some(samples) = ends.then(|| expected(graph, &feeds, node)).flatten() {
                slot.op.expect(samples);
            }
        }
        let count = slots.len();
        let sources = feeds.len();
        Ok(Self {
            slots,
            feeds,
            shared: Shared {
                cold,
                pool: match pool {
                    Some(pool) => pool.into_next(options.memory_handle()),
                    None => Pool::new(options.memory_handle()),
                },
                queued: 0,
                back: VecDeque::new(),
                current: 0,
                range: NOWHERE,
                interrupt: options.interrupt.cloned(),
                watch: options.watch.map(Watch::start),
                timed: false,
                since: Instant::now(),
                useful_ns: vec![0; count],
                ends: 0,
                failures: Vec::new(),
            },
            called: (0..graph.nodes.len()).map(|at| graph.called(at)).collect(),
            axes: (0..graph.nodes.len())
                .map(|at| Axis::given(graph, at))
                .collect(),
            by_block: graph.ends_before_sources(),
            ends: 0,
            bursts: 0,
            round: Burst::default(),
            timing: 0,
            burst_bytes: Burst::most(options.memory, sources),
            given: 0,
            timed_samples: 0,
            until: None,
        })
    }
}

/// The operator of a node, made for a run.
fn fresh(
    graph: &Graph,
    at: usize,
    options: &RunOptions<'_>,
) -> Result<Box<dyn crate::Operator>, OpError> {
    let node = &graph.nodes[at];
    let Some(made) = node.op.make(graph.reads(at).as_ref(), options) else {
        return Ok(Box::new(Nothing));
    };
    let types: Vec<_> = node
        .inputs
        .iter()
        .map(|&(n, o)| graph.nodes[n].bound.outputs[usize::from(o)])
        .collect();
    let made = made.and_then(|mut op| op.bind(&types).map(|_| op));
    made.map_err(|error| OpErrorKind::Failed(error.into()).into())
}

/// Samples that will reach a sink, if it is at the end of a chain that leaves none out.
fn expected(graph: &Graph, feeds: &[Feed], node: usize) -> Option<u64> {
    let (mut now, mut all) = (node, Ratio::ONE);
    while let [(from, _)] = graph.nodes[now].inputs[..] {
        if now != node {
            all = all.then(ratio(graph, now)?).ok()?;
        }
        now = from;
    }
    let feed = feeds.iter().find(|feed| feed.node == now)?;
    let total = (now != node).then(|| feed.source.expects()).flatten()?;
    all.first_from(i64::try_from(total).ok()?)
        .map(i64::unsigned_abs)
}

/// Indices that a node gives for those that it takes; None where that depends on the data.
fn ratio(graph: &Graph, node: usize) -> Option<Ratio> {
    let (given, taken) = graph.nodes[node].bound.ratio?;
    Ratio::new(given, taken).ok()
}

/// Whether a node takes items from one edge only.
fn single(graph: &Graph, node: u32) -> bool {
    let node = &graph.nodes[node as usize];
    node.bound.align == Alignment::Single && node.inputs.len() == 1
}

/// Stands in the place of a source, which is not an operator.
struct Nothing;

impl crate::Operator for Nothing {
    fn bind(
        &mut self,
        _: &[crate::PortType],
    ) -> Result<crate::OperatorProperties, crate::PlanError> {
        Ok(crate::OperatorProperties::new([]))
    }

    fn process(
        &mut self,
        _: u16,
        _: &mut crate::Item,
        _: &mut Out<'_>,
    ) -> Result<crate::Next, OpError> {
        Ok(crate::Next::Consumed)
    }
}
