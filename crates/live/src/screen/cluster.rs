//! What a sender's frames have been so far, and frames that wait until others agree with them.

use std::collections::VecDeque;
use std::time::Duration;

use isochrony_time::Fixed;

use super::{AHEAD, Claim, DRIFT, ENOUGH, FARTHEST, Judgement, Limits, Refusal};

/// Stamps that are off by less are not doubted.
const LEAST_NS: f64 = 1e8;

/// So many frames are remembered to tell which come again.
const REMEMBERED: usize = 64;

/// Where a sender's frames have come to.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) session: u32,
    /// Samples of one number.
    each: u64,
    /// The number that continues what came, and its count without wraps.
    next: u64,
    count: u64,
    /// The last stamp and the number that it belongs to.
    stamp: Option<(u64, Fixed)>,
    /// The same before stamps jumped last: late frames are from there.
    earlier: Option<(u64, Fixed)>,
    pub(super) heard: Duration,
    /// Frames that were admitted.
    pub(super) frames: usize,
}

impl Line {
    /// One that expects this frame, whose number has a count.
    pub(super) fn new(claim: &Claim, count: u64, now: Duration) -> Self {
        Self {
            session: claim.session,
            each: claim.each,
            next: claim.number,
            count,
            stamp: claim.time.map(|time| (claim.number, time)),
            earlier: None,
            heard: now,
            frames: 0,
        }
    }

    /// How far a number is ahead of the one that is expected.
    pub(super) fn distance(&self, number: u64, limits: &Limits) -> i64 {
        distance(number, self.next, limits.bits)
    }

    /// A frame's number without wraps.
    pub(super) fn count_of(&self, claim: &Claim, limits: &Limits) -> Option<u64> {
        self.count
            .checked_add_signed(self.distance(claim.number, limits))
    }

    /// Goes on behind a frame that is admitted.
    pub(super) fn follow(&mut self, claim: &Claim, count: u64, limits: &Limits, now: Duration) {
        let ahead = self.distance(claim.number, limits);
        if ahead.saturating_add_unsigned(claim.length) > 0 {
            self.next = claim.number.wrapping_add(claim.length);
            self.count = count.saturating_add(claim.length);
        }
        if let Some(time) = claim.time.filter(|_| ahead >= 0) {
            self.stamp = Some((claim.number, time));
        }
        self.heard = now;
        self.frames = self.frames.saturating_add(1);
    }

    /// What is admitted next jumps.
    pub(super) fn jump(&mut self) {
        self.earlier = self.stamp;
    }

    pub(super) fn judge(&self, claim: &Claim, limits: &Limits, now: Duration) -> Judgement {
        let ahead = self.distance(claim.number, limits);
        let seconds = samples(ahead, claim) / limits.rate.to_f64();
        if seconds > FARTHEST || claim.each != self.each {
            return Judgement::Refused(Refusal::Malformed);
        }
        if ahead < 0 {
            // Nothing is behind an end.
            if claim.end {
                return Judgement::Refused(Refusal::Malformed);
            }
            let late = limits.reorder.as_secs_f64() + 1.0;
            if -seconds > late {
                return match limits.origin {
                    // Packets may be counted anew; our senders begin another session.
                    Some(_) => Judgement::Doubtful,
                    None => Judgement::Refused(Refusal::Late),
                };
            }
        } else if !self.is_near(ahead, claim, limits, now) {
            return Judgement::Doubtful;
        }
        let late = ahead < 0 && agree_in_time(self.earlier, claim, limits);
        match late || self.agrees_in_time(claim, limits) {
            true => Judgement::Plausible,
            // On a connection whoever says that there is a gap, or that a clock was set, is believed.
            false if limits.stream && (claim.step || claim.gap > 0) => Judgement::Plausible,
            false => Judgement::Doubtful,
        }
    }

    /// Whether a frame that lies ahead by so much may be the next that came.
    fn is_near(&self, ahead: i64, claim: &Claim, limits: &Limits, now: Duration) -> bool {
        let since = now.saturating_sub(self.heard).as_secs_f64();
        let most = (AHEAD + 2.0 * since) * limits.rate.to_f64();
        let frames = 8 * claim.length.max(1);
        let told = claim.gap > 0 && claim.gap == ahead.unsigned_abs();
        told || ahead.unsigned_abs() <= frames || samples(ahead, claim) <= most
    }

    /// Whether the stamp is where the one before and the nominal rate have it.
    fn agrees_in_time(&self, claim: &Claim, limits: &Limits) -> bool {
        claim.time.is_none() || self.stamp.is_none() || agree_in_time(self.stamp, claim, limits)
    }
}

/// Whether a frame's stamp is where another one and the nominal rate have it.
fn agree_in_time(stamp: Option<(u64, Fixed)>, claim: &Claim, limits: &Limits) -> bool {
    let Some((time, (number, stamp))) = claim.time.zip(stamp) else {
        return false;
    };
    let since = distance(claim.number, number, limits.bits);
    let nominal = samples(since, claim) * 1e9 / limits.rate.to_f64();
    let Some(passed) = time.checked_sub(stamp) else {
        return false;
    };
    // Stamps of arrival jitter; a clock that was set by a little more is seen where they are fitted.
    let most = (4.0 * limits.step_ns).max(LEAST_NS) + DRIFT * nominal.abs();
    (passed.to_f64() - nominal).abs() <= most
}

/// By how much a number is more than another, where they have so many bits and wrap.
fn distance(number: u64, than: u64, bits: u32) -> i64 {
    let unused = 64 - bits.clamp(1, 64);
    (number.wrapping_sub(than) << unused).cast_signed() >> unused
}

fn samples(numbers: i64, claim: &Claim) -> f64 {
    numbers as f64 * claim.each as f64
}

/// Frames that agree with one another and contradict what came before, or come from another sender.
#[derive(Debug)]
pub(super) struct Cluster<F> {
    pub(super) line: Line,
    pub(super) since: Duration,
    pub(super) frames: VecDeque<(Claim, F, usize)>,
    pub(super) bytes: usize,
    /// Frames that agreed, those that had to go, too.
    agreed: usize,
    /// Those that agreed since the sender last went on as before.
    in_a_row: usize,
    /// Frames of the same sender that were admitted since the first of these came.
    rivals: usize,
    /// The first was ahead of its sender's others when it came.
    came_ahead: bool,
    /// The sender says that it ends where these end.
    ends: bool,
}

impl<F> Cluster<F> {
    /// One frame, which came ahead of the others of its sender or not.
    pub(super) fn new(
        claim: Claim,
        frame: F,
        bytes: usize,
        came_ahead: bool,
        now: Duration,
    ) -> Self {
        let mut line = Line::new(&claim, claim.number, now);
        line.next = claim.number.wrapping_add(claim.length);
        Self {
            line,
            since: now,
            frames: VecDeque::from([(claim, frame, bytes)]),
            bytes,
            agreed: 1,
            in_a_row: 1,
            rivals: 0,
            came_ahead,
            ends: false,
        }
    }

    /// Whether a frame continues these, comes a little late, or again.
    pub(super) fn agrees(&self, claim: &Claim, limits: &Limits, now: Duration) -> bool {
        if claim.session != self.line.session || claim.each != self.line.each {
            return false;
        }
        let ahead = self.line.distance(claim.number, limits);
        let near = match limits.origin {
            // Counts that begin anew follow on one another.
            Some(_) => (0..=8).contains(&ahead),
            None => ahead >= 0 && self.line.is_near(ahead, claim, limits, now),
        };
        let late = ahead < 0 && -samples(ahead, claim) <= AHEAD * limits.rate.to_f64();
        (near || late && !claim.end) && self.line.agrees_in_time(claim, limits)
    }

    /// Whether a frame with this number came before. Ends say again that they are meant.
    fn has(&self, claim: &Claim) -> bool {
        let last = self.frames.iter().rev().take(REMEMBERED);
        !claim.end
            && last
                .into_iter()
                .any(|(have, _, _)| have.number == claim.number)
    }

    pub(super) fn push(
        &mut self,
        claim: Claim,
        frame: F,
        bytes: usize,
        limits: &Limits,
        now: Duration,
    ) {
        let ahead = self.line.distance(claim.number, limits);
        self.ends |=
            claim.end && ahead == 0 && self.frames.iter().any(|(have, _, _)| have.length > 0);
        if ahead >= 0 {
            let count = claim.number;
            self.line.follow(&claim, count, limits, now);
        }
        let new = usize::from(!self.has(&claim));
        self.agreed += new;
        self.in_a_row += new;
        self.bytes += bytes;
        self.frames.push_back((claim, frame, bytes));
    }

    /// Its sender went on as before.
    pub(super) fn contradict(&mut self) {
        self.rivals += 1;
        self.in_a_row = 0;
    }

    /// Whether enough frames agree, the last [`ENOUGH`] of them with nothing between them that contradicts them: what is
    /// repeated beside a feed is as many frames as the feed.
    pub(super) fn is_confirmed(&self, enough: usize) -> bool {
        self.agreed >= enough && self.in_a_row >= ENOUGH || self.ends
    }

    /// Whether the sender went on as before in more frames than agree here.
    pub(super) fn is_contradicted(&self) -> bool {
        self.rivals >= self.agreed
    }

    /// Whether these are from before what another line expects, and were so when they came: a frame that was ahead did
    /// not become late by waiting. Frames with indices that are late are refused at once; those that wait are off.
    pub(super) fn is_late(&self, line: &Line, limits: &Limits) -> bool {
        limits.origin.is_some() && !self.came_ahead && self.first_distance(line, limits) < 0
    }

    /// How far the first frame is ahead of what another line expects.
    pub(super) fn first_distance(&self, line: &Line, limits: &Limits) -> i64 {
        self.frames
            .front()
            .map_or(0, |(claim, _, _)| line.distance(claim.number, limits))
    }

    /// Lets the frame that waited longest go.
    pub(super) fn drop_first(&mut self) -> Option<(F, usize)> {
        let (_, frame, bytes) = self.frames.pop_front()?;
        self.bytes -= bytes;
        Some((frame, bytes))
    }
}
