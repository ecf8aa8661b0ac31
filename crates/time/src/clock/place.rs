//! Where a stamped stretch of samples belongs: the only gap logic there is.
//!
//! The paper's listing 3.2 compares a file's stamp with the expected end of the
//! one before. So does this, with its defects mended: the first file is no gap;
//! the tolerance holds in both directions and is never below the stamps'
//! resolution; the expectation is the fitted line, not the last stamp; gaps and
//! steps never enter the rate.
//!
//! One stamp alone cannot tell an outlier from a step: both disagree with the
//! line. The one after it can, where the caller knows it (`next`): if it agrees
//! with the old line, or is at least four times nearer to it, the stamp was an
//! outlier. Without `next` every disagreement is taken at its word; nothing is
//! lost then either, since a backward stamp opens a run and the return is a gap.
//! Only below 2.5 periods it must then be a whole number of samples, as losses
//! are and late stamps are not.
//!
//! Early in a signal, before scatter and rate are known, half a sample beyond the
//! stamps' resolution is a gap as well: a rate that nobody has measured does not
//! explain lost samples away.

use super::config::{COARSE_NS, COVER, GUESS_NS, LATENCY_NS, PRIOR_SIGMA, ROOM, WANDER};
use super::fit::{HiddenGap, Slope};
use super::{Clock, Placement, RunState, Stamp};
use crate::{Fixed, TimeError, civil};

/// Clocks without battery start here: Unix, GPS, DOS and common RTC epochs.
const EPOCHS: [(i32, u32, u32); 4] = [(1970, 1, 1), (1980, 1, 1), (1980, 1, 6), (2000, 1, 1)];
/// A clock that runs since its epoch has not run longer than this, days.
const EPOCH_DAYS: i64 = 30;
/// A first stamp further back than this is a clock step, not a missing lock, ns.
const LOCK_REACH_NS: f64 = 60e9;
const LEAP_NS: f64 = 1e9;
/// Resolutions that a stamp may be off by without anything having happened.
const SPAN: f64 = 2.5;
/// Periods below which one stamp alone must say that whole samples are missing,
/// once the scatter of stamps is known.
const EARLY: f64 = 2.5;
/// Stamps finer than this share of a period can tell one sample from none.
const FINE: f64 = 0.2;
/// Samples since the last stamp over which even a poor crystal gains or loses no
/// more than two.
const SHORT: f64 = 2.0 / (COVER * PRIOR_SIGMA);
/// Times the worst scatter of a few stamps that later ones may be off.
const SEEN: f64 = 30.0;

impl Clock {
    /// Where `samples` samples stamped `stamp` belong; changes nothing.
    ///
    /// `next` is the stamp of the recording after this one, where the caller
    /// knows it: it tells a wrong stamp from a real step.
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
        let expected = run.stretch.predict(run.end, &self.learned)?;
        let off = minus(run.stretch.time_of(stamp, &self.learned)?, expected)?;
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

    /// Whether a run's second stamp, though a wrong nominal rate could explain
    /// it, is a step: the one after it then keeps the same distance, where a
    /// wrong rate would have doubled it.
    fn early_step(
        &self,
        run: &RunState,
        stamp: &Stamp,
        samples: u64,
        next: Option<&Stamp>,
        off: f64,
    ) -> Result<bool, TimeError> {
        let Some(next) = next.filter(|_| self.learned.running.points == 1) else {
            return Ok(false);
        };
        let mut tight = self.tolerance(run, stamp);
        if !self.is_short(run, 0) {
            // Over a long time a crystal within its limits moves by this much, too.
            tight = tight.max((EARLY * self.period()).min(LATENCY_NS));
        }
        // Half as much again, for jitter that is not known yet.
        tight *= 1.5;
        if off.abs() <= tight {
            return Ok(false);
        }
        let elapsed = run.stretch.x_of(run.end) - run.stretch.fit.last.x;
        let ahead = samples as f64 * self.period();
        let more = self.next_off(run, samples, next)? - off;
        let by_rate = off * ahead / elapsed.max(1.0);
        Ok(more.abs() <= tight && (more - by_rate).abs() > tight)
    }

    /// Whether early stamps lie a whole number of samples off the ticks that the
    /// first stamp set, to within their own last digit. Chance hardly does that,
    /// and two times running never, so these samples were lost or repeated,
    /// though a wrong nominal rate could hide as many.
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
        // Where jitter cannot reach half a period, only a wrong rate could deceive,
        // and that the next stamp tells. Over a short time not even a rate does.
        let share = match next {
            _ if self.is_short(run, 0) && !self.learned.jitter.exceeds(resolution) => FINE,
            Some(_) if 6.0 * GUESS_NS <= period => FINE,
            Some(_) => 0.01,
            None => 0.001,
        };
        let fine = resolution <= share * period;
        // Two stamps are each rounded; a line through more may lie half a width off.
        let widths = if run.points == 1 { 1.0 } else { 1.5 };
        let mut slack = widths * resolution + 2.0;
        if self.is_short(run, 0) {
            let drift = self.drift(run, stamp, 0) + PRIOR_SIGMA * off.abs();
            slack += drift.min(0.01 * period);
        }
        if !(early && fine) || off.abs() < 0.5 * period || strays(off, period) > slack {
            return Ok(false);
        }
        let Some(next) = next else {
            return Ok(true);
        };
        let more = self.next_off(run, samples, next)? - off;
        let elapsed = (run.stretch.x_of(run.end) - run.stretch.fit.last.x).max(1.0);
        let by_rate = off * (samples as f64 * period) / elapsed;
        // As far off again is what a wrong rate does, but no clock's rate is as wrong as lost samples soon make it look.
        let is_rate =
            off.abs() <= COVER * PRIOR_SIGMA * elapsed && (more - by_rate).abs() <= 0.5 * period;
        Ok(strays(more, period) <= slack && !is_rate)
    }

    /// Whether a disagreement beyond the slip may be believed without a second
    /// stamp: it is large, or a whole number of samples.
    fn whole(&self, run: &RunState, stamp: &Stamp, off: f64) -> bool {
        let Slope { value, half } = run.stretch.rate(&self.learned);
        let period = self.period() * (1.0 + value);
        let exact = self.scatter(run, stamp) + self.drift(run, stamp, 0) + half * off.abs();
        self.config.gap_slip_ns.is_some()
            || off.abs() > EARLY * period
            || strays(off, period) <= exact
    }

    /// The next stamp's distance from the line, ns.
    fn next_off(&self, run: &RunState, samples: u64, next: &Stamp) -> Result<f64, TimeError> {
        let overflow = TimeError::Overflow { what: "index" };
        let after = run.end.checked_add_unsigned(samples).ok_or(overflow)?;
        let expected = run.stretch.predict(after, &self.learned)?;
        let next = run.stretch.time_of(next, &self.learned)?;
        Ok(minus(next, expected)?.to_f64())
    }

    /// What the stamp after this one reveals, if anything.
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
        let before_lock = off > -LOCK_REACH_NS && off < -EARLY * self.period();
        let lone_first = run.points == 1 && before_lock;
        Ok((agrees && lone_first).then_some(Placement::Lock))
    }

    /// Largest disagreement that is neither gap nor step, `ahead` samples after
    /// the end.
    fn slip(&self, run: &RunState, stamp: &Stamp, ahead: u64) -> f64 {
        match self.config.gap_slip_ns {
            Some(slip) if slip >= SPAN * resolution(run, stamp) => slip,
            _ => self.tolerance(run, stamp) + self.drift(run, stamp, ahead),
        }
    }

    /// What the rate's uncertainty amounts to since the last stamp, ns.
    fn drift(&self, run: &RunState, stamp: &Stamp, ahead: u64) -> f64 {
        let mut half = run.stretch.rate(&self.learned).half;
        if self.learned.running.points <= 2 {
            // Two stamps make a rate, but a gap between them would make it too.
            half = half.max(COVER * PRIOR_SIGMA);
        }
        if self.early() && self.is_short(run, ahead) {
            half = half.min(PRIOR_SIGMA);
        }
        if let Some(steady) = self.steady(run, stamp) {
            half = half.min(steady);
        }
        (half + WANDER) * self.elapsed(run, ahead)
    }

    /// Nominal time from the last stamp to `ahead` samples after the end, ns.
    fn elapsed(&self, run: &RunState, ahead: u64) -> f64 {
        run.stretch.x_of(run.end) - run.stretch.fit.last.x + ahead as f64 * self.period()
    }

    /// Whether a wrong nominal rate can hide two samples at most since the last stamp.
    fn is_short(&self, run: &RunState, ahead: u64) -> bool {
        self.elapsed(run, ahead) <= SHORT * self.period()
    }

    /// Whether the scatter of stamps is still to be learned, and nothing stated
    /// stands in for it.
    fn early(&self) -> bool {
        self.config.gap_slip_ns.is_none() && !self.learned.jitter.known()
    }

    /// How far early stamps of many digits may be off because a busy system wrote
    /// them late, ns. 0 where their resolution says all that is to be expected,
    /// and where such latencies do not reach half a sample.
    fn early_latency(&self, run: &RunState, stamp: &Stamp) -> f64 {
        let (resolution, period) = (resolution(run, stamp), self.period());
        let exact = resolution >= GUESS_NS || self.steady(run, stamp).is_some();
        if !self.early() || exact || 6.0 * GUESS_NS <= period {
            return 0.0;
        }
        let latency = match self.learned.jitter.seen() {
            Some(worst) => (SEEN * worst).min(EARLY * period),
            None => EARLY * period,
        };
        SPAN * resolution + latency + self.drift(run, stamp, 0)
    }

    /// The gap that a stamp which follows on may hide, if it disagrees by more than
    /// its resolution explains and a sample or more could be missing.
    pub(super) fn hidden_gap(
        &self,
        run: &RunState,
        stamp: &Stamp,
    ) -> Result<Option<HiddenGap>, TimeError> {
        let (width, period) = (resolution(run, stamp), self.period());
        if self.config.gap_slip_ns.is_some() || !self.is_short(run, 0) {
            return Ok(None);
        }
        let expected = run.stretch.predict(run.end, &self.learned)?;
        let time = run.stretch.time_of(stamp, &self.learned)?;
        let off = minus(time, expected)?.to_f64().abs();
        let drift = self.drift(run, stamp, 0);
        let explained = if self.early() {
            off <= 0.25 * period || width > period && off <= width
        } else {
            off <= 0.75 * width + drift || !self.learned.jitter.only_rounding(width)
        };
        let (reach, least) = (off + width.min(period) + drift, 0.75 * period);
        Ok((!explained && reach >= least).then_some(HiddenGap { reach, least }))
    }

    /// The part of the slip that does not grow with time.
    fn tolerance(&self, run: &RunState, stamp: &Stamp) -> f64 {
        let scatter = self.scatter(run, stamp);
        let period = self.period();
        match self.config.gap_slip_ns {
            Some(slip) => slip.max(SPAN * resolution(run, stamp)),
            None if self.steady(run, stamp).is_some() => scatter.max(0.5 * period),
            None if self.learned.jitter.known() => {
                let resolution = resolution(run, stamp);
                let learned = scatter.max(0.5 * period);
                if resolution <= period && self.learned.jitter.only_rounding(resolution) {
                    learned.min(0.5 * period + resolution)
                } else {
                    learned
                }
            }
            None => {
                // Rounding that is wider than a sample hides jitter of samples.
                let resolution = resolution(run, stamp);
                if resolution > period {
                    scatter
                } else {
                    0.5 * period + resolution
                }
            }
        }
    }

    /// How far a stamp may lie off the line by its resolution and its jitter, ns.
    fn scatter(&self, run: &RunState, stamp: &Stamp) -> f64 {
        // Line and stamp may lie at opposite ends of what a resolution allows: one
        // width between them, half a width from the stamp to its centre; and rounding
        // may hide jitter of another half to either side.
        let resolution = resolution(run, stamp);
        let jitter = if self.steady(run, stamp).is_some() {
            0.0
        } else if self.learned.jitter.known() {
            self.learned.jitter.bound(resolution)
        } else if resolution >= COARSE_NS {
            ROOM * resolution
        } else {
            GUESS_NS.max(resolution)
        };
        SPAN * resolution + 3.0 * jitter
    }

    /// Half-width of the rate where fine stamps keep to its ticks.
    fn steady(&self, run: &RunState, stamp: &Stamp) -> Option<f64> {
        let resolution = resolution(run, stamp);
        let fine = resolution <= FINE * self.period();
        fine.then(|| self.learned.steady.slope(resolution))?
    }

    fn period(&self) -> f64 {
        1e9 / self.config.reference().to_f64()
    }

    /// A gap's length in samples at the running rate, at least one.
    fn gap_samples(&self, gap: Fixed) -> Result<u64, TimeError> {
        u64::try_from(self.samples_in(gap)?.round().max(1)).map_err(|_| TimeError::Overflow {
            what: "gap in samples",
        })
    }
}

/// The coarser resolution of a stamp and the one before it, ns.
fn resolution(run: &RunState, stamp: &Stamp) -> f64 {
    stamp.resolution.to_f64().max(run.stretch.fit.last.width)
}

/// Distance from the nearest whole number of periods, ns.
fn strays(off: f64, period: f64) -> f64 {
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
