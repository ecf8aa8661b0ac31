//! The published clock of a feed: piecewise linear between knots.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use isochrony_flow::{Cause, Clock};
use isochrony_time::{Fixed, Rate, Stamp};

/// An hour of blocks. A recording with a drifting clock has a knot per frame: half a minute at 48 kHz. Earlier indices
/// are extrapolated.
const MAX_KNOTS: usize = 4096;
#[derive(Debug, Clone, Copy)]
pub(super) struct Knot {
    pub(super) index: i64,
    /// None: samples have no time.
    pub(super) civil: Option<Fixed>,
    pub(super) drift: Drift,
    pub(super) resolution: f64,
    /// Time that earlier runs had reached, by their clocks, when later ones began.
    pub(super) announced: Option<i64>,
}

/// Deviation from the nominal sample period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Drift {
    /// Estimated nanoseconds per sample.
    PerSample(f64),
    /// Exact, over this many samples.
    Over(Fixed, u64),
}

impl Drift {
    fn over(self, samples: i64) -> Option<Fixed> {
        match self {
            Self::PerSample(ns) => fixed(ns * samples as f64),
            Self::Over(Fixed::ZERO, _) => Some(Fixed::ZERO),
            Self::Over(ns, over) => ns.checked_mul_ratio(samples, over.max(1)),
        }
    }
}

pub(super) const STAMP_RESOLUTION_NS: f64 = 1.0;

/// Times of a feed, shared by run and readers.
#[derive(Debug)]
pub struct FeedClock {
    rate: Rate,
    knots: RwLock<VecDeque<Knot>>,
    changes: AtomicU64,
}

impl FeedClock {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            knots: RwLock::new(VecDeque::new()),
            changes: AtomicU64::new(0),
        }
    }

    pub(super) fn time_and_resolution(&self, index: i64) -> Option<(Fixed, f64)> {
        // Each change is atomic, so poisoned knots are valid.
        let knots = self.knots.read().unwrap_or_else(PoisonError::into_inner);
        let after = knots.partition_point(|knot| knot.index <= index);
        let knot = knots.get(after.saturating_sub(1))?;
        Some((time_at(self.rate, knot, index)?, knot.resolution))
    }

    pub(super) fn set_exact(
        &self,
        index: i64,
        civil: Fixed,
        (drift, samples): (Fixed, u64),
        starts_run: bool,
    ) {
        let knot = Knot {
            index,
            civil: Some(civil),
            drift: Drift::Over(drift, samples.saturating_sub(1)),
            resolution: 0.0,
            announced: None,
        };
        // A knot on the last line is redundant.
        let straight = {
            let knots = self.knots.read().unwrap_or_else(PoisonError::into_inner);
            knots.back().is_some_and(|last| {
                let nominal = |knot: &Knot| matches!(knot.drift, Drift::Over(Fixed::ZERO, _));
                let told = time_at(self.rate, last, index);
                last.index < index && nominal(last) && nominal(&knot) && told == Some(civil)
            })
        };
        if !straight {
            self.push_knot(knot, starts_run);
        }
    }

    pub(super) fn set_untimed(&self, index: i64) {
        let is_known = {
            let knots = self.knots.read().unwrap_or_else(PoisonError::into_inner);
            knots.back().is_some_and(|last| last.civil.is_none())
        };
        if !is_known {
            let knot = Knot {
                index,
                civil: None,
                drift: Drift::Over(Fixed::ZERO, 0),
                resolution: 0.0,
                announced: None,
            };
            self.push_knot(knot, true);
        }
    }

    /// `starts_run`: the clock started anew; what it had announced is remembered.
    pub(super) fn push_knot(&self, mut knot: Knot, starts_run: bool) {
        let mut knots = self.knots.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = knots.back() {
            let reached = time_at(self.rate, last, knot.index).filter(|_| starts_run);
            let reached = reached.and_then(Fixed::round_i64);
            knot.announced = knot.announced.max(last.announced).max(reached);
        }
        while knots.back().is_some_and(|last| last.index >= knot.index) {
            knots.pop_back();
        }
        if knots.len() == MAX_KNOTS {
            knots.pop_front();
        }
        knots.push_back(knot);
        // Under the lock, consistently with the knots.
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Index, civil time, drift (estimated, or exact over samples), resolution, time announced by earlier runs.
type SentKnot = (
    i64,
    Option<i128>,
    Result<f64, (i128, u64)>,
    f64,
    Option<i64>,
);

fn sent(knot: &Knot) -> SentKnot {
    let drift = match knot.drift {
        Drift::PerSample(ns) => Ok(ns),
        Drift::Over(ns, samples) => Err((ns.to_bits(), samples)),
    };
    let civil = knot.civil.map(Fixed::to_bits);
    (knot.index, civil, drift, knot.resolution, knot.announced)
}

fn received((index, civil, drift, resolution, announced): SentKnot) -> Knot {
    let drift = match drift {
        Ok(ns) => Drift::PerSample(ns),
        Err((ns, samples)) => Drift::Over(Fixed::from_bits(ns), samples),
    };
    Knot {
        index,
        civil: civil.map(Fixed::from_bits),
        drift,
        resolution,
        announced,
    }
}

fn time_at(rate: Rate, knot: &Knot, index: i64) -> Option<Fixed> {
    let since = index.checked_sub(knot.index)?;
    let nominal = knot.civil?.checked_add(rate.duration_ns(since).ok()?)?;
    nominal.checked_add(knot.drift.over(since)?)
}

pub(super) fn fixed(ns: f64) -> Option<Fixed> {
    Fixed::from_f64_nearest(ns).ok()
}

impl Clock for FeedClock {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        for (out, &index) in out.iter_mut().zip(indices) {
            let time = self
                .time_and_resolution(index)
                .and_then(|(time, _)| time.round_i64());
            *out = time.unwrap_or(i64::MIN);
        }
        Ok(())
    }

    fn stamp(&self, index: i64) -> Option<Stamp> {
        let (time, ns) = self.time_and_resolution(index)?;
        let resolution = fixed(ns)?;
        if ns <= STAMP_RESOLUTION_NS {
            // A copy must not move the sender's own stamp.
            return Some(Stamp::new(time, resolution));
        }
        let begin = time.checked_sub(Fixed::from_bits(resolution.to_bits() / 2))?;
        Some(Stamp::new(begin, resolution))
    }

    fn announced_before(&self, index: i64) -> Option<i64> {
        let knots = self.knots.read().unwrap_or_else(PoisonError::into_inner);
        let after = knots.partition_point(|knot| knot.index <= index);
        knots.get(after.checked_sub(1)?)?.announced
    }

    /// The last knots. A repeated one replaces itself, and a replacement is repeated at the receiver.
    fn changes(&self, after: u64) -> Option<(u64, Vec<u8>)> {
        let knots = self.knots.read().unwrap_or_else(PoisonError::into_inner);
        let changes = self.changes.load(Ordering::Relaxed);
        let new = changes.checked_sub(after).filter(|&new| new > 0)?;
        let new = usize::try_from(new).map_or(knots.len(), |new| new.min(knots.len()));
        let new: Vec<_> = knots.range(knots.len() - new..).map(sent).collect();
        Some((changes, postcard::to_stdvec(&new).ok()?))
    }

    fn apply_changes(&self, changes: &[u8]) -> Result<(), Cause> {
        let knots: Vec<SentKnot> = postcard::from_bytes(changes)?;
        knots
            .into_iter()
            .for_each(|knot| self.push_knot(received(knot), false));
        Ok(())
    }
}
