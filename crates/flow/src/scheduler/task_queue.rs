//! The reorder buffer of one subgraph, with a slot per part from the oldest unconsumed one, and totals over all.
//! A part is what a worker computes at a time, a task what it is given at a time: one part, or several.
//! `tests/loom_models/tasks.rs` compiles this file, so it imports nothing from the crate.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

pub(super) trait Partitioner {
    /// A portion of any length, or a cell.
    type Part: Clone;

    /// `number`: of parts before it.
    fn part_after(&self, last: Option<&Self::Part>, number: u64) -> Option<Self::Part>;

    /// Parts of a task whose first part has this number: a worker computes them one after another.
    fn parts_per_task(&self, _number: u64) -> usize {
        1
    }

    /// Expected of a part's result.
    fn bytes(&self) -> u64;
}

/// Of a part.
pub(super) trait TaskResult {
    type Error;

    fn bytes(&self) -> u64;

    fn has_failed(&self) -> bool;

    /// Whether the error counts once all results before it were consumed.
    fn is_relevant(_: &Self::Error) -> bool {
        true
    }

    fn take_error(&mut self) -> Option<Self::Error>;
}

/// A part that was handed out, first of its task or not.
#[derive(Debug, Clone)]
pub(super) struct Task<Part> {
    pub(super) subgraph: usize,
    pub(super) number: u64,
    pub(super) part: Part,
    /// No other part is in flight or buffered: after a refusal waiting does not help.
    pub(super) alone: bool,
    /// The next part belongs to the same task.
    pub(super) continues: bool,
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
    Retry,
}

pub(super) struct TaskQueue<Part, R: TaskResult> {
    pub(super) last_part: Option<Part>,
    /// All parts were handed out at least once.
    pub(super) exhausted: bool,
    pub(super) handed_out: u64,
    slots: VecDeque<(Part, SlotState<R>)>,
    /// Nothing follows the part consumed last while its error is relevant.
    pub(super) failure: Option<(Part, R::Error)>,
    buffered_bytes: u64,
    pub(super) consumer_waits: bool,
    in_flight: usize,
    retries: usize,
}

impl<Part: Clone, R: TaskResult> TaskQueue<Part, R> {
    pub(super) fn new() -> Self {
        Self {
            last_part: None,
            exhausted: false,
            handed_out: 0,
            slots: VecDeque::new(),
            failure: None,
            buffered_bytes: 0,
            consumer_waits: false,
            in_flight: 0,
            retries: 0,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.exhausted && self.slots.is_empty() && self.failure.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn offers_oldest(&self) -> bool {
        match self.slots.front() {
            None => true,
            Some((_, slot)) => matches!(slot, SlotState::Retry),
        }
    }

    /// Including `each` for every part in flight.
    fn expected_bytes(&self, each: u64) -> u64 {
        self.buffered_bytes + self.in_flight as u64 * each
    }

    pub(super) fn has_discardable(&self) -> bool {
        let is = |(_, slot): &(Part, SlotState<R>)| matches!(slot, SlotState::Finished(result) if !result.has_failed() && result.bytes() > 0);
        self.slots.iter().any(is)
    }

    pub(super) fn first_number(&self) -> u64 {
        self.handed_out - self.slots.len() as u64
    }

    pub(super) fn hand_out(&mut self, part: Part) -> u64 {
        self.last_part = Some(part.clone());
        self.slots.push_back((part, SlotState::InFlight));
        self.in_flight += 1;
        self.handed_out += 1;
        self.handed_out - 1
    }

    pub(super) fn hand_out_again(&mut self) -> Option<(u64, Part)> {
        if self.retries == 0 {
            return None;
        }
        let is = |(_, slot): &(Part, SlotState<R>)| matches!(slot, SlotState::Retry);
        let at = self.slots.iter().position(is)?;
        let number = self.first_number() + at as u64;
        self.set(number, SlotState::InFlight);
        Some((number, self.slots[at].0.clone()))
    }

    pub(super) fn retry_consumed(&mut self, part: Part) {
        self.slots.push_front((part, SlotState::Retry));
        self.retries += 1;
        self.exhausted = false;
    }

    pub(super) fn set(&mut self, number: u64, slot: SlotState<R>) {
        let first = self.first_number();
        let at = number.checked_sub(first).map(|at| at as usize);
        let Some((_, own)) = at.and_then(|at| self.slots.get_mut(at)) else {
            return;
        };
        let before = mem::replace(own, slot);
        let now = match own {
            SlotState::InFlight => (1, 0, 0),
            SlotState::Retry => (0, 1, 0),
            SlotState::Finished(result) => (0, 0, result.bytes()),
        };
        self.forget(&before);
        self.in_flight += now.0;
        self.retries += now.1;
        self.buffered_bytes += now.2;
    }

    pub(super) fn pop_finished(&mut self) -> Option<(Part, R)> {
        if !matches!(self.slots.front(), Some((_, SlotState::Finished(_)))) {
            return None;
        }
        let (part, slot) = self.slots.pop_front()?;
        self.forget(&slot);
        match slot {
            SlotState::Finished(result) => Some((part, result)),
            SlotState::InFlight | SlotState::Retry => None,
        }
    }

    fn forget(&mut self, slot: &SlotState<R>) {
        match slot {
            SlotState::InFlight => self.in_flight -= 1,
            SlotState::Retry => self.retries -= 1,
            SlotState::Finished(result) => self.buffered_bytes -= result.bytes(),
        }
    }

    /// For retry. Failed parts stay: the execution ends with them.
    pub(super) fn discard_finished(&mut self) {
        for (_, slot) in &mut self.slots {
            if let SlotState::Finished(result) = slot
                && !result.has_failed()
            {
                self.buffered_bytes -= result.bytes();
                self.retries += 1;
                *slot = SlotState::Retry;
            }
        }
    }
}

#[derive(Default, Clone, Copy)]
struct QueueSummary {
    in_flight: usize,
    expected_bytes: u64,
    unfinished: bool,
    len: usize,
    has_new: bool,
    has_retry: bool,
}

/// Sums over all queues, and which offer a part: of thousands a step looks at one.
pub(super) struct QueueTotals {
    summaries: Vec<QueueSummary>,
    pub(super) in_flight: usize,
    pub(super) expected_bytes: u64,
    pub(super) unfinished: usize,
    /// Number of tasks and position of each queue with new parts.
    pub(super) with_new: BTreeSet<(usize, usize)>,
    pub(super) with_retry: BTreeSet<(usize, usize)>,
}

impl QueueTotals {
    pub(super) fn new(queues: usize) -> Self {
        Self {
            summaries: vec![QueueSummary::default(); queues],
            in_flight: 0,
            expected_bytes: 0,
            unfinished: 0,
            with_new: BTreeSet::new(),
            with_retry: BTreeSet::new(),
        }
    }

    /// `each`: expected bytes of a part in flight; `parts`: of a task.
    pub(super) fn update<Part: Clone, R: TaskResult>(
        &mut self,
        at: usize,
        queue: &TaskQueue<Part, R>,
        each: u64,
        parts: usize,
    ) {
        let now = QueueSummary {
            in_flight: queue.in_flight,
            expected_bytes: queue.expected_bytes(each),
            unfinished: !queue.is_finished(),
            len: queue.slots.len().div_ceil(parts.max(1)),
            has_new: !queue.exhausted,
            has_retry: queue.retries > 0,
        };
        let before = mem::replace(&mut self.summaries[at], now);
        self.in_flight = self.in_flight + now.in_flight - before.in_flight;
        self.expected_bytes = self.expected_bytes + now.expected_bytes - before.expected_bytes;
        self.unfinished =
            self.unfinished + usize::from(now.unfinished) - usize::from(before.unfinished);
        let sets = [
            (&mut self.with_new, before.has_new, now.has_new),
            (&mut self.with_retry, before.has_retry, now.has_retry),
        ];
        for (set, had, has) in sets {
            if had {
                set.remove(&(before.len, at));
            }
            if has {
                set.insert((now.len, at));
            }
        }
    }
}
