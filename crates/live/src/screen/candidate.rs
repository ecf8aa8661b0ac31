//! Frames that wait until others agree with them.

use std::collections::VecDeque;
use std::time::Duration;

use super::claim::{CONFIRMING_FRAMES, FrameClaim, MAX_AHEAD_SECONDS, ScreenLimits};
use super::tracker::{SequenceTracker, samples};

/// So many frames are remembered to tell which come again.
const DUPLICATE_WINDOW: usize = 64;

/// Frames that agree with one another and contradict what came before, or come from another sender.
#[derive(Debug)]
pub(super) struct CandidateSequence<F> {
    pub(super) tracker: SequenceTracker,
    pub(super) first_arrival: Duration,
    pub(super) frames: VecDeque<(FrameClaim, F, usize)>,
    pub(super) bytes: usize,
    /// Frames that agreed, those that had to go, too.
    agreed: usize,
    /// Those that agreed since the sender last went on as before.
    consecutive: usize,
    /// Frames of the same sender that were admitted since the first of these came.
    contradicting: usize,
    /// The first was ahead of its sender's others when it came.
    was_ahead: bool,
    /// The sender says that it ends where these end.
    ends: bool,
}

impl<F> CandidateSequence<F> {
    /// One frame, which came ahead of the others of its sender or not.
    pub(super) fn new(
        claim: FrameClaim,
        frame: F,
        bytes: usize,
        was_ahead: bool,
        now: Duration,
    ) -> Self {
        let mut tracker = SequenceTracker::new(&claim, claim.number, now);
        tracker.next = claim.number.wrapping_add(claim.length);
        Self {
            tracker,
            first_arrival: now,
            frames: VecDeque::from([(claim, frame, bytes)]),
            bytes,
            agreed: 1,
            consecutive: 1,
            contradicting: 0,
            was_ahead,
            ends: false,
        }
    }

    /// Whether a frame continues these, comes a little late, or again.
    pub(super) fn agrees(&self, claim: &FrameClaim, limits: &ScreenLimits, now: Duration) -> bool {
        if claim.session != self.tracker.session
            || claim.samples_per_number != self.tracker.samples_per_number
        {
            return false;
        }
        let ahead = self.tracker.distance(claim.number, limits);
        let near = match limits.counter_origin {
            // FeedCounts that begin anew follow on one another.
            Some(_) => (0..=8).contains(&ahead),
            None => ahead >= 0 && self.tracker.is_near(ahead, claim, limits, now),
        };
        let late = ahead < 0 && -samples(ahead, claim) <= MAX_AHEAD_SECONDS * limits.rate.to_f64();
        (near || late && !claim.end) && self.tracker.stamp_agrees(claim, limits)
    }

    /// Whether a frame with this number came before. Ends say again that they are meant.
    fn has_number_of(&self, claim: &FrameClaim) -> bool {
        let last = self.frames.iter().rev().take(DUPLICATE_WINDOW);
        !claim.end
            && last
                .into_iter()
                .any(|(have, _, _)| have.number == claim.number)
    }

    pub(super) fn push(
        &mut self,
        claim: FrameClaim,
        frame: F,
        bytes: usize,
        limits: &ScreenLimits,
        now: Duration,
    ) {
        let ahead = self.tracker.distance(claim.number, limits);
        self.ends |=
            claim.end && ahead == 0 && self.frames.iter().any(|(have, _, _)| have.length > 0);
        if ahead >= 0 {
            let count = claim.number;
            self.tracker.advance(&claim, count, limits, now);
        }
        let new = usize::from(!self.has_number_of(&claim));
        self.agreed += new;
        self.consecutive += new;
        self.bytes += bytes;
        self.frames.push_back((claim, frame, bytes));
    }

    /// Its sender went on as before.
    pub(super) fn contradict(&mut self) {
        self.contradicting += 1;
        self.consecutive = 0;
    }

    /// Whether enough frames agree, the last [`CONFIRMING_FRAMES`] of them with nothing between them that contradicts them: what is
    /// repeated beside a feed is as many frames as the feed.
    pub(super) fn is_confirmed(&self, enough: usize) -> bool {
        self.agreed >= enough && self.consecutive >= CONFIRMING_FRAMES || self.ends
    }

    /// Whether the sender went on as before in more frames than agree here.
    pub(super) fn is_contradicted(&self) -> bool {
        self.contradicting >= self.agreed
    }

    /// Whether these are from before what another line expects, and were so when they came: a frame that was ahead did
    /// not become late by waiting. Frames with indices that are late are refused at once; those that wait are off.
    pub(super) fn is_late(&self, tracker: &SequenceTracker, limits: &ScreenLimits) -> bool {
        limits.counter_origin.is_some()
            && !self.was_ahead
            && self.first_distance(tracker, limits) < 0
    }

    /// How far the first frame is ahead of what another line expects.
    pub(super) fn first_distance(&self, tracker: &SequenceTracker, limits: &ScreenLimits) -> i64 {
        self.frames
            .front()
            .map_or(0, |(claim, _, _)| tracker.distance(claim.number, limits))
    }

    /// Lets the frame that waited longest go.
    pub(super) fn drop_first(&mut self) -> Option<(F, usize)> {
        let (_, frame, bytes) = self.frames.pop_front()?;
        self.bytes -= bytes;
        Some((frame, bytes))
    }
}
