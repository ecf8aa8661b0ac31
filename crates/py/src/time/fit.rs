//! `isochrony.TimebaseFit`: a metric between two timebases, fitted to points.

use std::sync::Arc;

use isochrony_store::timebases::MetricDefinition;
use isochrony_time::{
    Exact, FitShape, Fixed, PointFit, PointFitOptions, PointPair, Time as ExactTime, TimebaseId,
};
use pyo3::prelude::*;

use crate::errors::{Error, PackageError, Result};
use crate::signal::Signal;
use crate::time::graph::Graph;
use crate::time::network::Network;
use crate::time::numbers::number_arg;
use crate::time::timebase::Timebase;
use crate::time::{duration_arg, option};

pub(crate) fn fit_options(shape: Option<&str>, wander: Option<f64>) -> Result<PointFitOptions> {
    let shape = match shape {
        None => None,
        Some("line") => Some(FitShape::Line),
        Some("pieces") => Some(FitShape::Pieces),
        Some(other) => {
            let legal = "\"line\" or \"pieces\", or nothing for the one that fits";
            return Err(option("shape", other, legal).into());
        }
    };
    let options = PointFitOptions::default();
    let wander = wander.unwrap_or(options.wander);
    let options = PointFitOptions { shape, wander };
    options.check()?;
    Ok(options)
}

pub(crate) struct PointParts<'py> {
    pub(crate) from: Bound<'py, PyAny>,
    pub(crate) to: Bound<'py, PyAny>,
    pub(crate) uncertainty: Option<Bound<'py, PyAny>>,
}

fn with_place(py: Python<'_>, error: PyErr, place: &str) -> Error {
    let placed = || -> PyResult<PyErr> {
        let root = py.import("isochrony.errors.native")?.getattr("TimeError")?;
        let class = error.get_type(py);
        if !class.is_subclass(&root)? {
            return Ok(error.clone_ref(py));
        }
        let message = format!("{place}: {}", error.value(py).str()?);
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    placed().unwrap_or_else(|_| error.clone_ref(py)).into()
}

pub(crate) fn each_point<'py, T>(
    points: &Bound<'py, PyAny>,
    mut convert: impl FnMut(PointParts<'py>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut out = Vec::new();
    for (position, point) in points.try_iter()?.enumerate() {
        let parts: Vec<Bound<'py, PyAny>> = match point?.try_iter() {
            Ok(parts) => parts.collect::<PyResult<_>>()?,
            Err(_) => Vec::new(),
        };
        let mut parts = parts.into_iter();
        let given = (parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(from), Some(to), uncertainty, None) = given else {
            let message = format!(
                "point {position} is no pair; give (value, value of the other) or (value, value of the other, \
                 uncertainty)"
            );
            return Err(PackageError::new("TimeArgumentError", "not_a_point", message).into());
        };
        let uncertainty = uncertainty.filter(|uncertainty| !uncertainty.is_none());
        let parts = PointParts {
            from,
            to,
            uncertainty,
        };
        let converted = convert(parts).map_err(|error| match error {
            Error::Package(error) => error.at(&format!("point {position}")).into(),
            Error::Python(error) => with_place(points.py(), error, &format!("point {position}")),
        });
        out.push(converted?);
    }
    Ok(out)
}

pub(crate) fn uncertainty_arg(uncertainty: &Bound<'_, PyAny>, is_civil: bool) -> Result<Fixed> {
    match is_civil {
        true => duration_arg(uncertainty),
        false => number_arg(uncertainty),
    }
}

/// A metric between two timebases fitted to points (`Timebase.fit`), with its quality.
///
/// Distances are in units of the second timebase: nanoseconds if that is "utc".
///
/// >>> import isochrony as iso
/// >>> camera = iso.Graph().add("camera", unit="frames")
/// >>> readings = [(0, "2010-03-01T00:00:00"), (30_000, "2010-03-01T00:20:01.000060")]
/// >>> fit = camera.fit(readings, uncertainty=1e-6)
/// >>> fit.shape, fit.outliers
/// ('line', [])
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct TimebaseFit {
    pub(crate) fit: PointFit,
    /// Its timebases, to read and show values; `None` for a clock's correction.
    ends: Option<(Timebase, Timebase)>,
}

impl TimebaseFit {
    /// From recorded to true civil time.
    pub(crate) fn of_correction(fit: PointFit) -> Self {
        Self { fit, ends: None }
    }

    fn first(&self, value: &Bound<'_, PyAny>) -> Result<Fixed> {
        match &self.ends {
            Some((first, _)) => Ok(first.value(value)?.value.to_fixed()?),
            None => Ok(value.extract::<crate::time::TimeArg>()?.0.value),
        }
    }
}

#[pymethods]
impl TimebaseFit {
    /// Shape of the fit: "line", or "pieces", straight pieces that join.
    ///
    /// >>> fit.shape
    /// 'line'
    #[getter]
    fn shape(&self) -> &'static str {
        self.fit.shape().name()
    }

    /// Root mean square distance of the points used.
    ///
    /// >>> fit.residual
    /// 0.0
    #[getter]
    fn residual(&self) -> f64 {
        self.fit.residual()
    }

    /// Largest distance of a point used.
    ///
    /// >>> fit.largest_residual
    /// 0.0
    #[getter]
    fn largest_residual(&self) -> f64 {
        self.fit.largest_residual()
    }

    /// The `residual` of a single line, for comparison with pieces.
    ///
    /// >>> fit.line_residual
    /// 0.0
    #[getter]
    fn line_residual(&self) -> f64 {
        self.fit.line_residual()
    }

    /// Largest half-width of a point used: as stated, or from the points' scatter if that is more or none was stated.
    ///
    /// >>> fit.resolution
    /// 1000.0
    #[getter]
    fn resolution(&self) -> f64 {
        self.fit.resolution()
    }

    /// Positions of points that are ignored, since they disagree with all around them: a list of int.
    ///
    /// >>> fit.outliers
    /// []
    #[getter]
    fn outliers(&self) -> Vec<usize> {
        self.fit.outliers().to_vec()
    }

    /// Rate of the fit at a value of the first timebase: units of the second for each unit of the first.
    ///
    /// Parameters:
    ///     value: value of the first timebase.
    ///
    /// Returns:
    ///     A float: nanoseconds per unit if the second timebase is "utc".
    ///
    /// >>> import isochrony as iso
    /// >>> camera = iso.Graph().add("camera", unit="frames")
    /// >>> readings = [(0, "2010-03-01T00:00:00"), (30_000, "2010-03-01T00:20:01.000060")]
    /// >>> fit = camera.fit(readings, uncertainty=1e-6)
    /// >>> round(fit.rate(15_000))              # nanoseconds per frame
    /// 40033335
    fn rate(&self, value: &Bound<'_, PyAny>) -> Result<f64> {
        Ok(self.fit.metric().rate(self.first(value)?))
    }

    /// Uncertainty of a conversion: half-width of the interval around the converted value that holds the true one.
    ///
    /// Parameters:
    ///     value: value of the first timebase.
    ///
    /// Returns:
    ///     A float, in units of the second timebase: nanoseconds if that is "utc". Edges: beyond the points it grows
    ///     with the distance.
    ///
    /// >>> import isochrony as iso
    /// >>> camera = iso.Graph().add("camera", unit="frames")
    /// >>> readings = [(0, "2010-03-01T00:00:00"), (30_000, "2010-03-01T00:20:01.000060")]
    /// >>> fit = camera.fit(readings, uncertainty=1e-6)
    /// >>> fit.uncertainty(15_000) < fit.uncertainty(90_000)
    /// True
    fn uncertainty(&self, value: &Bound<'_, PyAny>) -> Result<f64> {
        Ok(self.fit.metric().uncertainty(self.first(value)?))
    }

    fn __repr__(&self) -> String {
        let (shape, residual) = (self.shape(), self.residual());
        let outliers = self.fit.outliers().len();
        format!("<TimebaseFit: {shape}, residual {residual:.4}, {outliers} outliers>")
    }
}

#[pymethods]
impl Timebase {
    /// Joins this timebase to another of its graph by points at which both were read, such as pulses counted by two
    /// devices, or a log of a counter against GPS. Later conversions use the fit, with its uncertainty.
    ///
    /// The fit is one line if a line passes through the intervals of all points except outliers, else pieces. Points
    /// that disagree with all around them are ignored and reported as outliers.
    ///
    /// Parameters:
    ///     points: pairs (value, value of the other), by first value; a third part is the half-width that holds the
    ///         other's true value, in its unit, or in seconds for "utc". Or an array of two or three columns.
    ///     to: the other timebase: of the same graph, its name, or a signal, which is added to the graph. None: "utc".
    ///     uncertainty: half-width, in that unit, of points that state none. None: estimated from their scatter, which
    ///         needs five points.
    ///     shape: "line" or "pieces"; None: the one that fits.
    ///     wander: possible relative change of the rate beyond the points, and between those of pieces. None: 1e-6.
    ///
    /// Returns:
    ///     The `TimebaseFit`, with `shape`, `residual`, `resolution`, `outliers` and `uncertainty(value)`.
    ///
    /// Raises:
    ///     isochrony.TimeError: fewer than two points, unsorted or equal ones, NaN, points that are not monotonic; few
    ///         points without uncertainty; a contradiction to an existing metric. The message names points and values.
    ///         A signal's own clock is corrected by `Signal.correct_clock`.
    ///
    /// >>> import isochrony as iso
    /// >>> graph = iso.Graph()
    /// >>> camera = graph.add("camera", unit="frames")
    /// >>> fit = camera.fit([(0, "2010-03-01T00:00:00"), (30_000, "2010-03-01T00:20:01.000060")], uncertainty=1e-6)
    /// >>> fit.shape, fit.outliers
    /// ('line', [])
    /// >>> camera.time_of(15_000)
    /// Time('2010-03-01T00:10:00.500030Z')
    /// >>> round(camera.time_of(15_000).uncertainty_ns)
    /// 1000
    #[pyo3(signature = (points, to=None, *, uncertainty=None, shape=None, wander=None))]
    #[allow(clippy::too_many_arguments)] // The options of the fit.
    fn fit(
        &self,
        py: Python<'_>,
        points: &Bound<'_, PyAny>,
        to: Option<&Bound<'_, PyAny>>,
        uncertainty: Option<&Bound<'_, PyAny>>,
        shape: Option<&str>,
        wander: Option<f64>,
    ) -> Result<TimebaseFit> {
        let options = fit_options(shape, wander)?;
        let to = self.other(py, to)?;
        if to.is_civil() && self.signal.is_some() {
            let message = format!(
                "{:?} is joined to civil time by its own stamps; correct its clock instead: signal.correct_clock(points)",
                self.name()
            );
            return Err(PackageError::new("TimeError", "joined_already", message).into());
        }
        let is_civil = to.is_civil();
        let common = uncertainty
            .map(|u| uncertainty_arg(u, is_civil))
            .transpose()?;
        let pairs = each_point(points, |point| {
            let own = point.uncertainty.map(|u| uncertainty_arg(&u, is_civil));
            Ok(PointPair {
                from: self.value(&point.from)?.value.to_fixed()?,
                to: to.value(&point.to)?.value.to_fixed()?,
                uncertainty: own.transpose()?.or(common),
            })
        })?;
        let fit = crate::interpreter::detach(py, || PointFit::new(&pairs, &options))?;
        let definition = MetricDefinition::of_points(&pairs, &options);
        self.network.connect(py, self.id, to.id, definition)?;
        let first = Self::member(&self.network, py, self.id);
        Ok(TimebaseFit {
            fit,
            ends: Some((first, to)),
        })
    }
}

impl Timebase {
    /// Another timebase of this graph; adds a signal.
    fn other(&self, py: Python<'_>, to: Option<&Bound<'_, PyAny>>) -> Result<Self> {
        let id = match to {
            None => TimebaseId::CIVIL,
            Some(to) => match to.cast::<Signal>() {
                Ok(signal) => self.network.add_signal(signal, None)?,
                Err(_) => {
                    let network: Arc<Network> = Arc::clone(&self.network);
                    Graph { network }.find(to)?
                }
            },
        };
        Ok(Self::member(&self.network, py, id))
    }

    /// With the half-width that holds the true time, in ns; `around`: half-width of the value.
    pub(crate) fn civil_within(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        around: Option<Fixed>,
    ) -> Result<(Fixed, Option<Fixed>)> {
        let value = self.value(value)?;
        let graph = self.network.current(py)?;
        let civil =
            |value: ExactTime<Exact>| graph.convert_with_uncertainty(value, TimebaseId::CIVIL);
        let (time, own) = civil(value.clone())?;
        let time = time.rounded()?.value;
        let Some(around) = around else {
            return Ok((time, None));
        };
        let middle = value.value.to_fixed()?;
        let mut half = 0.0f64;
        for end in [middle.checked_sub(around), middle.checked_add(around)] {
            let end = end.ok_or_else(crate::time::overflow)?;
            let mut shifted = value.clone();
            shifted.value = end.into();
            let end = civil(shifted)?.0.rounded()?.value;
            let apart = end.checked_sub(time).ok_or_else(crate::time::overflow)?;
            half = half.max(apart.to_f64().abs());
        }
        Ok((time, Some(Fixed::from_f64_nearest(half + own)?)))
    }
}
