//! Driver loop: carries an item depth first through the operators after a node.
//!
//! A chain is a loop, not a recursion: [`drive`] hands the item on while operators answer [`Next::Forward`] and have
//! one consumer. An operator that emits calls back into it with the slots after its own. Consecutive *in-step*
//! operators ([`OperatorProperties::in_step`](crate::OperatorProperties::in_step)) are one hop, with one check for
//! breaks.

use super::fan_in_calls::enqueue;
use super::out::Out;
use crate::engine::context::{ExecutionContext, NO_RANGE, NodeError};
use crate::engine::slot::{InputPort, NO_EXPECTED_INDEX, NOT_CHAINED, Slot, end_upstream};
use crate::{Break, Item, Next, OpError, OpErrorKind, Port, RangeOrigin};

/// `later`: the slots after `node`.
pub(crate) fn fan_out(
    later: &mut [Slot],
    node: u32,
    port: Port,
    item: &mut Item,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let edges = |context: &ExecutionContext, nth: usize| {
        let edges = context.nodes[node as usize].edges.get(usize::from(port));
        edges.and_then(|edges| Some((*edges.get(nth)?, nth + 1 == edges.len())))
    };
    let (mut nth, mut ends) = (0, context.done_count);
    while let Some((to, last)) = edges(context, nth) {
        if last {
            return drive(later, node + 1, to, item, context);
        }
        if let Err(error) = drive(later, node + 1, to, &mut item.clone(), context) {
            return fan_out_rest(later, (node, port), nth + 1, item, context, error);
        }
        if context.done_count != ends {
            ends = context.done_count;
            end_upstream(later, node + 1, &context.nodes);
        }
        nth += 1;
    }
    Ok(())
}

/// Continues after an error: the first error must not depend on call order.
#[cold]
fn fan_out_rest(
    later: &mut [Slot],
    (node, port): (u32, Port),
    from: usize,
    item: &Item,
    context: &mut ExecutionContext,
    mut error: OpError,
) -> Result<(), OpError> {
    let edges = context.nodes[node as usize].edges.get(usize::from(port));
    let edges = edges.map_or(Vec::new(), |edges| edges[from..].to_vec());
    for to in edges {
        if !is_operator_error(&error) {
            break;
        }
        let (node_before, range) = (context.current_node, context.item_range);
        match drive(later, node + 1, to, &mut item.clone(), context) {
            Ok(()) => (context.current_node, context.item_range) = (node_before, range),
            Err(other) => context.other_errors.push(NodeError {
                node: node_before,
                range,
                error: std::mem::replace(&mut error, other),
            }),
        }
    }
    Err(error)
}

/// Not an interrupt or a lack of memory.
pub(crate) fn is_operator_error(error: &OpError) -> bool {
    !matches!(
        error.kind(),
        OpErrorKind::Interrupted
            | OpErrorKind::MemoryCap { .. }
            | OpErrorKind::FanInStarved { .. }
            | OpErrorKind::StageFailed {
                is_operator_error: false,
                ..
            }
    )
}

/// `slots[0]` is node `base`.
#[inline]
pub(crate) fn split_at_node(slots: &mut [Slot], base: u32, node: u32) -> (&mut Slot, &mut [Slot]) {
    let at = (node - base) as usize;
    let (upto, later) = slots.split_at_mut(at + 1);
    (&mut upto[at], later)
}

/// Start, where a continuing item begins, samples. An item without indices takes `expected`: no break.
#[inline]
fn extent(item: &Item, expected: i64) -> (i64, i64, u64) {
    if let Item::Samples(samples) = item {
        return (samples.start(), samples.end(), samples.len());
    }
    extent_of_other(item, expected)
}

#[inline(never)]
fn extent_of_other(item: &Item, expected: i64) -> (i64, i64, u64) {
    let (start, next) = item.extent().unwrap_or((expected, expected));
    (start, next, item.samples())
}

pub(crate) fn drive(
    slots: &mut [Slot],
    base: u32,
    mut to: InputPort,
    item: &mut Item,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let (mut slot, mut later) = split_at_node(slots, base, to.node);
    let (mut start, mut next, mut samples) = extent(item, slot.expected);
    context.nodes[to.node as usize].count_item(samples);
    if slot.fan_in {
        context.switch_to(to.node);
        context.item_range = (start, next);
        return enqueue(slot, later, to, item, context);
    }
    loop {
        if slot.ended {
            context.nodes[to.node as usize].uncount_item(samples);
            return Ok(());
        }
        context.switch_to(to.node);
        context.item_range = (start, next);
        let continues = slot.expected == start;
        if !continues {
            note_jump(slot, later, to, start, context)?;
        }
        slot.expected = next;
        let mut out = Out::of(to.node, later, context);
        let answer = match slot.op.process(to.port, item, &mut out) {
            Ok(answer) => answer,
            Err(error) => {
                // Do not call it again.
                slot.ended = true;
                return Err(error);
            }
        };
        if answer != Next::Forward {
            return end_chain(slot, to.node, answer, samples, context);
        }
        if slot.followers > 0 {
            let count = usize::from(slot.followers);
            let (followers, behind) = later.split_at_mut(count);
            let followed = match continues && !context.timed {
                true => run_followers(followers, to.node, item, context),
                false => run_followers_checked(followers, to.node + 1, item, continues, context),
            };
            if let Err(error) = followed {
                slot.ended = true;
                return Err(error);
            }
            to.node += count as u32;
            (slot, later) = (&mut followers[count - 1], behind);
            if extent(item, next) != (start, next, samples) {
                return Err(out_of_step("changed the indices of an item"));
            }
        }
        if slot.next == NOT_CHAINED {
            return fan_out(later, to.node, 0, item, context);
        }
        let behind = to.node + 1;
        to = InputPort {
            node: slot.next,
            port: 0,
        };
        (slot, later) = split_at_node(later, behind, to.node);
        let before = samples;
        (start, next, samples) = extent(item, slot.expected);
        if samples != before {
            context.nodes[to.node as usize].adjust_samples(before, samples);
        }
    }
}

/// Calls the in-step operators after `leader`; `slots[0]` is the first of them.
#[inline]
fn run_followers(
    slots: &mut [Slot],
    leader: u32,
    item: &mut Item,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    // They must not emit: no slots.
    let mut guard = CurrentNodeGuard(Out::of(leader, &mut [], context));
    // A call takes eight cycles: each instruction shows.
    for slot in slots {
        guard.0.node += 1;
        match slot.op.process(0, item, &mut guard.0) {
            Ok(Next::Forward) => {}
            other => return Err(out_of_step_answer(other)),
        }
    }
    Ok(())
}

/// Records the last operator called, even on a panic.
struct CurrentNodeGuard<'a>(Out<'a>);

impl Drop for CurrentNodeGuard<'_> {
    fn drop(&mut self) {
        self.0.context.current_node = self.0.node;
    }
}

/// For timed operators, or after a break.
#[cold]
fn run_followers_checked(
    slots: &mut [Slot],
    first: u32,
    item: &mut Item,
    continues: bool,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let (start, next) = context.item_range;
    for (slot, node) in slots.iter_mut().zip(first..) {
        context.switch_to(node);
        if !continues {
            note_jump(slot, &mut [], InputPort { node, port: 0 }, start, context)?;
        }
        slot.expected = next;
        let before = extent(item, next);
        match slot
            .op
            .process(0, item, &mut Out::of(node, &mut [], context))
        {
            Ok(Next::Forward) => {}
            other => return Err(out_of_step_answer(other)),
        }
        if extent(item, next) != before {
            return Err(out_of_step("changed the indices of an item"));
        }
    }
    Ok(())
}

#[cold]
fn out_of_step_answer(answer: Result<Next, OpError>) -> OpError {
    match answer {
        Ok(Next::Done) => out_of_step("ended early"),
        Ok(_) => out_of_step("took an item"),
        Err(error) => error,
    }
}

#[cold]
fn out_of_step(did: &'static str) -> OpError {
    OpErrorKind::OutOfStep { did }.into()
}

fn end_chain(
    slot: &mut Slot,
    node: u32,
    answer: Next,
    samples: u64,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    if context.nodes[node as usize].in_step {
        return Err(out_of_step_answer(Ok(answer)));
    }
    if answer == Next::Done {
        slot.ended = true;
        context.done_count += 1;
    }
    if slot.next != NOT_CHAINED {
        context.nodes[slot.next as usize].uncount_item(samples);
    }
    Ok(())
}

/// Withholds samples up to an index from a node's consumers, as if removed.
#[cold]
pub(crate) fn skip_to(
    later: &mut [Slot],
    node: u32,
    index: i64,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let edges = context.nodes[node as usize].edges.iter().flatten();
    for to in edges.copied().collect::<Vec<_>>() {
        context.switch_to(to.node);
        context.item_range = NO_RANGE;
        let (slot, behind) = split_at_node(later, node + 1, to.node);
        if !slot.ended {
            note_jump(slot, behind, to, index, context)?;
        }
    }
    Ok(())
}

/// Samples were removed before an item, and no mark announced it.
#[cold]
fn note_jump(
    slot: &mut Slot,
    later: &mut [Slot],
    to: InputPort,
    start: i64,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    if slot.expected == NO_EXPECTED_INDEX {
        return Ok(());
    }
    context.nodes[to.node as usize].origin = RangeOrigin::at(start);
    let mut out = Out::of(to.node, later, context);
    let told = slot.op.on_break(to.port, &Break::Removed, &mut out);
    slot.ended |= told.is_err();
    told
}
