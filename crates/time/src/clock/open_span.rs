//! [`OpenSpan`]: the gap-free end of a run.

use super::Stamp;
use super::config::{MAX_SLOPE, WANDER};
use super::excluded::ExcludedStamps;
use super::fit::{Fit, FitLine, HiddenGap};
use super::model::ClockModel;
use super::observation::{Observation, Scatter, Slope};
use crate::{Fixed, Piece, Rate, RunId, TimeError};

/// Relative to `origin`, a line at the reference rate through the first stamp.
#[derive(Clone, Debug)]
pub(crate) struct OpenSpan {
    origin: Piece,
    start: i64,
    start_civil: Option<Fixed>,
    pub(crate) fit: Fit,
    range: (f64, f64),
    /// The next stamp decides whether it is an outlier.
    pending: Option<Observation>,
    /// Excluded stamps before the fit's last one, and behind.
    excluded: ExcludedStamps,
    excluded_behind: ExcludedStamps,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StampedBlock {
    pub(crate) index: i64,
    pub(crate) civil: Fixed,
    pub(crate) resolution: Fixed,
}

impl OpenSpan {
    /// `start` precedes the stamp only if earlier ones of the run were discarded. `not_before`: index and time before a
    /// gap.
    pub(crate) fn new(
        run: RunId,
        reference: Rate,
        stamp: StampedBlock,
        start: i64,
        not_before: Option<(i64, Fixed)>,
        model: &mut ClockModel,
    ) -> Result<Self, TimeError> {
        let origin = Piece::nominal(run, stamp.index, stamp.civil, reference);
        let first = Observation {
            index: stamp.index,
            x: 0.0,
            y: 0.0,
            width: stamp.resolution.to_f64(),
        };
        let floor = not_before.map(|(end, t)| {
            // A gap keeps a tenth of its indices' duration, or half of what the stamp says: it may have an index
            // without time.
            let samples = (i128::from(stamp.index) - i128::from(end)).max(1) as f64;
            let tenth = 0.1 * samples * origin.ns_per_sample();
            let lasted = stamp.civil.checked_sub(t).map_or(0.0, Fixed::to_f64);
            let half = 0.5 * lasted;
            (if half > 0.0 { tenth.min(half) } else { tenth }) - lasted
        });
        model.interrupt();
        let prior = model.slope(first.width);
        let prior = Slope {
            half: prior.half + WANDER,
            ..prior
        };
        let fit = Fit::new(first, prior, floor, model.scatter(first.width));
        model.jitter.add(first.x, first.centre());
        model.add_rate(&first);
        Ok(Self {
            origin,
            start,
            start_civil: None,
            fit,
            range: (0.0, 0.0),
            pending: None,
            excluded: ExcludedStamps::default(),
            excluded_behind: ExcludedStamps::default(),
        })
    }

    pub(crate) fn reach_back(&mut self, start: i64) {
        self.start = self.start.min(start);
    }

    pub(crate) fn x_of(&self, index: i64) -> f64 {
        (i128::from(index) - i128::from(self.origin.index)) as f64 * self.origin.ns_per_sample()
    }

    pub(crate) fn predict(&self, index: i64, model: &ClockModel) -> Result<Fixed, TimeError> {
        let (x, width) = (self.x_of(index), self.fit.last.width);
        let line = self
            .fit
            .line(model.scatter(width), self.x_of(self.start), x);
        let from = self.fit.last.x;
        let y = line.at(from) + self.rate(model).value * (x - from);
        self.civil(index, y)
    }

    /// Time of a stamp to compare with [`predict`](Self::predict): the middle of the last digit, or the stamp itself if
    /// the line goes through stamps. Mixing them is off by half a resolution.
    pub(crate) fn time_of(&self, stamp: &Stamp, model: &ClockModel) -> Result<Fixed, TimeError> {
        let width = self.fit.last.width;
        let as_written =
            stamp.resolution.to_f64() <= width && self.fit.nominal(model.scatter(width));
        if as_written {
            return Ok(stamp.civil);
        }
        stamp.centre()
    }

    /// The running slope, or the corridor's if sharper.
    pub(crate) fn rate(&self, model: &ClockModel) -> Slope {
        let width = self.fit.last.width;
        let (running, fit) = (model.slope(width), self.fit.slope(model.scatter(width)));
        let scatter = model.scatter(width);
        if !self.fit.coarse(scatter) {
            return Slope {
                half: (running.half * self.fit.excess(scatter)).min(MAX_SLOPE),
                ..running
            };
        }
        if fit.half < running.half {
            fit
        } else {
            running
        }
    }

    /// Completed pieces go to `closed`.
    pub(crate) fn take(
        &mut self,
        stamp: StampedBlock,
        hidden: Option<HiddenGap>,
        model: &mut ClockModel,
        closed: &mut Vec<Piece>,
    ) -> Result<(), TimeError> {
        let nominal = self.origin.civil_at(Fixed::from_int(stamp.index))?;
        let off = stamp.civil.checked_sub(nominal);
        let y = off.ok_or(TimeError::Overflow { what: "stamp" })?.to_f64();
        let width = stamp.resolution.to_f64();
        let obs = Observation {
            index: stamp.index,
            x: self.x_of(stamp.index),
            y,
            width,
        };
        if let Some(gap) = hidden {
            self.fit.suspect(gap, &obs);
        }
        model.jitter.add(obs.x, obs.centre());
        self.range = (self.range.0.min(y), self.range.1.max(y));
        let range = self.range.1 - self.range.0;
        model.steady.follow(obs.x, range, width);
        let scatter = model.scatter(width);
        let off = self.fit.off(&obs, scatter);
        let Some(refused) = self.pending.take() else {
            // A single stamp far off waits for the next: it may be latency or an error.
            if off.is_none() && self.fit.add(obs, scatter) {
                model.add_rate(&obs);
                self.catch_up();
            } else {
                self.pending = Some(obs);
            }
            return Ok(());
        };
        let together = match (off, self.fit.off(&refused, scatter)) {
            (Some(now), Some(before)) => now * before > 0.0,
            (now, _) => now.is_none(),
        };
        let alone = off.is_none() && self.fit.add(obs, scatter);
        if alone {
            model.add_rate(&obs);
            self.excluded_behind.add(&refused);
            self.catch_up();
            return Ok(());
        }
        if !together {
            // Off in opposite directions: the line stands.
            self.excluded_behind.add(&refused);
            self.pending = Some(obs);
            return Ok(());
        }
        if self.fit.add(refused, scatter) {
            model.add_rate(&refused);
            self.catch_up();
            if self.fit.add(obs, scatter) {
                model.add_rate(&obs);
            } else {
                self.pending = Some(obs);
            }
            return Ok(());
        }
        self.turn(refused, obs, model, closed)
    }

    fn catch_up(&mut self) {
        let behind = std::mem::take(&mut self.excluded_behind);
        self.excluded.merge(&behind);
    }

    /// Two stamps in a row left the line: ends it, and starts another.
    fn turn(
        &mut self,
        refused: Observation,
        obs: Observation,
        model: &mut ClockModel,
        closed: &mut Vec<Piece>,
    ) -> Result<(), TimeError> {
        let scatter = model.scatter(obs.width);
        let rate = self.rate(model);
        let prior = Slope {
            half: rate.half + WANDER,
            ..rate
        };
        let vertex = self.fit.last.index;
        let anchor = self.close(vertex, model, closed)?;
        self.catch_up();
        let mut fit = Fit::anchored(anchor, prior);
        let reach = (2.0 * scatter.bound + obs.width) / (obs.x - anchor.x).max(1.0);
        let drifts = fit.add(refused, scatter)
            && fit.add(obs, scatter)
            && (fit.slope(scatter).value - rate.value).abs() <= rate.half + reach + 5.0 * WANDER;
        if drifts {
            self.fit = fit;
        } else {
            let anchor = self.bridge(anchor, refused, rate.value, scatter, closed)?;
            model.step_found();
            let rate = model.slope(obs.width);
            let half = rate.half + WANDER;
            self.fit = Fit::anchored(anchor, Slope { half, ..rate });
            if !self.fit.add(refused, scatter) {
                self.excluded.add(&refused);
            }
            if !self.fit.add(obs, scatter) {
                self.excluded_behind.add(&obs);
            }
        }
        for o in [refused, obs] {
            model.add_rate(&o);
        }
        Ok(())
    }

    pub(crate) fn close(
        &mut self,
        index: i64,
        model: &ClockModel,
        closed: &mut Vec<Piece>,
    ) -> Result<Observation, TimeError> {
        let piece = self.piece(Some(index), index, model)?;
        let civil = piece.civil_at(Fixed::from_int(index))?;
        if index > self.start {
            closed.push(piece);
            self.excluded = ExcludedStamps::default();
        }
        (self.start, self.start_civil) = (index, Some(civil));
        self.obs_at(index, civil)
    }

    fn bridge(
        &mut self,
        from: Observation,
        to: Observation,
        rate: f64,
        scatter: Scatter,
        closed: &mut Vec<Piece>,
    ) -> Result<Observation, TimeError> {
        // Time must advance.
        let y = to.centre().max(from.y - 0.9 * (to.x - from.x));
        let slope = (y - from.y) / (to.x - from.x).max(1.0);
        // The step may be anywhere between.
        let step = y - from.y - rate * (to.x - from.x);
        let civil = self.civil(from.index, from.y)?;
        let (num, den) = self.ratio(slope);
        let piece = Piece {
            index: from.index,
            end: Some(to.index),
            civil: self.start_civil.unwrap_or(civil),
            num,
            den,
            uncertainty_ns: step.abs() + to.width / 2.0 + scatter.bound,
            residual_ns: self.excluded.residual(from.y - slope * from.x, slope),
            ..self.origin
        };
        let civil = piece.civil_at(Fixed::from_int(to.index))?;
        if to.index > from.index {
            closed.push(piece);
            self.excluded = ExcludedStamps::default();
        }
        (self.start, self.start_civil) = (to.index, Some(civil));
        self.obs_at(to.index, civil)
    }

    fn obs_at(&self, index: i64, civil: Fixed) -> Result<Observation, TimeError> {
        let nominal = self.origin.civil_at(Fixed::from_int(index))?;
        let y = civil
            .checked_sub(nominal)
            .ok_or(TimeError::Overflow { what: "piece" })?;
        Ok(Observation {
            index,
            x: self.x_of(index),
            y: y.to_f64(),
            width: self.fit.last.width,
        })
    }

    /// The uncertainty must hold up to `upto`.
    pub(crate) fn piece(
        &self,
        end: Option<i64>,
        upto: i64,
        model: &ClockModel,
    ) -> Result<Piece, TimeError> {
        let scatter = model.scatter(self.fit.last.width);
        let x = self.x_of(self.start);
        let line: FitLine = self.fit.line(scatter, x, self.x_of(upto));
        let civil = match self.start_civil {
            Some(civil) => civil,
            None => self.civil(self.start, line.at(x))?,
        };
        let (num, den) = self.ratio(line.slope.value);
        let mut excluded = self.excluded;
        // Excluded stamps behind the fit's last belong to this piece unless it ends there.
        if end.is_none_or(|end| end > self.fit.last.index) {
            excluded.merge(&self.excluded_behind);
            self.pending.iter().for_each(|obs| excluded.add(obs));
        }
        Ok(Piece {
            index: self.start,
            end,
            civil,
            num,
            den,
            uncertainty_ns: line.uncertainty,
            residual_ns: self.fit.residual_with(&line, &excluded),
            ..self.origin
        })
    }

    fn civil(&self, index: i64, y: f64) -> Result<Fixed, TimeError> {
        let nominal = self.origin.civil_at(Fixed::from_int(index))?;
        let civil = nominal.checked_add(Fixed::from_f64_nearest(y)?);
        civil.ok_or(TimeError::Overflow { what: "civil time" })
    }

    /// Nanoseconds per sample: the reference's for slope zero, else a float's exact value.
    fn ratio(&self, slope: f64) -> (u64, u64) {
        if slope == 0.0 {
            return (self.origin.num, self.origin.den);
        }
        let mut num = self.origin.ns_per_sample() * (1.0 + slope);
        let mut den = 1u64;
        // Doubling is exact.
        while num.fract() != 0.0 && den < 1 << 61 {
            (num, den) = (num * 2.0, den * 2);
        }
        (num as u64, den)
    }
}
