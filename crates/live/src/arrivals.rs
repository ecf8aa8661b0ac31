//! The civil time of a feed's samples, from stamps that come with them or from when they arrived.
//!
//! What the sender stamps is the time but for its resolution. When a frame arrived is that and the way it had, which is
//! never shorter than some least and often longer, so only the quickest of many frames says much. Both give, once a
//! block (a second of samples), one *point*: the index of a sample and by how much its stamp deviates from the nominal
//! rate; of arrivals the earliest of the block. Through the last [`POINTS`] points goes a line: its slope is the median
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

mod clock;

pub use clock::LiveClock;
use clock::{Knot, LAST_DIGIT, Slope, fixed};

/// Points that a line is put through.
pub const POINTS: usize = 64;
/// Points from which on the rate is estimated; below, it is the nominal one.
const ENOUGH: usize = 8;
/// Largest correction of the time from one sample to the next.
const STEEPEST: f64 = 1e-3;

/// Where stamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The sender.
    Sender,
    /// A recording that is sent: they are exact, and a clock step is what the sender says is one.
    Recording,
    /// The clock of the machine at which frames arrive.
    Arrival,
}

/// Makes points of stamps and a clock of points.
#[derive(Debug)]
pub struct Arrivals {
    basis: Basis,
    rate: Rate,
    period: f64,
    /// A stamp of the sender further off than this, in ns, is a step.
    step_ns: f64,
    /// Samples of a block.
    block: i64,
    clock: Arc<LiveClock>,
    run: u32,
    /// Anything was stamped.
    begun: bool,
    run_state: Option<State>,
    /// Deviation from the nominal rate that runs have had, ns a sample.
    slope: f64,
}

#[derive(Debug)]
struct State {
    /// Deviations are counted from here.
    origin: (i64, Fixed),
    points: VecDeque<(f64, f64)>,
    /// The block that is being filled: its first index, and its point so far.
    begun: i64,
    best: (f64, f64),
    /// Height of the line at the origin and how far points lie from it.
    height: f64,
    scatter: f64,
}

impl Arrivals {
    /// Estimates from stamps. `step_ns`: how far off a sender's stamp means that its clock was set.
    #[must_use]
    pub fn new(basis: Basis, rate: Rate, step_ns: f64) -> Self {
        let hz = rate.to_f64();
        Self {
            basis,
            rate,
            period: 1e9 / hz,
            step_ns,
            block: (hz as i64).clamp(1, 1 << 40),
            clock: Arc::new(LiveClock::new(rate)),
            run: 0,
            begun: false,
            run_state: None,
            slope: 0.0,
        }
    }

    /// The clock that is fed.
    #[must_use]
    pub fn clock(&self) -> &Arc<LiveClock> {
        &self.clock
    }

    /// From the next stamp on, which begins a run, stamps are another's.
    pub fn change_basis(&mut self, basis: Basis) {
        self.basis = basis;
    }

    /// Samples in a second, as estimated.
    #[must_use]
    pub fn rate_hz(&self) -> f64 {
        1e9 / (self.period + self.slope)
    }

    /// Takes the stamp of the sample at `index`, ns since 1970; indices do not go back. `set`: the clock that stamps is
    /// known to have been set before it. If it was, in whichever way it is known: the run before and the one that begins.
    pub fn take(&mut self, index: i64, civil: i64, set: bool) -> Option<(RunId, RunId)> {
        self.take_stamp(index, Fixed::from_int(civil), (Fixed::ZERO, 1), set)
    }

    /// The same. Of a recording `drift` is by how much the time from this sample to the last of so many deviates from
    /// the nominal one; it is left alone otherwise.
    pub fn take_stamp(
        &mut self,
        index: i64,
        civil: Fixed,
        drift: (Fixed, u64),
        set: bool,
    ) -> Option<(RunId, RunId)> {
        let before = std::mem::replace(&mut self.begun, true);
        if self.basis == Basis::Recording {
            self.run_state = None;
            self.clock.tell(index, civil, drift);
            return (before && set).then(|| self.next_run());
        }
        let Some(state) = &mut self.run_state else {
            self.begin(index, civil);
            return before.then(|| self.next_run());
        };
        let x = index.saturating_sub(state.origin.0) as f64;
        let nominal = self
            .rate
            .duration_ns(index.saturating_sub(state.origin.0))
            .ok();
        let since = civil.checked_sub(state.origin.1);
        let y = nominal
            .zip(since)
            .and_then(|(nominal, since)| since.checked_sub(nominal));
        let y = y.map_or(f64::INFINITY, Fixed::to_f64);
        let off = y - (state.height + self.slope * x);
        if set || self.basis == Basis::Sender && off.abs() > self.step_ns || !y.is_finite() {
            self.begin(index, civil);
            return Some(self.next_run());
        }
        if index.saturating_sub(state.begun) >= self.block {
            if state.points.len() == POINTS {
                state.points.pop_front();
            }
            state.points.push_back(state.best);
            state.begun = index;
            state.best = (x, y);
            self.fit(index);
        } else if self.basis == Basis::Arrival
            && off < state.best.1 - (state.height + self.slope * state.best.0)
        {
            state.best = (x, y);
            if state.points.is_empty() && off < 0.0 {
                // Until there are points, the quickest frame so far is all there is.
                state.height += off;
                self.bend(index);
            }
        }
        None
    }

    /// Of a recording: samples from an index on have no time. If the clock was set before it: both runs.
    pub fn take_untimed(&mut self, index: i64, set: bool) -> Option<(RunId, RunId)> {
        let before = std::mem::replace(&mut self.begun, true);
        self.clock.tell_none(index);
        (before && set).then(|| self.next_run())
    }

    fn next_run(&mut self) -> (RunId, RunId) {
        self.run += 1;
        (RunId(self.run - 1), RunId(self.run))
    }

    fn begin(&mut self, index: i64, civil: Fixed) {
        let scatter = match self.basis {
            Basis::Sender | Basis::Recording => LAST_DIGIT,
            Basis::Arrival => 1e6,
        };
        self.run_state = Some(State {
            origin: (index, civil),
            points: VecDeque::with_capacity(POINTS),
            begun: index,
            best: (0.0, 0.0),
            height: 0.0,
            scatter,
        });
        self.clock.push(Knot {
            index,
            civil: Some(civil),
            slope: Slope::Each(self.slope),
            resolution: scatter,
        });
    }

    /// A line through the points.
    fn fit(&mut self, now: i64) {
        let Some(state) = &mut self.run_state else {
            return;
        };
        let points = &state.points;
        if points.len() >= ENOUGH {
            let pairs = points.iter().enumerate().flat_map(|(k, a)| {
                let later = points.iter().skip(k + 1);
                later.map(move |b| (b.1 - a.1) / (b.0 - a.0))
            });
            let mut slopes: Vec<f64> = pairs.filter(|slope| slope.is_finite()).collect();
            let most = STEEPEST * self.period;
            self.slope = quantile(&mut slopes, 0.5).clamp(-most, most);
        }
        let left = points.iter().map(|(x, y)| y - self.slope * x);
        let mut left: Vec<f64> = left.collect();
        let middle = quantile(&mut left, 0.5);
        state.height = match self.basis {
            Basis::Sender | Basis::Recording => middle,
            Basis::Arrival => quantile(&mut left, 0.0),
        };
        let mut off: Vec<f64> = left.iter().map(|y| (y - state.height).abs()).collect();
        // What half of the points are off, twice, and no less than what stamps can be told apart by.
        let least = match self.basis {
            Basis::Sender | Basis::Recording => LAST_DIGIT,
            Basis::Arrival => 1e3,
        };
        state.scatter = (2.0 * quantile(&mut off, 0.5)).max(least);
        self.bend(now);
    }

    /// The clock goes on from where it is and meets the line a block later.
    fn bend(&self, now: i64) {
        let Some(state) = &self.run_state else {
            return;
        };
        let block = self.block as f64;
        let x = now.saturating_sub(state.origin.0) as f64 + block;
        let due = fixed(state.height + self.slope * x)
            .and_then(|off| state.origin.1.checked_add(off))
            .zip(
                self.rate
                    .duration_ns(now.saturating_sub(state.origin.0) + self.block)
                    .ok(),
            )
            .and_then(|(from, since)| from.checked_add(since));
        let told = self.clock.at(now).map(|(time, _)| time);
        let ahead = told.zip(self.rate.duration_ns(self.block).ok());
        let ahead = ahead.and_then(|(told, since)| told.checked_add(since));
        let (Some(due), Some(told), Some(ahead)) = (due, told, ahead) else {
            return;
        };
        let Some(off) = due.checked_sub(ahead) else {
            return;
        };
        let most = STEEPEST * self.period;
        self.clock.push(Knot {
            index: now,
            civil: Some(told),
            slope: Slope::Each((off.to_f64() / block).clamp(-most, most)),
            resolution: state.scatter,
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
