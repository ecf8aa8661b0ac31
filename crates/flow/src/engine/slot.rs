//! Operators laid out for the driver: what every item touches is half a cache line, the rest lies elsewhere.
//!
//! In a chain of a thousand operators the slots themselves are what fills the first-level cache, so a [`Slot`] has only
//! what the driver reads at every hop. Counters are not among it: see [`Cold::count`].

use isochrony_time::Ratio;

use super::fan_in::FanIn;
use crate::{Operator, Port};

/// No single consumer: look at the lists of edges.
pub(crate) const MANY: u32 = u32::MAX;
/// Whatever comes next is the first of a stretch.
pub(crate) const FRESH: i64 = i64::MIN;

/// Where an output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct To {
    pub(crate) node: u32,
    pub(crate) port: Port,
}

/// Half a cache line.
#[repr(align(32))]
pub(crate) struct Slot {
    pub(crate) op: Box<dyn Operator>,
    /// Index at which what continues the last item begins, on the only input. Of a follower it only matters whether it is
    /// [`FRESH`]: it is given what its leader was.
    pub(crate) expected: i64,
    /// Consumer of output 0 if that is the only edge and takes items from nowhere else; [`MANY`] otherwise.
    pub(crate) next: u32,
    /// How many of the nodes right behind this one, each fed by the one before, keep step with it.
    pub(crate) followers: u16,
    /// Whether it takes no more items.
    pub(crate) ended: bool,
    /// Whether it has several inputs.
    pub(crate) fan_in: bool,
}

const _: () = assert!(size_of::<Slot>() == 32);

/// What items do not touch, but for what [`count`](Self::count) says.
pub(crate) struct Cold {
    pub(crate) name: &'static str,
    /// Whether it promised to keep step with its input.
    pub(crate) in_step: bool,
    /// Indices that it gives for those that it takes, where these are others.
    pub(crate) ratio: Ratio,
    /// Consumers of each output.
    pub(crate) edges: Vec<Vec<To>>,
    /// First sample of the stretch.
    pub(crate) anchor: i64,
    pub(crate) gaps: u64,
    pub(crate) open_ports: usize,
    /// Not there while its items are being given away.
    pub(crate) queues: Option<Box<FanIn>>,
    /// Where the loop begins that this node ends.
    pub(crate) loop_begin: Option<u32>,
    /// Bytes that the operator said it holds.
    pub(crate) holds: u64,
    /// Progress that was passed on last.
    pub(crate) progress: i64,
    items: u64,
    samples: u64,
}

impl Cold {
    pub(crate) fn new(
        name: &'static str,
        in_step: bool,
        edges: Vec<Vec<To>>,
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
            holds: 0,
            progress: i64::MIN,
            items: 0,
            samples: 0,
        }
    }

    /// Whether a loop begins here.
    pub(crate) fn is_loop(&self) -> bool {
        self.queues.as_ref().is_some_and(|queues| queues.is_loop())
    }

    /// An item came that did not come along a chain. What comes along a chain is counted once, at its head: what the
    /// one before was given, this one was given, too, except for the differences noted here. So items that pass a
    /// thousand operators as they are touch no counter but the first.
    pub(crate) fn count(&mut self, samples: u64) {
        self.items = self.items.wrapping_add(1);
        self.samples = self.samples.wrapping_add(samples);
    }

    /// An item that the one before in the chain was given did not come.
    pub(crate) fn uncount(&mut self, samples: u64) {
        self.items = self.items.wrapping_sub(1);
        self.samples = self.samples.wrapping_sub(samples);
    }

    /// An item came along the chain with other samples than the one before was given.
    pub(crate) fn recount(&mut self, before: u64, now: u64) {
        self.samples = self.samples.wrapping_add(now).wrapping_sub(before);
    }
}

/// Lets what keeps step follow its leader, see [`Slot::followers`].
pub(crate) fn fall_in(hot: &mut [Slot], cold: &[Cold]) {
    for node in (0..hot.len()).rev() {
        let behind = node + 1;
        if cold[node].in_step && hot[node].next == behind as u32 && cold[behind].in_step {
            hot[node].followers = hot[behind].followers.saturating_add(1);
        }
    }
}

/// A node all of whose consumers have ended is wanted no more, unless its result is what the run is for.
/// `hot[0]` is node `base`: who takes from a node is behind it.
pub(crate) fn end_upstream(hot: &mut [Slot], base: u32, cold: &[Cold]) {
    for at in (0..hot.len()).rev() {
        if is_unwanted(hot, base, &cold[base as usize + at]) {
            hot[at].ended = true;
        }
    }
}

/// Whether all have ended that take from a node, and there are some; `hot[0]` is node `base`, and they are among those.
pub(crate) fn is_unwanted(hot: &[Slot], base: u32, cold: &Cold) -> bool {
    let mut consumers = cold.edges.iter().flatten().peekable();
    let ended = |to: &To| hot[(to.node - base) as usize].ended;
    consumers.peek().is_some() && consumers.all(ended)
}

/// Items and samples that each node was given: heads of chains, and differences along them.
pub(crate) fn counts(hot: &[Slot], cold: &[Cold]) -> Vec<(u64, u64)> {
    let mut counts: Vec<_> = cold.iter().map(|cold| (cold.items, cold.samples)).collect();
    for (node, slot) in hot.iter().enumerate() {
        if slot.next != MANY {
            let (items, samples) = counts[node];
            let next = &mut counts[slot.next as usize];
            *next = (next.0.wrapping_add(items), next.1.wrapping_add(samples));
        }
    }
    counts
}
