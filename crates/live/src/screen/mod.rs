//! Decides which of the frames that arrive belong to the feed. Pure: times are given, nothing waits.
//!
//! Over UDP anybody can send, packets arrive in any order, and a device may count wrong. So what arrives is compared
//! with what came before:
//!
//! - A frame is *plausible* if it continues the session that is last_admitted: its number is at most [`MAX_AHEAD_SECONDS`] seconds of
//!   samples (and twice the time since the last frame) ahead, or it says itself that a gap lies between, which begins
//!   where the last frame ended; and its stamp is off by less than a clock step. It is admitted at once.
//! - Anything else *waits* in a candidate of frames that agree with one another: a counter or a stamp that jumped, a
//!   device that counts starts_session, another sender. A candidate is believed with its third frame ([`CONFIRMING_FRAMES`]; [`CONFIRMING_FRAMES_BACKWARD`]
//!   for counts that go back, since late packets look like them), or when its sender says that it ends there, but not
//!   while as many frames go on as before, nor before three of it came with none of those between them. Then all of it is admitted, so waiting loses nothing. Another sender is
//!   admitted once the one before is silent for [`SENDER_SILENCE`], or was never confirmed itself.
//! - What nothing confirms is refused: as malformed, late, or another sender's.
//!
//! So one datagram with a far counter or stamp changes nothing, whoever sent it. Three that agree, with nothing between
//! them, are believed: without authentication nobody can tell them from a device that does count so.
//!
//! A connection has one peer and keeps the order of what it sends, so its frames are admitted at once, but for those
//! whose index or stamp jumps without the sender saying so; these are believed at the end if nothing contradicted them.

use std::time::Duration;

mod candidate;
mod claim;
mod tracker;

use candidate::CandidateSequence;
pub use claim::{
    CONFIRMING_FRAMES, CONFIRMING_FRAMES_BACKWARD, FrameClaim, MAX_AHEAD_SECONDS, RejectReason,
    SENDER_SILENCE, ScreenLimits,
};
use claim::{MAX_CANDIDATES, MAX_COUNT, Plausibility};
use tracker::SequenceTracker;

/// What becomes of a frame.
#[derive(Debug, PartialEq)]
pub enum ScreenVerdict<F> {
    /// It belongs to the feed.
    Admitted {
        /// What it says.
        claim: FrameClaim,
        /// Its number, without wraps.
        count: u64,
        /// It is the first of another sender, or of one that counts anew.
        starts_session: bool,
        /// What belongs to it.
        frame: F,
    },
    /// It does not.
    Rejected(RejectReason, F),
}

/// Compares frames with those before them.
#[derive(Debug)]
pub struct FrameScreen<F> {
    limits: ScreenLimits,
    tracker: Option<SequenceTracker>,
    candidates: Vec<CandidateSequence<F>>,
    pending_bytes: usize,
    /// The sender said that nothing follows.
    ended: bool,
}

impl<F> FrameScreen<F> {
    /// A screen that has seen nothing.
    #[must_use]
    pub fn new(limits: ScreenLimits) -> Self {
        Self {
            limits,
            tracker: None,
            candidates: Vec::new(),
            pending_bytes: 0,
            ended: false,
        }
    }

    /// Bytes of frames that wait to be confirmed.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// The session that is heard.
    #[must_use]
    pub fn session(&self) -> Option<u32> {
        self.tracker.as_ref().map(|tracker| tracker.session)
    }

    /// Takes a frame of so many bytes that came at `now`; what is decided by it goes to `out`.
    pub fn push(
        &mut self,
        claim: FrameClaim,
        frame: F,
        bytes: usize,
        now: Duration,
        out: &mut Vec<ScreenVerdict<F>>,
    ) {
        if claim.number >= MAX_COUNT && self.limits.number_bits == 64 {
            out.push(ScreenVerdict::Rejected(RejectReason::Malformed, frame));
            return;
        }
        let Some(tracker) = &mut self.tracker else {
            if self.limits.is_connection {
                self.follow_sender(&claim, now);
                self.admit(claim, frame, false, now, out);
                return;
            }
            self.hold(claim, frame, bytes, now, out);
            self.tick(now, out);
            return;
        };
        if tracker.session != claim.session {
            if self.limits.is_connection {
                self.follow_sender(&claim, now);
                self.admit(claim, frame, true, now, out);
                return;
            }
            if self.ended {
                out.push(ScreenVerdict::Rejected(RejectReason::Foreign, frame));
                return;
            }
            self.hold(claim, frame, bytes, now, out);
            self.tick(now, out);
            return;
        }
        match tracker.plausibility(&claim, &self.limits, now) {
            Plausibility::Plausible => self.admit(claim, frame, false, now, out),
            Plausibility::Doubtful => {
                self.hold(claim, frame, bytes, now, out);
                self.tick(now, out);
            }
            Plausibility::Rejected(why) => out.push(ScreenVerdict::Rejected(why, frame)),
        }
    }

    /// Decides what time alone decides.
    pub fn tick(&mut self, now: Duration, out: &mut Vec<ScreenVerdict<F>>) {
        while let Some(at) = self.confirmed_candidate(now) {
            self.admit_candidate(at, now, out);
        }
    }

    /// Nothing follows: what waits is decided.
    pub fn finish(&mut self, now: Duration, out: &mut Vec<ScreenVerdict<F>>) {
        self.tick(now, out);
        if self.tracker.is_none() && !self.candidates.is_empty() {
            // Nobody else is there; of several who say little, whoever said most.
            let most = (0..self.candidates.len())
                .max_by_key(|&at| (self.candidates[at].frames.len(), usize::MAX - at));
            self.admit_candidate(most.unwrap_or(0), now, out);
            self.tick(now, out);
        }
        if self.limits.is_connection {
            while !self.candidates.is_empty() {
                self.admit_candidate(0, now, out);
            }
        }
        while let Some(candidate) = self.candidates.pop() {
            self.reject(candidate, out);
        }
    }

    /// The candidate that is to be admitted now.
    fn confirmed_candidate(&self, now: Duration) -> Option<usize> {
        let Some(tracker) = &self.tracker else {
            let alone = self.candidates.len() == 1;
            return self.candidates.iter().position(|candidate| {
                let waited = now.saturating_sub(candidate.first_arrival) >= self.limits.reorder;
                candidate.is_confirmed(CONFIRMING_FRAMES) || alone && waited
            });
        };
        let free = tracker.frames < CONFIRMING_FRAMES
            || now.saturating_sub(tracker.last_admitted) >= SENDER_SILENCE;
        self.candidates.iter().position(|candidate| {
            if candidate.is_contradicted() {
                return false;
            }
            if candidate.tracker.session != tracker.session {
                return free && !self.ended && candidate.is_confirmed(CONFIRMING_FRAMES);
            }
            let back = candidate.first_distance(tracker, &self.limits) < 0;
            candidate.is_confirmed(if back {
                CONFIRMING_FRAMES_BACKWARD
            } else {
                CONFIRMING_FRAMES
            })
        })
    }

    /// Admits a candidate.
    fn admit_candidate(&mut self, at: usize, now: Duration, out: &mut Vec<ScreenVerdict<F>>) {
        let candidate = self.candidates.remove(at);
        let starts_session = self.tracker.as_ref().is_some_and(|tracker| {
            tracker.session != candidate.tracker.session
                || candidate.first_distance(tracker, &self.limits) < 0
        });
        if let Some(tracker) = self.tracker.as_mut().filter(|_| !starts_session) {
            tracker.keep_stamp_before_jump();
        }
        for (k, (claim, frame, bytes)) in candidate.frames.into_iter().enumerate() {
            self.pending_bytes -= bytes;
            if k == 0 && (starts_session || self.tracker.is_none()) {
                self.follow_sender(&claim, now);
            }
            self.admit(claim, frame, starts_session && k == 0, now, out);
        }
    }

    /// Hears a sender from this frame on.
    fn follow_sender(&mut self, claim: &FrameClaim, now: Duration) {
        let origin = self
            .limits
            .counter_origin
            .filter(|_| !self.limits.absolute_counts);
        let count = origin.unwrap_or(claim.number);
        self.tracker = Some(SequenceTracker::new(claim, count, now));
        self.ended = false;
    }

    fn admit(
        &mut self,
        claim: FrameClaim,
        frame: F,
        starts_session: bool,
        now: Duration,
        out: &mut Vec<ScreenVerdict<F>>,
    ) {
        let Some(tracker) = &mut self.tracker else {
            return;
        };
        let count = tracker.count_of(&claim, &self.limits);
        let fits = count.and_then(|count| count.checked_add(claim.length));
        let fits = fits
            .and_then(|end| end.checked_mul(claim.samples_per_number))
            .is_some_and(|end| end < MAX_COUNT);
        match count.filter(|_| fits) {
            Some(count) => {
                tracker.advance(&claim, count, &self.limits, now);
                let others = self.candidates.iter_mut();
                for candidate in
                    others.filter(|candidate| candidate.tracker.session == claim.session)
                {
                    candidate.contradict();
                }
                self.ended |= claim.end;
                out.push(ScreenVerdict::Admitted {
                    claim,
                    count,
                    starts_session,
                    frame,
                });
            }
            None => out.push(ScreenVerdict::Rejected(RejectReason::Malformed, frame)),
        }
    }

    /// Keeps a frame until others confirm it.
    fn hold(
        &mut self,
        claim: FrameClaim,
        frame: F,
        bytes: usize,
        now: Duration,
        out: &mut Vec<ScreenVerdict<F>>,
    ) {
        let limits = &self.limits;
        let agreeing = self
            .candidates
            .iter_mut()
            .find(|candidate| candidate.agrees(&claim, limits, now));
        self.pending_bytes += bytes;
        match agreeing {
            Some(candidate) => candidate.push(claim, frame, bytes, limits, now),
            None => {
                if self.candidates.len() == MAX_CANDIDATES {
                    let least =
                        (0..MAX_CANDIDATES).min_by_key(|&at| self.candidates[at].frames.len());
                    let candidate = self.candidates.remove(least.unwrap_or(0));
                    self.reject(candidate, out);
                }
                let was_ahead = self.tracker.as_ref().is_some_and(|tracker| {
                    tracker.session == claim.session
                        && tracker.distance(claim.number, &self.limits) >= 0
                });
                let candidate = CandidateSequence::new(claim, frame, bytes, was_ahead, now);
                self.candidates.push(candidate);
            }
        }
        while self.pending_bytes > self.limits.max_pending_bytes {
            // The frames that waited longest of whoever sent most: the newest are those that may still be needed.
            let most = (0..self.candidates.len()).max_by_key(|&at| self.candidates[at].bytes);
            let Some(at) = most else { break };
            let why = self.reject_reason(&self.candidates[at]);
            if let Some((frame, bytes)) = self.candidates[at].drop_first() {
                self.pending_bytes -= bytes;
                out.push(ScreenVerdict::Rejected(why, frame));
            }
            if self.candidates[at].frames.is_empty() {
                self.candidates.remove(at);
            }
        }
    }

    fn reject_reason(&self, candidate: &CandidateSequence<F>) -> RejectReason {
        match &self.tracker {
            Some(tracker) if tracker.session != candidate.tracker.session => RejectReason::Foreign,
            Some(tracker) if candidate.is_late(tracker, &self.limits) => RejectReason::Late,
            _ => RejectReason::Malformed,
        }
    }

    fn reject(&mut self, candidate: CandidateSequence<F>, out: &mut Vec<ScreenVerdict<F>>) {
        let why = self.reject_reason(&candidate);
        for (_, frame, bytes) in candidate.frames {
            self.pending_bytes -= bytes;
            out.push(ScreenVerdict::Rejected(why, frame));
        }
    }
}

#[cfg(test)]
mod tests;
