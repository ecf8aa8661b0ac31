//! [`Clock`]: estimates the clock of a run, and decides about gaps.
//!
//! - `point`: inputs and outputs;
//! - `model`: rate and scatter, kept across gaps and steps;
//! - `corridor`: feasible straight lines;
//! - `fit`: a line through its stamps' corridors;
//! - `open_span`: the gap-free end of a run;
//! - `place`: contiguous, gap, step or outlier;
//! - `resume`: restores from stored points.
//!
//! Deterministic: equal stamps in equal order give equal placements and pieces, even if interrupted.

mod config;
mod corridor;
mod excluded;
mod fit;
mod model;
mod observation;
mod open_span;
mod place;
mod point;
mod resume;

pub use config::ClockConfig;
pub(crate) use config::{COVERAGE_SIGMAS, MIN_SLOPE_UNCERTAINTY, prior_reach};
pub use point::{Placement, Point, PointUse, RateEstimate, Stamp};

use crate::{Fixed, Piece, RunId, TimeError};
use model::ClockModel;
use observation::Slope;
use open_span::{OpenSpan, StampedBlock};

/// Estimator of one run: places blocks of samples, tracks the rate, fits the metric.
///
/// ```
/// use isochrony_time::{Clock, ClockConfig, Fixed, Placement, RunId, Stamp};
/// let second = 1_000_000_000;
/// let stamp = |s: i64| Stamp::new(Fixed::from_int((1_267_401_600 + s) * second), Fixed::from_int(1000));
/// let mut clock = Clock::new(ClockConfig::new("2000".parse()?), RunId(0))?;
/// let mut index = 0;
/// for start in [0, 30, 60, 150] {
///     let placement = clock.place(&stamp(start), 60_000, None)?;
///     if let Placement::Gap { samples: Some(gap), .. } = placement {
///         assert_eq!((start, gap), (150, 120_000));
///         index += gap as i64;
///     }
///     clock.accept(index, &stamp(start), 60_000, &placement)?;
///     index += 60_000;
/// }
/// assert_eq!(clock.pieces()?.len(), 2);
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    config: ClockConfig,
    run: RunId,
    model: ClockModel,
    state: Option<RunState>,
}

#[derive(Clone, Debug)]
struct RunState {
    start: i64,
    end: i64,
    points: u64,
    last_civil: Fixed,
    closed: Vec<Piece>,
    open_span: OpenSpan,
    /// State before the run, in case its stamps prove wrong.
    before: ClockModel,
}

impl Clock {
    /// A clock without stamps.
    ///
    /// # Errors
    /// [`TimeError::BadConfig`].
    pub fn new(config: ClockConfig, run: RunId) -> Result<Self, TimeError> {
        config.check()?;
        let model = ClockModel::new(config.alpha, 1e9 / config.reference().to_f64());
        Ok(Self {
            config,
            run,
            model,
            state: None,
        })
    }

    /// Clock of the run after a step: forgets stamps and offsets, keeps rate and scatter.
    pub fn next_run(&self, run: RunId) -> Self {
        let mut model = self.model.clone();
        model.interrupt();
        Self {
            config: self.config.clone(),
            run,
            model,
            state: None,
        }
    }

    /// The run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Options.
    pub fn config(&self) -> &ClockConfig {
        &self.config
    }

    /// Index of the run's first sample.
    pub fn start(&self) -> Option<i64> {
        self.state.as_ref().map(|s| s.start)
    }

    /// Index after the run's last sample.
    pub fn end(&self) -> Option<i64> {
        self.state.as_ref().map(|s| s.end)
    }

    /// Accepts a placed block of `samples` samples from `index` on. Store the returned point, whatever its mark.
    ///
    /// # Errors
    /// [`TimeError::PointOrder`] unless the index is the end so far, or beyond it after a gap;
    /// [`TimeError::BadPlacement`] for an empty block, or for a step, which needs [`Clock::next_run`]. The clock is
    /// unchanged.
    pub fn accept(
        &mut self,
        index: i64,
        stamp: &Stamp,
        samples: u64,
        placement: &Placement,
    ) -> Result<Point, TimeError> {
        stamp.centre()?;
        let hidden = match (placement, &self.state) {
            (Placement::Contiguous, Some(run)) if index == run.end => {
                self.hidden_gap(run, stamp)?
            }
            _ => None,
        };
        let bad = |reason| TimeError::BadPlacement {
            placement: placement.name(),
            index,
            reason,
        };
        if samples == 0 {
            return Err(bad("it has no samples; leave empty recordings out"));
        }
        let overflow = TimeError::Overflow { what: "index" };
        let end = index.checked_add_unsigned(samples).ok_or(overflow)?;
        let (civil, resolution) = (stamp.civil, stamp.resolution);
        let stamped = StampedBlock {
            index,
            civil,
            resolution,
        };
        let mut use_ = if stamp.leap {
            PointUse::LeapSecond
        } else {
            PointUse::Used
        };
        match (placement, &mut self.state) {
            (Placement::Backward { .. } | Placement::LeapSecond { .. }, _) => {
                return Err(bad(
                    "a clock step starts a run; call next_run(), then place and accept the samples again",
                ));
            }
            (Placement::First, Some(_)) => {
                return Err(bad("the run has samples already; place again"));
            }
            (Placement::First, None) => self.begin(stamped, index, end)?,
            (_, None) => return Err(bad("the run has no samples yet; place again")),
            (_, Some(run)) if index < run.end => {
                return Err(TimeError::PointOrder {
                    index,
                    expected: run.end,
                });
            }
            (Placement::Gap { .. }, Some(run)) => {
                if index == run.end {
                    return Err(bad(
                        "the gap has no address space; leave at least one index",
                    ));
                }
                let mut model = self.model.clone();
                let mut closed = Vec::new();
                let mut open_span = run.open_span.clone();
                open_span.close(run.end, &model, &mut closed)?;
                let at = Fixed::from_int(run.end);
                let not_before = closed.last().map(|p| p.civil_at(at)).transpose()?;
                run.open_span = OpenSpan::new(
                    self.run,
                    self.config.reference(),
                    stamped,
                    index,
                    not_before.map(|t| (run.end, t)),
                    &mut model,
                )?;
                self.model = model;
                run.closed.append(&mut closed);
                run.note(end, civil);
            }
            (_, Some(run)) if index > run.end => {
                return Err(TimeError::PointOrder {
                    index,
                    expected: run.end,
                });
            }
            (Placement::Outlier, Some(run)) => {
                use_ = PointUse::Outlier;
                run.end = end;
            }
            (Placement::Lock, Some(run)) => {
                let start = run.start;
                self.model = run.before.clone();
                self.begin(stamped, start, end)?;
            }
            (Placement::Contiguous, Some(run)) => {
                run.open_span
                    .take(stamped, hidden, &mut self.model, &mut run.closed)?;
                run.note(end, civil);
            }
        }
        Ok(Point {
            index,
            civil,
            resolution,
            use_,
        })
    }

    fn begin(&mut self, stamp: StampedBlock, start: i64, end: i64) -> Result<(), TimeError> {
        let before = self.model.clone();
        let reference = self.config.reference();
        let open_span = OpenSpan::new(self.run, reference, stamp, start, None, &mut self.model)?;
        let (last_civil, closed) = (stamp.civil, Vec::new());
        self.state = Some(RunState {
            start,
            end,
            points: 1,
            last_civil,
            closed,
            open_span,
            before,
        });
        Ok(())
    }

    /// Adds contiguous samples without a stamp.
    ///
    /// # Errors
    /// [`TimeError::BadPlacement`] before the first stamp, [`TimeError::Overflow`].
    pub fn extend(&mut self, samples: u64) -> Result<(), TimeError> {
        let reason = "samples without a stamp need a stamped sample before them";
        let bad = TimeError::BadPlacement {
            placement: "contiguous",
            index: 0,
            reason,
        };
        let run = self.state.as_mut().ok_or(bad)?;
        let end = run.end.checked_add_unsigned(samples);
        run.end = end.ok_or(TimeError::Overflow { what: "index" })?;
        Ok(())
    }

    /// Expected time of the next sample; `None` before the first stamp.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn expected(&self) -> Result<Option<Fixed>, TimeError> {
        let run = self.state.as_ref();
        run.map(|s| s.open_span.predict(s.end, &self.model))
            .transpose()
    }

    /// Current rate; for a whole run see [`crate::Empirical::mean_rate`].
    pub fn rate(&self) -> RateEstimate {
        let Slope { value, half } = self.slope();
        RateEstimate {
            hz: self.config.reference().to_f64() / (1.0 + value),
            uncertainty_ppm: half * 1e6,
            points: self.model.running.points,
        }
    }

    /// Samples in `ns` at the current rate.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn samples_in(&self, ns: Fixed) -> Result<Fixed, TimeError> {
        let nominal = self.config.reference().samples_in(ns)?;
        let slope = self.slope().value;
        // A float product would lose samples.
        let correction = Fixed::from_f64_nearest(-nominal.to_f64() * slope / (1.0 + slope))?;
        nominal.checked_add(correction).ok_or(TimeError::Overflow {
            what: "duration in samples",
        })
    }

    fn slope(&self) -> Slope {
        match &self.state {
            Some(run) => run.open_span.rate(&self.model),
            None => self.model.slope(0.0),
        }
    }

    /// The run's fit, in index order; empty before the first stamp. Only the last piece, which is open, may change
    /// ([`Placement::Lock`] replaces all).
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn pieces(&self) -> Result<Vec<Piece>, TimeError> {
        let mut pieces = self.closed_pieces().to_vec();
        pieces.extend(self.open_piece()?);
        Ok(pieces)
    }

    /// The final pieces of [`Clock::pieces`].
    pub fn closed_pieces(&self) -> &[Piece] {
        self.state.as_ref().map_or(&[], |s| &s.closed)
    }

    /// The open last piece.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn open_piece(&self) -> Result<Option<Piece>, TimeError> {
        let run = self.state.as_ref();
        run.map(|s| s.open_span.piece(None, s.end, &self.model))
            .transpose()
    }
}

impl RunState {
    fn note(&mut self, end: i64, civil: Fixed) {
        (self.end, self.last_civil) = (end, civil);
        self.points += 1;
    }
}
