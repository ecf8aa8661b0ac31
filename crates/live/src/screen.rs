//! Decides which of the frames that arrive belong to the feed. Pure: times are given, nothing waits.
//!
//! Over UDP anybody can send, packets arrive in any order, and a device may count wrong. So what arrives is compared
//! with what came before:
//!
//! - A frame is *plausible* if it continues the session that is heard: its number is at most [`AHEAD`] seconds of
//!   samples (and twice the time since the last frame) ahead, or it says itself that a gap lies between, which begins
//!   where the last frame ended; and its stamp is off by less than a clock step. It is admitted at once.
//! - Anything else *waits* in a cluster of frames that agree with one another: a counter or a stamp that jumped, a
//!   device that counts anew, another sender. A cluster is believed with its third frame ([`ENOUGH`]; [`RESTARTED`]
//!   for counts that go back, since late packets look like them), or when its sender says that it ends there, but not
//!   while as many frames go on as before, nor before three of it came with none of those between them. Then all of it is admitted, so waiting loses nothing. Another sender is
//!   admitted once the one before is silent for [`SILENT`], or was never confirmed itself.
//! - What nothing confirms is refused: as malformed, late, or another sender's.
//!
//! So one datagram with a far counter or stamp changes nothing, whoever sent it. Three that agree, with nothing between
//! them, are believed: without authentication nobody can tell them from a device that does count so.
//!
//! A connection has one peer and keeps the order of what it sends, so its frames are admitted at once, but for those
//! whose index or stamp jumps without the sender saying so; these are believed at the end if nothing contradicted them.

use std::time::Duration;

use isochrony_time::{Fixed, Rate};

mod cluster;

use cluster::{Cluster, Line};

/// Seconds of samples by which a frame may be ahead of what came before.
pub const AHEAD: f64 = 10.0;
/// Frames that agree and are believed, whatever they contradict.
pub const ENOUGH: usize = 3;
/// Packets whose counts follow on one another and are believed to be a count that began anew.
pub const RESTARTED: usize = 8;
/// A sender that sent nothing for so long may be followed by another.
pub const SILENT: Duration = Duration::from_secs(1);
/// A jump over more seconds of samples is never believed: a hundred years.
const FARTHEST: f64 = 3.2e9;
/// Clusters that wait at most.
const CLUSTERS: usize = 32;
/// Largest rate at which stamps and samples drift apart.
const DRIFT: f64 = 1e-3;
/// Counts of a feed stay below, so that sums of them fit.
const MOST: u64 = 1 << 62;

/// How frames number themselves, and what is plausible.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Nominal rate of the samples.
    pub rate: Rate,
    /// A stamp further off than this is a clock step, in ns.
    pub step_ns: f64,
    /// How long a frame that came early waits for those before it.
    pub reorder: Duration,
    /// Whether frames have one sender and come in order.
    pub stream: bool,
    /// Bits of a frame's number; it wraps if there are fewer than 64.
    pub bits: u32,
    /// Most bytes that wait to be confirmed.
    pub bytes: usize,
    /// Frames are packets that are counted, and may be counted anew: the count of a session's first one, whose
    /// predecessors may be late. None: frames have the indices of a session.
    pub origin: Option<u64>,
    /// Counts are numbers as they come, whichever packet was the first.
    pub absolute: bool,
}

/// What a frame says of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// Its sender, as far as it says who that is.
    pub session: u32,
    /// Its number: the index of its first sample, or a count of packets.
    pub number: u64,
    /// By how much the next number is higher: its samples, or one packet.
    pub length: u64,
    /// Samples of one number: 1, or those of a packet.
    pub each: u64,
    /// Numbers right before it that stand for nothing: a gap of the recording.
    pub gap: u64,
    /// Stamp of the first sample, ns since 1970.
    pub time: Option<Fixed>,
    /// The sender says that its clock was set before it.
    pub step: bool,
    /// The sender says that nothing follows.
    pub end: bool,
}

/// Why a frame is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its number or stamp contradicts the others of its sender.
    Malformed,
    /// It is from long ago.
    Late,
    /// It is another sender's.
    Foreign,
}

/// What becomes of a frame.
#[derive(Debug, PartialEq)]
pub enum Verdict<F> {
    /// It belongs to the feed.
    Admitted {
        /// What it says.
        claim: Claim,
        /// Its number, without wraps.
        count: u64,
        /// It is the first of another sender, or of one that counts anew.
        anew: bool,
        /// What belongs to it.
        frame: F,
    },
    /// It does not.
    Refused(Refusal, F),
}

/// Compares frames with those before them.
#[derive(Debug)]
pub struct Screen<F> {
    limits: Limits,
    line: Option<Line>,
    clusters: Vec<Cluster<F>>,
    bytes: usize,
    /// The sender said that nothing follows.
    ended: bool,
}

impl<F> Screen<F> {
    /// A screen that has seen nothing.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: None,
            clusters: Vec::new(),
            bytes: 0,
            ended: false,
        }
    }

    /// Bytes of frames that wait to be confirmed.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.bytes
    }

    /// The session that is heard.
    #[must_use]
    pub fn session(&self) -> Option<u32> {
        self.line.as_ref().map(|line| line.session)
    }

    /// Takes a frame of so many bytes that came at `now`; what is decided by it goes to `out`.
    pub fn take(
        &mut self,
        claim: Claim,
        frame: F,
        bytes: usize,
        now: Duration,
        out: &mut Vec<Verdict<F>>,
    ) {
        if claim.number >= MOST && self.limits.bits == 64 {
            out.push(Verdict::Refused(Refusal::Malformed, frame));
            return;
        }
        let Some(line) = &mut self.line else {
            if self.limits.stream {
                self.begin(&claim, now);
                self.admit(claim, frame, false, now, out);
                return;
            }
            self.wait(claim, frame, bytes, now, out);
            self.tick(now, out);
            return;
        };
        if line.session != claim.session {
            if self.limits.stream {
                self.begin(&claim, now);
                self.admit(claim, frame, true, now, out);
                return;
            }
            if self.ended {
                out.push(Verdict::Refused(Refusal::Foreign, frame));
                return;
            }
            self.wait(claim, frame, bytes, now, out);
            self.tick(now, out);
            return;
        }
        match line.judge(&claim, &self.limits, now) {
            Judgement::Plausible => self.admit(claim, frame, false, now, out),
            Judgement::Doubtful => {
                self.wait(claim, frame, bytes, now, out);
                self.tick(now, out);
            }
            Judgement::Refused(why) => out.push(Verdict::Refused(why, frame)),
        }
    }

    /// Decides what time alone decides.
    pub fn tick(&mut self, now: Duration, out: &mut Vec<Verdict<F>>) {
        while let Some(at) = self.believed(now) {
            self.accept(at, now, out);
        }
    }

    /// Nothing follows: what waits is decided.
    pub fn settle(&mut self, now: Duration, out: &mut Vec<Verdict<F>>) {
        self.tick(now, out);
        if self.line.is_none() && !self.clusters.is_empty() {
            // Nobody else is there; of several who say little, whoever said most.
            let most = (0..self.clusters.len())
                .max_by_key(|&at| (self.clusters[at].frames.len(), usize::MAX - at));
            self.accept(most.unwrap_or(0), now, out);
            self.tick(now, out);
        }
        if self.limits.stream {
            while !self.clusters.is_empty() {
                self.accept(0, now, out);
            }
        }
        while let Some(cluster) = self.clusters.pop() {
            self.refuse(cluster, out);
        }
    }

    /// The cluster that is to be admitted now.
    fn believed(&self, now: Duration) -> Option<usize> {
        let Some(line) = &self.line else {
            let alone = self.clusters.len() == 1;
            return self.clusters.iter().position(|cluster| {
                let waited = now.saturating_sub(cluster.since) >= self.limits.reorder;
                cluster.is_confirmed(ENOUGH) || alone && waited
            });
        };
        let free = line.frames < ENOUGH || now.saturating_sub(line.heard) >= SILENT;
        self.clusters.iter().position(|cluster| {
            if cluster.is_contradicted() {
                return false;
            }
            if cluster.line.session != line.session {
                return free && !self.ended && cluster.is_confirmed(ENOUGH);
            }
            let back = cluster.first_distance(line, &self.limits) < 0;
            cluster.is_confirmed(if back { RESTARTED } else { ENOUGH })
        })
    }

    /// Admits a cluster.
    fn accept(&mut self, at: usize, now: Duration, out: &mut Vec<Verdict<F>>) {
        let cluster = self.clusters.remove(at);
        let anew = self.line.as_ref().is_some_and(|line| {
            line.session != cluster.line.session || cluster.first_distance(line, &self.limits) < 0
        });
        if let Some(line) = self.line.as_mut().filter(|_| !anew) {
            line.jump();
        }
        for (k, (claim, frame, bytes)) in cluster.frames.into_iter().enumerate() {
            self.bytes -= bytes;
            if k == 0 && (anew || self.line.is_none()) {
                self.begin(&claim, now);
            }
            self.admit(claim, frame, anew && k == 0, now, out);
        }
    }

    /// Hears a sender from this frame on.
    fn begin(&mut self, claim: &Claim, now: Duration) {
        let origin = self.limits.origin.filter(|_| !self.limits.absolute);
        let count = origin.unwrap_or(claim.number);
        self.line = Some(Line::new(claim, count, now));
        self.ended = false;
    }

    fn admit(
        &mut self,
        claim: Claim,
        frame: F,
        anew: bool,
        now: Duration,
        out: &mut Vec<Verdict<F>>,
    ) {
        let Some(line) = &mut self.line else {
            return;
        };
        let count = line.count_of(&claim, &self.limits);
        let fits = count.and_then(|count| count.checked_add(claim.length));
        let fits = fits
            .and_then(|end| end.checked_mul(claim.each))
            .is_some_and(|end| end < MOST);
        match count.filter(|_| fits) {
            Some(count) => {
                line.follow(&claim, count, &self.limits, now);
                let others = self.clusters.iter_mut();
                for cluster in others.filter(|cluster| cluster.line.session == claim.session) {
                    cluster.contradict();
                }
                self.ended |= claim.end;
                out.push(Verdict::Admitted {
                    claim,
                    count,
                    anew,
                    frame,
                });
            }
            None => out.push(Verdict::Refused(Refusal::Malformed, frame)),
        }
    }

    /// Keeps a frame until others confirm it.
    fn wait(
        &mut self,
        claim: Claim,
        frame: F,
        bytes: usize,
        now: Duration,
        out: &mut Vec<Verdict<F>>,
    ) {
        let limits = &self.limits;
        let agreeing = self
            .clusters
            .iter_mut()
            .find(|cluster| cluster.agrees(&claim, limits, now));
        self.bytes += bytes;
        match agreeing {
            Some(cluster) => cluster.push(claim, frame, bytes, limits, now),
            None => {
                if self.clusters.len() == CLUSTERS {
                    let least = (0..CLUSTERS).min_by_key(|&at| self.clusters[at].frames.len());
                    let cluster = self.clusters.remove(least.unwrap_or(0));
                    self.refuse(cluster, out);
                }
                let came_ahead = self.line.as_ref().is_some_and(|line| {
                    line.session == claim.session && line.distance(claim.number, &self.limits) >= 0
                });
                let cluster = Cluster::new(claim, frame, bytes, came_ahead, now);
                self.clusters.push(cluster);
            }
        }
        while self.bytes > self.limits.bytes {
            // The frames that waited longest of whoever sent most: the newest are those that may still be needed.
            let most = (0..self.clusters.len()).max_by_key(|&at| self.clusters[at].bytes);
            let Some(at) = most else { break };
            let why = self.refusal(&self.clusters[at]);
            if let Some((frame, bytes)) = self.clusters[at].drop_first() {
                self.bytes -= bytes;
                out.push(Verdict::Refused(why, frame));
            }
            if self.clusters[at].frames.is_empty() {
                self.clusters.remove(at);
            }
        }
    }

    fn refusal(&self, cluster: &Cluster<F>) -> Refusal {
        match &self.line {
            Some(line) if line.session != cluster.line.session => Refusal::Foreign,
            Some(line) if cluster.is_late(line, &self.limits) => Refusal::Late,
            _ => Refusal::Malformed,
        }
    }

    fn refuse(&mut self, cluster: Cluster<F>, out: &mut Vec<Verdict<F>>) {
        let why = self.refusal(&cluster);
        for (_, frame, bytes) in cluster.frames {
            self.bytes -= bytes;
            out.push(Verdict::Refused(why, frame));
        }
    }
}

/// What a frame looks like beside what came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Plausible,
    Doubtful,
    Refused(Refusal),
}

#[cfg(test)]
mod tests;
