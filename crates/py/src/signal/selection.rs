//! `isochrony.Selection`: samples of a range of a signal.

use std::sync::Arc;

use isochrony_segment::SigSeg;
use isochrony_store::{Scratch, StoreError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{PackageError, Result};
use crate::interrupt::{bytes_to_wait_for, interruptible, segment_of};
use crate::signal::gaps::Gaps;
use crate::signal::key_range::KeyRange;
use crate::signal::segment::{Segment, array_as_requested, values};
use crate::store::handle::OpenStore;
use crate::time::Time;

/// Samples of a signal, read lazily when `segments`, `values` or an array are requested.
///
/// `numpy.asarray(selection)` gives the samples of a gap-free selection in the signal's unit, shape (n,): read-only and
/// without a copy if the signal is uncalibrated and the samples lie in one buffer, else float64 (complex128). A gap or
/// clock step is an error that names it: iterate over `segments`, or use `values(fill=...)`. `selection[i]` is the
/// value at position i of `values()`.
///
/// It can be pickled like its signal.
///
/// Raises:
///     isochrony.GapError: an array was requested across a gap or a clock step.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
/// >>> _ = signal.append(np.arange(5, dtype="i2")), signal.append_gap(samples=2)
/// >>> _ = signal.append(np.arange(3, dtype="i2"))
/// >>> selection = signal[3:9]
/// >>> selection, selection.ranges, selection.sample_count
/// (<Selection of p: 4 samples, 1 gap>, [(3, 9)], 4)
/// >>> selection.values()
/// array([ 3.,  4., nan, nan,  0.,  1.])
/// >>> [(segment.start, segment.counts) for segment in selection.segments]
/// [(3, array([3, 4], dtype=int16)), (7, array([0, 1], dtype=int16))]
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Selection {
    pub(crate) selection: isochrony_store::Selection,
    asked: KeyRange,
    pub(crate) shared: Arc<OpenStore>,
    pub(crate) scratch: Option<Scratch>,
}

impl Selection {
    pub(crate) fn new(
        selection: isochrony_store::Selection,
        asked: KeyRange,
        shared: &Arc<OpenStore>,
    ) -> Self {
        Self {
            selection,
            asked,
            shared: Arc::clone(shared),
            scratch: None,
        }
    }

    pub(crate) fn of_scratch(self, scratch: &Scratch) -> Self {
        let scratch = Some(scratch.clone());
        Self { scratch, ..self }
    }

    pub(crate) fn key_range(&self) -> KeyRange {
        self.asked.clone()
    }

    pub(crate) fn signal(&self) -> &isochrony_store::Signal {
        self.selection.signal()
    }

    fn placed(&self, seg: SigSeg) -> Result<Segment> {
        let time = time_of_first(self.selection.signal(), &seg)?;
        Ok(Segment { seg, time })
    }
}

/// None in a run without stamps.
pub(crate) fn time_of_first(
    signal: &isochrony_store::Signal,
    seg: &SigSeg,
) -> Result<Option<Time>> {
    match signal.time_of(seg.start()) {
        Err(StoreError::NoCivilTime { .. }) => Ok(None),
        _ => crate::signal::conversion::time_of(signal, seg.start()).map(Some),
    }
}

#[pymethods]
impl Selection {
    /// The gap-free ranges, a list of `Segment` in selection order, split at gaps and clock steps. No samples are
    /// copied.
    ///
    /// >>> [(segment.start, segment.end) for segment in selection.segments]
    /// [(3, 5), (7, 9)]
    #[getter]
    pub(crate) fn segments(&self, py: Python<'_>) -> Result<Vec<Segment>> {
        interruptible(py, bytes_to_wait_for(self.signal().is_remote(), 0), || {
            let segments = self.selection.segments();
            segments.map(|seg| self.placed(seg?)).collect()
        })
    }

    /// The gaps inside the selection, cut to it: a `Gaps`.
    ///
    /// >>> selection.gaps
    /// <Gaps: 1 of p, 2 samples missing>
    #[getter]
    fn gaps(&self) -> Gaps {
        Gaps::listed(self.signal().clone(), self.selection.gaps().collect())
    }

    /// Number of selected samples, gaps excluded.
    ///
    /// >>> selection.sample_count
    /// 4
    #[getter]
    fn sample_count(&self) -> i64 {
        self.selection.sample_count()
    }

    /// Selected index ranges, gaps included, one or more per run: a list of pairs `(start, end)`.
    ///
    /// >>> selection.ranges
    /// [(3, 9)]
    #[getter]
    fn ranges(&self) -> Vec<(i64, i64)> {
        let parts = self.selection.parts().iter();
        parts
            .map(|part| (part.range.start, part.range.end))
            .collect()
    }

    /// Name of the signal.
    ///
    /// >>> selection.name
    /// 'p'
    #[getter]
    fn name(&self) -> &str {
        self.signal().name()
    }

    /// Unit of the values; empty if unknown.
    ///
    /// >>> selection.unit
    /// ''
    #[getter]
    fn unit(&self) -> &str {
        self.signal().unit()
    }

    /// The raw samples of a gap-free selection.
    ///
    /// Returns:
    ///     A read-only array, shape (n,), of the signal's dtype; no copy if the samples lie in one buffer.
    ///
    /// Raises:
    ///     isochrony.GapError: the selection covers a gap or a clock step.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, scale=0.5)
    /// >>> _ = signal.append(np.arange(10, dtype="i2"))
    /// >>> signal[4:7].counts
    /// array([4, 5, 6], dtype=int16)
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        crate::signal::segment::counts(py, &segment_of(py, &self.selection)?)
    }

    /// True where a selected index has a sample.
    ///
    /// Returns:
    ///     A new array, shape (n,), of bool. Edges: those of `values()`.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100)
    /// >>> _ = signal.append(np.zeros(2, "i2")), signal.append_gap(samples=1), signal.append(np.zeros(1, "i2"))
    /// >>> signal[:].mask()
    /// array([ True,  True, False,  True])
    fn mask<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let length = usize::try_from(self.selection.len()).unwrap_or(0);
        let mut memory = isochrony_segment::BufferMut::zeroed(length)?;
        crate::interpreter::detach(py, || {
            let bytes = memory.bytes_mut();
            let mut base = 0;
            for part in self.selection.parts() {
                let length = (part.range.end - part.range.start) as usize;
                let run = &mut bytes[base..base + length];
                run.fill(1);
                for gap in self.signal().gaps().within(part.range.clone()) {
                    let start = (gap.start - part.range.start) as usize;
                    let end = (gap.end() - part.range.start) as usize;
                    run[start..end].fill(0);
                }
                base += length;
            }
        });
        Ok(crate::memory::own(
            py,
            memory,
            isochrony_segment::DType::Bool,
            None,
        )?)
    }

    /// Civil times of the selected indices, gaps included, one per element of `values()`.
    ///
    /// Returns:
    ///     A new array, shape (n,), datetime64[ns], rounded to the nanosecond. Edges: those of `values()`.
    ///
    /// Raises:
    ///     isochrony.StoreError: the signal has no civil time.
    ///     isochrony.TimeError: outside the years 1678 to 2262.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(10, "i2"))
    /// >>> signal[4:6].times()
    /// array(['2026-01-01T00:00:00.040000000', '2026-01-01T00:00:00.050000000'],
    ///       dtype='datetime64[ns]')
    pub(crate) fn times<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let parts = self.selection.parts().iter().map(|part| &part.range);
        crate::signal::conversion::civil_times(py, parts, |start, out| {
            Ok(self.signal().civil_grid_ns(start, 1, out)?)
        })
    }

    fn _times_of<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        crate::signal::conversion::times_if_known(py, self.signal(), indices)
    }

    /// Converts the selection to an `xarray.DataArray`. Parameters and errors are those of `Signal.to_xarray`.
    ///
    /// Returns:
    ///     An `xarray.DataArray` over "time", shape (n,), with NaN in gaps.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> signal[100:104].to_xarray(chunks=0).values
    /// array([100., 101., 102., 103.])
    #[pyo3(signature = (**options))]
    fn to_xarray<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        forward(slf.as_any(), "to_xarray", options)
    }

    /// Converts the selection to an ObsPy `Stream`. Parameters and errors are those of `Signal.to_obspy`.
    ///
    /// Returns:
    ///     An `obspy.Stream`, one trace per gap-free segment.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/quakes.iso", "x")
    /// >>> signal = store.create("GE/APE/--/BHZ", dtype="i4", rate=20, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(200, "i4"))
    /// >>> print(signal[20:60].to_obspy())
    /// 1 Trace(s) in Stream:
    /// GE.APE..BHZ | 2026-01-01T00:00:01.000000Z - 2026-01-01T00:00:02.950000Z | 20.0 Hz, 40 samples
    #[pyo3(signature = (**options))]
    fn to_obspy<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        forward(slf.as_any(), "to_obspy", options)
    }

    /// Whether another process can read the same: committed, and not scratch.
    fn _is_committed(&self) -> bool {
        let signal = self.signal();
        self.scratch.is_none() && !self.shared.store.has_pending_in(signal)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.selection.len()).unwrap_or(usize::MAX)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        let seg = segment_of(py, &self.selection)?;
        let shared = seg.stream().calibration.is_identity() && seg.is_contiguous();
        array_as_requested(values(py, &seg)?, shared, dtype, copy)
    }

    fn __repr__(&self) -> String {
        let gaps = self.selection.gaps().count();
        let gaps = match gaps {
            0 => "no gaps".to_owned(),
            1 => "1 gap".to_owned(),
            n => format!("{n} gaps"),
        };
        format!(
            "<Selection of {}: {} samples, {gaps}>",
            self.name(),
            self.sample_count()
        )
    }
}

/// Calls `isochrony.store.convert.<function>(object, **options)`.
pub(crate) fn forward<'py>(
    object: &Bound<'py, PyAny>,
    function: &str,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    object
        .py()
        .import("isochrony.store.convert")?
        .getattr(function)?
        .call((object,), options)
}

pub(crate) fn overlap(text: &str) -> Result<isochrony_store::Overlap> {
    Ok(match text {
        "first" => isochrony_store::Overlap::First,
        "last" => isochrony_store::Overlap::Last,
        "all" => isochrony_store::Overlap::All,
        _ => {
            let message =
                format!("overlap={text:?} is refused; give \"first\", \"last\" or \"all\"");
            return Err(PackageError::new("OptionError", "bad_option", message).into());
        }
    })
}
