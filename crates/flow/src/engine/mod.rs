//! Runs plans: one thread, depth first, a bounded burst at a time.
//!
//! A [`Run`] is a graph whose operators are laid out in topological order ([`layout`], [`slot`]), driven by items from its sources
//! ([`drive`]). Sources are asked in turn, the one that lags behind first, for a burst of items; then come progress
//! marks, and between bursts interrupts are looked for and whatever was asked to change is changed.

pub(crate) mod axis;
pub(crate) mod budget;
pub(crate) mod control;
pub(crate) mod drive;
mod failing;
pub(crate) mod fan_in;
mod feed;
pub(crate) mod gathered;
pub(crate) mod layout;
pub(crate) mod marks;
mod meeting;
mod options;
pub(crate) mod pool;
mod remains;
pub(crate) mod report;
mod reporting;
pub(crate) mod shared;
pub(crate) mod slot;
mod turns;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use axis::Axis;
use drive::{Out, at, drive, fan_out};
use failing::lies_behind;
pub(crate) use failing::panicked;
use fan_in::BACK;
use feed::{Burst, Feed};
use marks::{Mark, mark_all, settle};
use pool::Pool;
use shared::{NOWHERE, Shared};
use slot::{Slot, To};
use turns::end_unwanted;

pub(crate) use remains::Remains;

pub use options::{MEMORY, RunOptions, TASK};

use crate::{Break, Item, OpError, ParameterUpdate, RunError, SourceItem};
use control::{Change, Control};
use report::Report;

/// Bursts at the beginning of each of which time is taken, so that short runs have enough of it.
const TIMED_BURSTS: u64 = 16;
/// Longest rest while no source has anything: how late an interrupt or a commit that is due may be noticed.
const REST: Duration = Duration::from_millis(20);

pub(crate) struct Run {
    /// Of each node of the graph, sources too.
    slots: Vec<Slot>,
    feeds: Vec<Feed>,
    shared: Shared,
    /// What each is called in the whole graph.
    called: Vec<(&'static str, usize)>,
    /// How indices that each is given lie on those that were read.
    axes: Vec<Axis>,
    /// Whether it matters which block of which source comes first.
    by_block: bool,
    /// Of [`Shared::ends`](shared::Shared), those by which all that is wanted no more has ended.
    ends: u64,
    bursts: u64,
    /// Of a burst in which several sources are asked in turn, what they gave, and those whose next item has its time taken.
    round: Burst,
    timing: usize,
    /// Bytes after which a burst ends.
    burst_bytes: u64,
    /// Items of the sources.
    given: u64,
    /// Their samples that had their time taken.
    timed_samples: u64,
    /// It has failed: what a source gives behind this time is not wanted.
    until: Option<f64>,
}

impl Run {
    /// Runs to the end.
    pub(crate) fn run(&mut self, options: &RunOptions<'_>) -> Result<Report, RunError> {
        let begun = Instant::now();
        if let Some(progress) = options.progress {
            let totals = self.feeds.iter().map(|feed| feed.source.total());
            progress.set_total(totals.sum());
        }
        for feed in &mut self.feeds {
            feed.source.wakes(&std::thread::current());
        }
        while self.feeds.iter().any(|feed| !feed.ended) {
            self.step(options)?;
        }
        match self.starved() {
            Some(error) => Err(error),
            None => Ok(self.report(begun.elapsed())),
        }
    }

    /// Nobody wants what some nodes give, nor what only leads to them.
    pub(crate) fn end(&mut self, nodes: impl Iterator<Item = usize>) {
        let mut any = false;
        for node in nodes {
            any |= !std::mem::replace(&mut self.slots[node].ended, true);
        }
        if any {
            slot::end_upstream(&mut self.slots, 0, &self.shared.cold);
        }
    }

    /// Runs until its sources rest or have ended: one task of a worker.
    pub(crate) fn task(&mut self, options: &RunOptions<'_>) -> Result<(), RunError> {
        for feed in &mut self.feeds {
            (feed.idle, feed.upto, feed.backs) = (false, i64::MIN, 0);
            feed.kept = None;
            feed.time = f64::NEG_INFINITY;
        }
        while self.feeds.iter().any(|feed| !feed.ended && !feed.idle) {
            self.step(options)?;
        }
        // What is held back only to go on together must not go on with another task's, and what waits meets nobody any more.
        let gone_on = catch_unwind(AssertUnwindSafe(|| self.go_on(true)));
        gone_on
            .unwrap_or_else(|panic| Err(panicked(&*panic)))
            .map_err(|error| self.locate(error))
    }

    /// Lets what is held back go on; at the end of a task what waits at fan-ins, too, which forget then.
    fn go_on(&mut self, ends: bool) -> Result<(), OpError> {
        self.shared.timed = false;
        for node in 0..self.slots.len() as u32 {
            self.shared.switch(node);
            self.shared.range = NOWHERE;
            let (slot, later) = at(&mut self.slots, 0, node);
            if ends {
                settle(slot, later, node, &mut self.shared)?;
            }
            if !slot.ended {
                (slot.op).idle(&mut Out::of(node, later, &mut self.shared))?;
            }
        }
        go_round(&mut self.slots, &mut self.shared)
    }

    /// A burst of one source, or a rest.
    fn step(&mut self, options: &RunOptions<'_>) -> Result<(), RunError> {
        let feed = self.turn();
        // One guard a burst: what a panic needs to know is in `shared`, which is only read after it.
        let burst = catch_unwind(AssertUnwindSafe(|| match feed {
            Some(feed) => self.burst(feed, options),
            None => self.rest().map(|()| false),
        }));
        let error = match burst {
            Ok(Ok(gave)) => {
                // While one gave, the others may have come to something.
                let others = self.feeds.iter_mut().enumerate();
                let others = others.filter(|&(at, _)| gave && Some(at) != feed);
                others.for_each(|(_, feed)| feed.idle = false);
                return Ok(());
            }
            Ok(Err(error)) => error,
            Err(panic) => {
                feed.into_iter().for_each(|feed| self.end_behind(feed));
                panicked(&*panic)
            }
        };
        Err(match self.met(error, feed) {
            Some(first) => self.ends_with(first, feed, options),
            None => RunError::Interrupted { items: self.given },
        })
    }

    /// While all sources wait: lets what is held back go on, and waits, too, until one of them has something.
    fn rest(&mut self) -> Result<(), OpError> {
        self.shared.go_on()?;
        // How blocks are cut must not depend on how fast workers are, where it matters which comes first.
        if !(self.by_block && self.awaits()) {
            self.go_on(false)?;
        }
        std::thread::park_timeout(REST);
        for feed in &mut self.feeds {
            feed.idle = false;
        }
        Ok(())
    }

    /// Gives an operator other parameters, or the place of one that has them.
    fn change(&mut self, change: Change) -> Result<(), OpError> {
        let node = change.node as u32;
        self.shared.switch(node);
        self.shared.range = NOWHERE;
        let (slot, later) = at(&mut self.slots, 0, node);
        if slot.ended || slot.op.set(&change.params)? == ParameterUpdate::Applied {
            return Ok(());
        }
        slot.op.on_break(
            0,
            &Break::Removed,
            &mut Out::of(node, later, &mut self.shared),
        )?;
        slot.op = change.fresh;
        go_round(&mut self.slots, &mut self.shared)
    }

    /// A bounded number of items of one source, and the marks that follow them; whether it gave anything, were it that it ended.
    fn burst(&mut self, feed: usize, options: &RunOptions<'_>) -> Result<bool, OpError> {
        let changes = options.control.map(Control::take).unwrap_or_default();
        for change in changes {
            self.change(change)?;
        }
        let rival = self.rival(feed);
        self.begin_burst();
        let Self {
            slots,
            feeds,
            shared,
            by_block,
            ends,
            round,
            burst_bytes,
            given,
            timed_samples,
            until,
            ..
        } = self;
        let feed = &mut feeds[feed];
        shared.current = feed.node as u32;
        let node = feed.node as u32;
        let behind = feed.node + 1;
        let (mut burst, mut gave) = (Burst::default(), false);
        // Nobody behind it wants more, since another source's burst or a rest.
        feed.ended |= slots[feed.node].ended;
        while !burst.is_over(*burst_bytes) && !feed.ended && !feed.idle {
            shared.go_on()?;
            shared.switch(node);
            shared.pool.yield_rest(shared.queued);
            let pulled = feed.pull(rival.as_ref())?;
            gave |= !matches!(pulled, SourceItem::Idle);
            match pulled {
                pulled if lies_behind(&pulled, *until, &feed.axis) => feed.ended = true,
                SourceItem::Item(mut item) => {
                    let count = burst.add(&item);
                    *given += 1;
                    feed.upto = match item.extent() {
                        Some((start, _)) if feed.source.overlaps() => start,
                        Some((_, next)) => next,
                        None => feed.upto,
                    };
                    shared.cold[feed.node].count(count);
                    fan_out(&mut slots[behind..], node, 0, &mut item, shared)?;
                    go_round(slots, shared)?;
                    if shared.timed {
                        shared.switch(node);
                        shared.timed = false;
                        *timed_samples += count;
                    }
                }
                SourceItem::RangeStart { anchor, why } => {
                    let mark = Mark::Stretch { anchor, why };
                    mark_all(&mut slots[behind..], node, &mark, shared)?;
                    go_round(slots, shared)?;
                    feed.begins(anchor, *by_block);
                }
                SourceItem::ProgressMark(index) => feed.upto = feed.upto.max(index),
                SourceItem::Rewind => {
                    (feed.upto, feed.backs) = (i64::MIN, feed.backs + 1);
                    mark_all(&mut slots[behind..], node, &Mark::Back, shared)?;
                    go_round(slots, shared)?;
                    // Others may have some of what it leaves behind.
                    burst.end();
                }
                SourceItem::Idle => feed.idle = true,
                SourceItem::End => feed.ended = true,
            }
            if *by_block {
                feed.time = feed.reached();
                if until.is_none() && feed.upto > i64::MIN {
                    let progress = Mark::Progress(feed.upto);
                    mark_all(&mut slots[behind..], node, &progress, shared)?;
                    go_round(slots, shared)?;
                }
            }
            if end_unwanted(slots, shared, ends) {
                feed.ended |= slots[feed.node].ended;
                // Another source may be wanted no more, and hears of that before this one goes on.
                break;
            }
            if feed.is_behind(rival.as_ref()) {
                break;
            }
        }
        round.join(&burst);
        feed.time = feed.reached();
        if until.is_some() {
            // The run has failed: operators are not told of an end.
            if feed.ended {
                feed.source.close();
            }
            return Ok(gave);
        }
        if let Some(progress) = options.progress {
            let samples = match feed.source.given() {
                Some(given) => given - std::mem::replace(&mut feed.counted, given),
                None => burst.samples,
            };
            progress.advance(samples);
        }
        let progress = (feed.upto > i64::MIN).then_some(Mark::Progress(feed.upto));
        let end = feed.ended.then_some(Mark::End);
        for mark in progress.into_iter().chain(end) {
            mark_all(&mut slots[behind..], node, &mark, shared)?;
            go_round(slots, shared)?;
        }
        end_unwanted(slots, shared, ends);
        shared.switch(node);
        if feed.ended {
            feed.source.close();
            feed.kept = None;
            gave = true;
        }
        Ok(gave)
    }

    /// Lets go of memory that it does not need between tasks.
    pub(crate) fn tidy(&mut self) {
        self.shared.pool.shrink(self.shared.queued);
    }

    /// Whether operators hold memory between tasks.
    pub(crate) fn holds(&self) -> bool {
        self.shared.cold.iter().any(|cold| cold.holds > 0)
    }

    /// Its memory, for another run that takes its place: what it gave may still be in use.
    pub(crate) fn into_pool(self) -> Pool {
        self.shared.pool
    }

    /// Goes on with the memory of another.
    pub(crate) fn with_pool(mut self, pool: Option<Pool>) -> Self {
        if let Some(mut pool) = pool {
            pool.shrink(0);
            self.shared.pool = pool;
        }
        self
    }

    /// What the operator at a node has gathered since it was last asked.
    pub(crate) fn partial(&mut self, node: usize) -> Option<Item> {
        self.slots[node].op.partial().map(Item::Partial)
    }

    /// What the sink at a node gathered.
    pub(crate) fn result(&mut self, node: usize) -> Option<crate::PlanOutput> {
        self.slots[node].op.result()
    }
}

/// Drives what was fed back, and what comes of it, until nothing more is.
fn go_round(slots: &mut [Slot], shared: &mut Shared) -> Result<(), OpError> {
    while let Some((begin, mut item)) = shared.back.pop_front() {
        shared.go_on()?;
        let to = To {
            node: begin,
            port: BACK,
        };
        drive(&mut slots[begin as usize..], begin, to, &mut item, shared)?;
    }
    Ok(())
}
