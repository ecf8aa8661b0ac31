//! `isochrony.Graph`: timebases and the metrics that join them.

use std::sync::Arc;

use isochrony_store::timebases::MetricDefinition;
use isochrony_time::{Derived, Fixed, TimebaseId, TimebaseKind};
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::signal::Signal;
use crate::store::Store;
use crate::time::network::{Network, counting};
use crate::time::numbers::{number_arg, ratio_arg};
use crate::time::timebase::Timebase;
use crate::time::{RateArg, TimeArg, option};

/// Timebases and the metrics between them: signals' indices, civil time, and whatever else counts time.
///
/// For one timebase no graph is needed: `isochrony.Timebase(...)` and `signal.timebase` have one of their own. A graph
/// is for timebases that are known by their relation to each other: a camera that counts its trigger's pulses, say.
/// Conversions take the shortest path, found by breadth-first search. Civil time is always there, named "utc", in
/// nanoseconds since 1970.
///
/// Raises:
///     isochrony.TimeError: a name that is taken; a metric that contradicts those present; no path between two timebases.
///
/// >>> import isochrony as iso
/// >>> from fractions import Fraction
/// >>> graph = iso.Graph()
/// >>> pulses = graph.add("pulses", rate=100, start="2010-03-01")
/// >>> frames = graph.add("frames")
/// >>> graph.connect(frames, pulses, ratio=4, offset=10)        # frame 0 at pulse 10, then each fourth pulse
/// >>> frames.time_of(5)
/// Time('2010-03-01T00:00:00.300Z')
/// >>> graph.path("frames", "utc")
/// ['frames', 'pulses', 'utc']
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Graph {
    pub(crate) network: Arc<Network>,
}

impl Graph {
    /// Finds a timebase of this graph, by itself, by name or by signal.
    pub(crate) fn find(&self, what: &Bound<'_, PyAny>) -> Result<TimebaseId> {
        if let Ok(timebase) = what.cast::<Timebase>() {
            let timebase = timebase.get();
            if Arc::ptr_eq(&timebase.network, &self.network) {
                return Ok(timebase.id);
            }
            let message = format!(
                "timebase {:?} belongs to another graph; make it by this graph's add(), or add its signal",
                timebase.name()
            );
            return Err(PackageError::new("TimeError", "foreign_timebase", message).into());
        }
        if let Ok(signal) = what.cast::<Signal>() {
            let signal = signal.get().get(what.py())?;
            return self.network.member(signal.timebase()).ok_or_else(|| {
                let message = format!(
                    "signal {:?} is not in this graph; add it: graph.add(signal)",
                    signal.name()
                );
                PackageError::new("TimeError", "foreign_timebase", message).into()
            });
        }
        let Ok(name) = what.extract::<String>() else {
            let message = format!(
                "got {} where a timebase is expected; give a Timebase, a name or a signal",
                what.get_type().name()?
            );
            return Err(PackageError::new("TimeArgumentError", "not_a_timebase", message).into());
        };
        self.network.id(&name)
    }
}

#[pymethods]
impl Graph {
    #[new]
    fn new() -> Self {
        let network = Arc::default();
        Self { network }
    }

    /// Adds the indices of a signal, which know civil time as far as the signal does, or a timebase of another kind.
    ///
    /// Parameters:
    ///     what: a signal, or the name of the new timebase.
    ///     name: another name for a signal's than its own, such as for one of the same name in another store.
    ///     rate: of a new timebase, units a second from `start` on, as for `Store.create`; or
    ///     start: civil time of its zero. None of both: joined to nothing until `connect`.
    ///     unit: of its values, such as "frames".
    ///
    /// Returns:
    ///     The `Timebase`; for a signal that is there already the same.
    ///
    /// Raises:
    ///     isochrony.TimeError: the name is taken.
    ///     isochrony.OptionError: `rate` without `start` or the reverse; options that do not go with a signal.
    #[pyo3(signature = (what, *, name=None, rate=None, start=None, unit=""))]
    fn add(
        &self,
        py: Python<'_>,
        what: &Bound<'_, PyAny>,
        name: Option<&str>,
        rate: Option<RateArg>,
        start: Option<TimeArg>,
        unit: &str,
    ) -> Result<Timebase> {
        if let Ok(signal) = what.cast::<Signal>() {
            if rate.is_some() || start.is_some() || !unit.is_empty() {
                let legal = "name= alone, since the signal knows the rest";
                return Err(option("rate, start or unit", "given with a signal", legal).into());
            }
            let id = self.network.add_signal(signal, name)?;
            return Ok(Timebase::member(&self.network, py, id));
        }
        let (Ok(title), None) = (what.extract::<String>(), name) else {
            let legal = "a signal, or the name of a new timebase and no name=";
            return Err(option("what", &what.get_type().name()?.to_string(), legal).into());
        };
        let id = match (rate, start) {
            (Some(rate), Some(start)) => {
                counting(&self.network, &title, unit, rate.0, start.0.value)?
            }
            (None, None) => self
                .network
                .add(&title, TimebaseKind::Unit(unit.to_owned()))?,
            (rate, _) => {
                let got = if rate.is_some() { "rate" } else { "start" };
                return Err(option("rate and start", got, "both, or neither").into());
            }
        };
        Ok(Timebase::member(&self.network, py, id))
    }

    /// Joins two timebases: `b = a * ratio + offset`. Used both ways.
    ///
    /// Parameters:
    ///     a, b: timebases of this graph, as such, by name ("utc" too) or as signals that were added.
    ///     ratio: units of `b` per unit of `a`, not zero, below zero if one runs backwards: int, float (the decimal that it
    ///         prints as), Fraction, Decimal, or a pair of whole numbers.
    ///     offset: value of `b` where `a` is zero.
    ///
    /// Raises:
    ///     isochrony.TimeError: the two are joined already, and this disagrees; nothing has changed then. No such timebase.
    #[pyo3(signature = (a, b, *, ratio, offset=None))]
    fn connect(
        &self,
        py: Python<'_>,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        ratio: &Bound<'_, PyAny>,
        offset: Option<&Bound<'_, PyAny>>,
    ) -> Result<()> {
        let (from, to) = (self.find(a)?, self.find(b)?);
        let offset = offset.map(number_arg).transpose()?.unwrap_or(Fixed::ZERO);
        let (num, den) = ratio_arg(ratio)?;
        self.network.connect(
            py,
            from,
            to,
            MetricDefinition::Derived(Derived::new(num, den, offset)?),
        )
    }

    /// Keeps the timebases and metrics of this graph with a store, instead of those that it had; on disk when this returns.
    /// `Store.graph()` gives them back. Signals are kept by name, with their own clocks as they then are.
    ///
    /// Parameters:
    ///     store: open for writing, which has all signals that metrics of this graph name.
    ///
    /// Raises:
    ///     isochrony.TimeError: a metric joins a signal that the store has not under this name.
    ///     isochrony.StoreError: a store open for reading (also PermissionError).
    ///
    /// >>> import isochrony as iso, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> graph = iso.Graph()
    /// >>> camera = graph.add("camera", unit="frames")
    /// >>> _ = camera.fit([(0, "2010-03-01"), (1000, "2010-03-01T00:00:40")], uncertainty=1e-3)
    /// >>> graph.save(store)
    /// >>> store.graph()["camera"].time_of(500)
    /// Time('2010-03-01T00:00:20Z')
    fn save(&self, py: Python<'_>, store: &Bound<'_, Store>) -> Result<()> {
        let set = self.network.set();
        let store = &store.get().shared.store;
        Ok(crate::interpreter::detach(py, || {
            store.set_timebases(&set)
        })?)
    }

    /// Names of the timebases on the shortest path between two, both included.
    ///
    /// Raises:
    ///     isochrony.TimeError: no path; the message names what each of the two reaches.
    fn path(
        &self,
        py: Python<'_>,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
    ) -> Result<Vec<String>> {
        let graph = self.network.current(py)?;
        let names = graph.path_names(self.find(a)?, self.find(b)?)?;
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// Names of the timebases, "utc" first, in the order in which they were added.
    fn keys(&self) -> Vec<String> {
        self.network.names()
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> Result<Timebase> {
        let id = self.network.id(name)?;
        Ok(Timebase::member(&self.network, py, id))
    }

    fn __contains__(&self, name: &str) -> bool {
        self.network.id(name).is_ok()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let names = self.keys().into_pyobject(py)?;
        Ok(names.try_iter()?.into_any())
    }

    fn __len__(&self) -> usize {
        self.keys().len()
    }

    fn __repr__(&self) -> String {
        format!("<Graph of {}>", self.keys().join(", "))
    }
}

#[pymethods]
impl Store {
    /// The timebases that are kept with the store (`Graph.save`), and the signals that they are joined to.
    ///
    /// Returns:
    ///     A new `Graph`; empty but for "utc" if none are kept.
    ///
    /// Raises:
    ///     isochrony.StoreError: a signal is gone that a metric names (also KeyError).
    fn graph(slf: &Bound<'_, Self>) -> Result<Graph> {
        let py = slf.py();
        let set = slf.get().shared.store.timebases()?;
        let network = Arc::<Network>::default();
        for timebase in &set.timebases {
            let unit = TimebaseKind::Unit(timebase.unit.clone());
            network.add(&timebase.name, unit)?;
        }
        for metric in &set.metrics {
            for name in [&metric.from, &metric.to] {
                if network.id(name).is_err() {
                    let signal = slf.get_item(name)?;
                    let signal = signal.cast::<Signal>().map_err(PyErr::from)?;
                    network.add_signal(signal, None)?;
                }
            }
            network.rejoin(py, metric)?;
        }
        Ok(Graph { network })
    }
}

#[pymethods]
impl Timebase {
    /// The `Graph` that it belongs to.
    #[getter]
    fn graph(&self) -> Graph {
        Graph {
            network: Arc::clone(&self.network),
        }
    }
}
