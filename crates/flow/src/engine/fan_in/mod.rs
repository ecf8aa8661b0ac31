//! Queues of a fan-in, one per input, in which items wait for partners.
//!
//! The least progress of the inputs releases an item without partner: it is dropped (zip) or passed on (merge). Waiting
//! items count against the memory budget: where one branch of a diamond removes what the other keeps, the execution
//! fails instead of hanging.
//!
//! ```text
//!  input 0 ──▶ [ 40..50 | 30..40 ]  progress 50 ─┐
//!  input 1 ──▶ [ 30..35 ]           progress 35 ─┼─▶ bound 30: nothing that begins before it waits or can come
//!  input 2 ──▶ [ ]                  progress 32 ─┘   merge: input 0 gives 30..31, input 1 ...; zip: all wait for input 2
//! ```

mod bound_tree;
mod feedback;
mod item_split;
mod matching;
mod range_starts;
mod rewind;

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::mark::Mark;
use crate::{Alignment, Break, Clock, Item, OpError, OpErrorKind, Port, RangeOrigin};
use bound_tree::{BoundTree, MIN_TREE_INPUTS};
use item_split::unit_count;
use range_starts::RangeStarts;

pub(crate) const FEEDBACK_PORT: Port = 1;

/// Arrived at an input that rewound before others.
pub(crate) enum HeldBack {
    Item(Item),
    Mark(Mark),
}

#[derive(Debug, Default)]
struct LoopProgress {
    fed_back: i64,
    entered: Option<i64>,
}

pub(crate) type Matched = SmallVec<[(Port, Item); 4]>;

struct Queue {
    items: VecDeque<Item>,
    progress: i64,
    index_progress: i64,
    ended: bool,
    rewound: bool,
    /// Only names the loop that ends here.
    silent: bool,
    from: String,
    /// Gives civil time, if that is the common axis.
    clock: Option<Arc<dyn Clock>>,
    /// Items of a new run are placed where the feed was when its clock started anew, if they begin before.
    ascends: bool,
}

impl Queue {
    /// Nothing before it is queued or can arrive.
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

    /// Drops items that end up to an index. Returns their bytes.
    fn drop_up_to(&mut self, index: i64) -> u64 {
        let (mut count, mut bytes) = (0, 0);
        for item in &self.items {
            match item.range() {
                Some(range) if range.end <= index => bytes += item.bytes(),
                _ => break,
            }
            count += 1;
        }
        if count > 0 {
            self.items.drain(..count);
        }
        bytes
    }

    /// An unknown time waits for nothing.
    fn on_axis(&self, index: i64) -> i64 {
        let Some(clock) = self.clock.as_ref().filter(|_| index != i64::MIN) else {
            return index;
        };
        let mut time = [i64::MIN];
        let known = clock.times(&[index], &mut time).is_ok() && time[0] != i64::MIN;
        let announced = || clock.announced_before(index).unwrap_or(i64::MIN);
        match known {
            true if self.ascends => time[0].max(announced()),
            true => time[0],
            false => i64::MIN,
        }
    }
}

pub(crate) struct FanIn {
    align: Alignment,
    queues: Vec<Queue>,
    /// Bounds of many inputs matched by index. None by time: a clock may change.
    bounds: Option<BoundTree>,
    range_starts: RangeStarts,
    loop_progress: LoopProgress,
    held_back: Vec<(Port, HeldBack)>,
    released_bytes: u64,
}

impl FanIn {
    /// `from`: each input's operator and clock.
    pub(crate) fn new(
        align: Alignment,
        from: impl IntoIterator<Item = (String, Option<Arc<dyn Clock>>)>,
    ) -> Self {
        let queue = |(from, clock): (String, Option<Arc<dyn Clock>>)| Queue {
            items: VecDeque::new(),
            progress: i64::MIN,
            index_progress: i64::MIN,
            ended: false,
            rewound: false,
            silent: false,
            from,
            clock: clock.filter(|_| matches!(align, Alignment::Civil | Alignment::Resampled)),
            ascends: align == Alignment::Civil,
        };
        let queues: Vec<Queue> = from.into_iter().map(queue).collect();
        let ordered = matches!(align, Alignment::Time | Alignment::Begin);
        Self {
            align,
            bounds: (ordered && queues.len() >= MIN_TREE_INPUTS)
                .then(|| BoundTree::new(queues.len())),
            queues,
            range_starts: RangeStarts::default(),
            loop_progress: LoopProgress::default(),
            held_back: Vec::new(),
            released_bytes: 0,
        }
    }

    /// Whether to look for matches, or for bytes to release, now.
    pub(crate) fn push(&mut self, port: Port, item: Item) -> bool {
        if unit_count(&item) == 0 {
            // It cannot find a partner.
            self.released_bytes += item.bytes();
            return true;
        }
        let queue = &mut self.queues[usize::from(port)];
        let range = item.range();
        if let Some(range) = &range {
            queue.progress = queue.progress.max(queue.on_axis(range.start));
            queue.index_progress = queue.index_progress.max(range.start);
        }
        queue.items.push_back(item);
        self.bound_changed(usize::from(port));
        match (&self.align, self.queues.last(), range) {
            (Alignment::Control, Some(control), Some(range)) => {
                control.ended || !control.items.is_empty() || range.end <= control.progress
            }
            _ => true,
        }
    }

    fn bound_changed(&mut self, port: usize) {
        if let Some(bounds) = &mut self.bounds {
            bounds.set(port, self.queues[port].bound());
        }
    }

    fn all_bounds_changed(&mut self) {
        (0..self.queues.len()).for_each(|port| self.bound_changed(port));
    }

    pub(crate) fn mark(&mut self, port: Port, mark: &Mark) {
        let queue = &mut self.queues[usize::from(port)];
        match mark {
            Mark::Progress(upto) => {
                queue.progress = queue.progress.max(queue.on_axis(*upto));
                queue.index_progress = queue.index_progress.max(*upto);
            }
            Mark::End => queue.ended = true,
            Mark::RangeStart { origin, why } => {
                self.range_starts.announce(port, *origin, why.clone())
            }
            Mark::Rewind => {}
        }
        self.bound_changed(usize::from(port));
    }

    /// An input's clock restarts, perhaps before the time expected of that index. By civil time only.
    pub(crate) fn restart_clock(&mut self, port: Port, index: i64) {
        let queue = &mut self.queues[usize::from(port)];
        let place = queue.on_axis(index);
        if place != i64::MIN {
            queue.progress = place;
        }
    }

    /// Nothing follows in this task or before the rewind.
    pub(crate) fn mark_inputs_complete(&mut self) {
        self.queues
            .iter_mut()
            .for_each(|queue| queue.progress = i64::MAX);
        self.all_bounds_changed();
    }

    pub(crate) fn clear(&mut self) {
        for queue in &mut self.queues {
            self.released_bytes += queue.items.drain(..).map(|item| item.bytes()).sum::<u64>();
            (queue.progress, queue.index_progress) = (i64::MIN, i64::MIN);
        }
        self.all_bounds_changed();
        self.range_starts.clear();
        self.loop_progress = LoopProgress::default();
    }

    pub(crate) fn set_silent(&mut self, port: usize) {
        self.queues[port].silent = true;
    }

    pub(crate) fn holds_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    pub(crate) fn next_start(&mut self, index: i64) -> Option<(RangeOrigin, Option<Break>)> {
        self.range_starts.next_start(index)
    }

    /// Nothing before it is queued or can arrive, at any input.
    pub(crate) fn bound(&self) -> i64 {
        if let Some(bounds) = &self.bounds {
            return bounds.first().1;
        }
        // Feedback has no progress.
        let inputs = &self.queues[..if self.is_loop() { 1 } else { self.queues.len() }];
        inputs.iter().map(Queue::bound).min().unwrap_or(i64::MAX)
    }

    /// The bound of one input, as an index.
    pub(crate) fn index_bound(&self, port: Port) -> i64 {
        let queue = &self.queues[usize::from(port)];
        match queue.items.front().and_then(Item::range) {
            Some(range) => range.start,
            None if queue.ended => i64::MAX,
            None => queue.index_progress,
        }
    }

    /// Range starts have no common index order.
    pub(crate) fn by_civil_time(&self) -> bool {
        matches!(self.align, Alignment::Civil | Alignment::Resampled)
    }

    pub(crate) fn is_loop(&self) -> bool {
        matches!(self.align, Alignment::Loop { .. })
    }

    /// The end waits until all items have passed the loop.
    pub(crate) fn defers_end(&self) -> bool {
        self.is_loop() && !self.queues[0].items.is_empty()
    }

    pub(crate) fn deferred_end_is_due(&self) -> bool {
        self.is_loop() && self.queues[0].ended && self.queues[0].items.is_empty()
    }

    pub(crate) fn take_released_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.released_bytes)
    }

    /// Appends the next items to `matched`; whether there were any. A range without samples gives none of them.
    ///
    /// An argument, not a result: most items that are pushed match nothing yet, and a result is copied as a whole.
    pub(crate) fn pop(&mut self, matched: &mut Matched) -> Result<bool, OpError> {
        match self.align {
            Alignment::Window => self.pop_aligned(matched),
            Alignment::Control => self.pop_controlled(matched),
            Alignment::Time => self.pop_earliest(matched),
            Alignment::Begin | Alignment::Civil | Alignment::Resampled => {
                Ok(self.pop_first(matched))
            }
            Alignment::Single | Alignment::Arrival => Ok(self.pop_any(matched)),
            Alignment::Loop { delay } => self.pop_loop(delay, matched),
        }
    }

    fn take_front(&mut self, port: usize) -> Option<Item> {
        let item = self.queues[port].items.pop_front()?;
        self.released_bytes += item.bytes();
        self.bound_changed(port);
        Some(item)
    }

    fn put_back(&mut self, port: usize, rest: Item) {
        self.released_bytes = self.released_bytes.saturating_sub(rest.bytes());
        self.queues[port].items.push_front(rest);
        self.bound_changed(port);
    }

    pub(crate) fn starved(&self, name: &str, queued: u64, cap: u64) -> OpError {
        let held = |port: usize| {
            self.held_back
                .iter()
                .filter_map(move |(of, held)| match held {
                    HeldBack::Item(item) if usize::from(*of) == port => Some(item),
                    _ => None,
                })
        };
        let weight = |port: usize| {
            let items = self.queues[port].items.iter();
            items.map(Item::bytes).sum::<u64>() + held(port).map(Item::bytes).sum::<u64>()
        };
        let edge = |port: usize| format!("{} -> {name} input {port}", self.queues[port].from);
        let ports = 0..self.queues.len();
        let ahead = ports.clone().max_by_key(|&port| weight(port)).unwrap_or(0);
        let behind = ports
            .filter(|&port| port != ahead)
            .min_by_key(|&port| self.queues[port].bound())
            .unwrap_or(0);
        let last = self.queues[ahead].items.back().and_then(Item::range);
        let bound = self.queues[behind].bound().max(0);
        let skew = last.map_or(0, |range| range.end.saturating_sub(bound));
        // Items after a rewind are as far ahead as they are long.
        let held = held(ahead).filter_map(Item::range);
        let held = held.map(|range| range.end.saturating_sub(range.start));
        OpErrorKind::FanInStarved {
            ahead: edge(ahead),
            behind: edge(behind),
            skew: skew.saturating_add(held.sum()),
            queued,
            cap,
        }
        .into()
    }
}
