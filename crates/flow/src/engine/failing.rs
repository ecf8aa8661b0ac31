//! Which of several errors a run ends with: that which comes first in what is read, of those there the lowest node's.
//!
//! Branches are driven one after the other, sources in bursts, and workers as fast as they are, so that which fails first by
//! the clock is by chance. An item that one branch fails with is given to the others, too; and other sources are driven up
//! to the time at which it begins, and waited for: what is stored, and what comes of tasks. Operators that failed are not
//! called again, and none is told of an end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::axis::{Axis, Place};
use super::drive::fails_alone;
use super::shared::NOWHERE;
use super::slot::Cold;
use super::{REST, Run, RunOptions};
use crate::{OpError, OpErrorKind, RunError, SourceItem};

/// An error, and where it was met.
pub(super) struct Failed {
    place: Place,
    /// Whether it is the operator that failed, and not the run that is to stop or has no memory.
    alone: bool,
    error: RunError,
}

/// Whether what a source gives begins behind a time, with all that follows.
pub(super) fn lies_behind(pulled: &SourceItem, until: Option<f64>, axis: &Axis) -> bool {
    let start = match pulled {
        SourceItem::Item(item) => item.extent().map(|(start, _)| start),
        SourceItem::RangeStart { anchor: start, .. } | SourceItem::ProgressMark(start) => {
            Some(*start)
        }
        _ => None,
    };
    until.is_some_and(|until| start.is_some_and(|start| axis.time(start) > until))
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
            let read = self.axes.get(node)?.read(range.start)?;
            self.feeds.iter().find_map(|feed| feed.source.time_of(read))
        });
        let (operator, node) = self.called.get(node).copied().unwrap_or(("scan", node));
        RunError::Operator {
            operator,
            node,
            range,
            time,
            error,
        }
    }

    /// `from`: the source whose burst it was.
    fn failed(&self, node: u32, range: (i64, i64), error: OpError, from: Option<usize>) -> Failed {
        let alone = fails_alone(&error);
        let error = self.located(node, range, error);
        let node = node as usize;
        let time = match &error {
            RunError::Operator {
                range: Some(range), ..
            } => self.axes[node].time(range.start),
            // As far as has been read.
            _ => from.map_or(f64::NEG_INFINITY, |from| self.feeds[from].reached()),
        };
        let node = self.called.get(node).map_or(node, |&(_, node)| node);
        let place = Place { time, node };
        Failed {
            place,
            alone,
            error,
        }
    }

    /// What was met in a burst of a source: of what failed with one item what comes first, or what failed elsewhere of which
    /// the source tells. None where the run is to stop.
    pub(super) fn met(&mut self, error: OpError, from: Option<usize>) -> Option<Failed> {
        let elsewhere = from.and_then(|from| self.feeds[from].source.failure());
        if let Some((time, error)) = elsewhere {
            let (node, alone) = match &error {
                RunError::Operator { node, error, .. } => (*node, fails_alone(error)),
                RunError::Interrupted { .. } => return None,
                _ => (usize::MAX, false),
            };
            let place = Place { time, node };
            return Some(Failed {
                place,
                alone,
                error,
            });
        }
        let failures = std::mem::take(&mut self.shared.failures);
        if matches!(error.kind(), OpErrorKind::Interrupted) {
            return None;
        }
        let mut first = self.failed(self.shared.current, self.shared.range, error, from);
        let alone = first.alone;
        for met in failures.into_iter().filter(|_| alone) {
            let other = self.failed(met.node, met.range, met.error, from);
            if other.place.is_before(&first.place) {
                first = other;
            }
        }
        Some(first)
    }

    /// The error that a run ends with in which one was met in a burst of a source.
    pub(super) fn ends_with(
        &mut self,
        first: Failed,
        from: Option<usize>,
        options: &RunOptions<'_>,
    ) -> RunError {
        match first.alone {
            true => self.first_up_to(first, from, options),
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

    /// Drives what other sources have of what begins before an error, or with it; the error that comes first then.
    fn first_up_to(
        &mut self,
        mut first: Failed,
        from: Option<usize>,
        options: &RunOptions<'_>,
    ) -> RunError {
        for (at, feed) in self.feeds.iter_mut().enumerate() {
            if feed.ended {
                continue;
            }
            let goes_on = feed.source.continues_after_failure() || feed.stored;
            if !goes_on || Some(at) == from || feed.time > first.place.time {
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
        loop {
            let Some(feed) = self.turn() else {
                // What workers are at, or nothing.
                if !self.awaits() || self.shared.go_on().is_err() {
                    break;
                }
                std::thread::park_timeout(REST);
                self.feeds.iter_mut().for_each(|feed| feed.idle = false);
                continue;
            };
            self.until = Some(first.place.time);
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
            let Some(other) = self.met(error, Some(feed)).filter(|other| other.alone) else {
                break;
            };
            if other.place.is_before(&first.place) {
                first = other;
            }
            self.feeds[feed].source.close();
            self.feeds[feed].ended = true;
        }
        first.error
    }
}
