//! Start, end and duration of signals and selections, and single values by position.

use isochrony_segment::SigSeg;
use isochrony_store::{Selection as StoreSelection, StoreError};
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::interrupt::segment_of;
use crate::signal::Signal;
use crate::signal::index::{as_index, is_index};
use crate::signal::segment::Segment;
use crate::signal::selection::Selection;
use crate::time::{Time, seconds};

/// Civil extent, gaps included; None without civil time.
fn extent(selection: &StoreSelection) -> Result<Option<(Time, Time)>> {
    let signal = selection.signal();
    let mut extent: Option<(Time, Time)> = None;
    for part in selection
        .parts()
        .iter()
        .filter(|part| !part.range.is_empty())
    {
        let range = &part.range;
        let start = match signal.time_of(range.start) {
            Err(StoreError::NoCivilTime { .. }) => continue,
            _ => crate::signal::conversion::time_of(signal, range.start)?,
        };
        let mut end = crate::signal::conversion::time_of(signal, range.end - 1)?;
        end.value = signal.end_of_sample(range.end - 1)?;
        end.gap = false;
        extent = Some(match extent {
            None => (start, end),
            Some((first, last)) => (
                if start.value < first.value {
                    start
                } else {
                    first
                },
                if end.value > last.value { end } else { last },
            ),
        });
    }
    Ok(extent)
}

fn duration<'py>(py: Python<'py>, selection: &StoreSelection) -> Result<Bound<'py, PyAny>> {
    let bits = match extent(selection)? {
        Some((start, end)) => end.value.to_bits() - start.value.to_bits(),
        None => selection
            .signal()
            .rate()
            .duration_ns(selection.len())?
            .to_bits(),
    };
    Ok(seconds(py, bits)?)
}

/// It could mean values or segments.
fn not_iterable(what: &str) -> PackageError {
    let message = format!(
        "iterating over a {what} is refused, since it could mean values or segments: iterate over {what}.segments, or \
         over isochrony.scan({what}), which reads block by block; {what}.values() is one array"
    );
    PackageError::new("StoreTypeError", "not_iterable", message)
}

#[pymethods]
impl Selection {
    /// Earliest civil time of the selected indices, gaps included; None without civil time or samples.
    ///
    /// Returns:
    ///     An `isochrony.Time`, or None. Edges: that of the first index, in a gap too.
    ///
    /// Raises:
    ///     isochrony.StoreError: the clock of the signal cannot be read.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(250, "i2"))
    /// >>> signal[50:150].start_time, signal[3:3].start_time
    /// (Time('2026-01-01T00:00:00.500Z'), None)
    #[getter]
    fn start_time(&self) -> Result<Option<Time>> {
        Ok(extent(&self.selection)?.map(|(start, _)| start))
    }

    /// Civil time of the end of the last selected sample; None where `start_time` is.
    ///
    /// Returns:
    ///     An `isochrony.Time`, or None. Edges: one sample period after the last index, in a gap too.
    ///
    /// Raises:
    ///     isochrony.StoreError: the clock of the signal cannot be read.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(250, "i2"))
    /// >>> signal[50:150].end_time
    /// Time('2026-01-01T00:00:01.500Z')
    #[getter]
    fn end_time(&self) -> Result<Option<Time>> {
        Ok(extent(&self.selection)?.map(|(_, end)| end))
    }

    /// Seconds from `start_time` to `end_time`, gaps included, a `fractions.Fraction`; nominal without civil time.
    ///
    /// Returns:
    ///     A `fractions.Fraction`, exact.
    ///
    /// Raises:
    ///     isochrony.StoreError: the clock of the signal cannot be read.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100)
    /// >>> _ = signal.append(np.zeros(250, "i2"))
    /// >>> signal[50:150].start_time, signal[50:150].duration
    /// (None, Fraction(1, 1))
    #[getter]
    fn duration<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        duration(py, &self.selection)
    }

    /// The value at a position of `values()`, counted from 0 at the first selected index; negative: from the end.
    ///
    /// Returns:
    ///     A NumPy scalar in the unit: of the signal's dtype if uncalibrated, else float64 (complex128).
    ///
    /// Raises:
    ///     isochrony.StoreTypeError: a position that is no whole number, such as a slice.
    ///     isochrony.StoreIndexError: outside the selection.
    ///     isochrony.GapError: there is no sample.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, scale=0.5)
    /// >>> _ = signal.append(np.arange(10, dtype="i2"))
    /// >>> signal[4:8][0], signal[4:8][-1]
    /// (np.float64(2.0), np.float64(3.5))
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        if !is_index(key) {
            let got = key.get_type().name()?;
            let message = format!(
                "got {got} where a position in a selection is expected; cut the signal instead, \
                 selection.signal[a:b], or the array, selection.values()[a:b]"
            );
            return Err(PackageError::new("StoreTypeError", "bad_key", message).into());
        }
        let segment = at_position(key.py(), &self.selection, as_index(key)?)?;
        Ok(crate::signal::segment::values(py, &segment)?.get_item(0)?)
    }

    fn __iter__(&self) -> Result<Py<PyAny>> {
        Err(not_iterable("selection").into())
    }
}

fn at_position(py: Python<'_>, selection: &StoreSelection, position: i64) -> Result<SigSeg> {
    let length = selection.len();
    let mut at = position + if position < 0 { length } else { 0 };
    if at < 0 {
        at = length;
    }
    for part in selection.parts() {
        let here = part.range.end - part.range.start;
        if at < here {
            let index = part.range.start + at;
            return segment_of(py, &selection.signal().select(index..index + 1)?);
        }
        at -= here;
    }
    let name = selection.signal().name();
    let message = match length {
        0 => format!(
            "position {position} is outside an empty selection of signal {name:?}; test its length before, len(selection)"
        ),
        _ => format!(
            "position {position} is outside the selection of {length} indices of signal {name:?}; give one from {} to {}",
            -length,
            length - 1
        ),
    };
    Err(PackageError::new("StoreIndexError", "out_of_bounds", message).into())
}

#[pymethods]
impl Signal {
    /// Earliest civil time of the signal; None without civil time or samples. `duration` has an example.
    ///
    /// Returns:
    ///     An `isochrony.Time`, or None.
    ///
    /// Raises:
    ///     isochrony.StoreError: the clock of the signal cannot be read.
    ///
    /// >>> signal.start_time
    /// Time('2026-01-01T00:00:00Z')
    #[getter]
    fn start_time(&self, py: Python<'_>) -> Result<Option<Time>> {
        self.pick(py, None, Default::default())?.start_time()
    }

    /// Civil time of the end of the latest sample; None where `start_time` is. `duration` has an example.
    ///
    /// Returns:
    ///     An `isochrony.Time`, or None.
    ///
    /// Raises:
    ///     isochrony.StoreError: the clock of the signal cannot be read.
    ///
    /// >>> signal.end_time
    /// Time('2026-01-01T00:00:10Z')
    #[getter]
    fn end_time(&self, py: Python<'_>) -> Result<Option<Time>> {
        self.pick(py, None, Default::default())?.end_time()
    }

    /// Seconds from `start_time` to `end_time`, gaps included, a `fractions.Fraction`; nominal without civil time.
    ///
    /// Returns:
    ///     A `fractions.Fraction`, exact.
    ///
    /// Raises:
    ///     isochrony.StoreError: the clock of the signal cannot be read.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(250, "i2"))
    /// >>> signal.start_time, signal.end_time, signal.duration
    /// (Time('2026-01-01T00:00:00Z'), Time('2026-01-01T00:00:02.500Z'), Fraction(5, 2))
    #[getter]
    fn duration<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        self.pick(py, None, Default::default())?.duration(py)
    }

    /// The contiguous segments in index order, split at gaps and clock steps, without copies.
    ///
    /// Returns:
    ///     A list of `Segment`; empty without samples.
    ///
    /// Raises:
    ///     isochrony.StoreError: samples cannot be read.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100)
    /// >>> _ = signal.append(np.zeros(3, "i2")), signal.append_gap(samples=2), signal.append(np.zeros(4, "i2"))
    /// >>> [(segment.start, segment.end) for segment in signal.segments]
    /// [(0, 3), (5, 9)]
    #[getter]
    fn segments(&self, py: Python<'_>) -> Result<Vec<Segment>> {
        self.pick(py, None, Default::default())?.segments(py)
    }

    /// Civil times of all indices, gaps included, one per element of `values()`.
    ///
    /// Returns:
    ///     A new array, shape (n,), datetime64[ns], rounded to the nanosecond. Edges: those of `values()`.
    ///
    /// Raises:
    ///     isochrony.StoreError: the signal has no civil time.
    ///     isochrony.TimeError: outside the years 1678 to 2262.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(2, "i2"))
    /// >>> signal.times()
    /// array(['2026-01-01T00:00:00.000000000', '2026-01-01T00:00:00.010000000'],
    ///       dtype='datetime64[ns]')
    fn times<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        self.pick(py, None, Default::default())?.times(py)
    }

    fn __iter__(&self) -> Result<Py<PyAny>> {
        Err(not_iterable("signal").into())
    }
}
