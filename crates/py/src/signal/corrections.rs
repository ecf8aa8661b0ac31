//! `isochrony.ClockCorrection`: corrects a signal's clock after recording.

use isochrony_store::{ClockComparison, CorrectionOptions, RecordedAt};
use isochrony_time::{Fixed, RunId, TimebaseKind};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{PackageError, Result};
use crate::integer::IntegerArg;
use crate::signal::Signal;
use crate::time::TimeArg;
use crate::time::fit::{TimebaseFit, each_point, fit_options, uncertainty_arg};
use crate::time::numbers::number_arg;
use crate::time::timebase::Timebase;

/// A correction of a signal's clock (`Signal.correct_clock`), in force or removed.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/sea.iso", "x")
/// >>> obs = store.create("obs", dtype="i4", rate=100, start="2010-03-01")
/// >>> _ = obs.append(np.zeros(360_000, "i4"))
/// >>> _ = obs.correct_clock([(0, "2010-03-01"), (360_000, "2010-03-01T00:59:59.9928")], uncertainty=1e-6)
/// >>> [(correction.fit.shape, correction.removed) for correction in obs.clock_corrections]
/// [('line', False)]
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct ClockCorrection {
    correction: isochrony_store::ClockCorrection,
    signal: Py<Signal>,
}

#[pymethods]
impl ClockCorrection {
    /// Number of the correction, unique in the signal, never reused.
    ///
    /// >>> obs.clock_corrections[0].id
    /// 0
    #[getter]
    fn id(&self) -> u32 {
        self.correction.id()
    }

    /// Id of the corrected run; None: all.
    ///
    /// >>> obs.clock_corrections[0].run is None
    /// True
    #[getter]
    fn run(&self) -> Option<u32> {
        self.correction.run().map(|run| run.0)
    }

    /// Whether the correction was removed; its points are kept.
    ///
    /// >>> obs.clock_corrections[0].removed
    /// False
    #[getter]
    fn removed(&self) -> bool {
        self.correction.is_removed()
    }

    /// The fit from recorded to true civil time: a `TimebaseFit`, with times in nanoseconds.
    ///
    /// >>> obs.clock_corrections[0].fit.shape
    /// 'line'
    #[getter]
    fn fit(&self) -> TimebaseFit {
        TimebaseFit::of_correction(self.correction.fit().clone())
    }

    /// The given points: a `Table` with a row for each.
    ///
    /// "from": an index; if "from_time" is true, ns since 1970 by the signal's own clock. "civil_ns": the true time.
    /// "to": the other clock's count. "uncertainty_ns": NaN if none was stated. "outlier": true for ignored points.
    /// Columns "..._frac": the fraction of a nanosecond, in units of 2**-32 ns.
    ///
    /// >>> correction = obs.clock_corrections[0]
    /// >>> correction.points.num_rows
    /// 2
    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let points: Vec<ClockComparison> = self.correction.comparisons().collect();
        let columns = PyDict::new(py);
        let from = |point: &ClockComparison| match point.at {
            RecordedAt::Index(at) | RecordedAt::Time(at) => at,
        };
        let to = |point: &ClockComparison| point.to.unwrap_or(point.civil);
        let numbers = |name: &str, value: &dyn Fn(&ClockComparison) -> Fixed| {
            let whole = points.iter().map(|point| value(point).floor() as i64);
            columns.set_item(name, PyArray1::from_iter(py, whole))?;
            let frac = points.iter().map(|point| i64::from(value(point).frac()));
            columns.set_item(format!("{name}_frac"), PyArray1::from_iter(py, frac))
        };
        let is_time = points
            .iter()
            .map(|point| matches!(point.at, RecordedAt::Time(_)));
        columns.set_item("from_time", PyArray1::from_iter(py, is_time))?;
        numbers("from", &from)?;
        numbers("civil_ns", &|point| point.civil)?;
        numbers("to", &to)?;
        let uncertainty = points
            .iter()
            .map(|point| point.uncertainty.map_or(f64::NAN, Fixed::to_f64));
        columns.set_item("uncertainty_ns", PyArray1::from_iter(py, uncertainty))?;
        let outliers = self.correction.fit().outliers();
        let is_outlier = (0..points.len()).map(|at| outliers.binary_search(&at).is_ok());
        columns.set_item("outlier", PyArray1::from_iter(py, is_outlier))?;
        Ok(py
            .import("isochrony.tables.table")?
            .getattr("Table")?
            .call1((columns,))?)
    }

    /// Removes the correction: times are as without it, or by an earlier one. Its points stay stored. Durable with the
    /// next `Store.commit`.
    ///
    /// Raises:
    ///     isochrony.StoreError: a store open for reading (also PermissionError).
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/sea.iso", "x")
    /// >>> obs = store.create("obs", dtype="i4", rate=100, start="2010-03-01")
    /// >>> _ = obs.append(np.zeros(360_000, "i4"))
    /// >>> correction = obs.correct_clock([(0, "2010-03-01"), (360_000, "2010-03-01T00:59:59.9928")], uncertainty=1e-6)
    /// >>> correction.remove()
    /// >>> obs.end_time
    /// Time('2010-03-01T01:00:00Z')
    fn remove(&self, py: Python<'_>) -> Result<()> {
        let writer = self.signal.get().writer("remove a clock correction")?;
        let id = self.correction.id();
        Ok(crate::interpreter::detach(py, || {
            writer.remove_clock_correction(id)
        })?)
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let id = self.correction.id();
        let (shape, points) = (
            self.correction.fit().shape().name(),
            self.correction.comparisons().len(),
        );
        let signal = self.signal.get().get(py)?;
        let removed = if self.correction.is_removed() {
            ", removed"
        } else {
            ""
        };
        Ok(format!(
            "<ClockCorrection {id} of {}: {shape} of {points} points{removed}>",
            signal.name()
        ))
    }
}

/// A number is an index, anything else a time of the signal's clock.
fn recorded_at(value: &Bound<'_, PyAny>) -> Result<RecordedAt> {
    let number = value.py().import("numbers")?.getattr("Number")?;
    match value.is_instance(&number)? {
        true => Ok(RecordedAt::Index(number_arg(value)?)),
        false => Ok(RecordedAt::Time(value.extract::<TimeArg>()?.0.value)),
    }
}

#[pymethods]
impl Signal {
    /// Corrects the clock after recording, by points at which it was compared with a better one: a log of GPS fixes,
    /// the skew of an ocean-bottom recorder on recovery, triggers seen by two recorders. All conversions of times use
    /// it at once, durably from the next `Store.commit`. No sample, stamp or checksum changes, and
    /// `ClockCorrection.remove()` undoes it. Later appends are still placed by the recorder's own clock.
    ///
    /// Parameters:
    ///     points: pairs (position on this clock, true time), in order. The first is an index, whole or not, or a time
    ///         of this clock without earlier corrections. A third part is the half-width in seconds that holds the true
    ///         time; with `to`, in units of that timebase.
    ///     to: signal or timebase of the second values, such as another recorder with a good clock. None: civil time.
    ///         Its present times are used; correct its clock first.
    ///     run: id of the run to correct, if the signal's clock stepped: each clock has its own correction.
    ///     uncertainty: half-width, in that unit, of points that state none. None: estimated from their scatter, which
    ///         needs five points.
    ///     shape: "line" or "pieces"; None: a line if one fits all points except outliers.
    ///     wander: possible relative change of the rate beyond the points, and between those of pieces. None: 1e-6.
    ///
    /// Returns:
    ///     The `ClockCorrection`; its `fit` has shape, residual and outliers.
    ///
    /// Raises:
    ///     isochrony.TimeError: invalid points, as for `Timebase.fit`.
    ///     isochrony.StoreError: no civil time yet; several clocks and no `run`; a store open for reading.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/sea.iso", "x")
    /// >>> obs = store.create("obs", dtype="i4", rate=100, start="2010-03-01")
    /// >>> _ = obs.append(np.zeros(360_000, "i4"))
    /// >>> correction = obs.correct_clock([(0, "2010-03-01"), (360_000, "2010-03-01T00:59:59.9928")], uncertainty=1e-6)
    /// >>> obs.time_of(180_000)
    /// Time('2010-03-01T00:29:59.996400Z')
    /// >>> correction.remove()
    /// >>> obs.time_of(180_000)
    /// Time('2010-03-01T00:30:00Z')
    #[pyo3(signature = (points, *, to=None, run=None, uncertainty=None, shape=None, wander=None))]
    #[allow(clippy::too_many_arguments)] // The options of the fit.
    fn correct_clock(
        slf: &Bound<'_, Self>,
        points: &Bound<'_, PyAny>,
        to: Option<&Bound<'_, PyAny>>,
        run: Option<IntegerArg<u32>>,
        uncertainty: Option<&Bound<'_, PyAny>>,
        shape: Option<&str>,
        wander: Option<f64>,
    ) -> Result<ClockCorrection> {
        let run = run.map(|IntegerArg(run)| run);
        let py = slf.py();
        let own = slf.get();
        let writer = own.writer("correct the clock")?;
        let to = to.map(Timebase::from_object).transpose()?;
        let other = to.as_ref().and_then(|to| to.get().signal.as_ref());
        let other = other.map(|signal| signal.get().get(py)).transpose()?;
        let signal = own.get(py)?;
        if other.as_ref().is_some_and(|other| other.is_same(&signal)) {
            let message = format!(
                "the clock of {:?} cannot be corrected by itself; give another signal",
                signal.name()
            );
            return Err(PackageError::new("OptionError", "bad_option", message).into());
        }
        let is_civil = to
            .as_ref()
            .is_none_or(|to| matches!(to.get().network.kind(to.get().id), TimebaseKind::Civil));
        let common = uncertainty
            .map(|u| uncertainty_arg(u, is_civil))
            .transpose()?;
        let comparisons = each_point(points, |point| {
            let own = point.uncertainty.map(|u| uncertainty_arg(&u, is_civil));
            let around = own.transpose()?.or(common);
            let at = recorded_at(&point.from)?;
            let Some(to) = to.as_ref().filter(|_| !is_civil) else {
                return Ok(ClockComparison {
                    at,
                    civil: point.to.extract::<TimeArg>()?.0.value,
                    uncertainty: around,
                    to: None,
                });
            };
            let to = to.get();
            let (civil, uncertainty) = to.civil_within(py, &point.to, around)?;
            Ok(ClockComparison {
                at,
                civil,
                uncertainty,
                to: Some(number_arg(&point.to)?),
            })
        })?;
        // Signal numbers are local to their store.
        let to = other.filter(|other| own.follower.shared.store.shows(other));
        let options = CorrectionOptions {
            run: run.map(RunId),
            fit: fit_options(shape, wander)?,
            to: to.map(|other| other.id()),
        };
        let correction =
            crate::interpreter::detach(py, || writer.correct_clock(&comparisons, &options))?;
        Ok(ClockCorrection {
            correction,
            signal: slf.clone().unbind(),
        })
    }

    /// All corrections of the clock, including removed ones, by creation: the latest one in force applies to its runs.
    ///
    /// Returns:
    ///     A list of `ClockCorrection`.
    ///
    /// >>> signal.clock_corrections
    /// []
    #[getter]
    fn clock_corrections(slf: &Bound<'_, Self>) -> Result<Vec<ClockCorrection>> {
        let signal = slf.get().get(slf.py())?;
        let all = signal.clock_corrections()?.into_iter();
        Ok(all
            .map(|correction| ClockCorrection {
                correction,
                signal: slf.clone().unbind(),
            })
            .collect())
    }

    /// Civil time of a sample by the recorder's own clock, without corrections; extrapolated beyond the ends.
    ///
    /// Parameters:
    ///     index: index of the sample.
    ///
    /// Returns:
    ///     A `Time`.
    ///
    /// Raises:
    ///     isochrony.StoreError: no civil time yet.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(1000, "i2"))
    /// >>> _ = signal.correct_clock([(0, "2026-01-01T00:00:01"), (1000, "2026-01-01T00:00:11")], uncertainty=1e-6)
    /// >>> signal.time_of(500), signal.recorded_time_of(500)
    /// (Time('2026-01-01T00:00:06Z'), Time('2026-01-01T00:00:05Z'))
    fn recorded_time_of(
        &self,
        py: Python<'_>,
        index: &Bound<'_, PyAny>,
    ) -> Result<crate::time::Time> {
        let signal = self.get(py)?.as_recorded();
        crate::signal::conversion::time_of(&signal, crate::signal::index::as_index(index)?)
    }
}
