//! Chooses a fan-in's next items.

use std::ops::Range;

use isochrony_segment::SigSeg;
use smallvec::SmallVec;

use super::item_split::{split_item, unit_count, units_starting_before};
use super::{FanIn, Matched, Queue};
use crate::{Item, OpError, Port, Ranges};

impl FanIn {
    pub(super) fn pop_any(&mut self, matched: &mut Matched) -> bool {
        let port = self.queues.iter().position(|queue| !queue.items.is_empty());
        port.is_some_and(|port| self.pop_from(port, matched))
    }

    fn pop_from(&mut self, port: usize, matched: &mut Matched) -> bool {
        let Some(item) = self.take_front(port) else {
            return false;
        };
        matched.push((port as Port, item));
        true
    }

    /// The whole item that begins first, on ties of the lower input, once no earlier one can come.
    pub(super) fn pop_first(&mut self, matched: &mut Matched) -> bool {
        let first = self.first();
        first.is_some_and(|(port, _)| self.pop_from(port, matched))
    }

    fn first(&self) -> Option<(usize, i64)> {
        if let Some(bounds) = &self.bounds {
            return Some(bounds.first());
        }
        let bounds = self.queues.iter().map(Queue::bound).enumerate();
        bounds.min_by_key(|&(_, bound)| bound)
    }

    fn least_of(&self, inputs: Range<usize>) -> i64 {
        match &self.bounds {
            Some(bounds) => bounds.least_of(inputs),
            None => {
                let bounds = self.queues[inputs].iter().map(Queue::bound);
                bounds.min().unwrap_or(i64::MAX)
            }
        }
    }

    /// The part of the first item before all other inputs, on ties of the lower input, once no earlier one can come:
    /// the order does not depend on cuts.
    pub(super) fn pop_earliest(&mut self, matched: &mut Matched) -> Result<bool, OpError> {
        let Some((port, least)) = self.first() else {
            return Ok(false);
        };
        let before = self.least_of(0..port);
        let behind = self.least_of(port + 1..self.queues.len());
        let limit = before.min(behind.saturating_add(1));
        // Range starts are announced between items.
        let limit = limit.min(
            self.range_starts
                .first_start_after(least)
                .unwrap_or(i64::MAX),
        );
        let Some(front) = self.take_front(port) else {
            return Ok(false);
        };
        let count = units_starting_before(&front, limit).max(1);
        let (first, rest) = split_item(front, count)?;
        if let Some(rest) = rest {
            self.put_back(port, rest);
        }
        matched.extend(first.map(|first| (port as Port, first)));
        Ok(true)
    }

    /// Parts of the first items that cover the same indices.
    pub(super) fn pop_aligned(&mut self, matched: &mut Matched) -> Result<bool, OpError> {
        loop {
            // Nothing before this can be matched any more.
            let Some(from) = self.queues.iter().map(Queue::bound).max() else {
                return Ok(false);
            };
            let mut dropped = false;
            for port in 0..self.queues.len() {
                dropped |= self.drop_before(port, from)?;
            }
            if dropped {
                continue;
            }
            let mut common = u64::MAX;
            for queue in &self.queues {
                let Some(front) = queue.items.front() else {
                    return Ok(false);
                };
                common = common.min(unit_count(front));
            }
            for port in 0..self.queues.len() {
                let Some(front) = self.take_front(port) else {
                    return Ok(false);
                };
                let (first, rest) = split_item(front, common)?;
                if let Some(rest) = rest {
                    self.put_back(port, rest);
                }
                matched.extend(first.map(|first| (port as Port, first)));
            }
            return Ok(true);
        }
    }

    fn drop_before(&mut self, port: usize, from: i64) -> Result<bool, OpError> {
        let Some(front) = self.queues[port].items.front() else {
            return Ok(false);
        };
        let Some(start) = front.range().map(|range| range.start) else {
            return Ok(false);
        };
        if start >= from {
            return Ok(false);
        }
        let Some(front) = self.take_front(port) else {
            return Ok(false);
        };
        let before = match &front {
            Item::Frames(frames) => start.abs_diff(from).div_ceil(frames.hop()),
            _ => start.abs_diff(from),
        };
        if let (_, Some(rest)) = split_item(front, before)? {
            self.put_back(port, rest);
        }
        Ok(true)
    }

    /// The first range of the last input, and the other inputs' samples in it.
    pub(super) fn pop_controlled(&mut self, matched: &mut Matched) -> Result<bool, OpError> {
        let Some((control, data)) = self.queues.split_last_mut() else {
            return Ok(false);
        };
        let Some(Item::Ranges(ranges)) = control.items.front_mut() else {
            // Samples before all ranges to come are not needed.
            let upto = if control.ended {
                i64::MAX
            } else {
                control.progress
            };
            for queue in data {
                self.released_bytes += queue.drop_up_to(upto);
            }
            return Ok(false);
        };
        let Some(range) = ranges.ranges.first().cloned() else {
            control.items.pop_front();
            return Ok(true);
        };
        let covered = data.iter().all(|queue| {
            let last = queue
                .items
                .back()
                .and_then(Item::range)
                .map(|last| last.end);
            queue.ended || last.is_some_and(|end| end >= range.end) || queue.progress >= range.end
        });
        if !covered {
            return Ok(false);
        }
        let stream = ranges.stream;
        ranges.ranges.remove(0);
        if ranges.ranges.is_empty() {
            control.items.pop_front();
        }
        let ports = data.len();
        for (port, queue) in data.iter_mut().enumerate() {
            self.released_bytes += queue.drop_up_to(range.start);
            let mut joined: Option<SigSeg> = None;
            for item in &queue.items {
                let Item::Samples(samples) = item else {
                    continue;
                };
                let (from, to) = (
                    samples.start().max(range.start),
                    samples.end().min(range.end),
                );
                if from >= to {
                    continue;
                }
                let part = samples.subseg(from..to)?;
                match &mut joined {
                    Some(before) if before.end() == from => before.append(part)?,
                    // A segment after a gap.
                    _ => matched.extend(
                        joined
                            .replace(part)
                            .map(|before| (port as Port, before.into())),
                    ),
                }
            }
            matched.extend(joined.map(|samples| (port as Port, samples.into())));
        }
        let one = Ranges {
            stream,
            ranges: SmallVec::from_iter([range]),
        };
        matched.push((ports as Port, Item::Ranges(one)));
        Ok(true)
    }
}
