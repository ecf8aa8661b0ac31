//! `isochrony.Signal`: reading.

use std::sync::Arc;

use isochrony_store::Signal as StoreSignal;
use pyo3::prelude::*;

use crate::errors::Result;
use crate::interrupt::segment_of;
use crate::signal::gaps::Gaps;
use crate::signal::index::{as_index, is_index, single};
use crate::signal::key::resolve_key;
use crate::signal::runs::{Run, runs};
use crate::signal::selection::{Selection, overlap};
use crate::signal::writer::Writer;
use crate::store::handle::{Follower, OpenStore};
use crate::time::range::Range;
use crate::time::{TimeArg, rate_object};

/// A signal of a store: samples on an index axis, with gaps, runs, events and civil time.
///
/// Indices count from 0 in storage order and include gaps. `signal[a:b]` with indices or times,
/// `signal[isochrony.span(...)]` and `signal[timebase[a:b]]` are lazy `Selection`s. As in Python, negative indices
/// count from the end and slices are clamped. `signal[i]` is one value in the signal's unit.
///
/// A signal follows its store: this process's appends are visible at once, other processes' commits after `refresh()`.
///
/// It can be pickled, also into other processes: there it is read-only and keeps its end, gaps and times until
/// `refresh()`, whatever is appended meanwhile. If samples below that end were replaced, or the store is gone,
/// unpickling fails. Stamps and events are those of the store at that time. Commit before pickling a signal that you
/// write.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, unit="kPa", scale=0.5, start="2026-01-01")
/// >>> _ = signal.append(np.arange(1000, dtype="i2"))
/// >>> signal
/// <Signal p int16 in kPa at 100 Hz: 1000 samples, 0 gaps, 1 runs>
/// >>> signal[3], signal["2026-01-01T00:00:01":"2026-01-01T00:00:01.030"].values()
/// (np.float64(1.5), array([50. , 50.5, 51. ]))
/// >>> np.asarray(signal[-3:])
/// array([498.5, 499. , 499.5])
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Signal {
    pub(crate) follower: Follower,
    pub(crate) writer: Writer,
}

impl Signal {
    /// Writable if the store is.
    pub(crate) fn new(shared: &Arc<OpenStore>, signal: StoreSignal) -> Result<Self> {
        let writer = if shared.store.is_writable() {
            Writer::Stored(shared.store.writer(signal.name())?)
        } else {
            Writer::None
        };
        let live = matches!(writer, Writer::Stored(_));
        let follower = Follower::new(shared, signal, live);
        Ok(Self { follower, writer })
    }

    /// Read-only, and fixed until its store is refreshed.
    pub(crate) fn snapshot(shared: &Arc<OpenStore>, signal: StoreSignal) -> Self {
        Self {
            follower: Follower::new(shared, signal, false),
            writer: Writer::None,
        }
    }

    pub(crate) fn get(&self, py: Python<'_>) -> Result<StoreSignal> {
        self.follower.get(py)
    }

    pub(crate) fn pick(
        &self,
        py: Python<'_>,
        key: Option<&Bound<'_, PyAny>>,
        overlap: isochrony_store::Overlap,
    ) -> Result<Selection> {
        let signal = self.get(py)?;
        let mut asked = resolve_key(&signal, key)?;
        if key.is_some_and(|key| key.is_instance_of::<Range>()) {
            asked = asked.cut(signal.end_index());
        }
        let selection = signal.select_with(asked.span(), overlap)?;
        let selection = Selection::new(selection, asked, &self.follower.shared);
        Ok(match &self.writer {
            Writer::Scratch(scratch) => selection.of_scratch(scratch),
            _ => selection,
        })
    }
}

#[pymethods]
impl Signal {
    /// Name in the store, `/` between components.
    ///
    /// >>> signal.name
    /// 'p'
    #[getter]
    fn name(&self, py: Python<'_>) -> Result<String> {
        Ok(self.get(py)?.name().to_owned())
    }

    /// NumPy dtype of the raw samples as read.
    ///
    /// >>> signal.dtype
    /// dtype('int16')
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let name = self.get(py)?.dtype().name();
        Ok(py.import("numpy")?.call_method1("dtype", (name,))?)
    }

    /// Type of the samples on disk: the name of `dtype`, or "complex_int16" for pairs of int16 that are read as
    /// complex64.
    ///
    /// >>> signal.stored_dtype
    /// 'int16'
    #[getter]
    fn stored_dtype(&self, py: Python<'_>) -> Result<&'static str> {
        Ok(self.get(py)?.format().name())
    }

    /// Unit of the values; empty if unknown.
    ///
    /// >>> signal.unit
    /// 'kPa'
    #[getter]
    fn unit(&self, py: Python<'_>) -> Result<String> {
        Ok(self.get(py)?.unit().to_owned())
    }

    /// Units per count; 1 if uncalibrated.
    ///
    /// >>> signal.scale
    /// 0.5
    #[getter]
    fn scale(&self, py: Python<'_>) -> Result<f64> {
        Ok(self.get(py)?.calibration().scale())
    }

    /// Value of zero counts, in the unit; 0 if uncalibrated.
    ///
    /// >>> signal.offset
    /// 0.0
    #[getter]
    fn offset(&self, py: Python<'_>) -> Result<f64> {
        Ok(self.get(py)?.calibration().offset())
    }

    /// Nominal sample rate in Hz: a float with its exact ratio. `runs()` has the true rate of each clock.
    ///
    /// >>> signal.rate
    /// 100.0
    #[getter]
    fn rate<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        Ok(rate_object(py, self.get(py)?.rate())?)
    }

    /// Ranges without samples: a `Gaps`, a sequence of `Gap`.
    ///
    /// >>> signal.gaps
    /// <Gaps: 0 of p, 0 samples missing>
    #[getter]
    fn gaps(&self, py: Python<'_>) -> Result<Gaps> {
        Ok(Gaps::of(self.get(py)?))
    }

    /// Number of samples, gaps excluded.
    ///
    /// >>> signal.sample_count
    /// 1000
    #[getter]
    fn sample_count(&self, py: Python<'_>) -> Result<i64> {
        Ok(self.get(py)?.sample_count())
    }

    /// First index: always 0.
    ///
    /// >>> signal.start_index
    /// 0
    #[getter]
    fn start_index(&self, py: Python<'_>) -> Result<i64> {
        Ok(self.get(py)?.start_index())
    }

    /// End index, gaps included.
    ///
    /// >>> signal.end_index
    /// 1000
    #[getter]
    fn end_index(&self, py: Python<'_>) -> Result<i64> {
        Ok(self.get(py)?.end_index())
    }

    /// Compression of a sealed signal, "zstd" or "blosc"; empty while it can grow.
    ///
    /// >>> signal.codec
    /// ''
    #[getter]
    fn codec(&self, py: Python<'_>) -> Result<String> {
        Ok(self.get(py)?.codec().to_owned())
    }

    /// The clocks between clock steps.
    ///
    /// Returns:
    ///     A list of `Run`, in index order; empty without samples.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> signal.runs()
    /// [<Run 0 0..1000 first 100 Hz from 2026-01-01T00:00:00Z>]
    fn runs(&self, py: Python<'_>) -> Result<Vec<Run>> {
        let signal = self.get(py)?;
        crate::interpreter::detach(py, || runs(&signal))
    }

    /// Whether a range lies within the signal and has neither gap nor clock step. Takes O(log n) for n gaps.
    ///
    /// Parameters:
    ///     start: index or time; or a span, slice, range of any timebase, run or selection, also of another signal,
    ///         without `end`.
    ///     end: index or time after the last sample.
    ///
    /// Returns:
    ///     A bool.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(100, "i2")), signal.append_gap(samples=5), signal.append(np.zeros(100, "i2"))
    /// >>> signal.contiguous(0, 100), signal.contiguous(50, 150)
    /// (True, False)
    #[pyo3(signature = (start, end=None))]
    fn contiguous(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        end: Option<&Bound<'_, PyAny>>,
    ) -> Result<bool> {
        let signal = self.get(py)?;
        let asked = between(&signal, start, end)?;
        Ok(signal.contiguous(asked.span())?)
    }

    /// Whether a range lies within the signal, gaps included. Parameters are those of `contiguous`.
    ///
    /// Returns:
    ///     A bool.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> signal.in_bounds(900, 1000), signal.in_bounds(900, 1001)
    /// (True, False)
    #[pyo3(signature = (start, end=None))]
    fn in_bounds(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        end: Option<&Bound<'_, PyAny>>,
    ) -> Result<bool> {
        let signal = self.get(py)?;
        let asked = between(&signal, start, end)?;
        Ok(signal.in_bounds(asked.span())?)
    }

    /// A lazy selection, like `signal[key]`, with a choice for runs that overlap in civil time.
    ///
    /// Parameters:
    ///     key: slice, span, range of any timebase, run, gap or selection; None: all.
    ///     overlap: "first" or "last" stored run wins, or "all" samples run after run.
    ///
    /// Returns:
    ///     A `Selection`. Edges: the part of a range outside the signal is left out.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> signal.select(slice(100, 300), overlap="last")
    /// <Selection of p: 200 samples, no gaps>
    #[pyo3(signature = (key=None, *, overlap="first"))]
    fn select(
        &self,
        py: Python<'_>,
        key: Option<&Bound<'_, PyAny>>,
        overlap: &str,
    ) -> Result<Selection> {
        self.pick(py, key, self::overlap(overlap)?)
    }

    /// Adopts commits of other processes.
    ///
    /// Returns:
    ///     A bool: whether there were any.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> _ = store.commit()
    /// >>> reader = iso.open(store.path)["p"]
    /// >>> _ = signal.append(np.zeros(500, "i2")), store.commit()
    /// >>> reader.refresh(), reader.end_index
    /// (True, 1500)
    fn refresh(&self, py: Python<'_>) -> Result<bool> {
        crate::interpreter::detach(py, || self.follower.refresh())
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if !is_index(key) {
            let selection = this.pick(py, Some(key), Default::default())?;
            return Ok(Bound::new(py, selection)?.into_any());
        }
        let signal = this.get(py)?;
        let array = crate::signal::segment::values(py, &one(&signal, key)?)?;
        Ok(array.get_item(0)?)
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        Ok(usize::try_from(self.get(py)?.end_index()).unwrap_or(usize::MAX))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        let all = self.pick(py, None, Default::default())?;
        let array = Bound::new(py, all)?;
        Ok(array.call_method1("__array__", (dtype, copy))?)
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> Result<bool> {
        let (a, b) = (self.get(py)?, other.get(py)?);
        Ok(a.id() == b.id()
            && self.follower.shared.store.path() == other.follower.shared.store.path())
    }

    fn __hash__(&self, py: Python<'_>) -> Result<u64> {
        Ok(self.get(py)?.id().0)
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let signal = self.get(py)?;
        let unit = match signal.unit() {
            "" => String::new(),
            unit => format!(" in {unit}"),
        };
        Ok(format!(
            "<Signal {} {}{unit} at {} Hz: {} samples, {} gaps, {} runs>",
            signal.name(),
            signal.dtype(),
            signal.rate(),
            signal.sample_count(),
            signal.gaps().len(),
            signal.state().runs.len(),
        ))
    }
}

#[pymethods]
impl Selection {
    /// The signal, as it was when the selection was made.
    ///
    /// >>> selection.signal
    /// <Signal p int16 at 100 Hz: 8 samples, 1 gaps, 1 runs>
    #[getter(signal)]
    fn signal_object(&self) -> Signal {
        Signal::snapshot(&self.shared, self.signal().clone())
    }
}

pub(crate) fn one(
    signal: &StoreSignal,
    key: &Bound<'_, PyAny>,
) -> Result<isochrony_segment::SigSeg> {
    let at = single(key, signal.end_index())?;
    segment_of(key.py(), &signal.select(at)?)
}

pub(crate) fn between(
    signal: &StoreSignal,
    start: &Bound<'_, PyAny>,
    end: Option<&Bound<'_, PyAny>>,
) -> Result<crate::signal::key_range::KeyRange> {
    let Some(end) = end else {
        return resolve_key(signal, Some(start));
    };
    if is_index(start) && is_index(end) {
        // Not clamped: the question is about these ends.
        return Ok(crate::signal::key_range::KeyRange::Index(
            as_index(start)?..as_index(end)?,
        ));
    }
    let (start, end) = (start.extract::<TimeArg>()?.0, end.extract::<TimeArg>()?.0);
    Ok(crate::signal::key_range::KeyRange::Civil(
        start.value..end.value,
    ))
}
