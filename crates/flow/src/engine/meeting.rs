//! Items at operators of several inputs, and of loops: they wait there until they meet those they belong to.

use super::drive::{Out, fan_out};
use super::fan_in::{FanIn, Held};
use super::marks::{Mark, announce_one, mark_all};
use super::shared::{NOWHERE, Shared};
use super::slot::{Slot, To, end_upstream, is_unwanted};
use crate::{Item, Next, OpError};

/// An item for an operator of several inputs: it waits there until it meets those it belongs to.
#[cold]
pub(super) fn arrive(
    slot: &mut Slot,
    later: &mut [Slot],
    to: To,
    item: &mut Item,
    shared: &mut Shared,
) -> Result<(), OpError> {
    if slot.ended {
        return Ok(());
    }
    let item = item.take();
    shared.queued += item.bytes();
    put(slot, later, to, item, shared)
}

/// The same of what is counted among what waits already.
pub(super) fn put(
    slot: &mut Slot,
    later: &mut [Slot],
    to: To,
    item: Item,
    shared: &mut Shared,
) -> Result<(), OpError> {
    if let Some(queues) = &mut shared.cold[to.node as usize].queues {
        match queues.is_ahead(to.port) {
            true => queues.hold(to.port, Held::Item(item)),
            false => queues.push(to.port, item),
        }
    }
    release(slot, later, to.node, shared)
}

/// Gives a fan-in all that may meet by now.
pub(super) fn release(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    shared: &mut Shared,
) -> Result<(), OpError> {
    // Out of the way of what is behind: no item can come back to this node meanwhile.
    let Some(mut queues) = shared.cold[node as usize].queues.take() else {
        return Ok(());
    };
    let released = give(slot, &mut queues, later, node, shared);
    let released = released.and_then(|()| {
        let name = shared.cold[node as usize].name;
        let counted = shared.pool.queue(shared.queued);
        counted.map_err(|(queued, cap)| queues.starved(name, queued, cap))
    });
    let ends = queues.ends();
    shared.cold[node as usize].queues = Some(queues);
    released?;
    if ends && !slot.ended {
        // The end came while items were on their way round.
        slot.ended = true;
        slot.op.finish(0, &mut Out::of(node, later, shared))?;
        mark_all(later, node, &Mark::End, shared)?;
    }
    Ok(())
}

fn give(
    slot: &mut Slot,
    queues: &mut FanIn,
    later: &mut [Slot],
    node: u32,
    shared: &mut Shared,
) -> Result<(), OpError> {
    while !slot.ended {
        let matched = queues.pop()?;
        shared.queued = shared.queued.saturating_sub(queues.released());
        let Some(matched) = matched else {
            break;
        };
        let start = matched.first().and_then(|(_, item)| item.range());
        if let Some(start) = start.map(|range| range.start) {
            while let Some((anchor, why)) = queues.due(start) {
                announce_one(slot, later, node, anchor, why, shared)?;
            }
        }
        for (port, mut item) in matched {
            let ends = shared.ends;
            shared.range = item.extent().unwrap_or(NOWHERE);
            let mut out = Out::of(node, later, shared);
            let answer = slot.op.process(port, &mut item, &mut out);
            if answer.is_err() {
                slot.ended = true;
            }
            match answer? {
                Next::Consumed => {}
                Next::Done => {
                    slot.ended = true;
                    shared.ends += 1;
                    break;
                }
                Next::Forward => {
                    fan_out(later, node, 0, &mut item, shared)?;
                    shared.switch(node);
                }
            }
            if shared.ends != ends {
                end_upstream(later, node + 1, &shared.cold);
                slot.ended |= is_unwanted(later, node + 1, &shared.cold[node as usize]);
            }
            if slot.ended {
                break;
            }
        }
    }
    Ok(())
}
