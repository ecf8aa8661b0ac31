//! Bursts: a bounded number of items of one source, then marks.

use std::time::{Duration, Instant};

use super::context::{ExecutionContext, NO_RANGE};
use super::dispatch::{
    Out, broadcast_mark, drive, end_task, fan_out, renew_progress, skip_to, split_at_node,
};
use super::executor::PlanExecutor;
use super::fan_in::FEEDBACK_PORT;
use super::mark::Mark;
use super::options::RunOptions;
use super::slot::{self, InputPort, Slot};
use super::source_order::BurstSize;
use super::time_axis::TimeAxis;
use crate::{OpError, SourceEvent};

/// First bursts, all timed to measure short executions too.
const TIMED_BURSTS: u64 = 16;
/// Longest sleep without items; bounds the reaction to interrupts and due commits.
pub(super) const IDLE_WAIT: Duration = Duration::from_millis(20);

impl PlanExecutor {
    /// Whether the source gave anything, its end included.
    pub(super) fn burst(
        &mut self,
        current: usize,
        options: &RunOptions<'_>,
    ) -> Result<bool, OpError> {
        let next = self.source_order.next_after(current);
        self.begin_burst();
        let Self {
            slots,
            source_order,
            context,
            done_seen,
            round,
            burst_bytes,
            items,
            bytes,
            timed_samples,
            error_time,
            flush_interval,
            flushed,
            asked,
            ..
        } = self;
        let by_block = source_order.by_block;
        let source = &mut source_order.sources[current];
        context.current_node = source.node as u32;
        let node = source.node as u32;
        let behind = source.node + 1;
        let (mut size, mut gave) = (BurstSize::default(), false);
        context.ends_burst = false;
        source.ended |= slots[source.node].ended;
        while !size.is_over(*burst_bytes) && !source.ended && !source.idle {
            context.check_interrupt()?;
            if source.is_stopped() {
                source.idle = true;
                break;
            }
            context.switch_to(node);
            context.pool.shrink_if_short(context.queued_bytes);
            // An error names the last range given.
            context.item_range = source.given;
            let pulled = match &context.wait_check {
                Some(check) => check.during(|| source.pull(next.as_ref()))?,
                None => source.pull(next.as_ref())?,
            };
            let gives = !matches!(pulled, SourceEvent::Idle);
            if let Some(asked) = asked.filter(|_| gives && !gave) {
                context.arrived = source.source.arrival(asked);
            }
            gave |= gives;
            source.began_range = matches!(pulled, SourceEvent::RangeStart { .. });
            match pulled {
                pulled
                    if error_time.is_some_and(|time| begins_after(&pulled, time, &source.axis)) =>
                {
                    source.ended = true;
                }
                SourceEvent::Item(mut item) => {
                    let samples = size.add_item(&item);
                    *items += 1;
                    let extent = item.extent();
                    source.given = extent.unwrap_or(NO_RANGE);
                    source.progress = match extent {
                        Some((start, _)) if source.source.overlaps() => start,
                        Some((_, next)) => next,
                        None => source.progress,
                    };
                    context.nodes[source.node].count_item(samples);
                    fan_out(&mut slots[behind..], node, 0, &mut item, context)?;
                    drain_feedback(slots, context)?;
                    if context.timed {
                        context.switch_to(node);
                        context.timed = false;
                        *timed_samples += samples;
                    }
                }
                SourceEvent::RangeStart { origin, why } => {
                    let mark = Mark::RangeStart { origin, why };
                    broadcast_mark(&mut slots[behind..], node, &mark, context)?;
                    drain_feedback(slots, context)?;
                    source.begin_range(origin.anchor, by_block);
                }
                SourceEvent::Skipped { range, own } => {
                    let samples = own.start.abs_diff(own.end);
                    size.add_skipped(samples);
                    context.nodes[source.node].skipped += samples;
                    source.progress = source.progress.max(range.end);
                    skip_to(&mut slots[behind..], node, range.end, context)?;
                    drain_feedback(slots, context)?;
                }
                SourceEvent::ProgressMark(index) => source.progress = source.progress.max(index),
                SourceEvent::Rewind => {
                    (source.progress, source.rewinds) = (i64::MIN, source.rewinds + 1);
                    broadcast_mark(&mut slots[behind..], node, &Mark::Rewind, context)?;
                    drain_feedback(slots, context)?;
                    // Other sources may have items from before the rewind.
                    size.end();
                }
                SourceEvent::Idle => source.idle = true,
                SourceEvent::End => source.ended = true,
            }
            if by_block {
                source.time = source.position_time();
                if error_time.is_none() && source.progress > i64::MIN {
                    let progress = Mark::Progress(source.progress);
                    broadcast_mark(&mut slots[behind..], node, &progress, context)?;
                    drain_feedback(slots, context)?;
                }
            }
            if end_unused(slots, context, done_seen) {
                source.ended |= slots[source.node].ended;
                // Another source may be unused now, and must learn that first.
                break;
            }
            let is_due = || flush_interval.is_some_and(|interval| flushed.elapsed() >= interval);
            if source.is_after(next.as_ref()) || context.ends_burst || is_due() {
                break;
            }
        }
        *bytes += size.bytes;
        round.add(&size);
        source.time = source.position_time();
        if error_time.is_some() {
            // After an error no end is announced.
            if source.ended {
                source.source.close();
            }
            return Ok(gave);
        }
        if let Some(progress) = options.progress {
            let samples = match source.source.delivered() {
                Some(delivered) => delivered - std::mem::replace(&mut source.reported, delivered),
                None => size.samples,
            };
            progress.advance(samples);
        }
        let progress = (source.progress > i64::MIN).then_some(Mark::Progress(source.progress));
        let end = source.ended.then_some(Mark::End);
        for mark in progress.into_iter().chain(end) {
            broadcast_mark(&mut slots[behind..], node, &mark, context)?;
            drain_feedback(slots, context)?;
        }
        end_unused(slots, context, done_seen);
        context.switch_to(node);
        if source.ended {
            source.source.close();
            source.deferred = None;
            gave = true;
        }
        Ok(gave)
    }

    /// Starts a burst, or continues one shared block by block. Times the first item of early bursts and of a fourth of
    /// later ones (the clock costs as much as ten operators); of a shared burst, each source's first.
    fn begin_burst(&mut self) {
        let continues = self.source_order.by_block && !self.round.is_over(self.burst_bytes);
        if !continues || self.bursts == 0 {
            // Random: sources may be asked in turn.
            let random = self.bursts.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62;
            let due = self.measures && (self.bursts < TIMED_BURSTS || random == 0);
            let sources = match self.source_order.by_block {
                true => self.source_order.sources.len(),
                false => 1,
            };
            self.timed_items_left = if due { sources } else { 0 };
            self.round = BurstSize::default();
            self.bursts += 1;
        }
        self.context.timed = self.timed_items_left > 0;
        self.timed_items_left = self.timed_items_left.saturating_sub(1);
        if self.context.timed {
            self.context.since = Instant::now();
        }
    }

    pub(super) fn go_idle(&mut self) -> Result<(), OpError> {
        self.context.check_interrupt()?;
        // Blocks must not depend on worker speed where source order matters.
        if !(self.source_order.waits() && self.source_order.any_under_way()) {
            let begun = self.latencies.is_some().then(Instant::now);
            self.flush(false)?;
            if let Some((latencies, begun)) = self.latencies.as_mut().zip(begun) {
                latencies.add_flush(begun);
            }
        }
        self.context.pool.shrink_if_short(self.context.queued_bytes);
        Ok(())
    }

    pub(super) fn flush_if_due(&mut self) -> Result<(), OpError> {
        match self.flush_interval {
            Some(interval) if self.flushed.elapsed() >= interval => self.flush(false),
            _ => Ok(()),
        }
    }

    pub(super) fn flush(&mut self, task_ends: bool) -> Result<(), OpError> {
        self.context.timed = false;
        if self.flush_interval.is_some() {
            self.flushed = Instant::now();
        }
        for node in 0..self.slots.len() as u32 {
            self.context.switch_to(node);
            self.context.item_range = NO_RANGE;
            let (slot, later) = split_at_node(&mut self.slots, 0, node);
            if task_ends {
                end_task(slot, later, node, &mut self.context)?;
            }
            if !slot.ended {
                (slot.op).idle(&mut Out::of(node, later, &mut self.context))?;
                renew_progress(slot, later, node, &mut self.context)?;
            }
        }
        drain_feedback(&mut self.slots, &mut self.context)
    }
}

/// Whether a pulled event, and so all later ones, begin after a time.
fn begins_after(pulled: &SourceEvent, time: f64, axis: &TimeAxis) -> bool {
    let start = match pulled {
        SourceEvent::Item(item) => item.extent().map(|(start, _)| start),
        SourceEvent::RangeStart { origin, .. } => Some(origin.anchor),
        SourceEvent::Skipped { range, .. } => Some(range.start),
        SourceEvent::ProgressMark(start) => Some(*start),
        _ => None,
    };
    start.is_some_and(|start| axis.time(start) > time)
}

#[inline]
fn drain_feedback(slots: &mut [Slot], context: &mut ExecutionContext) -> Result<(), OpError> {
    match context.feedback.is_empty() {
        true => Ok(()),
        false => drain_waiting_feedback(slots, context),
    }
}

#[inline(never)]
fn drain_waiting_feedback(
    slots: &mut [Slot],
    context: &mut ExecutionContext,
) -> Result<(), OpError> {
    while let Some((begin, mut item)) = context.feedback.pop_front() {
        context.check_interrupt()?;
        let to = InputPort {
            node: begin,
            port: FEEDBACK_PORT,
        };
        drive(&mut slots[begin as usize..], begin, to, &mut item, context)?;
    }
    Ok(())
}

#[inline]
fn end_unused(slots: &mut [Slot], context: &mut ExecutionContext, seen: &mut u64) -> bool {
    if context.done_count == *seen {
        return false;
    }
    *seen = context.done_count;
    end_upstream_and_queues(slots, context);
    true
}

#[cold]
fn end_upstream_and_queues(slots: &mut [Slot], context: &mut ExecutionContext) {
    slot::end_upstream(slots, 0, &context.nodes);
    for (slot, node) in slots.iter().zip(&mut context.nodes) {
        if let Some(queues) = node.queues.as_mut().filter(|_| slot.ended) {
            queues.clear();
            context.queued_bytes = context
                .queued_bytes
                .saturating_sub(queues.take_released_bytes());
        }
    }
}
