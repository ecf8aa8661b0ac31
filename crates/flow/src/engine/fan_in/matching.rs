//! Who meets whom: what of the inputs' items goes to the operator next.

use std::ops::Range;

use isochrony_segment::SigSeg;
use smallvec::SmallVec;

use super::parts::{begin_before, split, units};
use super::{FanIn, Matched, Queue};
use crate::{Item, OpError, Port, Ranges};

impl FanIn {
    pub(super) fn pop_any(&mut self) -> Option<Matched> {
        let port = self
            .queues
            .iter()
            .position(|queue| !queue.items.is_empty())?;
        let item = self.take_front(port)?;
        Some(SmallVec::from_iter([(port as Port, item)]))
    }

    /// The item that begins first, whole; the lower input first, once no other input can give an earlier one.
    pub(super) fn pop_first(&mut self) -> Option<Matched> {
        let (port, _) = self.first()?;
        let item = self.take_front(port)?;
        Some(SmallVec::from_iter([(port as Port, item)]))
    }

    /// The first input with the least bound, and that bound.
    fn first(&self) -> Option<(usize, i64)> {
        if let Some(bounds) = &self.bounds {
            return Some(bounds.first());
        }
        let bounds = self.queues.iter().map(Queue::bound).enumerate();
        bounds.min_by_key(|&(_, bound)| bound)
    }

    /// The least bound of some inputs; `i64::MAX` of none.
    fn least_of(&self, inputs: Range<usize>) -> i64 {
        match &self.bounds {
            Some(bounds) => bounds.least_of(inputs),
            None => {
                let bounds = self.queues[inputs].iter().map(Queue::bound);
                bounds.min().unwrap_or(i64::MAX)
            }
        }
    }

    /// What begins first, of what begins together that of the lower input, once no other input can give an earlier
    /// one. As much of an item as comes before all others': so the order does not depend on how inputs are cut.
    pub(super) fn pop_earliest(&mut self) -> Result<Option<Matched>, OpError> {
        let Some((port, least)) = self.first() else {
            return Ok(None);
        };
        // What begins before the others, or with those that come after it.
        let before = self.least_of(0..port);
        let behind = self.least_of(port + 1..self.queues.len());
        let limit = before.min(behind.saturating_add(1));
        // A stretch is announced between the items before it and behind it, not where one of them happens to be cut.
        let limit = limit.min(self.stretches.begins_behind(least).unwrap_or(i64::MAX));
        let Some(front) = self.take_front(port) else {
            return Ok(None);
        };
        let count = begin_before(&front, limit).max(1);
        let (first, rest) = split(front, count)?;
        if let Some(rest) = rest {
            self.put_back(port, rest);
        }
        Ok(Some(
            first
                .map(|first| (port as Port, first))
                .into_iter()
                .collect(),
        ))
    }

    /// Parts of the front items that cover the same indices.
    pub(super) fn pop_alike(&mut self) -> Result<Option<Matched>, OpError> {
        loop {
            // Nothing before this index can still be matched.
            let Some(from) = self.queues.iter().map(Queue::bound).max() else {
                return Ok(None);
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
                    return Ok(None);
                };
                common = common.min(units(front));
            }
            let mut matched = Matched::new();
            for port in 0..self.queues.len() {
                let Some(front) = self.take_front(port) else {
                    return Ok(None);
                };
                let (first, rest) = split(front, common)?;
                if let Some(rest) = rest {
                    self.put_back(port, rest);
                }
                matched.extend(first.map(|first| (port as Port, first)));
            }
            return Ok(Some(matched));
        }
    }

    /// Drops what an input has before `from`; whether that was anything.
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
        if let (_, Some(rest)) = split(front, before)? {
            self.put_back(port, rest);
        }
        Ok(true)
    }

    /// The first range of the last input, and the other inputs' samples in it.
    pub(super) fn pop_controlled(&mut self) -> Result<Option<Matched>, OpError> {
        let Some((control, data)) = self.queues.split_last_mut() else {
            return Ok(None);
        };
        let Some(Item::Ranges(ranges)) = control.items.front_mut() else {
            // What lies before all that control can still ask for is not needed any more.
            let upto = if control.ended {
                i64::MAX
            } else {
                control.progress
            };
            for queue in data {
                while let Some(front) = queue.items.front()
                    && front.range().is_some_and(|range| range.end <= upto)
                {
                    self.released += front.bytes();
                    queue.items.pop_front();
                }
            }
            return Ok(None);
        };
        let Some(range) = ranges.ranges.first().cloned() else {
            control.items.pop_front();
            return Ok(Some(Matched::new()));
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
            return Ok(None);
        }
        let stream = ranges.stream;
        ranges.ranges.remove(0);
        if ranges.ranges.is_empty() {
            control.items.pop_front();
        }
        let mut matched = Matched::new();
        let ports = data.len();
        for (port, queue) in data.iter_mut().enumerate() {
            while let Some(front) = queue.items.front()
                && front.range().is_some_and(|r| r.end <= range.start)
            {
                self.released += front.bytes();
                queue.items.pop_front();
            }
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
                    // After a gap: a segment of its own.
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
        Ok(Some(matched))
    }
}
