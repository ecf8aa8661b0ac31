//! Marks: what goes along the edges beside items, in order with them.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::drive::{Out, at, drive};
use super::fan_in::{BACK, Held};
use super::meeting::{arrive, put, release};
use super::shared::{NOWHERE, Shared};
use super::slot::{FRESH, Slot, To};
use crate::{Break, OpError, OpErrorKind, Port};

/// What goes along an edge beside items.
#[derive(Debug, Clone)]
pub(crate) enum Mark {
    Stretch {
        anchor: i64,
        why: Option<Break>,
    },
    Progress(i64),
    /// What follows lies before what came, as it was asked for.
    Back,
    End,
}

/// Takes a mark along every edge of a node; `later` are the slots behind it.
pub(crate) fn mark_all(
    later: &mut [Slot],
    node: u32,
    what: &Mark,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let (mut slots, mut from) = (later, node);
    let mut what = what.clone();
    // A chain is a loop here, too: what goes along the last edge needs no stack.
    loop {
        let edges = |shared: &Shared, nth| {
            let edges = shared.cold[from as usize].edges.iter().flatten();
            edges.copied().nth(nth)
        };
        let Some(mut to) = edges(shared, 0) else {
            return Ok(());
        };
        let mut nth = 1;
        while let Some(next) = edges(shared, nth) {
            let mut one = what.clone();
            let (slot, rest) = at(slots, from + 1, to.node);
            if pass(slot, rest, to, &mut one, shared)? {
                mark_all(rest, to.node, &one, shared)?;
            }
            (to, nth) = (next, nth + 1);
        }
        let (slot, rest) = at(slots, from + 1, to.node);
        if !pass(slot, rest, to, &mut what, shared)? {
            return Ok(());
        }
        // What keeps step holds nothing back: progress is the same behind all of it.
        let skipped = match what {
            Mark::Progress(_) => usize::from(slot.followers),
            _ => 0,
        };
        (slots, from) = (&mut rest[skipped..], to.node + skipped as u32);
    }
}

/// The same to what is behind one of the node's outputs.
pub(crate) fn mark_output(
    later: &mut [Slot],
    node: u32,
    port: Port,
    what: &Mark,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let mut nth = 0;
    loop {
        let edges = shared.cold[node as usize].edges.get(usize::from(port));
        let Some(to) = edges.and_then(|edges| edges.get(nth).copied()) else {
            return Ok(());
        };
        let mut one = what.clone();
        let (slot, rest) = at(later, node + 1, to.node);
        if pass(slot, rest, to, &mut one, shared)? {
            mark_all(rest, to.node, &one, shared)?;
        }
        nth += 1;
    }
}

/// Shows a node a mark; whether it goes on, as what it became.
fn pass(
    slot: &mut Slot,
    later: &mut [Slot],
    to: To,
    mark: &mut Mark,
    shared: &mut Shared,
) -> Result<bool, OpError> {
    let node = to.node as usize;
    shared.switch(to.node);
    shared.range = NOWHERE;
    if slot.fan_in && !join(slot, later, to, mark, shared)? {
        return Ok(false);
    }
    match mark {
        Mark::Stretch { anchor, why } => {
            begin(slot, later, to, *anchor, why.as_ref(), shared)?;
            let ratio = shared.cold[node].ratio;
            if !ratio.is_one() {
                let of = |index: i64| ratio.first_from(index).unwrap_or(i64::MAX);
                *anchor = of(*anchor);
                if let Some(Break::Gap(range) | Break::Dropped(range)) = why {
                    *range = of(range.start)..of(range.end);
                }
            }
        }
        Mark::Progress(upto) => {
            *upto = slot.op.progress(to.port, *upto);
            let cold = &mut shared.cold[node];
            if *upto <= cold.progress {
                return Ok(false);
            }
            cold.progress = *upto;
        }
        Mark::Back => {
            part_ends(slot, later, to, shared)?;
        }
        Mark::End => {
            let cold = &mut shared.cold[node];
            cold.open_ports = cold.open_ports.saturating_sub(1);
            let last = cold.open_ports == 0;
            if !slot.ended || last {
                let told = slot
                    .op
                    .finish(to.port, &mut Out::of(to.node, later, shared));
                // What failed is never called again.
                slot.ended |= told.is_err();
                told?;
            }
            if !last {
                turn(slot, later, to.node, shared)?;
                return Ok(false);
            }
            slot.ended = true;
        }
    }
    Ok(true)
}

/// A mark of one of several inputs: what of it holds for all of them. Whether it goes on.
fn join(
    slot: &mut Slot,
    later: &mut [Slot],
    to: To,
    mark: &mut Mark,
    shared: &mut Shared,
) -> Result<bool, OpError> {
    let node = to.node as usize;
    let Some(queues) = &mut shared.cold[node].queues else {
        return Ok(true);
    };
    if queues.is_ahead(to.port) {
        queues.hold(to.port, Held::Mark(mark.clone()));
        return Ok(false);
    }
    if matches!(mark, Mark::Back) {
        if queues.is_loop() {
            come_round(slot, later, to.node, shared)?;
            return Ok(true);
        }
        queues.goes_back(to.port);
        turn(slot, later, to.node, shared)?;
        return Ok(false);
    }
    let by_itself = queues.by_civil_time();
    if matches!(mark, Mark::Stretch { .. }) && by_itself {
        return Ok(!queues.has_own_stretches());
    }
    queues.mark(to.port, mark);
    release(slot, later, to.node, shared)?;
    let last = shared.cold[node].open_ports <= 1;
    let Some(queues) = &mut shared.cold[node].queues else {
        return Ok(true);
    };
    // Stretches of which nothing is left are announced, too.
    let upto = match mark {
        // Announced before what begins there.
        Mark::Stretch { .. } => return Ok(false),
        Mark::Progress(upto) => {
            *upto = queues.bound();
            *upto
        }
        Mark::Back => return Ok(true),
        Mark::End if queues.holds_end() => return Ok(false),
        Mark::End if last => i64::MAX,
        Mark::End => return Ok(true),
    };
    announce(slot, later, to.node, upto, shared)?;
    Ok(true)
}

/// Announces the stretches that begin at or before an index, to a fan-in that is not giving items away.
fn announce(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    upto: i64,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let due = |shared: &mut Shared| shared.cold[node as usize].queues.as_mut()?.due(upto);
    while let Some((anchor, why)) = due(shared) {
        announce_one(slot, later, node, anchor, why, shared)?;
    }
    Ok(())
}

/// A task ends: what waits at a node of several inputs meets nobody any more, and what progress was made counts from anew.
pub(super) fn settle(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    shared: &mut Shared,
) -> Result<(), OpError> {
    shared.cold[node as usize].progress = i64::MIN;
    if !slot.fan_in {
        return Ok(());
    }
    complete(slot, later, node, shared)?;
    if let Some(queues) = &mut shared.cold[node as usize].queues {
        queues.forget();
        shared.queued = shared.queued.saturating_sub(queues.released());
    }
    Ok(())
}

/// Lets what waits at a node of several inputs go on that waits for nobody else.
fn complete(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    shared: &mut Shared,
) -> Result<(), OpError> {
    if let Some(queues) = &mut shared.cold[node as usize].queues {
        queues.expect_no_more();
    }
    release(slot, later, node, shared)?;
    announce(slot, later, node, i64::MAX, shared)
}

/// What a node is given next lies before what came: what it holds belongs to that, and goes on before.
fn part_ends(
    slot: &mut Slot,
    later: &mut [Slot],
    to: To,
    shared: &mut Shared,
) -> Result<(), OpError> {
    shared.cold[to.node as usize].progress = i64::MIN;
    if slot.ended {
        return Ok(());
    }
    let told = slot.op.on_break(
        to.port,
        &Break::Rewind,
        &mut Out::of(to.node, later, shared),
    );
    let told = told.and_then(|()| slot.op.idle(&mut Out::of(to.node, later, shared)));
    slot.ended |= told.is_err();
    told
}

/// What waits at the beginning of a loop that goes back goes round before.
fn come_round(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let mut of_outer = VecDeque::new();
    while let Some((begin, mut item)) = shared.back.pop_front() {
        let to = To {
            node: begin,
            port: BACK,
        };
        match begin.cmp(&node) {
            Ordering::Less => of_outer.push_back((begin, item)),
            Ordering::Equal => arrive(slot, later, to, &mut item, shared)?,
            Ordering::Greater => drive(later, node + 1, to, &mut item, shared)?,
        }
    }
    shared.back = of_outer;
    complete(slot, later, node, shared)?;
    shared.switch(node);
    let Some(queues) = &mut shared.cold[node as usize].queues else {
        return Ok(());
    };
    let waiting = queues.waits().filter(|_| !slot.ended);
    queues.forget();
    shared.queued = shared.queued.saturating_sub(queues.released());
    match waiting {
        Some(waiting) => {
            shared.range = (waiting.start, waiting.end);
            Err(OpErrorKind::LoopStarved { waiting }.into())
        }
        None => Ok(()),
    }
}

/// Where all inputs have gone back: what waits meets nobody any more, and what came of the next part goes on.
fn turn(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let turns = |shared: &Shared| {
        let queues = shared.cold[node as usize].queues.as_ref();
        queues.is_some_and(|queues| queues.turns())
    };
    if !turns(shared) {
        return Ok(());
    }
    complete(slot, later, node, shared)?;
    let mut held = Vec::new();
    if let Some(queues) = &mut shared.cold[node as usize].queues {
        held = queues.turn();
        shared.queued = shared.queued.saturating_sub(queues.released());
    }
    part_ends(slot, later, To { node, port: 0 }, shared)?;
    mark_all(later, node, &Mark::Back, shared)?;
    for (port, held) in held {
        let to = To { node, port };
        match held {
            Held::Item(item) => put(slot, later, to, item, shared)?,
            Held::Mark(mut mark) => {
                if pass(slot, later, to, &mut mark, shared)? {
                    mark_all(later, node, &mark, shared)?;
                }
            }
        }
    }
    Ok(())
}

/// Announces that a stretch begins to a fan-in and to what is behind it.
pub(super) fn announce_one(
    slot: &mut Slot,
    later: &mut [Slot],
    node: u32,
    anchor: i64,
    why: Option<Break>,
    shared: &mut Shared,
) -> Result<(), OpError> {
    begin(
        slot,
        later,
        To { node, port: 0 },
        anchor,
        why.as_ref(),
        shared,
    )?;
    mark_all(later, node, &Mark::Stretch { anchor, why }, shared)
}

/// A stretch begins at a node.
fn begin(
    slot: &mut Slot,
    later: &mut [Slot],
    to: To,
    anchor: i64,
    why: Option<&Break>,
    shared: &mut Shared,
) -> Result<(), OpError> {
    let node = to.node as usize;
    if let Some(why) = why {
        shared.cold[node].gaps += u64::from(matches!(why, Break::Gap(_)));
        if !slot.ended {
            let told = slot
                .op
                .on_break(to.port, why, &mut Out::of(to.node, later, shared));
            slot.ended |= told.is_err();
            told?;
        }
    }
    shared.cold[node].anchor = anchor;
    slot.expected = FRESH;
    slot.op.begins(anchor, why);
    Ok(())
}
