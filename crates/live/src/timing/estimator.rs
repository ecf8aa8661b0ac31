//! Estimates the civil time of a feed's samples from sender stamps or arrival times.
//!
//! A sender's stamp is right within its resolution. Arrivals are late by the network delay, so only the quickest are
//! informative. Each block (a second of samples) gives a *point*: an index and the deviation of its stamp, or of its
//! earliest arrival, from the nominal rate. A line is fitted to the last [`FIT_POINTS`] points: slope by Theil–Sen (up
//! to 29 % outliers), height the median residual of stamps, or the minimum of arrivals. The minimum delay is
//! unobservable and stays in the times.
//!
//! Published times never change, and increase: a new line starts where the old one ends and meets its own fit a block
//! later, with corrections of at most one part in a thousand. Stamps of a sent *recording* are exact and not fitted.
//!
//! A *clock step* is stated by the sender, or is a stamp further than `step_ns` from the line; for arrivals, the caller
//! reports that this machine's clock was set. A step starts a run with its own points at the same rate.

use std::collections::VecDeque;
use std::sync::Arc;

use isochrony_time::{Fixed, Rate, RunId};

use super::feed_clock::{Drift, FeedClock, Knot, STAMP_RESOLUTION_NS, fixed};

/// Points of a fit.
pub const FIT_POINTS: usize = 64;
/// Below it, the nominal rate is used.
const MIN_FIT_POINTS: usize = 8;
/// Largest relative correction of the sample period.
const MAX_CORRECTION: f64 = 1e-3;

/// Source of stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampSource {
    /// The sender's clock.
    Sender,
    /// Exact; only the sender states clock steps.
    Recording,
    /// The receiver's clock, on arrival.
    Arrival,
}

/// Fits a feed's clock to stamps.
#[derive(Debug)]
pub struct ClockEstimator {
    source: StampSource,
    rate: Rate,
    period: f64,
    /// Deviation of a stamp that is a clock step.
    step_ns: f64,
    block: i64,
    clock: Arc<FeedClock>,
    run: u32,
    has_stamps: bool,
    run_fit: Option<RunFit>,
    /// Ns per sample beyond the nominal period, over all runs.
    drift: f64,
}

#[derive(Debug)]
struct RunFit {
    origin: (i64, Fixed),
    points: VecDeque<(f64, f64)>,
    block_start: i64,
    block_point: (f64, f64),
    /// Height of the line at the origin, and distance of the points from it.
    height: f64,
    scatter: f64,
}

impl ClockEstimator {
    /// `step_ns`: least deviation of a stamp that is a clock step.
    #[must_use]
    pub fn new(source: StampSource, rate: Rate, step_ns: f64) -> Self {
        let hz = rate.to_f64();
        Self {
            source,
            rate,
            period: 1e9 / hz,
            step_ns,
            block: (hz as i64).clamp(1, 1 << 40),
            clock: Arc::new(FeedClock::new(rate)),
            run: 0,
            has_stamps: false,
            run_fit: None,
            drift: 0.0,
        }
    }

    /// Continues after another process's last run: the first stamp starts the next one.
    #[must_use]
    pub(crate) fn resumed(mut self, run: u32) -> Self {
        (self.run, self.has_stamps) = (run, true);
        self
    }

    pub(crate) fn run(&self) -> u32 {
        self.run
    }

    /// The clock that it maintains.
    #[must_use]
    pub fn clock(&self) -> &Arc<FeedClock> {
        &self.clock
    }

    /// Starts a run with another stamp source.
    pub fn set_stamp_source(&mut self, source: StampSource) {
        self.source = source;
    }

    /// Estimated sample rate.
    #[must_use]
    pub fn rate_hz(&self) -> f64 {
        1e9 / (self.period + self.drift)
    }

    /// Adds the stamp, ns since 1970, of the sample at `index`, which never decreases. Returns the runs before and
    /// after a clock step. `clock_was_set`: a known one.
    pub fn add_stamp(
        &mut self,
        index: i64,
        civil: i64,
        clock_was_set: bool,
    ) -> Option<(RunId, RunId)> {
        self.add_exact_stamp(
            index,
            Fixed::from_int(civil),
            (Fixed::ZERO, 1),
            clock_was_set,
        )
    }

    /// As [`add_stamp`](Self::add_stamp); for a recording with the deviation from the nominal duration over so many
    /// samples.
    pub fn add_exact_stamp(
        &mut self,
        index: i64,
        civil: Fixed,
        drift: (Fixed, u64),
        clock_was_set: bool,
    ) -> Option<(RunId, RunId)> {
        let had_stamps = std::mem::replace(&mut self.has_stamps, true);
        if self.source == StampSource::Recording {
            self.run_fit = None;
            let starts_run = had_stamps && clock_was_set;
            self.clock.set_exact(index, civil, drift, starts_run);
            return starts_run.then(|| self.next_run());
        }
        let Some(fit) = &mut self.run_fit else {
            self.begin_run(index, civil, had_stamps);
            return had_stamps.then(|| self.next_run());
        };
        let x = index.saturating_sub(fit.origin.0) as f64;
        let nominal = self
            .rate
            .duration_ns(index.saturating_sub(fit.origin.0))
            .ok();
        let since = civil.checked_sub(fit.origin.1);
        let y = nominal
            .zip(since)
            .and_then(|(nominal, since)| since.checked_sub(nominal));
        let y = y.map_or(f64::INFINITY, Fixed::to_f64);
        let off = y - (fit.height + self.drift * x);
        if clock_was_set
            || self.source == StampSource::Sender && off.abs() > self.step_ns
            || !y.is_finite()
        {
            self.begin_run(index, civil, true);
            return Some(self.next_run());
        }
        if index.saturating_sub(fit.block_start) >= self.block {
            if fit.points.len() == FIT_POINTS {
                fit.points.pop_front();
            }
            fit.points.push_back(fit.block_point);
            fit.block_start = index;
            fit.block_point = (x, y);
            self.refit(index);
        } else if self.source == StampSource::Arrival
            && off < fit.block_point.1 - (fit.height + self.drift * fit.block_point.0)
        {
            fit.block_point = (x, y);
            if fit.points.is_empty() && off < 0.0 {
                // Before the first point, the quickest frame counts.
                fit.height += off;
                self.add_knot(index);
            }
        }
        None
    }

    /// Samples from `index` on have no time. Returns as [`add_stamp`](Self::add_stamp).
    pub fn add_untimed(&mut self, index: i64, clock_was_set: bool) -> Option<(RunId, RunId)> {
        let had_stamps = std::mem::replace(&mut self.has_stamps, true);
        self.clock.set_untimed(index);
        (had_stamps && clock_was_set).then(|| self.next_run())
    }

    fn next_run(&mut self) -> (RunId, RunId) {
        self.run += 1;
        (RunId(self.run - 1), RunId(self.run))
    }

    fn begin_run(&mut self, index: i64, civil: Fixed, is_later: bool) {
        let scatter = match self.source {
            StampSource::Sender | StampSource::Recording => STAMP_RESOLUTION_NS,
            StampSource::Arrival => 1e6,
        };
        self.run_fit = Some(RunFit {
            origin: (index, civil),
            points: VecDeque::with_capacity(FIT_POINTS),
            block_start: index,
            block_point: (0.0, 0.0),
            height: 0.0,
            scatter,
        });
        let knot = Knot {
            index,
            civil: Some(civil),
            drift: Drift::PerSample(self.drift),
            resolution: scatter,
            announced: None,
        };
        self.clock.push_knot(knot, is_later);
    }

    fn refit(&mut self, now: i64) {
        let Some(fit) = &mut self.run_fit else {
            return;
        };
        let points = &fit.points;
        if points.len() >= MIN_FIT_POINTS {
            let pairs = points.iter().enumerate().flat_map(|(k, a)| {
                let later = points.iter().skip(k + 1);
                later.map(move |b| (b.1 - a.1) / (b.0 - a.0))
            });
            let mut slopes: Vec<f64> = pairs.filter(|slope| slope.is_finite()).collect();
            let most = MAX_CORRECTION * self.period;
            self.drift = quantile(&mut slopes, 0.5).clamp(-most, most);
        }
        let left = points.iter().map(|(x, y)| y - self.drift * x);
        let mut left: Vec<f64> = left.collect();
        let middle = quantile(&mut left, 0.5);
        fit.height = match self.source {
            StampSource::Sender | StampSource::Recording => middle,
            StampSource::Arrival => quantile(&mut left, 0.0),
        };
        let mut off: Vec<f64> = left.iter().map(|y| (y - fit.height).abs()).collect();
        // Twice the median absolute residual, at least the resolution.
        let least = match self.source {
            StampSource::Sender | StampSource::Recording => STAMP_RESOLUTION_NS,
            StampSource::Arrival => 1e3,
        };
        fit.scatter = (2.0 * quantile(&mut off, 0.5)).max(least);
        self.add_knot(now);
    }

    /// Continues the published time, and meets the line a block later.
    fn add_knot(&self, now: i64) {
        let Some(fit) = &self.run_fit else {
            return;
        };
        let block = self.block as f64;
        let x = now.saturating_sub(fit.origin.0) as f64 + block;
        let due = fixed(fit.height + self.drift * x)
            .and_then(|off| fit.origin.1.checked_add(off))
            .zip(
                self.rate
                    .duration_ns(now.saturating_sub(fit.origin.0) + self.block)
                    .ok(),
            )
            .and_then(|(from, since)| from.checked_add(since));
        let told = self.clock.time_and_resolution(now).map(|(time, _)| time);
        let ahead = told.zip(self.rate.duration_ns(self.block).ok());
        let ahead = ahead.and_then(|(told, since)| told.checked_add(since));
        let (Some(due), Some(told), Some(ahead)) = (due, told, ahead) else {
            return;
        };
        let Some(off) = due.checked_sub(ahead) else {
            return;
        };
        let most = MAX_CORRECTION * self.period;
        let knot = Knot {
            index: now,
            civil: Some(told),
            drift: Drift::PerSample((off.to_f64() / block).clamp(-most, most)),
            resolution: fit.scatter,
            announced: None,
        };
        self.clock.push_knot(knot, false);
    }
}

fn quantile(numbers: &mut [f64], q: f64) -> f64 {
    if numbers.is_empty() {
        return 0.0;
    }
    let at = ((numbers.len() - 1) as f64 * q) as usize;
    *numbers.select_nth_unstable_by(at, f64::total_cmp).1
}
