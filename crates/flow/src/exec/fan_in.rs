//! Where streams meet: items wait in one queue an input until those that belong together are all there.
//!
//! Queues are released by the least progress of the inputs: an item that can meet nobody any more is dropped (zip) or
//! goes on (merge). What waits is counted to the run's cap, and over it the run stops with an error: the classic
//! diamond, one branch of which removes what the other keeps, never hangs.

use std::collections::VecDeque;
use std::sync::Arc;

use isochrony_segment::SigSeg;
use smallvec::SmallVec;

use crate::exec::drive::Mark;
use crate::{Align, Clock, Item, OpError, OpErrorKind, Port, Ranges};

/// Items that belong together, by input.
pub(crate) type Matched = SmallVec<[(Port, Item); 4]>;

struct Queue {
    items: VecDeque<Item>,
    /// Nothing that begins before this index follows.
    progress: i64,
    ended: bool,
    /// Who it comes from, for errors.
    from: String,
    /// What makes civil times of indices, where the inputs have nothing else in common.
    clock: Option<Arc<dyn Clock>>,
}

impl Queue {
    /// Index before which nothing is to come or waits.
    fn bound(&self) -> i64 {
        let front = self
            .items
            .front()
            .and_then(Item::range)
            .map(|range| range.start);
        match front {
            Some(start) => self.on_axis(start),
            None if self.ended => i64::MAX,
            None => self.progress,
        }
    }

    /// An index on the axis by which inputs meet; one whose time is not known waits for nobody.
    fn on_axis(&self, index: i64) -> i64 {
        let Some(clock) = self.clock.as_ref().filter(|_| index != i64::MIN) else {
            return index;
        };
        let mut time = [i64::MIN];
        clock
            .times(&[index], &mut time)
            .map_or(i64::MIN, |()| time[0])
    }
}

pub(crate) struct FanIn {
    align: Align,
    queues: Vec<Queue>,
    released: u64,
}

impl FanIn {
    /// `from` says of each input who it comes from, and which clock it has.
    pub(crate) fn new(
        align: Align,
        from: impl IntoIterator<Item = (String, Option<Arc<dyn Clock>>)>,
    ) -> Self {
        let queue = |(from, clock): (String, Option<Arc<dyn Clock>>)| Queue {
            items: VecDeque::new(),
            progress: i64::MIN,
            ended: false,
            from,
            clock: clock.filter(|_| align == Align::Civil),
        };
        Self {
            align,
            queues: from.into_iter().map(queue).collect(),
            released: 0,
        }
    }

    pub(crate) fn push(&mut self, port: Port, item: Item) {
        if units(&item) == 0 {
            // Nothing, which meets nobody: it would wait for ever.
            self.released += item.bytes();
            return;
        }
        let queue = &mut self.queues[usize::from(port)];
        if let Some(range) = item.range() {
            queue.progress = queue.progress.max(queue.on_axis(range.start));
        }
        queue.items.push_back(item);
    }

    pub(crate) fn mark(&mut self, port: Port, mark: &Mark) {
        let queue = &mut self.queues[usize::from(port)];
        match mark {
            Mark::Progress(upto) => queue.progress = queue.progress.max(queue.on_axis(*upto)),
            Mark::End => queue.ended = true,
            // Indices tell the rest.
            Mark::Stretch { .. } => {}
        }
    }

    /// What goes on to the consumers when one input got a mark.
    pub(crate) fn passes(&self, mark: &Mark) -> Option<Mark> {
        match mark {
            Mark::Progress(_) => {
                let least = self.queues.iter().map(Queue::bound).min()?;
                Some(Mark::Progress(least))
            }
            other => Some(other.clone()),
        }
    }

    /// Bytes that left the queues since the last call.
    pub(crate) fn released(&mut self) -> u64 {
        std::mem::take(&mut self.released)
    }

    /// The next items that belong together.
    pub(crate) fn pop(&mut self) -> Result<Option<Matched>, OpError> {
        match self.align {
            Align::Window => self.pop_alike(),
            Align::Control => self.pop_controlled(),
            Align::Time => self.pop_earliest(),
            Align::Begin | Align::Civil => Ok(self.pop_first()),
            Align::Single | Align::Arrival => Ok(self.pop_any()),
        }
    }

    fn take_front(&mut self, port: usize) -> Option<Item> {
        let item = self.queues[port].items.pop_front()?;
        self.released += item.bytes();
        Some(item)
    }

    fn pop_any(&mut self) -> Option<Matched> {
        let port = self
            .queues
            .iter()
            .position(|queue| !queue.items.is_empty())?;
        let item = self.take_front(port)?;
        Some(SmallVec::from_iter([(port as Port, item)]))
    }

    /// The item that begins first, whole; the lower input first, once no other input can give an earlier one.
    fn pop_first(&mut self) -> Option<Matched> {
        let bounds = || self.queues.iter().map(Queue::bound);
        let least = bounds().min()?;
        let port = bounds().position(|bound| bound == least)?;
        let item = self.take_front(port)?;
        Some(SmallVec::from_iter([(port as Port, item)]))
    }

    /// What begins first, of what begins together that of the lower input, once no other input can give an earlier
    /// one. As much of an item as comes before all others': so the order does not depend on how inputs are cut.
    fn pop_earliest(&mut self) -> Result<Option<Matched>, OpError> {
        let bounds = || self.queues.iter().map(Queue::bound);
        let Some(least) = bounds().min() else {
            return Ok(None);
        };
        let Some(port) = bounds().position(|bound| bound == least) else {
            return Ok(None);
        };
        // What begins before the others, or with those that come after it.
        let others = bounds().enumerate().filter(|&(other, _)| other != port);
        let limit = others.map(|(other, bound)| bound.saturating_add(i64::from(other > port)));
        let limit = limit.min().unwrap_or(i64::MAX);
        let Some(front) = self.take_front(port) else {
            return Ok(None);
        };
        let count = begin_before(&front, limit).max(1);
        let (first, rest) = split(front, count)?;
        if let Some(rest) = rest {
            self.released = self.released.saturating_sub(rest.bytes());
            self.queues[port].items.push_front(rest);
        }
        Ok(Some(
            first
                .map(|first| (port as Port, first))
                .into_iter()
                .collect(),
        ))
    }

    /// Parts of the front items that cover the same indices.
    fn pop_alike(&mut self) -> Result<Option<Matched>, OpError> {
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
                    self.released = self.released.saturating_sub(rest.bytes());
                    self.queues[port].items.push_front(rest);
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
            self.released = self.released.saturating_sub(rest.bytes());
            self.queues[port].items.push_front(rest);
        }
        Ok(true)
    }

    /// The first range of the last input, and the other inputs' samples in it.
    fn pop_controlled(&mut self) -> Result<Option<Matched>, OpError> {
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

    pub(crate) fn starved(&self, name: &str, queued: u64, cap: u64) -> OpError {
        let weight = |queue: &Queue| queue.items.iter().map(Item::bytes).sum::<u64>();
        let edge = |port: usize| format!("{} -> {name} input {port}", self.queues[port].from);
        let ports = 0..self.queues.len();
        let ahead = ports
            .clone()
            .max_by_key(|&port| weight(&self.queues[port]))
            .unwrap_or(0);
        let behind = ports
            .filter(|&port| port != ahead)
            .min_by_key(|&port| self.queues[port].bound())
            .unwrap_or(0);
        let last = self.queues[ahead]
            .items
            .back()
            .and_then(Item::range)
            .map_or(0, |range| range.end);
        OpErrorKind::FanInStarved {
            ahead: edge(ahead),
            behind: edge(behind),
            skew: last.saturating_sub(self.queues[behind].bound().max(0)),
            queued,
            cap,
        }
        .into()
    }
}

/// Samples, windows, rows or ranges.
fn units(item: &Item) -> u64 {
    match item {
        Item::Samples(samples) => samples.len(),
        Item::Frames(frames) => frames.count(),
        Item::Rows(rows) => rows.count(),
        Item::Ranges(ranges) => ranges.ranges.len() as u64,
        Item::Taken => 1,
    }
}

/// How many of them begin before an index.
fn begin_before(item: &Item, limit: i64) -> u64 {
    let ahead = |start: i64| u64::try_from(i128::from(limit) - i128::from(start)).unwrap_or(0);
    match item {
        Item::Samples(samples) => ahead(samples.start()),
        Item::Frames(frames) => ahead(frames.start()).div_ceil(frames.hop()),
        Item::Rows(rows) => rows.begin_before(limit),
        Item::Ranges(ranges) => {
            let starts = ranges.ranges.iter().map(|range| range.start);
            starts.take_while(|&start| start < limit).count() as u64
        }
        Item::Taken => 1,
    }
}

/// The first `at` of them, and the rest.
fn split(item: Item, at: u64) -> Result<(Option<Item>, Option<Item>), OpError> {
    if at == 0 {
        return Ok((None, Some(item)));
    }
    if at >= units(&item) {
        return Ok((Some(item), None));
    }
    Ok(match item {
        Item::Samples(samples) => {
            let cut = samples.start().saturating_add_unsigned(at);
            let first = samples.subseg(samples.start()..cut)?;
            (
                Some(first.into()),
                Some(samples.subseg(cut..samples.end())?.into()),
            )
        }
        Item::Frames(frames) => {
            let first = frames.sub(0..at).map(Item::from);
            (first, frames.sub(at..frames.count()).map(Item::from))
        }
        Item::Rows(rows) => {
            let (first, rest) = rows.split(at);
            (Some(first.into()), Some(rest.into()))
        }
        Item::Ranges(mut ranges) => {
            let rest = Ranges {
                stream: ranges.stream,
                ranges: ranges.ranges.drain(at as usize..).collect(),
            };
            (Some(Item::Ranges(ranges)), Some(Item::Ranges(rest)))
        }
        Item::Taken => (Some(item), None),
    })
}
