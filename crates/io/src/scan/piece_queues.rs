//! Decides which pieces to request ahead of the readers, without I/O.
//!
//! Each task has a queue of pieces. Pieces are requested first for running tasks, those with the fewest requests first,
//! then for tasks expected next.
//!
//! The expected order is a prediction: an unexpected task gets its own queue; one that is passed over is dropped.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::{MergePolicy, PieceIter, RequestIter};
use crate::source::SampleSource;

/// Bytes requested ahead, unless a single piece is larger.
pub(crate) const READ_AHEAD_BYTES: u64 = 64 << 20;

pub(crate) const QUEUE_DEPTH: usize = 4;

/// After so many later tasks per reader, a task is dropped.
const OVERTAKEN_TASKS: u64 = 16;

/// The parts that tasks read, in expected order; may be empty.
pub type TaskParts = Box<dyn Iterator<Item = Vec<Range<i64>>> + Send>;

struct UpcomingTasks(TaskParts);

impl fmt::Debug for UpcomingTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpcomingTasks(..)")
    }
}

#[derive(Debug)]
struct RequestedPiece<A> {
    ticket: u64,
    piece: Range<i64>,
    state: A,
}

#[derive(Debug)]
struct PieceQueue<A> {
    id: u64,
    /// The task's number until it begins.
    expected: Option<u64>,
    rest: RequestIter,
    requested: VecDeque<RequestedPiece<A>>,
}

impl<A> PieceQueue<A> {
    fn wants_more(&mut self, depth: usize) -> bool {
        self.requested.len() < depth && self.rest.peek().is_some()
    }
}

/// `A`: state of a requested piece.
#[derive(Debug)]
pub(crate) struct PieceQueues<A> {
    source: Arc<dyn SampleSource>,
    piece: i64,
    readers: usize,
    merging: Option<MergePolicy>,
    /// Maximum outstanding pieces per queue, and in total.
    depth: usize,
    total_depth: usize,
    upcoming: Option<UpcomingTasks>,
    next: u64,
    begun: u64,
    /// Last id of a queue or piece.
    last_id: u64,
    queues: VecDeque<PieceQueue<A>>,
}

impl<A> PieceQueues<A> {
    /// `piece`: maximum samples per piece. `readers`: tasks at a time.
    pub(crate) fn new(
        source: Arc<dyn SampleSource>,
        piece: i64,
        readers: usize,
        tasks: TaskParts,
    ) -> Self {
        Self {
            source,
            piece,
            readers: readers.max(1),
            merging: None,
            depth: QUEUE_DEPTH,
            total_depth: QUEUE_DEPTH * readers.max(1),
            upcoming: Some(UpcomingTasks(tasks)),
            next: 0,
            begun: 0,
            last_id: 0,
            queues: VecDeque::new(),
        }
    }

    /// A reader then finds its pieces [in a request](Self::front).
    pub(crate) fn merging(self, merging: MergePolicy) -> Self {
        Self {
            merging: Some(merging),
            ..self
        }
    }

    pub(crate) fn readers(&self) -> usize {
        self.readers
    }

    pub(crate) fn set_depth(&mut self, depth: usize) {
        self.depth = depth;
        self.total_depth = depth.max(self.readers);
    }

    fn number(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn queue(&mut self, expected: Option<u64>, parts: Vec<Range<i64>>) -> PieceQueue<A> {
        PieceQueue {
            id: self.number(),
            expected,
            rest: RequestIter::new(
                PieceIter::new(self.source.clone(), parts, self.piece),
                self.merging,
            ),
            requested: VecDeque::new(),
        }
    }

    fn expect_next(&mut self) -> bool {
        let Some(parts) = self
            .upcoming
            .as_mut()
            .and_then(|upcoming| upcoming.0.next())
        else {
            self.upcoming = None;
            return false;
        };
        if !parts.is_empty() {
            let queue = self.queue(Some(self.next), parts);
            self.queues.push_back(queue);
        }
        self.next += 1;
        true
    }

    /// Returns the task's queue, and the pieces of dropped tasks.
    pub(crate) fn begin(&mut self, number: u64, parts: &[Range<i64>]) -> (u64, Vec<A>) {
        while self.next <= number && self.expect_next() {}
        self.begun = self.begun.max(number.saturating_add(1));
        let expected = self.queues.iter_mut();
        let mut expected = expected.filter(|queue| queue.expected == Some(number));
        let own = expected.find(|queue| queue.rest.parts() == parts);
        let own = own.map(|queue| {
            queue.expected = None;
            queue.id
        });
        let late = self
            .begun
            .saturating_sub(OVERTAKEN_TASKS.saturating_mul(self.readers as u64));
        let passed = self.forget(|queue| {
            let passed = |expected| expected == number || expected < late;
            queue.expected.is_some_and(passed)
        });
        let id = own.unwrap_or_else(|| {
            let queue = self.queue(None, parts.to_vec());
            let id = queue.id;
            self.queues.push_front(queue);
            id
        });
        (id, passed)
    }

    pub(crate) fn end(&mut self, queue: u64) -> Vec<A> {
        self.forget(|one| one.id == queue)
    }

    pub(crate) fn stop(&mut self) -> Vec<A> {
        self.upcoming = None;
        self.forget(|_| true)
    }

    fn forget(&mut self, which: impl Fn(&PieceQueue<A>) -> bool) -> Vec<A> {
        let mut requested = Vec::new();
        self.queues.retain_mut(|queue| {
            let goes = which(queue);
            if goes {
                requested.extend(queue.requested.drain(..).map(|one| one.state));
            }
            !goes
        });
        requested
    }

    fn wanted(&mut self) -> Option<usize> {
        let depth = self.depth;
        let queues = self.queues.iter_mut().enumerate();
        let begun = queues.filter_map(|(at, queue)| {
            let wants = queue.expected.is_none() && queue.wants_more(depth);
            wants.then_some((queue.requested.len(), at))
        });
        if let Some((_, at)) = begun.min() {
            return Some(at);
        }
        loop {
            let mut queues = self.queues.iter_mut();
            let next = queues.position(|queue| queue.expected.is_some() && queue.wants_more(depth));
            // Bounded, in case many tasks read nothing.
            let far = self.next >= self.begun.saturating_add(self.total_depth as u64);
            if next.is_some() || far || !self.expect_next() {
                return next;
            }
        }
    }

    fn requested(&self) -> (usize, u64) {
        let all = self.queues.iter().flat_map(|queue| &queue.requested);
        all.fold((0, 0), |(count, sum), one| {
            (count + 1, sum + samples(&one.piece))
        })
    }

    /// `ask` gets a ticket for each request.
    pub(crate) fn fill(&mut self, mut ask: impl FnMut(u64, &Range<i64>) -> A) {
        while let Some(at) = self.wanted() {
            let (count, requested) = self.requested();
            let ticket = self.number();
            let queue = &mut self.queues[at];
            let Some(piece) = queue.rest.peek() else {
                return;
            };
            let bytes = requested.saturating_add(samples(&piece));
            let bytes = bytes.saturating_mul(self.source.dtype().size() as u64);
            let full = count >= self.total_depth || bytes > READ_AHEAD_BYTES;
            // A waiting reader always gets one piece.
            let waits = queue.expected.is_none() && queue.requested.is_empty();
            if full && count > 0 && !waits {
                return;
            }
            queue.rest.advance();
            let state = ask(ticket, &piece);
            queue.requested.push_back(RequestedPiece {
                ticket,
                piece,
                state,
            });
        }
    }

    /// The oldest request, if it contains the piece.
    pub(crate) fn front(&mut self, queue: u64, piece: &Range<i64>) -> Option<(Range<i64>, &mut A)> {
        let merges = self.merging.is_some();
        let holds = |request: &Range<i64>| match merges {
            true => request.start <= piece.start && piece.end <= request.end,
            false => request == piece,
        };
        let queue = self.queues.iter_mut().find(|one| one.id == queue)?;
        if queue.requested.is_empty() && queue.rest.peek().as_ref().is_some_and(holds) {
            // It is read immediately instead.
            queue.rest.advance();
        }
        let front = queue.requested.front_mut()?;
        holds(&front.piece).then(|| (front.piece.clone(), &mut front.state))
    }

    pub(crate) fn take(&mut self, queue: u64) -> Option<A> {
        let queue = self.queues.iter_mut().find(|one| one.id == queue)?;
        Some(queue.requested.pop_front()?.state)
    }

    /// None if the piece is no longer needed.
    pub(crate) fn of(&mut self, ticket: u64) -> Option<&mut A> {
        let mut all = self
            .queues
            .iter_mut()
            .flat_map(|queue| &mut queue.requested);
        Some(&mut all.find(|one| one.ticket == ticket)?.state)
    }
}

fn samples(piece: &Range<i64>) -> u64 {
    (piece.end - piece.start).cast_unsigned()
}

#[cfg(test)]
mod tests;
