//! Operators laid out for the driver loop: a [`Slot`] has only what every item touches, half a cache line. In a chain
//! of a thousand operators the slots alone fill the first-level cache, so all else is in [`NodeState`].

use isochrony_time::Ratio;

use super::fan_in::FanIn;
use crate::{Operator, Port};

/// No single consumer: see [`NodeState::edges`].
pub(crate) const NOT_CHAINED: u32 = u32::MAX;
/// The next item is the first of a valid range.
pub(crate) const NO_EXPECTED_INDEX: i64 = i64::MIN;

/// The destination of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputPort {
    pub(crate) node: u32,
    pub(crate) port: Port,
}

/// Half a cache line.
#[repr(align(32))]
pub(crate) struct Slot {
    pub(crate) op: Box<dyn Operator>,
    /// Index at which a continuing item begins, on the only input. Of a follower only whether it is
    /// [`NO_EXPECTED_INDEX`] matters.
    pub(crate) expected: i64,
    /// The consumer of output 0 if neither has another edge there; else [`NOT_CHAINED`].
    pub(crate) next: u32,
    /// How many nodes right behind this one are in step with it.
    pub(crate) followers: u16,
    /// Whether it takes no more items.
    pub(crate) ended: bool,
    /// Whether it has several inputs.
    pub(crate) fan_in: bool,
}

const _: () = assert!(size_of::<Slot>() == 32);

/// Everything of a node that items do not touch, apart from [`count_item`](Self::count_item).
pub(crate) struct NodeState {
    pub(crate) name: &'static str,
    /// Whether its operator declared [`OperatorProperties::in_step`](crate::OperatorProperties::in_step).
    pub(crate) in_step: bool,
    /// Output indices per input index, if they differ.
    pub(crate) ratio: Ratio,
    /// Consumers of each output.
    pub(crate) edges: Vec<Vec<InputPort>>,
    /// First sample of the valid range.
    pub(crate) anchor: i64,
    pub(crate) gaps: u64,
    pub(crate) open_ports: usize,
    /// None while its items are given to the operator.
    pub(crate) queues: Option<Box<FanIn>>,
    /// Where the loop begins that this node ends.
    pub(crate) loop_begin: Option<u32>,
    /// Bytes that the operator said it holds.
    pub(crate) held_bytes: u64,
    /// The progress mark forwarded last.
    pub(crate) progress: i64,
    items: u64,
    samples: u64,
}

impl NodeState {
    pub(crate) fn new(
        name: &'static str,
        in_step: bool,
        edges: Vec<Vec<InputPort>>,
        inputs: usize,
        queues: Option<Box<FanIn>>,
    ) -> Self {
        Self {
            name,
            in_step,
            ratio: Ratio::ONE,
            edges,
            anchor: 0,
            gaps: 0,
            open_ports: inputs,
            queues,
            loop_begin: None,
            held_bytes: 0,
            progress: i64::MIN,
            items: 0,
            samples: 0,
        }
    }

    pub(crate) fn is_loop(&self) -> bool {
        self.queues.as_ref().is_some_and(|queues| queues.is_loop())
    }

    /// Counts an item at the head of a chain. Nodes behind it count only differences, so an item that passes a
    /// thousand operators unchanged touches one counter.
    pub(crate) fn count_item(&mut self, samples: u64) {
        self.items = self.items.wrapping_add(1);
        self.samples = self.samples.wrapping_add(samples);
    }

    /// An item of the node before did not arrive.
    pub(crate) fn uncount_item(&mut self, samples: u64) {
        self.items = self.items.wrapping_sub(1);
        self.samples = self.samples.wrapping_sub(samples);
    }

    /// An item of the node before arrived with another number of samples.
    pub(crate) fn adjust_samples(&mut self, before: u64, now: u64) {
        self.samples = self.samples.wrapping_add(now).wrapping_sub(before);
    }
}

/// Sets [`Slot::followers`].
pub(crate) fn link_followers(slots: &mut [Slot], nodes: &[NodeState]) {
    for node in (0..slots.len()).rev() {
        let behind = node + 1;
        if nodes[node].in_step && slots[node].next == behind as u32 && nodes[behind].in_step {
            slots[node].followers = slots[behind].followers.saturating_add(1);
        }
    }
}

/// Ends every node whose consumers have all ended. `slots[0]` is node `base`.
pub(crate) fn end_upstream(slots: &mut [Slot], base: u32, nodes: &[NodeState]) {
    for at in (0..slots.len()).rev() {
        if all_consumers_ended(slots, base, &nodes[base as usize + at]) {
            slots[at].ended = true;
        }
    }
}

/// Whether a node has consumers, and all of them have ended.
pub(crate) fn all_consumers_ended(slots: &[Slot], base: u32, node: &NodeState) -> bool {
    let mut consumers = node.edges.iter().flatten().peekable();
    let ended = |to: &InputPort| slots[(to.node - base) as usize].ended;
    consumers.peek().is_some() && consumers.all(ended)
}

/// Items and samples that each node was given: heads of chains plus the differences along them.
pub(crate) fn input_counts(slots: &[Slot], nodes: &[NodeState]) -> Vec<(u64, u64)> {
    let mut counts: Vec<_> = nodes
        .iter()
        .map(|node| (node.items, node.samples))
        .collect();
    for (node, slot) in slots.iter().enumerate() {
        if slot.next != NOT_CHAINED {
            let (items, samples) = counts[node];
            let next = &mut counts[slot.next as usize];
            *next = (next.0.wrapping_add(items), next.1.wrapping_add(samples));
        }
    }
    counts
}
