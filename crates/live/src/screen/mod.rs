//! Screening: decides which frames belong to the feed. Pure: callers pass the time.
//!
//! Over UDP anybody can send, packets arrive in any order, and devices miscount. So frames are compared:
//!
//! - A *plausible* frame is admitted at once. Its number is ahead by at most [`MAX_AHEAD_SECONDS`] plus twice the time
//!   since the last frame, or by a gap that it declares; its stamp is off by less than a clock step.
//! - Others are held in consistent *candidate sequences*. A candidate is admitted as a whole. It needs an end frame or
//!   [`CONFIRMING_FRAMES`] frames ([`CONFIRMING_FRAMES_BACKWARD`] if counts decrease, as for late packets); more frames
//!   than the session had meanwhile; and the last three in a row. Another sender also waits until the current one is
//!   silent for [`SENDER_SILENCE`] or was never confirmed.
//! - The rest is rejected as malformed, late or foreign.
//!
//! A connection has one peer and keeps the order: all is admitted at once except undeclared jumps, which are admitted
//! at the end if nothing contradicted them.

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

/// The decision on a frame.
#[allow(missing_docs)] // The types document the fields.
#[derive(Debug, PartialEq)]
pub enum ScreenVerdict<F> {
    /// Belongs to the feed.
    Admitted {
        claim: FrameClaim,
        /// Its number, unwrapped.
        count: u64,
        /// First of another sender or of a restarted counter.
        starts_session: bool,
        frame: F,
    },
    /// Does not belong to the feed.
    Rejected(RejectReason, F),
}

/// Screens the frames of a feed.
#[derive(Debug)]
pub struct FrameScreen<F> {
    limits: ScreenLimits,
    tracker: Option<SequenceTracker>,
    candidates: Vec<CandidateSequence<F>>,
    pending_bytes: usize,
    ended: bool,
}

impl<F> FrameScreen<F> {
    /// A screen without frames.
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

    /// Bytes of held frames.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// The current session.
    #[must_use]
    pub fn session(&self) -> Option<u32> {
        self.tracker.as_ref().map(|tracker| tracker.session)
    }

    /// Screens a frame; appends decisions to `out`.
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

    /// Decides what depends on time alone.
    pub fn tick(&mut self, now: Duration, out: &mut Vec<ScreenVerdict<F>>) {
        while let Some(at) = self.confirmed_candidate(now) {
            self.admit_candidate(at, now, out);
        }
    }

    /// When [`tick`](Self::tick) next decides something.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let Some(tracker) = &self.tracker else {
            let [only] = &self.candidates[..] else {
                return None;
            };
            return Some(only.first_arrival.saturating_add(self.limits.reorder));
        };
        let waits = self.candidates.iter().any(|candidate| {
            candidate.tracker.session != tracker.session
                && candidate.is_confirmed(CONFIRMING_FRAMES)
                && !candidate.is_contradicted()
        });
        let free = tracker.last_admitted.saturating_add(SENDER_SILENCE);
        (waits && !self.ended).then_some(free)
    }

    /// First arrival of held frames that may be the feed's: of sequences that continue after `since`.
    pub(crate) fn held_since(&self, since: Duration) -> Option<Duration> {
        let held = self.candidates.iter();
        let going_on = held.filter(|candidate| {
            !candidate.is_contradicted() && candidate.tracker.last_admitted >= since
        });
        going_on.map(|candidate| candidate.first_arrival).min()
    }

    /// Decides on all held frames.
    pub fn finish(&mut self, now: Duration, out: &mut Vec<ScreenVerdict<F>>) {
        self.tick(now, out);
        if self.tracker.is_none() && !self.candidates.is_empty() {
            // Without another sender, the longest candidate is it.
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
            // The oldest of the largest, since the newest may be needed.
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
