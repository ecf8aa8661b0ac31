//! Which pieces are asked for ahead of those who will read them: pure.
//!
//! A *lane* is what one task reads, piece after piece. Tasks to come are known in the order in which they will begin; who reads
//! begins one after the other, several at once where there are several threads. Pieces are asked for first in the lanes that
//! were begun, where fewest are asked for; once all of these are, in those that will begin next. So what a reader is ahead of
//! does not end with its task, and nothing depends on which of the readers will do which of the tasks to come.
//!
//! That a task will begin is a guess. One that was begun before and is done again, or reads something else than was foreseen,
//! is a lane of its own; one that is passed over is forgotten.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::pieces::Pieces;
use crate::source::Source;

/// Most bytes that are asked for ahead, unless one piece alone has more.
pub(super) const AHEAD: u64 = 64 << 20;

/// Pieces that are asked for, or read and not taken yet, for each reader.
pub(super) const DEEP: usize = 4;

/// A task that has not begun while so many readers' tasks behind it have is one that nobody will do.
const LATE: u64 = 16;

/// What the tasks to come read, in the order in which they will begin; nothing is a task, too.
pub type Tasks = Box<dyn Iterator<Item = Vec<Range<i64>>> + Send>;

struct Coming(Tasks);

impl fmt::Debug for Coming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coming(..)")
    }
}

/// A piece that was asked for.
#[derive(Debug)]
struct Asked<A> {
    ticket: u64,
    piece: Range<i64>,
    state: A,
}

#[derive(Debug)]
struct Lane<A> {
    id: u64,
    /// Which of the tasks to come it is, until somebody begins it.
    foreseen: Option<u64>,
    /// What was not asked for yet.
    rest: Pieces,
    /// Oldest first.
    asked: VecDeque<Asked<A>>,
}

impl<A> Lane<A> {
    fn wants_more(&mut self) -> bool {
        self.asked.len() < DEEP && self.rest.coming().is_some()
    }
}

/// What of a signal is asked for ahead; `A` says what became of asking for a piece.
#[derive(Debug)]
pub(super) struct Lanes<A> {
    source: Arc<dyn Source>,
    piece: i64,
    readers: usize,
    coming: Option<Coming>,
    /// Number of the next task that comes.
    next: u64,
    /// Behind the number of the last task that has begun.
    begun: u64,
    /// Numbers that lanes and pieces are known by.
    given: u64,
    lanes: VecDeque<Lane<A>>,
}

impl<A> Lanes<A> {
    /// `piece`: samples of a piece at most; `readers`: how many tasks are under way at once.
    pub(super) fn new(source: Arc<dyn Source>, piece: i64, readers: usize, tasks: Tasks) -> Self {
        Self {
            source,
            piece,
            readers: readers.max(1),
            coming: Some(Coming(tasks)),
            next: 0,
            begun: 0,
            given: 0,
            lanes: VecDeque::new(),
        }
    }

    fn number(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    fn lane(&mut self, foreseen: Option<u64>, parts: Vec<Range<i64>>) -> Lane<A> {
        Lane {
            id: self.number(),
            foreseen,
            rest: Pieces::new(self.source.clone(), parts, self.piece),
            asked: VecDeque::new(),
        }
    }

    /// Takes in the next task that comes; false if none does.
    fn foresee(&mut self) -> bool {
        let Some(parts) = self.coming.as_mut().and_then(|coming| coming.0.next()) else {
            self.coming = None;
            return false;
        };
        if !parts.is_empty() {
            let lane = self.lane(Some(self.next), parts);
            self.lanes.push_back(lane);
        }
        self.next += 1;
        true
    }

    /// A task begins that reads these parts, or nothing: the lane by which it is known from now on, and what was asked for in
    /// lanes that nobody will begin any more.
    pub(super) fn begin(&mut self, number: u64, parts: &[Range<i64>]) -> (u64, Vec<A>) {
        while self.next <= number && self.foresee() {}
        self.begun = self.begun.max(number.saturating_add(1));
        let foreseen = self.lanes.iter_mut();
        let mut foreseen = foreseen.filter(|lane| lane.foreseen == Some(number));
        let own = foreseen.find(|lane| lane.rest.parts() == parts);
        let own = own.map(|lane| {
            lane.foreseen = None;
            lane.id
        });
        let late = self
            .begun
            .saturating_sub(LATE.saturating_mul(self.readers as u64));
        let passed = self.forget(|lane| {
            let passed = |foreseen| foreseen == number || foreseen < late;
            lane.foreseen.is_some_and(passed)
        });
        let id = own.unwrap_or_else(|| {
            let lane = self.lane(None, parts.to_vec());
            let id = lane.id;
            self.lanes.push_front(lane);
            id
        });
        (id, passed)
    }

    /// A task is over, whatever of it was read; what was asked for in vain.
    pub(super) fn end(&mut self, lane: u64) -> Vec<A> {
        self.forget(|one| one.id == lane)
    }

    /// Nothing is read ahead any more.
    pub(super) fn stop(&mut self) -> Vec<A> {
        self.coming = None;
        self.forget(|_| true)
    }

    fn forget(&mut self, which: impl Fn(&Lane<A>) -> bool) -> Vec<A> {
        let mut asked = Vec::new();
        self.lanes.retain_mut(|lane| {
            let goes = which(lane);
            if goes {
                asked.extend(lane.asked.drain(..).map(|one| one.state));
            }
            !goes
        });
        asked
    }

    /// The lane in which a piece is asked for next.
    fn wanted(&mut self) -> Option<usize> {
        let lanes = self.lanes.iter_mut().enumerate();
        let begun = lanes.filter_map(|(at, lane)| {
            let wants = lane.foreseen.is_none() && lane.wants_more();
            wants.then_some((lane.asked.len(), at))
        });
        if let Some((_, at)) = begun.min() {
            return Some(at);
        }
        loop {
            let mut lanes = self.lanes.iter_mut();
            let next = lanes.position(|lane| lane.foreseen.is_some() && lane.wants_more());
            // Not without end, where there is nothing to read for long.
            let far = self.next >= self.begun.saturating_add((DEEP * self.readers) as u64);
            if next.is_some() || far || !self.foresee() {
                return next;
            }
        }
    }

    /// Pieces, and their samples, that are asked for.
    fn asked(&self) -> (usize, u64) {
        let all = self.lanes.iter().flat_map(|lane| &lane.asked);
        all.fold((0, 0), |(count, sum), one| {
            (count + 1, sum + samples(&one.piece))
        })
    }

    /// Asks for as many pieces as there is room for; `ask` is given a ticket for each.
    pub(super) fn fill(&mut self, mut ask: impl FnMut(u64, &Range<i64>) -> A) {
        while let Some(at) = self.wanted() {
            let (count, asked) = self.asked();
            let ticket = self.number();
            let lane = &mut self.lanes[at];
            let Some(piece) = lane.rest.coming() else {
                return;
            };
            let bytes = asked.saturating_add(samples(&piece));
            let bytes = bytes.saturating_mul(self.source.dtype().size() as u64);
            let full = count >= DEEP * self.readers || bytes > AHEAD;
            // Who reads has one piece in any case.
            let waits = lane.foreseen.is_none() && lane.asked.is_empty();
            if full && count > 0 && !waits {
                return;
            }
            lane.rest.next();
            let state = ask(ticket, &piece);
            lane.asked.push_back(Asked {
                ticket,
                piece,
                state,
            });
        }
    }

    /// What became of asking for a piece, the oldest of a lane; None if that is another, or none was asked for.
    pub(super) fn front(&mut self, lane: u64, piece: &Range<i64>) -> Option<&mut A> {
        let lane = self.lanes.iter_mut().find(|one| one.id == lane)?;
        if lane.asked.is_empty() && lane.rest.coming().as_ref() == Some(piece) {
            // It is read without having been asked for.
            lane.rest.next();
        }
        let front = lane.asked.front_mut()?;
        (front.piece == *piece).then_some(&mut front.state)
    }

    /// Takes the oldest of a lane.
    pub(super) fn take(&mut self, lane: u64) -> Option<A> {
        let lane = self.lanes.iter_mut().find(|one| one.id == lane)?;
        Some(lane.asked.pop_front()?.state)
    }

    /// What became of what was asked for by a ticket; None if nobody wants it any more.
    pub(super) fn of(&mut self, ticket: u64) -> Option<&mut A> {
        let mut all = self.lanes.iter_mut().flat_map(|lane| &mut lane.asked);
        Some(&mut all.find(|one| one.ticket == ticket)?.state)
    }
}

fn samples(piece: &Range<i64>) -> u64 {
    (piece.end - piece.start).cast_unsigned()
}

#[cfg(test)]
mod tests;
