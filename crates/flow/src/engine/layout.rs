//! Lays a graph out as a [`PlanExecutor`], and recovers its reusable parts.

use std::collections::VecDeque;
use std::time::Instant;

use isochrony_runtime::Watch;
use isochrony_time::Ratio;

use super::context::{ExecutionContext, NO_RANGE, wait_check};
use super::dispatch::Out;
use super::executor::PlanExecutor;
use super::fan_in::FanIn;
use super::options::RunOptions;
use super::pool::OutputPool;
use super::slot::{self, InputPort, NO_EXPECTED_INDEX, NOT_CHAINED, NodeState, Slot};
use super::source_order::{BurstSize, OpenSource, SourceOrder};
use super::time_axis::TimeAxis;
use crate::plan::graph::{Graph, LOOP};
use crate::plan::{self, Op};
use crate::sinks::event_order::EventOrders;
use crate::{Alignment, Contract, OpError, OpErrorKind, Operator, RunError};

const MAX_KEPT_BYTES: u64 = 16 << 20;

/// Reusable for the same graph and options.
pub(crate) struct ReusableParts {
    pub(crate) operators: Vec<Option<Box<dyn Operator>>>,
    pool: OutputPool,
}

impl PlanExecutor {
    pub(crate) fn new(graph: &Graph, options: &RunOptions<'_>) -> Result<Self, RunError> {
        Self::with_reused(graph, options, None)
    }

    pub(crate) fn with_reused(
        graph: &Graph,
        options: &RunOptions<'_>,
        reused: Option<ReusableParts>,
    ) -> Result<Self, RunError> {
        let (mut reused, pool) = match reused {
            Some(ReusableParts { operators, pool }) => (operators, Some(pool)),
            None => (Vec::new(), None),
        };
        let failed = |node: usize, error: OpError| RunError::Operator {
            operator: graph.plan_node(node).0,
            node: graph.plan_node(node).1,
            range: None,
            time: None,
            error,
        };
        let event_orders = EventOrders::default();
        let options = &RunOptions {
            event_orders: Some(&event_orders),
            ..*options
        };
        let mut edges = edges(graph);
        let (mut slots, mut nodes, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for (at, node) in graph.nodes.iter().enumerate() {
            if let Some(source) = plan::open(&node.op) {
                let source = source.map_err(|error| failed(at, error))?;
                sources.push(open_source(graph, at, source));
            }
            let op = match reused.get_mut(at).and_then(Option::take) {
                Some(op) => op,
                None => make_operator(graph, at, options).map_err(|error| failed(at, error))?,
            };
            let edges = std::mem::take(&mut edges[at]);
            // A chain counts items once, at its head: a source or fan-in.
            let fan_in = node.properties.align != Alignment::Single;
            let chained = !fan_in && !node.inputs.is_empty();
            let next = match edges.first().map(Vec::as_slice) {
                Some(&[InputPort { node, .. }]) if chained && has_one_edge(graph, node) => node,
                _ => NOT_CHAINED,
            };
            slots.push(Slot {
                op,
                expected: NO_EXPECTED_INDEX,
                next,
                followers: 0,
                ended: false,
                fan_in,
            });
            let begin = graph.loop_begin(at);
            let inputs = node.inputs.len() - usize::from(begin.is_some());
            let in_step = node.properties.in_step && chained;
            let queues = fan_in.then(|| Box::new(fan_in_queues(graph, at)));
            let mut state = NodeState::new(node.op.name(), in_step, edges, inputs, queues);
            state.loop_begin = begin.map(|begin| begin as u32);
            state.ratio = index_ratio(graph, at).unwrap_or(Ratio::ONE);
            nodes.push(state);
        }
        slot::link_followers(&mut slots, &nodes);
        for (at, slot) in slots.iter_mut().enumerate() {
            let is_sink = nodes[at].edges.iter().all(Vec::is_empty);
            let expected = is_sink.then(|| expected_samples(graph, &sources, at));
            if let Some(samples) = expected.flatten() {
                slot.op.expect(samples);
            }
        }
        let burst_bytes = BurstSize::max_bytes(options.memory, sources.len());
        let all = 0..graph.nodes.len();
        Ok(Self {
            context: ExecutionContext {
                nodes,
                pool: match pool {
                    Some(pool) => pool.into_next(options.memory_handle()),
                    None => OutputPool::new(options.memory_handle()),
                },
                queued_bytes: 0,
                feedback: VecDeque::new(),
                current_node: 0,
                item_range: NO_RANGE,
                interrupt: options.interrupt.cloned(),
                ends_burst: false,
                arrived: None,
                wait_check: wait_check(options.interrupt, options.watch),
                watch: options.watch.map(Watch::start),
                timed: false,
                since: Instant::now(),
                useful_ns: vec![0; slots.len()],
                done_count: 0,
                other_errors: Vec::new(),
                helpers: None,
            },
            slots,
            source_order: SourceOrder {
                sources,
                by_block: graph.ends_before_sources(),
                awaits: false,
            },
            plan_nodes: all.clone().map(|at| graph.plan_node(at)).collect(),
            axes: all.map(|at| TimeAxis::of_node_input(graph, at)).collect(),
            done_seen: 0,
            bursts: 0,
            round: BurstSize::default(),
            timed_items_left: 0,
            burst_bytes,
            measures: options.measure,
            asked: None,
            latencies: None,
            flush_interval: options.flush_interval(),
            flushed: Instant::now(),
            items: 0,
            bytes: 0,
            timed_samples: 0,
            first_error: None,
            error_time: None,
            node_count: graph.nodes.len(),
            taps: None,
        })
    }

    pub(crate) fn into_reusable(self, graph: &Graph) -> ReusableParts {
        let nodes = self.slots.into_iter().zip(&graph.nodes);
        let operators = nodes.map(|(slot, node)| {
            let properties = &node.properties;
            let alone = properties.contract == Contract::Stateless && properties.delay == 0;
            // Factory operators serve one execution.
            let made_of_parameters = matches!(node.op, Op::Apply { changes: None, .. });
            let in_place = matches!(properties.ratio, None | Some((1, 1)));
            let stateless = alone && in_place && properties.align == Alignment::Single;
            (made_of_parameters && stateless).then_some(slot.op)
        });
        ReusableParts {
            operators: operators.collect(),
            pool: self.context.pool.kept_up_to(MAX_KEPT_BYTES),
        }
    }
}

fn edges(graph: &Graph) -> Vec<Vec<Vec<InputPort>>> {
    let nodes = graph.nodes.iter();
    let outputs = nodes.map(|node| vec![Vec::new(); node.properties.outputs.len().max(1)]);
    let mut edges: Vec<Vec<Vec<InputPort>>> = outputs.collect();
    for (at, node) in graph.nodes.iter().enumerate() {
        for (port, &(from, output)) in node.inputs.iter().enumerate() {
            if graph.loop_begin(at) == Some(from) && port == LOOP {
                // This input only names the loop.
                continue;
            }
            edges[from][usize::from(output)].push(InputPort {
                node: at as u32,
                port: port as u16,
            });
        }
    }
    edges
}

fn open_source(graph: &Graph, node: usize, source: Box<dyn crate::Source>) -> OpenSource {
    let recording = graph.nodes[node].op.recording();
    OpenSource {
        source,
        node,
        progress: i64::MIN,
        given: NO_RANGE,
        deferred: None,
        began_range: false,
        rewinds: 0,
        time: f64::NEG_INFINITY,
        axis: TimeAxis::of_node_input(graph, node),
        ended: false,
        idle: false,
        stop: None,
        stored: recording.is_some_and(|recording| recording.0.is_splittable()),
        reported: 0,
    }
}

fn fan_in_queues(graph: &Graph, at: usize) -> FanIn {
    let node = &graph.nodes[at];
    let inputs = node.inputs.iter().map(|&(from, output)| {
        let stream = graph.nodes[from].properties.outputs[usize::from(output)].stream_id();
        let (name, number) = graph.plan_node(from);
        let name = format!("{name} (node {number})");
        (name, stream.and_then(plan::rows::clock_of))
    });
    let is_loop = matches!(node.properties.align, Alignment::Loop { .. });
    let inputs = inputs.chain(is_loop.then(|| ("what is fed back".into(), None)));
    let mut queues = FanIn::new(node.properties.align, inputs);
    if graph.loop_begin(at).is_some() {
        queues.set_silent(LOOP);
    }
    queues
}

fn make_operator(
    graph: &Graph,
    at: usize,
    options: &RunOptions<'_>,
) -> Result<Box<dyn Operator>, OpError> {
    let node = &graph.nodes[at];
    let Some(made) = node.op.make(graph.recording_of(at).as_ref(), options) else {
        return Ok(Box::new(SourcePlaceholder));
    };
    let types: Vec<_> = node
        .inputs
        .iter()
        .map(|&(n, o)| graph.nodes[n].properties.outputs[usize::from(o)])
        .collect();
    let made = made.and_then(|mut op| op.bind(&types).map(|_| op));
    made.map_err(|error| OpErrorKind::Failed(error.into()).into())
}

/// Samples reaching the sink of a chain, if independent of the data.
fn expected_samples(graph: &Graph, sources: &[OpenSource], node: usize) -> Option<u64> {
    let (mut now, mut all) = (node, Ratio::ONE);
    while let [(from, _)] = graph.nodes[now].inputs[..] {
        if now != node {
            all = all.then(index_ratio(graph, now)?).ok()?;
        }
        now = from;
    }
    let source = sources.iter().find(|source| source.node == now)?;
    let total = (now != node)
        .then(|| source.source.expected_samples())
        .flatten()?;
    all.first_from(i64::try_from(total).ok()?)
        .map(i64::unsigned_abs)
}

/// Output indices per input index; None if data-dependent.
fn index_ratio(graph: &Graph, node: usize) -> Option<Ratio> {
    let (given, taken) = graph.nodes[node].properties.ratio?;
    Ratio::new(given, taken).ok()
}

fn has_one_edge(graph: &Graph, node: u32) -> bool {
    let node = &graph.nodes[node as usize];
    node.properties.align == Alignment::Single && node.inputs.len() == 1
}

struct SourcePlaceholder;

impl Operator for SourcePlaceholder {
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
