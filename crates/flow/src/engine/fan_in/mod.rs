//! Where streams meet: items wait in one queue an input until those that belong together are all there.
//!
//! Queues are released by the least progress of the inputs: an item that can meet nobody any more is dropped (zip) or
//! goes on (merge). What waits is counted to the run's cap, and over it the run stops with an error: the classic
//! diamond, one branch of which removes what the other keeps, never hangs.

mod back;
mod bounds;
mod looped;
mod matching;
mod parts;
mod stretches;

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use back::Held;
pub(crate) use looped::BACK;

use super::marks::Mark;
use crate::{Alignment, Break, Clock, Item, OpError, OpErrorKind, Port};
use bounds::{Bounds, MANY};
use looped::Round;
use parts::units;
use stretches::Stretches;

/// Items that belong together, by input.
pub(crate) type Matched = SmallVec<[(Port, Item); 4]>;

struct Queue {
    items: VecDeque<Item>,
    /// Nothing that begins before this index follows.
    progress: i64,
    ended: bool,
    /// It has gone back, and others have not.
    ahead: bool,
    /// Only says which loop ends here: nothing comes by it.
    silent: bool,
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
    align: Alignment,
    queues: Vec<Queue>,
    /// Of many inputs whose items go on in the order of their indices. Times of a clock may change, so of inputs that meet by
    /// time there are none.
    bounds: Option<Bounds>,
    stretches: Stretches,
    /// Of a loop.
    round: Round,
    /// What came by inputs that are ahead.
    held: Vec<(Port, Held)>,
    released: u64,
}

impl FanIn {
    /// `from` says of each input who it comes from, and which clock it has.
    pub(crate) fn new(
        align: Alignment,
        from: impl IntoIterator<Item = (String, Option<Arc<dyn Clock>>)>,
    ) -> Self {
        let queue = |(from, clock): (String, Option<Arc<dyn Clock>>)| Queue {
            items: VecDeque::new(),
            progress: i64::MIN,
            ended: false,
            ahead: false,
            silent: false,
            from,
            clock: clock.filter(|_| matches!(align, Alignment::Civil | Alignment::Resampled)),
        };
        let queues: Vec<Queue> = from.into_iter().map(queue).collect();
        let ordered = matches!(align, Alignment::Time | Alignment::Begin);
        Self {
            align,
            bounds: (ordered && queues.len() >= MANY).then(|| Bounds::new(queues.len())),
            queues,
            stretches: Stretches::default(),
            round: Round::default(),
            held: Vec::new(),
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
        self.bound_changed(usize::from(port));
    }

    /// What waits at an input, or how far it is, has changed.
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
            Mark::Progress(upto) => queue.progress = queue.progress.max(queue.on_axis(*upto)),
            Mark::End => queue.ended = true,
            Mark::Stretch { anchor, why } => self.stretches.announce(port, *anchor, why.clone()),
            // Told in another way.
            Mark::Back => {}
        }
        self.bound_changed(usize::from(port));
    }

    /// Nothing comes any more of what the inputs read now.
    pub(crate) fn expect_no_more(&mut self) {
        self.queues
            .iter_mut()
            .for_each(|queue| queue.progress = i64::MAX);
        self.all_bounds_changed();
    }

    /// Forgets what waits, and how far the inputs were.
    pub(crate) fn forget(&mut self) {
        for queue in &mut self.queues {
            self.released += queue.items.drain(..).map(|item| item.bytes()).sum::<u64>();
            queue.progress = i64::MIN;
        }
        self.all_bounds_changed();
        self.stretches.forget();
        self.round = Round::default();
    }

    /// Nothing comes by an input.
    pub(crate) fn silence(&mut self, port: usize) {
        self.queues[port].silent = true;
    }

    /// Whether something waits that no other input let meet.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The next stretch that begins at or before an index, to be announced before what begins there.
    pub(crate) fn due(&mut self, index: i64) -> Option<(i64, Option<Break>)> {
        self.stretches.due(index)
    }

    /// Index before which nothing is to come or waits.
    pub(crate) fn bound(&self) -> i64 {
        if let Some(bounds) = &self.bounds {
            return bounds.first().1;
        }
        // What is fed back has no progress of its own.
        let inputs = &self.queues[..if self.is_loop() { 1 } else { self.queues.len() }];
        inputs.iter().map(Queue::bound).min().unwrap_or(i64::MAX)
    }

    /// Whether inputs have indices of their own, so that these do not say in which order stretches begin.
    pub(crate) fn by_civil_time(&self) -> bool {
        matches!(self.align, Alignment::Civil | Alignment::Resampled)
    }

    /// Whether stretches of the inputs are none of what comes out.
    pub(crate) fn has_own_stretches(&self) -> bool {
        self.align == Alignment::Resampled
    }

    /// Whether a loop begins here.
    pub(crate) fn is_loop(&self) -> bool {
        matches!(self.align, Alignment::Loop { .. })
    }

    /// Whether the end must wait until what is in the queues has gone round.
    pub(crate) fn holds_end(&self) -> bool {
        self.is_loop() && !self.queues[0].items.is_empty()
    }

    /// Whether the end was held and waits no more.
    pub(crate) fn ends(&self) -> bool {
        self.is_loop() && self.queues[0].ended && self.queues[0].items.is_empty()
    }

    /// Bytes that left the queues since the last call.
    pub(crate) fn released(&mut self) -> u64 {
        std::mem::take(&mut self.released)
    }

    /// The next items that belong together.
    pub(crate) fn pop(&mut self) -> Result<Option<Matched>, OpError> {
        match self.align {
            Alignment::Window => self.pop_alike(),
            Alignment::Control => self.pop_controlled(),
            Alignment::Time => self.pop_earliest(),
            Alignment::Begin | Alignment::Civil | Alignment::Resampled => Ok(self.pop_first()),
            Alignment::Single | Alignment::Arrival => Ok(self.pop_any()),
            Alignment::Loop { delay } => self.pop_looped(delay),
        }
    }

    fn take_front(&mut self, port: usize) -> Option<Item> {
        let item = self.queues[port].items.pop_front()?;
        self.released += item.bytes();
        self.bound_changed(port);
        Some(item)
    }

    /// Puts back what is left of an item that was taken.
    fn put_back(&mut self, port: usize, rest: Item) {
        self.released = self.released.saturating_sub(rest.bytes());
        self.queues[port].items.push_front(rest);
        self.bound_changed(port);
    }

    pub(crate) fn starved(&self, name: &str, queued: u64, cap: u64) -> OpError {
        let held = |port: usize| {
            self.held.iter().filter_map(move |(of, held)| match held {
                Held::Item(item) if usize::from(*of) == port => Some(item),
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
        // What lies before what came is as far ahead as it is long.
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
