//! Which of several errors a run ends with: that which comes first in what is read, of those there the lowest node's.
//!
//! Branches are driven one after the other, so that which fails first by the clock is by chance of the plan, and of
//! workers. An item that one branch fails with is given to the others, too; and what several sources have of the same
//! recording, as exits of tasks do, is driven up to there. Operators that failed are not called again, and none is told of
//! an end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::drive::fails_alone;
use super::shared::NOWHERE;
use super::slot::Cold;
use super::{Run, RunOptions};
use crate::{OpError, OpErrorKind, Pulled, RunError};

/// An error, and where it was met.
pub(super) struct Failed {
    /// The index that was read, and the node.
    place: (i64, u32),
    pub(super) error: RunError,
}

/// Whether what a source gives begins at an index or behind it.
pub(super) fn lies_behind(pulled: &Pulled, until: Option<i64>) -> bool {
    let start = match pulled {
        Pulled::Item(item) => item.extent().map(|(start, _)| start),
        Pulled::Stretch { anchor, .. } => Some(*anchor),
        _ => None,
    };
    until.is_some_and(|until| start.is_some_and(|start| start >= until))
}

/// What somebody panicked with, as an error.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> OpError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied());
    OpErrorKind::Panicked {
        message: text.unwrap_or("no message").into(),
    }
    .into()
}

impl Run {
    /// What waits in a loop for what will not come.
    pub(super) fn starved(&mut self) -> Option<RunError> {
        if let Some(error) = self.held() {
            return Some(error);
        }
        let waits = |cold: &Cold| cold.queues.as_ref()?.waits();
        let waiting = self.shared.cold.iter().enumerate();
        let mut waiting = waiting.filter(|(at, cold)| cold.is_loop() && !self.slots[*at].ended);
        let (node, range) = waiting.find_map(|(node, cold)| Some((node, waits(cold)?)))?;
        self.shared.current = node as u32;
        self.shared.range = (range.start, range.end);
        Some(self.locate(OpErrorKind::LoopStarved { waiting: range }.into()))
    }

    /// What waits at a node of several inputs for one that did not go back: that no other way out was found for it.
    fn held(&self) -> Option<RunError> {
        let nodes = self.shared.cold.iter().zip(&self.slots).enumerate();
        let mut nodes = nodes.filter(|(_, (_, slot))| !slot.ended);
        let (node, cold, queues) = nodes.find_map(|(node, (cold, _))| {
            let queues = cold.queues.as_ref().filter(|queues| queues.holds())?;
            Some((node, cold, queues))
        })?;
        let (queued, cap) = (self.shared.queued, self.shared.pool.cap());
        let error = queues.starved(cold.name, queued, cap);
        Some(self.located(node as u32, NOWHERE, error))
    }

    /// Adds where it happened to an error.
    pub(super) fn locate(&self, error: OpError) -> RunError {
        self.located(self.shared.current, self.shared.range, error)
    }

    fn located(&self, node: u32, (start, end): (i64, i64), error: OpError) -> RunError {
        let node = node as usize;
        let range = ((start, end) != NOWHERE).then_some(start..end);
        let time = range.as_ref().and_then(|range| {
            self.feeds
                .iter()
                .find_map(|feed| feed.source.time_of(self.read_at(node, range.start)?))
        });
        RunError::Operator {
            operator: self.names.get(node).copied().unwrap_or("scan"),
            node,
            range,
            time,
            error,
        }
    }

    /// The index that was read of an index that a node was given.
    fn read_at(&self, node: usize, index: i64) -> Option<i64> {
        let (at, _) = self.grids.get(node)?.place(index)?;
        Some(at)
    }

    fn failed(&self, node: u32, range: (i64, i64), error: OpError) -> Failed {
        let error = self.located(node, range, error);
        let start = match &error {
            RunError::Operator {
                range: Some(range), ..
            } => self.read_at(node as usize, range.start),
            _ => None,
        };
        Failed {
            place: (start.unwrap_or(i64::MAX), node),
            error,
        }
    }

    /// Of what failed with an item, the error at hand among it, what comes first.
    fn first_of(&mut self, error: OpError) -> Failed {
        let mut first = self.failed(self.shared.current, self.shared.range, error);
        for met in std::mem::take(&mut self.shared.failures) {
            let other = self.failed(met.node, met.range, met.error);
            if other.place < first.place {
                first = other;
            }
        }
        first
    }

    /// The error that a run ends with in which another was met, with an item of a source.
    pub(super) fn ends_with(
        &mut self,
        error: OpError,
        from: Option<usize>,
        options: &RunOptions<'_>,
    ) -> RunError {
        let alone = fails_alone(&error);
        let first = self.first_of(error);
        match alone {
            true => self.at_hand(from, first, options),
            false => first.error,
        }
    }

    /// Ends all that a source leads to: a panic does not say who was at work.
    pub(super) fn end_behind(&mut self, feed: usize) {
        let mut open = vec![self.feeds[feed].node];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut self.slots[node].ended, true) {
                let edges = self.shared.cold[node].edges.iter().flatten();
                open.extend(edges.map(|to| to.node as usize));
            }
        }
    }

    /// Of what a source gives, the first index that lies behind one that was read.
    fn behind(&self, feed: usize, read: i64) -> Option<i64> {
        let edges = &self.shared.cold[self.feeds[feed].node].edges;
        let taker = edges.iter().flatten().next()?.node;
        let grid = self.grids.get(taker as usize)?;
        grid.first_from(read.checked_add(1)?)
    }

    /// Drives what other sources have at hand of what lies before an error of one of them, or beside it; the error that
    /// comes first then.
    fn at_hand(
        &mut self,
        from: Option<usize>,
        mut first: Failed,
        options: &RunOptions<'_>,
    ) -> RunError {
        for (at, feed) in self.feeds.iter_mut().enumerate() {
            if feed.ended {
                continue;
            }
            let has = feed.source.gives_what_is_at_hand();
            if !has || Some(at) == from {
                feed.source.close();
                feed.ended = true;
            }
            feed.idle = false;
        }
        let options = RunOptions {
            control: None,
            progress: None,
            ..*options
        };
        while let Some(feed) = self.turn() {
            self.until = Some(self.behind(feed, first.place.0).unwrap_or(i64::MAX));
            let burst = catch_unwind(AssertUnwindSafe(|| self.burst(feed, &options)));
            let error = match burst {
                Ok(Ok(true)) => {
                    self.feeds.iter_mut().for_each(|feed| feed.idle = false);
                    continue;
                }
                Ok(Ok(false)) => continue,
                Ok(Err(error)) => error,
                Err(panic) => {
                    self.end_behind(feed);
                    panicked(&*panic)
                }
            };
            if !fails_alone(&error) {
                break;
            }
            let other = self.first_of(error);
            if other.place < first.place {
                first = other;
            }
            self.feeds[feed].source.close();
            self.feeds[feed].ended = true;
        }
        first.error
    }
}
