//! Whose turn it is of several sources.
//!
//! The one that lags behind is asked first, for a burst; which is enough where each only has to come to its end. Where
//! something may end before that, as behind a `limit`, and streams meet, it must not depend on how far a burst goes, or on
//! which worker was faster, who has been asked by then: an operator may fail with what nobody would have asked for. There
//! sources are asked block by block, each time the one whose next block begins first, the first of equals; who has
//! nothing yet is waited for if it comes by itself; and all are told how far it is behind each block.

use std::time::Instant;

use super::feed::{Burst, Feed};
use super::shared::Shared;
use super::slot;
use super::{Run, Slot, TIMED_BURSTS};
use crate::{OpError, SourceItem};

/// How far another source is, which is asked next.
pub(super) struct Rival {
    backs: u64,
    time: f64,
    /// Whether it is asked first where both are as far.
    first: bool,
}

impl Rival {
    /// Whether it is its turn, and not of who is as far as this.
    fn is_before(&self, backs: u64, time: f64) -> bool {
        let order = self.backs.cmp(&backs);
        let order = order.then(self.time.total_cmp(&time));
        order.is_lt() || order.is_eq() && self.first
    }
}

impl Feed {
    /// The time up to which it has given.
    pub(super) fn reached(&self) -> f64 {
        self.axis.time(self.upto)
    }

    /// A stretch begins: where blocks are asked for in turn, its first comes when its turn does. Behind all that is read lies
    /// none.
    pub(super) fn begins(&mut self, anchor: i64, by_block: bool) {
        if by_block && anchor < i64::MAX && !self.source.overlaps() {
            self.upto = self.upto.max(anchor);
        }
    }

    /// Whether it is another's turn.
    pub(super) fn is_behind(&self, rival: Option<&Rival>) -> bool {
        rival.is_some_and(|rival| rival.is_before(self.backs, self.time))
    }

    /// What comes next. Of an item behind a gap, or the first, which begins behind how far another source is, only that: it
    /// comes when its turn does.
    pub(super) fn pull(&mut self, rival: Option<&Rival>) -> Result<SourceItem, OpError> {
        if let Some(kept) = self.kept.take() {
            return Ok(kept);
        }
        let pulled = self.source.pull()?;
        let (SourceItem::Item(item), Some(rival)) = (&pulled, rival) else {
            return Ok(pulled);
        };
        let start = item.extent().map(|(start, _)| start);
        let Some(start) = start.filter(|&start| start > self.upto) else {
            return Ok(pulled);
        };
        if !rival.is_before(self.backs, self.axis.time(start)) {
            return Ok(pulled);
        }
        self.kept = Some(pulled);
        Ok(SourceItem::ProgressMark(start))
    }
}

impl Run {
    /// Sets whether sources are asked block by block.
    pub(crate) fn by_block(mut self, by_block: bool) -> Self {
        self.by_block = by_block;
        self
    }

    /// Asks sources that are as far as one another in the order of a number of each node.
    pub(crate) fn asks_by(mut self, order: &[usize]) -> Self {
        self.feeds.sort_by_key(|feed| order[feed.node]);
        self
    }

    /// Sources whose turn may come: who has nothing may be waited for.
    fn asked(&self) -> impl Iterator<Item = (usize, &Feed)> {
        let waits = |feed: &Feed| self.by_block && feed.source.is_awaited();
        let feeds = self.feeds.iter().enumerate();
        feeds.filter(move |(_, feed)| !feed.ended && (!feed.idle || waits(feed)))
    }

    /// Whether something comes by itself.
    pub(super) fn awaits(&self) -> bool {
        let mut open = self.feeds.iter().filter(|feed| !feed.ended);
        open.any(|feed| feed.source.is_awaited())
    }

    /// Whose turn it is: the source that lags behind, the first of equals. Before that one of which nobody wants more, which
    /// is told so before another is asked.
    pub(super) fn turn(&self) -> Option<usize> {
        let unwanted = |feed: &&Feed| !feed.ended && self.slots[feed.node].ended;
        if let Some(at) = self.feeds.iter().position(|feed| unwanted(&feed)) {
            return Some(at);
        }
        // What goes back lies behind all that came before.
        let lags = |a: &Feed, b: &Feed| a.backs.cmp(&b.backs).then(a.time.total_cmp(&b.time));
        let (at, feed) = self.asked().min_by(|(_, a), (_, b)| lags(a, b))?;
        (!feed.idle).then_some(at)
    }

    /// A burst of a source begins, or what is one of several that are asked in turn.
    ///
    /// The first item of a burst has its time taken, after some bursts of every fourth: of 256 small items one, so that
    /// the clock is not seen, which takes as long as ten operators in step. Of several sources each has.
    pub(super) fn begin_burst(&mut self) {
        let goes_on = self.by_block && !self.round.is_over(self.burst_bytes);
        if !goes_on || self.bursts == 0 {
            let due = self.bursts < TIMED_BURSTS || self.bursts.is_multiple_of(4);
            let sources = if self.by_block { self.feeds.len() } else { 1 };
            self.timing = if due { sources } else { 0 };
            self.round = Burst::default();
            self.bursts += 1;
        }
        self.shared.timed = self.timing > 0;
        self.timing = self.timing.saturating_sub(1);
        if self.shared.timed {
            self.shared.since = Instant::now();
        }
    }

    /// Who is asked behind a source, where they are asked block by block: also who has nothing now, which may be since
    /// another had not given all yet that comes before it.
    pub(super) fn rival(&self, of: usize) -> Option<Rival> {
        if !self.by_block {
            return None;
        }
        let others = self.feeds.iter().enumerate();
        let others = others.filter(|&(at, feed)| at != of && !feed.ended);
        let others = others.map(|(at, feed)| Rival {
            backs: feed.backs,
            time: feed.time,
            first: at < of,
        });
        // Of equals the first.
        others.reduce(|least, other| {
            let order = other.backs.cmp(&least.backs);
            match order.then(other.time.total_cmp(&least.time)).is_lt() {
                true => other,
                false => least,
            }
        })
    }
}

/// Ends what leads only to operators that want no more, if there are others of these than `seen`.
pub(super) fn end_unwanted(slots: &mut [Slot], shared: &mut Shared, seen: &mut u64) -> bool {
    if shared.ends == *seen {
        return false;
    }
    *seen = shared.ends;
    slot::end_upstream(slots, 0, &shared.cold);
    for (slot, cold) in slots.iter().zip(&mut shared.cold) {
        if let Some(queues) = cold.queues.as_mut().filter(|_| slot.ended) {
            queues.forget();
            shared.queued = shared.queued.saturating_sub(queues.released());
        }
    }
    true
}
