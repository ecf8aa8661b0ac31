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

use super::config::{COVER, PRIOR_SIGMA, WANDER};
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
        let centre = stamp.centre()?;
        let Some(run) = &self.state else {
            return Ok(Placement::First);
        };
        let expected = run.stretch.predict(run.end, &self.learned)?;
        let off = minus(centre, expected)?;
        let slip = self.slip(run, stamp, 0);
        if off.to_f64().abs() <= slip
            && !self.early_step(run, stamp, samples, next, off.to_f64())?
        {
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
            Some(self.samples_in(off)?)
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
        // Half as much again, for jitter that is not known yet.
        let tight = 1.5 * self.tolerance(run, stamp);
        if off.abs() <= tight {
            return Ok(false);
        }
        let elapsed = run.stretch.x_of(run.end) - run.stretch.fit.last.x;
        let ahead = samples as f64 * self.period();
        let more = self.next_off(run, samples, next)? - off;
        let by_rate = off * ahead / elapsed.max(1.0);
        Ok(more.abs() <= tight && (more - by_rate).abs() > tight)
    }

    /// The next stamp's distance from the line, ns.
    fn next_off(&self, run: &RunState, samples: u64, next: &Stamp) -> Result<f64, TimeError> {
        let overflow = TimeError::Overflow { what: "index" };
        let after = run.end.checked_add_unsigned(samples).ok_or(overflow)?;
        let expected = run.stretch.predict(after, &self.learned)?;
        Ok(minus(next.centre()?, expected)?.to_f64())
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
        let lone_first = run.points == 1 && off < 0.0 && off > -LOCK_REACH_NS;
        Ok((agrees && lone_first).then_some(Placement::Lock))
    }

    /// Largest disagreement that is neither gap nor step, `ahead` samples after
    /// the end.
    fn slip(&self, run: &RunState, stamp: &Stamp, ahead: u64) -> f64 {
        let last = run.stretch.fit.last;
        let mut half = run.stretch.rate(&self.learned).half;
        if self.learned.running.points <= 2 {
            // Two stamps make a rate, but a gap between them would make it too.
            half = half.max(COVER * PRIOR_SIGMA);
        }
        let elapsed = run.stretch.x_of(run.end) - last.x + ahead as f64 * self.period();
        let drift = (half + WANDER) * elapsed;
        match self.config.gap_slip_ns {
            Some(slip) if slip >= SPAN * stamp.resolution.to_f64().max(last.width) => slip,
            _ => self.tolerance(run, stamp) + drift,
        }
    }

    /// The part of the slip that does not grow with time.
    fn tolerance(&self, run: &RunState, stamp: &Stamp) -> f64 {
        // Line and stamp may lie at opposite ends of what a resolution allows: one
        // width between them, half a width from the stamp to its centre; and rounding
        // may hide jitter of another half to either side.
        let resolution = stamp.resolution.to_f64().max(run.stretch.fit.last.width);
        let allowed = SPAN * resolution;
        match self.config.gap_slip_ns {
            Some(slip) => slip.max(allowed),
            None => {
                (2.5 * self.period()).max(allowed + 3.0 * self.learned.jitter.bound(resolution))
            }
        }
    }

    fn period(&self) -> f64 {
        1e9 / self.config.reference().to_f64()
    }

    /// A gap's length in samples at the running rate, at least one.
    fn samples_in(&self, gap: Fixed) -> Result<u64, TimeError> {
        let nominal = self.config.reference().samples_in(gap)?;
        let slope = self.slope().value;
        // The correction is small, so a float holds it; the nominal part is exact.
        let correction = Fixed::from_f64_nearest(-nominal.to_f64() * slope / (1.0 + slope))?;
        let samples = nominal.checked_add(correction).map(Fixed::round);
        let overflow = TimeError::Overflow {
            what: "gap in samples",
        };
        u64::try_from(samples.ok_or(overflow.clone())?.max(1)).map_err(|_| overflow)
    }
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
