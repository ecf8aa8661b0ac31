//! Frames held until others confirm them.

use std::collections::VecDeque;
use std::time::Duration;

use super::claim::{CONFIRMING_FRAMES, FrameClaim, MAX_AHEAD_SECONDS, ScreenLimits};
use super::tracker::{SequenceTracker, samples};

/// Latest frames in which duplicates are searched.
const DUPLICATE_WINDOW: usize = 64;

/// Consistent frames that contradict the current session or belong to another.
#[derive(Debug)]
pub(super) struct CandidateSequence<F> {
    pub(super) tracker: SequenceTracker,
    pub(super) first_arrival: Duration,
    pub(super) frames: VecDeque<(FrameClaim, F, usize)>,
    pub(super) bytes: usize,
    /// Consistent frames, dropped ones included.
    agreed: usize,
    /// Consistent frames since the session's last admitted frame.
    consecutive: usize,
    /// Frames of the session admitted meanwhile.
    contradicting: usize,
    /// The first frame was ahead of the session on arrival.
    was_ahead: bool,
    ends: bool,
}

impl<F> CandidateSequence<F> {
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

    /// Whether a frame continues these, is a little late, or is a duplicate.
    pub(super) fn agrees(&self, claim: &FrameClaim, limits: &ScreenLimits, now: Duration) -> bool {
        if claim.session != self.tracker.session
            || claim.samples_per_number != self.tracker.samples_per_number
        {
            return false;
        }
        let ahead = self.tracker.distance(claim.number, limits);
        let near = match limits.counter_origin {
            // Packets of a restarted counter are in a row.
            Some(_) => (0..=8).contains(&ahead),
            None => ahead >= 0 && self.tracker.is_near(ahead, claim, limits, now),
        };
        let late = ahead < 0 && -samples(ahead, claim) <= MAX_AHEAD_SECONDS * limits.rate.to_f64();
        (near || late && !claim.end) && self.tracker.stamp_agrees(claim, limits)
    }

    /// End frames are repeated on purpose.
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

    pub(super) fn contradict(&mut self) {
        self.contradicting += 1;
        self.consecutive = 0;
    }

    /// Enough frames agree, the last [`CONFIRMING_FRAMES`] in a row: replayed frames alternate with the feed's.
    pub(super) fn is_confirmed(&self, enough: usize) -> bool {
        self.agreed >= enough && self.consecutive >= CONFIRMING_FRAMES || self.ends
    }

    /// Whether the session had as many frames meanwhile.
    pub(super) fn is_contradicted(&self) -> bool {
        self.contradicting >= self.agreed
    }

    /// They precede the session, as on arrival, so holding makes no frame late. Late frames with sample indices are
    /// rejected at once.
    pub(super) fn is_late(&self, tracker: &SequenceTracker, limits: &ScreenLimits) -> bool {
        limits.counter_origin.is_some()
            && !self.was_ahead
            && self.first_distance(tracker, limits) < 0
    }

    pub(super) fn first_distance(&self, tracker: &SequenceTracker, limits: &ScreenLimits) -> i64 {
        self.frames
            .front()
            .map_or(0, |(claim, _, _)| tracker.distance(claim.number, limits))
    }

    pub(super) fn drop_first(&mut self) -> Option<(F, usize)> {
        let (_, frame, bytes) = self.frames.pop_front()?;
        self.bytes -= bytes;
        Some((frame, bytes))
    }
}
