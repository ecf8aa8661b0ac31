//! All gap logic: placement of stamped blocks.
//!
//! Compares a stamp with the expected end of the file before (paper, listing 3.2). Corrections to the paper: the first
//! file is not a gap; the tolerance applies in both directions and is at least the stamps' resolution; the expectation
//! is the fitted line; gaps and steps never enter the rate.
//!
//! A single stamp is an outlier if the `next` one agrees with the old line, or is at least four times nearer to it.
//! Without `next` a disagreement counts, at no loss: a backward stamp opens a run, and the return is a gap. Below 2.5
//! periods it must be whole samples, as losses are and late stamps are not.
//!
//! Until scatter and rate are known, half a sample beyond the resolution is a gap, too: an unmeasured rate does not
//! explain lost samples.

use super::config::{
    COARSE_NS, COVERAGE_SIGMAS, GUESS_NS, HIDDEN_LATENCY, LATENCY_NS, PRIOR_SIGMA, WANDER,
};
use super::fit::HiddenGap;
use super::observation::Slope;
use super::{Clock, Placement, RunState, Stamp};
use crate::{Fixed, TimeError, civil};

/// Start dates of clocks without battery: Unix, GPS, DOS and common RTC epochs.
const EPOCHS: [(i32, u32, u32); 4] = [(1970, 1, 1), (1980, 1, 1), (1980, 1, 6), (2000, 1, 1)];
const EPOCH_DAYS: i64 = 30;
/// A first stamp farther back is a clock step, not a missing lock, ns.
const LOCK_REACH_NS: f64 = 60e9;
const LEAP_NS: f64 = 1e9;
const ALLOWED_RESOLUTIONS: f64 = 2.5;
/// With a known scatter, single stamps off by fewer periods must be off by whole samples.
const WHOLE_SAMPLE_PERIODS: f64 = 2.5;
/// Finer stamps, as a fraction of a period, resolve single samples.
const MAX_FINE_RESOLUTION: f64 = 0.2;
/// Samples over which a poor crystal gains or loses at most two.
const SHORT_SAMPLES: f64 = 2.0 / (COVERAGE_SIGMAS * PRIOR_SIGMA);
/// Allowed deviation of later stamps, in largest scatters of the first few.
const EARLY_SCATTER_FACTOR: f64 = 30.0;

impl Clock {
    /// Places `samples` samples stamped `stamp`; changes nothing.
    ///
    /// `next`, the stamp of the following recording if known, tells a wrong stamp from a step.
    ///
    /// # Errors
    /// [`TimeError::BadResolution`], [`TimeError::Overflow`].
    pub fn place(
        &self,
        stamp: &Stamp,
        samples: u64,
        next: Option<&Stamp>,
    ) -> Result<Placement, TimeError> {
        stamp.centre()?;
        let Some(run) = &self.state else {
            return Ok(Placement::First);
        };
        let expected = run.open_span.predict(run.end, &self.model)?;
        let off = minus(run.open_span.time_of(stamp, &self.model)?, expected)?;
        let slip = self.slip(run, stamp, 0);
        let far = off.to_f64();
        let follows = if far.abs() <= slip {
            !self.early_step(run, stamp, samples, next, far)?
                && !self.on_tick(run, stamp, samples, next, far)?
        } else if far.abs() <= self.early_latency(run, stamp) {
            !self.on_tick(run, stamp, samples, next, far)?
        } else {
            next.is_none() && !stamp.leap && !self.early() && !self.whole(run, stamp, far)
        };
        if follows {
            return Ok(Placement::Contiguous);
        }
        if stamp.leap && (off.to_f64() + LEAP_NS).abs() <= slip {
            return Ok(Placement::LeapSecond {
                by_ns: negated(off)?,
            });
        }
        if off > self.config.max_gap_ns && since_epoch(run.last_civil) {
            return Ok(Placement::Lock);
        }
        if let Some(next) = next
            && let Some(found) = self.look_ahead(run, stamp, samples, next, off.to_f64())?
        {
            return Ok(found);
        }
        if off < Fixed::ZERO {
            return Ok(Placement::Backward {
                by_ns: negated(off)?,
            });
        }
        let samples = if off > self.config.max_gap_ns {
            None
        } else {
            Some(self.gap_samples(off)?)
        };
        Ok(Placement::Gap {
            samples,
            duration_ns: off,
        })
    }

    /// Whether a second stamp is a step although a wrong nominal rate could explain it, which would double the next
    /// offset.
    fn early_step(
        &self,
        run: &RunState,
        stamp: &Stamp,
        samples: u64,
        next: Option<&Stamp>,
        off: f64,
    ) -> Result<bool, TimeError> {
        let Some(next) = next.filter(|_| self.model.running.points == 1) else {
            return Ok(false);
        };
        let mut tight = self.tolerance(run, stamp);
        if !self.is_short(run, 0) {
            // Over a long time a crystal within tolerance drifts as much.
            tight = tight.max((WHOLE_SAMPLE_PERIODS * self.period()).min(LATENCY_NS));
        }
        tight *= 1.5;
        if off.abs() <= tight {
            return Ok(false);
        }
        let elapsed = run.open_span.x_of(run.end) - run.open_span.fit.last.x;
        let ahead = samples as f64 * self.period();
        let more = self.next_off(run, samples, next)? - off;
        let by_rate = off * ahead / elapsed.max(1.0);
        Ok(more.abs() <= tight && (more - by_rate).abs() > tight)
    }

    /// Whether early stamps are off by whole samples from the first's ticks, to the last digit: samples were lost or
    /// repeated, even if a wrong nominal rate could explain it.
    fn on_tick(
        &self,
        run: &RunState,
        stamp: &Stamp,
        samples: u64,
        next: Option<&Stamp>,
        off: f64,
    ) -> Result<bool, TimeError> {
        let (resolution, period) = (resolution(run, stamp), self.period());
        let early = self.early();
        // With jitter below half a period, only a wrong rate misleads, which the next stamp shows; over a short time
        // not even that.
        let share = match next {
            _ if self.is_short(run, 0) && !self.model.jitter.exceeds(resolution) => {
                MAX_FINE_RESOLUTION
            }
            Some(_) if 6.0 * GUESS_NS <= period => MAX_FINE_RESOLUTION,
            Some(_) => 0.01,
            None => 0.001,
        };
        let fine = resolution <= share * period;
        // Two stamps are each rounded; a line through more may be off by half a width.
        let widths = if run.points == 1 { 1.0 } else { 1.5 };
        let mut slack = widths * resolution + 2.0;
        if self.is_short(run, 0) {
            let drift = self.drift(run, stamp, 0) + PRIOR_SIGMA * off.abs();
            slack += drift.min(0.01 * period);
        }
        if !(early && fine) || off.abs() < 0.5 * period || off_whole_periods(off, period) > slack {
            return Ok(false);
        }
        let Some(next) = next else {
            return Ok(true);
        };
        let more = self.next_off(run, samples, next)? - off;
        let elapsed = (run.open_span.x_of(run.end) - run.open_span.fit.last.x).max(1.0);
        let by_rate = off * (samples as f64 * period) / elapsed;
        // Twice the offset suggests a wrong rate, but lost samples soon imply an impossible one.
        let is_rate = off.abs() <= COVERAGE_SIGMAS * PRIOR_SIGMA * elapsed
            && (more - by_rate).abs() <= 0.5 * period;
        Ok(off_whole_periods(more, period) <= slack && !is_rate)
    }

    /// Whether a disagreement needs no second stamp: it is large, or whole samples.
    fn whole(&self, run: &RunState, stamp: &Stamp, off: f64) -> bool {
        let Slope { value, half } = run.open_span.rate(&self.model);
        let period = self.period() * (1.0 + value);
        let exact = self.scatter(run, stamp) + self.drift(run, stamp, 0) + half * off.abs();
        self.config.gap_slip_ns.is_some()
            || off.abs() > WHOLE_SAMPLE_PERIODS * period
            || off_whole_periods(off, period) <= exact
    }

    fn next_off(&self, run: &RunState, samples: u64, next: &Stamp) -> Result<f64, TimeError> {
        let overflow = TimeError::Overflow { what: "index" };
        let after = run.end.checked_add_unsigned(samples).ok_or(overflow)?;
        let expected = run.open_span.predict(after, &self.model)?;
        let next = run.open_span.time_of(next, &self.model)?;
        Ok(minus(next, expected)?.to_f64())
    }

    fn look_ahead(
        &self,
        run: &RunState,
        stamp: &Stamp,
        samples: u64,
        next: &Stamp,
        off: f64,
    ) -> Result<Option<Placement>, TimeError> {
        let from_old = self.next_off(run, samples, next)?;
        let from_new = from_old - off;
        let slip = self.slip(run, next, samples);
        if from_old.abs() <= slip && from_new.abs() > slip || 4.0 * from_old.abs() < off.abs() {
            return Ok(Some(Placement::Outlier));
        }
        let agrees = from_new.abs() <= self.slip(run, stamp, samples).max(slip);
        let before_lock = off > -LOCK_REACH_NS && off < -WHOLE_SAMPLE_PERIODS * self.period();
        let lone_first = run.points == 1 && before_lock;
        Ok((agrees && lone_first).then_some(Placement::Lock))
    }

    /// Largest disagreement that is neither gap nor step.
    fn slip(&self, run: &RunState, stamp: &Stamp, ahead: u64) -> f64 {
        match self.config.gap_slip_ns {
            Some(slip) if slip >= ALLOWED_RESOLUTIONS * resolution(run, stamp) => slip,
            _ => self.tolerance(run, stamp) + self.drift(run, stamp, ahead),
        }
    }

    /// Time uncertainty from the rate since the last stamp, ns.
    fn drift(&self, run: &RunState, stamp: &Stamp, ahead: u64) -> f64 {
        let mut half = run.open_span.rate(&self.model).half;
        if self.model.running.points <= 2 {
            // Two stamps may have a gap between them.
            half = half.max(COVERAGE_SIGMAS * PRIOR_SIGMA);
        }
        if self.early() && self.is_short(run, ahead) {
            half = half.min(PRIOR_SIGMA);
        }
        if let Some(steady) = self.steady(run, stamp) {
            half = half.min(steady);
        }
        (half + WANDER) * self.elapsed(run, ahead)
    }

    fn elapsed(&self, run: &RunState, ahead: u64) -> f64 {
        run.open_span.x_of(run.end) - run.open_span.fit.last.x + ahead as f64 * self.period()
    }

    /// Whether a wrong nominal rate can hide at most two samples since the last stamp.
    fn is_short(&self, run: &RunState, ahead: u64) -> bool {
        self.elapsed(run, ahead) <= SHORT_SAMPLES * self.period()
    }

    fn early(&self) -> bool {
        self.config.gap_slip_ns.is_none() && !self.model.jitter.known()
    }

    /// Possible latency of early fine stamps, ns; 0 if their resolution covers it, or below half a sample.
    fn early_latency(&self, run: &RunState, stamp: &Stamp) -> f64 {
        let (resolution, period) = (resolution(run, stamp), self.period());
        let exact = resolution >= GUESS_NS || self.steady(run, stamp).is_some();
        if !self.early() || exact || 6.0 * GUESS_NS <= period {
            return 0.0;
        }
        let latency = match self.model.jitter.seen() {
            Some(worst) => (EARLY_SCATTER_FACTOR * worst).min(WHOLE_SAMPLE_PERIODS * period),
            None => WHOLE_SAMPLE_PERIODS * period,
        };
        ALLOWED_RESOLUTIONS * resolution + latency + self.drift(run, stamp, 0)
    }

    /// The gap that a contiguous stamp may hide: more than its resolution, and a sample or more.
    pub(super) fn hidden_gap(
        &self,
        run: &RunState,
        stamp: &Stamp,
    ) -> Result<Option<HiddenGap>, TimeError> {
        let (width, period) = (resolution(run, stamp), self.period());
        if self.config.gap_slip_ns.is_some() || !self.is_short(run, 0) {
            return Ok(None);
        }
        let expected = run.open_span.predict(run.end, &self.model)?;
        let time = run.open_span.time_of(stamp, &self.model)?;
        let off = minus(time, expected)?.to_f64().abs();
        let drift = self.drift(run, stamp, 0);
        let explained = if self.early() {
            off <= 0.25 * period || width > period && off <= width
        } else {
            off <= 0.75 * width + drift || !self.model.jitter.only_rounding(width)
        };
        let (reach, least) = (off + width.min(period) + drift, 0.75 * period);
        Ok((!explained && reach >= least).then_some(HiddenGap { reach, least }))
    }

    /// The constant part of the slip.
    fn tolerance(&self, run: &RunState, stamp: &Stamp) -> f64 {
        let scatter = self.scatter(run, stamp);
        let period = self.period();
        match self.config.gap_slip_ns {
            Some(slip) => slip.max(ALLOWED_RESOLUTIONS * resolution(run, stamp)),
            None if self.steady(run, stamp).is_some() => scatter.max(0.5 * period),
            None if self.model.jitter.known() => {
                let resolution = resolution(run, stamp);
                let model = scatter.max(0.5 * period);
                if resolution <= period && self.model.jitter.only_rounding(resolution) {
                    model.min(0.5 * period + resolution)
                } else {
                    model
                }
            }
            None => {
                let resolution = resolution(run, stamp);
                if resolution > period {
                    scatter
                } else {
                    0.5 * period + resolution
                }
            }
        }
    }

    /// Distance of a stamp from the line by resolution and jitter, ns.
    fn scatter(&self, run: &RunState, stamp: &Stamp) -> f64 {
        // One width between line and stamp, half a width to the stamp's centre, and jitter of half a width to either
        // side.
        let resolution = resolution(run, stamp);
        let jitter = if self.steady(run, stamp).is_some() {
            0.0
        } else if self.model.jitter.known() {
            self.model.jitter.bound(resolution)
        } else if resolution >= COARSE_NS {
            HIDDEN_LATENCY * resolution
        } else {
            GUESS_NS.max(resolution)
        };
        ALLOWED_RESOLUTIONS * resolution + 3.0 * jitter
    }

    fn steady(&self, run: &RunState, stamp: &Stamp) -> Option<f64> {
        let resolution = resolution(run, stamp);
        let fine = resolution <= MAX_FINE_RESOLUTION * self.period();
        fine.then(|| self.model.steady.slope(resolution))?
    }

    fn period(&self) -> f64 {
        1e9 / self.config.reference().to_f64()
    }

    /// At the current rate, at least one.
    fn gap_samples(&self, gap: Fixed) -> Result<u64, TimeError> {
        u64::try_from(self.samples_in(gap)?.round().max(1)).map_err(|_| TimeError::Overflow {
            what: "gap in samples",
        })
    }
}

fn resolution(run: &RunState, stamp: &Stamp) -> f64 {
    stamp.resolution.to_f64().max(run.open_span.fit.last.width)
}

fn off_whole_periods(off: f64, period: f64) -> f64 {
    (off - (off / period).round() * period).abs()
}

fn since_epoch(time: Fixed) -> bool {
    let day = i128::from(86_400 * civil::NS_PER_S);
    EPOCHS.iter().any(|&(y, m, d)| {
        civil::days_from_ymd(y, m, d)
            .is_some_and(|e| (e..e + EPOCH_DAYS).contains(&(time.floor().div_euclid(day) as i64)))
    })
}

fn minus(a: Fixed, b: Fixed) -> Result<Fixed, TimeError> {
    a.checked_sub(b).ok_or(TimeError::Overflow {
        what: "time between stamps",
    })
}

fn negated(a: Fixed) -> Result<Fixed, TimeError> {
    a.checked_neg().ok_or(TimeError::Overflow {
        what: "time between stamps",
    })
}
