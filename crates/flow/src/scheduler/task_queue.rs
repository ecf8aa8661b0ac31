//! The reorder buffer of one subgraph: a slot for each task from the oldest unconsumed one on. Also what the
//! scheduler needs of tasks. The model check in `tests/loom_order.rs` compiles this file on its own, so it imports
//! nothing from the crate.

use std::collections::VecDeque;

/// Divides the input of a subgraph into one part per task.
pub(super) trait Partitioner {
    type Part: Clone;

    /// The part that follows `last`, or the first part.
    fn part_after(&self, last: Option<&Self::Part>) -> Option<Self::Part>;

    /// Estimate for one task's result.
    fn bytes(&self) -> u64;
}

pub(super) trait TaskResult {
    /// The error with which the task ended after this result.
    type Error;

    fn bytes(&self) -> u64;

    fn has_failed(&self) -> bool;

    /// Whether the error still counts once all results before it have been consumed.
    fn is_relevant(_: &Self::Error) -> bool {
        true
    }

    fn take_error(&mut self) -> Option<Self::Error>;
}

#[derive(Debug, Clone)]
pub(super) struct Task<Part> {
    pub(super) subgraph: usize,
    pub(super) number: u64,
    pub(super) part: Part,
    /// No other task is in flight and nothing is buffered: if memory is refused now, waiting does not help.
    pub(super) alone: bool,
}

#[derive(Debug)]
pub(super) enum NextResult<R: TaskResult> {
    Ready(R),
    Pending,
    /// Nothing follows. None: a worker ended unexpectedly.
    Failed(Option<R::Error>),
    End,
}

pub(super) enum SlotState<R> {
    InFlight,
    Finished(R),
    /// To be processed again: there was no memory for the task or its result.
    Retry,
}

pub(super) struct TaskQueue<Part, R: TaskResult> {
    pub(super) last_part: Option<Part>,
    /// Each part was handed out at least once.
    pub(super) exhausted: bool,
    pub(super) handed_out: u64,
    /// Slots from the oldest unconsumed task on.
    pub(super) slots: VecDeque<(Part, SlotState<R>)>,
    /// The part consumed last and its error. Nothing follows while the error is relevant.
    pub(super) failure: Option<(Part, R::Error)>,
    pub(super) buffered_bytes: u64,
    /// The consumer asked for a result that was not there.
    pub(super) consumer_waits: bool,
}

impl<Part, R: TaskResult> TaskQueue<Part, R> {
    pub(super) fn new() -> Self {
        Self {
            last_part: None,
            exhausted: false,
            handed_out: 0,
            slots: VecDeque::new(),
            failure: None,
            buffered_bytes: 0,
            consumer_waits: false,
        }
    }

    /// Whether all tasks were processed and consumed.
    pub(super) fn is_finished(&self) -> bool {
        self.exhausted && self.slots.is_empty() && self.failure.is_none()
    }

    pub(super) fn in_flight(&self) -> usize {
        let is = |(_, slot): &&(Part, SlotState<R>)| matches!(slot, SlotState::InFlight);
        self.slots.iter().filter(is).count()
    }

    /// Buffered bytes plus `each` for every task in flight.
    pub(super) fn expected_bytes(&self, each: u64) -> u64 {
        self.buffered_bytes + self.in_flight() as u64 * each
    }

    pub(super) fn has_discardable(&self) -> bool {
        let is = |(_, slot): &(Part, SlotState<R>)| matches!(slot, SlotState::Finished(result) if !result.has_failed() && result.bytes() > 0);
        self.slots.iter().any(is)
    }

    pub(super) fn next_retry(&self) -> Option<usize> {
        let is = |(_, slot): &(Part, SlotState<R>)| matches!(slot, SlotState::Retry);
        self.slots.iter().position(is)
    }

    /// Discards buffered results; their tasks are retried. Failed tasks stay, because the execution ends with them.
    pub(super) fn discard_finished(&mut self) {
        for (_, slot) in &mut self.slots {
            if let SlotState::Finished(result) = slot
                && !result.has_failed()
            {
                self.buffered_bytes -= result.bytes();
                *slot = SlotState::Retry;
            }
        }
    }
}
