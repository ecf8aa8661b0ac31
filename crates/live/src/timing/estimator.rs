//! The civil time of a feed's samples, from stamps that come with them or from when they arrived.
//!
//! What the sender stamps is the time but for its resolution. When a frame arrived is that and the way it had, which is
//! never shorter than some least and often longer, so only the quickest of many frames says much. Both give, once a
//! block (a second of samples), one *point*: the index of a sample and by how much its stamp deviates from the nominal
//! rate; of arrivals the earliest of the block. Through the last [`FIT_POINTS`] points goes a line: its slope is the median
//! of the slopes between all pairs of them (Theil and Sen; a third of the points may be anything), its height the
//! median of what is left (stamps) or the least (arrivals, whose delay is never negative). The delay that even the
//! quickest frame had is not known from this side, and is in the times.
//!
//! Times that were told are not taken back: a new line begins where the old one is and meets its own a block later, so
//! time is continuous and, corrections being parts in a thousand at most, goes forward.
//!
//! Stamps of a *recording*, which is sent on, are its exact times: nothing is fitted, the clock tells them as they are.
//!
//! A *clock step* is what the sender says is one, or a stamp further from the line than `step_ns`. For arrivals it is the
//! receiver's own clock that may be set: the caller notices (it has a monotonic one, too) and says so. A step begins a
//! run, whose points are its own; the rate carries over.

use std::collections::VecDeque;
use std::sync::Arc;

use isochrony_time::{Fixed, Rate, RunId};

use super::feed_clock::{Drift, FeedClock, Knot, STAMP_RESOLUTION_NS, fixed};

/// Points that a line is put through.
pub const FIT_POINTS: usize = 64;
/// Points from which on the rate is estimated; below, it is the nominal one.
const MIN_FIT_POINTS: usize = 8;
/// Largest correction of the time from one sample to the next.
const MAX_CORRECTION: f64 = 1e-3;

/// Where stamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampSource {
    /// The sender.
    Sender,
    /// A recording that is sent: they are exact, and a clock step is what the sender says is one.
    Recording,
    /// The clock of the machine at which frames arrive.
    Arrival,
}

/// Makes points of stamps and a clock of points.
#[derive(Debug)]
pub struct ClockEstimator {
    source: StampSource,
    rate: Rate,
    period: f64,
    /// A stamp of the sender further off than this, in ns, is a step.
    step_ns: f64,
    /// Samples of a block.
    block: i64,
    clock: Arc<FeedClock>,
    run: u32,
    /// Anything was stamped.
    has_stamps: bool,
    run_fit: Option<RunFit>,
    /// Deviation from the nominal rate that runs have had, ns a sample.
    drift: f64,
}

#[derive(Debug)]
struct RunFit {
    /// Deviations are counted from here.
    origin: (i64, Fixed),
    points: VecDeque<(f64, f64)>,
    /// The block that is being filled: its first index, and its point so far.
    block_start: i64,
    block_point: (f64, f64),
    /// Height of the line at the origin and how far points lie from it.
    height: f64,
    scatter: f64,
}

impl ClockEstimator {
    /// Estimates from stamps. `step_ns`: how far off a sender's stamp means that its clock was set.
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

    /// The clock that is fed.
    #[must_use]
    pub fn clock(&self) -> &Arc<FeedClock> {
        &self.clock
    }

    /// From the next stamp on, which begins a run, stamps are another's.
    pub fn set_stamp_source(&mut self, source: StampSource) {
        self.source = source;
    }

    /// Samples in a second, as estimated.
    #[must_use]
    pub fn rate_hz(&self) -> f64 {
        1e9 / (self.period + self.drift)
    }

    /// Takes the stamp of the sample at `index`, ns since 1970; indices do not go back. `set`: the clock that stamps is
    /// known to have been set before it. If it was, in whichever way it is known: the run before and the one that begins.
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

    /// The same. Of a recording `drift` is by how much the time from this sample to the last of so many deviates from
    /// the nominal one; it is left alone otherwise.
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
            self.clock.set_exact(index, civil, drift);
            return (had_stamps && clock_was_set).then(|| self.next_run());
        }
        let Some(fit) = &mut self.run_fit else {
            self.begin_run(index, civil);
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
            self.begin_run(index, civil);
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
                // Until there are points, the quickest frame so far is all there is.
                fit.height += off;
                self.add_knot(index);
            }
        }
        None
    }

    /// Of a recording: samples from an index on have no time. If the clock was set before it: both runs.
    pub fn add_untimed(&mut self, index: i64, clock_was_set: bool) -> Option<(RunId, RunId)> {
        let had_stamps = std::mem::replace(&mut self.has_stamps, true);
        self.clock.set_untimed(index);
        (had_stamps && clock_was_set).then(|| self.next_run())
    }

    fn next_run(&mut self) -> (RunId, RunId) {
        self.run += 1;
        (RunId(self.run - 1), RunId(self.run))
    }

    fn begin_run(&mut self, index: i64, civil: Fixed) {
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
        self.clock.push_knot(Knot {
            index,
            civil: Some(civil),
            drift: Drift::PerSample(self.drift),
            resolution: scatter,
        });
    }

    /// A line through the points.
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
        // What half of the points are off, twice, and no less than what stamps can be told apart by.
        let least = match self.source {
            StampSource::Sender | StampSource::Recording => STAMP_RESOLUTION_NS,
            StampSource::Arrival => 1e3,
        };
        fit.scatter = (2.0 * quantile(&mut off, 0.5)).max(least);
        self.add_knot(now);
    }

    /// The clock goes on from where it is and meets the line a block later.
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
        self.clock.push_knot(Knot {
            index: now,
            civil: Some(told),
            drift: Drift::PerSample((off.to_f64() / block).clamp(-most, most)),
            resolution: fit.scatter,
        });
    }
}

/// A quantile of numbers that are not empty, the lower neighbour's value.
fn quantile(numbers: &mut [f64], q: f64) -> f64 {
    if numbers.is_empty() {
        return 0.0;
    }
    let at = ((numbers.len() - 1) as f64 * q) as usize;
    *numbers.select_nth_unstable_by(at, f64::total_cmp).1
}
