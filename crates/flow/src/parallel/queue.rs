//! The tasks of a front, from the oldest that is wanted on.

use std::collections::VecDeque;

/// What is cut into tasks.
pub(super) trait Cut {
    /// A part of it.
    type Part: Clone;

    /// The part behind another, or the first.
    fn after(&self, last: Option<&Self::Part>) -> Option<Self::Part>;

    /// Bytes that come of a part, about.
    fn bytes(&self) -> u64;
}

/// What a task gave.
pub(super) trait Gave {
    /// What went wrong behind all that.
    type Error;

    fn bytes(&self) -> u64;

    fn has_failed(&self) -> bool;

    /// Whether what went wrong still matters to somebody, where all was taken that came before it.
    fn matters(_: &Self::Error) -> bool {
        true
    }

    fn take_error(&mut self) -> Option<Self::Error>;
}

/// A part of a front's input, to be done.
#[derive(Debug, Clone)]
pub(super) struct Task<Part> {
    pub(super) front: usize,
    pub(super) number: u64,
    pub(super) portion: Part,
    /// Nobody else works and nothing waits: what it has no memory for nobody has.
    pub(super) alone: bool,
}

/// What comes next of a front.
#[derive(Debug)]
pub(super) enum Given<G: Gave> {
    Parcel(G),
    NotYet,
    /// A task failed: no more comes. None: a worker is gone.
    Failed(Option<G::Error>),
    End,
}

/// What became of a part that was handed out.
pub(super) enum Place<G> {
    UnderWay,
    Done(G),
    /// There was no memory for it, or for what it gave: to be done again.
    Again,
}

/// The tasks of a front.
pub(super) struct Front<Part, G: Gave> {
    pub(super) last: Option<Part>,
    /// All parts were handed out once.
    pub(super) exhausted: bool,
    pub(super) handed_out: u64,
    /// Of the tasks from the oldest that is wanted on.
    pub(super) places: VecDeque<(Part, Place<G>)>,
    /// The task that was taken last, and what it failed with: nothing comes behind it as long as that matters.
    pub(super) failed: Option<(Part, G::Error)>,
    pub(super) bytes: u64,
    /// It was asked for more than there was.
    pub(super) asked: bool,
}

impl<Part, G: Gave> Front<Part, G> {
    pub(super) fn new() -> Self {
        Self {
            last: None,
            exhausted: false,
            handed_out: 0,
            places: VecDeque::new(),
            failed: None,
            bytes: 0,
            asked: false,
        }
    }

    /// Whether nothing more is to be done.
    pub(super) fn over(&self) -> bool {
        self.exhausted && self.places.is_empty() && self.failed.is_none()
    }

    pub(super) fn under_way(&self) -> usize {
        let is = |(_, place): &&(Part, Place<G>)| matches!(place, Place::UnderWay);
        self.places.iter().filter(is).count()
    }

    /// Bytes that wait, and about those that will.
    pub(super) fn waiting(&self, each: u64) -> u64 {
        self.bytes + self.under_way() as u64 * each
    }

    /// Whether something waits that can be dropped.
    pub(super) fn waits(&self) -> bool {
        let is = |(_, place): &(Part, Place<G>)| matches!(place, Place::Done(gave) if !gave.has_failed() && gave.bytes() > 0);
        self.places.iter().any(is)
    }

    /// The oldest part that is to be done again.
    pub(super) fn again(&self) -> Option<usize> {
        let is = |(_, place): &(Part, Place<G>)| matches!(place, Place::Again);
        self.places.iter().position(is)
    }

    /// Drops what waits, to be done again. What failed stays: the run ends with it.
    pub(super) fn drop_waiting(&mut self) {
        for (_, place) in &mut self.places {
            if let Place::Done(gave) = place
                && !gave.has_failed()
            {
                self.bytes -= gave.bytes();
                *place = Place::Again;
            }
        }
    }
}
