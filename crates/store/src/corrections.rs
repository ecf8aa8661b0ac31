//! Clock corrections of recorded signals: points where the signal's clock was compared with a better one.
//!
//! A correction maps civil time by the signal's own clock to true civil time. Samples, stamps and their fit stay
//! unchanged. Later appends are placed by the recorder's own clock ([`Signal::as_recorded`]) and corrected too.
//!
//! Points are stored as given; the fit is recomputed when a loaded signal is first asked for times. If several
//! corrections are in force for a run, the latest applies.

pub(crate) mod corrected_clock;

use std::sync::Arc;

use isochrony_time::{FitShape, Fixed, PointFit, PointFitOptions, RunId, TimeError};

use crate::append::SignalWriter;
use crate::clock;
use crate::error::StoreError;
use crate::op::{CorrectionPointRow, CorrectionRow, Op, RunReason, SignalId};
use crate::signal::Signal;
use crate::state::SignalState;

use corrected_clock::{WANDER_PARTS, empirical, fit, value};

pub use corrected_clock::METHOD;

/// A position on the signal's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedAt {
    /// A sample, or between two.
    Index(Fixed),
    /// Civil time by this clock, ns since 1970.
    Time(Fixed),
}

/// Comparison of a signal's clock with a better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockComparison {
    /// Position on the signal's clock.
    pub at: RecordedAt,
    /// True time, ns since 1970.
    pub civil: Fixed,
    /// Half-width around `civil` that contains the true time, ns; `None`: from the scatter of the points.
    pub uncertainty: Option<Fixed>,
    /// Index of another signal, whose clock is better; `None`: the better clock gives civil time.
    pub to: Option<Fixed>,
}

/// Options of a clock correction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CorrectionOptions {
    /// Run to correct; `None`: all, which must share a clock.
    pub run: Option<RunId>,
    /// Fit of the points.
    pub fit: PointFitOptions,
    /// Signal whose indices [`ClockComparison::to`] counts.
    pub to: Option<SignalId>,
}

/// A correction of a signal's clock, in force or removed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockCorrection {
    row: Arc<CorrectionRow>,
    fit: PointFit,
}

impl ClockCorrection {
    /// Never reused in the signal.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.row.id
    }

    /// Corrected run; `None`: all.
    #[must_use]
    pub fn run(&self) -> Option<RunId> {
        self.row.run.map(RunId)
    }

    /// Whether it was removed.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.row.is_removed
    }

    /// Signal whose indices the points count; `None`: civil time.
    #[must_use]
    pub fn to(&self) -> Option<SignalId> {
        self.row.to.map(SignalId)
    }

    /// Fit from recorded to true civil time; positions are those of the points.
    #[must_use]
    pub fn fit(&self) -> &PointFit {
        &self.fit
    }

    /// The points as given.
    pub fn comparisons(&self) -> impl ExactSizeIterator<Item = ClockComparison> + '_ {
        let is_to_signal = self.row.to.is_some();
        self.row.points.iter().map(move |point| {
            let from = value(point.from);
            ClockComparison {
                at: match point.from_time {
                    true => RecordedAt::Time(from),
                    false => RecordedAt::Index(from),
                },
                civil: value(point.civil),
                uncertainty: point.uncertainty.map(value),
                to: is_to_signal.then(|| value(point.to)),
            }
        })
    }
}

impl Signal {
    /// All corrections, including removed ones, in order of creation.
    ///
    /// # Errors
    /// [`StoreError::Time`]; [`StoreError::NewerFormat`] if a newer version fitted one.
    pub fn clock_corrections(&self) -> Result<Vec<ClockCorrection>, StoreError> {
        let state = self.state();
        let Some(recorded) = clock::empirical(state)? else {
            return Ok(Vec::new());
        };
        let all = state.corrections.iter().map(|row| {
            let fit = fit(state, &recorded, row)?;
            let row = Arc::clone(row);
            Ok(ClockCorrection { row, fit })
        });
        all.collect()
    }

    /// Whether a correction is in force.
    #[must_use]
    pub fn is_corrected(&self) -> bool {
        self.state().corrections.active().next().is_some()
    }
}

impl SignalWriter {
    /// Corrects the clock by comparisons with a better one. Undo with
    /// [`remove_clock_correction`](Self::remove_clock_correction).
    ///
    /// ```
    /// use isochrony_store::{ClockComparison, CorrectionOptions, CreateOptions, Mode, RecordedAt, Store};
    /// use isochrony_segment::DType;
    /// use isochrony_time::{Fixed, Rate, civil};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path().join("sea.iso"), Mode::Create)?;
    /// let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100)?);
    /// let start = civil::parse("2010-03-01T00:00:00Z")?;
    /// options.start = Some(start);
    /// let writer = store.create("obs", &options)?;
    /// writer.append(&[0i16; 10_000])?;
    /// // Right at the start; 200 us fast after 100 s.
    /// let at = |index: i64, true_ns: i64| ClockComparison {
    ///     at: RecordedAt::Index(Fixed::from_int(index)),
    ///     civil: start.checked_add(Fixed::from_int(true_ns)).unwrap(),
    ///     uncertainty: Some(Fixed::from_int(1_000)),
    ///     to: None,
    /// };
    /// let points = [at(0, 0), at(10_000, 99_999_800_000)];
    /// let correction = writer.correct_clock(&points, &CorrectionOptions::default())?;
    /// assert_eq!(civil::format(writer.signal()?.time_of(5_000)?.value), "2010-03-01T00:00:49.999900Z");
    /// writer.remove_clock_correction(correction.id())?;
    /// assert_eq!(civil::format(writer.signal()?.time_of(5_000)?.value), "2010-03-01T00:00:50Z");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NoCivilTime`]; [`StoreError::InvalidOption`] for several clocks without a run, and for a point
    /// outside the run; [`StoreError::Time`] as for [`PointFit::new`], and for an unknown run;
    /// [`StoreError::ReadOnly`].
    pub fn correct_clock(
        &self,
        points: &[ClockComparison],
        options: &CorrectionOptions,
    ) -> Result<ClockCorrection, StoreError> {
        self.change("correct the clock", |state, _, change| {
            let recorded = clock::empirical(state)?;
            let recorded = recorded.ok_or_else(|| StoreError::NoCivilTime {
                signal: (*state.name).into(),
            })?;
            check_run(state, points, options.run)?;
            options.fit.check()?;
            let rows = points.iter().map(point_row).collect::<Result<_, _>>()?;
            let mut row = CorrectionRow {
                id: state.corrections.next_id(),
                run: options.run.map(|run| run.0),
                is_removed: false,
                method: METHOD,
                shape: match options.fit.shape {
                    None => 0,
                    Some(FitShape::Line) => 1,
                    Some(FitShape::Pieces) => 2,
                },
                wander_ppt: (options.fit.wander * WANDER_PARTS).round() as u64,
                to: options.to.map(|to| to.0),
                points: rows,
            };
            let fit = fit(state, &recorded, &row)?;
            for &at in fit.outliers() {
                row.points[at].is_outlier = true;
            }
            let row = Arc::new(row);
            let mut after = state.clone();
            let op = Op::Correction {
                id: state.id,
                correction: Box::new((*row).clone()),
            };
            after.apply(&op);
            empirical(&after)?;
            change.ops.push(op);
            Ok(ClockCorrection { row, fit })
        })
    }

    /// Removes a correction; its points stay stored. Idempotent.
    ///
    /// # Errors
    /// [`StoreError::InvalidOption`] for an unknown id, [`StoreError::ReadOnly`].
    pub fn remove_clock_correction(&self, id: u32) -> Result<(), StoreError> {
        self.change("remove a clock correction", |state, _, change| {
            let row = state.corrections.by_id(id);
            let row = row.ok_or_else(|| StoreError::InvalidOption {
                signal: (*state.name).into(),
                option: "correction",
                got: id.to_string(),
                legal: "give the id of one of its clock corrections",
            })?;
            if !row.is_removed {
                let correction = CorrectionRow {
                    is_removed: true,
                    ..(**row).clone()
                };
                change.ops.push(Op::Correction {
                    id: state.id,
                    correction: Box::new(correction),
                });
            }
            Ok(())
        })
    }
}

fn check_run(
    state: &SignalState,
    points: &[ClockComparison],
    run: Option<RunId>,
) -> Result<(), StoreError> {
    let refused = |option, got, legal| StoreError::InvalidOption {
        signal: (*state.name).into(),
        option,
        got,
        legal,
    };
    let Some(run) = run else {
        let steps = |reason| {
            matches!(
                reason,
                RunReason::BackwardStep | RunReason::LeapSecond | RunReason::Requested
            )
        };
        return match state.runs.iter().find(|run| steps(run.reason)) {
            Some(step) => Err(refused(
                "run",
                format!("none, though run {} begins with a clock step", step.id),
                "correct each clock by itself: give run",
            )),
            None => Ok(()),
        };
    };
    if state.runs.by_id(run.0).is_none() {
        let known: Vec<String> = state
            .runs
            .iter()
            .take(8)
            .map(|run| run.id.to_string())
            .collect();
        let known = known.join(", ");
        return Err(TimeError::UnknownRun { run, known }.into());
    }
    for (position, point) in points.iter().enumerate() {
        let RecordedAt::Index(index) = point.at else {
            continue;
        };
        let there = index.floor_i64().and_then(|index| state.runs.at(index));
        if let Some(there) = there.filter(|there| there.id != run.0) {
            return Err(refused(
                "points",
                format!("point {position} at index {index}, in run {}", there.id),
                "give points of the run that is corrected",
            ));
        }
    }
    Ok(())
}

fn point_row(point: &ClockComparison) -> Result<CorrectionPointRow, TimeError> {
    let parts = |value| clock::parts(value, "point of a clock correction");
    let (from_time, from) = match point.at {
        RecordedAt::Index(index) => (false, index),
        RecordedAt::Time(time) => (true, time),
    };
    Ok(CorrectionPointRow {
        from_time,
        from: parts(from)?,
        civil: parts(point.civil)?,
        uncertainty: point.uncertainty.map(parts).transpose()?,
        to: parts(point.to.unwrap_or(point.civil))?,
        is_outlier: false,
    })
}
