//! Tracks numbers and stamps of one sender's frames.

use std::time::Duration;

use isochrony_time::Fixed;

use super::claim::{
    FrameClaim, MAX_AHEAD_SECONDS, MAX_DRIFT, MAX_JUMP_SECONDS, Plausibility, RejectReason,
    ScreenLimits,
};

const MIN_STAMP_TOLERANCE_NS: f64 = 1e8;

#[derive(Debug, Clone)]
pub(super) struct SequenceTracker {
    pub(super) session: u32,
    pub(super) samples_per_number: u64,
    /// Expected number, and its unwrapped count.
    pub(super) next: u64,
    count: u64,
    stamp: Option<(u64, Fixed)>,
    /// The same before the last jump of stamps, for late frames.
    stamp_before_jump: Option<(u64, Fixed)>,
    pub(super) last_admitted: Duration,
    pub(super) frames: usize,
}

impl SequenceTracker {
    /// Expects this frame with this count.
    pub(super) fn new(claim: &FrameClaim, count: u64, now: Duration) -> Self {
        Self {
            session: claim.session,
            samples_per_number: claim.samples_per_number,
            next: claim.number,
            count,
            stamp: claim.time.map(|time| (claim.number, time)),
            stamp_before_jump: None,
            last_admitted: now,
            frames: 0,
        }
    }

    pub(super) fn distance(&self, number: u64, limits: &ScreenLimits) -> i64 {
        distance(number, self.next, limits.number_bits)
    }

    pub(super) fn count_of(&self, claim: &FrameClaim, limits: &ScreenLimits) -> Option<u64> {
        self.count
            .checked_add_signed(self.distance(claim.number, limits))
    }

    pub(super) fn advance(
        &mut self,
        claim: &FrameClaim,
        count: u64,
        limits: &ScreenLimits,
        now: Duration,
    ) {
        let ahead = self.distance(claim.number, limits);
        if ahead.saturating_add_unsigned(claim.length) > 0 {
            self.next = claim.number.wrapping_add(claim.length);
            self.count = count.saturating_add(claim.length);
        }
        if let Some(time) = claim.time.filter(|_| ahead >= 0) {
            self.stamp = Some((claim.number, time));
        }
        self.last_admitted = now;
        self.frames = self.frames.saturating_add(1);
    }

    /// Call before admitting a jump of stamps.
    pub(super) fn keep_stamp_before_jump(&mut self) {
        self.stamp_before_jump = self.stamp;
    }

    pub(super) fn plausibility(
        &self,
        claim: &FrameClaim,
        limits: &ScreenLimits,
        now: Duration,
    ) -> Plausibility {
        let ahead = self.distance(claim.number, limits);
        let seconds = samples(ahead, claim) / limits.rate.to_f64();
        if seconds > MAX_JUMP_SECONDS || claim.samples_per_number != self.samples_per_number {
            return Plausibility::Rejected(RejectReason::Malformed);
        }
        if ahead < 0 {
            if claim.end {
                return Plausibility::Rejected(RejectReason::Malformed);
            }
            let late = limits.reorder.as_secs_f64() + 1.0;
            if -seconds > late {
                return match limits.counter_origin {
                    // Packet counters may restart; frames start a session instead.
                    Some(_) => Plausibility::Doubtful,
                    None => Plausibility::Rejected(RejectReason::Late),
                };
            }
        } else if !self.is_near(ahead, claim, limits, now) {
            return Plausibility::Doubtful;
        }
        let late = ahead < 0 && stamps_agree(self.stamp_before_jump, claim, limits);
        match late || self.stamp_agrees(claim, limits) {
            true => Plausibility::Plausible,
            // A connection's declared gap or clock step is believed.
            false if limits.is_connection && (claim.step || claim.gap > 0) => {
                Plausibility::Plausible
            }
            false => Plausibility::Doubtful,
        }
    }

    pub(super) fn is_near(
        &self,
        ahead: i64,
        claim: &FrameClaim,
        limits: &ScreenLimits,
        now: Duration,
    ) -> bool {
        let since = now.saturating_sub(self.last_admitted).as_secs_f64();
        let most = (MAX_AHEAD_SECONDS + 2.0 * since) * limits.rate.to_f64();
        let frames = 8 * claim.length.max(1);
        let is_declared_gap = claim.gap > 0 && claim.gap == ahead.unsigned_abs();
        is_declared_gap || ahead.unsigned_abs() <= frames || samples(ahead, claim) <= most
    }

    pub(super) fn stamp_agrees(&self, claim: &FrameClaim, limits: &ScreenLimits) -> bool {
        claim.time.is_none() || self.stamp.is_none() || stamps_agree(self.stamp, claim, limits)
    }
}

/// Whether a stamp fits another one at the nominal rate.
fn stamps_agree(stamp: Option<(u64, Fixed)>, claim: &FrameClaim, limits: &ScreenLimits) -> bool {
    let Some((time, (number, stamp))) = claim.time.zip(stamp) else {
        return false;
    };
    let since = distance(claim.number, number, limits.number_bits);
    let nominal = samples(since, claim) * 1e9 / limits.rate.to_f64();
    let Some(passed) = time.checked_sub(stamp) else {
        return false;
    };
    // The clock estimator finds smaller clock steps.
    let most = (4.0 * limits.step_ns).max(MIN_STAMP_TOLERANCE_NS) + MAX_DRIFT * nominal.abs();
    (passed.to_f64() - nominal).abs() <= most
}

/// Numbers wrap at this many bits.
fn distance(number: u64, than: u64, number_bits: u32) -> i64 {
    let unused = 64 - number_bits.clamp(1, 64);
    (number.wrapping_sub(than) << unused).cast_signed() >> unused
}

pub(super) fn samples(numbers: i64, claim: &FrameClaim) -> f64 {
    numbers as f64 * claim.samples_per_number as f64
}
