//! A small dataflow engine with the paper's four schedulers (section III-C), for comparison with the product's.
//!
//! FIFO and its time-sliced form serve the least recently dequeued of all input queues; run to completion drains those
//! of an operator and goes on with a successor; depth first calls successors directly, and queues only messages to an
//! operator already on the stack. Queued messages lie in their own memory, as in the paper ([`Boxed`]), or in the
//! queue's ring ([`Inline`]).
//!
//! Every call does the product's accounting.

mod depth_first;
mod queued;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// What flows.
pub trait Message: Clone {
    /// Placeholder for a taken message.
    fn nothing() -> Self;
    /// Index of the first sample, next index, and samples.
    fn extent(&self) -> (i64, i64, u64);
}

/// What happens with the message after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It goes to output 0.
    Tail,
    /// Taken, or no longer needed.
    Taken,
}

/// An operator.
pub trait Node<M> {
    fn process(&mut self, port: usize, message: &mut M, out: &mut dyn Emit<M>) -> Then;

    /// What a sink found.
    fn result(&self) -> u64 {
        0
    }
}

/// Where operators' outputs go.
pub trait Emit<M> {
    fn emit(&mut self, output: usize, message: &mut M);
}

/// How a queue holds messages.
pub trait Held<M> {
    fn hold(message: M) -> Self;
    fn release(self) -> M;
}

/// In its own memory, allocated and freed per hop.
pub struct Boxed<M>(Box<M>);
/// In the queue's ring.
pub struct Inline<M>(M);

impl<M> Held<M> for Boxed<M> {
    fn hold(message: M) -> Self {
        Self(Box::new(message))
    }

    fn release(self) -> M {
        *self.0
    }
}

impl<M> Held<M> for Inline<M> {
    fn hold(message: M) -> Self {
        Self(message)
    }

    fn release(self) -> M {
        self.0
    }
}

/// Which scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// One message of the least recently dequeued queue.
    Fifo,
    /// As many as its time slice allows.
    FifoSlice(Duration),
    /// All of an operator's queues, then a successor.
    RunToCompletion,
    /// Successors are called directly.
    DepthFirst,
}

impl Scheduler {
    /// A slice of a millisecond empties most queues; shorter ones come closer to FIFO.
    pub const ALL: [Self; 4] = [
        Self::Fifo,
        Self::FifoSlice(Duration::from_millis(1)),
        Self::RunToCompletion,
        Self::DepthFirst,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "FIFO",
            Self::FifoSlice(_) => "FIFO-Slice",
            Self::RunToCompletion => "RTC",
            Self::DepthFirst => "DF",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct To {
    node: u32,
    port: u16,
}

struct Slot<M> {
    /// None while on the stack of a depth-first traversal.
    node: Option<Box<dyn Node<M>>>,
    expected: i64,
    items: u64,
    samples: u64,
    jumps: u64,
}

impl<M: Message> Slot<M> {
    #[inline]
    fn count(&mut self, message: &M) {
        let (start, next, samples) = message.extent();
        self.jumps += u64::from(self.expected != start);
        self.expected = next;
        self.items += 1;
        self.samples += samples;
    }
}

struct Queue<Q> {
    messages: VecDeque<Q>,
    node: u32,
    port: u16,
}

/// Queues, and which of them have something.
struct Core<Q> {
    edges: Vec<Vec<Vec<To>>>,
    queues: Vec<Queue<Q>>,
    first: Vec<u32>,
    /// When a queue (FIFO) or a node (RTC, DF) was last served.
    served: Vec<u64>,
    waits: Vec<bool>,
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    clock: u64,
    queued: u64,
    peak: u64,
    by_node: bool,
}

impl<Q> Core<Q> {
    fn push<M>(&mut self, to: To, message: M)
    where
        Q: Held<M>,
    {
        let queue = self.first[to.node as usize] + u32::from(to.port);
        self.queues[queue as usize]
            .messages
            .push_back(Q::hold(message));
        self.queued += 1;
        self.peak = self.peak.max(self.queued);
        self.wake(if self.by_node { to.node } else { queue });
    }

    /// Lets a queue or node wait for its turn.
    fn wake(&mut self, who: u32) {
        if !std::mem::replace(&mut self.waits[who as usize], true) {
            self.ready.push(Reverse((self.served[who as usize], who)));
        }
    }

    /// The least recently served of those that wait.
    fn next(&mut self) -> Option<u32> {
        let Reverse((_, who)) = self.ready.pop()?;
        self.waits[who as usize] = false;
        Some(who)
    }

    fn serve(&mut self, who: u32) {
        self.clock += 1;
        self.served[who as usize] = self.clock;
    }
}

/// Nodes and their connections, without a scheduler.
pub struct Graph<M> {
    nodes: Vec<Box<dyn Node<M>>>,
    ports: Vec<u16>,
    edges: Vec<Vec<Vec<To>>>,
    sources: Vec<Vec<To>>,
}

impl<M: Message> Graph<M> {
    pub fn new(sources: usize) -> Self {
        Self {
            nodes: Vec::new(),
            ports: Vec::new(),
            edges: Vec::new(),
            sources: vec![Vec::new(); sources],
        }
    }

    /// Adds an operator with so many inputs.
    pub fn add(&mut self, ports: u16, node: impl Node<M> + 'static) -> usize {
        self.nodes.push(Box::new(node));
        self.ports.push(ports);
        self.edges.push(vec![Vec::new()]);
        self.nodes.len() - 1
    }

    /// Connects an output to an input.
    pub fn connect(&mut self, (from, output): (usize, usize), (node, port): (usize, usize)) {
        let outputs = &mut self.edges[from];
        outputs.resize_with(outputs.len().max(output + 1), Vec::new);
        outputs[output].push(to(node, port));
    }

    /// Connects a source to an input.
    pub fn feed(&mut self, source: usize, (node, port): (usize, usize)) {
        self.sources[source].push(to(node, port));
    }

    /// Adds an operator of one input behind another.
    pub fn then(&mut self, from: usize, node: impl Node<M> + 'static) -> usize {
        let added = self.add(1, node);
        self.connect((from, 0), (added, 0));
        added
    }
}

fn to(node: usize, port: usize) -> To {
    To {
        node: node as u32,
        port: port as u16,
    }
}

/// A graph under a scheduler.
pub struct Engine<M, Q> {
    slots: Vec<Slot<M>>,
    core: Core<Q>,
    sources: Vec<Vec<To>>,
    scheduler: Scheduler,
    /// Successor for run to completion.
    successor: Option<u32>,
}

impl<M: Message, Q: Held<M>> Engine<M, Q> {
    pub fn new(graph: Graph<M>, scheduler: Scheduler) -> Self {
        let (mut first, mut queues) = (Vec::new(), Vec::new());
        for (node, &ports) in graph.ports.iter().enumerate() {
            first.push(queues.len() as u32);
            queues.extend((0..ports).map(|port| Queue {
                messages: VecDeque::new(),
                node: node as u32,
                port,
            }));
        }
        let slots = graph.nodes.into_iter().map(|node| Slot {
            node: Some(node),
            expected: 0,
            items: 0,
            samples: 0,
            jumps: 0,
        });
        let count = queues.len();
        Self {
            slots: slots.collect(),
            core: Core {
                edges: graph.edges,
                queues,
                first,
                served: vec![0; count],
                waits: vec![false; count],
                ready: BinaryHeap::new(),
                clock: 0,
                queued: 0,
                peak: 0,
                by_node: matches!(
                    scheduler,
                    Scheduler::RunToCompletion | Scheduler::DepthFirst
                ),
            },
            sources: graph.sources,
            scheduler,
            successor: None,
        }
    }

    /// Queues a source's message where it enters the graph.
    pub fn offer(&mut self, source: usize, message: M) {
        let Some((&last, others)) = self.sources[source].split_last() else {
            return;
        };
        for &to in others {
            self.core.push(to, message.clone());
        }
        self.core.push(last, message);
    }

    /// One decision of the scheduler; false if nothing waits.
    pub fn step(&mut self) -> bool {
        match self.scheduler {
            Scheduler::Fifo => self.step_fifo(None),
            Scheduler::FifoSlice(slice) => self.step_fifo(Some(slice)),
            Scheduler::RunToCompletion => self.step_rtc(),
            Scheduler::DepthFirst => self.step_depth_first(),
        }
    }

    /// Until nothing waits.
    pub fn drain(&mut self) {
        while self.step() {}
    }

    /// Most messages that waited at once.
    pub fn peak(&self) -> u64 {
        self.core.peak
    }

    /// What a sink found.
    pub fn result(&self, node: usize) -> u64 {
        self.slots[node]
            .node
            .as_ref()
            .map_or(0, |node| node.result())
    }
}
