//! Chooses the error of an execution: the first in reading order, on ties that of the lowest node.
//!
//! Which operator fails first in time is chance. So after an error the item still goes to other branches, and other
//! sources and workers continue up to its start time. Failed operators are not called again; none is told of an end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use isochrony_runtime::panic_message;

use super::context::NO_RANGE;
use super::dispatch::is_operator_error;
use super::executor::{PlanExecutor, StepOutcome};
use super::options::RunOptions;
use super::ranked_error::RankedError;
use super::slot::NodeState;
use super::time_axis::ErrorRank;
use crate::{OpError, OpErrorKind, RunError};

pub(crate) fn panic_error(panic: &(dyn std::any::Any + Send)) -> OpError {
    OpErrorKind::Panicked {
        message: panic_message(panic).unwrap_or("no message").into(),
    }
    .into()
}

impl PlanExecutor {
    pub(super) fn starvation_error(&mut self) -> Option<RunError> {
        if let Some(error) = self.rewind_error() {
            return Some(error);
        }
        let waits = |node: &NodeState| node.queues.as_ref()?.waiting_range();
        let nodes = self.context.nodes.iter().enumerate();
        let mut loops = nodes.filter(|(at, node)| node.is_loop() && !self.slots[*at].ended);
        let (node, range) = loops.find_map(|(at, node)| Some((at, waits(node)?)))?;
        self.context.current_node = node as u32;
        self.context.item_range = (range.start, range.end);
        Some(self.locate(OpErrorKind::LoopStarved { waiting: range }.into()))
    }

    fn rewind_error(&self) -> Option<RunError> {
        let nodes = self.context.nodes.iter().zip(&self.slots).enumerate();
        let mut nodes = nodes.filter(|(_, (_, slot))| !slot.ended);
        let (at, node, queues) = nodes.find_map(|(at, (node, _))| {
            let queues = node.queues.as_ref().filter(|queues| queues.holds_back())?;
            Some((at, node, queues))
        })?;
        let (queued, cap) = (self.context.queued_bytes, self.context.pool.cap());
        let error = queues.starved(node.name, queued, cap);
        Some(self.locate_at(at as u32, NO_RANGE, error))
    }

    pub(super) fn locate(&self, error: OpError) -> RunError {
        self.locate_at(self.context.current_node, self.context.item_range, error)
    }

    fn locate_at(&self, node: u32, (start, end): (i64, i64), error: OpError) -> RunError {
        let node = node as usize;
        let range = ((start, end) != NO_RANGE).then_some(start..end);
        let time = range.as_ref().and_then(|range| {
            let index = self.axes.get(node)?.source_index(range.start)?;
            let mut sources = self.source_order.sources.iter();
            sources.find_map(|source| source.source.time_of(index))
        });
        let (operator, node) = self.plan_nodes.get(node).copied().unwrap_or(("scan", node));
        RunError::Operator {
            operator,
            node,
            range,
            time,
            error,
        }
    }

    fn rank_at(
        &self,
        node: u32,
        range: (i64, i64),
        error: OpError,
        current: Option<usize>,
    ) -> RankedError {
        let is_operator_error = is_operator_error(&error);
        let error = self.locate_at(node, range, error);
        let node = node as usize;
        let time = match &error {
            RunError::Operator {
                range: Some(range), ..
            } => self.axes[node].time(range.start),
            _ => current.map_or(f64::NEG_INFINITY, |current| {
                self.source_order.sources[current].position_time()
            }),
        };
        let node = self.plan_nodes.get(node).map_or(node, |&(_, node)| node);
        RankedError {
            rank: ErrorRank { time, node },
            is_operator_error,
            error,
        }
    }

    /// A task's error if the source reports one, else the first of the same item. None: interrupted.
    pub(super) fn rank_error(
        &mut self,
        error: OpError,
        current: Option<usize>,
    ) -> Option<RankedError> {
        let of_task =
            current.and_then(|current| self.source_order.sources[current].source.failure());
        if let Some((time, error)) = of_task {
            let (node, is_operator_error) = match &error {
                RunError::Operator { node, error, .. } => (*node, is_operator_error(error)),
                RunError::Task { scan, .. } => (*scan, false),
                RunError::Interrupted { .. } => return None,
                _ => (usize::MAX, false),
            };
            return Some(RankedError {
                rank: ErrorRank { time, node },
                is_operator_error,
                error,
            });
        }
        let others = std::mem::take(&mut self.context.other_errors);
        if matches!(error.kind(), OpErrorKind::Interrupted) {
            return None;
        }
        let (node, range) = (self.context.current_node, self.context.item_range);
        let mut first = self.rank_at(node, range, error, current);
        if !first.is_operator_error {
            return Some(first);
        }
        for other in others {
            let other = self.rank_at(other.node, other.range, other.error, current);
            if other.rank.is_before(&first.rank) {
                first = other;
            }
        }
        Some(first)
    }

    /// Ends all nodes after a source, after a panic of an unknown operator.
    pub(super) fn end_downstream(&mut self, source: usize) {
        let mut open = vec![self.source_order.sources[source].node];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut self.slots[node].ended, true) {
                let edges = self.context.nodes[node].edges.iter().flatten();
                open.extend(edges.map(|to| to.node as usize));
            }
        }
    }

    /// Makes [`drain`](Self::drain) drive other sources up to an error's time. Returns an error at once if no operator
    /// failed.
    pub(super) fn begin_drain(
        &mut self,
        first: RankedError,
        current: Option<usize>,
    ) -> Result<(), RunError> {
        if !first.is_operator_error {
            return Err(first.error);
        }
        for (at, source) in self.source_order.sources.iter_mut().enumerate() {
            if source.ended {
                continue;
            }
            let continues = source.source.continues_after_failure() || source.stored;
            if !continues || Some(at) == current || source.time > first.rank.time {
                source.source.close();
                source.ended = true;
            }
            source.idle = false;
        }
        self.first_error = Some(first);
        Ok(())
    }

    /// Runs a burst of a source that may hold an earlier error; returns the first error once none does.
    pub(super) fn drain(
        &mut self,
        mut first: RankedError,
        options: &RunOptions<'_>,
    ) -> Result<StepOutcome, RunError> {
        let options = RunOptions {
            control: None,
            progress: None,
            ..*options
        };
        let Some(current) = self.source_order.select(&self.slots) else {
            if !self.source_order.any_awaited() || self.context.check_interrupt().is_err() {
                return Err(first.error);
            }
            self.first_error = Some(first);
            return Ok(StepOutcome::Idle);
        };
        self.error_time = Some(first.rank.time);
        let burst = catch_unwind(AssertUnwindSafe(|| self.burst(current, &options)));
        let error = match burst {
            Ok(Ok(gave)) => {
                if gave {
                    self.source_order.retry_idle();
                }
                self.first_error = Some(first);
                return Ok(if gave {
                    StepOutcome::Gave
                } else {
                    StepOutcome::Asked
                });
            }
            Ok(Err(error)) => error,
            Err(panic) => {
                self.end_downstream(current);
                panic_error(&*panic)
            }
        };
        let other = self.rank_error(error, Some(current));
        let Some(other) = other.filter(|other| other.is_operator_error) else {
            return Err(first.error);
        };
        if other.rank.is_before(&first.rank) {
            first = other;
        }
        let source = &mut self.source_order.sources[current];
        source.source.close();
        source.ended = true;
        self.first_error = Some(first);
        Ok(StepOutcome::Gave)
    }
}
