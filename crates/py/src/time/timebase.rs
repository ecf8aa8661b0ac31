//! `isochrony.Timebase`: a time axis other than civil time, such as a signal's indices.

use std::sync::Arc;

use isochrony_store::state::SignalState;
use isochrony_time::{Derived, Exact, Fixed, Round, TimebaseId, TimebaseKind};
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::signal::Signal;
use crate::time::network::{DerivationBase, Network, counting};
use crate::time::numbers::{exact_arg, exact_fraction, number_arg, ratio_arg};
use crate::time::{RateArg, Time, TimeArg};

/// A named time axis: a signal's indices, or another counter, such as a camera's frames.
///
/// Joined to civil time by a rate and a start, to another timebase by a ratio and an offset (`derive`,
/// `Graph.connect`), or, for a signal's indices, by the stamps of its recordings. `timebase[a:b]` is a half-open
/// `Range`, which selects from any signal with civil time: `signal[frames[100:200]]`. Values are exact numbers,
/// returned as `fractions.Fraction`; those of a graph's "utc" are times.
///
/// Parameters:
///     name: name of the timebase, for messages.
///     rate: units per second, above zero, as for `Store.create`: 25, "30000/1001", Fraction(44_100_000, 1001).
///     start: civil time of zero.
///     unit: unit of the values, such as "frames".
///
/// Raises:
///     isochrony.TimeError: an invalid rate or time.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("x", dtype="i2", rate=2000, start="2010-03-01")
/// >>> _ = signal.append(np.arange(20_000, dtype="i2"))
/// >>> frames = iso.Timebase("frames", rate="30000/1001", start="2010-03-01T00:00:01")
/// >>> frames.time_of(30)
/// Time('2010-03-01T00:00:02.001Z')
/// >>> signal[frames[30:60]]
/// <Selection of x: 2002 samples, no gaps>
/// >>> blocks = signal.timebase.derive("blocks", ratio=(1, 4096))       # a block is 4096 samples
/// >>> signal[blocks[1:3]].ranges
/// [(4096, 12288)]
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Timebase {
    pub(crate) network: Arc<Network>,
    pub(crate) id: TimebaseId,
    pub(crate) signal: Option<Py<Signal>>,
}

impl Timebase {
    pub(crate) fn of(signal: &Bound<'_, Signal>) -> Result<Self> {
        let network = Arc::<Network>::default();
        let id = network.add_signal(signal, None)?;
        Ok(Self::member(&network, signal.py(), id))
    }

    pub(crate) fn member(network: &Arc<Network>, py: Python<'_>, id: TimebaseId) -> Self {
        Self {
            network: Arc::clone(network),
            id,
            signal: network.signal_of(py, id),
        }
    }

    /// A timebase, or a signal's indices.
    pub(crate) fn from_object<'py>(what: &Bound<'py, PyAny>) -> Result<Bound<'py, Self>> {
        if let Ok(timebase) = what.cast::<Self>() {
            return Ok(timebase.clone());
        }
        if let Ok(signal) = what.cast::<Signal>() {
            return Ok(Bound::new(what.py(), Self::of(signal)?)?);
        }
        let message = format!(
            "got {} where a timebase is expected; give a Timebase or a signal",
            what.get_type().name()?
        );
        Err(PackageError::new("TimeArgumentError", "not_a_timebase", message).into())
    }

    pub(crate) fn name(&self) -> String {
        self.network.name(self.id)
    }

    pub(crate) fn is_civil(&self) -> bool {
        self.id == TimebaseId::CIVIL
    }

    pub(crate) fn value(&self, value: &Bound<'_, PyAny>) -> Result<isochrony_time::Time<Exact>> {
        if self.is_civil() {
            return Ok(self.civil(value.extract::<TimeArg>()?.0).into());
        }
        Ok(isochrony_time::Time::exact(exact_arg(value)?, self.id))
    }

    pub(crate) fn object<'py>(
        &self,
        py: Python<'py>,
        value: &isochrony_time::Time<Exact>,
    ) -> Result<Bound<'py, PyAny>> {
        if self.is_civil() {
            return Ok(Bound::new(py, self.time(value.rounded()?))?.into_any());
        }
        Ok(exact_fraction(py, &value.value)?)
    }

    fn civil(&self, time: Time) -> isochrony_time::Time {
        let mut time = time.native();
        time.origin = time.origin.and_then(|axis| self.network.member(axis));
        time.run = time.run.filter(|_| time.origin.is_some());
        time
    }

    fn time(&self, mut time: isochrony_time::Time) -> Time {
        time.origin = time.origin.and_then(|id| self.network.axis(id));
        time.run = time.run.filter(|_| time.origin.is_some());
        time.into()
    }

    fn civil_of(&self, py: Python<'_>, value: isochrony_time::Time<Exact>) -> Result<Time> {
        let graph = self.network.current(py)?;
        let (civil, half) = graph.convert_with_uncertainty(value, TimebaseId::CIVIL)?;
        let mut time = self.time(civil.rounded()?);
        time.uncertainty = Some(half);
        // The fit does not know gaps.
        if let Some(signal) = time.origin.and_then(|axis| self.network.signal(py, axis)) {
            let signal = signal.get().get(py)?;
            time.gap |= signal.index_of(&time.native(), Round::Floor, None)?.in_gap;
        }
        Ok(time)
    }

    /// Or that of the same signal.
    pub(crate) fn counterpart(&self, py: Python<'_>, other: &Self) -> Result<Option<TimebaseId>> {
        if Arc::ptr_eq(&self.network, &other.network) || other.is_civil() {
            return Ok(Some(other.id));
        }
        let Some(signal) = &other.signal else {
            return Ok(None);
        };
        Ok(self.network.member(signal.get().get(py)?.timebase()))
    }

    fn state(&self, py: Python<'_>) -> Result<Option<Arc<SignalState>>> {
        let signal = self.signal.as_ref().map(|signal| signal.get().get(py));
        Ok(signal.transpose()?.map(|signal| Arc::clone(signal.state())))
    }
}

#[pymethods]
impl Timebase {
    #[new]
    #[pyo3(signature = (name, *, rate, start, unit=""))]
    fn new(name: &str, rate: RateArg, start: TimeArg, unit: &str) -> Result<Self> {
        let network = Arc::<Network>::default();
        let id = counting(&network, name, unit, rate.0, start.0.value)?;
        Ok(Self {
            network,
            id,
            signal: None,
        })
    }

    /// Its name, or the signal's.
    ///
    /// >>> frames.name
    /// 'frames'
    #[getter(name)]
    fn name_text(&self) -> String {
        self.name()
    }

    /// Unit of its values: "samples" for a signal's indices, "ns" for "utc", else as given.
    ///
    /// >>> signal.timebase.unit, frames.unit
    /// ('samples', '')
    #[getter]
    fn unit(&self) -> String {
        match self.network.kind(self.id) {
            TimebaseKind::Index => "samples".to_owned(),
            TimebaseKind::Civil => "ns".to_owned(),
            TimebaseKind::Unit(unit) => unit,
        }
    }

    /// The signal of these indices; None for other timebases.
    ///
    /// >>> signal.timebase.signal, frames.signal
    /// (<Signal x int16 at 2000 Hz: 20000 samples, 0 gaps, 1 runs>, None)
    #[getter]
    fn signal(&self, py: Python<'_>) -> Option<Py<Signal>> {
        self.signal.as_ref().map(|signal| signal.clone_ref(py))
    }

    /// A timebase with values `ratio` times this one's plus `offset`.
    ///
    /// Parameters:
    ///     name: not yet in the graph.
    ///     ratio: units of the new one per unit of this one, not zero: int, float (the decimal that it prints as),
    ///         Fraction, Decimal, or a pair of whole numbers.
    ///     offset: value of the new one where this one is zero.
    ///     unit: unit of its values.
    ///
    /// Returns:
    ///     The new `Timebase`, in the same graph.
    ///
    /// Raises:
    ///     isochrony.TimeError: a name that is taken, a ratio of zero.
    ///
    /// >>> import isochrony as iso
    /// >>> pulses = iso.Timebase("pulses", rate=100, start="2010-03-01")
    /// >>> frames = pulses.derive("frames", ratio=(1, 4), unit="frames")      # a frame for each fourth pulse
    /// >>> frames.time_of(25)
    /// Time('2010-03-01T00:00:01Z')
    #[pyo3(signature = (name, *, ratio, offset=None, unit=""))]
    fn derive(
        &self,
        py: Python<'_>,
        name: &str,
        ratio: &Bound<'_, PyAny>,
        offset: Option<&Bound<'_, PyAny>>,
        unit: &str,
    ) -> Result<Self> {
        let offset = offset.map(number_arg).transpose()?.unwrap_or(Fixed::ZERO);
        let (num, den) = ratio_arg(ratio)?;
        let map = Derived::new(num, den, offset)?;
        let other = DerivationBase::Timebase(self.id);
        let id = self.network.derive(name, unit, map, other)?;
        Ok(Self::member(&self.network, py, id))
    }

    /// Civil time of a value.
    ///
    /// Parameters:
    ///     value: a number.
    ///
    /// Returns:
    ///     A `Time`; if the path contains a signal, with the signal's run and a flag inside a gap. Its `uncertainty_ns`
    ///     combines the metrics on the path.
    ///
    /// Raises:
    ///     isochrony.TimeError: not joined to civil time.
    ///
    /// >>> import isochrony as iso
    /// >>> frames = iso.Timebase("frames", rate=25, start="2010-03-01")
    /// >>> frames.time_of(100)
    /// Time('2010-03-01T00:00:04Z')
    fn time_of(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> Result<Time> {
        self.civil_of(py, self.value(value)?)
    }

    /// Value at a civil time, the inverse of `time_of`.
    ///
    /// Parameters:
    ///     time: a time; one from a signal knows its run.
    ///
    /// Returns:
    ///     A `Fraction`, to 2**-32 of a unit; whole for the time of a sample.
    ///
    /// Raises:
    ///     isochrony.TimeError: not joined to civil time; ambiguous after a backward clock step.
    ///
    /// >>> import isochrony as iso
    /// >>> frames = iso.Timebase("frames", rate=25, start="2010-03-01")
    /// >>> frames.value_of("2010-03-01T00:00:04")
    /// Fraction(100, 1)
    fn value_of<'py>(&self, py: Python<'py>, time: TimeArg) -> Result<Bound<'py, PyAny>> {
        let graph = self.network.current(py)?;
        let value = graph.convert_exact(self.civil(time.0).into(), self.id)?;
        self.object(py, &value)
    }

    /// Converts a value to another timebase, by the shortest path; between graphs by civil time.
    ///
    /// Parameters:
    ///     value: a number.
    ///     to: a timebase, or a signal for its indices.
    ///
    /// Returns:
    ///     A `Fraction`, to 2**-32 of a unit; a `Time` if `to` is "utc".
    ///
    /// Raises:
    ///     isochrony.TimeError: no conversion relates the two timebases; the message names those that each reaches.
    ///
    /// >>> import isochrony as iso
    /// >>> graph = iso.Graph()
    /// >>> pulses = graph.add("pulses", rate=100, start="2010-03-01")
    /// >>> frames = pulses.derive("frames", ratio=(1, 4))
    /// >>> pulses.convert(10, frames), pulses.convert(10, graph["utc"])
    /// (Fraction(5, 2), Time('2010-03-01T00:00:00.100Z'))
    fn convert<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
        to: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let value = self.value(value)?;
        let other = Self::from_object(to)?;
        let other = other.get();
        if other.is_civil() {
            // Origin and run are of this graph.
            return Ok(Bound::new(py, self.civil_of(py, value)?)?.into_any());
        }
        if let Some(id) = self.counterpart(py, other)? {
            let graph = self.network.current(py)?;
            return other.object(py, &graph.convert_exact(value, id)?);
        }
        // Ids have no meaning there. Origin and run are passed if it has the same signal.
        let graph = self.network.current(py)?;
        let mut civil = graph.convert_exact(value, TimebaseId::CIVIL)?;
        let axis = civil.origin.and_then(|id| self.network.axis(id));
        civil.origin = axis.and_then(|axis| other.network.member(axis));
        civil.run = civil.run.filter(|_| civil.origin.is_some());
        let graph = other.network.current(py)?;
        other.object(py, &graph.convert_exact(civil, other.id)?)
    }

    /// Raw stamps, a `Table`: sample "index" of "run" was taken in [civil, civil + resolution), in ns since 1970 with
    /// fractions in 2**-32 ns. "use" is 0 if the fit uses the stamp. Empty unless the timebase is a signal's.
    ///
    /// >>> signal.timebase.points.num_rows
    /// 1
    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        crate::signal::stamps::points(py, self.state(py)?.as_deref())
    }

    /// The pieces fitted to the stamps, a `Table`: from "index" up to "end" (-1: open) of "run", civil(i) = civil + (i
    /// - index) * ns_num / ns_den, off by at most "uncertainty_ns". Empty unless the timebase is a signal's.
    ///
    /// >>> signal.timebase.pieces.num_rows
    /// 1
    #[getter]
    fn pieces<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        crate::signal::stamps::fit(py, self.state(py)?.as_deref())
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        Ok(self.state(py)?.map_or(0, |state| state.points.len()))
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __eq__(&self, other: &Self) -> bool {
        let axis = |one: &Self| one.network.axis(one.id);
        Arc::ptr_eq(&self.network, &other.network) && self.id == other.id
            || self.is_civil() && other.is_civil()
            || axis(self).is_some() && axis(self) == axis(other)
    }

    fn __hash__(&self) -> u64 {
        self.network.axis(self.id).unwrap_or(self.id).0.into()
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let name = self.name();
        Ok(match self.state(py)? {
            Some(state) => {
                let (points, pieces) = (state.points.len(), state.fit.len());
                format!("<Timebase of {name}: {points} stamps, {pieces} fitted pieces>")
            }
            None => format!("<Timebase {name}>"),
        })
    }
}

#[pymethods]
impl Signal {
    /// Its indices as a `Timebase`, with civil time by its stamps; None if it has none (but see `Graph.add`).
    ///
    /// >>> signal.timebase.unit, signal.timebase.time_of(100)
    /// ('samples', Time('2026-01-01T00:00:01Z'))
    #[getter]
    fn timebase(slf: &Bound<'_, Self>) -> Result<Option<Timebase>> {
        let signal = slf.get().get(slf.py())?;
        let known = signal.empirical()?.is_some();
        known.then(|| Timebase::of(slf)).transpose()
    }
}
