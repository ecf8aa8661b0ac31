//! Node state, split by access frequency. A [`Slot`] holds in 32 bytes what the driver loop reads per item: slots of a
//! thousand chained operators fit the L1 cache. All else, new counters too, belongs in [`NodeState`].
//!
//! A node is *in step* if it answers each item of its only input with exactly one item of the same index range, and
//! emits nothing else. The in-step nodes directly after it are its *followers*.

use std::ops::Range;

use isochrony_time::Ratio;

use super::fan_in::FanIn;
use crate::{Operator, Port, RangeOrigin};

/// No single consumer: see [`NodeState::edges`].
pub(crate) const NOT_CHAINED: u32 = u32::MAX;
/// The next item starts a contiguous range.
pub(crate) const NO_EXPECTED_INDEX: i64 = i64::MIN;

/// Input of a tap: a node consumed only by taps is not needed.
pub(crate) const TAP_PORT: Port = Port::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputPort {
    pub(crate) node: u32,
    pub(crate) port: Port,
}

/// Hot per-node state: half a cache line.
#[repr(align(32))]
pub(crate) struct Slot {
    pub(crate) op: Box<dyn Operator>,
    /// Start of an item that continues the last one. In followers only [`NO_EXPECTED_INDEX`] matters.
    pub(crate) expected: i64,
    /// The only consumer of output 0, if it has no other input; else [`NOT_CHAINED`].
    pub(crate) next: u32,
    /// Number of followers; they have the next node numbers.
    pub(crate) followers: u16,
    pub(crate) ended: bool,
    pub(crate) fan_in: bool,
}

const _: () = assert!(size_of::<Slot>() == 32);

/// Cold per-node state; only [`count_item`](Self::count_item) writes it per item.
pub(crate) struct NodeState {
    pub(crate) name: &'static str,
    pub(crate) in_step: bool,
    /// Output indices per input index; 1 if data-dependent.
    pub(crate) ratio: Ratio,
    pub(crate) edges: Vec<Vec<InputPort>>,
    pub(crate) origin: RangeOrigin,
    /// Range announced last, in output indices.
    pub(crate) output_origin: RangeOrigin,
    pub(crate) gaps: u64,
    pub(crate) skipped: u64,
    pub(crate) open_ports: usize,
    /// Input queues of a fan-in. None while the operator runs.
    pub(crate) queues: Option<Box<FanIn>>,
    pub(crate) loop_begin: Option<u32>,
    pub(crate) held_bytes: u64,
    pub(crate) progress: i64,
    /// Results that begin in this range are passed on; None: all. See [`Out::keep_only`](crate::Out).
    pub(crate) kept: Option<Range<i64>>,
    /// Last progress mark, and its input.
    pub(crate) input_progress: (Port, i64),
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
            origin: RangeOrigin::default(),
            output_origin: RangeOrigin::default(),
            gaps: 0,
            skipped: 0,
            open_ports: inputs,
            queues,
            loop_begin: None,
            held_bytes: 0,
            progress: i64::MIN,
            kept: None,
            input_progress: (0, i64::MIN),
            items: 0,
            samples: 0,
        }
    }

    pub(crate) fn is_loop(&self) -> bool {
        self.queues.as_ref().is_some_and(|queues| queues.is_loop())
    }

    /// Counts an item at the head of a chain. Later nodes store deltas to their predecessor, so an item passed through
    /// a thousand operators writes one counter; [`input_counts`] sums them.
    pub(crate) fn count_item(&mut self, samples: u64) {
        self.items = self.items.wrapping_add(1);
        self.samples = self.samples.wrapping_add(samples);
    }

    /// The predecessor's item was not delivered here.
    pub(crate) fn uncount_item(&mut self, samples: u64) {
        self.items = self.items.wrapping_sub(1);
        self.samples = self.samples.wrapping_sub(samples);
    }

    /// The predecessor's item had another number of samples.
    pub(crate) fn adjust_samples(&mut self, before: u64, now: u64) {
        self.samples = self.samples.wrapping_add(now).wrapping_sub(before);
    }
}

pub(crate) fn link_followers(slots: &mut [Slot], nodes: &[NodeState]) {
    for node in (0..slots.len()).rev() {
        let behind = node + 1;
        if nodes[node].in_step && slots[node].next == behind as u32 && nodes[behind].in_step {
            slots[node].followers = slots[behind].followers.saturating_add(1);
        }
    }
}

/// Takes a node out of its chain before another consumer is added; keeps counts.
pub(crate) fn unchain(slots: &mut [Slot], nodes: &mut [NodeState], node: usize) {
    let counts = input_counts(slots, nodes);
    let next = std::mem::replace(&mut slots[node].next, NOT_CHAINED);
    if next != NOT_CHAINED {
        let next = next as usize;
        (nodes[next].items, nodes[next].samples) = counts[next];
    }
    // Followers do not track `expected`: it is that of the node before.
    for at in 0..slots.len() {
        let followers = std::mem::take(&mut slots[at].followers);
        let is_told = |slot: &Slot| slot.expected != NO_EXPECTED_INDEX;
        if followers > 0 && is_told(&slots[at]) && is_told(&slots[at + 1]) {
            slots[at + 1].expected = slots[at].expected;
        }
    }
    link_followers(slots, nodes);
}

/// Ends nodes whose consumers have all ended. `slots[0]` is node `base`.
pub(crate) fn end_upstream(slots: &mut [Slot], base: u32, nodes: &[NodeState]) {
    for at in (0..slots.len()).rev() {
        if all_consumers_ended(slots, base, &nodes[base as usize + at]) {
            slots[at].ended = true;
        }
    }
}

/// False without consumers. Ignores taps.
pub(crate) fn all_consumers_ended(slots: &[Slot], base: u32, node: &NodeState) -> bool {
    let consumers = node.edges.iter().flatten();
    let mut consumers = consumers.filter(|to| to.port != TAP_PORT).peekable();
    let ended = |to: &InputPort| slots[(to.node - base) as usize].ended;
    consumers.peek().is_some() && consumers.all(ended)
}

/// Items and samples delivered to each node.
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
