//! The driver: items depth first through the operators of a plan.
//!
//! A chain is a loop, not a recursion: [`drive`] hands the item from slot to slot as long as operators answer
//! [`Next::Forward`] and have one consumer. An operator that emits calls back into it with the slots behind its own,
//! which is all that [`Out`] can reach: nodes are in topological order, so no operator is ever entered twice at once.
//!
//! Operators that promised to keep step ([`OperatorProperties::in_step`](crate::OperatorProperties::in_step)) and follow one another are one hop
//! for the driver: what is true of the item before the first of them is true before each, so breaks are looked for
//! once, and of them only what they are called with and what they answer is touched.

use isochrony_segment::{Buffer, DType};

use super::marks::{Mark, mark_output};
use super::meeting::arrive;
use super::pool::Block;
use super::shared::{Met, Shared};
use super::slot::{FRESH, MANY, Slot, To, end_upstream};
use crate::{Break, Item, Next, OpError, OpErrorKind, Port};

/// Where an operator's output goes, and where it gets memory.
pub struct Out<'a> {
    /// The slots of the nodes behind this one.
    later: &'a mut [Slot],
    node: u32,
    shared: &'a mut Shared,
}

impl Out<'_> {
    /// Gives an item to every consumer of an output; it is lent to them, and to all but the last as a clone.
    ///
    /// # Errors
    /// What a later operator failed with, or [`OpErrorKind::Interrupted`]: pass it on with `?`.
    pub fn emit(&mut self, port: Port, item: &mut Item) -> Result<(), OpError> {
        self.shared.go_on()?;
        let (range, ends) = (self.shared.range, self.shared.ends);
        if self.shared.cold[self.node as usize].in_step {
            return Err(OpErrorKind::OutOfStep { did: "emitted" }.into());
        }
        fan_out(self.later, self.node, port, item, self.shared)?;
        if self.shared.ends != ends {
            // What else it emits goes no further than it is wanted.
            end_upstream(self.later, self.node + 1, &self.shared.cold);
        }
        self.shared.switch(self.node);
        self.shared.range = range;
        Ok(())
    }

    /// Says that a stretch begins at an index on an output, other than those of the inputs: what comes next there does not
    /// continue what came before, and windows are counted from it.
    ///
    /// # Errors
    /// As [`emit`](Self::emit).
    pub fn begin(&mut self, port: Port, anchor: i64) -> Result<(), OpError> {
        let why = Some(Break::Removed);
        let what = Mark::Stretch { anchor, why };
        mark_output(self.later, self.node, port, &what, self.shared)
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

    /// Says how many bytes the operator holds now beside its parameters and what flows: they are counted to the run's cap.
    ///
    /// # Errors
    /// [`OpErrorKind::MemoryCap`](crate::OpErrorKind::MemoryCap).
    pub fn holds(&mut self, bytes: u64) -> Result<(), OpError> {
        let Shared {
            cold, pool, queued, ..
        } = &mut *self.shared;
        let before = std::mem::replace(&mut cold[self.node as usize].holds, bytes);
        let used = *queued - before;
        *queued = used + bytes;
        pool.count(used, bytes)
    }

    /// Gives an item to the beginning of the loop that this node ends.
    pub(crate) fn feed_back(&mut self, item: Item) {
        if let Some(begin) = self.shared.cold[self.node as usize].loop_begin {
            self.shared.back.push_back((begin, item));
        }
    }

    /// An output for the operator of a node; `later` are the slots behind it.
    pub(super) fn of<'a>(node: u32, later: &'a mut [Slot], shared: &'a mut Shared) -> Out<'a> {
        Out {
            later,
            node,
            shared,
        }
    }

    /// Index of the first sample of the stretch that the item belongs to: windows are counted from there.
    #[must_use]
    pub fn anchor(&self) -> i64 {
        self.shared.cold[self.node as usize].anchor
    }
}

/// Gives an item to every consumer of an output of `node`; `later` are the slots of the nodes behind it.
pub(crate) fn fan_out(
    later: &mut [Slot],
    node: u32,
    port: Port,
    item: &mut Item,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let edges = |shared: &Shared, nth: usize| {
        let edges = shared.cold[node as usize].edges.get(usize::from(port));
        edges.and_then(|edges| Some((*edges.get(nth)?, nth + 1 == edges.len())))
    };
    let (mut nth, mut ends) = (0, shared.ends);
    while let Some((to, last)) = edges(shared, nth) {
        if last {
            return drive(later, node + 1, to, item, shared);
        }
        if let Err(error) = drive(later, node + 1, to, &mut item.clone(), shared) {
            return fan_out_behind(later, (node, port), nth + 1, item, shared, error);
        }
        if shared.ends != ends {
            // Another consumer may lead only to what wants no more.
            ends = shared.ends;
            end_upstream(later, node + 1, &shared.cold);
        }
        nth += 1;
    }
    Ok(())
}

/// Gives the other consumers the item, too, where one of them failed: who comes first of those that fail with it does not
/// depend on the order in which they are called.
#[cold]
fn fan_out_behind(
    later: &mut [Slot],
    (node, port): (u32, Port),
    from: usize,
    item: &Item,
    shared: &mut Shared,
    mut error: OpError,
) -> Result<(), OpError> {
    let edges = shared.cold[node as usize].edges.get(usize::from(port));
    let edges = edges.map_or(Vec::new(), |edges| edges[from..].to_vec());
    for to in edges {
        if !fails_alone(&error) {
            break;
        }
        let (node_before, range) = (shared.current, shared.range);
        match drive(later, node + 1, to, &mut item.clone(), shared) {
            Ok(()) => (shared.current, shared.range) = (node_before, range),
            Err(other) => shared.failures.push(Met {
                node: node_before,
                range,
                error: std::mem::replace(&mut error, other),
            }),
        }
    }
    Err(error)
}

/// Whether it is the operator that failed, and not the run that is to stop or has no memory.
pub(super) fn fails_alone(error: &OpError) -> bool {
    !matches!(
        error.kind(),
        OpErrorKind::Interrupted | OpErrorKind::MemoryCap { .. } | OpErrorKind::FanInStarved { .. }
    )
}

/// A node's slot and those behind it; `slots[0]` is node `base`.
#[inline]
pub(crate) fn at(slots: &mut [Slot], base: u32, node: u32) -> (&mut Slot, &mut [Slot]) {
    let at = (node - base) as usize;
    let (upto, later) = slots.split_at_mut(at + 1);
    (&mut upto[at], later)
}

/// Start, index at which what continues it begins, samples. What has no index is taken to be as `expected`: never a break.
#[inline]
fn extent(item: &Item, expected: i64) -> (i64, i64, u64) {
    // Apart from the others: a branch that is foreseen is cheaper than a jump through a table.
    if let Item::Samples(samples) = item {
        return (samples.start(), samples.end(), samples.len());
    }
    extent_of_others(item, expected)
}

#[inline(never)]
fn extent_of_others(item: &Item, expected: i64) -> (i64, i64, u64) {
    let (start, next) = item.extent().unwrap_or((expected, expected));
    (start, next, item.samples())
}

/// Drives an item into a node and, depth first, as far as it goes. `slots[0]` is node `base`.
pub(crate) fn drive(
    slots: &mut [Slot],
    base: u32,
    mut to: To,
    item: &mut Item,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let (mut slot, mut later) = at(slots, base, to.node);
    let (mut start, mut next, mut samples) = extent(item, slot.expected);
    shared.cold[to.node as usize].count(samples);
    if slot.fan_in {
        shared.switch(to.node);
        shared.range = (start, next);
        return arrive(slot, later, to, item, shared);
    }
    loop {
        if slot.ended {
            shared.cold[to.node as usize].uncount(samples);
            return Ok(());
        }
        shared.switch(to.node);
        shared.range = (start, next);
        let continues = slot.expected == start;
        if !continues {
            jump(slot, later, to, start, shared)?;
        }
        slot.expected = next;
        let mut out = Out {
            later,
            node: to.node,
            shared,
        };
        let answer = match slot.op.process(to.port, item, &mut out) {
            Ok(answer) => answer,
            Err(error) => {
                // It is never called again.
                slot.ended = true;
                return Err(error);
            }
        };
        if answer != Next::Forward {
            return stop(slot, to.node, answer, samples, shared);
        }
        if slot.followers > 0 {
            let count = usize::from(slot.followers);
            let (followers, behind) = later.split_at_mut(count);
            let followed = match continues && !shared.timed {
                true => follow(followers, to.node, item, shared),
                false => follow_one_by_one(followers, to.node + 1, item, continues, shared),
            };
            if let Err(error) = followed {
                // Nobody else gives them anything.
                slot.ended = true;
                return Err(error);
            }
            to.node += count as u32;
            (slot, later) = (&mut followers[count - 1], behind);
            if extent(item, next) != (start, next, samples) {
                return Err(out_of_step("changed the indices of an item"));
            }
        }
        if slot.next == MANY {
            return fan_out(later, to.node, 0, item, shared);
        }
        let behind = to.node + 1;
        to = To {
            node: slot.next,
            port: 0,
        };
        (slot, later) = at(later, behind, to.node);
        let before = samples;
        (start, next, samples) = extent(item, slot.expected);
        if samples != before {
            shared.cold[to.node as usize].recount(before, samples);
        }
    }
}

/// Hands an item from one to the next of what keeps step behind the node `leader`; `slots[0]` is the one right behind it.
#[inline]
fn follow(
    slots: &mut [Slot],
    leader: u32,
    item: &mut Item,
    shared: &mut Shared,
) -> Result<(), OpError> {
    // They emit nothing, so what is behind them is not needed.
    let mut at = Following(Out::of(leader, &mut [], shared));
    // A call takes eight cycles, and every instruction beside it is seen: this loop is a call, two tests of the answer
    // and one number to count.
    for slot in slots {
        at.0.node += 1;
        match slot.op.process(0, item, &mut at.0) {
            Ok(Next::Forward) => {}
            other => return Err(not_in_step(other)),
        }
    }
    Ok(())
}

/// Says at the end, also of a panic, which operator was at work.
struct Following<'a>(Out<'a>);

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.0.shared.current = self.0.node;
    }
}

/// The same where each has its time taken, or is to hear of a break.
#[cold]
fn follow_one_by_one(
    slots: &mut [Slot],
    first: u32,
    item: &mut Item,
    continues: bool,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let (start, next) = shared.range;
    for (slot, node) in slots.iter_mut().zip(first..) {
        shared.switch(node);
        if !continues {
            jump(slot, &mut [], To { node, port: 0 }, start, shared)?;
        }
        slot.expected = next;
        let before = extent(item, next);
        match slot
            .op
            .process(0, item, &mut Out::of(node, &mut [], shared))
        {
            Ok(Next::Forward) => {}
            other => return Err(not_in_step(other)),
        }
        if extent(item, next) != before {
            return Err(out_of_step("changed the indices of an item"));
        }
    }
    Ok(())
}

/// What went wrong where an item was not passed on.
#[cold]
fn not_in_step(answer: Result<Next, OpError>) -> OpError {
    match answer {
        Ok(Next::Done) => out_of_step("wants no more"),
        Ok(_) => out_of_step("took an item"),
        Err(error) => error,
    }
}

#[cold]
fn out_of_step(did: &'static str) -> OpError {
    OpErrorKind::OutOfStep { did }.into()
}

/// The item goes no further.
fn stop(
    slot: &mut Slot,
    node: u32,
    answer: Next,
    samples: u64,
    shared: &mut Shared,
) -> Result<(), OpError> {
    if shared.cold[node as usize].in_step {
        return Err(not_in_step(Ok(answer)));
    }
    if answer == Next::Done {
        slot.ended = true;
        shared.ends += 1;
    }
    if slot.next != MANY {
        shared.cold[slot.next as usize].uncount(samples);
    }
    Ok(())
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
    shared.cold[to.node as usize].anchor = start;
    let mut out = Out {
        later,
        node: to.node,
        shared,
    };
    let told = slot.op.on_break(to.port, &Break::Removed, &mut out);
    // What failed is never called again.
    slot.ended |= told.is_err();
    told
}
