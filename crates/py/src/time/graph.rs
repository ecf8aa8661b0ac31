//! `isochrony.Graph`: timebases and the metrics between them.

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

/// Timebases and the metrics between them: signals' indices, civil time, and other time axes.
///
/// A single timebase needs no graph: `isochrony.Timebase(...)` and `signal.timebase` have their own. A graph is for
/// timebases related to each other, such as a camera that counts its trigger's pulses. Conversions take the shortest
/// path, by breadth-first search. Civil time is always present as "utc", in nanoseconds since 1970.
///
/// Raises:
///     isochrony.TimeError: a taken name; a metric that contradicts existing ones; two timebases that no conversion relates.
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

    /// Adds a signal's indices, with its civil time, or another timebase.
    ///
    /// Parameters:
    ///     what: a signal, or the name of the new timebase.
    ///     name: for a signal, another name than its own, such as for equal names in two stores.
    ///     rate: rate of a new timebase: units per second, as for `Store.create`; needs `start`.
    ///     start: civil time of its zero; needs `rate`. Without both, it is joined to no other until `connect`.
    ///     unit: unit of its values, such as "frames".
    ///
    /// Returns:
    ///     The `Timebase`; for a signal added before, the same.
    ///
    /// Raises:
    ///     isochrony.TimeError: a taken name.
    ///     isochrony.OptionError: `rate` without `start` or vice versa; options that signals do not have.
    ///
    /// >>> import isochrony as iso
    /// >>> graph = iso.Graph()
    /// >>> frames = graph.add("frames", rate=25, start="2010-03-01", unit="frames")
    /// >>> frames.time_of(50)
    /// Time('2010-03-01T00:00:02Z')
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

    /// Joins two timebases in both directions: `b = a * ratio + offset`.
    ///
    /// Parameters:
    ///     a, b: timebases of this graph, also by name ("utc" too) or as added signals.
    ///     ratio: units of `b` per unit of `a`, not zero, negative if one runs backwards: int, float (the decimal that
    ///         it prints as), Fraction, Decimal, or a pair of whole numbers.
    ///     offset: value of `b` where `a` is zero.
    ///
    /// Raises:
    ///     isochrony.TimeError: a contradiction to existing metrics; nothing has changed then. No such timebase.
    ///
    /// >>> import isochrony as iso
    /// >>> graph = iso.Graph()
    /// >>> pulses = graph.add("pulses", rate=100, start="2010-03-01")
    /// >>> frames = graph.add("frames")
    /// >>> graph.connect(frames, pulses, ratio=4, offset=10)      # frame 0 at pulse 10, then each fourth pulse
    /// >>> frames.convert(5, pulses)
    /// Fraction(30, 1)
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

    /// Saves the graph's timebases and metrics in a store, replacing earlier ones; durable on return. `Store.graph()`
    /// restores them. Signals are stored by name, and have their own clocks when restored.
    ///
    /// Parameters:
    ///     store: open for writing, with all signals named by metrics.
    ///
    /// Raises:
    ///     isochrony.TimeError: a metric of a signal that the store lacks under this name.
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

    /// The shortest path of conversions between two timebases.
    ///
    /// Parameters:
    ///     a: a timebase of this graph, its name, or a signal that was added.
    ///     b: likewise.
    ///
    /// Returns:
    ///     A list of their names, both ends included.
    ///
    /// Raises:
    ///     isochrony.TimeError: no conversion relates the two timebases; the message names those that each reaches.
    ///
    /// >>> import isochrony as iso
    /// >>> graph = iso.Graph()
    /// >>> pulses = graph.add("pulses", rate=100, start="2010-03-01")
    /// >>> frames = pulses.derive("frames", ratio=(1, 4))
    /// >>> graph.path(frames, "utc")
    /// ['frames', 'pulses', 'utc']
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

    /// Names of the timebases.
    ///
    /// Returns:
    ///     A list of str, "utc" first, then in order of addition.
    ///
    /// >>> import isochrony as iso
    /// >>> graph = iso.Graph()
    /// >>> _ = graph.add("pulses", rate=100, start="2010-03-01"), graph.add("frames")
    /// >>> graph.keys()
    /// ['utc', 'pulses', 'frames']
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
    /// The timebases saved with the store (`Graph.save`), and the signals joined to them.
    ///
    /// Returns:
    ///     A new `Graph`; only "utc" if none are saved.
    ///
    /// Raises:
    ///     isochrony.StoreError: a signal named by a metric is gone (also KeyError).
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> graph = iso.Graph()
    /// >>> _ = graph.add("frames", rate=25, start="2026-01-01")
    /// >>> graph.save(store)
    /// >>> store.graph().keys()
    /// ['utc', 'frames']
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
    /// The `Graph` of this timebase.
    ///
    /// >>> frames.graph is None
    /// False
    #[getter]
    fn graph(&self) -> Graph {
        Graph {
            network: Arc::clone(&self.network),
        }
    }
}
