//! Calls fan-in operators with matched items.

use super::drive::fan_out;
use super::marks::{announce_start, broadcast_mark};
use super::out::Out;
use crate::engine::context::{ExecutionContext, NO_RANGE};
use crate::engine::fan_in::{FanIn, HeldBack, Matched};
use crate::engine::mark::Mark;
use crate::engine::slot::{InputPort, Slot, all_consumers_ended, end_upstream};
use crate::{Item, Next, OpError};

#[inline(never)]
pub(super) fn enqueue(
    slot: &mut Slot,
    later: &mut [Slot],
    to: InputPort,
    item: &mut Item,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    if slot.ended {
        return Ok(());
    }
    let item = item.take();
    context.queued_bytes += item.bytes();
    enqueue_counted(slot, later, to, item, context)
}

pub(super) fn enqueue_counted(
    slot: &mut Slot,
    later: &mut [Slot],
    to: InputPort,
    item: Item,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let node = &mut context.nodes[to.node as usize];
    if let Some(queues) = &mut node.queues {
        if queues.has_rewound(to.port) {
            queues.hold_back(to.port, HeldBack::Item(item));
        } else if !queues.push(to.port, item) {
            let counted = context.pool.set_queued(context.queued_bytes);
            return counted.map_err(|(queued, cap)| queues.starved(node.name, queued, cap));
        }
    }
    call_matched(slot, later, to.node, context)
}

pub(super) fn call_matched(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    // Taken out to borrow the rest: no item returns to this node meanwhile.
    let Some(mut queues) = context.nodes[node as usize].queues.take() else {
        return Ok(());
    };
    let called = call_operator(slot, &mut queues, later, node, context);
    let called = called.and_then(|()| {
        let name = context.nodes[node as usize].name;
        let counted = context.pool.set_queued(context.queued_bytes);
        counted.map_err(|(queued, cap)| queues.starved(name, queued, cap))
    });
    let ends = queues.deferred_end_is_due();
    context.nodes[node as usize].queues = Some(queues);
    called?;
    if ends && !slot.ended {
        // The end had arrived while items were in the loop.
        slot.ended = true;
        slot.op.finish(0, &mut Out::of(node, later, context))?;
        broadcast_mark(later, node, &Mark::End, context)?;
    }
    Ok(())
}

fn call_operator(
    slot: &mut Slot,
    queues: &mut FanIn,
    later: &mut [Slot],
    node: u32,
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    let mut matched = Matched::new();
    while !slot.ended {
        let is_any = queues.pop(&mut matched)?;
        context.queued_bytes = context
            .queued_bytes
            .saturating_sub(queues.take_released_bytes());
        if !is_any {
            break;
        }
        let start = matched.first().and_then(|(_, item)| item.range());
        if let Some(start) = start.map(|range| range.start) {
            while let Some((origin, why)) = queues.next_start(start) {
                announce_start(slot, later, node, origin, why, context)?;
            }
        }
        for (port, mut item) in matched.drain(..) {
            let ends = context.done_count;
            context.item_range = item.extent().unwrap_or(NO_RANGE);
            let mut out = Out::of(node, later, context);
            let answer = slot.op.process(port, &mut item, &mut out);
            if answer.is_err() {
                slot.ended = true;
            }
            match answer? {
                Next::Consumed => {}
                Next::Done => {
                    slot.ended = true;
                    context.done_count += 1;
                    break;
                }
                Next::Forward => {
                    fan_out(later, node, 0, &mut item, context)?;
                    context.switch_to(node);
                }
            }
            if context.done_count != ends {
                end_upstream(later, node + 1, &context.nodes);
                slot.ended |= all_consumers_ended(later, node + 1, &context.nodes[node as usize]);
            }
            if slot.ended {
                break;
            }
        }
    }
    Ok(())
}
