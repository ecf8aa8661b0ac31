//! The driver: items depth first through the operators of a plan.
//!
//! A chain is a loop, not a recursion: [`drive`] hands the item from slot to slot as long as operators answer
//! [`Next::Tail`] and have one consumer. An operator that emits calls back into it with the slots behind its own,
//! which is all that [`Out`] can reach: nodes are in topological order, so no operator is ever entered twice at once.

use std::time::Instant;

use isochrony_segment::{Buffer, DType};

use crate::exec::pool::{Block, Pool};
use crate::exec::slot::{Cold, FRESH, MANY, Slot, To};
use crate::{Break, Item, Next, OpError, Port};

/// Not at an item.
pub(crate) const NOWHERE: (i64, i64) = (FRESH, FRESH);

/// What all operators of a run share.
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    /// Bytes that wait at fan-ins.
    pub(crate) queued: u64,
    /// The operator at work, and the first index of what it was given: where an error happened.
    pub(crate) current: u32,
    pub(crate) range: (i64, i64),
    /// Whether this burst is timed; time since `since` belongs to `current`.
    pub(crate) timed: bool,
    pub(crate) since: Instant,
    pub(crate) useful_ns: Vec<u64>,
    /// An operator said that it wants no more: look whether sources can be dropped.
    pub(crate) ended: bool,
}

impl Shared {
    /// Time until now belonged to the operator at work; from now on it belongs to `node`.
    #[inline]
    pub(crate) fn switch(&mut self, node: u32) {
        if self.timed {
            let now = Instant::now();
            let spent = now.duration_since(self.since).as_nanos() as u64;
            if let Some(useful) = self.useful_ns.get_mut(self.current as usize) {
                *useful += spent;
            }
            self.since = now;
        }
        self.current = node;
    }
}

/// What goes along an edge beside items.
#[derive(Debug, Clone)]
pub(crate) enum Mark {
    Stretch { anchor: i64, why: Option<Break> },
    Progress(i64),
    End,
}

/// Where an operator's output goes, and where it gets memory.
pub struct Out<'a> {
    /// The slots of the nodes behind this one.
    later: &'a mut [Slot],
    node: u32,
    cold: &'a Cold,
    shared: &'a mut Shared,
}

impl Out<'_> {
    /// Gives an item to every consumer of an output; it is lent to them, and to all but the last as a clone.
    ///
    /// # Errors
    /// What a later operator failed with: pass it on with `?`.
    pub fn emit(&mut self, port: Port, item: &mut Item) -> Result<(), OpError> {
        let edges = self
            .cold
            .edges
            .get(usize::from(port))
            .map_or(&[][..], Vec::as_slice);
        let range = self.shared.range;
        fan_out(self.later, self.node as usize + 1, edges, item, self.shared)?;
        self.shared.switch(self.node);
        self.shared.range = range;
        Ok(())
    }

    /// Memory for `len` samples, from the run's pool.
    ///
    /// # Errors
    /// [`OpError::MemoryCap`].
    pub fn alloc(&mut self, dtype: DType, len: usize) -> Result<Block, OpError> {
        let bytes = dtype.size().saturating_mul(len);
        self.shared.pool.take(bytes, self.shared.queued)
    }

    /// Makes filled memory shareable; it returns to the pool when nobody refers to it any more.
    pub fn seal(&mut self, block: Block) -> Buffer {
        self.shared.pool.seal(block)
    }

    /// Index of the first sample of the stretch that the item belongs to: windows are counted from there.
    #[must_use]
    pub fn anchor(&self) -> i64 {
        self.cold.anchor
    }
}

fn fan_out(
    slots: &mut [Slot],
    base: usize,
    edges: &[To],
    item: &mut Item,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let Some((last, others)) = edges.split_last() else {
        return Ok(());
    };
    for &to in others {
        drive(slots, base, to, &mut item.clone(), shared)?;
    }
    drive(slots, base, *last, item, shared)
}

/// Drives an item into a node and, depth first, as far as it goes. `slots[0]` is node `base`.
pub(crate) fn drive(
    mut slots: &mut [Slot],
    mut base: usize,
    mut to: To,
    item: &mut Item,
    shared: &mut Shared,
) -> Result<(), OpError> {
    loop {
        let at = to.node as usize - base;
        let (head, later) = slots.split_at_mut(at + 1);
        let slot = &mut head[at];
        if slot.ended {
            return Ok(());
        }
        shared.switch(to.node);
        let (start, next, samples) = match &*item {
            Item::Samples(samples) => (samples.start(), samples.end(), samples.len()),
            Item::Frames(frames) => {
                let (window, hop) = (frames.window(), frames.hop());
                (
                    frames.start(),
                    frames.next_start(),
                    frames.count() * hop.min(window),
                )
            }
            // Without an index, so never a break.
            Item::Ranges(_) | Item::Taken => (slot.expected, slot.expected, 0),
        };
        shared.range = (start, next);
        if slot.fan_in {
            return arrive(slot, later, to, item, shared);
        }
        if slot.expected != start {
            jump(slot, later, to, start, shared)?;
        }
        slot.expected = next;
        slot.items += 1;
        slot.samples += samples;
        let mut out = Out {
            later,
            node: to.node,
            cold: &slot.cold,
            shared,
        };
        match slot.op.process(to.port, item, &mut out)? {
            Next::Taken => return Ok(()),
            Next::Done => {
                slot.ended = true;
                shared.ended = true;
                return Ok(());
            }
            Next::Tail => {}
        }
        base = to.node as usize + 1;
        slots = later;
        if slot.next.node == MANY {
            let edges = slot.cold.edges.first().map_or(&[][..], Vec::as_slice);
            return fan_out(slots, base, edges, item, shared);
        }
        to = slot.next;
    }
}

/// An item does not continue the one before and nobody announced it: something in between was removed.
#[cold]
fn jump(
    slot: &mut Slot,
    later: &mut [Slot],
    to: To,
    start: i64,
    shared: &mut Shared,
) -> Result<(), OpError> {
    if slot.expected == FRESH {
        return Ok(());
    }
    slot.cold.anchor = start;
    let mut out = Out {
        later,
        node: to.node,
        cold: &slot.cold,
        shared,
    };
    slot.op.on_break(to.port, &Break::Removed, &mut out)
}

/// An item for an operator of several inputs: it waits there until it meets those it belongs to.
#[cold]
fn arrive(
    slot: &mut Slot,
    later: &mut [Slot],
    to: To,
    item: &mut Item,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let Some(queues) = &mut slot.cold.queues else {
        return Ok(());
    };
    let item = item.take();
    slot.items += 1;
    slot.samples += item.samples();
    shared.queued += item.bytes();
    shared.pool.peak = shared.pool.peak.max(shared.pool.bytes() + shared.queued);
    queues.push(to.port, item);
    release(slot, later, to.node, shared)
}

/// Gives a fan-in all that may meet by now.
fn release(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    shared: &mut Shared,
) -> Result<(), OpError> {
    loop {
        let Some(queues) = &mut slot.cold.queues else {
            return Ok(());
        };
        let matched = queues.pop()?;
        shared.queued = shared.queued.saturating_sub(queues.released());
        let Some(matched) = matched else {
            break;
        };
        for (port, mut item) in matched {
            shared.range = item.extent().unwrap_or(NOWHERE);
            let mut out = Out {
                later,
                node,
                cold: &slot.cold,
                shared,
            };
            match slot.op.process(port, &mut item, &mut out)? {
                Next::Taken => {}
                Next::Done => {
                    slot.ended = true;
                    shared.ended = true;
                    return Ok(());
                }
                Next::Tail => {
                    let edges = slot.cold.edges.first().map_or(&[][..], Vec::as_slice);
                    fan_out(later, node as usize + 1, edges, &mut item, shared)?;
                    shared.switch(node);
                }
            }
        }
    }
    let used = shared.pool.bytes() + shared.queued;
    let cap = shared.pool.cap();
    match &slot.cold.queues {
        Some(queues) if used > cap => Err(queues.starved(slot.cold.name, shared.queued, cap)),
        _ => Ok(()),
    }
}

/// Takes a mark along an edge and on from there.
pub(crate) fn mark(
    mut slots: &mut [Slot],
    mut base: usize,
    mut to: To,
    mark: &Mark,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let mut mark = mark.clone();
    // A chain is a loop here, too.
    loop {
        let later = match pass(slots, base, to, &mut mark, shared)? {
            Some(later) => later,
            None => return Ok(()),
        };
        let (edges, rest) = later;
        base = to.node as usize + 1;
        let mut edges = edges.iter().flatten().copied();
        let Some(mut last) = edges.next() else {
            return Ok(());
        };
        for next in edges {
            self::mark(rest, base, last, &mark, shared)?;
            last = next;
        }
        (slots, to) = (rest, last);
    }
}

/// Lists of edges, and the slots behind the node that they leave.
type Onward<'a> = (&'a [Vec<To>], &'a mut [Slot]);

/// Shows a node a mark; where it goes on to, as what it became, if it does.
fn pass<'a>(
    slots: &'a mut [Slot],
    base: usize,
    to: To,
    mark: &mut Mark,
    shared: &mut Shared,
) -> Result<Option<Onward<'a>>, OpError> {
    let at = to.node as usize - base;
    let (head, later) = slots.split_at_mut(at + 1);
    let slot = &mut head[at];
    shared.switch(to.node);
    shared.range = NOWHERE;
    if slot.fan_in {
        if let Some(queues) = &mut slot.cold.queues {
            queues.mark(to.port, mark);
        }
        release(slot, later, to.node, shared)?;
        let Some(queues) = &mut slot.cold.queues else {
            return Ok(None);
        };
        match queues.passes(mark) {
            Some(on) => *mark = on,
            None => return Ok(None),
        }
    }
    match mark {
        Mark::Stretch { anchor, why } => {
            slot.cold.gaps += u64::from(matches!(why, Some(Break::Gap(_))));
            if let Some(why) = why
                && !slot.ended
            {
                let mut out = Out {
                    later,
                    node: to.node,
                    cold: &slot.cold,
                    shared,
                };
                slot.op.on_break(to.port, why, &mut out)?;
            }
            slot.cold.anchor = *anchor;
            slot.expected = FRESH;
        }
        Mark::Progress(upto) => {
            *upto = slot.op.progress(to.port, *upto);
            if *upto <= slot.cold.progress {
                return Ok(None);
            }
            slot.cold.progress = *upto;
        }
        Mark::End => {
            slot.cold.open_ports = slot.cold.open_ports.saturating_sub(1);
            let last = slot.cold.open_ports == 0;
            if !slot.ended || last {
                let mut out = Out {
                    later,
                    node: to.node,
                    cold: &slot.cold,
                    shared,
                };
                slot.op.finish(to.port, &mut out)?;
            }
            if !last {
                return Ok(None);
            }
            slot.ended = true;
        }
    }
    Ok(Some((&slot.cold.edges, later)))
}
