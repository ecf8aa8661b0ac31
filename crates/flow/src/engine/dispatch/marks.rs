//! Carries marks along edges, in order with items.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::drive::{drive, split_at_node};
use super::fan_in_calls::{call_matched, enqueue, enqueue_counted};
use super::out::Out;
use crate::engine::context::{ExecutionContext, NO_RANGE};
use crate::engine::fan_in::{FEEDBACK_PORT, HeldBack};
use crate::engine::mark::Mark;
use crate::engine::slot::{InputPort, NO_EXPECTED_INDEX, Slot};
use crate::{Break, InputBounds, OpError, OpErrorKind, Port, RangeOrigin};

pub(crate) fn broadcast_mark(
    later: &mut [Slot],
    node: u32,
    what: &Mark,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let (mut slots, mut from) = (later, node);
    let mut what = what.clone();
    // The last edge needs no stack.
    loop {
        if let Mark::RangeStart { origin, .. } = &what {
            context.nodes[from as usize].output_origin = *origin;
        }
        let edges = |context: &ExecutionContext, nth| {
            let edges = context.nodes[from as usize].edges.iter().flatten();
            edges.copied().nth(nth)
        };
        let Some(mut to) = edges(context, 0) else {
            return Ok(());
        };
        let mut nth = 1;
        while let Some(next) = edges(context, nth) {
            let mut one = what.clone();
            let (slot, rest) = split_at_node(slots, from + 1, to.node);
            if deliver(slot, rest, to, &mut one, context)? {
                broadcast_mark(rest, to.node, &one, context)?;
            }
            (to, nth) = (next, nth + 1);
        }
        let (slot, rest) = split_at_node(slots, from + 1, to.node);
        if !deliver(slot, rest, to, &mut what, context)? {
            return Ok(());
        }
        // In-step operators hold nothing back: progress is the same after all.
        let skipped = match what {
            Mark::Progress(_) => usize::from(slot.followers),
            _ => 0,
        };
        (slots, from) = (&mut rest[skipped..], to.node + skipped as u32);
    }
}

pub(crate) fn send_mark(
    later: &mut [Slot],
    node: u32,
    port: Port,
    what: &Mark,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    if let Mark::RangeStart { origin, .. } = what {
        context.nodes[node as usize].output_origin = *origin;
    }
    let mut nth = 0;
    loop {
        let edges = context.nodes[node as usize].edges.get(usize::from(port));
        let Some(to) = edges.and_then(|edges| edges.get(nth).copied()) else {
            return Ok(());
        };
        let mut one = what.clone();
        let (slot, rest) = split_at_node(later, node + 1, to.node);
        if deliver(slot, rest, to, &mut one, context)? {
            broadcast_mark(rest, to.node, &one, context)?;
        }
        nth += 1;
    }
}

/// Applies a mark, possibly changing it; returns whether to forward it.
fn deliver(
    slot: &mut Slot,
    later: &mut [Slot],
    to: InputPort,
    mark: &mut Mark,
    context: &mut ExecutionContext,
) -> Result<bool, OpError> {
    let node = to.node as usize;
    context.switch_to(to.node);
    context.item_range = NO_RANGE;
    if slot.fan_in && !merge_at_fan_in(slot, later, to, mark, context)? {
        return Ok(false);
    }
    match mark {
        Mark::RangeStart { origin, why } => {
            begin_range(slot, later, to, *origin, why.as_ref(), context)?;
            origin.first = slot.op.first_output(origin.first);
            let ratio = context.nodes[node].ratio;
            if !ratio.is_one() {
                let of = |index: i64| ratio.first_from(index).unwrap_or(i64::MAX);
                *origin = RangeOrigin {
                    anchor: of(origin.anchor),
                    first: of(origin.first),
                };
                if let Some(Break::Gap(range) | Break::Dropped(range)) = why {
                    *range = of(range.start)..of(range.end);
                }
            }
        }
        Mark::Progress(upto) => {
            context.nodes[node].input_progress = (to.port, *upto);
            advance(slot, later, to, *upto, context)?;
            let passed = slot.op.progress(to.port, *upto);
            let state = &mut context.nodes[node];
            *upto = match slot.ended && !slot.fan_in {
                // It gives nothing any more, whatever it still holds.
                true => state.ratio.first_from(*upto).unwrap_or(i64::MAX),
                false => passed,
            };
            if *upto <= state.progress {
                return Ok(false);
            }
            state.progress = *upto;
        }
        Mark::Rewind => {
            reset_for_rewind(slot, later, to, context)?;
        }
        Mark::End => {
            let state = &mut context.nodes[node];
            state.open_ports = state.open_ports.saturating_sub(1);
            let last = state.open_ports == 0;
            if !slot.ended || last {
                let result = slot
                    .op
                    .finish(to.port, &mut Out::of(to.node, later, context));
                slot.ended |= result.is_err();
                result?;
            }
            if !last {
                rewind_fan_in(slot, later, to.node, context)?;
                return Ok(false);
            }
            slot.ended = true;
        }
    }
    Ok(true)
}

fn advance(
    slot: &mut Slot,
    later: &mut [Slot],
    to: InputPort,
    upto: i64,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    if slot.ended || slot.fan_in {
        return Ok(());
    }
    let result = (slot.op).advance(to.port, upto, &mut Out::of(to.node, later, context));
    slot.ended |= result.is_err();
    result
}

/// Turns a mark at one input into what holds for all inputs; returns whether to forward it.
fn merge_at_fan_in(
    slot: &mut Slot,
    later: &mut [Slot],
    to: InputPort,
    mark: &mut Mark,
    context: &mut ExecutionContext,
) -> Result<bool, OpError> {
    let node = to.node as usize;
    let Some(queues) = &mut context.nodes[node].queues else {
        return Ok(true);
    };
    if queues.has_rewound(to.port) {
        queues.hold_back(to.port, HeldBack::Mark(mark.clone()));
        return Ok(false);
    }
    if matches!(mark, Mark::Rewind) {
        if queues.is_loop() {
            rewind_loop(slot, later, to.node, context)?;
            return Ok(true);
        }
        queues.set_rewound(to.port);
        rewind_fan_in(slot, later, to.node, context)?;
        return Ok(false);
    }
    let by_civil_time = queues.by_civil_time();
    if let Mark::RangeStart { origin, why } = mark
        && by_civil_time
    {
        if matches!(why, Some(Break::ClockStep { .. })) {
            queues.restart_clock(to.port, origin.anchor);
        }
        // Indices do not tell between which items it belongs.
        return Ok(false);
    }
    queues.mark(to.port, mark);
    call_matched(slot, later, to.node, context)?;
    if matches!(mark, Mark::Progress(_) | Mark::End) {
        raise_bounds(slot, later, to, context)?;
    }
    let last = context.nodes[node].open_ports <= 1;
    let Some(queues) = &mut context.nodes[node].queues else {
        return Ok(true);
    };
    // Also announce ranges whose items were all dropped.
    let upto = match mark {
        // Announced before its first item.
        Mark::RangeStart { .. } => return Ok(false),
        // Bounds are times, not indices.
        Mark::Progress(upto) if by_civil_time => {
            *upto = queues.index_bound(to.port);
            return Ok(true);
        }
        Mark::Progress(upto) => {
            *upto = queues.bound();
            *upto
        }
        Mark::Rewind => return Ok(true),
        Mark::End if queues.defers_end() => return Ok(false),
        Mark::End if last => i64::MAX,
        Mark::End => return Ok(true),
    };
    announce_starts(slot, later, to.node, upto, context)?;
    Ok(true)
}

fn raise_bounds(
    slot: &mut Slot,
    later: &mut [Slot],
    to: InputPort,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let Some(queues) = &context.nodes[to.node as usize].queues else {
        return Ok(());
    };
    let bounds = InputBounds {
        input: queues.index_bound(to.port),
        all: queues.bound(),
    };
    if slot.ended {
        return Ok(());
    }
    context.switch_to(to.node);
    let mut out = Out::of(to.node, later, context);
    let raised = slot.op.raise_bounds(to.port, bounds, &mut out);
    slot.ended |= raised.is_err();
    raised
}

/// Announces ranges that begin at or before an index, unless the fan-in is being called.
fn announce_starts(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    upto: i64,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let next = |context: &mut ExecutionContext| {
        context.nodes[node as usize]
            .queues
            .as_mut()?
            .next_start(upto)
    };
    while let Some((origin, why)) = next(context) {
        announce_start(slot, later, node, origin, why, context)?;
    }
    Ok(())
}

fn forget_progress(node: u32, context: &mut ExecutionContext) {
    let state = &mut context.nodes[node as usize];
    (state.progress, state.input_progress) = (i64::MIN, (0, i64::MIN));
}

pub(crate) fn renew_progress(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let state = &mut context.nodes[node as usize];
    let (port, upto) = state.input_progress;
    if slot.ended || state.in_step || upto == i64::MIN {
        return Ok(());
    }
    let upto = slot.op.progress(port, upto);
    if upto <= state.progress {
        return Ok(());
    }
    state.progress = upto;
    broadcast_mark(later, node, &Mark::Progress(upto), context)
}

/// Fan-ins drop what waits; progress restarts.
pub(crate) fn end_task(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    forget_progress(node, context);
    if !slot.fan_in {
        return Ok(());
    }
    release_all(slot, later, node, context)?;
    if let Some(queues) = &mut context.nodes[node as usize].queues {
        queues.clear();
        context.queued_bytes = context
            .queued_bytes
            .saturating_sub(queues.take_released_bytes());
    }
    Ok(())
}

/// Releases what waits only for items that cannot come any more.
fn release_all(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    if let Some(queues) = &mut context.nodes[node as usize].queues {
        queues.mark_inputs_complete();
    }
    call_matched(slot, later, node, context)?;
    announce_starts(slot, later, node, i64::MAX, context)
}

/// A node flushes and resets: its next items lie before the last ones.
fn reset_for_rewind(
    slot: &mut Slot,
    later: &mut [Slot],
    to: InputPort,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    forget_progress(to.node, context);
    if slot.ended {
        slot.op.rewinds_after_end();
        return Ok(());
    }
    let result = slot.op.on_break(
        to.port,
        &Break::Rewind,
        &mut Out::of(to.node, later, context),
    );
    let result = result.and_then(|()| slot.op.idle(&mut Out::of(to.node, later, context)));
    slot.ended |= result.is_err();
    result
}

/// Passes waiting items through a loop.
fn rewind_loop(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let mut of_outer_loops = VecDeque::new();
    while let Some((begin, mut item)) = context.feedback.pop_front() {
        let to = InputPort {
            node: begin,
            port: FEEDBACK_PORT,
        };
        match begin.cmp(&node) {
            Ordering::Less => of_outer_loops.push_back((begin, item)),
            Ordering::Equal => enqueue(slot, later, to, &mut item, context)?,
            Ordering::Greater => drive(later, node + 1, to, &mut item, context)?,
        }
    }
    context.feedback = of_outer_loops;
    release_all(slot, later, node, context)?;
    context.switch_to(node);
    let Some(queues) = &mut context.nodes[node as usize].queues else {
        return Ok(());
    };
    let waiting = queues.waiting_range().filter(|_| !slot.ended);
    queues.clear();
    context.queued_bytes = context
        .queued_bytes
        .saturating_sub(queues.take_released_bytes());
    match waiting {
        Some(waiting) => {
            context.item_range = (waiting.start, waiting.end);
            Err(OpErrorKind::LoopStarved { waiting }.into())
        }
        None => Ok(()),
    }
}

/// After all inputs rewound: drops items without partner, forwards the rewind, delivers held-back items.
fn rewind_fan_in(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let all_rewound = |context: &ExecutionContext| {
        let queues = context.nodes[node as usize].queues.as_ref();
        queues.is_some_and(|queues| queues.all_have_rewound())
    };
    if !all_rewound(context) {
        return Ok(());
    }
    release_all(slot, later, node, context)?;
    let mut held = Vec::new();
    if let Some(queues) = &mut context.nodes[node as usize].queues {
        held = queues.start_after_rewind();
        context.queued_bytes = context
            .queued_bytes
            .saturating_sub(queues.take_released_bytes());
    }
    reset_for_rewind(slot, later, InputPort { node, port: 0 }, context)?;
    broadcast_mark(later, node, &Mark::Rewind, context)?;
    for (port, held) in held {
        let to = InputPort { node, port };
        match held {
            HeldBack::Item(item) => enqueue_counted(slot, later, to, item, context)?,
            HeldBack::Mark(mut mark) => {
                if deliver(slot, later, to, &mut mark, context)? {
                    broadcast_mark(later, node, &mark, context)?;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn announce_start(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    origin: RangeOrigin,
    why: Option<Break>,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    begin_range(
        slot,
        later,
        InputPort { node, port: 0 },
        origin,
        why.as_ref(),
        context,
    )?;
    broadcast_mark(later, node, &Mark::RangeStart { origin, why }, context)
}

fn begin_range(
    slot: &mut Slot,
    later: &mut [Slot],
    to: InputPort,
    origin: RangeOrigin,
    why: Option<&Break>,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let node = to.node as usize;
    if let Some(why) = why {
        context.nodes[node].gaps += u64::from(matches!(why, Break::Gap(_)));
        if matches!(why, Break::ClockStep { .. }) {
            advance(slot, later, to, origin.anchor, context)?;
        }
        if !slot.ended {
            let result = slot
                .op
                .on_break(to.port, why, &mut Out::of(to.node, later, context));
            slot.ended |= result.is_err();
            result?;
        }
    }
    context.nodes[node].origin = origin;
    if why.is_some() {
        slot.expected = NO_EXPECTED_INDEX;
    }
    // Else another input of a merge begins, or a task: an item that does not continue the last one shows a break.
    slot.op.begins(origin, why);
    Ok(())
}
