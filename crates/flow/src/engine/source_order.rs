//! Open sources, and which is asked next: the most lagging, for a burst.
//!
//! Where streams meet and something may end early (a `limit`), results and errors must not depend on burst lengths or
//! worker speed. Sources are then asked *block by block*: the one whose next block begins first, the first of equals.
//! One that lacks data is waited for if its items arrive by themselves. A progress mark follows each block.

use isochrony_runtime::Interrupt;

use super::slot::Slot;
use super::time_axis::TimeAxis;
use crate::{Item, OpError, Source, SourceEvent};

const MAX_BURST_SAMPLES: u64 = 1 << 18;
const MAX_BURST_ITEMS: u64 = 64;
/// Fraction of the memory for bursts of all sources: output of one may wait for the others.
const BURST_MEMORY_FRACTION: u64 = 16;

pub(super) struct OpenSource {
    pub(super) source: Box<dyn Source>,
    pub(super) node: usize,
    pub(super) progress: i64,
    pub(super) given: (i64, i64),
    /// Given when this source is next.
    pub(super) deferred: Option<SourceEvent>,
    pub(super) rewinds: u64,
    /// Progress, comparable between rates.
    pub(super) time: f64,
    pub(super) axis: TimeAxis,
    pub(super) ended: bool,
    pub(super) idle: bool,
    /// Once requested, it is not asked any more, as if it had nothing.
    pub(super) stop: Option<Interrupt>,
    /// It holds the item with which a range begins.
    pub(super) began_range: bool,
    pub(super) stored: bool,
    pub(super) reported: u64,
}

#[derive(Default)]
pub(super) struct BurstSize {
    pub(super) samples: u64,
    items: u64,
    pub(super) bytes: u64,
}

impl BurstSize {
    pub(super) fn max_bytes(memory: u64, sources: usize) -> u64 {
        (memory / BURST_MEMORY_FRACTION / sources.max(1) as u64).max(1)
    }

    pub(super) fn add_item(&mut self, item: &Item) -> u64 {
        let samples = item.samples();
        self.samples += samples;
        self.items += 1;
        self.bytes += item.bytes();
        samples
    }

    pub(super) fn add_skipped(&mut self, samples: u64) {
        self.samples += samples;
        self.items += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.items += other.items;
        self.bytes += other.bytes;
    }

    pub(super) fn end(&mut self) {
        self.items = MAX_BURST_ITEMS;
    }

    pub(super) fn is_over(&self, max_bytes: u64) -> bool {
        self.samples >= MAX_BURST_SAMPLES
            || self.items >= MAX_BURST_ITEMS
            || self.bytes >= max_bytes
    }
}

pub(super) struct NextSource {
    rewinds: u64,
    time: f64,
    wins_ties: bool,
}

impl NextSource {
    fn is_before(&self, rewinds: u64, time: f64) -> bool {
        let order = self.rewinds.cmp(&rewinds);
        let order = order.then(self.time.total_cmp(&time));
        order.is_lt() || order.is_eq() && self.wins_ties
    }
}

impl OpenSource {
    pub(super) fn position_time(&self) -> f64 {
        self.axis.time(self.progress)
    }

    /// Block by block, the first item waits for its turn. `i64::MAX`: end of all that is read.
    pub(super) fn begin_range(&mut self, anchor: i64, by_block: bool) {
        if by_block && anchor < i64::MAX && !self.source.overlaps() {
            self.progress = self.progress.max(anchor);
        }
    }

    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        // What it has taken from its recording is still given.
        let holds_item = self.began_range || self.deferred.is_some();
        self.stop.as_ref().is_some_and(Interrupt::is_requested) && !holds_item
    }

    pub(super) fn is_after(&self, next: Option<&NextSource>) -> bool {
        next.is_some_and(|next| next.is_before(self.rewinds, self.time))
    }

    /// Defers the first item, or one after a gap, if it begins after the next source's position, and only announces it.
    #[inline]
    pub(super) fn pull(&mut self, next: Option<&NextSource>) -> Result<SourceEvent, OpError> {
        if let Some(deferred) = self.deferred.take() {
            return Ok(deferred);
        }
        let pulled = self.source.pull()?;
        let (SourceEvent::Item(item), Some(next)) = (&pulled, next) else {
            return Ok(pulled);
        };
        let start = item.extent().map(|(start, _)| start);
        let Some(start) = start.filter(|&start| start > self.progress) else {
            return Ok(pulled);
        };
        if !next.is_before(self.rewinds, self.axis.time(start)) {
            return Ok(pulled);
        }
        self.deferred = Some(pulled);
        Ok(SourceEvent::ProgressMark(start))
    }

    pub(super) fn reset(&mut self) {
        (self.idle, self.progress, self.rewinds) = (false, i64::MIN, 0);
        (self.deferred, self.began_range) = (None, false);
        self.time = f64::NEG_INFINITY;
    }
}

pub(super) struct SourceOrder {
    pub(super) sources: Vec<OpenSource>,
    pub(super) by_block: bool,
    /// Waits for a lagging source even if not block by block.
    pub(super) awaits: bool,
}

impl SourceOrder {
    pub(super) fn waits(&self) -> bool {
        self.by_block || self.awaits
    }

    /// Includes sources worth waiting for.
    fn is_candidate(&self, source: &OpenSource) -> bool {
        let waits = self.waits() && source.source.is_awaited();
        !source.ended && (!source.idle || waits)
    }

    pub(super) fn any_awaited(&self) -> bool {
        let mut open = self.sources.iter().filter(|source| !source.ended);
        open.any(|source| source.source.is_awaited())
    }

    pub(super) fn any_under_way(&self) -> bool {
        let mut open = self.sources.iter().filter(|source| !source.ended);
        open.any(|source| source.source.is_under_way())
    }

    /// The source to ask now; None if it has nothing. One whose consumers have ended must learn that first.
    pub(super) fn select(&self, slots: &[Slot]) -> Option<usize> {
        let unused = |source: &OpenSource| !source.ended && slots[source.node].ended;
        if let Some(at) = self.sources.iter().position(unused) {
            return Some(at);
        }
        // What follows a rewind comes last.
        let order = |a: &OpenSource, b: &OpenSource| {
            a.rewinds.cmp(&b.rewinds).then(a.time.total_cmp(&b.time))
        };
        let candidates = self.sources.iter().enumerate();
        let candidates = candidates.filter(|(_, source)| self.is_candidate(source));
        let (at, source) = candidates.min_by(|(_, a), (_, b)| order(a, b))?;
        (!source.idle).then_some(at)
    }

    /// None unless block by block; the source may have nothing yet.
    pub(super) fn next_after(&self, current: usize) -> Option<NextSource> {
        if !self.by_block {
            return None;
        }
        let others = self.sources.iter().enumerate();
        let others = others.filter(|&(at, source)| at != current && !source.ended);
        let others = others.map(|(at, source)| NextSource {
            rewinds: source.rewinds,
            time: source.time,
            wins_ties: at < current,
        });
        others.reduce(|least, other| {
            let order = other.rewinds.cmp(&least.rewinds);
            match order.then(other.time.total_cmp(&least.time)).is_lt() {
                true => other,
                false => least,
            }
        })
    }

    pub(super) fn retry_idle(&mut self) {
        self.sources
            .iter_mut()
            .for_each(|source| source.idle = source.is_stopped());
    }

    pub(super) fn all_ended(&self) -> bool {
        self.sources.iter().all(|source| source.ended)
    }
}
